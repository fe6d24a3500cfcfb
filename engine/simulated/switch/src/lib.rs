//! The parts of a simulated switch, and of any port: buffers with priority flow control (PFC), queues, wires, links.
//! They know bytes and time; what a packet is, which way it goes and what drives them is up to the simulation around
//! them.
//!
//! Time is an argument. No part allocates once its queues have been as long as they get, and none is random. A
//! simulation that drives a [`Switch`] hands it packets and is told by [`Neighbours`] what leaves and what is due; one
//! that needs less, such as a NIC's port, is made of the parts.

mod buffer;
mod link;
mod packet;
mod queue;
mod spell;
mod switch;
mod wire;

pub use buffer::{Arrival, BufferForm, SharedBuffer, Signal, Threshold};
pub use link::Link;
pub use packet::Packet;
pub use queue::EgressQueue;
pub use spell::Spell;
pub use switch::{Neighbours, Switch};
pub use wire::{Turn, Wire};
