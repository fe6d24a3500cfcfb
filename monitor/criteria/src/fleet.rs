//! What is said of the nodes of a fleet by the units of a qualification: in, out or unknown, and what is measured next
//! so that fewer are unknown. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::best::{MeasuredValue, Way, best_values};
use crate::evidence;
use crate::fleet_verdict::{FleetState, FleetVerdict, NodeFault, NodeQualification};
use crate::judged::{Judged, implausible};
use crate::learn::{Criteria, Criterion, LearnError, LearnOptions};
use crate::learner::{ENOUGH, HostLearner};
use crate::names::{base_name, distance, pair_name, stem};
use crate::pairs::{PairGroup, PairValue, TIMES};
use crate::results::Better;
use crate::unit::{Outcome, Unit, UnitKey};

/// A metric, and why nothing is said by it.
type NamedReason<'r> = (&'r str, &'r str);

/// Partners that a host is given whose own partners failed.
const PARTNERS: usize = 2;

/// Judges units.
#[derive(Debug)]
pub struct FleetJudge<'u> {
    hosts: &'u [String],
    units: &'u [Unit],
    criteria: Criteria,
    without: BTreeMap<String, String>,
    noisy: BTreeMap<String, f64>,
    /// Metrics that say nothing of a node's health though some criterion is there, and why.
    blind: BTreeMap<String, String>,
    /// Metrics whose criteria come of this run alone, without a floor or an alpha of their own.
    own: BTreeSet<String>,
    /// Metrics that too few hosts have to learn from, and that are not what a node is well by.
    aside: BTreeSet<String>,
    /// What hosts measured in another unit than most.
    odd: Vec<(&'u str, String)>,
    /// By metric, with the component: by direction the best that was measured, how good it is, and whether it is slow.
    metrics: BTreeMap<String, BTreeMap<Way<'u>, Judged<'u>>>,
    numbers: HashMap<&'u str, usize>,
}

impl<'u> FleetJudge<'u> {
    /// Holds units against criteria, or, where there is none of a metric, against what hosts measure in the middle. The
    /// names of the metrics in `given`, and in floors and alphas, are those of the values, with or without the
    /// component; of floors and alphas without the distance, too.
    ///
    /// # Errors
    /// All nodes are below a floor, or an option breaks a rule.
    pub fn new(
        hosts: &'u [String],
        units: &'u [Unit],
        given: &Criteria,
        options: &LearnOptions,
    ) -> Result<Self, LearnError> {
        let judged = |(way, (unit, value))| (way, Judged { unit, value, similarity: 1.0, is_slow: false });
        let of_metric = |(name, values): (String, BTreeMap<Way<'u>, MeasuredValue<'u>>)| {
            (name, values.into_iter().map(judged).collect())
        };
        let mut best: BTreeMap<String, BTreeMap<Way<'u>, Judged<'u>>> =
            best_values(units).into_iter().map(of_metric).collect();
        let odd = evidence::other_units(&mut best);
        let (without, noisy, blind) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let numbers = hosts.iter().enumerate().map(|(number, host)| (host.as_str(), number)).collect();
        let criteria = Criteria::default();
        let (own, aside) = (BTreeSet::new(), BTreeSet::new());
        let mut judge = Self { hosts, units, criteria, without, noisy, blind, own, aside, odd, metrics: best, numbers };
        judge.learn(given, options)?;
        judge.hold();
        judge.doubt();
        Ok(judge)
    }

