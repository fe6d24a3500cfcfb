//! One factor of each trigger at a time, over its range: draws `docs/measured/sweeps-f.svg` and
//! `docs/measured/sweeps-h.svg`. `cargo run --release -p kelpie-sim --example sweeps`

use kelpie_engine::Subsystem as _;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{check, known};
use plotters::prelude::*;

type Failure = Box<dyn std::error::Error>;

const FONT: &[u8] = include_bytes!("../../../../reports/assets/roboto-latin.ttf");
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");
/// Units: pixels.
const CELL: (u32, u32) = (180, 110);
const MARGIN: u32 = 34;

/// A factor: its name, its values, how it is set, where the trigger has it.
struct Factor {
    name: &'static str,
    values: &'static [u64],
    set: fn(&mut known::Trigger, u64),
    get: fn(&known::Trigger) -> u64,
}

const FACTORS: [Factor; 6] = [
    Factor {
        name: "QPs",
        values: &[1, 4, 16, 64, 256, 1024, 4096],
        set: |point, value| point.qps = value as u32,
        get: |point| point.qps.into(),
    },
    Factor {
        name: "depth",
        values: &[4, 16, 64, 256, 1024, 4096],
        set: |point, value| {
            point.depth = value as u32;
            point.batch = point.batch.min(point.depth);
        },
        get: |point| point.depth.into(),
    },
    Factor {
        name: "batch",
        values: &[1, 2, 4, 8, 16, 32, 64],
        set: |point, value| point.batch = value as u32,
        get: |point| point.batch.into(),
    },
    Factor {
        name: "bytes of a message",
        values: &[64, 256, 1024, 4096, 16384, 65536, 262_144],
        set: |point, value| {
            let list = point.pattern[0].len() as u64;
            point.pattern = vec![vec![(value / list).max(1); list as usize]];
        },
        get: |point| point.pattern[0].iter().sum(),
    },
    Factor {
        name: "elements",
        values: &[1, 2, 3, 4, 8, 16],
        set: |point, value| {
            let bytes: u64 = point.pattern[0].iter().sum();
            point.pattern = vec![vec![(bytes / value).max(1); value as usize]];
        },
        get: |point| point.pattern[0].len() as u64,
    },
    Factor {
        name: "MRs of a QP",
        values: &[1, 4, 16, 64, 256, 1024],
        set: |point, value| point.mrs = value as u32,
        get: |point| point.mrs.into(),
    },
];

/// Part of the line rate on the wire in the slowest direction, and part of the time that is paused.
fn measured(subsystem: &mut SimSubsystem, point: &known::Trigger) -> Option<[f64; 2]> {
    let workload = point.workload();
    check(&workload).ok()?;
    let mean = subsystem.measure(&workload).ok()?.mean()?;
    let slowest = mean.directions.iter().map(|way| way.wire_bps).fold(f64::INFINITY, f64::min);
    Some([slowest / subsystem.bounds().max_bps, mean.pause?.longest()])
}

fn draw(name: &str) -> Result<(), Failure> {
    let mut subsystem = SimSubsystem::load(name)?;
    let anomalies: Vec<_> = known::anomalies().into_iter().filter(|anomaly| anomaly.subsystem == name).collect();
    let size = (2 * MARGIN + CELL.0 * FACTORS.len() as u32, MARGIN + CELL.1 * anomalies.len() as u32);
    let path = format!("{DOCS}/sweeps-{}.svg", name.to_lowercase());
    let root = SVGBackend::new(&path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: f64| ("roboto", size).into_font();
    for (column, factor) in FACTORS.iter().enumerate() {
        root.draw(&Text::new(factor.name, ((MARGIN + CELL.0 * column as u32 + 40).cast_signed(), 10), text(14.0)))?;
    }
    for (row, anomaly) in anomalies.iter().enumerate() {
        let top = MARGIN + CELL.1 * row as u32;
        root.draw(&Text::new(anomaly.id.to_string(), (8, (top + CELL.1 / 2).cast_signed()), text(16.0)))?;
        for (column, factor) in FACTORS.iter().enumerate() {
            let cell = root.clone().shrink((MARGIN + CELL.0 * column as u32, top), CELL);
            let log = |value: u64| (value.max(1) as f64).log2();
            let (first, last) = (factor.values[0], factor.values[factor.values.len() - 1]);
            let mut chart = ChartBuilder::on(&cell)
                .margin(4)
                .x_label_area_size(16)
                .y_label_area_size(26)
                .build_cartesian_2d(log(first) - 0.3..log(last) + 0.3, 0.0..1.05)?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_labels(5)
                .y_labels(3)
                .x_label_formatter(&|power| format!("{:.0}", power.exp2()))
                .label_style(text(9.0))
                .draw()?;
            let points: Vec<(f64, [f64; 2])> = factor
                .values
                .iter()
                .filter_map(|value| {
                    let mut point = anomaly.trigger.clone();
                    (factor.set)(&mut point, *value);
                    measured(&mut subsystem, &point).map(|shown| (log(*value), shown))
                })
                .collect();
            let here = log((factor.get)(&anomaly.trigger));
            chart.draw_series([PathElement::new([(here, 0.0), (here, 1.05)], BLACK.mix(0.25))])?;
            for (at, colour) in [(0, BLUE), (1, RED)] {
                let series: Vec<(f64, f64)> = points.iter().map(|(power, shown)| (*power, shown[at])).collect();
                chart.draw_series([PathElement::new(series, colour.stroke_width(2))])?;
            }
        }
    }
    root.present()?;
    println!("{path}");
    Ok(())
}

fn main() -> Result<(), Failure> {
    plotters::style::register_font("roboto", FontStyle::Normal, FONT).map_err(|_| "the font is none")?;
    ["F", "H"].into_iter().try_for_each(draw)
}
