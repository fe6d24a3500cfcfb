//! `kelpie mfs check`: whether a workload is anomalous, likely so, safe or unknown, and what to change.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use kelpie_belief::{MeasuredNeighbour, Strange};
use kelpie_campaign::UnstoredOracle;
use kelpie_campaign::text::condition_lines;
use kelpie_engine::MeasureError;
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_monitor::{Bounds, Verdict, measure_judged};
use kelpie_reports::answer::{Adviser, Answer, Answered, Reason};
use kelpie_reports::subsystem_history::{self, StoredExperiment, StoredFinding, SubsystemHistory};
use kelpie_reports::ways_out::{LiveSubsystem, WayOut, WayOutState};
use kelpie_search::distil;
use kelpie_spaces::{Condition, Feature, FeatureValue, Space, Workload};
use kelpie_store::{CampaignId, Store};
use serde_json::{Map, Value, json};

use crate::args::Common;
use crate::cli::MfsCheckArgs;
use crate::exit;
use crate::inputs;
use crate::output::{note, percent, plural, print, print_json};

/// What is said of a workload: the answer that decides, those for other subsystems, and ways out.
struct MfsCheck<'a> {
    subsystem: SubsystemCampaigns<'a>,
    answered: Answered<'a>,
    others: Vec<(SubsystemCampaigns<'a>, Answered<'a>)>,
    ways: Vec<WayOut>,
}

/// A subsystem with the campaigns on it, which tell two of one name apart.
struct SubsystemCampaigns<'a> {
    name: &'a str,
    campaigns: &'a [CampaignId],
}

impl<'a> SubsystemCampaigns<'a> {
    fn of(adviser: &'a Adviser<'a>) -> Self {
        Self { name: adviser.subsystem(), campaigns: adviser.campaigns() }
    }
}

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
    if common.json { print_json(&document(&checked)) } else { print(&text(&checked)) }?;
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
    let mut live = Live { bounds: opened.subsystem().bounds(), opened };
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

/// A subsystem that is measured while ways out are looked for.
struct Live<'o> {
    opened: &'o mut OpenedSubsystem,
    bounds: Bounds,
}

impl Live<'_> {
    /// Whether a workload is anomalous; `None` if that cannot be told.
    fn verdict(&mut self, workload: &Workload) -> Result<Option<bool>, MeasureError> {
        let subsystem = self.opened.subsystem();
        let judged =
            measure_judged(workload, &self.bounds, |workload, attempt| subsystem.measure_again(workload, attempt))?;
        Ok(match judged.assessment.verdict {
            Verdict::Anomalous => Some(true),
            Verdict::Healthy => Some(false),
            Verdict::Inconclusive => None,
        })
    }
}

impl LiveSubsystem for Live<'_> {
    type Error = MeasureError;

    fn is_anomalous(&mut self, workload: &Workload) -> Result<Option<bool>, MeasureError> {
        match self.verdict(workload) {
            // A way that this subsystem does not have is none; the next may be.
            Err(MeasureError::Unsupported { .. }) => Ok(None),
            other => other,
        }
    }

    fn needs(&mut self, workload: &Workload) -> Result<Vec<Condition>, MeasureError> {
        note("no known change helps; the workload is reduced to what its anomaly needs, in some 25 experiments");
        let space = Space::catalog("full").expect("a space of the catalogue");
        let distilled = distil(&space, workload, &mut UnstoredOracle::new(self.opened.subsystem()))?;
        Ok(distilled.into_iter().flat_map(|one| one.cures).map(|cure| cure.condition).collect())
    }
}

fn document(checked: &MfsCheck<'_>) -> Value {
    let Answered { answer, probability, findings, nearest, .. } = &checked.answered;
    let finding = |kept: &&StoredFinding| {
        json!({
            "campaign": kept.campaign, "subsystem": kept.subsystem, "id": kept.finding.number,
            "symptom": kept.finding.symptom, "mfs": kept.finding.mfs, "confidence": kept.finding.confidence,
        })
    };
    let near = |(neighbour, measured): &(MeasuredNeighbour<'_>, StoredExperiment)| {
        json!({
            "campaign": measured.campaign, "experiment": measured.number, "anomalous": neighbour.is_anomalous,
            "distance": neighbour.distance, "workload": neighbour.workload,
        })
    };
    let way = |way: &WayOut| {
        let change = way.change.to.iter().map(|(feature, value)| (feature.name().to_owned(), json!(value)));
        json!({
            "change": change.collect::<Map<_, _>>(), "words": way.change.words, "state": way.state,
            "probability": way.probability, "likely_to_help": way.helps(), "also_changes": way.change.others,
            "workload": way.change.workload,
        })
    };
    let other = |(subsystem, answered): &(SubsystemCampaigns<'_>, Answered<'_>)| {
        json!({
            "subsystem": subsystem.name, "campaigns": subsystem.campaigns, "answer": answered.answer,
            "probability": answered.probability, "reason": reason(answered),
        })
    };
    json!({
        "answer": answer, "probability": probability,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "nearest": nearest.iter().map(near).collect::<Vec<_>>(),
        "ways_out": checked.ways.iter().map(way).collect::<Vec<_>>(),
        "subsystem": checked.subsystem.name, "campaigns": checked.subsystem.campaigns,
        "reason": reason(&checked.answered),
        "others": checked.others.iter().map(other).collect::<Vec<_>>(),
    })
}

