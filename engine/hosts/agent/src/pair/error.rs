//! Why a pair cannot be used.

use kelpie_engine::MeasureError;
use kelpie_spaces::units::percent;

use super::file::PairFileError;

/// Why a pair cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// Its file was refused.
    #[error(transparent)]
    File(#[from] PairFileError),
    /// The asynchronous runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
    /// Simple traffic could not be measured.
    #[error("cannot calibrate the bounds of the pair: write `bounds` in its file, or repair this")]
    Calibration(#[source] MeasureError),
    /// Simple traffic moved nothing.
    #[error("no traffic passed while calibrating the bounds of the pair ({events}): check cabling, addresses and MTU")]
    NoTraffic {
        /// What the hardware reported.
        events: String,
    },
    /// Equal traffic differs by so much that no verdict is possible.
    #[error("equal traffic differs by {} from run to run while calibrating: find what else uses the hosts or the network", percent(*.0))]
    Unsteady(f64),
    /// A host cannot be used.
    #[error(transparent)]
    Host(MeasureError),
}
