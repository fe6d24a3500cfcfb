//! What simulations by discrete events are made of: time, the event queue, servers. No clock, no randomness, no NIC.

mod queue;
mod servers;
mod time;
mod wheel;

pub use queue::Events;
pub use servers::Server;
pub use time::{Picos, Rate};
pub use wheel::Wheel;
