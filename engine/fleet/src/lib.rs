//! A fleet: hosts with agents by an inventory, rounds over them, and what a qualification does to each.

pub mod inventory;
pub mod rounds;
