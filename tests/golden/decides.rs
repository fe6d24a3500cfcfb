//! Which parameter decides each anomaly, and what a tenth less and more of it does. `KELPIE_BLESS=1 cargo test --test main
//! golden` writes the table anew.

use std::fmt::Write as _;

use kelpie_engine::Subsystem as _;

use super::cases::{ANOMALIES, trigger};
use super::{NOT_REPRODUCED, assert_committed, judge, load};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/decides.txt");

/// The parameter of each anomaly that shows.
const DECIDES: [(u32, &str); 16] = [
    (1, "caches.receive_chains.kib"),
    (2, "caches.receive_wqes.kib"),
    (3, "processing.response_packet_ns"),
    (4, "caches.read_lists.kib"),
    (5, "caches.receive_chains.kib"),
    (6, "caches.receive_wqes.kib"),
    (7, "caches.translations.kib"),
    (8, "caches.contexts.kib"),
    (11, "host.remote_memory_gbps"),
    (12, "host.redirect_write_gbps"),
    (13, "pcie.gbps"),
    (14, "caches.contexts.kib"),
    (15, "caches.receive_wqes.kib"),
    (16, "caches.read_lists.kib"),
    (17, "caches.receive_wqes.kib"),
    (18, "processing.pipeline_packet_ns"),
];

/// Verdict, part of the line rate that the slowest direction has on the wire, and the longest pause, of a trigger with the
/// parameter at so much of its value.
fn shows(id: u32, path: &str, times: f64) -> String {
    let anomaly = ANOMALIES.iter().find(|anomaly| anomaly.id == id).expect("18 anomalies");
    let mut subsystem = load(anomaly.subsystem);
    let value = subsystem.number(path).expect("a number");
    subsystem.set(path, &(value * times).to_string()).expect("the model has this parameter");
    let workload = trigger(id).workload();
    let measurement = subsystem.measure(&workload).expect("the hosts have the devices");
    let shown = judge(&subsystem, &workload, &measurement);
    let mean = measurement.mean().expect("samples");
    let slowest = mean.directions.iter().map(|way| way.wire_bps).fold(f64::INFINITY, f64::min);
    let pause = mean.pause.expect("a simulated NIC counts pauses");
    let share = slowest / subsystem.bounds().max_bps;
    format!("{} {:.0}/{:.0}", shown.text(), 100.0 * share, 100.0 * pause.longest())
}

#[test]
fn a_tenth_of_what_decides_does_what_is_committed() {
    let mut table = format!(
        "{:<8} {:<30} {:<20} {:<20} {:<20}\n{:<8} verdict, % of the line rate on the wire / % of the time paused\n",
        "anomaly", "decided by", "a tenth less", "as it is", "a tenth more", ""
    );
    assert_eq!(DECIDES.len() + NOT_REPRODUCED.len(), ANOMALIES.len());
    for (id, path) in DECIDES {
        let [less, now, more] = [0.9, 1.0, 1.1].map(|times| shows(id, path, times));
        writeln!(table, "{id:<8} {path:<30} {less:<20} {now:<20} {more}").expect("a String takes any text");
    }
    assert_committed(TABLE, &table);
}
