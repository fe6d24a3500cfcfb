//! Hosts, NICs, switches and links as data (`topology/1`), and routes through them as pure functions.
//!
//! A file describes one host, one cluster or one fabric. A host's links are the ones inside it: PCIe, sockets, memory,
//! GPUs. A cluster's links are the cables between NICs, leaves and spines; a fabric is all of them by a template, down
//! to the node and the cable.

pub mod cluster;
pub mod ecmp;
pub mod fabric;
pub mod fabric_graph;
pub mod host;

pub use cluster::{Attach, Cluster, FabricLink, FabricPart, PortSide, Working};
pub use ecmp::{EcmpPath, FlowKey};
pub use fabric::{Fabric, FabricTemplate};
pub use fabric_graph::{FabricCable, FabricGraph, FabricNode};
pub use host::HostTopology;
