//! `kelpie findings import`: recipes become findings of a database, each with the measurements that came with it.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use kelpie_reports::recipe;
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::cli::findings::ImportArgs;
use crate::exit;
use crate::output::{note, plural, print, print_json};

/// Imports recipes: all are read and checked before the first is stored.
pub fn run(args: &ImportArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut recipes = Vec::new();
    for path in &args.paths {
        recipes.push((path, recipe::read(path).with_context(|| path.display().to_string())?));
    }
    let database = args.database.database()?;
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
        print_json(&json!({"database": database.to_string(), "imported": rows}))?;
    } else {
        print(&text)?;
        note(&format!("{}, database {}", plural(recipes.len() as u64, "recipe"), database));
    }
    Ok(exit::HEALTHY)
}
