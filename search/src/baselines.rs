//! What annealing is compared with: random points, with the same regions and the same skipping.

use crate::oracle::{Oracle, Purpose};
use crate::search_state::SearchState;
use crate::triage;

/// Independent random points outside known regions. Source: Collie, section 7.2, the fair comparison.
pub(crate) fn random<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<(), O::Error> {
    while let Some(workload) = search.unknown_point() {
        let seen = search.measure(&workload, Purpose::Search)?;
        if seen.is_anomalous() {
            triage::catch_up(search)?;
        }
    }
    triage::finish(search)
}
