//! What agents and their planner say to each other: a frame of JSON each, questions and answers in turn.

use kelpie_paths::catalog::CatalogEnd;
use kelpie_paths::leases::{AddressPaths, Lease};
use serde::{Deserialize, Serialize};

/// Version of what follows the first exchange, which is that of controllers and agents.
pub const PROTOCOL: &str = "planner/1";

/// Longest answer. Units: bytes. Source: our choice, which has room for the QPs of one host with their leases, 200
/// bytes each.
pub const LIMIT: usize = 16 << 20;

/// Longest question. Units: bytes. Source: our choice, so that a thousand agents that send nothing else take little
/// memory.
pub const ASK_LIMIT: usize = 256 << 10;

/// Most QPs of one question, which fit. Source: our choice.
pub const QPS_OF_ONE_ASK: usize = 512;

/// A QP of the agent's host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProgramQp {
    /// Its process, which no later one is called like.
    pub process: String,
    /// Its number.
    pub qp: u32,
}

/// What an agent asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlannerRequest {
    /// A source port for a QP.
    Grant {
        /// The QP.
        qp: ProgramQp,
        /// Address of its NIC.
        from: String,
        /// Address of its peer's.
        to: String,
    },
    /// QPs are gone.
    Gone(Vec<ProgramQp>),
    /// QPs that have a port which the agent chose itself, because the planner was slow or away.
    Has(Vec<(ProgramQp, Lease)>),
    /// Which QPs of this agent have a port?
    Held {},
    /// What the agent's ports are now, to compare with what was measured.
    Ends(Vec<CatalogEnd>),
    /// Which paths lead from these addresses, which are the agent's?
    Ways(Vec<String>),
}

/// What the planner answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlannerAnswer {
    /// The QP has this.
    Granted(Lease),
    /// It gets none, because.
    Refused(String),
    /// Done.
    Noted {},
    /// These have ports.
    Held(Vec<(ProgramQp, Lease)>),
    /// What of the ports is not as it was measured; with nothing all of them hold.
    Stale(Vec<String>),
    /// These.
    Ways(Vec<AddressPaths>),
}
