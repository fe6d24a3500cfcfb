//! What annealing is compared with: random points, with the same regions and the same skipping.

use crate::oracle::{Oracle, Purpose};
use crate::session::Session;
use crate::triage;

/// Independent random points outside known regions. Source: Collie, section 7.2, the fair comparison.
pub(crate) fn random<O: Oracle>(session: &mut Session<'_, O>) -> Result<(), O::Error> {
    while let Some(workload) = session.unknown_point() {
        let seen = session.measure(&workload, Purpose::Search)?;
        if seen.is_anomalous() {
            triage::catch_up(session)?;
        }
    }
    triage::finish(session)
}
