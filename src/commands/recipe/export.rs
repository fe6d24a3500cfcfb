//! `kelpie recipe export`: from a finding to files.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use kelpie_reports::StoredCampaign;
use kelpie_reports::recipe::{self, Recipe};
use kelpie_spaces::perftest;
use serde_json::json;

use super::args::{ExportArgs, FindingOrAnomaly};
use super::source::Kept;
use super::{environment, source};
use crate::args::Common;
use crate::exit;
use crate::output::{note, print, print_json};

/// Writes a recipe.
pub fn run(args: &ExportArgs, common: Common) -> anyhow::Result<ExitCode> {
    let (recipe, lines) = match args.finding {
        FindingOrAnomaly::Anomaly(_) if args.doctor_a.is_some() || args.doctor_b.is_some() => {
            bail!(
                "--doctor-a and --doctor-b describe a real pair; the paper's anomalies are measured on a simulated one"
            )
        }
        FindingOrAnomaly::Anomaly(id) => {
            let recipe = source::of_paper(id)?;
            let lines = perftest::lines(&recipe.workload);
            (recipe, lines)
        }
        FindingOrAnomaly::Finding(id, number) => {
            let Kept { recipe, lines, campaign } = source::kept(&args.database, id, number)?;
            let examined = [&args.doctor_a, &args.doctor_b].map(Option::as_deref);
            let known = environment::of(&campaign.definition, args.with_identities, examined)?;
            let recipe = Recipe { environment: known.environment, ..recipe };
            (if args.with_identities { recipe } else { recipe::without_names(recipe, &known.names) }, lines)
        }
    };
    recipe::write(&args.out, &recipe::entries(&recipe, &lines)?)?;
    let reason = lines.err().map(|reason| reason.to_string());
    if common.json {
        print_json(&json!({
            "recipe": args.out, "finding": recipe.finding, "symptoms": recipe.expected.symptoms,
            "perftest": reason.is_none(), "perftest_reason": reason,
        }))?;
    } else {
        let perftest =
            reason.map_or_else(|| "with perftest lines".to_owned(), |reason| format!("no perftest lines: {reason}"));
        print(&format!("{}: {}, {perftest}\n", args.out.display(), recipe.finding))?;
    }
    Ok(exit::HEALTHY)
}

/// The recipes of a campaign's findings as archives, by the findings' numbers; none if a finding has no evidence.
pub fn archives(stored: &StoredCampaign) -> anyhow::Result<BTreeMap<u64, Vec<u8>>> {
    let known = environment::of(&stored.campaign.definition, false, [None; 2])?;
    let mut archives = BTreeMap::new();
    for finding in &stored.findings {
        let Some(recipe) = recipe::of_finding(stored, finding) else { continue };
        let recipe = Recipe { environment: known.environment.clone(), ..recipe };
        let recipe = recipe::without_names(recipe, &known.names);
        let lines = recipe::perftest_of(stored, finding);
        match recipe::entries(&recipe, &lines) {
            Ok(entries) => {
                archives.insert(finding.number, recipe::archive(&entries)?);
            }
            // One finding that a recipe cannot hold is no reason to go without a report.
            Err(error) => note(&format!("finding {}: no recipe: {error}", recipe.finding)),
        }
    }
    Ok(archives)
}