    fn learn(&mut self, given: &Criteria, options: &LearnOptions) -> Result<(), LearnError> {
        let learners: BTreeMap<&String, HostLearner> =
            self.metrics.iter().map(|(name, judged)| (name, HostLearner::new(judged))).collect();
        for (name, judged) in &self.metrics {
            let base = base_name(name);
            let stem = stem(name);
            let of = |map: &BTreeMap<String, f64>| {
                map.get(name).or_else(|| map.get(base)).or_else(|| map.get(stem)).copied()
            };
            if let Some(criterion) = given.metrics.get(name).or_else(|| given.metrics.get(base)) {
                let (its, measured) = (&criterion.direction.unit, unit_of(judged));
                if its == measured || its.is_empty() {
                    let floor = of(&options.floors).or(criterion.floor);
                    self.criteria.metrics.insert(name.clone(), Criterion { floor, ..criterion.clone() });
                } else {
                    let other = format!("its criterion is in `{its}`, and `{measured}` was measured");
                    self.without.insert(name.clone(), other);
                }
                continue;
            }
            let learner = &learners[name];
            let floor = of(&options.floors);
            if learner.hosts() < ENOUGH && floor.is_none() {
                let few = format!("{} hosts are too few to learn from: give --criteria or --floor", learner.hosts());
                self.without.insert(name.clone(), few);
                if of(&options.alphas).is_some() {
                    self.aside.insert(name.clone());
                }
                continue;
            }
            let asked = of(&options.alphas).unwrap_or(options.alpha);
            let criterion = learner.criterion(name, asked, floor)?;
            if criterion.alpha < asked {
                self.noisy.insert(name.clone(), 1.0 - criterion.alpha);
            }
            // What is known to vary is asked for by an alpha of its own, and is not what a node is well by. A floor
            // says what a node is well by.
            if of(&options.alphas).or(floor).is_none() {
                self.own.insert(name.clone());
                let is_farther = |other: &str| {
                    pair_name(other) == pair_name(name)
                        && distance(other).zip(distance(name)).is_some_and(|(other, own)| other > own)
                };
                let others = learners.iter().filter(|(other, _)| is_farther(other)).map(|(_, learner)| learner);
                let blind = evidence::blind(std::iter::once(learner).chain(others), &criterion);
                self.blind.extend(blind.map(|why| (name.clone(), why)));
            }
            self.criteria.metrics.insert(name.clone(), criterion);
        }
        let is_measured = |floor: &String| {
            self.metrics.keys().any(|name| [name.as_str(), base_name(name), stem(name)].contains(&floor.as_str()))
        };
        let unknown: Vec<&String> = options.floors.keys().filter(|floor| !is_measured(floor)).collect();
        for floor in unknown {
            self.without.insert(floor.clone(), "it has a floor, and nothing of this name was measured".to_owned());
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

    /// Pairs that are all alike are evidence only if bad hosts could not make all of them slow.
    fn doubt(&mut self) {
        let mut groups: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for name in self.own.iter().filter(|name| self.metrics[*name].keys().any(|(_, to)| to.is_some())) {
            groups.entry(pair_name(name)).or_default().push(name);
        }
        let mut doubtful = Vec::new();
        for names in groups.into_values() {
            let judged = || names.iter().flat_map(|name| &self.metrics[*name]);
            if judged().any(|(_, judged)| judged.is_slow) {
                continue;
            }
            let number = |host: &str| self.numbers.get(host).copied();
            let both = |(from, to): &Way<'_>| Some((number(from)?, number((*to)?)?));
            let pairs = judged().filter_map(|(way, _)| both(way));
            let pairs: BTreeSet<(usize, usize)> = pairs.map(|(from, to)| (from.min(to), from.max(to))).collect();
            for name in names.iter().filter(|name| !self.blind.contains_key(**name)) {
                let why = evidence::hidden(&pairs, &self.criteria.metrics[*name], self.loopback(name));
                doubtful.extend(why.map(|why| ((*name).clone(), why)));
            }
        }
        self.blind.extend(doubtful);
    }

    /// What a healthy NIC moves through itself, on the component of a metric of pairs and in its unit: not the most
    /// that a host says, which one that lies would decide.
    fn loopback(&self, name: &str) -> Option<f64> {
        let (component, unit) = (name.split_once('['), unit_of(&self.metrics[name]));
        let is_like = |other: &&String| {
            other.starts_with("loopback") && other.split_once('[').map(|(_, of)| of) == component.map(|(_, of)| of)
        };
        let alike = self.metrics.iter().filter(|(other, _)| is_like(other));
        let alike = alike.filter(|(_, judged)| {
            let first = judged.values().next();
            first.is_some_and(|judged| judged.value.unit == unit && judged.value.better == Better::Higher)
        });
        let typical = |name: &String| self.criteria.metrics.get(name).map(Criterion::typical);
        alike.filter_map(|(name, _)| typical(name)).max_by(f64::total_cmp)
    }

    /// The metrics of pairs, those of all distances together: one distance alone has few pairs of a host.
    fn pairs(&self) -> Vec<PairGroup<'_>> {
        let mut groups: BTreeMap<String, Vec<PairValue<'_>>> = BTreeMap::new();
        for (name, judged) in &self.metrics {
            let Some(criterion) = self.criteria.metrics.get(name) else { continue };
            let group = pair_name(name);
            for ((from, to), judged) in judged {
                let numbers = (self.numbers.get(from), to.and_then(|to| self.numbers.get(to)));
                if let (Some(from), Some(to)) = numbers {
                    let value = PairValue { from: *from, to: *to, judged, criterion };
                    groups.entry(group.clone()).or_default().push(value);
                }
            }
        }
        groups.into_values().map(|values| PairGroup::new(self.hosts, values)).collect()
    }

    /// Units to do next, none of which was done as often as it may be: what was slow once is measured again, and ends
    /// of slow pairs with others.
    pub fn questions(&self) -> Vec<UnitKey> {
        let mut times: BTreeMap<&UnitKey, usize> = BTreeMap::new();
        self.units.iter().for_each(|unit| *times.entry(&unit.key).or_default() += 1);
        let gone = self.gone();
        let is_there = |host: usize| !gone.contains_key(self.hosts[host].as_str());
        let alone = self.metrics.values().flatten().filter(|((_, to), judged)| to.is_none() && judged.is_slow);
        let mut next: BTreeSet<UnitKey> = alone.map(|(_, judged)| judged.unit.key.clone()).collect();
        next.extend(self.pairs().iter().flat_map(|group| group.questions(&times, is_there)));
        next.extend(self.alone_in_pairs(&gone));
        next.extend(self.behind());
        next.retain(|key| {
            key.hosts.iter().all(|host| !gone.contains_key(host.as_str()))
                && times.get(key).copied().unwrap_or_default() < TIMES
        });
        next.into_iter().collect()
    }

    /// Pairs of hosts that are behind with those that are ahead, where the middle is doubtful: whoever is fast with
    /// them was slow by its partner.
    fn behind(&self) -> Vec<UnitKey> {
        let mut next = Vec::new();
        for (name, judged) in self.metrics.iter().filter(|(name, _)| self.blind.contains_key(*name)) {
            let Some(criterion) = self.criteria.metrics.get(name) else { continue };
            let (mut ahead, mut all) = (BTreeSet::new(), BTreeSet::new());
            for ((from, to), judged) in judged {
                let Some(to) = to else { continue };
                all.extend([*from, *to]);
                if judged.is_ahead(criterion) {
                    ahead.extend([*from, *to]);
                }
            }
            let Some(key) = judged.values().next().map(|judged| &judged.unit.key) else { continue };
            let ahead: Vec<&str> = ahead.into_iter().collect();
            for (nth, host) in all.into_iter().filter(|host| !ahead.contains(host)).enumerate() {
                let is_new = |partner: &&&str| {
                    !judged.contains_key(&(host, Some(**partner))) && !judged.contains_key(&(**partner, Some(host)))
                };
                for partner in ahead.iter().cycle().skip(nth).take(ahead.len()).filter(is_new).take(PARTNERS) {
                    let mut hosts = vec![host.to_owned(), (*partner).to_owned()];
                    hosts.sort();
                    next.push(UnitKey { hosts, ..key.clone() });
                }
            }
        }
        next
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
            let measured: Vec<&str> =
                hosts.iter().filter(|(_, is_measured)| **is_measured).map(|(host, _)| *host).collect();
            let alone: Vec<&str> = (hosts.iter())
                .filter(|(host, is_measured)| !**is_measured && !gone.contains_key(*host))
                .map(|(host, _)| *host)
                .collect();
            // If the partners of all failed, those that are left have each other.
            let partners = if measured.is_empty() { &alone } else { &measured };
            for (nth, host) in alone.iter().enumerate() {
                let others = partners.iter().cycle().skip(nth).take(partners.len()).filter(|partner| *partner != host);
                for partner in others.take(PARTNERS) {
                    let mut hosts = vec![(*host).to_owned(), (*partner).to_owned()];
                    hosts.sort();
                    let (check, component) = (check.to_owned(), component.to_owned());
                    next.push(UnitKey { check, hosts, component });
                }
            }
        }
        next
    }

