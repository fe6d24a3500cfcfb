//! `kelpie campaign baseline`: the anomalies of a campaign as a file that a gate accepts.

use std::io::ErrorKind;
use std::process::ExitCode;

use kelpie_reports::baseline::Baseline;
use kelpie_reports::explained::{self, Explained};
use kelpie_reports::folder;
use kelpie_reports::gate::Gate;
use kelpie_store::Store;
use serde_json::json;

use crate::args::Common;
use crate::campaigns;
use crate::cli::BaselineArgs;
use crate::exit;
use crate::output::{plural, print, print_json};

/// Writes the findings of a campaign as accepted.
pub fn write(args: &BaselineArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(&args.database.database()?)?;
    let id = campaigns::chosen(&mut store, args.id)?;
    let (findings, anomalies) = explained::read(&mut store, id)?;
    let findings = store.campaign(id)?.definition.in_whole_space(findings)?;
    let explained = Explained::new(&findings, &anomalies);
    let baseline = Baseline::of(&explained, args.unexplained);
    folder::write_file(&args.out, baseline.to_yaml().as_bytes(), args.force).map_err(|error| {
        let hint = if error.kind() == ErrorKind::AlreadyExists { " (--force replaces it)" } else { "" };
        anyhow::anyhow!(error).context(format!("{}{hint}", args.out.display()))
    })?;
    let stopping = Gate { least: 0.0, baseline: baseline.clone() }.stopping(&explained).len();
    if common.json {
        print_json(&json!({"campaign": id, "out": args.out, "accepted": baseline.len(), "not_accepted": stopping}))?;
    } else {
        let accepted = plural(baseline.len() as u64, "region");
        let left = plural(stopping as u64, "anomalous experiment");
        print(&format!("campaign {id}: {accepted} accepted, {left} not\n{}\n", args.out.display()))?;
    }
    Ok(exit::HEALTHY)
}
