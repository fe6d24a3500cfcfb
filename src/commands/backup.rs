//! `kelpie campaign backup`: a copy of a database, also while a campaign runs. How it is made is in the store.

use std::process::ExitCode;

use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::cli::BackupArgs;
use crate::exit;
use crate::output::{plural, print, print_json};

/// Writes the copy.
pub fn run(args: &BackupArgs, common: Common) -> anyhow::Result<ExitCode> {
    let database = args.database.database()?;
    let mut store = Store::open_to_read(&database)?;
    store.backup(&args.out)?;
    let campaigns = Store::open_to_read(&args.out)?.campaigns()?;
    let experiments: u64 = campaigns.iter().map(|campaign| campaign.experiments).sum();
    if common.json {
        print_json(&json!({
            "database": database.to_string(), "out": args.out, "campaigns": campaigns.len(), "experiments": experiments,
        }))?;
    } else {
        let (campaigns, experiments) = (plural(campaigns.len() as u64, "campaign"), plural(experiments, "experiment"));
        print(&format!("{}: {campaigns}, {experiments}\n", args.out.display()))?;
    }
    Ok(exit::HEALTHY)
}
