//! What is said of the nodes of a fleet by the units of a qualification: in, out or unknown, and what is measured next
//! so that fewer are unknown. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::decide::PairTable;
use crate::learn::{Criteria, Criterion, LearnError, LearnOptions, is_below};
use crate::results::{Better, Direction};
use crate::similarity::Norm;
use crate::unit::{Outcome, Unit, UnitKey, UnitValue};

/// Values from which on a criterion can be learnt. Source: our choice; of two, nobody knows which is healthy.
const ENOUGH: usize = 3;
/// Times that a unit is done before a node is called slow by it. Source: our choice; what a burst of somebody else's
/// traffic spoilt is well the second time.
const TIMES: usize = 2;
/// A node that measures so many times what others do is not believed. Source: our choice; the next generation of links
/// is twice as fast.
const IMPLAUSIBLE: f64 = 2.5;
/// Times what values of healthy nodes typically differ by, as a ratio, that a value has to differ by to be slow. Source:
/// our choice, by `examples/alarms.rs`: 3.4 standard deviations of what is normally distributed, twice.
const NOISE: f64 = 5.0;
/// By how much more with few hosts, times their number. Source: our choice, by `examples/alarms.rs`.
const FEW: f64 = 4.0;
/// The least alpha: what is ten times slower is slow, whatever the noise.
const LEAST_ALPHA: f64 = 0.1;
/// Partners that a host is given whose own partners failed.
const PARTNERS: usize = 2;

/// Whether a node may take jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetState {
    /// Something of it is slow, or it does not answer.
    Out,
    /// Nobody can say.
    Unknown,
    /// All that was measured is as it should be.
    In,
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFault {
    /// The check.
    pub check: String,
    /// Which of several equal parts; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// The metric; none of a host that did not do its part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredFault>,
    /// In words: which way, how often, or why it failed.
    pub detail: String,
}

/// A value that is worse than it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFault {
    /// The metric.
    pub metric: String,
    /// What was measured, typically.
    pub got: f64,
    /// What the criterion is, typically.
    pub want: f64,
    /// What both are measured in.
    pub unit: String,
    /// How good it is against the criterion, from 0 to 1.
    pub similarity: f64,
}

/// What is said of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeQualification {
    /// Whether it may take jobs.
    pub state: FleetState,
    /// What is wrong, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<NodeFault>,
    /// Why it is unknown, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<String>,
    /// Values that speak of it.
    pub values: usize,
}

/// Two nodes that are fast with others and slow with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowPath {
    /// Both.
    pub hosts: [String; 2],
    /// Which of their parts; empty if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// What was measured.
    #[serde(flatten)]
    pub measured: MeasuredFault,
}

/// What is said of a fleet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetVerdict {
    /// By name.
    pub nodes: BTreeMap<String, NodeQualification>,
    /// Paths that are slow though both ends are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<SlowPath>,
    /// What nodes were held against.
    pub criteria: Criteria,
    /// Metrics that nothing is said of, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<String, String>,
    /// Metrics that vary between nodes so much that a smaller deficit than this share does not show.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noisy: BTreeMap<String, f64>,
}

impl FleetVerdict {
    /// Says of a node that was judged well that so many units of it were not done, and why.
    pub fn lacks(&mut self, node: &str, units: usize, why: &str) {
        if let Some(node) = self.nodes.get_mut(node).filter(|node| node.state != FleetState::Out) {
            node.state = FleetState::Unknown;
            node.unsure.push(format!("{units} of its units were not done: {why}"));
        }
    }

    /// How many nodes are so.
    pub fn count(&self, state: FleetState) -> usize {
        self.nodes.values().filter(|node| node.state == state).count()
    }
}

/// Judges units.
#[derive(Debug)]
pub struct FleetJudge<'u> {
    hosts: &'u [String],
    units: &'u [Unit],
    criteria: Criteria,
    without: BTreeMap<String, String>,
    noisy: BTreeMap<String, f64>,
    /// By metric, with the component: by direction the best that was measured, how good it is, and whether it is slow.
    metrics: BTreeMap<String, BTreeMap<(&'u str, Option<&'u str>), Judged<'u>>>,
}

