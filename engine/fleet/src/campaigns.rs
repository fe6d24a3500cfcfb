//! Campaigns over the pairs of an inventory, side by side. What they find is one table: each weakness once, with the
//! pairs that show it. Every pair measures what others found, so that a pair lacks only what it does not show.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kelpie_agent::pair::HostSpec;
use kelpie_agent::{PairFile, PairSubsystem};
use kelpie_campaign::{CampaignLimits, CampaignParts, Progress, StopReason};
use kelpie_engine::{Subsystem as _, chain};
use kelpie_examine::files::read_file;
use kelpie_examine::subsystem::{SubsystemKind, kind};
use kelpie_monitor::{Bounds, PerHost, Symptom, measure_judged};
use kelpie_reports::brief;
use kelpie_reports::compare::{Repeated, is_one_weakness};
use kelpie_search::{Algorithm, Config, SignalSet};
use kelpie_spaces::Space;
use kelpie_store::{CampaignDefinition, CampaignId, Database, FindingRecord, Store};
use kelpie_text::{Table, clean, plural};
use serde::Serialize;

use crate::inventory::{Inventory, InventoryHost};
use crate::place::by_place;

/// Pairs that are measured at once at most; others wait. Source: our choice; each has a thread and two connections.
const MOST_AT_ONCE: usize = 64;

/// The inventory that a subsystem's name stands for, if it is the file of one.
///
/// # Errors
/// The file cannot be read, or breaks a rule.
pub fn inventory_named(subsystem: &str) -> anyhow::Result<Option<Inventory>> {
    let SubsystemKind::Pair(path) = kind(subsystem)? else { return Ok(None) };
    let bytes = read_file(&path)?;
    let tag = format!("kelpie: {}", Inventory::FORMAT);
    let is_one = String::from_utf8_lossy(&bytes).lines().any(|line| line.trim_end() == tag);
    if is_one { Ok(Some(Inventory::from_bytes(&path, &bytes)?)) } else { Ok(None) }
}

/// Pairs of hosts that stand side by side, each host in one of them, and the host that is left over.
pub fn pairs(inventory: &Inventory) -> (Vec<PairFile>, Option<String>) {
    let hosts = by_place(inventory);
    let (mut pairs, mut waiting): (Vec<PairFile>, Vec<&InventoryHost>) = (Vec::new(), Vec::new());
    for host in hosts.into_iter().map(|host| &inventory.hosts[host]) {
        // Of hosts without a rail in common, each waits for another one.
        let partner =
            waiting.iter().enumerate().find_map(|(place, other)| Some((place, pair(inventory, other, host)?)));
        match partner {
            Some((place, pair)) => {
                waiting.remove(place);
                pairs.push(pair);
            }
            None => waiting.push(host),
        }
    }
    (pairs, waiting.first().map(|host| host.name.clone()))
}

/// Two hosts by the first rail that both have.
pub(crate) fn pair(inventory: &Inventory, one: &InventoryHost, other: &InventoryHost) -> Option<PairFile> {
    let theirs: BTreeMap<u32, _> = other.ports().into_iter().collect();
    let (own, port) = one.ports().into_iter().find_map(|(rail, own)| Some((own, theirs.get(&rail)?.clone())))?;
    Some(PairFile {
        kelpie: PairFile::FORMAT.to_owned(),
        name: format!("{}+{}", one.name, other.name),
        hosts: PerHost {
            a: HostSpec { agent: one.address(), port: own },
            b: HostSpec { agent: other.address(), port },
        },
        tls: inventory.tls.clone(),
        plain: inventory.plain,
        bounds: None,
        session: inventory.session.unwrap_or_default(),
    })
}

/// What every pair searches.
#[derive(Debug)]
pub struct PairsSearch<'s> {
    /// The space, and its name.
    pub space: (&'s Space, &'s str),
    /// How.
    pub algorithm: Algorithm,
    /// By which signals.
    pub signal: SignalSet,
    /// The seed of the first pair; each pair has one of its own, so that together they see more.
    pub seed: u64,
    /// Whether workloads under which a host fails are reduced.
    pub reduce_host_failures: bool,
    /// When each stands still.
    pub limits: CampaignLimits<'s>,
}

