//! When a region is built, and for which anomaly. How it is built lives in `mfs`.

use crate::mfs;
use crate::oracle::Oracle;
use crate::session::Session;

/// Share of all experiments that regions of new weaknesses may take.
///
/// Source: our choice, because on subsystem F the first 400 random points show 11 of the 13 weaknesses.
const NEW_SHARE: f64 = 0.85;

/// Share of all experiments that regions may take once everything seen resembles a known region.
///
/// Source: our choice, because such an anomaly is mostly a corner of a region already found.
const FAMILIAR_SHARE: f64 = 0.8;

/// Builds the regions of anomalies seen so far, the least familiar first, as far as the search can afford it.
pub(crate) fn catch_up<O: Oracle>(session: &mut Session<'_, O>) -> Result<(), O::Error> {
    while !session.is_warming_up() {
        let share = session.spent_on_regions as f64 / session.experiments() as f64;
        let is_closing = session.is_closing();
        if share > NEW_SHARE && !is_closing {
            break;
        }
        match session.candidate() {
            Some(candidate) if is_closing || candidate.is_new || share <= FAMILIAR_SHARE => {
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
