//! Why a run cannot begin.

/// Why a run cannot begin.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A link.
    #[error(
        "link {link}: its ends are two different nodes, its rate is above 0 and at most 100000 Gbit/s, and it loses a \
         share of 0 to 1"
    )]
    Link {
        /// Its number.
        link: usize,
    },
    /// A rate without marks.
    #[error("links of {gbps} Gbit/s have no thresholds for ECN; give kmin, kmax and pmax for this rate")]
    NoEcn {
        /// Units: Gbit/s.
        gbps: f64,
    },
    /// A QP.
    #[error("QP {qp}: it leads from a host to a host")]
    Qp {
        /// Its number.
        qp: usize,
    },
    /// A QP without a way.
    #[error("QP {qp}: no links lead from its sender to its receiver and back")]
    NoWay {
        /// Its number.
        qp: usize,
    },
    /// A message.
    #[error("message {message}: it has a QP, less than 2^31 packets, and waits for messages of the host that sends it")]
    Message {
        /// Its number.
        message: usize,
    },
    /// An event.
    #[error("event {event}: its link is one of the network")]
    Event {
        /// Its number.
        event: usize,
    },
    /// A setting.
    #[error("setting {name}: {rule}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// What its value has to be.
        rule: &'static str,
    },
    /// A watch.
    #[error("what is sampled has to be a QP or a port of the run, and at least 4 times")]
    Watch,
    /// Classes.
    #[error("QPs have more than 4 priorities")]
    Classes,
    /// A buffer.
    #[error(
        "switch {switch}: its buffer of {capacity} bytes is too small for PFC: reserve and headroom of its ports take \
         {needed} bytes"
    )]
    Buffer {
        /// Its node.
        switch: u32,
        /// What ports have for themselves. Units: bytes.
        needed: u64,
        /// Units: bytes.
        capacity: u64,
    },
}
