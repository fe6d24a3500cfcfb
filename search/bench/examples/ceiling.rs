//! How well conjunctions of features can describe the weaknesses of a simulated subsystem if the truth is known: boxes
//! are drawn around random points whose symptom and limiting part are known, and judged by other random points.
//!
//! `cargo run --release -p kelpie-bench --example ceiling -- F 2000`

use std::collections::{BTreeMap, BTreeSet};

use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_monitor::{Verdict, measure_judged};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Feature, Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Products of which boxes may have bounds, besides features, because parts of a NIC run out in them. Source: our
/// choice.
const PRODUCTS: [&[Feature]; 6] = [
    &[Feature::TotalQps, Feature::RecvWqDepth],
    &[Feature::TotalQps, Feature::SendWqDepth],
    &[Feature::TotalMrs, Feature::MrSize],
    &[Feature::SendBatch, Feature::SgeCount],
    &[Feature::TotalQps, Feature::SendBatch],
    &[Feature::TotalQps, Feature::RecvBatch],
];
/// Share of a box that has to show its weakness while it is drawn.
const PURE: f64 = 0.95;
/// Points that a box holds at least while it is drawn.
const LEAST: usize = 15;
/// Points that judge a box at least.
const JUDGES: usize = 5;
/// Part of the points that a peel takes away. Source: Friedman and Fisher 1999.
const PEEL: f64 = 0.05;
const SEED: u64 = 777;

struct Point {
    row: Vec<f64>,
    /// Symptom and limiting part; `None` if healthy.
    weakness: Option<String>,
}

type Bounds = Vec<(f64, f64)>;

fn main() {
    let mut args = std::env::args().skip(1);
    let model = args.next().unwrap_or_else(|| "F".to_owned());
    let count: usize = args.next().map_or(2000, |count| count.parse().expect("the second argument is a number"));
    let subsystem = SimSubsystem::load(&model).expect("the first argument is a model");
    let space = Space::catalog("full").expect("in the catalog");
    let shown = shown(&space, subsystem, count + count / 2);
    for products in [false, true] {
        let point = |(workload, weakness): &(Workload, Option<String>)| Point {
            row: row(&space, workload, products),
            weakness: weakness.clone(),
        };
        let points: Vec<Point> = shown.iter().map(point).collect();
        let (known, fresh) = points.split_at(points.len() * 2 / 3);
        judge(&boxes(known), fresh, if products { "features and products" } else { "features" });
    }
}

