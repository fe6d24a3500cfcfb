//! How well models expect the next incident of nodes that they were not fitted to.

use std::fmt::Write as _;
use std::path::Path;

use kelpie_selection::{Cox, CumulativeHazard, Fleet, Gap, Past};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use crate::assumptions::{HELD_OUT, MEAN_TBNI, STATUSES, TRACE_HOURS, TRACE_NODES};
use crate::draw::{KINDS, Node, Status, TRUTHS, Truth, calibrated, trace};
use crate::interval;

/// Within which time incidents are expected. Units: hours. Our choice: a day's job.
const SOON: f64 = 24.0;
/// Samples whose order is compared. Our choice.
const COMPARED: usize = 1500;

/// A fleet that was drawn, and models fitted to most of its nodes.
struct Fitted {
    truth: Truth,
    nodes: Vec<Node>,
    statuses: Vec<Status>,
    fleet: Fleet,
    constant: CumulativeHazard,
    nelson_aalen: CumulativeHazard,
    /// For all hours of the trace, and for incidents that come soon.
    cox: [Cox; 2],
}

const MODELS: [&str; 4] = ["exponential", "Nelson-Aalen", "Cox", "truth"];

impl Fitted {
    fn new(truth: Truth, seed: u64) -> Self {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let (nodes, statuses) = trace(&truth, TRACE_NODES, STATUSES, random);
        let kept = first_held_out();
        let pasts = nodes[..kept].iter().enumerate().map(|(nth, node)| (format!("n{nth:05}"), node.past.clone()));
        let fleet = Fleet::new(pasts.collect(), KINDS);
        let gaps: Vec<Gap> = fleet.gaps().collect();
        let cox = [TRACE_HOURS, SOON].map(|horizon| Cox::fit(&fleet.samples(horizon, KINDS)).expect("incidents"));
        Self {
            truth,
            constant: CumulativeHazard::constant(fleet.incidents() as f64 / fleet.up()),
            nelson_aalen: CumulativeHazard::nelson_aalen(&gaps),
            cox,
            nodes,
            statuses,
            fleet,
        }
    }

    /// The hazard that a model expects to gather.
    fn hazard(&self, model: usize, status: &Status, hours: f64) -> f64 {
        let node = &self.nodes[status.node];
        let seen = node.past.incidents.partition_point(|(time, _)| *time <= status.at);
        let since = || status.at - node.past.incidents[..seen].last().map_or(0.0, |(time, _)| *time);
        match model {
            0 => self.constant.at(hours),
            1 => self.nelson_aalen.at(since() + hours) - self.nelson_aalen.at(since()),
            2 => {
                let covariates = self.fleet.status(&node.past, status.at, KINDS);
                -(-self.cox[usize::from(hours <= SOON)].incident_within(&covariates, hours)).ln_1p()
            }
            _ => node.hazard(&self.truth, status.at, hours),
        }
    }

    /// The mean and the median of the time that is expected, both capped.
    fn expected(&self, model: usize, status: &Status) -> [f64; 2] {
        let grid = (1..=50).map(|nth| f64::from(nth) / 50.0 * TRACE_HOURS);
        let (mut mean, mut median, mut at, mut before) = (0.0, TRACE_HOURS, 0.0, 0.0);
        for time in grid {
            let hazard = self.hazard(model, status, time).max(before);
            mean += f64::midpoint((-before).exp(), (-hazard).exp()) * (time - at);
            if before < std::f64::consts::LN_2 && hazard >= std::f64::consts::LN_2 {
                median = at + (time - at) * (std::f64::consts::LN_2 - before) / (hazard - before);
            }
            (at, before) = (time, hazard);
        }
        // What comes after the trace goes on at the mean rate.
        mean += (-before).exp() * TRACE_HOURS / before.max(1e-9);
        [mean, median]
    }
}

fn first_held_out() -> usize {
    ((1.0 - HELD_OUT) * TRACE_NODES as f64) as usize
}

