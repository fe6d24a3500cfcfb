//! Weaknesses, which tell findings apart and which no search sees.

use kelpie_monitor::Symptom;
use kelpie_search::Finding;
use serde::{Deserialize, Serialize};

/// What a search must not see: the symptom, and the part of the subsystem that limits the traffic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weakness {
    pub symptom: Symptom,
    /// Such as `receive_wqe_cache`.
    pub part: String,
}

impl Weakness {
    /// The weakness, and the transport and operation of the traffic that shows it.
    pub fn split(symptom: Symptom, limiting: &str) -> (Self, String) {
        let (part, traffic) = limiting.split_once(':').unwrap_or((limiting, ""));
        (Self { symptom, part: part.to_owned() }, traffic.to_owned())
    }
}

/// A finding as it was when the campaign ended, and the weakness that its workload shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    pub finding: Finding,
    pub weakness: Weakness,
    /// Transport and operation of the traffic that is limited there.
    pub traffic: String,
}
