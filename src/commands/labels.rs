//! `kelpie campaign label` and `rm`: what a campaign is called, and its end.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use kelpie_campaign::text::words;
use kelpie_store::{Campaign, Label, Store};
use serde_json::json;

use crate::args::Common;
use crate::cli::{LabelArgs, LabelCommandArgs, RmArgs};
use crate::exit;
use crate::output::{note, plural, print, print_json};

impl LabelArgs {
    /// What is to be stored; nothing if nothing was given.
    pub fn label(&self) -> Option<Label> {
        let label = Label { name: self.name.clone(), note: self.note.clone() };
        (label != Label::default()).then_some(label)
    }
}

/// Stores a name, a note or both.
pub fn label(args: &LabelCommandArgs, common: Common) -> anyhow::Result<ExitCode> {
    let Some(label) = args.label.label() else { bail!("give --name, --note or both") };
    let mut store = Store::open_to_write(&args.database.database()?)?;
    store.put_label(args.id, &label)?;
    let label = store.label(args.id)?;
    if common.json {
        print_json(&json!({"campaign": args.id, "name": label.name, "note": label.note}))?;
    } else {
        print(&format!("campaign {}: {}\n", args.id, words(&label)))?;
    }
    Ok(exit::HEALTHY)
}

/// Asks whether a campaign is to be removed.
fn is_wanted(campaign: &Campaign) -> anyhow::Result<bool> {
    let (id, experiments) = (campaign.id, plural(campaign.experiments, "experiment"));
    if !std::io::stdin().is_terminal() {
        bail!("campaign {id} has {experiments}, and nothing brings them back; --yes removes them");
    }
    eprint!("Remove campaign {id} with {experiments}? Nothing brings it back. [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Removes a campaign.
pub fn remove(args: &RmArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_write(&args.database.database()?)?;
    let campaign = store.campaign(args.id)?;
    if !args.yes && !is_wanted(&campaign)? {
        note("nothing was removed");
        return Ok(exit::failed());
    }
    store.remove_campaign(args.id)?;
    if common.json {
        print_json(&json!({
            "campaign": args.id, "removed": true, "experiments": campaign.experiments, "findings": campaign.findings,
        }))?;
    } else {
        let experiments = plural(campaign.experiments, "experiment");
        let findings = plural(campaign.findings, "finding");
        print(&format!("campaign {}: removed, with {experiments} and {findings}\n", args.id))?;
    }
    Ok(exit::HEALTHY)
}
