//! How bad an anomaly is: the share of a port that it takes away. Whether there is one at all is decided in `verdict`.

use std::cmp::Ordering;
use std::fmt;

use kelpie_spaces::{Workload, loaded_directions};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::measurement::{Bounds, Measurement};
use crate::verdict::shortfall;

/// How bad what a measurement shows is; ordered by [`Severity::share`], of equal ones by the port lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Severity {
    /// How far the worst direction falls short of the bound that it is nearest to; 0 if none is low.
    ///
    /// Units: share of that bound, 0 to 1. Source: `docs/reference/verdict.md`, the rules of `low_throughput`.
    pub port_lost: f64,
    /// The longest time in which pause frames held a port, sent or received, of either host; 0 without such a counter.
    ///
    /// Units: share of the time, 0 to 1.
    pub pause_ratio: f64,
}

impl Severity {
    /// Nothing is moved at all.
    pub const TOTAL: Self = Self { port_lost: 1.0, pause_ratio: 0.0 };

    /// How bad the mean of the samples is; `None` without samples.
    pub fn of(workload: &Workload, bounds: &Bounds, measurement: &Measurement) -> Option<Self> {
        let (mean, bounds) = (measurement.mean()?, bounds.beside(measurement));
        let lost = loaded_directions(workload).into_iter().filter_map(|way| shortfall(workload, &bounds, way, &mean));
        Some(Self {
            port_lost: lost.fold(0.0, f64::max),
            pause_ratio: mean.pause.map_or(0.0, |pause| pause.longest()).clamp(0.0, 1.0),
        })
    }

    /// The one figure by which anomalies are compared: the larger of both shares. Each is a share of a port that
    /// traffic cannot use, and pauses may be why throughput is lost, so that their sum would count some of it twice.
    ///
    /// Units: share of a port, 0 to 1.
    pub fn share(self) -> f64 {
        self.port_lost.max(self.pause_ratio)
    }

    /// The order of lists: the worst first, what was not measured last.
    pub fn worst_first(one: Option<Self>, other: Option<Self>) -> Ordering {
        let key = |severity: Option<Self>| severity.map_or([-1.0, 0.0], |some| [some.share(), some.port_lost]);
        let ([share, lost], [other_share, other_lost]) = (key(one), key(other));
        other_share.total_cmp(&share).then(other_lost.total_cmp(&lost))
    }

