//! The vocabulary of Kelpie: workloads, the space they live in, features and regions. No clock, no I/O.

pub mod units;
pub mod workload;

pub use units::Bytes;
pub use workload::{
    Batch, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, QpType, Request, Workload,
};
