//! Which parameter decides each anomaly, and what a tenth less and more of it does. `KELPIE_BLESS=1 cargo test --test main
//! golden` writes the table anew.

use std::fmt::Write as _;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::assess;

use super::cases::{ANOMALIES, trigger};
use super::{NOT_REPRODUCED, Shown, difference, load};

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
    let model: serde_yaml::Value = serde_yaml::from_str(&subsystem.yaml()).expect("the model is YAML");
    let value = path.split('.').fold(&model, |node, key| &node[key]).as_f64().expect("a number");
    subsystem.set(path, &(value * times).to_string()).expect("the model has this parameter");
    let workload = trigger(id).workload();
    let measurement = subsystem.measure(&workload).expect("the hosts have the devices");
    let assessment = assess(&workload, &subsystem.bounds(), &measurement);
    let shown =
        Shown { verdict: assessment.verdict, symptoms: assessment.symptoms, limiting: subsystem.limiting().to_owned() };
    let mean = measurement.mean().expect("samples");
    let slowest = mean.directions.iter().map(|way| way.wire_bps).fold(f64::INFINITY, f64::min);
    let pause = mean.pause.expect("a simulated NIC counts pauses");
    let longest = [pause.a.tx, pause.a.rx, pause.b.tx, pause.b.rx].into_iter().fold(0.0, f64::max);
    let share = slowest / subsystem.bounds().max_bps;
    format!("{} {:.0}/{:.0}", shown.text(), 100.0 * share, 100.0 * longest)
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
    if std::env::var_os("KELPIE_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(TABLE, &table).expect("the table can be written");
    }
    let committed = std::fs::read_to_string(TABLE).unwrap_or_default();
    assert!(table == committed, "{TABLE} differs (KELPIE_BLESS=1 writes it anew):\n{}", difference(&committed, &table));
}
