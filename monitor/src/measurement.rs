//! What one experiment saw: rates, pause and counters of each sample. Judgement lives in `verdict`.

use std::collections::BTreeMap;

use kelpie_spaces::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::latency::{DirectionLatency, Latency};

/// Share of a bound below which a rate is low. Source: Collie, section 5.2.
pub const LOW_SHARE: f64 = 0.8;

/// One value for each host.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerHost<T> {
    /// Host `a`.
    pub a: T,
    /// Host `b`.
    pub b: T,
}

impl<T> PerHost<T> {
    /// The value of `host`.
    pub fn get(&self, host: Host) -> &T {
        match host {
            Host::A => &self.a,
            Host::B => &self.b,
        }
    }

    /// The value of `host`, to change.
    pub fn get_mut(&mut self, host: Host) -> &mut T {
        match host {
            Host::A => &mut self.a,
            Host::B => &mut self.b,
        }
    }
}

/// Rates of payload that travels from one host to another (or to itself).
///
/// The direction is that of the payload: a READ posted on `a` towards `b` moves payload from `b` to `a`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionRates {
    /// Host that sends the payload.
    pub from: Host,
    /// Host that receives the payload.
    pub to: Host,
    /// Delivered payload. Units: bits/s.
    pub goodput_bps: f64,
    /// Bits on the wire with headers, preamble and gap. Units: bits/s.
    pub wire_bps: f64,
    /// Payload packets. Units: packets/s.
    pub packets_per_sec: f64,
    /// Completed messages. Units: messages/s.
    pub messages_per_sec: f64,
}

/// Share of the time that a port was paused.
///
/// Units: 0 to 1; `tx`: this NIC sent pause frames (its peer was held), `rx`: this NIC was held.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRatios {
    /// By frames this NIC sent.
    pub tx: f64,
    /// By frames this NIC received.
    pub rx: f64,
}

impl PerHost<PauseRatios> {
    /// The longest of both hosts, sent or received.
    pub fn longest(&self) -> f64 {
        [self.a.tx, self.a.rx, self.b.tx, self.b.rx].into_iter().fold(0.0, f64::max)
    }
}

/// One slice of the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Length of the slice. Units: seconds.
    pub seconds: f64,
    /// Every direction that the workload loads.
    pub directions: Vec<DirectionRates>,
    /// Pause of both ports; `None` if the subsystem has no such counter.
    pub pause: Option<PerHost<PauseRatios>>,
    /// Other counters by their public names, each as [`crate::counters`] says; a missing counter is missing.
    pub counters: PerHost<BTreeMap<String, f64>>,
}

impl Sample {
    /// The rates of one direction, if it was measured.
    pub fn direction(&self, from: Host, to: Host) -> Option<&DirectionRates> {
        self.directions.iter().find(|rates| rates.from == from && rates.to == to)
    }
}

/// What the subsystem did under one workload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// The samples, in order; four in the paper (Collie, section 6).
    pub samples: Vec<Sample>,
    /// What went wrong on the hardware's side (completion errors, a hang): data, not our failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware_events: Vec<String>,
    /// How long requests took over the whole window, of several runs the first; empty if nobody asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<DirectionLatency>,
    /// How well the goodput is known; none if nobody estimated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What small messages reached meanwhile of [`Bounds::reference_pps`]; none if hosts are steady. Units: share,
    /// above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
}

/// How well a measurement knows the goodput of all directions together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Half of the confidence interval (95 %). Units: part of the goodput; none if nothing was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// Whether the traffic was steady. If not, the rates are no estimate of those that it comes to.
    pub is_steady: bool,
}

impl Measurement {
    /// The samples averaged into one; `None` without samples.
    ///
    /// Each value is the mean over the samples that have it, so a counter that is missing in one sample does
    /// not become smaller; `seconds` is the whole window.
    pub fn mean(&self) -> Option<Sample> {
        if self.samples.is_empty() {
            return None;
        }
        Some(Sample {
            seconds: self.samples.iter().map(|sample| sample.seconds).sum(),
            directions: self.mean_directions(),
            pause: self.mean_pause(),
            counters: PerHost { a: self.mean_counters(Host::A), b: self.mean_counters(Host::B) },
        })
    }

