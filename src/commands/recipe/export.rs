//! `kelpie recipe export`: from a finding to files.

use std::process::ExitCode;

use anyhow::bail;
use kelpie_campaign::environment;
use kelpie_campaign::recipes::{self, ExportedFinding};
use kelpie_reports::recipe::{self, Recipe};
use kelpie_spaces::perftest;
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::cli::recipe::{ExportRecipeArgs, FindingOrAnomaly};
use crate::exit;
use crate::output::{print, print_json};

/// Writes a recipe.
pub fn run(args: &ExportRecipeArgs, common: Common) -> anyhow::Result<ExitCode> {
    let (recipe, lines) = match args.finding {
        FindingOrAnomaly::Anomaly(_) if args.doctor_a.is_some() || args.doctor_b.is_some() => {
            bail!(
                "--doctor-a and --doctor-b describe a real pair; the paper's anomalies are measured on a simulated one"
            )
        }
        FindingOrAnomaly::Anomaly(id) => {
            let recipe = recipes::of_paper(id)?;
            let lines = perftest::lines(&recipe.workload);
            (recipe, lines)
        }
        FindingOrAnomaly::Finding(id, number) => {
            let ExportedFinding { recipe, lines, campaign } =
                recipes::kept(&mut Store::open_to_read(&args.database.database()?)?, id, number)?;
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
