//! `kelpie findings import`: recipes become findings of a database, each with the measurements that came with it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use kelpie_reports::recipe;
use kelpie_store::Store;
use serde_json::json;

use crate::args::{Common, DatabaseArgs};
use crate::exit;
use crate::output::{note, plural, print, print_json};

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

/// Imports recipes: all are read and checked before the first is stored.
pub fn run(args: &ImportArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut recipes = Vec::new();
    for path in &args.paths {
        recipes.push((path, recipe::read(path).with_context(|| path.display().to_string())?));
    }
    let database = args.database.path()?;
    let mut store = Store::create(&database)?;
    let mut rows = Vec::new();
    let mut text = String::new();
    for (path, recipe) in &recipes {
        let (id, new) = recipe::import(&mut store, recipe).with_context(|| path.display().to_string())?;
        let what = if new { "is now" } else { "was there already as" };
        let _ = writeln!(text, "{}: {} {what} finding {id}.1", path.display(), recipe.finding);
        rows.push(json!({"recipe": path, "campaign": id, "id": 1, "new": new}));
    }
    if common.json {
        print_json(&json!({"database": database, "imported": rows}))?;
    } else {
        print(&text)?;
        note(&format!("{}, database {}", plural(recipes.len() as u64, "recipe"), database.display()));
    }
    Ok(exit::HEALTHY)
}