    /// How long the requests of one direction took, if they were timed.
    pub fn latency(&self, from: Host, to: Host) -> Option<Latency> {
        let way = self.latency.iter().find(|way| way.from == from && way.to == to);
        way.map(|way| way.latency_ns)
    }

    fn mean_directions(&self) -> Vec<DirectionRates> {
        let mut pairs: Vec<(Host, Host)> = Vec::new();
        for rates in self.samples.iter().flat_map(|sample| &sample.directions) {
            if !pairs.contains(&(rates.from, rates.to)) {
                pairs.push((rates.from, rates.to));
            }
        }
        let mean_of = |from, to, field: fn(&DirectionRates) -> f64| {
            mean(self.samples.iter().filter_map(|sample| sample.direction(from, to)).map(field)).unwrap_or(0.0)
        };
        let average = |&(from, to): &(Host, Host)| DirectionRates {
            from,
            to,
            goodput_bps: mean_of(from, to, |rates| rates.goodput_bps),
            wire_bps: mean_of(from, to, |rates| rates.wire_bps),
            packets_per_sec: mean_of(from, to, |rates| rates.packets_per_sec),
            messages_per_sec: mean_of(from, to, |rates| rates.messages_per_sec),
        };
        pairs.iter().map(average).collect()
    }

    fn mean_pause(&self) -> Option<PerHost<PauseRatios>> {
        let mean_of = |host: Host, field: fn(&PauseRatios) -> f64| {
            mean(self.samples.iter().filter_map(|sample| sample.pause.as_ref()).map(|pause| field(pause.get(host))))
        };
        let host =
            |host| Some(PauseRatios { tx: mean_of(host, |ratios| ratios.tx)?, rx: mean_of(host, |ratios| ratios.rx)? });
        Some(PerHost { a: host(Host::A)?, b: host(Host::B)? })
    }

    fn mean_counters(&self, host: Host) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (name, value) in self.samples.iter().flat_map(|sample| sample.counters.get(host)) {
            let (sum, count) = sums.entry(name).or_default();
            *sum += value;
            *count += 1.0;
        }
        sums.into_iter().map(|(name, (sum, count))| (name.to_owned(), sum / count)).collect()
    }
}

/// The arithmetic mean; `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// What the subsystem can do at best: from its specification, or calibrated by simple traffic.
///
/// Source: Collie, section 5.2 (throughput is to be limited by one of these).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Line rate of a port. Units: bits/s on the wire.
    pub max_bps: f64,
    /// Most packets a port moves in one direction. Units: packets/s.
    pub max_pps: f64,
    /// Round trip through the idle subsystem of two small messages that are posted at once, if it was calibrated: the
    /// NIC has to read them, while one alone may come with its doorbell. Units: seconds.
    ///
    /// With it a workload whose outstanding requests cannot fill the link does not pass for a slow subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_rtt_seconds: Option<f64>,
    /// What the PCIe link of a host carries in one direction, its packets' headers included, if it is known.
    /// Units: bits/s.
    ///
    /// With it a workload whose scatter-gather lists fill that link does not pass for a slow subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pcie_bps: Option<f64>,
    /// Reads of payload that the memory of a host answers in one direction, if it is known: the reads that the NIC has
    /// on their way, over their latency. Units: reads/s.
    ///
    /// With it a workload whose scatter-gather lists need as many reads does not pass for a slow subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pcie_reads_per_sec: Option<f64>,
    /// What one QP takes for its messages, if it was calibrated.
    ///
    /// With it a workload of too few QPs to fill the port does not pass for a slow subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qp: Option<QpTimes>,
    /// By how much the rate of equal traffic differs from one run to the next, if it was calibrated: the relative
    /// standard deviation. Units: share of the rate, 0.02 is 2 %.
    ///
    /// With it a verdict that another run may turn does not pass for a clear one, however steady the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_to_run: Option<f64>,
    /// What small messages reached when the bounds were calibrated. Units: packets/s.
    ///
    /// With it hosts that are not steady are judged relative to what such messages reach meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_pps: Option<f64>,
}

