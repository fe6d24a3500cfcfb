//! What the diagnosis of a job reads, keeps and asks for outside of itself: its files, a watcher's state, schedulers.

pub mod files;
pub mod scheduler;
pub mod state;
