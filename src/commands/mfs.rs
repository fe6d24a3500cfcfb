//! `kelpie mfs list`: the findings' conditions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::process::ExitCode;

use kelpie_monitor::Severity;
use kelpie_reports::explained::Weighed;
use kelpie_reports::known::{self, Kept};
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::cli::MfsListArgs;
use crate::commands::findings::{FindingDocument, finding_text};
use crate::exit;
use crate::output::{plural, print, print_json};

/// Lists the findings' conditions, the worst first.
pub fn list(args: &MfsListArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(&args.database.path()?)?;
    let kept = known::findings(&mut store, args.campaign)?;
    let mut anomalies = BTreeMap::new();
    for campaign in kept.iter().map(|kept| kept.campaign) {
        if let Entry::Vacant(entry) = anomalies.entry(campaign) {
            entry.insert(store.anomalies(campaign)?);
        }
    }
    let mut listed: Vec<(&Kept, Weighed<'_>)> =
        kept.iter().map(|kept| (kept, Weighed::new(&kept.finding, &anomalies[&kept.campaign]))).collect();
    listed.sort_by(|(_, one), (_, other)| Severity::worst_first(one.severity, other.severity));
    if common.json {
        let row = |(kept, found): &(&Kept, Weighed<'_>)| {
            json!({
                "campaign": kept.campaign, "subsystem": kept.subsystem, "finding": FindingDocument::from(*found),
            })
        };
        print_json(&json!({"findings": listed.iter().map(row).collect::<Vec<_>>()}))?;
    } else {
        let texts: Vec<String> = listed.iter().map(|(kept, found)| finding_text(kept.campaign, found)).collect();
        print(&format!("{}\n{}", plural(listed.len() as u64, "finding"), texts.concat()))?;
    }
    Ok(exit::HEALTHY)
}
