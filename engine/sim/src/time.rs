//! Simulated time and the event queue. What events mean lives with the parts that handle them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kelpie_spaces::Host;

/// Simulated time or a span of it. Units: picoseconds.
pub type Ps = u64;

/// A span given in nanoseconds.
pub fn ns(value: f64) -> Ps {
    (value * 1e3).round() as Ps
}

/// Time that a byte takes.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    ps_per_byte: f64,
}

impl Rate {
    /// A rate given in Gbit/s.
    pub fn gbps(value: f64) -> Self {
        Self { ps_per_byte: 8e3 / value }
    }

    /// What `bytes` take.
    pub fn time(self, bytes: u64) -> Ps {
        (bytes as f64 * self.ps_per_byte) as Ps
    }
}

/// What happens at an event, and to which QP or host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The application of a QP rings the doorbell.
    Doorbell(u32),
    /// WQEs of a QP whose context or translations had to be fetched are on the NIC.
    Fetched(u32),
    /// A host's wire, or its internal loopback path, may take the next burst.
    Egress(Host),
    /// The internal loopback path of a host may take the next burst.
    Loopback(Host),
    /// A burst from this host reaches the switch.
    AtSwitch(Host),
    /// The switch port towards this host may take the next burst.
    SwitchPort(Host),
    /// A burst reaches the receive buffer of this host from the wire.
    Arrive(Host),
    /// The receive engine of this host is done with a burst.
    Received(Host),
    /// A pause frame of this host reaches the switch.
    SwitchPause(Host),
    /// A resume frame of this host reaches the switch.
    SwitchResume(Host),
    /// A pause frame of the switch reaches this host.
    HostPause(Host),
    /// A resume frame of the switch reaches this host.
    HostResume(Host),
}

/// Events in order of time, then of insertion, so that equal seeds give equal runs.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Ps, u64, Event)>>,
    inserted: u64,
}

impl Events {
    /// Adds an event.
    pub fn at(&mut self, time: Ps, event: Event) {
        self.inserted += 1;
        self.heap.push(Reverse((time, self.inserted, event)));
    }

    /// The earliest event before `end`.
    pub fn next_before(&mut self, end: Ps) -> Option<(Ps, Event)> {
        if self.heap.peek()?.0.0 >= end {
            return None;
        }
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}
