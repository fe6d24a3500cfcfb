//! `kelpie mfs check`: whether a workload is anomalous, likely so, safe or unknown, and what to change.

use std::collections::BTreeSet;
use std::process::ExitCode;

use kelpie_campaign::measured_ways::MeasuredWays;
use kelpie_campaign::mfs_answer::{MfsCheck, SubsystemCampaigns, document, text};
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_reports::answer::{Adviser, Answer, Answered};
use kelpie_reports::subsystem_history::{self, SubsystemHistory};
use kelpie_spaces::Workload;
use kelpie_store::Store;

use crate::args::Common;
use crate::cli::MfsCheckArgs;
use crate::exit;
use crate::inputs;
use crate::output::{note, print, print_json};

/// Runs the command.
pub fn check(args: &MfsCheckArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = inputs::read_workload(&args.workload)?;
    let database = args.list.database.database()?;
    // What is measured needs no database.
    let needs_database = args.measure.is_none() || args.list.campaign.is_some() || database.exists();
    let mut store = if needs_database { Some(Store::open_to_read(&database)?) } else { None };
    let mut opened =
        args.measure.as_deref().map(|name| anyhow::Ok((name, inputs::open_subsystem(name)?))).transpose()?;
    let subsystem = args.subsystem.as_deref().filter(|_| opened.is_none());
    if let (Some(measured), Some(other)) = (&args.measure, &args.subsystem)
        && measured != other
    {
        note(&format!("--subsystem {other} changes nothing: the answer is that of {measured}, which is measured"));
    }
    let mut known = Vec::new();
    if let Some(store) = &mut store {
        let source = opened.as_ref().map(|(_, opened)| opened.source());
        known = subsystem_history::known(store, args.list.campaign, subsystem, source.as_deref())?;
        if let Some(subsystem) = subsystem.filter(|_| known.is_empty()) {
            note_stored(store, subsystem)?;
        }
    }
    if known.is_empty() {
        known.push(SubsystemHistory::nothing(args.measure.as_deref().or(subsystem).unwrap_or("any subsystem")));
    }
    let advisers: Vec<Adviser<'_>> = known.iter().map(Adviser::new).collect();
    let checked = match &mut opened {
        Some((name, opened)) => measured(&advisers[0], &workload, name, opened)?,
        None => estimated(&advisers, &workload),
    };
    if common.json { print_json(&document(&checked)) } else { print(&text(&checked, word)) }?;
    Ok(match checked.answered.answer {
        Answer::Anomalous | Answer::Likely => exit::anomalous(),
        Answer::Safe => exit::HEALTHY,
        Answer::Unknown => exit::failed(),
    })
}

/// Says which subsystems are stored instead of one that is not.
fn note_stored(store: &mut Store, subsystem: &str) -> anyhow::Result<()> {
    let campaigns = store.campaigns()?;
    let names: BTreeSet<&str> = campaigns.iter().map(|campaign| campaign.definition.subsystem.as_str()).collect();
    if names.contains(subsystem) {
        return Ok(());
    }
    let names: Vec<&str> = names.into_iter().collect();
    let stored = if names.is_empty() { "none is".to_owned() } else { format!("stored are {}", names.join(", ")) };
    note(&format!("no campaign on {subsystem} is stored; {stored}"));
    Ok(())
}

/// For each subsystem the answer of its experiments; the one to care for most decides.
fn estimated<'a>(advisers: &'a [Adviser<'a>], workload: &Workload) -> MfsCheck<'a> {
    let mut all: Vec<(&Adviser<'_>, Answered<'_>)> =
        advisers.iter().map(|adviser| (adviser, adviser.answer(workload))).collect();
    all.sort_by_key(|(_, answered)| answered.answer);
    let mut all = all.into_iter();
    let (adviser, answered) = all.next().expect("there is one adviser at least");
    let ways = if answered.answer.wants_ways_out() { adviser.ways_out(workload) } else { Vec::new() };
    let others = all.map(|(adviser, answered)| (SubsystemCampaigns::of(adviser), answered)).collect();
    MfsCheck { subsystem: SubsystemCampaigns::of(adviser), answered, others, ways }
}

/// What measuring shows, with ways out that experiments on the same model or pair file propose.
fn measured<'a>(
    adviser: &'a Adviser<'a>,
    workload: &Workload,
    name: &'a str,
    opened: &mut OpenedSubsystem,
) -> anyhow::Result<MfsCheck<'a>> {
    let mut live = MeasuredWays::new(opened, note);
    let answered = adviser.settled(workload, live.verdict(workload)?);
    let ways = match answered.answer {
        Answer::Anomalous => adviser.measured_ways_out(workload, &mut live)?,
        _ => Vec::new(),
    };
    Ok(MfsCheck {
        subsystem: SubsystemCampaigns { name, campaigns: adviser.campaigns() },
        answered,
        others: Vec::new(),
        ways,
    })
}

fn word(answer: Answer) -> String {
    match answer {
        Answer::Anomalous => console::style("anomalous").red().bold().to_string(),
        Answer::Likely => console::style("likely anomalous").red().to_string(),
        Answer::Unknown => console::style("unknown").yellow().to_string(),
        Answer::Safe => console::style("safe").green().to_string(),
    }
}