#[derive(Debug, Clone, Copy)]
struct Judged<'u> {
    unit: &'u Unit,
    value: &'u UnitValue,
    similarity: f64,
    is_slow: bool,
}

impl<'u> FleetJudge<'u> {
    /// Holds units against criteria, or, where there is none of a metric, against what hosts measure in the middle. The names of
    /// the metrics in `given`, and in floors and alphas, are those of the values, with or without the component; of floors
    /// and alphas without the distance, too.
    ///
    /// # Errors
    /// Most nodes are below a floor, or an option breaks a rule.
    pub fn new(
        hosts: &'u [String],
        units: &'u [Unit],
        given: &Criteria,
        options: &LearnOptions,
    ) -> Result<Self, LearnError> {
        let mut best: BTreeMap<String, BTreeMap<(&str, Option<&str>), Judged<'_>>> = BTreeMap::new();
        for unit in units {
            let Outcome::Values(values) = &unit.outcome else { continue };
            for value in values {
                let name = full_name(&value.metric, &unit.key.component);
                let judged = Judged { unit, value, similarity: 1.0, is_slow: false };
                let way = (value.from.as_str(), value.to.as_deref());
                let kept = best.entry(name).or_default().entry(way).or_insert(judged);
                let (before, now) = (kept.value.typical(), value.typical());
                let is_better = if value.better == Better::Higher { now > before } else { now < before };
                if is_better {
                    *kept = judged;
                }
            }
        }
        let (without, noisy) = (BTreeMap::new(), BTreeMap::new());
        let mut judge = Self { hosts, units, criteria: Criteria::default(), without, noisy, metrics: best };
        judge.learn(given, options)?;
        judge.hold();
        Ok(judge)
    }

    fn learn(&mut self, given: &Criteria, options: &LearnOptions) -> Result<(), LearnError> {
        for (name, judged) in &self.metrics {
            let base = base_name(name);
            if let Some(criterion) = given.metrics.get(name).or_else(|| given.metrics.get(base)) {
                self.criteria.metrics.insert(name.clone(), criterion.clone());
                continue;
            }
            let stem = base.split('.').next().unwrap_or(base);
            let of = |map: &BTreeMap<String, f64>| {
                map.get(name).or_else(|| map.get(base)).or_else(|| map.get(stem)).copied()
            };
            let learner = HostLearner::new(judged);
            if learner.hosts.len() < ENOUGH {
                let few = format!("{} hosts are too few to learn from: give --criteria of a larger fleet", learner.hosts.len());
                self.without.insert(name.clone(), few);
                continue;
            }
            let asked = of(&options.alphas).unwrap_or(options.alpha);
            let criterion = learner.criterion(name, asked, of(&options.floors))?;
            if criterion.alpha < asked {
                self.noisy.insert(name.clone(), 1.0 - criterion.alpha);
            }
            self.criteria.metrics.insert(name.clone(), criterion);
        }
        Ok(())
    }

    fn hold(&mut self) {
        for (name, judged) in &mut self.metrics {
            let Some(criterion) = self.criteria.metrics.get(name) else { continue };
            for judged in judged.values_mut() {
                (judged.similarity, judged.is_slow) = criterion.judge(&[judged.value.typical()]);
            }
        }
    }

    /// The pairs of a metric, by the numbers of the hosts; empty of one that is no pairs'.
    fn table(&self, name: &str) -> PairTable {
        let mut slow: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        for ((from, to), judged) in &self.metrics[name] {
            let (Some(one), Some(other)) = (self.number(from), to.and_then(|to| self.number(to))) else { continue };
            *slow.entry((one.min(other), one.max(other))).or_default() |= judged.is_slow;
        }
        let mut table = PairTable::default();
        slow.into_iter().for_each(|((one, other), is_slow)| table.add(one, other, is_slow));
        table
    }

