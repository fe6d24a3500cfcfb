//! Criteria of a fleet, after SuperBench (Xiong et al., ATC 2024, section 3.4): what a healthy node measures is learnt
//! from all nodes, and a node whose measurements are unlike that is defective. Pure: no clock, no I/O but of the
//! readers, no randomness.

mod best;
mod decide;
mod evidence;
mod fleet;
mod fleet_verdict;
mod judged;
mod learn;
mod learner;
mod medoid;
mod names;
mod pairs;
mod results;
mod similarity;
mod steps;
pub mod superbench;
mod unit;

pub use best::{MeasuredValue, best_values};
pub use decide::{Decision, PairTable};
pub use evidence::SMALL;
pub use fleet::FleetJudge;
pub use fleet_verdict::{FleetState, FleetVerdict, MeasuredFault, NodeFault, NodeQualification, SlowPath};
pub use learn::{
    Criteria, CriteriaError, Criterion, FailedMetric, LearnError, LearnOptions, Learned, NodeState, NodeVerdict,
    Verdicts,
};
pub use names::{full_name, pair_name};
pub use results::{Better, Direction, MetricResults, Results, ResultsError, ResultsReader};
pub use similarity::{Norm, one_sided, similarity};
pub use steps::{Series, SeriesError, Steps};
pub use unit::{HostFailure, NOT_ASKED, Outcome, Unit, UnitKey, UnitValue};
