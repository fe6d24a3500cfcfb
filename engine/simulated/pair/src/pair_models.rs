//! The models of both hosts of a pair: each has its NIC, its memories, its applications and the rate of its cables.

use kelpie_spaces::Host;

use crate::model::Model;

/// A model for each host.
#[derive(Debug, Clone, Copy)]
pub struct PairModels<'m>([&'m Model; 2]);

impl<'m> PairModels<'m> {
    /// Hosts `a` and `b`.
    pub fn new(a: &'m Model, b: &'m Model) -> Self {
        Self([a, b])
    }

    /// The model of a host.
    pub fn of(self, host: Host) -> &'m Model {
        self.0[host.index()]
    }

    /// What belongs to neither host: seed, samples, noise, the switch, the length of cables and the trunk of leaves are
    /// as the model of host `a` has them.
    pub fn common(self) -> &'m Model {
        self.0[0]
    }

    /// READs and atomics of a QP on their way, on which both ends agree.
    pub fn max_reads(self) -> u32 {
        self.0.map(|model| model.processing.max_reads).into_iter().fold(u32::MAX, u32::min)
    }
}

impl<'m> From<&'m Model> for PairModels<'m> {
    fn from(model: &'m Model) -> Self {
        Self::new(model, model)
    }
}
