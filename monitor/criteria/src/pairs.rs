//! The pairs of a check on one component, at all distances together: which of their hosts is slow, which path, and what
//! is measured next to tell.

use std::collections::{BTreeMap, BTreeSet};

use crate::decide::{Decision, PairTable};
use crate::fleet_verdict::{NodeQualification, SlowPath};
use crate::judged::Judged;
use crate::learn::Criterion;
use crate::unit::UnitKey;

/// Times that a unit is done before a node is called slow by it. Source: our choice; what a burst of somebody else's
/// traffic spoilt is well the second time.
pub const TIMES: usize = 2;

/// A value of a pair, by the numbers of its hosts.
#[derive(Debug)]
pub struct PairValue<'j> {
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
    /// The value.
    pub judged: &'j Judged<'j>,
    /// What it is held against.
    pub criterion: &'j Criterion,
}

/// The values of one metric on one component, at all distances.
#[derive(Debug)]
pub struct PairGroup<'j> {
    hosts: &'j [String],
    values: Vec<PairValue<'j>>,
    table: PairTable,
    decision: Decision,
}

impl<'j> PairGroup<'j> {
    /// Of values.
    pub fn new(hosts: &'j [String], values: Vec<PairValue<'j>>) -> Self {
        let mut slow: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        for PairValue { from, to, judged, .. } in &values {
            *slow.entry((*from.min(to), *from.max(to))).or_default() |= judged.is_slow;
        }
        let mut table = PairTable::default();
        for ((one, other), is_slow) in slow {
            table.add(one, other, is_slow);
        }
        let decision = table.decide();
        Self { hosts, values, table, decision }
    }

    /// Hosts that are slow themselves.
    pub fn slow_hosts(&self) -> impl Iterator<Item = usize> {
        self.decision.hosts.iter().map(|(host, ..)| *host)
    }

    /// Units that tell more: what was slow once, unless a host has several slow pairs, and ends of slow pairs with
    /// hosts that are fast with all others.
    pub fn questions(&self, times: &BTreeMap<&UnitKey, usize>, is_there: impl Fn(usize) -> bool) -> BTreeSet<UnitKey> {
        let decided = self.decision.hosts.iter().filter(|(_, slow, _)| *slow > TIMES);
        let decided: BTreeSet<usize> = decided.map(|(host, ..)| *host).collect();
        let open = self
            .values
            .iter()
            .filter(|value| value.judged.is_slow && !decided.contains(&value.from) && !decided.contains(&value.to));
        let mut next: BTreeSet<UnitKey> = open.map(|value| value.judged.unit.key.clone()).collect();
        next.retain(|key| times.get(key).copied().unwrap_or_default() < TIMES);
        let Some(key) = self.values.first().map(|value| &value.judged.unit.key) else { return next };
        for (one, other) in self.table.questions(self.hosts.len(), is_there) {
            let mut hosts = vec![self.hosts[one].clone(), self.hosts[other].clone()];
            hosts.sort();
            next.insert(UnitKey { hosts, ..key.clone() });
        }
        next
    }

    /// Says of its hosts what its pairs say. `slow` are hosts that are slow by any metric of pairs: another end of a
    /// slow pair of theirs is not to blame.
    pub fn say(
        &self,
        slow: &BTreeSet<usize>,
        nodes: &mut BTreeMap<String, NodeQualification>,
        between: &mut Vec<SlowPath>,
    ) {
        for host in self.values.iter().flat_map(|value| [value.from, value.to]) {
            if let Some(node) = nodes.get_mut(&self.hosts[host]) {
                node.values += 1;
            }
        }
        let bad: BTreeSet<usize> = self.slow_hosts().collect();
        for host in self.table.lonely(&bad).into_iter().filter(|host| !slow.contains(host)) {
            if let (Some(node), Some(value)) = (nodes.get_mut(&self.hosts[host]), self.values.first()) {
                let check = &value.judged.unit.key.check;
                node.unsure.push(format!("{check}: all of its partners are slow, and say nothing of it"));
            }
        }
        for (host, slow, all) in &self.decision.hosts {
            self.say_of_host(*host, *slow, *all, nodes);
        }
        let is_blamed = |pair: &&(usize, usize)| slow.contains(&pair.0) || slow.contains(&pair.1);
        for pair in self.decision.open.iter().filter(|pair| !is_blamed(pair)) {
            self.say_of_both(*pair, nodes, "and no other pair says which of the two is");
        }
        for pair in self.decision.between.iter().filter(|pair| !is_blamed(pair)) {
            let measured = self.say_of_both(*pair, nodes, "and both are fast with others: the path between them is");
            between.extend(measured);
        }
    }

    fn say_of_host(&self, host: usize, slow: usize, all: usize, nodes: &mut BTreeMap<String, NodeQualification>) {
        let ways = || self.values.iter().filter(|value| value.judged.is_slow && [value.from, value.to].contains(&host));
        let sends = ways().filter(|value| value.from == host).count();
        let way = match (sends, ways().count() - sends) {
            (_, 0) => "when it sends, ",
            (0, _) => "when it receives, ",
            _ => "",
        };
        let worst = ways().min_by(|one, other| one.judged.similarity.total_cmp(&other.judged.similarity));
        let (Some(worst), Some(node)) = (worst, nodes.get_mut(&self.hosts[host])) else { return };
        let detail = format!("{way}with {slow} of {all} hosts");
        node.faults.push(worst.judged.fault(worst.judged.against(worst.criterion), detail));
    }

    fn say_of_both(
        &self,
        (one, other): (usize, usize),
        nodes: &mut BTreeMap<String, NodeQualification>,
        why: &str,
    ) -> Option<SlowPath> {
        let ways = self.values.iter().filter(|value| [(one, other), (other, one)].contains(&(value.from, value.to)));
        let worst = ways.min_by(|a, b| a.judged.similarity.total_cmp(&b.judged.similarity))?;
        let measured = worst.judged.against(worst.criterion);
        for (host, peer) in [(one, other), (other, one)] {
            let peer = &self.hosts[peer];
            if let Some(node) = nodes.get_mut(&self.hosts[host]) {
                node.unsure.push(format!("{} is slow with {peer}, {why}", measured.metric));
            }
        }
        let hosts = [self.hosts[one].clone(), self.hosts[other].clone()];
        Some(SlowPath { hosts, component: worst.judged.unit.key.component.clone(), measured })
    }
}