/// The campaign of a pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairCampaign {
    /// Names of both hosts.
    pub pair: String,
    /// Its campaign, if it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<CampaignId>,
    /// Experiments that were measured.
    pub experiments: u64,
    /// Findings of its own.
    pub findings: usize,
    /// Why it ended before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it does at best, if that was measured.
    #[serde(skip)]
    pub bounds: Option<Bounds>,
}

/// A weakness that pairs show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedFinding {
    /// Campaign and number of the finding that stands for it.
    pub finding: String,
    /// What is seen.
    pub symptom: Symptom,
    /// The transports and operations with which it shows.
    pub shows_with: String,
    /// What it needs.
    pub conditions: String,
    /// Pairs that found it, or that show it when its workload is measured.
    pub seen_on: Vec<String>,
    /// Pairs on which its workload does not show it.
    pub not_on: Vec<String>,
    /// Pairs on which that is not known.
    pub unknown_on: Vec<String>,
    /// The finding that stands for it.
    #[serde(skip)]
    pub record: FindingRecord,
}

/// What campaigns of pairs came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairsFound {
    /// By pair.
    pub pairs: Vec<PairCampaign>,
    /// What most pairs show first.
    pub findings: Vec<SharedFinding>,
}

impl PairsFound {
    /// Whether each campaign ended as it was to.
    pub fn is_whole(&self) -> bool {
        self.pairs.iter().all(|pair| pair.error.is_none())
    }

    /// One table, and what did not go well.
    pub fn text(&self) -> String {
        let experiments: u64 = self.pairs.iter().map(|pair| pair.experiments).sum();
        let mut text = format!(
            "{}, {}, {}\n",
            plural(self.pairs.len() as u64, "pair"),
            plural(experiments, "experiment"),
            plural(self.findings.len() as u64, "finding")
        );
        let mut table =
            Table::new(&["finding", "symptom", "shows with", "needs", "pairs", "not on", "unknown on"], &[4]);
        for found in &self.findings {
            table.row(vec![
                found.finding.clone(),
                found.symptom.name().to_owned(),
                found.shows_with.clone(),
                found.conditions.clone(),
                format!("{} of {}", found.seen_on.len(), self.pairs.len()),
                few(&found.not_on),
                few(&found.unknown_on),
            ]);
        }
        if !table.is_empty() {
            text += &table.render("");
        }
        for PairCampaign { pair, campaign, error, .. } in &self.pairs {
            let Some(error) = error else { continue };
            let next = campaign.map_or(String::new(), |id| format!("; `kelpie campaign resume {id}` goes on"));
            text += &clean(&format!("{pair}: {error}{next}"));
            text.push('\n');
        }
        text
    }
}

/// Names, as many as a cell has room for.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 2;
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names[..names.len().min(SHOWN)].join(", ") + &more
}

/// A campaign that has ended, and what it measured.
struct Ended {
    pair: String,
    campaign: Option<CampaignId>,
    experiments: u64,
    found: Vec<FindingRecord>,
    error: Option<String>,
    subsystem: Option<PairSubsystem>,
}

