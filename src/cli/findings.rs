//! Arguments of `kelpie findings`. What it does lives in `commands::import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::DatabaseArgs;

#[derive(Debug, Subcommand)]
pub enum FindingsCommand {
    /// Put recipes into the database, so that `mfs list`, `mfs check` and later campaigns know them
    #[command(after_help = "Examples:\n  \
        kelpie findings import pause.tar.gz anomaly-4 --db fleet.db\n  \
        kelpie mfs check workload.yaml --db fleet.db")]
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Directories or archives of recipes
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub database: DatabaseArgs,
}
