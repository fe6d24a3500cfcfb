//! Which checks of the full plan a fleet needs, by its own past: what past checks found, what they took, and how often
//! nodes failed. Where that past is too short to say, all checks are made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kelpie_criteria::{NodeFault, Unit};
use kelpie_reports::for_operators::fleet::choice as choice_text;
use kelpie_selection::{Choice, History, Reason};
use kelpie_store::Store;
use kelpie_text::{percent, plural};
use serde::Serialize;
use serde_json::{Value, json};

use crate::inventory::Inventory;
use crate::past::{PastRun, past_runs};
use crate::plan::{FULL, Plan, plan_name};
use crate::qualification::read;

/// Defects that must have been found before checks are left out. Source: our choice; a check that found all of ten may
/// still miss a quarter of all others (with 5 % of chance, 1 - 0.05^(1/10)).
pub const ENOUGH_DEFECTS: usize = 10;
/// The least that a check takes. Units: minutes. Source: our choice; a second.
const LEAST_MINUTES: f64 = 1.0 / 60.0;

/// What is asked of the selection.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The most that the probability of an incident may be.
    pub target: f64,
    /// Within which time from now.
    pub within: Duration,
    /// How long all checks together may take.
    pub time: Option<Duration>,
}

/// A check that is not made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub check: String,
    /// How long it takes. Units: minutes.
    pub minutes: f64,
    /// Defects that it found in the past, and no check that is made.
    pub would_miss: usize,
    /// Why.
    pub why: &'static str,
}

/// The checks to make, and why these.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Auto {
    /// The names of the checks; none if an incident is unlikely enough as it is.
    pub checks: Vec<String>,
    /// Why all checks are made, if the past says too little to leave any out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_because: Option<String>,
    /// Checks that are not made.
    pub left_out: Vec<LeftOut>,
    /// Earlier qualifications that this was learnt from.
    pub qualifications: usize,
    /// Different defects that all checks of the full plan could have found.
    pub defects: usize,
    /// The most that the probability of an incident may be.
    pub target: f64,
    /// The selection; none if all checks are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

impl Auto {
    /// Chooses for the hosts of an inventory, from the qualifications of a store and from lines of a history, with the
    /// file's name.
    ///
    /// # Errors
    /// The store cannot be read, or the history breaks a rule.
    pub fn choose(
        store: &mut Store,
        inventory: &Inventory,
        history: Option<(&str, &[u8])>,
        wanted: Wanted,
    ) -> anyhow::Result<Self> {
        let runs = past_runs(store)?;
        let full = Plan::named("full")?;
        let minutes = match runs.iter().rev().find(|run| run.plan.covers(&full)) {
            Some(run) => minutes_of(&read(store, run.id)?.1),
            None => BTreeMap::new(),
        };
        let hosts: Vec<String> = inventory.hosts.iter().map(|host| host.name.clone()).collect();
        Self::of(&runs, &minutes, history, &hosts, wanted)
    }