    fn number(&self, host: &str) -> Option<usize> {
        self.hosts.iter().position(|name| name == host)
    }

    /// Units to do next, none of which was done as often as it may be: what was slow once is measured again, and ends
    /// of slow pairs with others.
    pub fn questions(&self) -> Vec<UnitKey> {
        let mut times: BTreeMap<&UnitKey, usize> = BTreeMap::new();
        self.units.iter().for_each(|unit| *times.entry(&unit.key).or_default() += 1);
        let gone = self.gone();
        let is_there = |host: usize| !gone.contains_key(self.hosts[host].as_str());
        let mut next = BTreeSet::new();
        for (name, judged) in &self.metrics {
            // Several pairs of a host have said it already.
            let decided = self.table(name).decide().hosts.into_iter().filter(|(_, slow, _)| *slow > TIMES);
            let decided: Vec<&str> = decided.map(|(host, ..)| self.hosts[host].as_str()).collect();
            let slow = judged.values().filter(|judged| judged.is_slow).map(|judged| &judged.unit.key);
            let open = slow.filter(|key| !key.hosts.iter().any(|host| decided.contains(&host.as_str())));
            next.extend(open.filter(|key| times[key] < TIMES).cloned());
            let Some(key) = judged.values().find(|judged| judged.value.to.is_some()).map(|judged| &judged.unit.key)
            else {
                continue;
            };
            for (one, other) in self.table(name).questions(self.hosts.len(), is_there) {
                let mut hosts = vec![self.hosts[one].clone(), self.hosts[other].clone()];
                hosts.sort();
                next.insert(UnitKey { hosts, ..key.clone() });
            }
        }
        next.extend(self.alone_in_pairs(&gone));
        next.retain(|key| {
            key.hosts.iter().all(|host| !gone.contains_key(host.as_str()))
                && times.get(key).copied().unwrap_or_default() < TIMES
        });
        next.into_iter().collect()
    }

    /// What was done of each check and component, by host: whether anything was measured.
    fn covered(&self) -> BTreeMap<(&str, &str), BTreeMap<&str, bool>> {
        let mut covered: BTreeMap<(&str, &str), BTreeMap<&str, bool>> = BTreeMap::new();
        for unit in self.units {
            let hosts = covered.entry((&unit.key.check, &unit.key.component)).or_default();
            let is_measured = matches!(unit.outcome, Outcome::Values(_));
            for host in &unit.key.hosts {
                *hosts.entry(host).or_default() |= is_measured;
            }
        }
        covered
    }

    /// Pairs of hosts whose partners all failed, with others.
    fn alone_in_pairs(&self, gone: &BTreeMap<&str, (&'u UnitKey, &'u str)>) -> Vec<UnitKey> {
        let mut next = Vec::new();
        for ((check, component), hosts) in self.covered() {
            let is_pairs = |unit: &Unit| unit.key.check == check && unit.key.hosts.len() == 2;
            if !self.units.iter().any(is_pairs) {
                continue;
            }
            let measured: Vec<&str> = hosts.iter().filter(|(_, is_measured)| **is_measured).map(|(host, _)| *host).collect();
            let alone = hosts.iter().filter(|(host, is_measured)| !**is_measured && !gone.contains_key(*host));
            for (nth, (host, _)) in alone.enumerate() {
                for partner in measured.iter().cycle().skip(nth).take(PARTNERS.min(measured.len())) {
                    let mut hosts = vec![(*host).to_owned(), (*partner).to_owned()];
                    hosts.sort();
                    let (check, component) = (check.to_owned(), component.to_owned());
                    next.push(UnitKey { check, hosts, component });
                }
            }
        }
        next
    }