    /// Checks that no host can do, and why: that says nothing of a host.
    fn impossible(&self) -> BTreeMap<&'u str, &'u str> {
        let mut impossible = BTreeMap::new();
        let mut possible = BTreeSet::new();
        for unit in self.units {
            match &unit.outcome {
                Outcome::Unsupported(failure) if !unit.outcome.is_not_asked() => {
                    impossible.entry(unit.key.check.as_str()).or_insert(failure.reason.as_str());
                }
                Outcome::Values(_) => _ = possible.insert(unit.key.check.as_str()),
                _ => {}
            }
        }
        impossible.retain(|check, _| !possible.contains(check));
        impossible
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
        let nobody =
            self.hosts.len() >= ENOUGH && !self.units.iter().any(|it| matches!(it.outcome, Outcome::Values(_)));
        for (host, (key, reason)) in self.gone() {
            if let Some(node) = nodes.get_mut(host) {
                if nobody {
                    node.unsure.push(format!("no host did anything, so look at this controller's network: {reason}"));
                    continue;
                }
                let (check, component) = (key.check.clone(), key.component.clone());
                node.faults.push(NodeFault { check, component, measured: None, detail: reason.to_owned() });
            }
        }
        let gone: BTreeSet<String> = self.gone().into_keys().map(str::to_owned).collect();
        let impossible = self.impossible();
        self.failures(&mut nodes, &gone, &impossible);
        for ((check, component), hosts) in
            self.covered().into_iter().filter(|((check, _), _)| !impossible.contains_key(*check))
        {
            let part = if component.is_empty() { String::new() } else { format!(" on {component}") };
            for host in hosts.into_iter().filter(|(_, is_measured)| !is_measured).map(|(host, _)| host) {
                if let Some(node) = nodes.get_mut(host).filter(|node| node.faults.is_empty() && node.unsure.is_empty())
                {
                    node.unsure.push(format!("{check}{part}: its partners failed, and nothing was measured"));
                }
            }
        }
        for (name, judged) in &self.metrics {
            if let Some(criterion) = self.criteria.metrics.get(name) {
                alone(judged, criterion, &mut nodes);
            }
        }
        let mut between = Vec::new();
        let pairs = self.pairs();
        let slow: BTreeSet<usize> = pairs.iter().flat_map(PairGroup::slow_hosts).collect();
        for group in &pairs {
            group.say(&slow, &mut nodes, &mut between);
        }
        for (host, why) in self.odd.iter().cloned().chain(self.unheld()).chain(evidence::missing(&self.metrics)) {
            if let Some(node) = nodes.get_mut(host).filter(|node| node.faults.is_empty()) {
                node.unsure.push(why);
            }
        }
        for node in nodes.values_mut() {
            node.faults.sort_by(|one, other| one.goodness().total_cmp(&other.goodness()));
            node.state = match (node.faults.is_empty(), node.unsure.is_empty(), node.values) {
                (false, _, _) => FleetState::Out,
                (true, true, 1..) => FleetState::In,
                (true, ..) => FleetState::Unknown,
            };
            if node.values == 0 && node.faults.is_empty() && node.unsure.is_empty() {
                node.unsure.push("nothing was measured of it".to_owned());
            }
        }
        let cannot = impossible.iter().map(|(check, why)| ((*check).to_owned(), format!("no host can do it: {why}")));
        let without = self.without.iter().map(|(metric, why)| (metric.clone(), why.clone())).chain(cannot).collect();
        FleetVerdict { nodes, between, criteria: self.criteria, without, noisy: self.noisy }
    }

