//! What agents and their planner say to each other: a frame of JSON each, questions and answers in turn.

use kelpie_paths::leases::{Lease, Way};
use serde::{Deserialize, Serialize};

/// Version of what follows the first exchange, which is that of controllers and agents.
pub const PROTOCOL: &str = "planner/1";

/// Longest frame. Units: bytes. Source: our choice, which has room for the QPs of one host with their leases, 200 bytes
/// each.
pub const LIMIT: usize = 16 << 20;

/// A QP of the agent's host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Qp {
    /// Its process, which no later one is called like.
    pub process: String,
    /// Its number.
    pub qp: u32,
}

/// What an agent asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// A source port for a QP.
    Grant {
        /// The QP.
        qp: Qp,
        /// Address of its NIC.
        from: String,
        /// Address of its peer's.
        to: String,
    },
    /// QPs are gone.
    Gone(Vec<Qp>),
    /// QPs that have a port which the agent chose itself, because the planner was slow or away.
    Has(Vec<(Qp, Lease)>),
    /// Which QPs of this agent have a port?
    Held {},
    /// Which paths lead from these addresses, which are the agent's?
    Ways(Vec<String>),
}

/// What the planner answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The QP has this.
    Granted(Lease),
    /// It gets none, because.
    Refused(String),
    /// Done.
    Noted {},
    /// These have ports.
    Held(Vec<(Qp, Lease)>),
    /// These.
    Ways(Vec<Way>),
}
