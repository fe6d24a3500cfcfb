//! Which link of a host is slow (Hostping), and which rank or connection of a job (C4D). No I/O, no clock.

pub mod host;
pub mod matrix;
mod statistics;

pub use matrix::{Matrix, MatrixError};
