//! Inside a host: from matrices of loopback traffic to slow links and wrong settings. Nothing is measured here.
//!
//! Source: Hostping (Liu et al., NSDI 2023) for the procedure and the three colours; the rest is ours and says so.

mod causes;
mod diagnose;
mod error;
mod expected;
mod explain;
mod intermittent;
mod misconfiguration;
mod paths;
mod published;
mod rounds;
pub mod watch;

pub use causes::{CandidateCause, CauseReading};
pub use diagnose::{HostDiagnosis, HostQuestion, HostVerdict, SlowLink, diagnose};
pub use error::HostDiagnosisError;
pub use expected::Reference;
pub use intermittent::Intermittent;
pub use paths::PathState;
