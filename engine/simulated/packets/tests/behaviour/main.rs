//! How simulated fabrics behave.

mod common;
mod control;
mod failures;
mod papers;
mod properties;
mod reliability;
mod sampled;
mod transfers;