/// What one QP takes for a message, whose queue is never empty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QpTimes {
    /// For a short message of one element. Units: seconds.
    pub message_seconds: f64,
    /// For each further element of its list. Units: seconds.
    #[serde(default)]
    pub element_seconds: f64,
    /// For each further packet. Units: seconds.
    #[serde(default)]
    pub packet_seconds: f64,
}

/// [`Bounds::run_to_run`] from which on the machine may have changed since it was calibrated, so that a verdict needs
/// [`Measurement::capacity`]. Source: our choice; it is half of the margin that makes a rate low.
const UNSTEADY: f64 = 0.1;

impl Bounds {
    /// What a verdict is relative to if equal runs differ by much. Units: packets/s.
    pub fn unsteady_reference(&self) -> Option<f64> {
        self.reference_pps.filter(|_| self.run_to_run.is_some_and(|run_to_run| run_to_run >= UNSTEADY))
    }

    /// The keys whose values are no positive numbers.
    pub fn not_positive(&self) -> Vec<&'static str> {
        let Self {
            max_bps,
            max_pps,
            base_rtt_seconds,
            max_pcie_bps,
            max_pcie_reads_per_sec,
            qp,
            run_to_run,
            reference_pps,
        } = *self;
        let values = [
            ("max_bps", Some(max_bps)),
            ("max_pps", Some(max_pps)),
            ("base_rtt_seconds", base_rtt_seconds),
            ("max_pcie_bps", max_pcie_bps),
            ("max_pcie_reads_per_sec", max_pcie_reads_per_sec),
            ("qp.message_seconds", qp.map(|qp| qp.message_seconds)),
            ("run_to_run", run_to_run),
            ("reference_pps", reference_pps),
        ];
        let is_wrong = |value: f64| !(value.is_finite() && value > 0.0);
        let further = [
            ("qp.element_seconds", qp.map(|qp| qp.element_seconds)),
            ("qp.packet_seconds", qp.map(|qp| qp.packet_seconds)),
        ];
        let further =
            further.into_iter().filter(|(_, value)| value.is_some_and(|value| value != 0.0 && is_wrong(value)));
        let wrong = values.into_iter().filter(|(_, value)| value.is_some_and(is_wrong));
        wrong.chain(further).map(|(key, _)| key).collect()
    }

    /// These bounds as they were while this was measured.
    #[must_use]
    pub fn beside(&self, measurement: &Measurement) -> Self {
        self.at(measurement.capacity)
    }

    /// These bounds at a [`Measurement::capacity`]: a machine that is slower for simple traffic is slower for all. None
    /// is faster than its line rate, so that bits/s are bounded as they were.
    #[must_use]
    pub fn at(&self, capacity: Option<f64>) -> Self {
        let Some(capacity) = capacity else { return *self };
        Self {
            max_bps: self.max_bps * capacity.min(1.0),
            max_pps: self.max_pps * capacity,
            base_rtt_seconds: self.base_rtt_seconds.map(|seconds| seconds / capacity),
            max_pcie_reads_per_sec: self.max_pcie_reads_per_sec.map(|reads| reads * capacity),
            qp: self.qp.map(|qp| qp.times(1.0 / capacity)),
            ..*self
        }
    }

    /// Bounds of the port alone.
    #[expect(clippy::similar_names, reason = "they are the names of the fields")]
    pub fn new(max_bps: f64, max_pps: f64) -> Self {
        Self {
            max_bps,
            max_pps,
            base_rtt_seconds: None,
            max_pcie_bps: None,
            max_pcie_reads_per_sec: None,
            qp: None,
            run_to_run: None,
            reference_pps: None,
        }
    }

    /// How near a direction is to what a port does: the larger of its shares of the two bounds, as the symptom looks at
    /// it.
    ///
    /// Units: 0 to about 1. Source: Collie, section 5.2.
    pub fn utilisation(&self, rates: &DirectionRates) -> f64 {
        (rates.wire_bps / self.max_bps).max(rates.packets_per_sec / self.max_pps)
    }

    /// These bounds with a calibrated round trip.
    ///
    /// Units: seconds.
    #[must_use]
    pub fn with_base_rtt(self, seconds: f64) -> Self {
        Self { base_rtt_seconds: Some(seconds), ..self }
    }
}

