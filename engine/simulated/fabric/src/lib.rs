//! A simulated fabric of many hosts. At the level of flows: max-min fair rates of jobs, and how they change when links
//! fail. At the level of packets (`kelpie_packets`), of flows or of formulas: programs of GPUs, and the files of other
//! simulators. No clock, no I/O; equal seeds give equal results.

pub mod analytic;
pub mod answer;
mod answer_text;
pub mod carried;
pub mod compare;
pub mod dynamics;
pub mod experiment;
pub mod fluid;
pub mod import;
pub mod max_min;
pub mod packet_settings;
pub mod peer;
pub mod physical;
pub mod problem;
mod ranks;
mod timeline;

pub use answer_text::side_by_side;
pub use problem::{FlowRates, ProblemError, RateProblem, Solver};
pub use ranks::{InjectedFault, SimulatedRanks, SimulatedRanksError};
pub use timeline::{QpSourcePorts, TimelineMoment, TimelineRun, busbw_gbps, planned, rates_gbps, unsteered, ways};
