//! Time that work waited, by flow, side and cause. Which of it limits a run is in `limiting`.

use kelpie_events::Picos;
use kelpie_nic::waits::{Cause, Side};

/// Time that work of each flow waited on each side, by cause.
#[derive(Debug, Clone, Default)]
pub struct Waits(Vec<(u32, Side, Cause, Picos)>);

impl Waits {
    /// Work of a flow waited.
    pub fn add(&mut self, flow: u32, side: Side, cause: Cause, span: Picos) {
        let known = self.0.iter_mut().find(|row| (row.0, row.1, row.2) == (flow, side, cause));
        match known {
            Some(row) => row.3 += span,
            None => self.0.push((flow, side, cause, span)),
        }
    }

    /// The same since a moment before.
    pub fn since(&self, before: &Self) -> impl Iterator<Item = (u32, Side, Cause, Picos)> {
        self.0.iter().map(|(flow, side, cause, span)| {
            let then = before.0.iter().find(|row| (row.0, row.1, row.2) == (*flow, *side, *cause));
            (*flow, *side, *cause, then.map_or(*span, |row| *span - row.3))
        })
    }
}
