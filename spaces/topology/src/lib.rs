//! Hosts, NICs, switches and links as data (`topology/1`), and routes through them as pure functions.
//!
//! A file describes one host or one cluster. A host's links are the ones inside it: PCIe, sockets, memory, GPUs. A
//! cluster's links are the cables between NICs, leaves and spines.

pub mod host;

pub use host::HostTopology;
