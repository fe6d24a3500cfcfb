//! Latency of requests over a link whose delay is known, since it was put there.

use serde_json::Value;

use super::shapes::{FlowShape, RC, yaml};
use super::{Lab, in_lab, workload};

/// What each guest delays its packets by. Units: milliseconds.
const DELAY_MS: u64 = 20;

/// Units: nanoseconds.
const DELAY: u64 = DELAY_MS * 1_000_000;

/// A delayed link, which ends with the value.
struct Delayed<'a>(&'a Lab);

impl<'a> Delayed<'a> {
    fn link(lab: &'a Lab) -> Self {
        let delayed = Self(lab);
        for guest in ["a", "b"] {
            // As `cargo xtask lab netem` does it.
            let netem = format!("tc qdisc replace dev eth0 root netem limit 125000 delay {DELAY_MS}ms");
            let shown = lab.in_guest(guest, &format!("{netem} && tc qdisc show dev eth0"));
            assert!(shown.contains(&format!("delay {DELAY_MS}ms")), "guest {guest}: {shown}");
        }
        delayed
    }
}

impl Drop for Delayed<'_> {
    fn drop(&mut self) {
        for guest in ["a", "b"] {
            self.0.in_guest(guest, "tc qdisc del dev eth0 root 2>/dev/null; tc qdisc show dev eth0");
        }
    }
}

/// The median of the only direction, whose percentiles are in order.
fn median(report: &Value) -> u64 {
    let [way] = &report["directions"].as_array().expect("directions")[..] else { panic!("one direction: {report}") };
    let latency = &way["latency_ns"];
    let number = |key: &str| latency[key].as_u64().unwrap_or_else(|| panic!("no {key}: {report}"));
    let percentiles = ["p50", "p90", "p99", "p999", "max"].map(number);
    assert!(number("count") > 0 && percentiles[0] > 0 && percentiles.is_sorted(), "{latency}");
    percentiles[0]
}

/// One request at a time on each of two QPs.
fn single(op: &str) -> String {
    let pattern = ["SEND 64", "WRITE 64", "READ 64"].into_iter().find(|pattern| pattern.starts_with(op));
    yaml(&[FlowShape { pattern: pattern.expect("one of the three"), depth: [1, 8], ..RC }])
}

#[test]
#[ignore = "needs the lab"]
fn latency_holds_what_the_link_delays_requests_and_acknowledgements_by() {
    in_lab(|lab| {
        let pair = lab.pair_with("{warm_up_ms: 500, sample_ms: 1000, samples: 1, latency: true}");
        for op in ["SEND", "WRITE", "READ"] {
            let quick = median(&lab.measure(&single(op), pair));
            assert!(quick < DELAY, "{op} without delay: {quick} ns");
            let delayed = Delayed::link(lab);
            // Full queues as well.
            for workload in [single(op), workload(op)] {
                let slow = median(&lab.measure(&workload, pair));
                assert!(slow >= 2 * DELAY, "{op} with {DELAY_MS} ms each way: {slow} ns");
            }
            drop(delayed);
        }
        lab.is_clean();
    });
}

#[test]
#[ignore = "needs the lab"]
fn without_the_option_there_is_no_latency() {
    in_lab(|lab| {
        let report = lab.measure(&workload("WRITE"), lab.pair(2000));
        assert_eq!(report["directions"][0].get("latency_ns"), None, "{report}");
    });
}
