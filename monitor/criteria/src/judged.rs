//! Values of a run as they were judged: the best of each direction, and how good it is.

use crate::fleet_verdict::{MeasuredFault, NodeFault};
use crate::learn::Criterion;
use crate::results::Better;
use crate::unit::{Unit, UnitValue};

/// A node that measures so many times what others do is not believed. Source: our choice; the next generation of links
/// is twice as fast.
const IMPLAUSIBLE: f64 = 2.5;

/// A value that was judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'u> {
    /// Where it was measured.
    pub unit: &'u Unit,
    /// The value.
    pub value: &'u UnitValue,
    /// How good it is, from 0 to 1.
    pub similarity: f64,
    /// Whether it is worse than it may be.
    pub is_slow: bool,
}

impl Judged<'_> {
    /// The value against its criterion.
    pub fn against(&self, criterion: &Criterion) -> MeasuredFault {
        MeasuredFault {
            metric: self.value.metric.clone(),
            got: self.value.typical(),
            want: criterion.typical(),
            unit: self.value.unit.clone(),
            similarity: self.similarity,
        }
    }

    /// Whether what is at the criterion would be slow next to it, and it is to be believed.
    pub fn is_ahead(&self, criterion: &Criterion) -> bool {
        is_ahead(self.value.typical(), criterion)
    }

    /// As what is wrong with a node.
    pub fn fault(&self, measured: MeasuredFault, detail: String) -> NodeFault {
        let key = &self.unit.key;
        NodeFault { check: key.check.clone(), component: key.component.clone(), measured: Some(measured), detail }
    }
}

/// Whether what is at the criterion would be slow next to a value, and the value is to be believed.
pub fn is_ahead(value: f64, criterion: &Criterion) -> bool {
    let alike = times(value, criterion.typical(), criterion) * criterion.alpha;
    (1.0..=IMPLAUSIBLE).contains(&alike)
}

fn times(got: f64, want: f64, criterion: &Criterion) -> f64 {
    match criterion.direction.better {
        Better::Higher => got / want,
        Better::Lower => want / got,
    }
}

/// How many times better a value is than it can be, if so: the more values vary, the better some are.
pub fn implausible(measured: &MeasuredFault, criterion: &Criterion) -> Option<f64> {
    let times = times(measured.got, measured.want, criterion);
    (times * criterion.alpha > IMPLAUSIBLE).then_some(times)
}
