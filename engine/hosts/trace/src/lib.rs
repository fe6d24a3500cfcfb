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

pub use derive::{Derived, ObservedTraffic, Unsaid, derive};
pub use record::{ROWS, WORDS, always_used};
pub use recorder::{MrDevice, QpRow, QpRowKind, QueueDepths, Recorder};
pub use trace::{OpCount, Process, ReadError, Trace, TracedMr, TracedQp, Unrecorded, process};

#[cfg(test)]
mod tests;
