//! A recipe for a person who has never seen Kelpie: the README, and the page of perftest lines.

use std::fmt::Write as _;

use kelpie_monitor::counters::{MOVED, shown};
use kelpie_monitor::{DirectionRates, Sample, Symptom};
use kelpie_search::REFINED;
use kelpie_spaces::perftest::{Inexpressible, Lines};
use kelpie_spaces::units::percent;
use kelpie_spaces::{Feature, Host, Workload};

use crate::markdown::{code, readable};
use crate::wording::si;

use super::format::{Background, Recipe, RecipeMeasurement};

/// The text of `README.md`.
pub fn readme(recipe: &Recipe, perftest: &Result<Lines, Inexpressible>) -> String {
    let mut text = format!("# Recipe of an RDMA anomaly: {}\n\n", symptoms(&recipe.expected.symptoms));
    text += "This directory describes traffic between two hosts that makes an RDMA subsystem (NIC, PCIe, memory, CPU \
             and GPU together) misbehave, and what was measured. Kelpie, a program that searches for such traffic, \
             wrote it. `recipe.json` holds all of it for programs. Nobody needs to run anything to understand it.\n\n";
    text += "## What happens\n\n";
    for symptom in &recipe.expected.symptoms {
        text += match symptom {
            Symptom::Pause => {
                "- **Pause**: a NIC sends pause frames for more than 0.1 % of the time, though nothing is congested.\n"
            }
            Symptom::LowThroughput => {
                "- **Low throughput**: a direction stays 20 % or more below each of its bounds: those of the port in bits/s \
                 and in packets/s, of PCIe, and of what its queues and QPs allow.\n"
            }
            Symptom::HostFailure => "- **Host failure**: a host fails under this traffic each time it is tried.\n",
        };
    }
    text += "\n## When\n\n";
    conditions(&mut text, recipe);
    text += "\n## What to expect\n\n";
    measured(&mut text, recipe);
    text += "\n## Where it was seen\n\n";
    environment(&mut text, recipe);
    text += "\n## Run it with Kelpie\n\n";
    replay(&mut text, recipe);
    text += "\n## Run it with perftest\n\n";
    match perftest {
        Ok(lines) => {
            let _ = writeln!(text, "```\n{}```", perftest_text(lines));
        }
        Err(reason) => {
            let _ = writeln!(text, "perftest cannot send this workload: {reason}.");
        }
    }
    if let Some(background) = &recipe.background {
        text += "\n## What is known of it\n\n";
        told(&mut text, background);
    }
    text += "\n## What is not in here\n\n";
    text += match &recipe.environment.hosts {
        None => "Everything was simulated, so there are no hosts.\n",
        Some(_) => {
            "The program that wrote this did not know what is not listed under \"Where it was seen\" (such as the \
             BIOS). Host names, addresses, serial numbers and GIDs were left out, unless they stand there.\n"
        }
    };
    text
}

/// The text of `perftest.txt`: both lines, where to run them, what differs.
pub fn perftest_text(lines: &Lines) -> String {
    let mut text = format!(
        "# perftest 4.5 or later. {}; the server's first.\n\
         # Put in: DEVICE and GID_INDEX of each host (`ibv_devices`, `show_gids`), and SERVER, the address of the \
         server's host.\n{}\n{}\n",
        lines.hosts, lines.server, lines.client
    );
    for difference in &lines.differences {
        let _ = writeln!(text, "# Differs: {difference}.");
    }
    text
}

