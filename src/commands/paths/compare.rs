//! `kelpie paths compare`: the published experiments and ours in one table. What is run lives in `kelpie_fabric`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_fabric::Solver;
use kelpie_fabric::compare::{Setting, SettingComparison, Transmit, compare};
use kelpie_reports::folder::write_file;
use kelpie_reports::for_operators::paths::{ComparedExperiment, ComparedSetting, compared};
use kelpie_reports::site::{Curve, Curves};
use serde_json::json;

use crate::args::Common;
use crate::cli::paths::CompareArgs;
use crate::exit;
use crate::output::{note, print, print_json};

/// What the table rests on; the setting is added.
const ASSUMPTIONS: [&str; 6] = [
    "max-min fair rates of whole flows: no packets, no congestion control, no PFC",
    "16 hosts of 8 NICs with two ports of 200 Gbps to two leaves; 4 hosts per pair of leaves; 8 leaves, 8 spines (4 at 2:1)",
    "a NIC gets at most 362 Gbps from its host; rings of hosts whose each step crosses a spine",
    "busbw = QPs of a connection x its slowest QP; ECMP hashes random source ports, and the arrival port too",
    "a true 2:1 fabric of these NICs gives 200 Gbps at most, so the published 325 comes from another one: compare gains",
    "the setting was chosen by who knew the published figures; --sweep shows the others",
];

/// Runs the command.
pub fn run(args: &CompareArgs, common: Common) -> anyhow::Result<ExitCode> {
    let seed = common.seed_or_default();
    let table = compare(Setting::TABLE, seed, args.seeds);
    let mut sweep = Vec::new();
    if args.sweep {
        let settings = Setting::sweep();
        for (nth, setting) in settings.iter().enumerate() {
            note(&format!("{} of {}: {}", nth + 1, settings.len(), words(*setting)));
            sweep.push(compare(*setting, seed, args.seeds));
        }
    }
    if let Some(dir) = &args.out {
        draw(dir, &table)?;
    }
    if common.json {
        let document = json!({"assumptions": ASSUMPTIONS, "seed": seed, "table": table, "sweep": sweep});
        print_json(&document)?;
    } else {
        print(&compared(&plain(&table), &ASSUMPTIONS, &sweep.iter().map(plain).collect::<Vec<_>>()))?;
    }
    Ok(exit::HEALTHY)
}

fn words(setting: Setting) -> String {
    let transmit = if setting.transmit == Transmit::Hashed { "hashed" } else { "ports in turn" };
    let solver = if setting.solver == Solver::Lockstep { "lockstep" } else { "independent" };
    let Setting { qps_per_connection, cables, .. } = setting;
    format!("{qps_per_connection} QPs, {cables} cables, {transmit}, {solver}")
}

fn plain(comparison: &SettingComparison) -> ComparedSetting<'_> {
    let rows = comparison.rows.iter().map(|row| ComparedExperiment {
        experiment: row.experiment,
        ecmp_gbps: row.ecmp_gbps,
        planned_gbps: row.planned_gbps,
        gain_percent: row.gain_percent,
        published: [row.published.ecmp, row.published.planned],
        published_gain_percent: row.published.gain_percent,
    });
    ComparedSetting { setting: words(comparison.setting), seeds: comparison.seeds, rows: rows.collect() }
}

fn draw(dir: &Path, comparison: &SettingComparison) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let numbers = |values: &[f64]| values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
    let course = &comparison.course;
    let moves: Vec<f64> = course.moves.iter().map(|moves| *moves as f64).collect();
    let failure = [
        ("planned, dynamic balance", numbers(&course.balanced_gbps)),
        ("planned once", numbers(&course.static_gbps)),
        ("ECMP", numbers(&course.ecmp_gbps)),
    ];
    let experiments = |of: fn(&kelpie_fabric::compare::ExperimentRow) -> f64| -> Vec<(f64, f64)> {
        comparison.rows.iter().take(5).enumerate().map(|(at, row)| (at as f64 + 1.0, of(row))).collect()
    };
    let means = [("planned", experiments(|row| row.planned_gbps[1])), ("ECMP", experiments(|row| row.ecmp_gbps[1]))];
    for (name, title, x, y, series) in [
        ("failure.svg", "One of eight uplinks lost at iteration 20", "iteration", "busbw, Gbps", &failure[..]),
        ("moves.svg", "QPs that dynamic balance moves", "iteration", "QPs", &[("moves", numbers(&moves))]),
        (
            "experiments.svg",
            "One all-reduce on 32, 64, 128 GPUs (1, 2, 3); eight jobs at 1:1 (4) and 2:1 (5)",
            "experiment",
            "busbw, Gbps",
            &means,
        ),
    ] {
        let path = dir.join(name);
        let curve = |(name, path): &(&str, Vec<(f64, f64)>)| Curve {
            name: (*name).to_owned(),
            path: path.clone(),
            dots: Vec::new(),
        };
        let (x_label, y_label) = (format!("{x}: {title}"), y.to_owned());
        let curves = Curves { x_label, y_label, curves: series.iter().map(curve).collect() };
        let svg = curves.svg().with_context(|| path.display().to_string())?;
        write_file(&path, svg.as_bytes(), true).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
