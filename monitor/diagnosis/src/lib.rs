//! Which link of a host is slow (Hostping), and which rank or connection of a job (C4D). No clock; only `discover`
//! reads files, those of a host.

pub mod discover;
pub mod host;
pub mod import;
pub mod job;
pub mod matrix;
pub mod ports;

pub use matrix::{Matrix, MatrixError};