    /// Hosts of whose values of a metric, at all distances, none is held against anything that would show a fault.
    fn unheld(&self) -> Vec<(&'u str, String)> {
        let mut unheld: BTreeMap<(&str, &str, &'u str), Option<NamedReason<'_>>> = BTreeMap::new();
        for (name, judged) in self.metrics.iter().filter(|(name, _)| !self.aside.contains(*name)) {
            let component = name.split_once('[').map_or("", |(_, component)| component);
            // Distances are told apart in pairs alone.
            let metric = if judged.keys().any(|(_, to)| to.is_some()) { stem(name) } else { base_name(name) };
            let is_held = self.criteria.metrics.contains_key(name) && !self.blind.contains_key(name);
            let why = || {
                let why = self.blind.get(name).or_else(|| self.without.get(name));
                why.map(|why| (name.as_str(), why.as_str()))
            };
            for host in judged.keys().flat_map(|(from, to)| std::iter::once(*from).chain(*to)) {
                let kept = unheld.entry((metric, component, host)).or_insert_with(why);
                if is_held {
                    *kept = None;
                }
            }
        }
        // Metrics of one reason are named together.
        let mut by_reason: BTreeMap<(&'u str, &str), Vec<&str>> = BTreeMap::new();
        for ((.., host), why) in unheld {
            if let Some((name, why)) = why {
                by_reason.entry((host, why)).or_default().push(name);
            }
        }
        by_reason.into_iter().map(|((host, why), names)| (host, format!("{}: {why}", names.join(", ")))).collect()
    }

    /// What failed once and went well afterwards, what was left out with hosts that are gone, what a host cannot do.
    fn failures(
        &self,
        nodes: &mut BTreeMap<String, NodeQualification>,
        gone: &BTreeSet<String>,
        impossible: &BTreeMap<&str, &str>,
    ) {
        let is_over = |unit: &&Unit| !unit.outcome.is_not_asked();
        let answered: BTreeSet<&UnitKey> = self.units.iter().filter(is_over).map(|unit| &unit.key).collect();
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
                Outcome::Unsupported(_) if impossible.contains_key(check.as_str()) && !unit.outcome.is_not_asked() => {}
                // It was asked later.
                outcome if outcome.is_not_asked() && answered.contains(&unit.key) => {}
                outcome @ Outcome::Unsupported(failure) => {
                    if let Some(node) = nodes.get_mut(&failure.host) {
                        let reason = &failure.reason;
                        let is_of_all = outcome.is_not_asked();
                        node.unsure.push(if is_of_all {
                            reason.clone()
                        } else {
                            format!("cannot do {check}: {reason}")
                        });
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
}

/// Says what was measured of hosts alone.
fn alone(
    judged: &BTreeMap<Way<'_>, Judged<'_>>,
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

fn unit_of<'j>(judged: &'j BTreeMap<Way<'_>, Judged<'_>>) -> &'j str {
    judged.values().next().map_or("", |judged| judged.value.unit.as_str())
}
