//! When a region is built, and for which anomaly. How it is built lives in `mfs`.

use crate::mfs;
use crate::oracle::Oracle;
use crate::session::Session;

/// Builds the regions of anomalies seen so far, the least familiar first, as far as the search can afford it.
pub(crate) fn catch_up<O: Oracle>(session: &mut Session<'_, O>) -> Result<(), O::Error> {
    let pace = session.config.tuning.pace;
    while !session.is_warming_up() {
        let share = session.spent_on_regions as f64 / session.experiments() as f64;
        let is_closing = session.is_closing();
        if share > pace.new_share && !is_closing {
            break;
        }
        match session.candidate() {
            Some(candidate) if is_closing || candidate.is_new || share <= pace.familiar_share => {
                mfs::construct(session, &candidate.sighting)?;
            }
            _ => break,
        }
    }
    Ok(())
}

/// Builds the regions of all anomalies that are left.
pub(crate) fn finish<O: Oracle>(session: &mut Session<'_, O>) -> Result<(), O::Error> {
    while let Some(candidate) = session.candidate() {
        mfs::construct(session, &candidate.sighting)?;
    }
    Ok(())
}
