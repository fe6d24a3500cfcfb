//! What counts of values that were measured more than once: the best of each direction.

use std::collections::BTreeMap;

use crate::names::full_name;
use crate::results::Better;
use crate::unit::{Outcome, Unit, UnitValue};

/// A host, or the sender and the receiver.
pub type Way<'u> = (&'u str, Option<&'u str>);

/// A value, and the unit in which it was measured.
pub type MeasuredValue<'u> = (&'u Unit, &'u UnitValue);

/// The best value of each direction, by metric with its component.
pub fn best_values(units: &[Unit]) -> BTreeMap<String, BTreeMap<Way<'_>, MeasuredValue<'_>>> {
    let mut best: BTreeMap<String, BTreeMap<Way<'_>, MeasuredValue<'_>>> = BTreeMap::new();
    for unit in units {
        let Outcome::Values(values) = &unit.outcome else { continue };
        for value in values {
            let name = full_name(&value.metric, &unit.key.component);
            let way = (value.from.as_str(), value.to.as_deref());
            let kept = best.entry(name).or_default().entry(way).or_insert((unit, value));
            let (before, now) = (kept.1.typical(), value.typical());
            let is_better = if value.better == Better::Higher { now > before } else { now < before };
            if is_better {
                *kept = (unit, value);
            }
        }
    }
    best
}
