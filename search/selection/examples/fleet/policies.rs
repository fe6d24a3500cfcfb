//! A cluster that runs jobs for a month without checks, with all checks before each job, and with selected ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use kelpie_selection::{Fleet, Outlook, Problem};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use crate::assumptions as a;
use crate::draw::{KINDS, Node, Truth, trace};
use crate::interval;

/// Which checks run before a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    None,
    Full,
    /// Those that bring the probability of an incident of the job down to this.
    Selected(f64),
}

/// How long before an incident its defect can be found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lead {
    /// Long enough for all incidents of the job, which is what the paper says.
    Job,
    /// Some hours of use on average, exponentially distributed.
    Hours(f64),
}

/// What the paper says too little of.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub truth: Truth,
    pub lead: Lead,
    /// What the minutes of all checks are multiplied by.
    pub minutes: f64,
    /// Mean hours of a job.
    pub duration: f64,
}

/// Nodes that are tried to stand in for a defective one. Our choice.
const MOST_TRIED: usize = 100;

/// What a month was like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Month {
    /// Hours of all nodes in jobs, incidents in them, and defects that checks found.
    pub up: f64,
    pub incidents: f64,
    pub found: f64,
    /// Hours of checks of a node.
    pub checked: f64,
    pub utilisation: f64,
    /// Hours between incidents, of all nodes together, and as the mean of the nodes' own.
    pub mtbi: f64,
    pub mtbi_of_nodes: f64,
}

/// Defects by the checks that find them, a bit for each; each is found by one at least, as the full set finds all.
fn defect(random: &mut Pcg64Mcg) -> u32 {
    let sum: f64 = a::CHECKS.iter().map(|check| check.found).sum();
    let mut luck = random.random_range(0.0..sum);
    let first = a::CHECKS.iter().position(|check| {
        luck -= check.found;
        luck < 0.0
    });
    let mut bits = 1 << first.unwrap_or(0);
    for (nth, check) in a::CHECKS.iter().enumerate() {
        // What is left for those that another check stands for, so that each finds its share.
        let (own, all) = (check.found / sum, check.found / a::DEFECTIVE);
        if random.random_bool((all - own) / (1.0 - own)) {
            bits |= 1 << nth;
        }
    }
    bits
}

/// A node of the cluster.
struct Slot {
    node: Node,
    /// The checks that find the defect of the next incident, and for how many hours before.
    defect: u32,
    lead: f64,
    up: f64,
    incidents: f64,
}

struct Job {
    nodes: usize,
    hours: f64,
}

enum Event {
    /// Checks end: a job begins, or nodes are repaired.
    Checked {
        job: Job,
        nodes: Vec<usize>,
        ran: u32,
    },
    /// A job ends after some hours.
    Over {
        job: Job,
        nodes: Vec<usize>,
        hours: f64,
    },
    Repaired(usize),
}

/// A cluster at some hour.
pub struct Cluster<'c> {
    setting: Setting,
    policy: Policy,
    outlook: &'c Outlook<'c>,
    found: BTreeMap<String, Vec<Value>>,
    slots: Vec<Slot>,
    free: VecDeque<usize>,
    waiting: VecDeque<Job>,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    pending: Vec<Option<Event>>,
    now: f64,
    month: Month,
    random: Pcg64Mcg,
}

fn minutes(nth: usize, setting: &Setting) -> f64 {
    a::CHECKS[nth].minutes * setting.minutes
}

