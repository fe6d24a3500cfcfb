//! How long flows share links under DCQCN, TIMELY and HPCC, as their papers plot it: a table of each, to be drawn.
//!
//! `cargo run --release -p kelpie-packets --example fairness DIRECTORY` writes DIRECTORY/dcqcn.csv, timely.csv and
//! hpcc.csv: a line for each sample with its time (ms), and the goodput of each flow since the one before (Gbit/s).

mod scenarios;

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use kelpie_packets::congestion::{Algorithm, Dcqcn};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("name a directory")?;
    let paper = Algorithm::Dcqcn(Dcqcn::of_paper(40e9));
    for (name, scenario) in [
        ("dcqcn", scenarios::dcqcn(paper, 100_000_000)),
        ("timely", scenarios::timely(100_000_000)),
        ("hpcc", scenarios::hpcc(40_000_000)),
    ] {
        let outcome = scenario.run()?;
        let series = outcome.series.ok_or("nothing was sampled")?;
        let flows: Vec<Vec<f64>> = (0..4).map(|flow| series.goodput_gbps(flow).collect()).collect();
        let mut text = "time_ms".to_owned();
        (0..flows.len()).try_for_each(|flow| write!(text, ",flow_{flow}_gbps"))?;
        for sample in 0..series.samples - 1 {
            write!(text, "\n{:.4}", (sample + 1) as f64 * series.interval_ns as f64 / 1e6)?;
            flows.iter().try_for_each(|flow| write!(text, ",{:.3}", flow[sample]))?;
        }
        let path = Path::new(&directory).join(format!("{name}.csv"));
        std::fs::write(&path, text + "\n")?;
        println!("{}", path.display());
    }
    Ok(())
}
