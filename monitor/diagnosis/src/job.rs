//! Across a job: from what operations took to slow or hanging ranks and connections. Nothing is measured here.
//!
//! Source: C4 (Dong et al., HPCA 2025), section on C4D, for the matrix and its patterns; thresholds are ours.

mod bandwidth;
mod between;
mod bursts;
mod cascade;
mod clocks;
mod diagnose;
mod explain;
mod flight;
mod follow;
mod hang;
mod history;
mod mismatch;
mod news;
mod noise;
mod operation;
mod pace;
mod pair_times;
mod peers;
mod pickle;
mod placement;
mod places;
mod read;
mod record;
mod trace;
mod varying;
mod waiting;
mod window;

pub use bandwidth::{Baseline, Slower};
pub use between::Between;
pub use cascade::{Cause, causes};
pub use diagnose::{Evidence, FaultClass, JobDiagnosis, JobQuestion, JobVerdict, Whereabouts, diagnose};
pub use follow::{RecordFollower, Skipped};
pub use hang::PATIENCE_US;
pub use history::{Chart, threshold};
pub use news::{JobNews, JobState, Said};
pub use operation::{JobOperations, Operation};
pub use peers::{Peers, peers};
pub use placement::{Placement, RankLocation, accused, place, placement};
pub use places::Fault;
pub use read::{JobError, Jobs, MAX_OPERATIONS, Reader, read};
pub use record::{JobKey, OperationRecord, Reporter};
pub use window::{RecordEffect, Window};
