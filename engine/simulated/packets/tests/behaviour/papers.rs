//! Long flows share links as the papers of their congestion control plot it.

use kelpie_packets::congestion::{Algorithm, Dcqcn};
use kelpie_packets::{Outcome, Series};

#[path = "../../examples/fairness/scenarios.rs"]
mod scenarios;

/// Goodput of flows between two times (ms). Units: Gbit/s.
fn goodputs(series: &Series, flows: usize, from: f64, to: f64) -> Vec<f64> {
    let sample = |millis: f64| (millis * 1e6 / series.interval_ns as f64) as usize;
    let (from, to) = (sample(from), sample(to));
    let nanos = ((to - from) as u64 * series.interval_ns) as f64;
    let bytes = |flow: usize| series.qps[flow].received_bytes[to] - series.qps[flow].received_bytes[from];
    (0..flows).map(|flow| bytes(flow) as f64 * 8.0 / nanos).collect()
}

/// Jain's index of fairness: 1 if all are equal, one part of so many if one has all.
fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    sum * sum / squares / values.len() as f64
}

fn series(outcome: &Outcome) -> &Series {
    assert_eq!(outcome.counters.drops, 0);
    outcome.series.as_ref().expect("it is sampled")
}

#[test]
fn pfc_alone_is_unfair_to_flows_that_share_a_port() {
    // Figure 3: the sender with a port of its own has up to 20 Gbit/s, and the others the rest of 40.
    let outcome = scenarios::dcqcn(Algorithm::None, 20_000_000).run().expect("it runs");
    let shares = goodputs(series(&outcome), 4, 5.0, 19.0);
    let total: f64 = shares.iter().sum();
    assert!(total > 0.94 * 40.0 && outcome.counters.pfc_pauses > 1000, "{shares:?}");
    assert!((shares[3] / total - 0.5).abs() < 0.05, "{shares:?}");
    assert!(shares[..3].iter().all(|share| (share / total - 0.5 / 3.0).abs() < 0.02), "{shares:?}");
}

#[test]
fn dcqcn_gives_each_of_them_a_quarter() {
    // Figure 8: about 10 Gbit/s each.
    let paper = Algorithm::Dcqcn(Dcqcn::of_paper(40e9));
    let outcome = scenarios::dcqcn(paper, 100_000_000).run().expect("it runs");
    let series = series(&outcome);
    let shares = goodputs(series, 4, 50.0, 99.0);
    let total: f64 = shares.iter().sum();
    assert!(total > 0.93 * 40.0 && total < 40.0, "{shares:?}");
    assert!(shares.iter().all(|share| (share - 10.0).abs() < 1.5) && jain(&shares) > 0.98, "{shares:?}");
    // Once rates have met, nobody is paused, and the queue is far below the thresholds of PFC.
    let pauses = |sample: usize| -> u32 { series.ports.iter().map(|port| port.pauses[sample]).sum() };
    assert_eq!(pauses(series.samples / 4), pauses(series.samples - 1));
    let most = series.ports.iter().flat_map(|port| &port.queued_bytes[series.samples / 4..]).max();
    assert!(most < Some(&400_000), "{most:?}");
}

#[test]
fn timely_shares_a_link_among_flows_that_come_and_go() {
    // The paper: each of 1, 2, 3 and 4 connections has its share; Jain's index of four is about 0.95.
    let stage = 40.0;
    let outcome = scenarios::timely(40_000_000).run().expect("it runs");
    let series = series(&outcome);
    for (number, flows) in [1, 2, 3, 4, 3].into_iter().enumerate() {
        let begin = number as f64 * stage;
        let shares = goodputs(series, flows, begin + 0.5 * stage, begin + 0.9 * stage);
        let total: f64 = shares.iter().sum();
        assert!(jain(&shares) > 0.95 && total > 0.7 * 10.0, "{number}: {shares:?}");
    }
    // Queues lie between what the two thresholds of round trips allow.
    let port = series.ports.iter().find(|port| port.port.node == 6 && port.port.link == 0).expect("it is sampled");
    let queues = &port.queued_bytes[port.queued_bytes.len() * 3 / 10..port.queued_bytes.len() / 2];
    let mean = queues.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / queues.len() as f64;
    assert!((10e3..625e3).contains(&mean), "{mean}");
}

#[test]
fn hpcc_shares_a_link_with_next_to_no_queue() {
    let stage = 15.0;
    let mut scenario = scenarios::hpcc(15_000_000);
    scenario.settings.end_ns = 48_000_000;
    let outcome = scenario.run().expect("it runs");
    let series = series(&outcome);
    for (number, least) in [(0, 1.0), (1, 0.995), (2, 0.98)] {
        let begin = number as f64 * stage;
        let shares = goodputs(series, number + 1, begin + 0.6 * stage, begin + 0.98 * stage);
        let total: f64 = shares.iter().sum();
        // 95 % of the link, less headers with telemetry, and a little of the sixth host.
        let ideal = 0.95 * 100.0 * 1000.0 / 1090.0;
        assert!(jain(&shares) >= least - 1e-9 && (total / ideal - 1.0).abs() < 0.05, "{number}: {shares:?}");
    }
    // A flow that joins at line rate makes a queue of about one window, which is gone after some round trips.
    let port = series.ports.iter().find(|port| port.port.node == 6 && port.port.link == 0).expect("it is sampled");
    let at = |millis: f64| (millis * 1e6 / series.interval_ns as f64) as usize;
    for join in [1.0, 2.0] {
        let after = &port.queued_bytes[at(join * stage + 0.6)..at((join + 1.0) * stage - 0.1)];
        let mean = after.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / after.len() as f64;
        assert!(mean < 8_000.0 && after.iter().all(|bytes| *bytes < 60_000), "{mean}");
    }
    let window = 100e9 * 13e-6 / 8.0;
    assert!((outcome.counters.max_queue_bytes as f64) < 1.5 * window, "{}", outcome.counters.max_queue_bytes);
    assert_eq!(outcome.counters.pfc_pauses, 0);
}
