//! `kelpie schema`: the JSON schemas of the files that Kelpie reads.

use std::process::ExitCode;

use kelpie_agent::PairFile;
use kelpie_reports::recipe;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::schema;

use crate::cli::{Format, SchemaArgs};
use crate::exit;
use crate::output::{print, print_json};

/// Prints the schema.
pub fn run(args: &SchemaArgs) -> anyhow::Result<ExitCode> {
    match args.format {
        Format::Workload => print_json(&schema::workload())?,
        Format::Space => print_json(&schema::space())?,
        Format::Model => print_json(&SimSubsystem::schema())?,
        Format::Pair => print_json(&PairFile::schema())?,
        Format::Recipe => print(recipe::SCHEMA)?,
    }
    Ok(exit::HEALTHY)
}
