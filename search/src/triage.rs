//! When a region is built, and for which anomaly. How it is built lives in `mfs`.

use crate::mfs;
use crate::oracle::Oracle;
use crate::search_state::SearchState;

/// Builds the regions of anomalies seen so far, the least familiar first, as far as the search can afford it.
pub(crate) fn catch_up<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<(), O::Error> {
    let pace = search.config.tuning.pace;
    while !search.is_warming_up() {
        let share = search.spent_on_regions as f64 / search.experiments() as f64;
        let is_closing = search.is_closing();
        if share > pace.new_share && !is_closing {
            break;
        }
        match search.candidate() {
            Some(candidate) if is_closing || candidate.is_new || share <= pace.familiar_share => {
                mfs::construct(search, &candidate.sighting)?;
            }
            _ => break,
        }
    }
    Ok(())
}

/// Builds the regions of all anomalies that are left.
pub(crate) fn finish<O: Oracle>(search: &mut SearchState<'_, O>) -> Result<(), O::Error> {
    while let Some(candidate) = search.candidate() {
        mfs::construct(search, &candidate.sighting)?;
    }
    Ok(())
}
