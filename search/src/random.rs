//! What guided search is compared with: independent random points, without counters.

use crate::mfs::KeptPart;
use crate::oracle::{Oracle, Purpose};
use crate::search_state::SearchState;

/// Independent random points outside known regions. Source: Collie, section 7.2, the fair comparison.
pub(crate) fn run<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<(), O::Error> {
    loop {
        search.between_steps(&[], 0)?;
        let Some(workload) = search.unknown_point() else { return Ok(()) };
        let seen = search.measure(&workload, Purpose::Search)?;
        if seen.is_anomalous() {
            KeptPart::Region.anomaly(search, &workload, &seen)?;
        }
    }
}