    /// Hosts that did not do their part and have not since.
    fn gone(&self) -> BTreeMap<&str, (&'u UnitKey, &'u str)> {
        let mut gone = BTreeMap::new();
        for unit in self.units {
            match &unit.outcome {
                Outcome::Failed(failure) | Outcome::Skipped(failure) => {
                    let first = (&unit.key, failure.reason.as_str());
                    gone.entry(failure.host.as_str()).or_insert(first);
                }
                Outcome::Values(_) => unit.key.hosts.iter().for_each(|host| {
                    gone.remove(host.as_str());
                }),
                Outcome::Unsupported(_) => {}
            }
        }
        gone
    }

    /// What is said of all nodes.
    pub fn verdict(self) -> FleetVerdict {
        let mut nodes: BTreeMap<String, NodeQualification> = (self.hosts.iter())
            .map(|host| {
                let unknown = FleetState::Unknown;
                let node = NodeQualification { state: unknown, faults: Vec::new(), unsure: Vec::new(), values: 0 };
                (host.clone(), node)
            })
            .collect();
        for (host, (key, reason)) in self.gone() {
            if let Some(node) = nodes.get_mut(host) {
                let (check, component) = (key.check.clone(), key.component.clone());
                node.faults.push(NodeFault { check, component, measured: None, detail: reason.to_owned() });
            }
        }
        let gone: BTreeSet<String> = self.gone().into_keys().map(str::to_owned).collect();
        self.failures(&mut nodes, &gone);
        for ((check, component), hosts) in self.covered() {
            let part = if component.is_empty() { String::new() } else { format!(" on {component}") };
            for host in hosts.into_iter().filter(|(_, is_measured)| !is_measured).map(|(host, _)| host) {
                if let Some(node) = nodes.get_mut(host).filter(|node| node.faults.is_empty() && node.unsure.is_empty()) {
                    node.unsure.push(format!("{check}{part}: its partners failed, and nothing was measured"));
                }
            }
        }
        let mut between = Vec::new();
        for (name, judged) in &self.metrics {
            let Some(criterion) = self.criteria.metrics.get(name) else { continue };
            self.alone(judged, criterion, &mut nodes);
            self.in_pairs(name, criterion, &mut nodes, &mut between);
        }
        for node in nodes.values_mut() {
            let badness = |fault: &NodeFault| fault.measured.as_ref().map_or(-1.0, |measured| measured.similarity);
            node.faults.sort_by(|one, other| badness(one).total_cmp(&badness(other)));
            node.state = match (node.faults.is_empty(), node.unsure.is_empty(), node.values) {
                (false, _, _) => FleetState::Out,
                (true, true, 1..) => FleetState::In,
                (true, ..) => FleetState::Unknown,
            };
            if node.values == 0 && node.faults.is_empty() && node.unsure.is_empty() {
                node.unsure.push("nothing was measured of it".to_owned());
            }
        }
        FleetVerdict { nodes, between, criteria: self.criteria, without: self.without, noisy: self.noisy }
    }

    /// What failed once and went well afterwards, what was left out with hosts that are gone, what a host cannot do.
    fn failures(&self, nodes: &mut BTreeMap<String, NodeQualification>, gone: &BTreeSet<String>) {
        for unit in self.units {
            let check = &unit.key.check;
            match &unit.outcome {
                // A host that is gone may have been what failed its partner, too.
                Outcome::Failed(_) if unit.key.hosts.iter().any(|host| gone.contains(host)) => {}
                Outcome::Failed(failure) => {
                    if let Some(node) = nodes.get_mut(&failure.host) {
                        node.unsure.push(format!("{check} failed once: {}", failure.reason));
                    }
                }
                Outcome::Unsupported(failure) => {
                    if let Some(node) = nodes.get_mut(&failure.host) {
                        node.unsure.push(format!("cannot do {check}: {}", failure.reason));
                    }
                }
                _ => {}
            }
        }
        for node in nodes.values_mut() {
            node.unsure.sort();
            node.unsure.dedup();
        }
    }

