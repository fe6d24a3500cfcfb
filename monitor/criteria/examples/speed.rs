//! How long learning takes: `speed [NODES] [METRICS] [SAMPLES]` draws a fleet and learns its criteria, and learns some
//! of the metrics pair by pair besides.

use std::fmt::Write as _;
use std::io::BufRead;
use std::time::Instant;

use kelpie_criteria::{Criteria, LearnOptions, Norm, Results, ResultsReader};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Normal};
use rand_pcg::Pcg64Mcg;

/// Metrics that are learnt pair by pair: the area has no sweep.
const PAIRS: usize = 2;

fn draw(nodes: usize, metrics: usize, samples: usize) -> Results {
    let mut random = Pcg64Mcg::seed_from_u64(20_261_129);
    let noise = Normal::new(1.0, 0.01).expect("a spread");
    let mut reader = ResultsReader::default();
    let mut text = String::new();
    for metric in 0..metrics {
        text.clear();
        let typical: f64 = random.random_range(10.0..400.0);
        for node in 0..nodes {
            let share = if random.random_bool(0.02) { random.random_range(0.2..0.9) } else { 1.0 };
            let _ = write!(text, "{{\"node\":\"n{node:05}\",\"metric\":\"m{metric:05}\",\"samples\":[");
            for sample in 0..samples {
                let comma = if sample > 0 { "," } else { "" };
                let _ = write!(text, "{comma}{:.4}", typical * share * noise.sample(&mut random));
            }
            text.push_str("]}\n");
        }
        let mut bytes = text.as_bytes();
        reader.add("drawn", &mut bytes as &mut dyn BufRead).expect("valid lines");
    }
    reader.finish().expect("results")
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let mut number = |otherwise: usize| arguments.next().unwrap_or(otherwise);
    let (nodes, metrics, samples) = (number(3000), number(200), number(10));
    let begun = Instant::now();
    let results = draw(nodes, metrics, samples);
    println!("{nodes} nodes, {metrics} metrics, {samples} samples: drawn and read in {:.2?}", begun.elapsed());
    let begun = Instant::now();
    let learned = Criteria::learn(&results, &LearnOptions::default()).expect("criteria");
    let swept = begun.elapsed() / metrics as u32;
    let defects: usize = learned.criteria.metrics.values().map(|criterion| criterion.defects.len()).sum();
    println!("learnt in {:.2?}, {swept:.2?} a metric; {defects} defects", begun.elapsed());
    let few = Results { nodes: results.nodes, metrics: results.metrics.into_iter().take(PAIRS).collect() };
    let begun = Instant::now();
    let options = LearnOptions { norm: Norm::Area, ..LearnOptions::default() };
    Criteria::learn(&few, &options).expect("criteria");
    let pairs = begun.elapsed() / few.metrics.len() as u32;
    println!(
        "pair by pair, by area: {pairs:.2?} a metric, {:.0} times as long",
        pairs.as_secs_f64() / swept.as_secs_f64()
    );
}
