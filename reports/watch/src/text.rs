//! A campaign said once, for scripts: plain text or one JSON document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kelpie_campaign::FindingLine;
use kelpie_campaign::document::FindingDocument;
use kelpie_campaign::text::unexplained;
use kelpie_monitor::{Severity, Verdict};
use kelpie_reports::explained::Weighed;
use kelpie_store::{Anomaly, CampaignState, Ended};
use kelpie_text::{clean, clean_json};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::campaign_progress::{CampaignProgress, PURPOSES};
use crate::for_people::{duration, signal_name, signal_value};

/// The ways to end, with their words.
pub const ENDS: [(Ended, &str); 4] = [
    (Ended::Judged(Verdict::Healthy), "healthy"),
    (Ended::Judged(Verdict::Anomalous), "anomalous"),
    (Ended::Judged(Verdict::Inconclusive), "inconclusive"),
    (Ended::Unsupported, "unsupported"),
];

/// Who searches what, and how.
pub fn title(progress: &CampaignProgress) -> String {
    let definition = &progress.campaign.definition;
    clean(&format!(
        "{} over {}, {}, seed {}",
        definition.subsystem, definition.space, definition.algorithm, definition.seed
    ))
}

/// How fast it goes, and how long it will.
pub fn pace(progress: &CampaignProgress, now_unix_ms: i64) -> String {
    let mut text = match progress.per_minute(now_unix_ms) {
        Some(rate) if rate < 10.0 => format!("{rate:.1} experiments per minute"),
        Some(rate) => format!("{rate:.0} experiments per minute"),
        None => "rate unknown".to_owned(),
    };
    if let Some(left) = progress.seconds_left(now_unix_ms) {
        let _ = write!(text, ", {} left", duration(left));
    }
    text
}

/// How many experiments ended how.
pub fn ends(progress: &CampaignProgress) -> String {
    let words: Vec<String> = ENDS.iter().map(|(ended, word)| format!("{} {word}", progress.count(*ended))).collect();
    words.join(", ")
}

/// What the campaign does, or did last, and how many experiments each purpose had.
pub fn phase(progress: &CampaignProgress) -> String {
    let words = progress.phase().map(|index| PURPOSES[index].1);
    let now = match (words, progress.campaign.state) {
        (None, _) => "nothing measured yet".to_owned(),
        (Some(words), CampaignState::Running) => words.to_owned(),
        (Some(words), CampaignState::Stopped | CampaignState::Finished) => format!("at last {words}"),
    };
    let counts = PURPOSES.iter().zip(progress.purposes).filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|((asked, _), count)| format!("{count} {}", asked.name())).collect();
    if counts.is_empty() { now } else { format!("{now} ({})", counts.join(", ")) }
}

/// The campaign as lines of text.
pub fn text(progress: &CampaignProgress, now_unix_ms: i64) -> String {
    let campaign = &progress.campaign;
    let explained = progress.explained();
    let of = campaign.definition.budget.map_or_else(String::new, |budget| format!(" of {budget}"));
    let mut text = format!(
        "campaign {} ({}): {}\n  {}{of} experiments, {} skipped, {}\n  {}\n  {}\n  {}\n",
        campaign.id,
        campaign.state,
        title(progress),
        campaign.experiments,
        campaign.skipped,
        explained.findings_in_words(),
        pace(progress, now_unix_ms),
        ends(progress),
        phase(progress),
    );
    let (signals, _) = progress.signals();
    let latest = signals.iter().filter_map(|signal| Some((signal, signal.latest()?)));
    let latest: Vec<String> = latest
        .map(|(signal, value)| format!("{} {}", signal_name(&signal.name), signal_value(&signal.name, value)))
        .collect();
    if !latest.is_empty() {
        let _ = writeln!(text, "  last signals: {}", latest.join(", "));
    }
    for Weighed { finding, severity, .. } in &explained.findings {
        let line = format!("{}; {}", FindingLine(campaign.id, finding), Severity::in_words(*severity));
        let _ = writeln!(text, "{}", clean(&line));
    }
    text + &unexplained(campaign.id, &explained)
}

/// The campaign as one JSON document.
///
/// # Errors
///
/// The progress has a number that JSON cannot hold.
pub fn json(progress: &CampaignProgress, now_unix_ms: i64) -> anyhow::Result<String> {
    let campaign = &progress.campaign;
    let definition = &campaign.definition;
    let verdicts: Map<String, Value> =
        ENDS.iter().map(|(ended, word)| ((*word).to_owned(), progress.count(*ended).into())).collect();
    let purposes: Map<String, Value> = PURPOSES
        .iter()
        .zip(progress.purposes)
        .map(|((asked, _), count)| (asked.name().to_owned(), count.into()))
        .collect();
    let (signals, _) = progress.signals();
    let signals: BTreeMap<&str, f64> =
        signals.iter().filter_map(|signal| Some((signal.name.as_str(), signal.latest()?))).collect();
    let explained = progress.explained();
    let findings: Vec<FindingDocument> = explained.findings.iter().map(|found| (*found).into()).collect();
    let head = json!({
        "campaign": campaign.id, "state": campaign.state.to_string(), "subsystem": definition.subsystem,
        "space": definition.space, "algorithm": definition.algorithm, "signal": definition.signal,
        "seed": definition.seed, "budget": definition.budget,
        "experiments": campaign.experiments, "skipped": campaign.skipped, "verdicts": verdicts,
        "phase": progress.phase().map(|index| PURPOSES[index].0.name()), "purposes": purposes,
        "experiments_per_minute": progress.per_minute(now_unix_ms), "seconds_left": progress.seconds_left(now_unix_ms),
        "signals": signals, "findings": findings,
    });
    let document = WatchDocument { head, unexplained: &explained.unexplained };
    Ok(clean_json(serde_json::to_string_pretty(&document)?) + "\n")
}

/// The document; its longest part is written as it is, since as a value it would take several times as much memory.
#[derive(Serialize)]
struct WatchDocument<'a> {
    #[serde(flatten)]
    head: Value,
    unexplained: &'a [&'a Anomaly],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, empty, hostile, running};

    #[test]
    fn a_campaign_is_said_in_a_few_lines() {
        insta::assert_snapshot!(text(&running(), NOW));
        insta::assert_snapshot!("nothing_yet", text(&empty(), NOW));
    }

    #[test]
    fn the_document_is_whole() {
        let document: Value = serde_json::from_str(&json(&running(), NOW).unwrap()).unwrap();
        insta::assert_yaml_snapshot!(document);
    }

    #[test]
    fn nothing_of_the_database_steers_a_terminal() {
        let progress = hostile();
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        let text = text(&progress, NOW);
        assert!(!text.contains(steers), "{text:?}");
        assert_eq!(text.lines().count(), 9, "no line of its own for a line feed in a name: {text}");
        let document = json(&progress, NOW).unwrap();
        assert!(!document.contains(steers), "{document:?}");
        let read: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(read["subsystem"], progress.campaign.definition.subsystem, "and is the same for a program");
    }
}
