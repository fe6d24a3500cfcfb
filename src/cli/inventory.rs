//! The arguments of `kelpie inventory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
pub enum InventoryCommand {
    /// Ask all agents of an inventory whether they are there, side by side
    #[command(after_help = "Exit status: 0 all answer, 1 one does not.\n\n\
        Examples:\n  kelpie inventory check hosts.yaml\n  kelpie inventory check hosts.yaml --json")]
    Check(CheckInventoryArgs),
}

#[derive(Debug, Args)]
pub struct CheckInventoryArgs {
    /// The hosts, format inventory/1
    #[arg(value_name = "INVENTORY.yaml", value_hint = ValueHint::FilePath)]
    pub inventory: PathBuf,
}
