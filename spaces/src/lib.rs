//! The vocabulary of Kelpie: workloads, the space they live in, features and regions. No clock, no I/O.

pub mod constraints;
mod document;
pub mod features;
pub mod region;
pub mod units;
pub mod workload;
pub mod yaml;

pub use constraints::{Violation, check};
pub use document::DocumentError;
pub use features::{Feature, FeatureValue};
pub use region::{Condition, Region, Test};
pub use units::Bytes;
pub use workload::{
    Batch, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, QpType, Request, Workload,
};
pub use yaml::{WorkloadError, workload_from_bytes, workload_from_yaml, workload_to_yaml};
