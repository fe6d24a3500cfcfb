//! The search: annealing and baselines over a space, and the minimal feature set of what they find. No I/O, no clock.

mod annealing;
mod baselines;
mod config;
mod energy;
mod finding;
mod history;
mod mfs;
mod oracle;
mod search_state;
mod sightings;
mod signals;
mod triage;
mod tuning;

pub use config::{Algorithm, Config, SignalSet, UnknownName};
pub use finding::{Cure, Finding, FindingEvidence};
pub use oracle::{Oracle, Purpose};
pub use signals::{Observation, UTILISATION, is_diagnostic};
pub use tuning::{Likeness, Memory, MfsLimits, Pace, Reduction, Schedule, Tuning, TuningError};

use kelpie_spaces::Space;

use search_state::SearchState;

/// Searches `space` for anomalies until `oracle` stops it, or until the regions found cover the space.
///
/// A pure function of its arguments and the oracle's answers: equal answers give equal questions, in order.
///
/// # Errors
/// The oracle's first error, unchanged: its budget is spent, someone asked to stop, or measuring failed.
pub fn run<O: Oracle>(space: &Space, config: &Config, oracle: &mut O) -> Result<(), O::Error> {
    let mut search = SearchState::new(space, config, oracle);
    match config.algorithm {
        Algorithm::Collie => annealing::run(&mut search, annealing::Skipping::Known),
        Algorithm::Anneal => annealing::run(&mut search, annealing::Skipping::Nothing),
        Algorithm::Random => baselines::random(&mut search),
    }
}

#[cfg(test)]
mod closed_form;
#[cfg(test)]
mod search_tests;