fn text(checked: &MfsCheck<'_>) -> String {
    let Answered { answer, findings, nearest, .. } = &checked.answered;
    let is_like = |subsystem: &SubsystemCampaigns<'_>| {
        let others = checked.others.iter().map(|(other, _)| other).chain([&checked.subsystem]);
        others.filter(|other| other.name == subsystem.name).count() > 1
    };
    let named = |subsystem: &SubsystemCampaigns<'_>| {
        let campaigns: Vec<String> = subsystem.campaigns.iter().map(ToString::to_string).collect();
        let apart = if is_like(subsystem) { format!(" (campaign {})", campaigns.join(", ")) } else { String::new() };
        format!("{}{apart}", subsystem.name)
    };
    let mut text = format!("{} on {}: {}\n", word(*answer), named(&checked.subsystem), reason(&checked.answered));
    for (index, StoredFinding { campaign, finding, .. }) in findings.iter().enumerate() {
        let _ = writeln!(text, "\ninside {campaign}.{} {}", finding.number, finding.symptom.name());
        match findings[..index].iter().find(|other| other.finding.has_conditions_of(finding)) {
            Some(twin) => _ = writeln!(text, "    the conditions of {}.{}", twin.campaign, twin.finding.number),
            None => text += &condition_lines(&finding.region_by_need()),
        }
    }
    if answer.wants_ways_out() {
        text += if checked.ways.is_empty() { "\nno way out is known\n" } else { "\nways out, the best known first:\n" };
    }
    for way in &checked.ways {
        let _ = writeln!(text, "  {}{}: {}", way.change.words, also(way), outlook(way));
    }
    // What was measured itself needs no neighbours.
    let is_stored = matches!(checked.answered.reason, Reason::Stored(_));
    let nearest = if is_stored { &[] } else { &nearest[..] };
    if !nearest.is_empty() {
        text += "\nnearest measured:\n";
    }
    for (neighbour, measured) in nearest {
        let verdict = if neighbour.is_anomalous { "anomalous" } else { "healthy" };
        let _ = writeln!(
            text,
            "  {verdict}, experiment {} of campaign {}, at distance {:.2}",
            measured.number, measured.campaign, neighbour.distance
        );
    }
    for (subsystem, answered) in &checked.others {
        let _ = writeln!(text, "\n{} on {}: {}", word(answered.answer), named(subsystem), reason(answered));
    }
    text
}

fn word(answer: Answer) -> String {
    match answer {
        Answer::Anomalous => console::style("anomalous").red().bold().to_string(),
        Answer::Likely => console::style("likely anomalous").red().to_string(),
        Answer::Unknown => console::style("unknown").yellow().to_string(),
        Answer::Safe => console::style("safe").green().to_string(),
    }
}

/// Why this is the answer.
fn reason(answered: &Answered<'_>) -> String {
    let [low, high] = answered.probability;
    match &answered.reason {
        Reason::Stored(StoredExperiment { campaign, number, is_anomalous, .. }) => {
            let verdict = if *is_anomalous { "anomalous" } else { "healthy" };
            format!("experiment {number} of campaign {campaign} measured it {verdict}")
        }
        Reason::Settled(Some(true)) => "measured anomalous".to_owned(),
        Reason::Settled(Some(false)) => "measured healthy".to_owned(),
        Reason::Settled(None) => "measuring it was inconclusive".to_owned(),
        Reason::Inside => format!("inside a finding of which at least {} is anomalous", percent(low)),
        Reason::Estimated(estimate) => {
            let all = plural(estimate.as_healthy as u64, "measured workload");
            let at_least = match answered.answer {
                Answer::Safe if estimate.as_healthy == 0 => "; it looks healthier than each measured one".to_owned(),
                Answer::Safe => format!(
                    "; of {all} that look at least as healthy {} anomalous",
                    match estimate.anomalous_of_them {
                        0 => "none was".to_owned(),
                        1 => "1 was".to_owned(),
                        more => format!("{more} were"),
                    }
                ),
                Answer::Unknown => "; too little was measured here".to_owned(),
                Answer::Anomalous | Answer::Likely => String::new(),
            };
            format!("anomalous with a probability of {} to {}{at_least}", percent(low), percent(high))
        }
        Reason::Strange(Strange::Word { feature, word }) => {
            format!("nothing comparable is stored: {feature} {word} was never measured")
        }
        Reason::Strange(Strange::Number { feature, number, nearest }) => format!(
            "too little is known here: {feature} {} is {} {}, the nearest that was measured; `--measure S` settles it",
            feature.written(*number),
            if number < nearest { "below" } else { "above" },
            feature.written(*nearest)
        ),
        Reason::Nothing => "nothing comparable is stored: no experiment has a verdict".to_owned(),
    }
}

fn outlook(way: &WayOut) -> String {
    match way.state {
        WayOutState::MeasuredHealthy => "measured, healthy".to_owned(),
        WayOutState::MeasuredAnomalous => "measured, still anomalous".to_owned(),
        WayOutState::Estimated => {
            let [low, high] = way.probability;
            let still = format!("still anomalous with a probability of {} to {}", percent(low), percent(high));
            match way {
                _ if way.was_tried => format!("measured without a verdict, {still}"),
                _ if way.helps() => format!("likely to help, {still}"),
                _ => still,
            }
        }
    }
}

/// What moves with a change.
fn also(way: &WayOut) -> String {
    if way.change.others.is_empty() {
        return String::new();
    }
    let others = way.change.others.iter().map(|feature| format!("{feature} {}", shown(*feature, &way.change.workload)));
    format!(" (then {})", others.collect::<Vec<_>>().join(", "))
}

fn shown(feature: Feature, workload: &Workload) -> String {
    match workload.feature(feature) {
        FeatureValue::Number(number) => feature.written(number),
        FeatureValue::Category(word) => word,
    }
}
