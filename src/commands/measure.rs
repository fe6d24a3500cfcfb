//! `kelpie measure`: one experiment, judged and printed; nothing is stored.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use kelpie_monitor::{
    Attained, Bounds, Confidence, DirectionRates, Inconclusive, JudgedMeasurement, Latency, Limit, PauseRatios,
    PerHost, Sample, Symptom, Verdict, counters, held_against, measure_judged,
};
use kelpie_sim::{Relief, Reliefs, SimSubsystem};
use kelpie_spaces::{Host, Workload};
use serde::Serialize;

use crate::args::Common;
use crate::cli::MeasureArgs;
use crate::exit;
use crate::inputs;
use crate::output::{Table, note, percent, plural, print, print_json, si, time};

/// The document of `--json`.
#[derive(Serialize)]
struct MeasureReport<'a> {
    verdict: Verdict,
    symptoms: &'a [Symptom],
    /// Only if the verdict is `inconclusive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    inconclusive: Option<&'a Inconclusive>,
    directions: Vec<DirectionReport>,
    /// `null` if the subsystem has no such counter.
    pause_ratio: Option<PerHost<PauseRatios>>,
    counters: PerHost<BTreeMap<String, f64>>,
    bounds: BoundsReport,
    /// Only on hosts that are not steady: what simple traffic reached meanwhile, as a share of the bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<f64>,
    /// The bounds at that capacity, for people.
    #[serde(skip)]
    meanwhile: Option<Bounds>,
    samples: &'a [Sample],
    /// Only if the subsystem estimates it: how well the goodput of all directions is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<Confidence>,
    /// Only if the hardware failed.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    hardware_events: &'a [String],
    /// Only with `--explain`.
    #[serde(flatten)]
    explained: Option<SimulatorReport>,
}

/// What a simulated subsystem knows of itself.
#[derive(Serialize)]
struct SimulatorReport {
    /// The part that most work waits for, and whose traffic.
    limiting: String,
    /// What relieving each part brings.
    relief: Reliefs,
}

impl SimulatorReport {
    fn new(subsystem: &SimSubsystem, workload: &Workload) -> anyhow::Result<Self> {
        let relief = subsystem.relieve(workload).context("--explain")?;
        Ok(Self { limiting: subsystem.limiting().to_owned(), relief })
    }

    fn in_words(&self) -> String {
        let Reliefs { base, parts, tried } = &self.relief;
        let mut text = format!("  most work waits for {}\n", self.limiting);
        if parts.is_empty() {
            return text + &format!("  none of {tried} parts that were made eight times as large or fast helps\n");
        }
        let mut table = Table::new(&["eight times as much", "times as fast", "paused", "verdict"], &[1, 2]);
        for Relief { part, times_as_fast, pause_ratio, verdict } in [base].into_iter().chain(parts) {
            let part = if part.is_empty() { "(as it is)" } else { part };
            let times = times_as_fast.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}"));
            table.row(vec![part.to_owned(), times, percent(*pause_ratio), verdict.name().to_owned()]);
        }
        text += &table.render("  ");
        text
    }
}

#[derive(Serialize)]
struct DirectionReport {
    from: Host,
    to: Host,
    goodput_bps: f64,
    packets_per_sec: f64,
    messages_per_sec: f64,
    /// The bound that it is nearest to; only of what crosses a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<Nearest>,
    /// Only if requests were timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ns: Option<Latency>,
}

/// A bound, and how much of it was attained.
#[derive(Serialize)]
struct Nearest {
    bound: Limit,
    /// The direction whose bound it is.
    from: Host,
    to: Host,
    share: f64,
}

#[derive(Serialize)]
struct BoundsReport {
    max_bps: f64,
    max_pps: f64,
}