    fn of(
        runs: &[PastRun],
        minutes: &BTreeMap<String, f64>,
        file: Option<(&str, &[u8])>,
        hosts: &[String],
        wanted: Wanted,
    ) -> anyhow::Result<Self> {
        let (name, bytes) = file.unwrap_or(("the store's history", b""));
        let given = checks_of_lines(bytes)?;
        let mut text = bytes.to_vec();
        for line in lines(runs, minutes, &given)? {
            text.extend(format!("\n{line}").into_bytes());
        }
        let all = |all_because: String, defects: usize| Self {
            checks: FULL.map(str::to_owned).to_vec(),
            all_because: Some(all_because),
            left_out: Vec::new(),
            qualifications: runs.len(),
            defects,
            target: wanted.target,
            choice: None,
        };
        let is_known = |check: &&str| minutes.contains_key(*check) || given.contains(*check);
        let unknown: Vec<&str> = FULL.into_iter().filter(|check| !is_known(check)).collect();
        if unknown.len() == FULL.len() {
            return Ok(all("no qualification with all checks has ended yet".to_owned(), 0));
        }
        if !unknown.is_empty() {
            return Ok(all(format!("nobody knows how long {} takes, or what it finds", unknown.join(", ")), 0));
        }
        let history = History::from_lines(name, &text)?;
        let found: BTreeMap<&str, BTreeSet<String>> = (history.found.iter())
            .map(|(check, defects)| (check.as_str(), defects.iter().map(Value::to_string).collect()))
            .collect();
        let defects = found.values().flatten().collect::<BTreeSet<_>>().len();
        let most = wanted.time.map_or(f64::INFINITY, |time| time.as_secs_f64() / 60.0);
        let choice = history.select_within(most, wanted.target, wanted.within.as_secs_f64() / 3600.0, hosts);
        let unseen: Vec<&String> =
            choice.probabilities.iter().filter(|(_, p)| p.is_none()).map(|(node, _)| node).collect();
        if let Some(first) = unseen.first() {
            let nodes = plural(unseen.len() as u64, "node");
            return Ok(all(format!("how often {nodes} failed before is unknown, {first} among them"), defects));
        }
        // How likely an incident is needs no defects.
        if defects < ENOUGH_DEFECTS && choice.selection.reason != Reason::NothingNeeded {
            let few = plural(defects as u64, "defect");
            let why = format!("the past has {few}, and {ENOUGH_DEFECTS} are needed to say what a check misses");
            return Ok(all(why, defects));
        }
        let checks = choice.selection.subset.selected.clone();
        let seen: BTreeSet<&String> = checks.iter().filter_map(|check| found.get(check.as_str())).flatten().collect();
        let left_out = FULL.into_iter().filter(|check| !checks.iter().any(|made| made == check)).map(|check| {
            let its = found.get(check).into_iter().flatten();
            let would_miss = its.filter(|defect| !seen.contains(defect)).count();
            let why = match (choice.selection.reason.is_enough(), would_miss) {
                (_, 0) => "it found nothing that the others did not",
                (true, _) => "the probability is low enough without it",
                (false, _) => "there is no time for it",
            };
            LeftOut { check: check.to_owned(), minutes: history.minutes[check], would_miss, why }
        });
        let left_out = left_out.collect();
        let (qualifications, target) = (runs.len(), wanted.target);
        Ok(Self { checks, all_because: None, left_out, qualifications, defects, target, choice: Some(choice) })
    }

    /// The plan; none if no check is needed.
    ///
    /// # Errors
    /// None of the checks of the full plan.
    pub fn plan(&self) -> anyhow::Result<Option<Plan>> {
        if self.checks.is_empty() { Ok(None) } else { Ok(Some(Plan::named(&self.checks.join(","))?)) }
    }

    /// Whether an incident is unlikely enough, whatever the checks find.
    pub fn is_enough(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.selection.reason.is_enough())
    }

    /// Which checks are made, which are not, and what remains.
    pub fn text(&self) -> String {
        let Some(choice) = &self.choice else {
            let why = self.all_because.as_deref().unwrap_or_default();
            return format!("plan: all checks, because {why}; what remains is unknown\n");
        };
        let made = if self.checks.is_empty() { "no check".to_owned() } else { self.checks.join(", ") };
        let past = plural(self.defects as u64, "defect");
        let runs = plural(self.qualifications as u64, "qualification");
        let mut text = format!("plan: {made}, by {past} and {runs} of the past\n");
        for LeftOut { check, minutes, would_miss, why } in &self.left_out {
            let missed = if *would_miss > 0 {
                format!("; {would_miss} of {past} were found by no check of the plan, and by {check}")
            } else {
                String::new()
            };
            let _ = writeln!(text, "left out: {check} ({minutes:.1} min): {why}{missed}");
        }
        let selection = &choice.selection;
        let (left, by_node) = (percent(selection.subset.residual), percent(choice.residual_by_node));
        let _ = writeln!(
            text,
            "what remains: an incident with a probability of {left}, {by_node} if nodes are missed on their own; {} is accepted",
            percent(self.target)
        );
        text + &choice_text(choice)
    }
}

/// How long each check took its slowest host: a host does one unit at a time, and hosts do theirs side by side.
fn minutes_of(units: &[Unit]) -> BTreeMap<String, f64> {
    let mut by_host: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for unit in units {
        for host in &unit.key.hosts {
            *by_host.entry((plan_name(&unit.key.check), host)).or_default() += unit.seconds / 60.0;
        }
    }
    let mut minutes: BTreeMap<String, f64> = BTreeMap::new();
    for ((check, _), took) in by_host.into_iter().filter(|((check, _), _)| FULL.contains(check)) {
        let most = minutes.entry(check.to_owned()).or_insert(LEAST_MINUTES);
        *most = most.max(took);
    }
    minutes
}

