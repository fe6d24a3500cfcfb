//! Criteria of a fleet, after SuperBench (Xiong et al., ATC 2024, section 3.4): what a healthy node measures is learnt
//! from all nodes, and a node whose measurements are unlike that is defective. Pure: no clock, no I/O but of the
//! readers, no randomness.

mod learn;
mod medoid;
mod results;
mod similarity;

pub use learn::{
    Criteria, CriteriaError, Criterion, FailedMetric, LearnError, LearnOptions, Learned, NodeState, NodeVerdict,
    Verdicts,
};
pub use results::{Better, Direction, MetricResults, Results, ResultsError, ResultsReader};
pub use similarity::{Norm, one_sided, similarity};
