//! What simulations by discrete events are made of: time, the event queue, servers. No clock, no randomness.

mod servers;
mod time;

pub use servers::{FifoCache, Pool, Server, pressure};
pub use time::{Events, Ps, Rate, ns};