/// Accuracy by the mean and by the median, concordance, and the loss of incidents that come soon.
fn score(fitted: &Fitted, model: usize) -> [f64; 4] {
    let held: Vec<&Status> = fitted.statuses.iter().filter(|status| status.node >= first_held_out()).collect();
    let expected: Vec<[f64; 2]> = held.iter().map(|status| fitted.expected(model, status)).collect();
    let accuracy = |nth: usize| {
        let miss = held.iter().zip(&expected).map(|(status, expected)| {
            (status.next.min(TRACE_HOURS) - expected[nth].min(TRACE_HOURS)).abs() / TRACE_HOURS
        });
        1.0 - miss.sum::<f64>() / held.len() as f64
    };
    let (mut right, mut pairs) = (0.0, 0.0);
    let stride = held.len().div_ceil(COMPARED);
    let few: Vec<(f64, f64)> = held
        .iter()
        .zip(&expected)
        .step_by(stride)
        .map(|(status, expected)| (status.next.min(TRACE_HOURS), expected[0]))
        .collect();
    for (nth, one) in few.iter().enumerate() {
        for other in few[..nth].iter().filter(|other| (other.0 - one.0).abs() > 0.0) {
            pairs += 1.0;
            let order = (one.0 - other.0) * (one.1 - other.1);
            right += if order > 0.0 {
                1.0
            } else if order < 0.0 {
                0.0
            } else {
                0.5
            };
        }
    }
    let loss = held.iter().map(|status| {
        let hazard = fitted.hazard(model, status, SOON).max(1e-9);
        if status.next <= SOON { -(-(-hazard).exp_m1()).ln() } else { hazard }
    });
    [accuracy(0), accuracy(1), right / pairs, loss.sum::<f64>() / held.len() as f64]
}

/// How often incidents come.
#[derive(Clone, Copy)]
pub enum Often {
    /// So that samples have the mean that table 3 says.
    Rare,
    /// As figure 4 says.
    Frequent,
}

impl Often {
    /// Bad nodes whose typical node is as in figure 4 would have an incident each second.
    const fn truths(self) -> &'static [Truth] {
        match self {
            Self::Rare => &TRUTHS,
            Self::Frequent => TRUTHS.split_at(TRUTHS.len() - 1).0,
        }
    }

    /// The hours are the same for all seeds.
    fn of(self, truth: Truth) -> Truth {
        match self {
            Self::Rare => calibrated(truth, MEAN_TBNI, &mut Pcg64Mcg::seed_from_u64(0)),
            Self::Frequent => truth,
        }
    }
}

/// Prints a table of all truths.
pub fn run(seeds: std::ops::RangeInclusive<u64>, often: Often) {
    println!("truth | model | accuracy by the mean | by the median | concordance | loss within {SOON} h");
    for truth in often.truths() {
        let mut scores: Vec<Vec<[f64; 4]>> = vec![Vec::new(); MODELS.len()];
        let truth = often.of(*truth);
        for seed in seeds.clone() {
            let fitted = Fitted::new(truth, seed);
            for (model, list) in scores.iter_mut().enumerate() {
                list.push(score(&fitted, model));
            }
        }
        for (model, list) in MODELS.iter().zip(&scores) {
            let of = |nth: usize| interval(&list.iter().map(|score| score[nth]).collect::<Vec<_>>());
            println!("{} | {model} | {} | {} | {} | {}", truth.name, of(0), of(1), of(2), of(3));
        }
    }
}

/// Writes what a model of others is fitted to and judged by.
pub fn write(seed: u64, often: Often, folder: &Path) -> std::io::Result<()> {
    for (nth, truth) in often.truths().iter().enumerate() {
        let fitted = Fitted::new(often.of(*truth), seed);
        let mut texts = [String::new(), String::new()];
        for status in &fitted.statuses {
            let past: &Past = &fitted.nodes[status.node].past;
            let is_held = status.node >= first_held_out();
            // What is fitted to ends with the trace; what is judged by is known until its end.
            let end = if is_held { TRACE_HOURS } else { TRACE_HOURS - status.at };
            let text = &mut texts[usize::from(is_held)];
            let _ = write!(text, "{},{}", status.next.min(end), u8::from(status.next <= end));
            for value in fitted.fleet.status(past, status.at, KINDS) {
                let _ = write!(text, ",{value}");
            }
            text.push('\n');
        }
        std::fs::write(folder.join(format!("{nth}-fit.csv")), &texts[0])?;
        std::fs::write(folder.join(format!("{nth}-judge.csv")), &texts[1])?;
    }
    Ok(())
}
