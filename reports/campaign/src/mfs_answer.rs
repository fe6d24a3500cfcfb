//! What `kelpie mfs check` says of a workload, in words and as JSON.

use std::fmt::Write as _;

use kelpie_belief::{MeasuredNeighbour, Strange};
use kelpie_reports::answer::{Adviser, Answer, Answered, Reason};
use kelpie_reports::subsystem_history::{StoredExperiment, StoredFinding};
use kelpie_reports::ways_out::{WayOut, WayOutState};
use kelpie_spaces::{Feature, FeatureValue, Workload};
use kelpie_store::CampaignId;
use kelpie_text::{percent, plural};
use serde_json::{Map, Value, json};

use crate::text::condition_lines;

/// What is said of a workload: the answer that decides, those for other subsystems, and ways out.
#[derive(Debug)]
pub struct MfsCheck<'a> {
    /// The subsystem of the answer that decides.
    pub subsystem: SubsystemCampaigns<'a>,
    /// That answer.
    pub answered: Answered<'a>,
    /// Those for other subsystems.
    pub others: Vec<(SubsystemCampaigns<'a>, Answered<'a>)>,
    /// Changes that may help, the best known first.
    pub ways: Vec<WayOut>,
}

/// A subsystem with the campaigns on it, which tell two of one name apart.
#[derive(Debug)]
pub struct SubsystemCampaigns<'a> {
    /// Its name.
    pub name: &'a str,
    /// Campaigns on it.
    pub campaigns: &'a [CampaignId],
}

impl<'a> SubsystemCampaigns<'a> {
    /// Of what answers for a subsystem.
    pub fn of(adviser: &'a Adviser<'a>) -> Self {
        Self { name: adviser.subsystem(), campaigns: adviser.campaigns() }
    }
}

/// The answer as JSON.
pub fn document(checked: &MfsCheck<'_>) -> Value {
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

/// The answer in words; `word` says the kind of answer, in colour perhaps.
pub fn text(checked: &MfsCheck<'_>, word: impl Fn(Answer) -> String) -> String {
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
