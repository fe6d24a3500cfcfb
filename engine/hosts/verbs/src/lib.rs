//! The host side of real traffic, on libibverbs: the only crate with unsafe. What to measure is decided in the engine.
//!
//! Without its feature `rdma` the crate is empty, so that the workspace builds if no verbs headers are installed.
//! With it a binary still starts if libibverbs.so.1 is absent: the library is opened at run time.

#[cfg(feature = "rdma")]
mod address;
#[cfg(feature = "rdma")]
mod affinity;
#[cfg(feature = "rdma")]
mod ah;
#[cfg(feature = "rdma")]
mod churn;
#[cfg(feature = "rdma")]
mod cq;
#[cfg(feature = "rdma")]
mod device;
#[cfg(feature = "rdma")]
mod error;
#[cfg(feature = "rdma")]
mod gpu;
#[cfg(feature = "rdma")]
mod group;
#[cfg(feature = "rdma")]
mod lane;
#[cfg(feature = "rdma")]
mod latency;
#[cfg(feature = "rdma")]
mod libibverbs_host;
#[cfg(feature = "rdma")]
mod library;
#[cfg(feature = "rdma")]
mod memory;
#[cfg(feature = "rdma")]
mod mr;
#[cfg(feature = "rdma")]
mod pace;
#[cfg(feature = "rdma")]
mod parallel;
#[cfg(feature = "rdma")]
mod pd;
#[cfg(feature = "rdma")]
mod pool;
#[cfg(feature = "rdma")]
mod qp;
#[cfg(feature = "rdma")]
mod rank;
#[cfg(feature = "rdma")]
mod requester;
#[cfg(feature = "rdma")]
mod responder;
#[cfg(feature = "rdma")]
mod rotation;
#[cfg(feature = "rdma")]
mod traffic;
#[cfg(feature = "rdma")]
mod traffic_state;
#[cfg(feature = "rdma")]
mod verb;

#[cfg(feature = "rdma")]
pub use error::VerbsError;
#[cfg(feature = "rdma")]
pub use libibverbs_host::LibibverbsHost;