/// Random points with a verdict, and the symptom and limiting part of those that are anomalous.
fn shown(space: &Space, mut subsystem: SimSubsystem, count: usize) -> Vec<(Workload, Option<String>)> {
    let bounds = subsystem.bounds();
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut shown = Vec::new();
    for _ in 0..count {
        let workload = space.sample(&mut rng);
        let judged = measure_judged(&workload, &bounds, |one, attempt| subsystem.measure_again(one, attempt));
        let assessment = match judged {
            Ok(judged) => judged.assessment,
            Err(MeasureError::Unsupported { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let part = subsystem.limiting().split(':').next().unwrap_or_default().to_owned();
        let weakness = match (assessment.verdict, assessment.symptoms.iter().min()) {
            (Verdict::Anomalous, Some(symptom)) => Some(format!("{} {part}", symptom.name())),
            (Verdict::Healthy, _) => None,
            _ => continue,
        };
        shown.push((workload, weakness));
    }
    shown
}

/// Numbers as logarithms, then a column for each word, then products.
fn row(space: &Space, workload: &Workload, products: bool) -> Vec<f64> {
    let log = |feature: &Feature| (1.0 + workload.feature(*feature).number().unwrap_or(0) as f64).log2();
    let mut row = Vec::new();
    for feature in Feature::ALL {
        if feature.is_ordered() {
            row.push(log(&feature));
        } else {
            let value = workload.feature(feature);
            row.extend(space.feature_values(feature).iter().map(|word| f64::from(u8::from(*word == value))));
        }
    }
    if products {
        row.extend(PRODUCTS.iter().map(|features| features.iter().map(log).sum::<f64>()));
    }
    row
}

/// Boxes for each weakness in turn, each around what the ones before left out.
fn boxes(points: &[Point]) -> Vec<(String, Bounds)> {
    let weaknesses: BTreeSet<&String> = points.iter().filter_map(|point| point.weakness.as_ref()).collect();
    let mut boxes = Vec::new();
    for weakness in weaknesses {
        let shows = |point: &&Point| point.weakness.as_ref() == Some(weakness);
        let mut left: Vec<&Point> = points.iter().collect();
        while left.iter().filter(|point| shows(point)).count() >= LEAST {
            let Some(bounds) = peel(&left, &|point| shows(&point)) else { break };
            left.retain(|point| !(shows(point) && holds(&bounds, point)));
            boxes.push((weakness.clone(), bounds));
        }
    }
    boxes
}

/// Peels off what gains most for each point that goes, until the rest shows the weakness.
fn peel(points: &[&Point], shows: &dyn Fn(&Point) -> bool) -> Option<Bounds> {
    let mut inside = points.to_vec();
    let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); inside.first()?.row.len()];
    let share = |points: &[&Point]| points.iter().filter(|point| shows(point)).count() as f64 / points.len() as f64;
    loop {
        let now = share(&inside);
        if now >= PURE {
            return Some(bounds);
        }
        let mut best: Option<(f64, usize, (f64, f64))> = None;
        for (column, side) in bounds.iter().enumerate() {
            let mut values: Vec<f64> = inside.iter().map(|point| point.row[column]).collect();
            values.sort_by(f64::total_cmp);
            let at = (values.len() as f64 * PEEL) as usize;
            let above = values.iter().find(|value| **value > values[at]).map(|low| (*low, side.1));
            let last = values[values.len() - 1 - at];
            let below = values.iter().rev().find(|value| **value < last).map(|high| (side.0, *high));
            for cut in above.into_iter().chain(below) {
                let rest: Vec<&Point> =
                    inside.iter().copied().filter(|point| (cut.0..=cut.1).contains(&point.row[column])).collect();
                if rest.len() < LEAST || rest.len() == inside.len() {
                    continue;
                }
                let gain = (share(&rest) - now) / (inside.len() - rest.len()) as f64;
                if gain > 0.0 && best.as_ref().is_none_or(|best| gain > best.0) {
                    best = Some((gain, column, cut));
                }
            }
        }
        let (_, column, cut) = best?;
        bounds[column] = cut;
        inside.retain(|point| (cut.0..=cut.1).contains(&point.row[column]));
    }
}

fn holds(bounds: &Bounds, point: &Point) -> bool {
    point.row.iter().zip(bounds).all(|(value, (low, high))| (low..=high).contains(&value))
}

/// Says how much of the fresh points lies in boxes, and what is inside each.
fn judge(boxes: &[(String, Bounds)], fresh: &[Point], columns: &str) {
    let mut held: BTreeMap<bool, (usize, usize)> = BTreeMap::new();
    for point in fresh {
        let row = held.entry(point.weakness.is_some()).or_default();
        row.0 += 1;
        row.1 += usize::from(boxes.iter().any(|(_, bounds)| holds(bounds, point)));
    }
    let (mut healthy, mut other) = (Vec::new(), Vec::new());
    for (weakness, bounds) in boxes {
        let inside: Vec<&Point> = fresh.iter().filter(|point| holds(bounds, point)).collect();
        if inside.len() >= JUDGES {
            let share = |is: &dyn Fn(&&&Point) -> bool| inside.iter().filter(is).count() as f64 / inside.len() as f64;
            healthy.push(share(&|point| point.weakness.is_none()));
            other.push(share(&|point| point.weakness.as_ref().is_some_and(|shown| shown != weakness)));
        }
    }
    let percent = |of: (usize, usize)| 100.0 * of.1 as f64 / of.0.max(1) as f64;
    println!(
        "{columns}: {} boxes hold {:.0} % of {} anomalous and {:.0} % of {} healthy fresh points",
        boxes.len(),
        percent(held[&true]),
        held[&true].0,
        percent(held[&false]),
        held[&false].0
    );
    println!(
        "  inside a box, median and 95th percentile: healthy {}, another cause {}",
        both(&mut healthy),
        both(&mut other)
    );
}

fn both(shares: &mut [f64]) -> String {
    shares.sort_by(f64::total_cmp);
    let at = |share: f64| shares[((share * shares.len() as f64).ceil() as usize).max(1) - 1];
    if shares.is_empty() { "-".to_owned() } else { format!("{:.0} and {:.0} %", 100.0 * at(0.5), 100.0 * at(0.95)) }
}
