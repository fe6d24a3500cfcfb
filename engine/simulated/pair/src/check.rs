//! What a model's values have to keep: each its domain, which the table of parameters has, and some a relation to each
//! other. Reading and changing them is in `load`.

use crate::model::Model;
use crate::parameters::{ParameterRow, TABLE};

/// A parameter outside of its domain.
#[derive(Debug)]
pub struct RefusedValue {
    /// Path of the parameter.
    pub path: String,
    /// Its value and the rule that it breaks.
    pub rule: String,
}

/// What was refused so far.
#[derive(Debug, Default)]
struct ModelCheck(Vec<RefusedValue>);

impl ModelCheck {
    fn refuse(&mut self, path: &str, value: impl std::fmt::Display, rule: &str) {
        self.0.push(RefusedValue { path: path.to_owned(), rule: format!("{value} {rule}") });
    }
}

/// The parameters that are not in their domain.
pub fn check(model: &Model) -> Vec<RefusedValue> {
    let mut checked = ModelCheck::default();
    if model.kelpie == "model/2" {
        let refused = |row: &ParameterRow| Some(RefusedValue { path: row.path.to_owned(), rule: row.refusal(model)? });
        checked.0.extend(TABLE.iter().filter_map(refused));
        check_relations(model, &mut checked);
    } else {
        checked.refuse("kelpie", &model.kelpie, "is not model/2, the only version this Kelpie reads");
    }
    checked.0
}

/// Checks what is bounded by another value, and the lengths of lists.
fn check_relations(model: &Model, checked: &mut ModelCheck) {
    let Model { switch, receive, host, .. } = model;
    if receive.xon_kib > receive.xoff_kib {
        checked.refuse("receive.xon_kib", receive.xon_kib, "must not be above xoff_kib");
    }
    if receive.xoff_kib > receive.capacity_kib {
        checked.refuse("receive.xoff_kib", receive.xoff_kib, "must not be above capacity_kib");
    }
    if switch.xon_kib > switch.xoff_kib {
        checked.refuse("switch.xon_kib", switch.xon_kib, "must not be above xoff_kib");
    }
    if host.dram.is_empty() || host.dram.len() > 64 || host.gpus.len() > 64 {
        checked.refuse("host.dram", host.dram.len(), "must list 1 to 64 NUMA nodes, and at most 64 GPUs");
    }
}
