//! Which part of a model limits traffic, by relieving each in turn: that whose relief makes traffic faster is the
//! bottleneck, however long work waits elsewhere.

use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_monitor::verdict::{Verdict, assess};
use kelpie_monitor::{Bounds, Measurement, PauseRatios, PerHost};
use kelpie_spaces::{Host, Workload};
use serde::Serialize;

use crate::subsystem::SimSubsystem;

/// By how much a part is relieved. Source: our choice, more than generations of NICs differ by.
const FACTOR: f64 = 8.0;
/// Growth of all goodput, and share of the time that is no longer paused, that a relief is worth a word for. Source: our
/// choice, above what experiments do not know.
const WORTH: [f64; 2] = [1.05, 0.02];

/// What all parts wait for that have too few reads on their way: it helps beside most of them, and comes behind them.
const LATENCY: &str = "pcie_latency";

/// A part of a model.
#[derive(Debug, Clone, Copy)]
struct Part {
    name: &'static str,
    /// What it has more of when it is relieved.
    more: &'static [&'static str],
    /// Times that are shorter when it is.
    less: &'static [&'static str],
}

const fn more(name: &'static str, more: &'static [&'static str]) -> Part {
    Part { name, more, less: &[] }
}

const fn less(name: &'static str, less: &'static [&'static str]) -> Part {
    Part { name, more: &[], less }
}

/// All parts that can be relieved; their names are those of what limits a run, where it can say them.
const PARTS: [Part; 22] = [
    more("qp_context_cache", &["caches.contexts.kib"]),
    more("translation_cache", &["caches.translations.kib"]),
    more("send_wqe_cache", &["caches.send_wqes.kib"]),
    more("receive_wqe_cache", &["caches.receive_wqes.kib"]),
    more("receive_wqe_fetch", &["fetch.receive_wqe_misses"]),
    more("receive_wqe_chain", &["caches.receive_chains.kib", "fetch.chain_lines", "fetch.chain_misses"]),
    more("receive_ring_pages", &["caches.ring_pages.kib", "fetch.ring_page_misses"]),
    more("read_scatter_cache", &["caches.read_lists.kib", "fetch.read_list_misses"]),
    more("cache_miss_reads", &["fetch.send_misses", "fetch.translation_misses", "fetch.receive_misses"]),
    more("read_window", &["processing.max_reads"]),
    more("packet_memory", &["processing.packet_memory_kib"]),
    Part {
        name: "processing_unit",
        more: &["processing.units"],
        less: &["processing.wqe_ns", "processing.segment_ns", "processing.packet_ns", "processing.receive_packet_ns"],
    },
    less(
        "packet_processing",
        &["processing.pipeline_packet_ns", "processing.pipeline_kib_ns", "processing.pipeline_switch_ns"],
    ),
    less("read_response_processing", &["processing.response_packet_ns", "processing.response_kib_ns"]),
    more("pcie_read", &["pcie.tags", "pcie.gbps"]),
    less(LATENCY, &["pcie.link_latency_ns", "host.memory_latency_ns"]),
    more("pcie_write", &["pcie.write_credit_kib", "pcie.gbps", "host.memory_gbps"]),
    more("receive_buffer", &["receive.capacity_kib", "receive.xoff_kib", "receive.xon_kib", "receive.loopback_kib"]),
    more("socket_interconnect", &["host.interconnect_gbps", "host.remote_memory_gbps"]),
    more("peer_to_peer_redirect", &["host.redirect_read_gbps", "host.redirect_write_gbps"]),
    more("wire", &["port.line_rate_gbps", "port.max_mpps"]),
    Part { name: "posting", more: &["posting.cores"], less: &["posting.doorbell_ns", "posting.wqe_ns"] },
];

/// What the relief of a part brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relief {
    /// The part.
    pub part: &'static str,
    /// All goodput as a multiple of what it is without.
    pub times_as_fast: f64,
    /// The larger share of the time for which a NIC pauses its neighbour.
    pub pause_ratio: f64,
    /// The verdict, by the bounds of the model as it is.
    pub verdict: Verdict,
}

/// What a measurement comes to: all goodput, and the larger pause ratio.
fn seen(measurement: &Measurement) -> Option<[f64; 2]> {
    let mean = measurement.mean()?;
    let paused =
        |pause: PerHost<PauseRatios>| Host::BOTH.map(|host| pause.get(host).tx).into_iter().fold(0.0, f64::max);
    Some([mean.directions.iter().map(|way| way.goodput_bps).sum(), mean.pause.map_or(0.0, paused)])
}

impl SimSubsystem {
    /// Relieves each part of the model in turn, eight times; says what makes traffic faster, or less paused, the best
    /// first. It takes an experiment for each part.
    ///
    /// # Errors
    /// When the workload cannot be measured.
    pub fn relieve(&self, workload: &Workload) -> Result<Vec<Relief>, MeasureError> {
        let bounds = self.bounds();
        let mut base = self.clone();
        // Rates are compared, not verdicts.
        let plain = [("sampling.noise", 0.0), ("sampling.verdict_packets", 0.0)];
        base.set_numbers(&plain).map_err(|error| MeasureError::Unsupported { reason: error.to_string() })?;
        let measurement = base.measure(workload)?;
        let is_sick = assess(workload, &bounds, &measurement).verdict != Verdict::Healthy;
        let Some([goodput, pause]) = seen(&measurement) else { return Ok(Vec::new()) };
        let mut reliefs: Vec<Relief> =
            PARTS.iter().filter_map(|part| relief(&base, part, workload, &bounds, goodput)).collect();
        reliefs.retain(|relief| {
            let cures = is_sick && relief.verdict == Verdict::Healthy;
            cures || relief.times_as_fast > WORTH[0] || pause - relief.pause_ratio > WORTH[1]
        });
        let rank = |relief: &Relief| {
            let gain = relief.times_as_fast - relief.pause_ratio;
            (relief.verdict == Verdict::Healthy, relief.part != LATENCY, gain)
        };
        reliefs.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
        Ok(reliefs)
    }
}

/// What a model is changed to when a part of it is relieved; nothing if it has no such part.
fn relieved(base: &SimSubsystem, part: &Part) -> Option<SimSubsystem> {
    let more = part.more.iter().map(|path| (*path, FACTOR));
    let less = part.less.iter().map(|path| (*path, 1.0 / FACTOR));
    let numbers: Vec<_> =
        more.chain(less).filter_map(|(path, factor)| Some((path, base.number(path)? * factor))).collect();
    let mut relieved = base.clone();
    relieved.set_numbers(&numbers).ok().filter(|()| !numbers.is_empty()).map(|()| relieved)
}

/// Nothing if the model has no such part.
fn relief(base: &SimSubsystem, part: &Part, workload: &Workload, bounds: &Bounds, goodput: f64) -> Option<Relief> {
    let mut relieved = relieved(base, part)?;
    let measurement = relieved.measure(workload).ok()?;
    let [after, pause_ratio] = seen(&measurement)?;
    let verdict = assess(workload, bounds, &measurement).verdict;
    Some(Relief { part: part.name, times_as_fast: after / goodput.max(1.0), pause_ratio, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_one_of_a_model_and_can_be_relieved() {
        // H has all.
        let model = SimSubsystem::load("H").expect("an embedded model");
        for part in PARTS {
            for path in part.more.iter().chain(part.less) {
                assert!(model.number(path).is_some(), "{}: {path}", part.name);
            }
            assert!(relieved(&model, &part).is_some(), "{}", part.name);
        }
    }
}
