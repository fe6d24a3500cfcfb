//! Nodes whose true hazards are known.

use kelpie_selection::Past;
use rand::RngExt as _;
use rand_distr::{Distribution as _, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;

use crate::assumptions::{CATEGORIES, FIRST, MOST_WORN, TRACE_HOURS, WEAR};

pub const KINDS: usize = 5;

/// How incidents come about.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub name: &'static str,
    /// Hours between incidents of a typical node that had at most one.
    pub hours: f64,
    /// How much nodes differ: the spread of the logarithm of the hazard of each node and category.
    pub spread: f64,
    /// The power by which the hazard rises with the incidents that a node had.
    pub wear: f64,
    /// By category, the power of the time since the last incident: below 1 incidents come soon again, above 1 late.
    pub shapes: [f64; KINDS],
}

const fn truth(name: &'static str, spread: f64, wear: f64, shapes: [f64; KINDS]) -> Truth {
    Truth { name, hours: FIRST, spread, wear, shapes }
}

impl Truth {
    /// The same with incidents after other hours.
    pub const fn with(mut self, hours: f64) -> Self {
        self.hours = hours;
        self
    }
}

/// What the paper says too little of, so that all are tried.
pub static TRUTHS: [Truth; 8] = [
    truth("nothing but chance", 0.0, 0.0, [1.0; KINDS]),
    truth("wear of figure 4", 0.0, WEAR, [1.0; KINDS]),
    truth("nodes differ", 1.0, 0.0, [1.0; KINDS]),
    truth("nodes differ, wear", 1.0, WEAR, [1.0; KINDS]),
    truth("soon again, differ, wear", 1.0, WEAR, [0.6; KINDS]),
    truth("hazards that cross", 1.0, WEAR, [0.5, 2.0, 1.0, 0.7, 3.0]),
    truth("nodes differ much", 2.5, 0.0, [1.0; KINDS]),
    truth("nodes are good or bad", 5.0, 0.0, [1.0; KINDS]),
];

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// By category, the hours of its Weibull distribution if the node had no incident.
    scales: [f64; KINDS],
    pub past: Past,
    /// The next incident: when, by hours that the node was up, and of which category.
    pub next: (f64, usize),
}

impl Node {
    /// A node that was never used.
    pub fn new(truth: &Truth, random: &mut Pcg64Mcg) -> Self {
        let mut scale = |nth: usize| {
            let luck: f64 = StandardNormal.sample(random);
            truth.hours / CATEGORIES[nth] / (truth.spread * luck).exp()
        };
        let scales = std::array::from_fn(&mut scale);
        let mut node = Self { scales, past: Past::default(), next: (0.0, 0) };
        node.draw(truth, random);
        node
    }

    fn scale(&self, truth: &Truth, kind: usize, incidents: usize) -> f64 {
        let worn = (incidents.clamp(1, MOST_WORN) as f64).powf(truth.wear);
        self.scales[kind] / worn.powf(1.0 / truth.shapes[kind])
    }

    /// Draws the next incident after the last one.
    fn draw(&mut self, truth: &Truth, random: &mut Pcg64Mcg) {
        let mut gap = |kind: usize| {
            let luck: f64 = Exp1.sample(random);
            (self.scale(truth, kind, self.past.incidents.len()) * luck.powf(1.0 / truth.shapes[kind]), kind)
        };
        let gaps: [(f64, usize); KINDS] = std::array::from_fn(&mut gap);
        let (hours, kind) = gaps.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).expect("some");
        self.next = (self.past.up + hours, kind);
    }

    /// Is up for some hours, in which the next incident may come, but no other one.
    pub fn run(&mut self, hours: f64) {
        self.past.up += hours;
    }

    /// Has the next incident.
    pub fn fail(&mut self, truth: &Truth, random: &mut Pcg64Mcg) {
        self.past.up = self.next.0;
        self.past.incidents.push(self.next);
        self.draw(truth, random);
    }

    /// Is up until some hour of its life, with all incidents until then.
    pub fn live(&mut self, until: f64, truth: &Truth, random: &mut Pcg64Mcg) {
        while self.next.0 <= until {
            self.fail(truth, random);
        }
        self.past.up = until;
    }

    /// The true hazard that gathers within some hours, of a node that is as it was at some hour of its life.
    pub fn hazard(&self, truth: &Truth, at: f64, hours: f64) -> f64 {
        let seen = self.past.incidents.partition_point(|(time, _)| *time <= at);
        let since = at - self.past.incidents[..seen].last().map_or(0.0, |(time, _)| *time);
        let of = |kind: usize| {
            let (scale, shape) = (self.scale(truth, kind, seen), truth.shapes[kind]);
            ((since + hours) / scale).powf(shape) - (since / scale).powf(shape)
        };
        (0..KINDS).map(of).sum()
    }
}

/// A status of a node, and when its next incident really came.
pub struct Status {
    pub node: usize,
    pub at: f64,
    pub next: f64,
}

/// Nodes that were watched, and statuses of them at random times of the trace.
pub fn trace(truth: &Truth, nodes: usize, statuses: usize, random: &mut Pcg64Mcg) -> (Vec<Node>, Vec<Status>) {
    let (mut all, mut list) = (Vec::new(), Vec::new());
    for node in 0..nodes {
        let mut one = Node::new(truth, random);
        one.live(TRACE_HOURS, truth, random);
        for _ in 0..statuses {
            let at = random.random_range(0.0..TRACE_HOURS);
            let next = one
                .past
                .incidents
                .get(one.past.incidents.partition_point(|(time, _)| *time <= at))
                .map_or(one.next.0, |(time, _)| *time);
            list.push(Status { node, at, next: next - at });
        }
        all.push(one);
    }
    (all, list)
}

/// Hours of a typical node by which samples have the mean of the paper.
pub fn calibrated(truth: Truth, wanted: f64, random: &mut Pcg64Mcg) -> Truth {
    let (mut low, mut high) = (10.0_f64, 1e12_f64);
    for _ in 0..40 {
        let hours = (low * high).sqrt();
        let (_, list) = trace(&truth.with(hours), 500, 10, random);
        let mean = list.iter().map(|status| status.next.min(TRACE_HOURS)).sum::<f64>() / list.len() as f64;
        if mean < wanted { low = hours } else { high = hours }
    }
    truth.with((low * high).sqrt())
}
