//! Which part of a model limits traffic, by relieving each in turn: that whose relief makes traffic faster is the
//! bottleneck, however long work waits elsewhere.

use kelpie_engine::{MeasureError, Subsystem as _};
use kelpie_monitor::verdict::{Verdict, assess};
use kelpie_monitor::{Bounds, Measurement};
use kelpie_spaces::Workload;
use serde::Serialize;

use crate::parameters::Parameter as P;
use crate::subsystem::SimSubsystem;

/// By how much a part is relieved. Source: our choice, more than generations of NICs differ by.
const FACTOR: f64 = 8.0;
/// Growth of all goodput, and share of the time that is no longer paused, that a relief is worth a word for. Source:
/// our choice, above what experiments do not know.
const WORTH: [f64; 2] = [1.05, 0.02];

/// What all parts wait for that have too few reads on their way: it helps beside most of them, and comes behind them.
const LATENCY: &str = "pcie_latency";

/// A part of a model.
#[derive(Debug, Clone, Copy)]
struct ReliefPart {
    name: &'static str,
    /// What it has more of when it is relieved.
    more: &'static [P],
    /// Times that are shorter when it is.
    less: &'static [P],
}

const fn more(name: &'static str, more: &'static [P]) -> ReliefPart {
    ReliefPart { name, more, less: &[] }
}

const fn less(name: &'static str, less: &'static [P]) -> ReliefPart {
    ReliefPart { name, more: &[], less }
}

/// All parts that can be relieved; their names are those of what limits a run, where it can say them.
const PARTS: [ReliefPart; 27] = [
    more("qp_context_cache", &[P::Contexts]),
    more("translation_cache", &[P::Translations]),
    more("send_wqe_cache", &[P::SendWqes]),
    more("receive_wqe_cache", &[P::ReceiveWqes]),
    more("receive_wqe_fetch", &[P::ReceiveWqeMisses]),
    more("receive_wqe_chain", &[P::ReceiveChains, P::ChainLines, P::ChainMisses]),
    more("receive_ring_pages", &[P::RingPages, P::RingPageMisses]),
    more("read_scatter_cache", &[P::ReadLists, P::ReadListMisses]),
    more("cache_miss_reads", &[P::SendMisses, P::TranslationMisses, P::ReceiveMisses]),
    more("read_window", &[P::MaxReads]),
    more("packet_memory", &[P::PacketMemory]),
    ReliefPart { name: "processing_unit", more: &[P::Units], less: &[P::Wqe, P::Segment, P::Packet, P::ReceivePacket] },
    less("packet_processing", &[P::PipelinePacket, P::PipelineKib, P::PipelineSwitch]),
    less("read_response_processing", &[P::ResponsePacket, P::ResponseKib]),
    more("pcie_read", &[P::Tags, P::Pcie]),
    less(LATENCY, &[P::LinkLatency, P::MemoryLatency]),
    more("pcie_write", &[P::WriteCredit, P::Pcie, P::Memory]),
    more("receive_buffer", &[P::Capacity, P::Xoff, P::Xon, P::Loopback]),
    more("socket_interconnect", &[P::Interconnect, P::RemoteMemory]),
    more("peer_to_peer_redirect", &[P::RedirectRead, P::RedirectWrite]),
    more("wire", &[P::LineRate, P::MaxMpps]),
    more("leaves", &[P::Trunk]),
    more("staging", &[P::Staging, P::Slots]),
    more("receive_slots", &[P::ReceiveSlots]),
    less("receiver_not_ready", &[P::RnrTimer]),
    less("command_interface", &[P::Firmware]),
    ReliefPart { name: "posting", more: &[P::Cores], less: &[P::Doorbell, P::PostedWqe] },
];

/// What relieving each part brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reliefs {
    /// The traffic as it is, to the model's precision and without noise: what the others are compared with.
    pub base: Relief,
    /// What helps, the best first.
    pub parts: Vec<Relief>,
    /// Parts that were tried: those that the model has, and whose eightfold its rules allow.
    pub tried: usize,
}