    fn alone(
        &self,
        judged: &BTreeMap<(&str, Option<&str>), Judged<'_>>,
        criterion: &Criterion,
        nodes: &mut BTreeMap<String, NodeQualification>,
    ) {
        for ((host, _), judged) in judged.iter().filter(|((_, to), _)| to.is_none()) {
            let Some(node) = nodes.get_mut(*host) else { continue };
            node.values += 1;
            let measured = judged.against(criterion);
            if judged.is_slow {
                let detail = String::new();
                node.faults.push(judged.fault(measured, detail));
            } else if let Some(times) = implausible(&measured, criterion) {
                let metric = &measured.metric;
                node.unsure.push(format!(
                    "{metric} is {times:.1} times as good as others': other hardware, or not to be believed"
                ));
            }
        }
    }

    fn in_pairs(
        &self,
        name: &str,
        criterion: &Criterion,
        nodes: &mut BTreeMap<String, NodeQualification>,
        between: &mut Vec<SlowPath>,
    ) {
        let judged = &self.metrics[name];
        for ((from, to), _) in judged {
            let Some(to) = to else { continue };
            for host in [*from, *to] {
                if let Some(node) = nodes.get_mut(host) {
                    node.values += 1;
                }
            }
        }
        let decision = self.table(name).decide();
        for (host, slow, all) in &decision.hosts {
            let host = self.hosts[*host].as_str();
            let ways = judged.iter().filter(|((from, to), judged)| {
                judged.is_slow && to.is_some_and(|to| to == host || *from == host)
            });
            let ways: Vec<(&(&str, Option<&str>), &Judged<'_>)> = ways.collect();
            let sends = ways.iter().filter(|((from, _), _)| *from == host).count();
            let way = match (sends, ways.len() - sends) {
                (_, 0) => "when it sends, ",
                (0, _) => "when it receives, ",
                _ => "",
            };
            let worst = ways.iter().min_by(|one, other| one.1.similarity.total_cmp(&other.1.similarity));
            let (Some((_, worst)), Some(node)) = (worst, nodes.get_mut(host)) else { continue };
            let detail = format!("{way}with {slow} of {all} hosts");
            node.faults.push(worst.fault(worst.against(criterion), detail));
        }
        for (is_open, (one, other)) in
            decision.between.iter().map(|pair| (false, pair)).chain(decision.open.iter().map(|pair| (true, pair)))
        {
            let (one, other) = (self.hosts[*one].as_str(), self.hosts[*other].as_str());
            let of_pair = [(one, Some(other)), (other, Some(one))];
            let ways = of_pair.iter().filter_map(|way| judged.get(way));
            let Some(worst) = ways.min_by(|a, b| a.similarity.total_cmp(&b.similarity)) else { continue };
            let measured = worst.against(criterion);
            for (host, peer) in [(one, other), (other, one)] {
                let why = if is_open {
                    format!("{} is slow with {peer}, and no other pair says which of the two is", measured.metric)
                } else {
                    format!("{} is slow with {peer} alone: the path between them is", measured.metric)
                };
                if let Some(node) = nodes.get_mut(host) {
                    node.unsure.push(why);
                }
            }
            if !is_open {
                let component = worst.unit.key.component.clone();
                between.push(SlowPath { hosts: [one.to_owned(), other.to_owned()], component, measured });
            }
        }
    }
}

impl Judged<'_> {
    fn against(&self, criterion: &Criterion) -> MeasuredFault {
        MeasuredFault {
            metric: self.value.metric.clone(),
            got: self.value.typical(),
            want: criterion.typical(),
            unit: self.value.unit.clone(),
            similarity: self.similarity,
        }
    }

    fn fault(&self, measured: MeasuredFault, detail: String) -> NodeFault {
        let key = &self.unit.key;
        NodeFault { check: key.check.clone(), component: key.component.clone(), measured: Some(measured), detail }
    }
}

