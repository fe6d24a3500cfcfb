//! How simulated fabrics behave.

mod common;
mod failures;
mod properties;
mod reliability;
mod transfers;