impl DirectionReport {
    fn new(rates: &DirectionRates, attained: Option<Attained>, latency_ns: Option<Latency>) -> Self {
        let nearest =
            |Attained { share, limit, of }: Attained| Nearest { bound: limit, from: of.from, to: of.to, share };
        Self {
            nearest: attained.map(nearest),
            from: rates.from,
            to: rates.to,
            goodput_bps: rates.goodput_bps,
            packets_per_sec: rates.packets_per_sec,
            messages_per_sec: rates.messages_per_sec,
            latency_ns,
        }
    }
}

impl Nearest {
    fn in_words(&self, way: &DirectionReport) -> String {
        let words = format!("{} of {}", percent(self.share), self.bound);
        if (self.from, self.to) == (way.from, way.to) {
            return words;
        }
        format!("{words}, {} -> {}", self.from, self.to)
    }
}

impl<'a> MeasureReport<'a> {
    fn new(
        workload: &Workload,
        judged: &'a JudgedMeasurement,
        bounds: Bounds,
        explained: Option<SimulatorReport>,
    ) -> Self {
        let mean = judged.measurement.mean();
        let held_against = held_against(workload, &bounds, &judged.measurement);
        let direction = |rates: &DirectionRates| {
            let attained = held_against.iter().find(|(way, _)| (way.from, way.to) == (rates.from, rates.to));
            let latency = judged.measurement.latency(rates.from, rates.to);
            DirectionReport::new(rates, attained.map(|(_, attained)| *attained), latency)
        };
        Self {
            verdict: judged.assessment.verdict,
            symptoms: &judged.assessment.symptoms,
            inconclusive: judged.assessment.inconclusive.as_ref(),
            directions: mean.iter().flat_map(|mean| &mean.directions).map(direction).collect(),
            pause_ratio: mean.as_ref().and_then(|mean| mean.pause),
            counters: mean.map(|mean| mean.counters).unwrap_or_default(),
            bounds: BoundsReport { max_bps: bounds.max_bps, max_pps: bounds.max_pps },
            capacity: judged.measurement.capacity,
            meanwhile: judged.measurement.capacity.map(|_| bounds.beside(&judged.measurement)),
            samples: &judged.measurement.samples,
            confidence: judged.measurement.confidence,
            hardware_events: &judged.measurement.hardware_events,
            explained,
        }
    }
}

/// Runs the command.
pub fn run(args: &MeasureArgs, common: Common) -> anyhow::Result<ExitCode> {
    let workload = inputs::read_workload(&args.workload)?;
    let mut opened = args.subsystem.open()?;
    if args.explain && opened.simulated().is_none() {
        bail!("--explain looks into a simulated subsystem; `{}` is real", args.subsystem.subsystem);
    }
    if let (Some(seed), Some(simulated)) = (common.seed, opened.simulated()) {
        simulated.set("sampling.seed", &seed.to_string()).context("--seed")?;
    }
    if args.latency {
        opened.measure_latency()?;
    }
    let bounds = opened.subsystem().bounds();
    let judged =
        measure_judged(&workload, &bounds, |workload, attempt| opened.subsystem().measure_again(workload, attempt))?;
    let explained = opened
        .simulated()
        .filter(|_| args.explain)
        .map(|simulated| SimulatorReport::new(simulated, &workload))
        .transpose()?;
    let report = MeasureReport::new(&workload, &judged, bounds, explained);
    if common.json {
        print_json(&report)?;
    } else {
        print(&text(&report, &args.subsystem.subsystem))?;
    }
    Ok(match report.verdict {
        Verdict::Healthy => exit::HEALTHY,
        Verdict::Anomalous => exit::anomalous(),
        Verdict::Inconclusive => {
            note("error: inconclusive, so there is no verdict; measure again, or look at the samples with --json");
            exit::failed()
        }
    })
}