/// Learns what a healthy host measures from a run in which each host has few values, and the partners of a bad one are
/// slow with it. Source: ours; algorithm 2 of SuperBench is for many values of many nodes.
struct HostLearner {
    direction: Direction,
    /// The median of each host's values, the best first.
    hosts: Vec<f64>,
    /// All values, the best first.
    values: Vec<f64>,
    /// What the samples of a unit typically differ by.
    within: f64,
}

impl HostLearner {
    fn new(judged: &BTreeMap<(&str, Option<&str>), Judged<'_>>) -> Self {
        let mut of_host: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut direction = Direction::default();
        let (mut values, mut within) = (Vec::new(), Vec::new());
        for ((from, to), Judged { value, .. }) in judged {
            direction = Direction { unit: value.unit.clone(), better: value.better };
            let typical = value.typical();
            for host in std::iter::once(from).chain(to) {
                of_host.entry(host).or_default().push(typical);
            }
            values.push(typical);
            within.push(noise(value.samples.iter().copied(), typical));
        }
        let in_order = |mut values: Vec<f64>| {
            values.sort_by(|one, other| match direction.better {
                Better::Higher => other.total_cmp(one),
                Better::Lower => one.total_cmp(other),
            });
            values
        };
        let middle = |values: Vec<f64>| {
            let values = in_order(values);
            f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
        };
        let hosts = in_order(of_host.into_values().map(middle).collect());
        let values = in_order(values);
        within.sort_by(f64::total_cmp);
        let within = within.get(within.len() / 2).copied().unwrap_or_default();
        Self { direction, hosts, values, within }
    }

    /// The middle of the hosts; of two, the better one, because a bad host makes its partner's only pair slow, too.
    fn criterion(self, name: &str, alpha: f64, floor: Option<f64>) -> Result<Criterion, LearnError> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(LearnError::Alpha(alpha));
        }
        let typical = self.hosts[(self.hosts.len() - 1) / 2];
        let is_below = |value: f64| floor.is_some_and(|floor| is_below(&[value], floor, self.direction.better));
        if let Some(floor) = floor.filter(|_| is_below(typical)) {
            let below = self.hosts.iter().filter(|value| is_below(**value)).count();
            return Err(LearnError::BelowFloor { metric: name.to_owned(), below, nodes: self.hosts.len(), floor });
        }
        // Bad hosts are on one side, and hosts that lie on the other.
        let side = |values: &[f64]| noise(values.iter().copied(), typical);
        let middle = self.values.len() / 2;
        let between = side(&self.values[..middle]).min(side(&self.values[middle..]));
        // What few hosts differ by says little of what they may differ by.
        let few = 1.0 + FEW / self.hosts.len() as f64;
        let seen = (1.0 - between.max(self.within)).powf(NOISE * few).max(LEAST_ALPHA);
        Ok(Criterion {
            criterion: vec![typical],
            defects: Vec::new(),
            repeatability: 1.0 - between,
            alpha: alpha.min(seen),
            norm: Norm::default(),
            floor,
            direction: self.direction,
        })
    }
}

/// What values typically differ from one by; nothing if there is none.
fn noise(values: impl Iterator<Item = f64>, typical: f64) -> f64 {
    let apart = |value: f64| {
        let most = value.max(typical);
        if most > 0.0 { 1.0 - value.min(typical) / most } else { 0.0 }
    };
    let mut apart: Vec<f64> = values.map(apart).collect();
    apart.sort_by(f64::total_cmp);
    apart.get(apart.len() / 2).copied().unwrap_or_default()
}

/// How many times better a value is than it can be, if so: the more values vary, the better some are.
fn implausible(measured: &MeasuredFault, criterion: &Criterion) -> Option<f64> {
    let times = match criterion.direction.better {
        Better::Higher => measured.got / measured.want,
        Better::Lower => measured.want / measured.got,
    };
    (times * criterion.alpha > IMPLAUSIBLE).then_some(times)
}

fn full_name(metric: &str, component: &str) -> String {
    if component.is_empty() { metric.to_owned() } else { format!("{metric}[{component}]") }
}

