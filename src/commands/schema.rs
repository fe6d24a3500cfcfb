//! `kelpie schema`: the JSON schemas of the files that Kelpie reads.

use std::process::ExitCode;

use kelpie_agent::PairFile;
use kelpie_fleet::inventory::Inventory;
use kelpie_reports::recipe;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::schema;

use crate::cli::{SchemaArgs, SchemaFormat};
use crate::exit;
use crate::output::{print, print_json};

/// Prints the schema.
pub fn run(args: &SchemaArgs) -> anyhow::Result<ExitCode> {
    match args.format {
        SchemaFormat::Workload => print_json(&schema::workload())?,
        SchemaFormat::Space => print_json(&schema::space())?,
        SchemaFormat::Model => print_json(&SimSubsystem::schema())?,
        SchemaFormat::Inventory => print_json(&Inventory::schema())?,
        SchemaFormat::Pair => print_json(&PairFile::schema())?,
        SchemaFormat::Recipe => print(recipe::SCHEMA)?,
    }
    Ok(exit::HEALTHY)
}