fn symptoms(symptoms: &[Symptom]) -> String {
    let word = |symptom: &Symptom| match symptom {
        Symptom::Pause => "pause",
        Symptom::LowThroughput => "low throughput",
        Symptom::HostFailure => "host failure",
    };
    symptoms.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn conditions(text: &mut String, recipe: &Recipe) {
    if recipe.mfs.conditions.is_empty() {
        *text += "Always: no condition was found that cures it.\n";
        return;
    }
    let is_refined = recipe.expected.confidence >= REFINED;
    *text += if is_refined { "Traffic that fulfils all of these shows it:\n\n" } else { "Seen with all of these:\n\n" };
    for condition in &recipe.mfs.conditions {
        let _ = writeln!(text, "- {} ({})", readable(&condition.to_string()), condition.feature.phrase());
    }
    if let Some(premise) = recipe.background.as_ref().and_then(|background| background.premise.as_ref()) {
        let _ = writeln!(text, "- and, which no feature of the traffic says: {}", readable(premise));
    }
    let confidence = recipe.expected.confidence;
    if confidence > 0.0 {
        let _ = writeln!(
            text,
            "\nOf random traffic that fulfils them, at least {:.0} % shows the symptom (with 95 % confidence).",
            confidence * 100.0
        );
    } else {
        *text += "\nThe conditions are taken from elsewhere; random traffic within them was not measured.\n";
    }
    *text += "\nThe traffic that shows it (units in `recipe.json`):\n\n";
    flows(text, &recipe.workload);
}

fn flows(text: &mut String, workload: &Workload) {
    for flow in &workload.flows {
        let requests: Vec<String> = flow
            .pattern
            .iter()
            .map(|request| {
                let sizes: Vec<String> = request.sge.iter().map(ToString::to_string).collect();
                format!("{} of {}", request.op, sizes.join(" + "))
            })
            .collect();
        let _ = writeln!(
            text,
            "- from {} to {}: {} {} QPs, path MTU {}, each QP repeats {}; send queue {} deep posted {} at a time, \
             receive queue {} deep posted {} at a time; MRs of each QP: {} x {} on {} at the requester, {} x {} on {} \
             at the responder",
            flow.from,
            flow.to,
            flow.qps,
            flow.qp_type,
            flow.mtu.bytes(),
            requests.join(", "),
            flow.wq_depth.send,
            flow.batch.send,
            flow.wq_depth.recv,
            flow.batch.recv,
            flow.memory.from.mrs,
            flow.memory.from.mr_size,
            flow.memory.from.device,
            flow.memory.to.mrs,
            flow.memory.to.mr_size,
            flow.memory.to.device,
        );
    }
}

fn measured(text: &mut String, recipe: &Recipe) {
    let bounds = recipe.expected.bounds;
    let _ = writeln!(
        text,
        "The port can do {}bit/s and {}packets/s in each direction.\n",
        si(bounds.max_bps),
        si(bounds.max_pps)
    );
    let healthy = recipe.healthy.as_ref().map(|neighbour| &neighbour.seen);
    for (seen, of) in [(Some(&recipe.anomalous), "this traffic"), (healthy, "the healthy traffic")] {
        if let Some(capacity) = seen.and_then(|seen| seen.capacity) {
            let _ = writeln!(text, "While {of} was measured, simple traffic reached {} of that.\n", percent(capacity));
        }
    }
    *text += "| | this traffic | healthy traffic nearby |\n|---|---:|---:|\n";
    for (name, anomalous, other) in rows(&recipe.anomalous, healthy) {
        let _ = writeln!(text, "| {name} | {anomalous} | {other} |");
    }
    match &recipe.healthy {
        Some(neighbour) => {
            let change = |feature: Feature| {
                let [before, after] = [&recipe.workload, &neighbour.workload].map(|workload| workload.feature(feature));
                format!("{feature} {before} becomes {after}")
            };
            let differing: Vec<String> =
                recipe.workload.differing(&neighbour.workload).into_iter().map(change).collect();
            let _ = writeln!(text, "\nThe healthy traffic differs in: {}.", differing.join(", "));
        }
        None => *text += "\nNo healthy traffic nearby was measured.\n",
    }
    for event in &recipe.anomalous.hardware_events {
        let _ = writeln!(text, "\nThe hardware said: {}", readable(event));
    }
}

/// Rates and pause of both measurements, and each counter that moved.
fn rows(anomalous: &RecipeMeasurement, healthy: Option<&RecipeMeasurement>) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    let mut row = |name: String, value: &dyn Fn(&Sample) -> Option<String>| {
        let [one, other] = [Some(anomalous), healthy]
            .map(|seen| seen.and_then(|seen| value(&seen.mean)).unwrap_or_else(|| "-".to_owned()));
        if one != "-" || other != "-" {
            rows.push((name, one, other));
        }
    };
    for from in Host::BOTH {
        for to in Host::BOTH {
            let rate = |mean: &Sample, rate: fn(&DirectionRates) -> f64| mean.direction(from, to).map(rate).map(si);
            row(format!("goodput {from} to {to}"), &|mean| Some(rate(mean, |rates| rates.goodput_bps)? + "bit/s"));
            row(format!("packets {from} to {to}"), &|mean| Some(rate(mean, |rates| rates.packets_per_sec)? + "/s"));
        }
    }
    for host in Host::BOTH {
        let ratio = |value: f64| Some(format!("{:.2} %", value * 100.0));
        row(format!("{host} sent pause"), &|mean| ratio(mean.pause.as_ref()?.get(host).tx));
        row(format!("{host} was paused"), &|mean| ratio(mean.pause.as_ref()?.get(host).rx));
    }
    for host in Host::BOTH {
        let all = [Some(anomalous), healthy].into_iter().flatten();
        let mut names: Vec<&String> = all
            .flat_map(|seen| seen.mean.counters.get(host))
            .filter(|(_, value)| value.abs() >= MOVED)
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            row(format!("`{}` of {host}", code(name)), &|mean| {
                mean.counters.get(host).get(name).map(|value| shown(name, *value))
            });
        }
    }
    rows
}