    /// In words, also where there is none.
    pub fn in_words(severity: Option<Self>) -> String {
        severity.map_or_else(|| "severity not measured".to_owned(), |severity| severity.to_string())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let is_seen = |share: f64| share >= 0.0005;
        let lost = is_seen(self.port_lost).then(|| format!("{} lost", percent(self.port_lost)));
        let paused = is_seen(self.pause_ratio).then(|| format!("paused {} of the time", percent(self.pause_ratio)));
        let words: Vec<String> = [lost, paused].into_iter().flatten().collect();
        f.write_str(if words.is_empty() { "nothing lost" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

/// With the figure by which anomalies are compared.
impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Severity", 3)?;
        fields.serialize_field("share", &self.share())?;
        fields.serialize_field("port_lost", &self.port_lost)?;
        fields.serialize_field("pause_ratio", &self.pause_ratio)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Flow, Host};

    use super::*;
    use crate::measurement::{DirectionRates, PauseRatios, PerHost, Sample};

    const A_TO_B: (Host, Host) = (Host::A, Host::B);
    const B_TO_A: (Host, Host) = (Host::B, Host::A);

    fn sample(gbps: &[((Host, Host), f64)], pause_ratio: Option<f64>) -> Sample {
        let rates = |((from, to), gbps): &((Host, Host), f64)| DirectionRates {
            from: *from,
            to: *to,
            // Packets of 512 B and 82 B around them.
            goodput_bps: gbps * 1e9 * 512.0 / 594.0,
            wire_bps: gbps * 1e9,
            packets_per_sec: gbps * 1e9 / 4752.0,
            messages_per_sec: gbps * 1e9 / 4752.0,
        };
        let pause =
            |ratio| PerHost { a: PauseRatios { tx: 0.0, rx: ratio }, b: PauseRatios { tx: ratio / 2.0, rx: 0.0 } };
        Sample {
            seconds: 1.0,
            directions: gbps.iter().map(rates).collect(),
            pause: pause_ratio.map(pause),
            counters: PerHost::default(),
        }
    }

    fn severity(workload: &Workload, bounds: &Bounds, samples: &[Sample]) -> Option<Severity> {
        Severity::of(workload, bounds, &Measurement { samples: samples.to_vec(), ..Measurement::default() })
    }

    #[test]
    fn the_worst_direction_and_the_longest_pause_count() {
        let bounds = Bounds::new(200e9, 100e6);
        let both = Workload::new([A_TO_B, B_TO_A].map(|(from, to)| Flow::plain(from, to)).to_vec());
        for (samples, expected) in [
            (vec![], None),
            (vec![sample(&[(A_TO_B, 190.0), (B_TO_A, 165.0)], None)], Some((0.0, 0.0))),
            (vec![sample(&[(A_TO_B, 150.0), (B_TO_A, 50.0)], Some(0.0))], Some((0.75, 0.0))),
            (vec![sample(&[(A_TO_B, 190.0), (B_TO_A, 190.0)], Some(0.3))], Some((0.0, 0.3))),
            (vec![sample(&[(A_TO_B, 0.0), (B_TO_A, 0.0)], Some(2.0))], Some((1.0, 1.0))),
            (vec![sample(&[(A_TO_B, 150.0)], None), sample(&[(A_TO_B, 50.0)], None)], Some((0.5, 0.0))),
        ] {
            let seen = severity(&both, &bounds, &samples).map(|seen| (seen.port_lost, seen.pause_ratio));
            assert_eq!(seen, expected, "{samples:?}");
        }
    }

    #[test]
    fn the_bound_is_the_one_that_applies() {
        // 2.35 Gbit/s is all that one message of 512 B at a time carries in 2 us; half of it is lost, not 99 %.
        let mut flow = Flow { qps: 1, ..Flow::plain(Host::A, Host::B) };
        (flow.wq_depth.send, flow.batch.send) = (1, 1);
        flow.pattern[0].sge = vec![kelpie_spaces::Bytes(512)];
        let bounds = Bounds::new(200e9, 100e9).with_base_rtt(2e-6);
        let seen = severity(&Workload::new(vec![flow]), &bounds, &[sample(&[(A_TO_B, 1.176)], None)]);
        let lost = seen.expect("there is a sample").port_lost;
        assert!((lost - 0.5).abs() < 0.01, "{lost}");
    }

    #[test]
    fn lists_begin_with_the_worst() {
        let of = |port_lost, pause_ratio| Some(Severity { port_lost, pause_ratio });
        let mut all = [None, of(0.3, 0.0), of(0.0, 0.9), of(0.25, 0.5), of(0.5, 0.5), of(0.0, 0.0)];
        all.sort_by(|one, other| Severity::worst_first(*one, *other));
        assert_eq!(all, [of(0.0, 0.9), of(0.5, 0.5), of(0.25, 0.5), of(0.3, 0.0), of(0.0, 0.0), None]);
    }

    #[test]
    fn a_severity_is_said_in_words_and_as_json() {
        let of = |port_lost, pause_ratio| Severity { port_lost, pause_ratio };
        for (severity, expected) in [
            (Some(of(0.72, 0.031)), "72.0 % lost, paused 3.1 % of the time"),
            (Some(of(0.72, 0.0)), "72.0 % lost"),
            (Some(of(0.0, 0.5)), "paused 50.0 % of the time"),
            (Some(of(0.0, 0.0004)), "nothing lost"),
            (None, "severity not measured"),
        ] {
            assert_eq!(Severity::in_words(severity), expected);
        }
        let json = serde_json::to_string(&of(0.25, 0.5)).expect("plain data");
        assert_eq!(json, r#"{"share":0.5,"port_lost":0.25,"pause_ratio":0.5}"#);
    }
}
