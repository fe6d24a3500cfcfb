//! `kelpie mfs list`: the findings' conditions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use kelpie_campaign::document::FindingDocument;
use kelpie_monitor::Severity;
use kelpie_reports::brief;
use kelpie_reports::explained::Weighed;
use kelpie_reports::subsystem_history::{self, StoredFinding};
use kelpie_store::{CampaignId, Store};
use serde_json::json;

use crate::args::Common;
use crate::cli::MfsListArgs;
use crate::exit;
use crate::output::{Table, plural, print, print_json, width};

/// Lists the findings' conditions, the worst first.
pub fn list(args: &MfsListArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(&args.database.database()?)?;
    let kept = subsystem_history::findings(&mut store, args.campaign)?;
    let mut anomalies = BTreeMap::new();
    for campaign in kept.iter().map(|kept| kept.campaign) {
        if let Entry::Vacant(entry) = anomalies.entry(campaign) {
            entry.insert(store.anomalies(campaign)?);
        }
    }
    let measured: BTreeSet<CampaignId> =
        kept.iter().filter(|kept| !kept.finding.is_candidate()).map(|kept| kept.campaign).collect();
    // As in `campaign show`.
    let is_shown = |kept: &&StoredFinding| {
        kept.finding.variant_of().is_none() && !(kept.finding.is_candidate() && measured.contains(&kept.campaign))
    };
    let mut listed: Vec<(&StoredFinding, Weighed<'_>)> = kept
        .iter()
        .filter(is_shown)
        .map(|kept| (kept, Weighed::new(&kept.finding, &anomalies[&kept.campaign])))
        .collect();
    listed.sort_by(|(_, one), (_, other)| Severity::worst_first(one.severity, other.severity));
    if common.json {
        let row = |(kept, found): &(&StoredFinding, Weighed<'_>)| {
            json!({
                "campaign": kept.campaign, "subsystem": kept.subsystem, "finding": FindingDocument::from(*found),
            })
        };
        print_json(&json!({"findings": listed.iter().map(row).collect::<Vec<_>>()}))?;
    } else {
        let heading = ["finding", "subsystem", "symptom", "lost", "with", "conditions", "inside"];
        let mut table = Table::new(&heading, &[3, 6]);
        for (kept, Weighed { finding, severity, .. }) in &listed {
            table.row(vec![
                format!("{}.{}", kept.campaign, finding.number),
                kept.subsystem.clone(),
                finding.symptom.name().to_owned(),
                brief::lost(*severity),
                brief::shows_with(finding),
                brief::conditions(finding),
                brief::inside(finding),
            ]);
        }
        print(&format!("{}\n{}", plural(listed.len() as u64, "finding"), table.render_within("", width())))?;
    }
    Ok(exit::HEALTHY)
}