/// The checks whose minutes a history has.
fn checks_of_lines(bytes: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    // What breaks a rule is refused with its line, later.
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let checks: BTreeSet<String> = lines
        .filter(|line| line["kind"] == "check")
        .filter_map(|line| line["check"].as_str().map(str::to_owned))
        .collect();
    if let Some(other) = checks.iter().find(|check| !FULL.contains(&check.as_str())) {
        bail!("the history has a check `{other}`: --plan auto chooses of {}", FULL.join(", "));
    }
    Ok(checks)
}

/// What runs say as lines of a history, without the minutes of checks that are given.
fn lines(runs: &[PastRun], minutes: &BTreeMap<String, f64>, given: &BTreeSet<String>) -> anyhow::Result<Vec<Value>> {
    let full = Plan::named("full")?;
    let hours = |run: &PastRun| run.began as f64 / 3600.0;
    let mut lines: Vec<Value> = (minutes.iter().filter(|(check, _)| !given.contains(*check)))
        .map(|(check, minutes)| json!({"kind": "check", "check": check, "minutes": minutes}))
        .collect();
    let nodes: BTreeSet<&String> = runs.iter().flat_map(|run| run.nodes.keys()).collect();
    for node in nodes {
        let its: Vec<&PastRun> = runs.iter().filter(|run| run.nodes.contains_key(node)).collect();
        let (first, last) = (its.first().context("it has one")?, its.last().context("it has one")?);
        lines.push(json!({"kind": "observed", "node": node, "begin": hours(first), "end": hours(last)}));
        // A node that stays out has one defect.
        for spell in its.chunk_by(|one, other| one.is_out(node) == other.is_out(node)) {
            if spell[0].is_out(node) != Some(true) {
                continue;
            }
            let after = its.iter().find(|run| run.id.0 > spell[spell.len() - 1].id.0).unwrap_or(last);
            let category = spell[0].nodes[node].faults.first().map_or("", |fault| &fault.check);
            lines.push(json!({"kind": "incident", "node": node, "time": hours(spell[0]), "category": category,
                              "until": hours(after).max(hours(spell[0]))}));
            // Only who made all checks knows which of them find a defect.
            for run in spell.iter().filter(|run| run.plan.covers(&full)) {
                for check in run.nodes[node].faults.iter().flat_map(finders) {
                    let defect = format!("{node} from qualification {} on", spell[0].id);
                    lines.push(json!({"kind": "found", "check": check, "defect": defect}));
                }
            }
        }
    }
    Ok(lines)
}

/// The checks of the full plan that find such a fault: who does not answer is found by each.
fn finders(fault: &NodeFault) -> Vec<&'static str> {
    let its = plan_name(&fault.check);
    FULL.into_iter().filter(|check| fault.measured.is_none() || *check == its).collect()
}

#[cfg(test)]
mod tests {
    use kelpie_criteria::{FleetState, MeasuredFault, NodeQualification};
    use kelpie_store::QualificationId;

    use super::*;

    fn node(faults: &[(&str, bool)]) -> NodeQualification {
        let measured =
            MeasuredFault { metric: "m".to_owned(), got: 1.0, want: 2.0, unit: "Gb/s".to_owned(), similarity: 0.5 };
        let fault = |(check, has_value): &(&str, bool)| NodeFault {
            check: (*check).to_owned(),
            component: String::new(),
            measured: has_value.then(|| measured.clone()),
            detail: String::new(),
        };
        let state = if faults.is_empty() { FleetState::In } else { FleetState::Out };
        NodeQualification { state, faults: faults.iter().map(fault).collect(), unsure: Vec::new(), values: 1 }
    }

