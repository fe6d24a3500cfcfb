//! Which parameter decides each anomaly, and what a tenth less and more of it does.

use std::fmt::Write as _;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::Measurement;
use kelpie_sim::SimSubsystem;

use super::cases::{ANOMALIES, trigger};
use super::measured::GoldenModel;
use super::{GoldenResult, NOT_REPRODUCED, judge, load, measure};

/// The parameter of each anomaly that shows.
const DECIDES: [(u32, &str); 16] = [
    (1, "fetch.chain_lines"),
    (2, "caches.ring_pages.kib"),
    (3, "processing.response_kib_ns"),
    (4, "caches.read_lists.kib"),
    (5, "fetch.chain_lines"),
    (6, "caches.ring_pages.kib"),
    (7, "caches.translations.kib"),
    (8, "caches.contexts.kib"),
    (11, "host.remote_memory_gbps"),
    (12, "host.redirect_write_gbps"),
    (13, "pcie.gbps"),
    (14, "processing.packet_memory_kib"),
    (15, "caches.ring_pages.kib"),
    (16, "caches.read_lists.kib"),
    (17, "caches.ring_pages.kib"),
    (18, "processing.pipeline_kib_ns"),
];

/// Verdict, part of the line rate that the slowest direction has on the wire, and the longest pause.
fn text(subsystem: &SimSubsystem, shown: &GoldenResult, measurement: &Measurement) -> String {
    let mean = measurement.mean().expect("samples");
    let slowest = mean.directions.iter().map(|way| way.wire_bps).fold(f64::INFINITY, f64::min);
    let pause = mean.pause.expect("a simulated NIC counts pauses");
    let share = slowest / subsystem.bounds().max_bps;
    format!("{} {:.0}/{:.0}", shown.text(), 100.0 * share, 100.0 * pause.longest())
}

/// What a trigger shows with the parameter at so much of its value.
fn shows(model: &str, id: u32, path: &str, times: f64) -> String {
    let mut subsystem = load(model);
    let value = times * subsystem.number(path).expect("a number");
    // Counts are whole.
    let value = if path.starts_with("fetch.") { value.round() } else { value };
    subsystem.set(path, &value.to_string()).expect("the model has this parameter");
    let workload = trigger(id).workload();
    let measurement = measure(&mut subsystem, &workload);
    text(&subsystem, &judge(&subsystem, &workload, &measurement), &measurement)
}

/// A tenth of what decides, for each anomaly of a model that shows.
pub fn table(measured: &GoldenModel) -> String {
    let mut table = format!(
        "{:<8} {:<30} {:<20} {:<20} {:<20}\n{:<8} verdict, % of the line rate on the wire / % of the time paused\n",
        "anomaly", "decided by", "a tenth less", "as it is", "a tenth more", ""
    );
    assert_eq!(DECIDES.len() + NOT_REPRODUCED.len(), ANOMALIES.len());
    for (id, _) in measured.reproduced() {
        let (_, path) = DECIDES.iter().find(|(decided, _)| *decided == id).expect("each that shows is decided");
        let (shown, measurement) = measured.trigger(id);
        let now = text(&measured.subsystem, shown, measurement);
        let [less, more] = [0.9, 1.1].map(|times| shows(measured.model, id, path, times));
        writeln!(table, "{id:<8} {path:<30} {less:<20} {now:<20} {more}").expect("a String takes any text");
    }
    table
}