fn text(report: &MeasureReport<'_>, subsystem: &str) -> String {
    let mut text = format!("{subsystem}: {}\n", headline(report));
    let bounds = &report.bounds;
    let mut rates = Table::new(&["direction", "goodput", "packets", "messages", "nearest bound"], &[1, 2, 3]);
    for way in &report.directions {
        rates.row(vec![
            format!("{} -> {}", way.from, way.to),
            format!("{}bit/s", si(way.goodput_bps)),
            format!("{}/s", si(way.packets_per_sec)),
            format!("{}/s", si(way.messages_per_sec)),
            way.nearest.as_ref().map_or_else(String::new, |nearest| nearest.in_words(way)),
        ]);
    }
    let mut bound = |name: &str, bps: f64, pps: f64| {
        let row =
            [name.to_owned(), format!("{}bit/s", si(bps)), format!("{}/s", si(pps)), String::new(), String::new()];
        rates.row(row.to_vec());
    };
    bound("bound", bounds.max_bps, bounds.max_pps);
    if let Some(meanwhile) = report.meanwhile {
        bound("meanwhile", meanwhile.max_bps, meanwhile.max_pps);
    }
    text += &rates.render("  ");
    text += &latencies(&report.directions);
    if let Some(pause) = &report.pause_ratio {
        let mut table = Table::new(&["paused", "sent (tx)", "received (rx)"], &[1, 2]);
        for host in Host::BOTH {
            let ratios = pause.get(host);
            table.row(vec![host.to_string(), percent(ratios.tx), percent(ratios.rx)]);
        }
        text += &table.render("  ");
    }
    let PerHost { a, b } = &report.counters;
    if !(a.is_empty() && b.is_empty()) {
        let mut table = Table::new(&["counter", "a", "b"], &[1, 2]);
        let shown = |host: &BTreeMap<String, f64>, name: &str| {
            host.get(name).map_or_else(|| "-".to_owned(), |value| counters::shown(name, *value))
        };
        // A real host has hundreds, most of which do not move; JSON has them all.
        let is_still =
            |name: &String| [a, b].iter().all(|counters| counters.get(name).is_none_or(|value| *value == 0.0));
        let names = a.keys().chain(b.keys()).collect::<std::collections::BTreeSet<_>>();
        let (still, shown_names): (Vec<&String>, Vec<&String>) =
            names.into_iter().partition(|name| name.contains('.') && is_still(name));
        for name in shown_names {
            table.row(vec![name.clone(), shown(a, name), shown(b, name)]);
        }
        text += &table.render("  ");
        if !still.is_empty() {
            let _ = writeln!(text, "  {} at 0: see --json", plural(still.len() as u64, "further counter"));
        }
    }
    for event in report.hardware_events {
        let _ = writeln!(text, "  hardware: {event}");
    }
    if let Some(explained) = &report.explained {
        text += &explained.in_words();
    }
    text
}

/// A line for each direction whose requests were timed.
fn latencies(directions: &[DirectionReport]) -> String {
    let heading = ["latency", "p50", "p90", "p99", "p99.9", "max", "requests"];
    let mut table = Table::new(&heading, &[1, 2, 3, 4, 5, 6]);
    for way in directions {
        let Some(Latency { count, p50, p90, p99, p999, max }) = way.latency_ns else { continue };
        let times = [p50, p90, p99, p999, max].map(time);
        table.row([vec![format!("{} -> {}", way.from, way.to)], times.to_vec(), vec![count.to_string()]].concat());
    }
    if table.is_empty() { String::new() } else { table.render("  ") }
}

fn headline(report: &MeasureReport<'_>) -> String {
    let symptoms: Vec<&str> = report.symptoms.iter().map(|symptom| symptom.name()).collect();
    match report.verdict {
        Verdict::Healthy => console::style("healthy").green().to_string(),
        Verdict::Anomalous => console::style(format!("anomalous: {}", symptoms.join(", "))).red().bold().to_string(),
        Verdict::Inconclusive => {
            let why = report.inconclusive.unwrap_or(&Inconclusive::NoSamples);
            console::style(format!("inconclusive: {why}")).yellow().to_string()
        }
    }
}
