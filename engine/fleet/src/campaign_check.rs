//! A short campaign as a check of a plan: pairs of neighbours search the space of an application. What all pairs show
//! is what such hosts are. What some show and others do not is a fault of a host: its workload is measured with each
//! end and a host that is well, which says which end is at fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kelpie_agent::{PairFile, PairSubsystem};
use kelpie_campaign::CampaignLimits;
use kelpie_criteria::{Better, HostFailure, Outcome, Unit, UnitKey, UnitValue};
use kelpie_reports::compare::{Repeated, is_one_weakness};
use kelpie_search::{Algorithm, SignalSet};
use kelpie_spaces::Space;
use kelpie_store::{Database, FindingRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaigns::{PairsFound, PairsSearch, SharedFinding, pair, pairs, repeat, run};
use crate::inventory::{Inventory, InventoryHost};

/// Most experiments of a pair. Source: our choice; a day of them.
const MOST_EXPERIMENTS: u64 = 10_000;
/// How long a host that failed may take to come back. Source: our choice; one that does not is out by other checks.
const PATIENCE: Duration = Duration::from_secs(30);
/// The seed of the first pair. Source: that of campaigns.
const SEED: u64 = 20_220_404;

/// A short campaign on each pair of neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignCheck {
    /// The check's name.
    pub name: String,
    /// The space of the application, by its name in the catalog.
    pub space: String,
    /// Experiments of each pair.
    #[serde(default = "a_few")]
    pub budget: u64,
}

fn a_few() -> u64 {
    50
}

impl CampaignCheck {
    /// Each key that breaks a rule, with the rule.
    pub fn broken_rules(&self) -> Vec<(&'static str, String)> {
        let mut broken = Vec::new();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if !(1..=64).contains(&self.name.len()) || !self.name.chars().all(is_plain) {
            broken.push(("name", "write letters, digits, - and _".to_owned()));
        }
        if Space::catalog(&self.space).is_none() {
            broken.push(("space", format!("write one of the catalog: {}", Space::catalog_names().join(", "))));
        }
        if !(1..=MOST_EXPERIMENTS).contains(&self.budget) {
            broken.push(("budget", format!("write 1 to {MOST_EXPERIMENTS}")));
        }
        broken
    }

    /// The unit of a host.
    pub fn key(&self, host: &str) -> UnitKey {
        UnitKey { check: self.name.clone(), hosts: vec![host.to_owned()], component: String::new() }
    }

    /// Searches on the hosts of an inventory, and says of each what came of it; nothing if it was stopped.
    pub fn units(
        &self,
        database: &Database,
        inventory: &Inventory,
        stop: &AtomicBool,
        say: &(dyn Fn(&str) + Sync),
    ) -> Vec<Unit> {
        let begun = Instant::now();
        let Some(space) = Space::catalog(&self.space) else { return Vec::new() };
        let budget = Some(self.budget);
        let search = PairsSearch {
            space: (&space, &self.space),
            algorithm: Algorithm::Kelpie,
            signal: SignalSet::Both,
            seed: SEED,
            reduce_host_failures: false,
            limits: CampaignLimits { budget, deadline: None, host_patience: PATIENCE, stop },
        };
        let (files, left) = pairs(inventory);
        let hosts: BTreeMap<String, [&InventoryHost; 2]> = files
            .iter()
            .filter_map(|file| {
                let of = |agent: &str| inventory.hosts.iter().find(|host| host.address() == agent);
                Some((file.name.clone(), [of(&file.hosts.a.agent)?, of(&file.hosts.b.agent)?]))
            })
            .collect();
        let found = run(database, files, &search, say);
        let mut said = Said { found: &found, hosts: &hosts, outcomes: BTreeMap::new() };
        said.errors();
        for finding in found.findings.iter().filter(|finding| !finding.not_on.is_empty()) {
            said.blame(inventory, finding, stop);
        }
        if let Some(left) = left.and_then(|name| inventory.hosts.iter().find(|host| host.name == name)) {
            said.left_over(inventory, left, stop, |file| run(database, vec![file], &search, say));
        }
        if stop.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let seconds = begun.elapsed().as_secs_f64();
        let outcomes = said.outcomes;
        let well = |host: &InventoryHost| Outcome::Values(vec![self.value(&host.name)]);
        let unit = |host: &InventoryHost| Unit {
            key: self.key(&host.name),
            outcome: outcomes.get(host.name.as_str()).cloned().unwrap_or_else(|| well(host)),
            seconds,
        };
        inventory.hosts.iter().map(unit).collect()
    }

    fn value(&self, host: &str) -> UnitValue {
        UnitValue {
            metric: self.name.clone(),
            unit: "share".to_owned(),
            better: Better::Higher,
            from: host.to_owned(),
            to: None,
            samples: vec![1.0],
        }
    }
}

/// What is said of hosts that are not well.
struct Said<'s> {
    found: &'s PairsFound,
    hosts: &'s BTreeMap<String, [&'s InventoryHost; 2]>,
    outcomes: BTreeMap<&'s str, Outcome>,
}