/// What the relief of a part brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relief {
    /// The part; none of the traffic as it is.
    pub part: &'static str,
    /// All goodput as a multiple of what it is without; none if nothing moves without.
    pub times_as_fast: Option<f64>,
    /// The longest pause of a port, sent or received. Units: share of the time.
    pub pause_ratio: f64,
    /// The verdict, by the bounds of the model as it is.
    pub verdict: Verdict,
}

/// What a measurement comes to: all goodput, and the longest pause.
fn seen(measurement: &Measurement) -> [f64; 2] {
    let Some(mean) = measurement.mean() else { return [0.0; 2] };
    [mean.directions.iter().map(|way| way.goodput_bps).sum(), mean.pause.map_or(0.0, |pause| pause.longest())]
}

impl SimSubsystem {
    /// Relieves each part of the model in turn, eight times; says what makes traffic faster, or less paused, the best
    /// first. It takes an experiment for each part.
    ///
    /// # Errors
    /// When the workload cannot be measured.
    pub fn relieve(&self, workload: &Workload) -> Result<Reliefs, MeasureError> {
        let bounds = self.bounds();
        let mut base = self.clone();
        // Rates are compared, not verdicts.
        let plain = [P::Noise, P::VerdictPackets].map(|parameter| (parameter.path(), 0.0));
        base.set_numbers(&plain).map_err(|error| MeasureError::Unsupported { reason: error.to_string() })?;
        let measurement = base.measure(workload)?;
        let verdict = assess(workload, &bounds, &measurement).verdict;
        let [goodput, pause_ratio] = seen(&measurement);
        let base_relief = Relief { part: "", times_as_fast: Some(1.0), pause_ratio, verdict };
        let all: Vec<Relief> =
            PARTS.iter().filter_map(|part| relief(&base, part, workload, &bounds, goodput)).collect();
        let tried = all.len();
        let helps = |relief: &Relief| {
            let cures = verdict != Verdict::Healthy && relief.verdict == Verdict::Healthy;
            cures || gain(relief) > WORTH[0] || pause_ratio - relief.pause_ratio > WORTH[1]
        };
        let mut parts: Vec<Relief> = all.into_iter().filter(helps).collect();
        let rank = |relief: &Relief| {
            (relief.verdict == Verdict::Healthy, relief.part != LATENCY, gain(relief) - relief.pause_ratio)
        };
        parts.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
        Ok(Reliefs { base: base_relief, parts, tried })
    }
}

/// How many times as fast traffic is; more than any number if nothing moved.
fn gain(relief: &Relief) -> f64 {
    relief.times_as_fast.unwrap_or(f64::MAX)
}

/// What a model is changed to when a part of it is relieved; nothing if it has no such part.
fn relieved(base: &SimSubsystem, part: &ReliefPart) -> Option<SimSubsystem> {
    let more = part.more.iter().map(|parameter| (parameter.path(), FACTOR));
    let less = part.less.iter().map(|parameter| (parameter.path(), 1.0 / FACTOR));
    let numbers: Vec<_> =
        more.chain(less).filter_map(|(path, factor)| Some((path, base.number(path)? * factor))).collect();
    let mut relieved = base.clone();
    relieved.set_numbers(&numbers).ok().filter(|()| !numbers.is_empty()).map(|()| relieved)
}

/// Nothing if the model has no such part, or its rules do not allow as much of it.
fn relief(
    base: &SimSubsystem,
    part: &ReliefPart,
    workload: &Workload,
    bounds: &Bounds,
    goodput: f64,
) -> Option<Relief> {
    let measurement = relieved(base, part)?.measure(workload).ok()?;
    let [after, pause_ratio] = seen(&measurement);
    let verdict = assess(workload, bounds, &measurement).verdict;
    Some(Relief { part: part.name, times_as_fast: (goodput > 0.0).then(|| after / goodput), pause_ratio, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_one_of_a_model_and_can_be_relieved() {
        let models = ["H", "DUAL"].map(|name| SimSubsystem::load(name).expect("an embedded model"));
        for part in PARTS {
            let has_all = |model: &&SimSubsystem| {
                part.more.iter().chain(part.less).all(|parameter| model.number(parameter.path()).is_some())
            };
            let model = models.iter().find(has_all).expect(part.name);
            assert!(relieved(model, &part).is_some(), "{}", part.name);
        }
    }
}
