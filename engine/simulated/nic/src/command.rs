//! A command of the driver, and what commands take. What the NIC makes of one is in `commands`.

use kelpie_events::Picos;

/// What a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// A queue pair.
    Qp,
    /// A memory region.
    Region,
}

/// A command as the driver posts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// What it is about.
    pub object: Object,
    /// Which one; no QP and no region of the traffic.
    pub number: u32,
    /// Whether it makes the object, or destroys it.
    pub makes: bool,
}

/// What commands take.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandTimes {
    /// The firmware, for each command.
    pub firmware: Picos,
    /// The pipeline is held for so long by a command that destroys, so that nothing in it still knows the object.
    pub hold: Picos,
}
