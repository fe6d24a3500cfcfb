//! The parts of a simulated NIC. They see doorbells, WQEs, packets and their own memories; no workload can be named
//! here.

pub mod buffer;
pub mod cache;
pub mod memory;
pub mod ordering;
pub mod pcie;
pub mod reads;
pub mod sequence;
pub mod units;
