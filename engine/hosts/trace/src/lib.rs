//! What a verbs program did: recording, reading, and the workload and space that follow from it.
//! The library that listens to the program is `engine/hosts/verbs/preload`.

mod class;
mod derive;
mod ends;
mod pattern;
mod record;
mod recorder;
mod space;
mod trace;

pub use kelpie_spaces::Opcode;

pub use derive::{Derived, Seen, Unsaid, derive};
pub use record::{ROWS, WORDS, always_used};
pub use recorder::{Caps, Kind, MrDevice, Recorder, Row};
pub use trace::{Mr, OpCount, Process, Qp, ReadError, Trace, Unrecorded, process};

#[cfg(test)]
mod tests;