/// Runs a campaign on each pair, and measures on each what others found. `say` hears of findings.
pub fn run(
    database: &Database,
    pairs: Vec<PairFile>,
    search: &PairsSearch<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> PairsFound {
    let campaigns = side_by_side(pairs, |place, file| campaign(database, place as u64, file, search, say));
    let (weaknesses, own) = merged(&campaigns);
    let measured = side_by_side(campaigns, |place, mut ended: Ended| {
        let stop = search.limits.stop;
        let on_it = weaknesses.iter().enumerate().map(|(number, (_, record))| {
            if own[number].contains(&place) {
                return Repeated::Anomalous;
            }
            ended.subsystem.as_mut().map_or(Repeated::NotMeasured, |pair| repeat(pair, record, stop))
        });
        let on_it: Vec<Repeated> = on_it.collect();
        let Ended { pair, campaign, experiments, found, error, subsystem } = ended;
        let bounds = subsystem.map(|subsystem| subsystem.bounds());
        (PairCampaign { pair, campaign, experiments, findings: found.len(), error, bounds }, on_it)
    });
    let name = |place: usize| measured[place].0.pair.clone();
    let on = |number: usize, of: &[Repeated]| {
        let places = (0..measured.len()).filter(|place| of.contains(&measured[*place].1[number]));
        places.map(name).collect::<Vec<_>>()
    };
    let shared = weaknesses.iter().enumerate().map(|(number, (id, record))| SharedFinding {
        finding: format!("{id}.{}", record.number),
        symptom: record.symptom,
        shows_with: brief::shows_with(record),
        conditions: brief::conditions(record),
        seen_on: on(number, &[Repeated::Anomalous]),
        not_on: on(number, &[Repeated::Healthy]),
        unknown_on: on(number, &[Repeated::Unknown, Repeated::NotMeasured]),
        record: record.clone(),
    });
    let mut findings: Vec<SharedFinding> = shared.collect();
    findings.sort_by_key(|found| std::cmp::Reverse(found.seen_on.len()));
    PairsFound { findings, pairs: measured.into_iter().map(|(pair, _)| pair).collect() }
}

/// Works on all, in order of their places, as many at once as there may be.
fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(usize, T) -> R + Sync) -> Vec<R> {
    let workers = items.len().min(MOST_AT_ONCE);
    let (waiting, done) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(BTreeMap::new()));
    let next = || waiting.lock().expect("nobody panics with it").next();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((place, item)) = next() {
                    let made = work(place, item);
                    done.lock().expect("nobody panics with it").insert(place, made);
                }
            });
        }
    });
    done.into_inner().expect("nobody panics with it").into_values().collect()
}

fn campaign(
    database: &Database,
    place: u64,
    file: PairFile,
    search: &PairsSearch<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> Ended {
    let mut ended = Ended {
        pair: file.name.clone(),
        campaign: None,
        experiments: 0,
        found: Vec::new(),
        error: None,
        subsystem: None,
    };
    ended.error = begun(database, place, file, search, say, &mut ended).err().map(|error| chain(&*error));
    ended
}

fn begun(
    database: &Database,
    place: u64,
    file: PairFile,
    search: &PairsSearch<'_>,
    say: &(dyn Fn(&str) + Sync),
    ended: &mut Ended,
) -> anyhow::Result<()> {
    let subsystem_source = file.to_yaml()?;
    let mut subsystem = PairSubsystem::of(file)?;
    let (space, space_name) = search.space;
    let seed = search.seed.wrapping_add(place) & i64::MAX as u64;
    let reduce_host_failures = search.reduce_host_failures;
    let config = Config { reduce_host_failures, ..Config::new(search.algorithm, search.signal, seed) };
    let bounds = subsystem.bounds();
    let definition = CampaignDefinition {
        kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
        subsystem: ended.pair.clone(),
        subsystem_source,
        bounds,
        space: space_name.to_owned(),
        space_source: space.to_yaml(),
        algorithm: search.algorithm.to_string(),
        signal: search.signal.to_string(),
        seed,
        config: serde_json::to_string(&config)?,
        budget: search.limits.budget,
    };
    let checks = subsystem.checks();
    let mut store = Store::create(database)?;
    let (id, lock) = store.begin_campaign(&definition, &checks)?;
    ended.campaign = Some(id);
    say(&format!("campaign {id}: {} over {space_name}, seed {seed}", ended.pair));
    let mut progress = Said { pair: &ended.pair, say, last: 0 };
    let parts = CampaignParts {
        store: &mut store,
        subsystem: &mut subsystem,
        bounds,
        limits: search.limits,
        progress: &mut progress,
    };
    let end = kelpie_campaign::run(id, space, &config, parts);
    drop(lock);
    ended.experiments = store.campaign(id)?.experiments;
    ended.found = store.findings(id)?;
    match end {
        StopReason::Failed(error) => return Err(error),
        StopReason::Interrupted => anyhow::bail!("stopped"),
        StopReason::Finished | StopReason::Time => {}
    }
    // Who failed is not asked for more.
    ended.subsystem = Some(subsystem);
    Ok(())
}

/// Says what one of several campaigns finds.
struct Said<'s> {
    pair: &'s str,
    say: &'s (dyn Fn(&str) + Sync),
    /// The latest finding that was said.
    last: u64,
}

