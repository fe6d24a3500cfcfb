//! `kelpie host watch --listen`: what was last measured, in OpenMetrics, for a scraper on this machine.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use kelpie_diagnosis::host::{HostVerdict, PathState};
use kelpie_diagnosis::{Matrix, host::HostDiagnosis};
use kelpie_engine::loopback::Activity;
use kelpie_text::clean;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics_server::Scrapes;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    rnic: String,
    endpoint: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rnic {
    rnic: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoundLabels {
    verdict: &'static str,
}

type Floats<L> = Family<L, Gauge<f64, AtomicU64>>;

/// The values, which a thread of their own serves.
#[derive(Debug)]
pub struct HostMetrics {
    registry: Registry,
    bandwidth: Floats<PathLabels>,
    latency: Floats<PathLabels>,
    abnormal: Family<PathLabels, Gauge>,
    traffic: Floats<Rnic>,
    paused: Floats<Rnic>,
    rounds: Family<RoundLabels, Counter>,
    events: Counter,
    up: Gauge,
    shown: Arc<Mutex<String>>,
}

impl Default for HostMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("kelpie_host");
        let (bandwidth, latency) = (Floats::<PathLabels>::default(), Floats::<PathLabels>::default());
        let (traffic, paused) = (Floats::<Rnic>::default(), Floats::<Rnic>::default());
        let abnormal = Family::<PathLabels, Gauge>::default();
        let rounds = Family::<RoundLabels, Counter>::default();
        let (events, up) = (Counter::default(), Gauge::default());
        registry.register("path_bandwidth_gbps", "Loopback of large messages, last round", bandwidth.clone());
        registry.register("path_latency_us", "Loopback of small messages, last round", latency.clone());
        registry.register("path_abnormal", "Whether the path is slower than it should be", abnormal.clone());
        registry.register("rnic_traffic_gbps", "Traffic of others on the port, last look", traffic.clone());
        registry.register("rnic_pause_ratio", "Share of the time for which it paused its neighbour", paused.clone());
        registry.register("rounds", "Rounds by what came of them", rounds.clone());
        registry.register("events", "Events that were said", events.clone());
        registry.register("up", "Whether the host answered the last time", up.clone());
        up.set(1);
        Self { registry, bandwidth, latency, abnormal, traffic, paused, rounds, events, up, shown: Arc::default() }
    }
}

impl HostMetrics {
    /// Serves them on a loopback address from now on; says which.
    ///
    /// # Errors
    /// The address is none of this machine alone, or is taken.
    pub fn serve(&self, listen: SocketAddr) -> anyhow::Result<SocketAddr> {
        let scrapes = Scrapes::listen(listen, "127.0.0.1:9465")?;
        let address = scrapes.address();
        let shown = Arc::clone(&self.shown);
        self.show();
        scrapes.answer_each(move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Ok(address)
    }

    /// What RNICs do besides.
    pub fn looked(&self, rnics: &[String], activity: &[Activity]) {
        self.up.set(1);
        for (rnic, activity) in rnics.iter().zip(activity) {
            let rnic = Rnic { rnic: clean(rnic) };
            self.traffic.get_or_create(&rnic).set(activity.gbps);
            self.paused.get_or_create(&rnic).set(activity.pause_ratio);
        }
        self.show();
    }

    /// The host did not answer.
    pub fn lost(&self) {
        self.up.set(0);
        self.show();
    }

    /// A round was judged.
    pub fn judged(&self, matrix: &Matrix, found: &HostDiagnosis) {
        let verdict = match found.verdict {
            HostVerdict::Healthy => "healthy",
            HostVerdict::Abnormal => "abnormal",
            HostVerdict::Undecided => "undecided",
        };
        self.rounds.get_or_create(&RoundLabels { verdict }).inc();
        for (family, cells) in [(&self.bandwidth, &matrix.bandwidth_gbps), (&self.latency, &matrix.latency_us)] {
            for (rnic, endpoint) in matrix.rows.iter().flat_map(|row| matrix.columns.iter().map(move |to| (row, to))) {
                if let Some(value) = matrix.find(cells.as_ref(), rnic, endpoint) {
                    family.get_or_create(&PathLabels { rnic: clean(rnic), endpoint: clean(endpoint) }).set(value);
                }
            }
        }
        for (rnic, row) in &found.paths {
            for (endpoint, state) in row {
                let path = PathLabels { rnic: clean(rnic), endpoint: clean(endpoint) };
                self.abnormal.get_or_create(&path).set(i64::from(*state == PathState::Abnormal));
            }
        }
        self.show();
    }

    /// An event was said.
    pub fn said(&self) {
        self.events.inc();
        self.show();
    }

    fn show(&self) {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes all that is written to it");
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}
