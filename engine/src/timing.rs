//! How long the parts of a session take, and within which bounds. What happens in them is in `session`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest drain. Units: milliseconds. Source: our choice, because a QP has failed for good after less, and a
/// controller that died meanwhile is noticed no sooner.
pub const DRAIN_LIMIT_MS: u64 = 10_000;

/// Longest time between two readings. Units: milliseconds.
pub const SAMPLE_LIMIT_MS: u64 = 5_000;

/// How long the parts of a session take, and whether requests are timed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Longest warm-up; it ends earlier when rates agree. Units: milliseconds.
    pub warm_up_ms: u64,
    /// Length of a sample, at least: it lasts whole refreshes of a driver that shows old counters. Units: milliseconds.
    pub sample_ms: u64,
    /// Samples. Source: four in the paper (Collie, section 6).
    pub samples: u32,
    /// Longest wait for outstanding work at the end. Units: milliseconds.
    pub drain_ms: u64,
    /// Pause ratio of a port from which there is a pause storm. Units: percent.
    pub storm_pause_percent: u32,
    /// How long such a ratio may last before the experiment is stopped. Units: milliseconds.
    pub storm_ms: u64,
    /// Whether the latency of requests is measured. It costs two readings of the clock for each that is signalled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub latency: bool,
}

impl Default for Timing {
    fn default() -> Self {
        // A storm by our choice: anomalies of the paper pause for some percent, and a NIC that paused for 2 s without
        // end has stopped every queue behind it.
        Self {
            warm_up_ms: 5_000,
            sample_ms: 1_000,
            samples: 4,
            drain_ms: 2_000,
            storm_pause_percent: 80,
            storm_ms: 2_000,
            latency: false,
        }
    }
}

impl Timing {
    /// How long traffic runs before it drains, if the warm-up is as long as can be. Units: milliseconds.
    pub fn traffic_ms(&self) -> u64 {
        self.warm_up_ms + self.sample_ms * u64::from(self.samples)
    }

    /// Each key that breaks a rule, with the rule.
    pub fn broken_rules(&self) -> impl Iterator<Item = (&'static str, String)> {
        let outside = self.bounds().into_iter().filter(|(_, value, least, most)| !(least..=most).contains(&value));
        outside.map(|(key, value, least, most)| (key, format!("{value} is outside {least} to {most}")))
    }

    /// Each number with its bounds, for checks of input.
    pub fn bounds(&self) -> [(&'static str, u64, u64, u64); 6] {
        [
            ("warm_up_ms", self.warm_up_ms, 0, 600_000),
            ("sample_ms", self.sample_ms, 10, SAMPLE_LIMIT_MS),
            ("samples", self.samples.into(), 1, 1_000),
            ("drain_ms", self.drain_ms, 0, DRAIN_LIMIT_MS),
            ("storm_pause_percent", self.storm_pause_percent.into(), 1, 100),
            ("storm_ms", self.storm_ms, 100, 600_000),
        ]
    }
}