impl Progress for Said<'_> {
    fn goes_on(&mut self, _: u64, _: u64, _: u64) {}
    fn read(&mut self, _: u64) {}
    fn replayed(&mut self, _: u64, _: bool) {}
    fn measured(&mut self, _: u64, _: bool) {}

    fn found(&mut self, number: u64, line: &str, _: bool) {
        // Findings that are refined are told in the end.
        if number > self.last {
            self.last = number;
            self.line(line);
        }
    }

    fn line(&self, line: &str) {
        (self.say)(&format!("{}: {line}", self.pair));
    }
}

type Weakness = (CampaignId, FindingRecord);

/// Each weakness once, the surest finding of it, and by weakness the places of the campaigns that found it.
fn merged(campaigns: &[Ended]) -> (Vec<Weakness>, Vec<Vec<usize>>) {
    let all = campaigns.iter().enumerate().filter_map(|(place, ended)| Some((place, ended.campaign?, &ended.found)));
    let mut all: Vec<(usize, CampaignId, &FindingRecord)> =
        all.flat_map(|(place, id, found)| found.iter().map(move |record| (place, id, record))).collect();
    all.sort_by(|one, other| other.2.confidence.total_cmp(&one.2.confidence));
    let (mut weaknesses, mut own): (Vec<Weakness>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for (place, id, record) in all {
        if let Some(number) = weaknesses.iter().position(|(_, known)| is_one_weakness(known, record)) {
            own[number].push(place);
        } else {
            weaknesses.push((id, record.clone()));
            own.push(vec![place]);
        }
    }
    (weaknesses, own)
}

/// What a finding's workload shows on another pair.
pub(crate) fn repeat(pair: &mut PairSubsystem, record: &FindingRecord, stop: &AtomicBool) -> Repeated {
    if stop.load(Ordering::Relaxed) {
        return Repeated::NotMeasured;
    }
    let bounds = pair.bounds();
    let judged = measure_judged(&record.workload, &bounds, |workload, attempt| pair.measure_again(workload, attempt));
    judged.map_or(Repeated::Unknown, |judged| Repeated::of(&judged.assessment, record.symptom))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn neighbours_are_pairs_by_a_rail_that_both_have_and_who_is_left_is_named() {
        let text = "kelpie: inventory/1\nhosts:\n\
            - {name: a, leaf: l0, nics: [{device: m0, rail: 0}, {device: m1, rail: 1}]}\n\
            - {name: b, leaf: l1}\n\
            - {name: c, leaf: l0, nics: [{device: m9, rail: 1}]}\n\
            - {name: d, leaf: l1}\n\
            - {name: e, leaf: l2}\nsession: {sample_ms: 20}\n";
        let inventory = Inventory::from_bytes(Path::new("x.yaml"), text.as_bytes()).expect("a good file");
        let (pairs, left) = pairs(&inventory);
        assert_eq!(pairs.iter().map(|pair| pair.name.as_str()).collect::<Vec<_>>(), ["a+c", "b+d"]);
        let devices = [&pairs[0].hosts.a, &pairs[0].hosts.b].map(|host| host.port.device.as_deref());
        assert_eq!((devices, pairs[0].session.sample_ms), ([Some("m1"), Some("m9")], 20));
        assert_eq!((left.as_deref(), pairs[1].hosts.b.agent.as_str()), (Some("e"), "d:7471"));
        let bad = text.replace("sample_ms: 20", "sample_ms: 1");
        let error = Inventory::from_bytes(Path::new("x.yaml"), bad.as_bytes()).expect_err("too short").to_string();
        assert!(error.contains("session.sample_ms: 1 is outside 10 to"), "{error}");
    }
}
