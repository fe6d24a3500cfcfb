//! How long requests took, as percentiles. For people: no verdict and no search looks at it.

use kelpie_spaces::Host;
use serde::{Deserialize, Serialize};

/// Percentiles of the time from posting a signalled request to polling its completion, at the requester.
///
/// Units: nanoseconds, to three significant digits and at most 60 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Requests that were timed.
    pub count: u64,
    /// Half of them took at most this.
    pub p50: u64,
    /// 90 % of them did.
    pub p90: u64,
    /// 99 % of them did.
    pub p99: u64,
    /// 99.9 % of them did.
    pub p999: u64,
    /// All of them did.
    pub max: u64,
}

/// The latency of one direction over the whole window; as with rates, the direction is that of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionLatency {
    /// Host that sends the payload.
    pub from: Host,
    /// Host that receives the payload.
    pub to: Host,
    /// The percentiles.
    pub latency_ns: Latency,
}
