//! A simulated fabric of many hosts, at the level of flows: max-min fair rates of jobs, and how they change when links
//! fail. No clock, no I/O; equal seeds give equal results.

pub mod carried;
pub mod compare;
pub mod dynamics;
pub mod max_min;
pub mod peer;
pub mod problem;
mod ranks;
mod timeline;

pub use problem::{FlowRates, ProblemError, RateProblem, Solver};
pub use ranks::{InjectedFault, SimulatedRanks, SimulatedRanksError};
pub use timeline::{QpSourcePorts, TimelineMoment, TimelineRun, busbw_gbps, planned, rates_gbps, unsteered, ways};