impl Cluster<'_> {
    fn slot(node: Node, setting: &Setting, random: &mut Pcg64Mcg) -> Slot {
        let mut slot = Slot { node, defect: 0, lead: 0.0, up: 0.0, incidents: 0.0 };
        slot.draw(setting, random);
        slot
    }

    fn later(&mut self, hours: f64, event: Event) {
        let at = ((self.now + hours) * 3600e3) as u64;
        self.events.push(Reverse((at, self.pending.len())));
        self.pending.push(Some(event));
    }

    fn draw_job(&mut self) -> Job {
        let mut luck = self.random.random_range(0.0..1.0);
        let size = a::SIZES.iter().find(|(_, share)| {
            luck -= share;
            luck < 0.0
        });
        let spread = a::DURATION_SPREAD;
        let middle = self.setting.duration.ln() - spread * spread / 2.0;
        let hours = LogNormal::new(middle, spread).expect("a spread").sample(&mut self.random);
        Job { nodes: size.map_or(1, |(nodes, _)| *nodes), hours }
    }

    /// Gives free nodes to the first jobs that they are enough for.
    fn allocate(&mut self) {
        while self.waiting.len() < a::WAITING {
            let job = self.draw_job();
            self.waiting.push_back(job);
        }
        while let Some(nth) = self.waiting.iter().position(|job| job.nodes <= self.free.len()) {
            let job = self.waiting.remove(nth).expect("it is there");
            let nodes: Vec<usize> = self.free.drain(..job.nodes).collect();
            let ran = self.choose(&job, &nodes);
            let hours = (0..a::CHECKS.len())
                .filter(|nth| ran >> nth & 1 == 1)
                .map(|nth| minutes(nth, &self.setting))
                .sum::<f64>()
                / 60.0;
            self.month.checked += hours * nodes.len() as f64;
            self.later(hours, Event::Checked { job, nodes, ran });
            let job = self.draw_job();
            self.waiting.push_back(job);
        }
    }

    fn choose(&self, job: &Job, nodes: &[usize]) -> u32 {
        let target = match self.policy {
            Policy::None => return 0,
            Policy::Full => return (1 << a::CHECKS.len()) - 1,
            Policy::Selected(target) => target,
        };
        let expect = |nth: &usize| self.outlook.probability(&self.slots[*nth].node.past, job.hours).expect("incidents");
        let minutes =
            a::CHECKS.iter().enumerate().map(|(nth, check)| (check.name.to_owned(), minutes(nth, &self.setting)));
        let problem = Problem {
            p: nodes.iter().map(expect).collect(),
            p0: target,
            minutes: minutes.collect(),
            found: self.found.clone(),
        };
        let selected = problem.select().subset.selected;
        (0..a::CHECKS.len())
            .filter(|nth| selected.iter().any(|name| name == a::CHECKS[*nth].name))
            .fold(0, |all, nth| all | 1 << nth)
    }

    /// A defective node goes; without checks it comes back as it is, and otherwise another one stands in for it.
    fn repair(&mut self, nth: usize) {
        let hours = if self.policy == Policy::None {
            a::REPAIR
        } else {
            let slot = &mut self.slots[nth];
            // What stands in has passed all checks.
            for _ in 0..MOST_TRIED {
                slot.node = Node::new(&self.setting.truth, &mut self.random);
                slot.draw(&self.setting, &mut self.random);
                if slot.node.next.0 > slot.lead {
                    break;
                }
            }
            a::REPLACE
        };
        self.later(hours, Event::Repaired(nth));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Repaired(nth) => self.free.push_back(nth),
            Event::Checked { job, nodes, ran } => {
                let is_found = |nth: &usize| {
                    let slot = &self.slots[*nth];
                    let left = slot.node.next.0 - slot.node.past.up;
                    let is_there = if self.setting.lead == Lead::Job { left <= job.hours } else { left <= slot.lead };
                    is_there && slot.defect & ran != 0
                };
                let (bad, good): (Vec<usize>, Vec<usize>) = nodes.iter().partition(|nth| is_found(nth));
                if bad.is_empty() {
                    let left = |nth: &usize| self.slots[*nth].node.next.0 - self.slots[*nth].node.past.up;
                    let hours = nodes.iter().map(left).fold(job.hours, f64::min);
                    self.later(hours, Event::Over { job, nodes, hours });
                } else {
                    self.month.found += bad.len() as f64;
                    self.free.extend(good);
                    for nth in bad {
                        self.repair(nth);
                    }
                    self.waiting.push_back(job);
                }
            }
            Event::Over { job, nodes, hours } => {
                for nth in nodes {
                    let (setting, slot) = (self.setting, &mut self.slots[nth]);
                    slot.up += hours;
                    self.month.up += hours;
                    let left = slot.node.next.0 - slot.node.past.up;
                    if left <= hours {
                        slot.incidents += 1.0;
                        self.month.incidents += 1.0;
                        slot.node.fail(&setting.truth, &mut self.random);
                        slot.draw(&setting, &mut self.random);
                        self.repair(nth);
                    } else {
                        slot.node.run(hours);
                        self.free.push_back(nth);
                    }
                }
                if hours < job.hours {
                    self.waiting.push_back(Job { nodes: job.nodes, hours: job.hours - hours });
                }
            }
        }
    }
}

impl Slot {
    fn draw(&mut self, setting: &Setting, random: &mut Pcg64Mcg) {
        self.defect = defect(random);
        self.lead = match setting.lead {
            Lead::Job => 0.0,
            Lead::Hours(mean) => Exp::new(1.0 / mean).expect("a mean").sample(random),
        };
    }
}

/// A fleet that was watched without checks, which the selector knows.
pub fn watched(truth: &Truth, seed: u64) -> Fleet {
    let (nodes, _) = trace(truth, a::TRACE_NODES, 0, &mut Pcg64Mcg::seed_from_u64(seed ^ 0x5eed));
    Fleet::new(nodes.into_iter().enumerate().map(|(nth, node)| (format!("n{nth:05}"), node.past)).collect(), KINDS)
}