fn environment(text: &mut String, recipe: &Recipe) {
    let environment = &recipe.environment;
    if environment.model.is_some() {
        let _ = writeln!(
            text,
            "On `{}`, a simulated subsystem: `environment.model` in `recipe.json` is all of its model.",
            code(&environment.subsystem)
        );
    } else {
        let _ = writeln!(text, "On the real pair `{}`.", code(&environment.subsystem));
    }
    for host in Host::BOTH {
        for (fact, value) in environment.hosts.iter().flat_map(|hosts| hosts.get(host)) {
            let _ = writeln!(text, "- host {host}: {}: {}", readable(fact), readable(value));
        }
    }
    let seed = recipe.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
    let _ =
        writeln!(text, "\nFinding {} of Kelpie {}{seed}.", readable(&recipe.finding), readable(&recipe.kelpie_version));
}

fn replay(text: &mut String, recipe: &Recipe) {
    let subsystem = if recipe.environment.model.is_some() { "" } else { " --subsystem pair.yaml" };
    let _ = write!(
        text,
        "```\nkelpie recipe replay PATH{subsystem}\n```\n\nPATH is this directory or the archive. The command measures \
         the traffic and says whether the symptom is reproduced: the exit status is 1 if it is, 0 if it is not, and 2 \
         if no verdict was reached."
    );
    *text += if recipe.environment.model.is_some() {
        " `--subsystem pair.yaml` runs it on two real hosts instead of the simulated subsystem where it was found.\n"
    } else {
        " `pair.yaml` names your two hosts, each with an agent of Kelpie.\n"
    };
    *text += "\nIf `kelpie` is not there: its source comes from whoever sent this, and `make install` in it puts the \
              program in place. A simulated subsystem needs no RDMA hardware.\n";
}

fn told(text: &mut String, background: &Background) {
    let _ = writeln!(text, "Source: {}.", readable(&background.source));
    for (what, said) in [("Cause", &background.cause), ("Fix", &background.fix), ("Note", &background.note)] {
        if let Some(said) = said {
            let _ = writeln!(text, "\n{what}: {}.", readable(said));
        }
    }
}
