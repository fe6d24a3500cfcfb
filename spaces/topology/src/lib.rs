//! Hosts, NICs, switches and links as data (`topology/1`), and routes through them as pure functions.
//!
//! A file describes one host or one cluster. A host's links are the ones inside it: PCIe, sockets, memory, GPUs. A
//! cluster's links are the cables between NICs, leaves and spines.

pub mod cluster;
pub mod ecmp;
pub mod host;

pub use cluster::{Attach, Cluster, FabricLink, FabricPart, PortSide, Working};
pub use ecmp::{EcmpPath, FlowKey};
pub use host::HostTopology;