impl QpTimes {
    /// Times that are so many times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            message_seconds: self.message_seconds * factor,
            element_seconds: self.element_seconds * factor,
            packet_seconds: self.packet_seconds * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(goodput_bps: f64, pause_tx: Option<f64>, misses: Option<f64>) -> Sample {
        let rates = DirectionRates {
            from: Host::A,
            to: Host::B,
            goodput_bps,
            wire_bps: goodput_bps * 1.1,
            packets_per_sec: goodput_bps / 8e3,
            messages_per_sec: 1.0,
        };
        let mut counters = PerHost::<BTreeMap<String, f64>>::default();
        counters.a.extend(misses.map(|value| ("misses".to_owned(), value)));
        let pause = pause_tx.map(|tx| PerHost { a: PauseRatios::default(), b: PauseRatios { tx, rx: 0.0 } });
        Sample { seconds: 0.5, directions: vec![rates], pause, counters }
    }

    #[test]
    fn the_mean_averages_only_what_is_there() {
        let samples = vec![sample(10e9, Some(0.2), None), sample(30e9, None, Some(6.0))];
        let mean = Measurement { samples, ..Measurement::default() }.mean().expect("two samples");
        assert!((mean.seconds - 1.0).abs() < 1e-12);
        assert!((mean.directions[0].goodput_bps - 20e9).abs() < 1.0);
        assert!((mean.directions[0].packets_per_sec - 2.5e6).abs() < 1.0);
        assert!((mean.pause.expect("one sample has it").b.tx - 0.2).abs() < 1e-12);
        assert_eq!(mean.counters.a, BTreeMap::from([("misses".to_owned(), 6.0)]));
        assert!(mean.counters.b.is_empty());
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(Measurement::default().mean(), None);
        let silent = Measurement { samples: vec![sample(1e9, None, None)], ..Measurement::default() };
        assert_eq!(silent.mean().expect("one sample").pause, None);
    }

    #[test]
    fn latency_is_a_key_of_its_own_and_older_measurements_read_without_it() {
        let old = r#"{"samples":[]}"#;
        let plain: Measurement = serde_json::from_str(old).expect("as it was stored before there was latency");
        assert_eq!((plain.latency(Host::A, Host::B), &plain), (None, &Measurement::default()));
        assert_eq!(serde_json::to_string(&plain).expect("JSON"), old, "absent if it was not measured");
        let latency_ns = Latency { count: 7, p50: 1, p90: 2, p99: 3, p999: 4, max: 5 };
        let timed = DirectionLatency { from: Host::B, to: Host::A, latency_ns };
        let timed = Measurement { latency: vec![timed], ..plain };
        let text = serde_json::to_string(&timed).expect("JSON");
        let expected = r#"[{"from":"b","to":"a","latency_ns":{"count":7,"p50":1,"p90":2,"p99":3,"p999":4,"max":5}}]"#;
        assert_eq!(text, format!(r#"{{"samples":[],"latency":{expected}}}"#));
        let read: Measurement = serde_json::from_str(&text).expect("JSON");
        assert_eq!((read.latency(Host::B, Host::A), read.latency(Host::A, Host::B)), (Some(latency_ns), None));
        assert_eq!(read, timed);
    }
}
