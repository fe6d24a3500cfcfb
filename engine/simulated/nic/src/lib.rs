//! The parts of a simulated NIC. They see doorbells, WQEs, packets and their own memories; no workload can be named
//! here.

mod atomics;
pub mod begin;
pub mod cache;
pub mod command;
mod commands;
pub mod config;
mod held;
pub mod memory;
pub mod nic;
pub mod packet;
mod passing;
pub mod path;
pub mod pcie;
mod pipeline;
mod port;
pub mod qp;
pub mod reads;
mod receive;
mod receive_ring;
mod send;
pub mod sequence;
mod timeouts;
pub mod units;
pub mod waits;
mod wire;