fn base_name(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: usize) -> Vec<String> {
        (1..=count).map(|host| format!("n{host}")).collect()
    }

    fn unit(check: &str, hosts: &[&str], values: &[(&str, Option<&str>, f64)]) -> Unit {
        let value = |(from, to, value): &(&str, Option<&str>, f64)| UnitValue {
            metric: check.to_owned(),
            unit: "Gb/s".to_owned(),
            better: Better::Higher,
            from: (*from).to_owned(),
            to: to.map(str::to_owned),
            samples: vec![*value],
        };
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let key = UnitKey { check: check.to_owned(), hosts, component: String::new() };
        Unit { key, outcome: Outcome::Values(values.iter().map(value).collect()), seconds: 1.0 }
    }

    fn pair(one: &str, other: &str, there: f64, back: f64) -> Unit {
        unit("pair", &[one, other], &[(one, Some(other), there), (other, Some(one), back)])
    }

    fn failed(host: &str, with: &str) -> Unit {
        let outcome = Outcome::Failed(HostFailure { host: host.to_owned(), reason: "no answer".to_owned() });
        Unit { outcome, ..pair(host, with, 0.0, 0.0) }
    }

    use crate::unit::HostFailure;

    fn judge<'u>(hosts: &'u [String], units: &'u [Unit]) -> FleetJudge<'u> {
        FleetJudge::new(hosts, units, &Criteria::default(), &LearnOptions::default()).expect("sound options")
    }

    #[test]
    fn a_slow_host_is_out_when_it_was_slow_twice_and_its_partners_are_in() {
        let hosts = hosts(6);
        let mut units = vec![pair("n1", "n2", 50.0, 98.0), pair("n3", "n4", 98.0, 97.0), pair("n5", "n6", 98.0, 98.0)];
        for _ in 0..3 {
            let questions = judge(&hosts, &units).questions();
            for UnitKey { hosts, .. } in questions {
                let sends = |host: &str| if host == "n1" { 50.0 } else { 98.0 };
                units.push(pair(&hosts[0], &hosts[1], sends(&hosts[0]), sends(&hosts[1])));
            }
        }
        let verdict = judge(&hosts, &units).verdict();
        let fault = &verdict.nodes["n1"].faults[0];
        assert_eq!(fault.measured.as_ref().map(|measured| (measured.got, measured.want)), Some((50.0, 98.0)));
        assert!(fault.detail.starts_with("when it sends, with "), "{}", fault.detail);
        assert_eq!((verdict.count(FleetState::Out), verdict.count(FleetState::In)), (1, 5), "{verdict:#?}");
        assert!(units.len() < 10, "{}", units.len());
    }

    #[test]
    fn what_is_slow_once_and_well_the_second_time_is_no_fault() {
        let hosts = hosts(4);
        let slow = [unit("m", &["n1"], &[("n1", None, 5.0)])];
        let well: Vec<Unit> = hosts.iter().map(|host| unit("m", &[host], &[(host, None, 10.0)])).collect();
        let units: Vec<Unit> = slow.into_iter().chain(well).collect();
        assert!(judge(&hosts, &units).questions().is_empty());
        assert_eq!(judge(&hosts, &units).verdict().count(FleetState::In), 4);
    }

    #[test]
    fn who_does_not_answer_is_out_who_answered_again_is_unknown_and_who_was_not_measured_too() {
        let hosts = hosts(6);
        let units = [
            failed("n1", "n2"),
            failed("n3", "n4"),
            pair("n3", "n4", 9.0, 9.0),
            pair("n2", "n4", 9.0, 9.0),
            pair("n2", "n5", 9.0, 9.0),
        ];
        let verdict = judge(&hosts, &units).verdict();
        let state = |host: &str| verdict.nodes[host].state;
        use FleetState::{In, Out, Unknown};
        let states = ["n1", "n2", "n3", "n4", "n5", "n6"].map(state);
        assert_eq!(states, [Out, In, Unknown, In, In, Unknown]);
        assert_eq!(verdict.nodes["n1"].faults[0].detail, "no answer");
    }

    #[test]
    fn a_host_whose_partner_died_is_measured_with_others() {
        let hosts = hosts(4);
        let mut units = vec![failed("n1", "n2"), pair("n3", "n4", 9.0, 9.0)];
        let partners: Vec<Vec<String>> = judge(&hosts, &units).questions().into_iter().map(|key| key.hosts).collect();
        assert_eq!(partners, [["n2", "n3"], ["n2", "n4"]]);
        assert_eq!(judge(&hosts, &units).verdict().nodes["n2"].state, FleetState::Unknown);
        units.push(pair("n2", "n3", 9.0, 9.0));
        let verdict = judge(&hosts, &units).verdict();
        assert_eq!((verdict.count(FleetState::In), verdict.count(FleetState::Out)), (3, 1), "{verdict:#?}");
    }

    #[test]
    fn a_slow_pair_of_two_fast_hosts_is_a_slow_path_and_nobody_is_out() {
        let hosts = hosts(4);
        let all = [("n1", "n2"), ("n1", "n3"), ("n1", "n4"), ("n2", "n3"), ("n2", "n4"), ("n3", "n4")];
        let slow = |one: &str, other: &str| if (one, other) == ("n1", "n2") { 5.0 } else { 9.0 };
        let units: Vec<Unit> =
            all.iter().chain(&all[..1]).map(|(one, other)| pair(one, other, slow(one, other), 9.0)).collect();
        let verdict = judge(&hosts, &units).verdict();
        assert_eq!((verdict.between[0].hosts[0].as_str(), verdict.between.len()), ("n1", 1));
        assert_eq!((verdict.count(FleetState::Out), verdict.count(FleetState::Unknown)), (0, 2));
    }

    #[test]
    fn what_varies_by_itself_has_to_be_slower_to_be_slow() {
        let hosts = hosts(9);
        let of = |speed: &dyn Fn(usize) -> f64| -> Vec<Unit> {
            let unit = |(nth, host): (usize, &String)| unit("m", &[host], &[(host, None, speed(nth))]);
            hosts.iter().enumerate().map(unit).collect()
        };
        let out = |units: &[Unit]| judge(&hosts, units).verdict().count(FleetState::Out);
        let (steady, noisy) = (|nth: usize| 100.0 + nth as f64 / 4.0, |nth: usize| 100.0 + 5.0 * (nth % 5) as f64);
        let with = |speed: fn(usize) -> f64, slow: f64| of(&move |nth| if nth == 8 { slow } else { speed(nth) });
        assert_eq!((out(&with(steady, 90.0)), out(&with(noisy, 90.0)), out(&with(noisy, 50.0))), (1, 0, 1));
        let verdict = judge(&hosts, &of(&noisy)).verdict();
        assert!(verdict.noisy["m"] > 0.1 && judge(&hosts, &of(&steady)).verdict().noisy.is_empty(), "{verdict:?}");
    }

    #[test]
    fn two_hosts_are_too_few_to_learn_from_and_criteria_of_others_serve() {
        let hosts = hosts(2);
        let units = [pair("n1", "n2", 5.0, 9.0)];
        let verdict = judge(&hosts, &units).verdict();
        assert!(verdict.without["pair"].contains("too few"), "{verdict:?}");
        let criterion = Criterion {
            criterion: vec![9.0],
            defects: Vec::new(),
            repeatability: 1.0,
            alpha: 0.95,
            norm: Norm::Xmax,
            floor: None,
            direction: Direction::default(),
        };
        let given = Criteria { metrics: [("pair".to_owned(), criterion)].into() };
        let judge = FleetJudge::new(&hosts, &units, &given, &LearnOptions::default()).expect("sound");
        assert_eq!(judge.questions().len(), 1, "once more");
        assert_eq!(judge.verdict().count(FleetState::Unknown), 2, "nobody says which of the two");
    }
}