/// Runs a month.
pub fn month(setting: &Setting, policy: Policy, outlook: &Outlook<'_>, seed: u64) -> Month {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for nth in 0..a::PAST_DEFECTS {
        let bits = defect(&mut random);
        for check in (0..a::CHECKS.len()).filter(|check| bits >> check & 1 == 1) {
            found.entry(a::CHECKS[check].name.to_owned()).or_default().push(nth.into());
        }
    }
    let slots = (0..a::NODES).map(|_| {
        let mut node = Node::new(&setting.truth, &mut random);
        // Nodes have been in use, each for another time.
        let until = random.random_range(0.0..a::TRACE_HOURS);
        node.live(until, &setting.truth, &mut random);
        Cluster::slot(node, setting, &mut random)
    });
    let mut cluster = Cluster {
        setting: *setting,
        policy,
        outlook,
        found,
        slots: slots.collect(),
        free: (0..a::NODES).collect(),
        waiting: VecDeque::new(),
        events: BinaryHeap::new(),
        pending: Vec::new(),
        now: 0.0,
        month: Month::default(),
        random: Pcg64Mcg::seed_from_u64(seed ^ 0x0b5),
    };
    cluster.allocate();
    while let Some(Reverse((at, nth))) = cluster.events.pop() {
        if at as f64 / 3600e3 > a::HOURS {
            cluster.events.push(Reverse((at, nth)));
            break;
        }
        cluster.now = at as f64 / 3600e3;
        let event = cluster.pending[nth].take().expect("once");
        cluster.happen(event);
        cluster.allocate();
    }
    // Jobs that go on have run until now.
    for Reverse((at, nth)) in std::mem::take(&mut cluster.events) {
        if let Some(Event::Over { nodes, hours, .. }) = &cluster.pending[nth] {
            let ran = (a::HOURS - (at as f64 / 3600e3 - hours)).clamp(0.0, *hours);
            cluster.month.up += ran * nodes.len() as f64;
            for nth in nodes {
                cluster.slots[*nth].up += ran;
            }
        }
    }
    let Cluster { slots, mut month, .. } = cluster;
    let nodes = a::NODES as f64;
    month.mtbi = month.up / month.incidents.max(1.0);
    month.mtbi_of_nodes = slots.iter().map(|slot| slot.up / slot.incidents.max(1.0)).sum::<f64>() / nodes;
    month.checked /= nodes;
    month.utilisation = month.up / nodes / a::HOURS;
    month
}

/// A setting that is made to agree with published numbers: hours of checks with all, and, if the rate of incidents is
/// to, hours between incidents without checks. Whatever else comes out is compared with what is published.
pub fn agreeing(truth: Truth, is_rate: bool, lead: Lead, seed: u64) -> Setting {
    let duration = a::DURATION;
    let of = |hours: f64, minutes: f64| Setting { truth: truth.with(hours), lead, minutes, duration };
    let bisect = |mut low: f64, mut high: f64, is_low: &dyn Fn(f64) -> bool| {
        for _ in 0..10 {
            let middle = (low * high).sqrt();
            if is_low(middle) { low = middle } else { high = middle }
        }
        (low * high).sqrt()
    };
    let nobody = Fleet::new(BTreeMap::new(), 0);
    let outlook = Outlook::new(&nobody, a::HOURS);
    let wanted = |hours: f64| month(&of(hours, 1.0), Policy::None, &outlook, seed).mtbi < a::MTBI;
    let hours = if is_rate { bisect(5.0, 5e3, &wanted) } else { truth.hours };
    let minutes =
        bisect(0.05, 5.0, &|minutes| month(&of(hours, minutes), Policy::Full, &outlook, seed).checked < a::CHECKED);
    of(hours, minutes)
}

/// Prints what comes out of some settings over seeds.
pub fn run(seeds: std::ops::RangeInclusive<u64>, settings: &[(String, Setting)], targets: &[f64]) {
    println!(
        "setting | policy | MTBI h | MTBI of nodes h | incidents of a node | found | checks h | utilisation | MTBI by none's | checks by full's | utilisation by none's"
    );
    for (name, setting) in settings {
        let policies =
            [Policy::None, Policy::Full].into_iter().chain(targets.iter().map(|target| Policy::Selected(*target)));
        let policies: Vec<Policy> = policies.collect();
        let mut months: Vec<Vec<Month>> = vec![Vec::new(); policies.len()];
        for seed in seeds.clone() {
            let fleet = watched(&setting.truth, seed);
            let outlook = Outlook::new(&fleet, setting.duration);
            for (policy, months) in policies.iter().zip(&mut months) {
                months.push(month(setting, *policy, &outlook, seed));
            }
        }
        for (policy, of) in policies.iter().zip(&months) {
            let show = |value: &dyn Fn(&Month) -> f64| interval(&of.iter().map(value).collect::<Vec<_>>());
            let by = |other: usize, value: &dyn Fn(&Month) -> f64| {
                interval(
                    &of.iter().zip(&months[other]).map(|(one, other)| value(one) / value(other)).collect::<Vec<_>>(),
                )
            };
            let nodes = a::NODES as f64;
            println!(
                "{name} | {policy:?} | {} | {} | {} | {} | {} | {} | {} | {} | {}",
                show(&|month| month.mtbi),
                show(&|month| month.mtbi_of_nodes),
                show(&|month| month.incidents / nodes),
                show(&|month| month.found / nodes),
                show(&|month| month.checked),
                show(&|month| month.utilisation),
                by(0, &|month| month.mtbi),
                by(1, &|month| month.checked),
                by(0, &|month| month.utilisation),
            );
        }
    }
}