impl<'s> Said<'s> {
    /// A host that is at fault stays so, and of several faults the first is told.
    fn say(&mut self, host: &'s str, reason: String, is_fault: bool) {
        if matches!(self.outcomes.get(host), Some(Outcome::Failed(_))) {
            return;
        }
        let failure = HostFailure { host: host.to_owned(), reason };
        let outcome = if is_fault { Outcome::Failed(failure) } else { Outcome::Unsupported(failure) };
        self.outcomes.insert(host, outcome);
    }

    /// Both hosts of a pair whose campaign did not end.
    fn errors(&mut self) {
        for pair in &self.found.pairs {
            let Some(error) = &pair.error else { continue };
            for host in self.hosts.get(&pair.pair).into_iter().flatten() {
                self.say(&host.name, format!("the campaign of {} did not end: {error}", pair.pair), false);
            }
        }
    }

    /// Which ends of pairs are what shows a finding that other pairs do not show.
    fn blame(&mut self, inventory: &Inventory, finding: &SharedFinding, stop: &AtomicBool) {
        let Some(well) = finding.not_on.first() else { return };
        let Some([well_a, well_b]) = self.hosts.get(well).copied() else { return };
        for name in &finding.seen_on {
            let Some([a, b]) = self.hosts.get(name).copied() else { continue };
            let on =
                [[a, well_b], [well_a, b]].map(|hosts| self.measured(inventory, hosts, well, &finding.record, stop));
            let what = shown(finding);
            match on {
                [Repeated::Anomalous, Repeated::Healthy] => {
                    self.say(&a.name, format!("{what}; it shows with {} as well", well_b.name), true);
                }
                [Repeated::Healthy, Repeated::Anomalous] => {
                    self.say(&b.name, format!("{what}; it shows with {} as well", well_a.name), true);
                }
                _ => {
                    let why = format!("{what}; it shows on {name}, and nothing says by which of the two");
                    self.say(&a.name, why.clone(), false);
                    self.say(&b.name, why, false);
                }
            }
        }
    }

    /// The host without a partner measures what the others found, with hosts that do not show it, and searches with a
    /// host that was searched already.
    fn left_over(
        &mut self,
        inventory: &Inventory,
        left: &'s InventoryHost,
        stop: &AtomicBool,
        search: impl Fn(PairFile) -> PairsFound,
    ) {
        let mut ended = self.found.pairs.iter().filter(|pair| pair.error.is_none());
        let partners = ended.find_map(|pair| Some((pair, *self.hosts.get(&pair.pair)?)));
        let Some((well, [a, b], file)) = partners.and_then(|(well, [a, b])| {
            let file = pair(inventory, left, a)?;
            Some((&well.pair, [a, b], PairFile { bounds: well.bounds, ..file }))
        }) else {
            return self.say(&left.name, "no host is there to measure it with".to_owned(), false);
        };
        let own = search(file);
        if let Some(error) = own.pairs.iter().find_map(|pair| pair.error.as_ref()) {
            self.say(&left.name, format!("its campaign did not end: {error}"), false);
        }
        for finding in &own.findings {
            let is_known = self.found.findings.iter().any(|known| is_one_weakness(&known.record, &finding.record));
            let shows = |said: &Self| said.measured(inventory, [a, b], well, &finding.record, stop);
            if !is_known && shows(self) != Repeated::Anomalous {
                let why = format!("{} of {}, and {} and {} do not show it", words(finding), left.name, a.name, b.name);
                self.say(&left.name, why, false);
            }
        }
        for finding in self.found.findings.iter().filter(|finding| !finding.not_on.is_empty()) {
            let well = &finding.not_on[0];
            let Some([a, b]) = self.hosts.get(well).copied() else { continue };
            let on = [[left, b], [a, left]].map(|hosts| self.measured(inventory, hosts, well, &finding.record, stop));
            if on.contains(&Repeated::Anomalous) {
                self.say(&left.name, format!("{}; it shows with hosts that are well", shown(finding)), true);
            } else if on != [Repeated::Healthy; 2] {
                self.say(&left.name, format!("{}: not known of this host", shown(finding)), false);
            }
        }
    }
}

impl Said<'_> {
    /// What a finding shows on two hosts, each of two times: values near a bound may show it once. The hosts are taken
    /// for as fast as this pair of hosts.
    fn measured(
        &self,
        inventory: &Inventory,
        hosts: [&InventoryHost; 2],
        as_fast_as: &str,
        record: &FindingRecord,
        stop: &AtomicBool,
    ) -> Repeated {
        let bounds = self.found.pairs.iter().find(|known| known.pair == as_fast_as).and_then(|known| known.bounds);
        let file = pair(inventory, hosts[0], hosts[1]).map(|file| PairFile { bounds, ..file });
        let Some(mut subsystem) = file.and_then(|file| PairSubsystem::of(file).ok()) else { return Repeated::Unknown };
        let [first, second] = [(); 2].map(|()| repeat(&mut subsystem, record, stop));
        if first == second { first } else { Repeated::Unknown }
    }
}

/// A finding in a line.
fn words(finding: &SharedFinding) -> String {
    let SharedFinding { finding: number, symptom, shows_with, conditions, .. } = finding;
    format!("finding {number}: {}, {shows_with}, {conditions}", symptom.name())
}

/// The same, and how many pairs do not show it.
fn shown(finding: &SharedFinding) -> String {
    let not_on = finding.not_on.len();
    format!("{}; {not_on} {} not show it", words(finding), if not_on == 1 { "pair does" } else { "pairs do" })
}
