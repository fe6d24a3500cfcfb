//! `kelpie campaign export`: a campaign as tables. What is in them is in `kelpie_reports::export`.

use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_reports::export;
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::campaigns;
use crate::cli::ExportCampaignArgs;
use crate::exit;
use crate::output::{plural, print, print_json};

/// Writes the tables.
pub fn run(args: &ExportCampaignArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(&args.database.database()?)?;
    let id = campaigns::chosen(&mut store, args.id)?;
    let exported = export::write(&mut store, id, args.format, &args.out)
        .with_context(|| format!("export campaign {id} to {}", args.out.display()))?;
    if common.json {
        print_json(&json!({
            "campaign": id, "out": args.out, "files": exported.files,
            "experiments": exported.experiments, "findings": exported.findings,
        }))?;
    } else {
        print(&format!(
            "campaign {id}: {}, {}\n{}\n",
            plural(exported.experiments, "experiment"),
            plural(exported.findings, "finding"),
            exported.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n")
        ))?;
    }
    Ok(exit::HEALTHY)
}
