//! `kelpie recipe export`: from a finding to files.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use kelpie_reports::recipe::{self, Recipe};
use kelpie_spaces::perftest::{self, Inexpressible, Lines};
use kelpie_store::{Campaign, Store};
use serde_json::json;

use super::{ExportArgs, FindingName, environment, source};
use crate::cli::Common;
use crate::commands::findings::claims;
use crate::exit;
use crate::output::{print, print_json};

/// Writes a recipe.
pub fn run(args: &ExportArgs, common: Common) -> anyhow::Result<ExitCode> {
    let recipe = match args.finding {
        FindingName::Known(_) if args.doctor_a.is_some() || args.doctor_b.is_some() => {
            bail!(
                "--doctor-a and --doctor-b describe a real pair; the paper's anomalies are measured on a simulated one"
            )
        }
        FindingName::Known(id) => source::of_paper(id)?,
        FindingName::Kept(id, number) => {
            let (recipe, campaign) = source::kept(&args.database, id, number)?;
            let examined = [&args.doctor_a, &args.doctor_b].map(Option::as_deref);
            let known = environment::of(&campaign.plan, args.with_identities, examined)?;
            let recipe = Recipe { environment: known.environment, ..recipe };
            if args.with_identities { recipe } else { without_names(recipe, &known.names) }
        }
    };
    let lines = perftest::lines(&recipe.workload);
    recipe::write(&args.out, &entries(&recipe, &lines)?)?;
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

/// The files of a recipe.
fn entries(recipe: &Recipe, lines: &Result<Lines, Inexpressible>) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut json_text = serde_json::to_string_pretty(recipe)?;
    json_text.push('\n');
    // Whoever gets it must be able to read it.
    recipe::parse(&json_text)?;
    let mut entries = vec![(recipe::RECIPE, json_text), (recipe::README, recipe::readme(recipe, lines))];
    if let Ok(lines) = lines {
        entries.push((recipe::PERFTEST, recipe::perftest_text(lines)));
    }
    Ok(entries)
}

/// The recipes of a campaign's findings as archives, by the findings' numbers; none where a finding has no evidence.
pub fn archives(store: &mut Store, campaign: &Campaign) -> anyhow::Result<BTreeMap<u64, Vec<u8>>> {
    let findings = claims(store, campaign)?;
    let known = environment::of(&campaign.plan, false, [None; 2])?;
    let mut archives = BTreeMap::new();
    for (number, recipe) in source::of_findings(store, campaign, findings)? {
        let recipe = without_names(Recipe { environment: known.environment.clone(), ..recipe }, &known.names);
        let lines = perftest::lines(&recipe.workload);
        archives.insert(number, recipe::archive(&entries(&recipe, &lines)?)?);
    }
    Ok(archives)
}

/// Takes names and addresses out of the only free text that a measurement has.
fn without_names(mut recipe: Recipe, names: &[String]) -> Recipe {
    let seen = std::iter::once(&mut recipe.anomalous).chain(recipe.healthy.as_mut().map(|healthy| &mut healthy.seen));
    for event in seen.flat_map(|seen| &mut seen.hardware_events) {
        *event = recipe::scrub(event, names);
    }
    recipe
}