    /// A full run each hour, each with faults of some of 16 nodes.
    fn runs(count: i64, faults: impl Fn(i64, usize) -> Vec<(&'static str, bool)>) -> Vec<PastRun> {
        let nodes =
            |run| (0..16).map(|host| (format!("n{host}"), node(&faults(run, host)))).collect::<BTreeMap<_, _>>();
        let plan = || Plan::named("full").expect("known");
        (0..count)
            .map(|run| PastRun { id: QualificationId(run + 1), began: 3600 * run, plan: plan(), nodes: nodes(run) })
            .collect()
    }

    fn choose(runs: &[PastRun], file: Option<&str>, target: f64, minutes: Option<u64>) -> anyhow::Result<Auto> {
        let takes = [1.0, 1.0, 1.0, 60.0, 5.0];
        let takes: BTreeMap<String, f64> = FULL.into_iter().map(str::to_owned).zip(takes).collect();
        let takes = if runs.is_empty() { BTreeMap::new() } else { takes };
        let hosts: Vec<String> = (0..16).map(|host| format!("n{host}")).collect();
        let time = minutes.map(|minutes| Duration::from_secs(60 * minutes));
        let wanted = Wanted { target, within: Duration::from_hours(1), time };
        Auto::of(runs, &takes, file.map(|text| ("h.jsonl", text.as_bytes())), &hosts, wanted)
    }

    #[test]
    fn checks_that_found_nothing_of_their_own_are_left_out_and_time_bounds_the_rest() {
        // Each second hour a node is slow by loopback, and every sixth hour one by its pairs alone.
        let faults = |run: i64, host: usize| match (run % 6, host) {
            (0 | 2, 3) => vec![("loopback_write", true), ("pair", true)],
            (4, 7) => vec![("pair", true)],
            _ => vec![],
        };
        let runs = runs(60, faults);
        let auto = choose(&runs, None, 0.01, None).expect("a history");
        assert_eq!((&auto.checks[..], auto.defects), (&["loopback_write".to_owned(), "all_pairs".to_owned()][..], 30));
        let why = |auto: &Auto| auto.left_out.iter().map(|one| (one.check.clone(), one.would_miss)).collect::<Vec<_>>();
        let nothing = ["loopback_read", "loopback_send", "incast_3"].map(|check| (check.to_owned(), 0));
        assert_eq!(why(&auto), nothing);
        let short = choose(&runs, None, 0.01, Some(30)).expect("a history");
        assert_eq!(short.checks, ["loopback_write"]);
        assert!(why(&short).contains(&("all_pairs".to_owned(), 10)), "{short:?}");
        let text = short.text();
        assert!(text.contains("left out: all_pairs (60.0 min): there is no time for it; 10 of 30 defects"), "{text}");
        let choice = short.choice.expect("a selection");
        assert!((choice.selection.subset.residual - choice.selection.probability / 3.0).abs() < 1e-9);
        assert_eq!(choose(&runs, None, 1.0, None).expect("a history").plan().expect("known"), None);
    }

    #[test]
    fn all_checks_are_made_where_the_past_is_too_short_to_leave_any_out() {
        let all = |runs: &[PastRun], file: Option<&str>| {
            let auto = choose(runs, file, 0.01, None).expect("a history");
            assert_eq!(auto.checks, FULL, "{auto:?}");
            auto.all_because.expect("a reason")
        };
        assert_eq!(all(&[], None), "no qualification with all checks has ended yet");
        let some = |run: i64, host: usize| if (run, host) == (3, 1) { vec![("pair", true)] } else { vec![] };
        assert!(all(&runs(9, some), None).contains("the past has 1 defect, and 10 are needed"));
        assert!(all(&runs(1, some), None).contains("how often 16 nodes failed before is unknown"));
        let part = r#"{"kind": "check", "check": "incast_3", "minutes": 2}"#;
        assert!(all(&[], Some(part)).contains("how long loopback_write, loopback_read"));
    }

    #[test]
    fn a_node_that_does_not_answer_is_found_by_each_check_and_one_that_stays_out_has_one_defect() {
        let faults =
            |run: i64, host: usize| if host == 2 && (3..6).contains(&run) { vec![("pair", false)] } else { vec![] };
        let lines = lines(&runs(9, faults), &BTreeMap::new(), &BTreeSet::new()).expect("runs");
        let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
        let incidents = of("incident");
        assert_eq!((incidents.len(), &incidents[0]["time"], &incidents[0]["until"]), (1, &json!(3.0), &json!(6.0)));
        let found: BTreeSet<(String, String)> =
            of("found").iter().map(|line| (line["check"].to_string(), line["defect"].to_string())).collect();
        assert_eq!((found.len(), of("observed").len()), (5, 16));
    }

    #[test]
    fn a_file_adds_to_the_store_and_its_minutes_count() {
        let faults =
            |run: i64, host: usize| if run % 2 == 0 && host == 3 { vec![("loopback_write", true)] } else { vec![] };
        let runs = runs(40, faults);
        let file = r#"{"kind": "check", "check": "loopback_write", "minutes": 100}"#;
        let auto = choose(&runs, Some(file), 0.01, Some(30)).expect("a history");
        assert_eq!((auto.checks.len(), auto.left_out[0].minutes), (0, 100.0));
        let other = r#"{"kind": "check", "check": "nccl", "minutes": 100}"#;
        let error = choose(&runs, Some(other), 0.01, None).expect_err("no such check").to_string();
        assert!(error.contains("a check `nccl`"), "{error}");
    }
}
