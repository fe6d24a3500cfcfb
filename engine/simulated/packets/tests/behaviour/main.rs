//! How simulated fabrics behave.

mod common;
mod control;
mod failures;
mod properties;
mod reliability;
mod sampled;
mod transfers;
