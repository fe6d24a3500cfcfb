//! A simulated fabric at the level of packets: hosts with NICs, switches with shared buffers, PFC and ECN, reliable
//! connections, congestion control. No clock, no I/O; equal input gives equal output, on any number of threads.
//!
//! A packet costs two events for each link that it crosses: it begins to leave, and it arrives. What is touched then
//! lies together: a port is one line of the cache, a packet is half of one, and its ways are chosen before it leaves.

mod bitmap;
pub mod congestion;
mod early;
mod error;
mod hash;
mod layout;
mod marks;
mod network;
mod nic;
mod outcome;
mod packet;
mod port;
mod routes;
mod run;
mod selective;
mod series;
mod settings;
mod shard;
mod threads;
mod transport;
mod ways;

pub use error::RunError;
pub use marks::{EcnCurve, MarkEcho};
pub use network::{Link, MessageForm, Network, NodeKind, PortName, QpForm, Traffic, Trigger};
pub use outcome::{LinkUse, MessageTimes, Outcome, QpEnd, Unfinished};
pub use run::{LinkEvent, run, run_watched};
pub use series::{PortSeries, QpSeries, Series, Watch};
pub use settings::{BufferSettings, EcmpHash, Recovery, Settings, WindowRule};
pub use shard::Counters;
pub use ways::{DirectedLink, ways};
