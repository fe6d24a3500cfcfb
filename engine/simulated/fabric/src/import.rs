//! Files of others that say what runs on a fabric.

pub mod aicb;
pub mod goal;
