//! `kelpie mfs list`: the findings' conditions.

use std::process::ExitCode;

use kelpie_reports::known::{self, Kept};
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::cli::MfsListArgs;
use crate::commands::findings::{FindingDocument, finding_text};
use crate::exit;
use crate::output::{plural, print, print_json};

/// Lists the findings' conditions.
pub fn list(args: &MfsListArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(&args.database.path()?)?;
    let kept = known::findings(&mut store, args.campaign)?;
    if common.json {
        let row = |kept: &Kept| {
            json!({
                "campaign": kept.campaign, "subsystem": kept.subsystem,
                "finding": FindingDocument::from(&kept.finding),
            })
        };
        print_json(&json!({"findings": kept.iter().map(row).collect::<Vec<_>>()}))?;
    } else {
        let texts: Vec<String> = kept.iter().map(|kept| finding_text(kept.campaign, &kept.finding)).collect();
        print(&format!("{}\n{}", plural(kept.len() as u64, "finding"), texts.concat()))?;
    }
    Ok(exit::HEALTHY)
}
