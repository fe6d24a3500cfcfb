//! The numbers that guide the search, taken from a measurement. How they are compared lives in `energy`.

use std::collections::BTreeMap;

use kelpie_monitor::counters::{self, Quantity};
use kelpie_monitor::sources::without_slave;
use kelpie_monitor::{Assessment, Bounds, Measurement, Sample, Severity, Verdict, shows_again};
use kelpie_spaces::{Host, Workload};
use serde::{Deserialize, Serialize};

/// The performance signal: how much of its bounds the worst direction uses.
///
/// Units: share; of each direction the larger of wire bits/s over `max_bps` and packets/s over `max_pps`, of
/// all directions that cross a port the smallest. Source: Collie, sections 5.1 and 5.2; one number instead of
/// its two counters, because bits/s alone falls with shorter messages and packets/s alone with longer ones
/// without any anomaly, and low throughput is defined as falling short of both.
pub const UTILISATION: &str = "perf/utilisation";

/// One experiment as the search sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The verdict and its symptoms.
    pub assessment: Assessment,
    /// Signals by name: [`UTILISATION`] and every diagnostic counter. Units: those of the counters.
    pub signals: BTreeMap<String, f64>,
    /// How far the worst direction falls short of the bound that it is nearest to; 0 if none is low. Units: share of
    /// that bound.
    #[serde(default)]
    pub lost: f64,
    /// The longest time in which pause frames held a port. Units: share of the time.
    #[serde(default)]
    pub pause: f64,
    /// Whether an anomaly is so clear that it is to be expected on another day, too.
    pub shows_again: bool,
}

impl Observation {
    /// Whether a symptom was seen.
    pub(crate) fn is_anomalous(&self) -> bool {
        self.assessment.verdict == Verdict::Anomalous
    }

    /// What the search learns from a measurement of this workload.
    pub fn new(workload: &Workload, measurement: &Measurement, assessment: Assessment, bounds: &Bounds) -> Self {
        let shows_again = shows_again(workload, bounds, measurement);
        let Severity { port_lost: lost, pause_ratio: pause } =
            Severity::of(workload, bounds, measurement).unwrap_or_default();
        Self { assessment, signals: measured_signals(measurement, bounds), lost, pause, shows_again }
    }
}

/// The signals of a measurement; of a counter that both hosts have, the larger value.
pub fn measured_signals(measurement: &Measurement, bounds: &Bounds) -> BTreeMap<String, f64> {
    let mut signals = BTreeMap::new();
    if let Some(mean) = measurement.mean() {
        signals.extend(utilisation(&mean, &bounds.beside(measurement)).map(|share| (UTILISATION.to_owned(), share)));
        let counters = Host::BOTH.iter().flat_map(|host| mean.counters.get(*host));
        for (name, value) in counters.filter(|(name, value)| is_diagnostic(name) && value.is_finite()) {
            let largest = signals.entry(name.clone()).or_insert(*value);
            *largest = largest.max(*value);
        }
    }
    signals
}

fn utilisation(mean: &Sample, bounds: &Bounds) -> Option<f64> {
    let crossing = mean.directions.iter().filter(|rates| rates.from != rates.to);
    crossing.map(|rates| bounds.utilisation(rates)).filter(|share| share.is_finite()).min_by(f64::total_cmp)
}

/// Whether a counter shows the inside of the subsystem: anything but plain bytes, packets and pause,
/// which are the performance counters again, and but what our own engine reports.
///
/// The meaning of a diagnostic counter is not looked at. Source: Collie, section 7.2.
pub fn is_diagnostic(name: &str) -> bool {
    const PLAIN_ENDS: [&str; 7] = ["bytes", "octets", "packets", "pkts", "frames", "_data", "_phy"];
    const PAUSE: [&str; 3] = ["pause", "pfc", "xoff"];
    const TROUBLE: [&str; 4] = ["drop", "discard", "err", "nak"];
    if counters::quantity(name) == Quantity::Setting {
        return false;
    }
    let name = without_slave(name).to_ascii_lowercase();
    if name.starts_with("engine_") || name.starts_with("perf/") || PAUSE.iter().any(|word| name.contains(word)) {
        return false;
    }
    TROUBLE.iter().any(|word| name.contains(word)) || !PLAIN_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::{DirectionRates, PerHost};

    use super::*;

    #[test]
    fn diagnostic_counters_are_told_by_their_names() {
        let diagnostic = ["rx_wqe_cache_miss", "pcie_internal_back_pressure", "packet_seq_err", "rx_discards_phy"];
        let plain = [
            "sent_pkts",
            "rx_prio3_pause_duration",
            "ethtool.tx_pfc_ena_frames_pri3",
            "ethtool.tx_priority_3_xoff.nic",
            "ethtool.rx_64b_frames",
            "port_xmit_data",
            "rx_vport_unicast_bytes",
            "engine_send_queue_full_ratio",
            "tx_packets",
            "slave1.net.speed_megabits",
        ];
        assert!(diagnostic.iter().all(|name| is_diagnostic(name)));
        assert!(!plain.iter().any(|name| is_diagnostic(name)));
    }

    #[test]
    fn signals_are_the_worst_direction_and_the_larger_of_both_hosts() {
        let rates = |from, to, gbps: f64, mpps: f64| DirectionRates {
            from,
            to,
            goodput_bps: 0.0,
            wire_bps: gbps * 1e9,
            packets_per_sec: mpps * 1e6,
            messages_per_sec: 0.0,
        };
        let counters = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let sample = Sample {
            seconds: 1.0,
            directions: vec![
                rates(Host::A, Host::B, 50.0, 90.0),
                rates(Host::B, Host::A, 120.0, 10.0),
                rates(Host::A, Host::A, 1.0, 0.0),
            ],
            pause: None,
            counters: PerHost {
                a: counters(&[("miss", 3.0), ("sent_pkts", 9.0), ("broken", f64::NAN)]),
                b: counters(&[("miss", 7.0), ("stall", 0.0)]),
            },
        };
        let measurement = Measurement { samples: vec![sample], ..Measurement::default() };
        let signals = measured_signals(&measurement, &Bounds::new(200e9, 100e6));
        let expected = counters(&[("miss", 7.0), ("stall", 0.0), (UTILISATION, 0.6)]);
        assert_eq!(signals, expected);
        assert!(measured_signals(&Measurement::default(), &Bounds::new(1.0, 1.0)).is_empty());
    }
}
