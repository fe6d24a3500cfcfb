//! The search: algorithms over a space, and the minimal feature set of what they find. No I/O, no clock.

mod annealing;
mod bayes;
mod checkpoint;
mod config;
mod discovery;
mod energy;
mod finding;
mod kelpie;
mod mfs;
mod oracle;
mod outcome;
mod random;
mod search_state;
mod signals;

pub use checkpoint::Checkpoint;
pub use config::{Algorithm, AnnealingSchedule, Config, SignalSet, UnknownName};
pub use finding::{Cure, Finding, FindingEvidence, REFINED, TriedTransport, wilson};
pub use kelpie::{Distilled, distil};
pub use oracle::{Oracle, Purpose};
pub use signals::{Observation, UTILISATION, is_diagnostic, measured_signals};

use kelpie_spaces::Space;

use mfs::KeptPart;
use search_state::SearchState;

/// Searches `space` for anomalies until `oracle` stops it, or until the regions found cover the space.
///
/// A pure function of its arguments and the oracle's answers: equal answers give equal questions, in order.
///
/// # Errors
/// The oracle's first error, unchanged: its budget is spent, someone asked to stop, or measuring failed.
pub fn run<O: Oracle>(space: &Space, config: &Config, oracle: &mut O) -> Result<(), O::Error> {
    run_from(space, config, None, oracle)
}

/// The same from a checkpoint of such a search, if there is one: what is asked is what would have been asked after it.
/// A checkpoint of another algorithm or version is not looked at.
///
/// # Errors
/// As [`run`].
pub fn run_from<O: Oracle>(
    space: &Space,
    config: &Config,
    checkpoint: Option<Checkpoint>,
    oracle: &mut O,
) -> Result<(), O::Error> {
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.is_of(config));
    if config.algorithm == Algorithm::Kelpie {
        return kelpie::run(space, config, checkpoint, oracle);
    }
    let mut search = SearchState::new(space, config, checkpoint, oracle);
    match config.algorithm {
        Algorithm::Kelpie | Algorithm::Collie => annealing::run(&mut search, KeptPart::Region),
        Algorithm::Anneal => annealing::run(&mut search, KeptPart::Workload),
        Algorithm::Random => random::run(&mut search),
        Algorithm::Bayes => bayes::run(&mut search),
    }
}

#[cfg(test)]
mod closed_form;
#[cfg(test)]
mod search_tests;
