//! What one experiment saw: rates, pause and counters of each sample. Judgement lives in `verdict`.

use std::collections::BTreeMap;

use kelpie_spaces::Host;
use serde::{Deserialize, Serialize};

/// One value for each host.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
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
pub struct PauseRatios {
    /// By frames this NIC sent.
    pub tx: f64,
    /// By frames this NIC received.
    pub rx: f64,
}

/// One slice of the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Length of the slice. Units: seconds.
    pub seconds: f64,
    /// Every direction that the workload loads.
    pub directions: Vec<DirectionRates>,
    /// Pause of both ports; `None` where the subsystem has no such counter.
    pub pause: Option<PerHost<PauseRatios>>,
    /// Other counters by their public names, per second; a missing counter is missing.
    pub counters: PerHost<BTreeMap<String, f64>>,
}

/// What the subsystem did under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The samples, in order; four in the paper (Collie, section 6).
    pub samples: Vec<Sample>,
    /// What went wrong on the hardware's side (completion errors, a hang): data, not our failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware_events: Vec<String>,
}

/// What the subsystem can do at best: from its specification, or calibrated by simple traffic.
///
/// Source: Collie, section 5.2 (throughput is to be limited by one of these).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Line rate of a port. Units: bits/s on the wire.
    pub max_bps: f64,
    /// Most packets a port moves in one direction. Units: packets/s.
    pub max_pps: f64,
}

/// Counter, from the engine itself: share of the window (0 to 1) in which the requesters of a host kept
/// their send queues full, the paper's premise that "applications keep injecting" (section 3). Where it is
/// low the application was the limit, not the subsystem.
pub const SEND_QUEUE_FULL: &str = "engine_send_queue_full_ratio";
