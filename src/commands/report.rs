//! `kelpie report`: a stored campaign as a site. What is in it is in `kelpie_reports::site`.

use std::process::ExitCode;

use kelpie_campaign::{document, recipes};
use kelpie_reports::explained::Explained;
use kelpie_reports::{StoredCampaign, site};
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::campaigns;
use crate::cli::ReportArgs;
use crate::exit;
use crate::gate;
use crate::output::{note, plural, print, print_json};

/// Writes the site.
pub fn run(args: &ReportArgs, common: Common) -> anyhow::Result<ExitCode> {
    let gate = args.gate.read()?;
    // Before anything is read, because that may take a while.
    site::check_target(&args.out, args.force)?;
    let mut store = Store::open_to_read(&args.database.database()?)?;
    let id = campaigns::chosen(&mut store, args.id)?;
    let mut stored = StoredCampaign::read(&mut store, id)?;
    stored.changed = document::changed(&stored.campaign.definition);
    let recipes = recipes::archives(&stored, &note)?;
    let (mut names, mut bytes) = (Vec::new(), 0);
    site::publish(&args.out, args.force, |write| {
        site::render(&stored, recipes, &gate, &mut |file| {
            bytes += file.bytes.len();
            names.push(file.name.clone());
            write(file)
        })
    })?;
    let anomalies = stored.anomalies();
    let explained = Explained::new(&stored.findings, &anomalies);
    let ruling = args.gate.gate.then(|| gate.rule(&explained, &stored.campaign, stored.has_verdict()));
    let index = args.out.join("index.html");
    if common.json {
        let mut document = json!({
            "campaign": id, "out": args.out, "index": index, "experiments": stored.points.len(),
            "findings": stored.findings.len(), "bytes": bytes, "files": names,
        });
        if let Some(ruling) = &ruling {
            document["gate"] = json!(ruling);
        }
        print_json(&document)?;
    } else {
        print(&format!(
            "campaign {id}: {}, {}\n{}\n",
            plural(stored.points.len() as u64, "experiment"),
            explained.findings_in_words(),
            index.display()
        ))?;
    }
    Ok(match ruling {
        Some(ruling) => {
            let next = campaigns::next_step(&stored.campaign, store.database());
            gate::exit_of(&ruling, next.as_deref())
        }
        None => exit::HEALTHY,
    })
}
