//! Answers of diagnosis and of qualification in words: what is broken, where, how much, and the next step.

pub mod fleet;
pub mod host;
pub mod job;
pub mod job_event;
pub mod paths;
