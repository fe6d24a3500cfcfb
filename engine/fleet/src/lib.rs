//! A fleet: hosts with agents by an inventory, rounds over them, and what a qualification does to each.

pub mod apply;
pub mod auto;
pub mod campaign_check;
pub mod campaigns;
pub mod command;
mod doctor;
pub mod health;
pub mod import;
pub mod inventory;
mod measure;
pub mod past;
mod place;
pub mod plan;
pub mod qualification;
mod ring;
pub mod roll_call;
pub mod rounds;
pub mod scan;
pub mod traffic;
