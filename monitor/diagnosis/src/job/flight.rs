//! Dumps of `PyTorch`'s flight recorder: the latest collectives of one rank, as JSON or as a pickle.
//!
//! Source: `PyTorch`, `torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`, versions 2.x of the dump.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::operation::Operation;
use super::record::{MAX_RANK, OperationRecord, Reporter, host_name};

/// A dump.
#[derive(Deserialize)]
pub struct Dump {
    version: String,
    #[serde(default)]
    pg_config: BTreeMap<String, Group>,
    #[serde(default)]
    entries: Vec<Entry>,
    #[serde(default)]
    rank: Option<u32>,
    #[serde(default)]
    host_name: Option<String>,
}

/// A process group.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    ranks: Option<String>,
}

/// A collective, as one rank recorded it.
#[derive(Deserialize)]
struct Entry {
    process_group: (String, String),
    #[serde(default)]
    collective_seq_id: Option<u64>,
    #[serde(default)]
    profiling_name: Option<String>,
    #[serde(default)]
    input_sizes: Vec<Vec<u64>>,
    #[serde(default)]
    input_dtypes: Vec<String>,
    state: String,
    #[serde(default)]
    duration_ms: Option<f64>,
    #[serde(default)]
    is_p2p: bool,
}

/// Whether JSON that begins like this is a dump.
pub fn is_dump(head: &[u8]) -> bool {
    let has = |key: &str| head.windows(key.len()).any(|window| window == key.as_bytes());
    head.starts_with(b"{")
        && (has("\"pg_config\"") || has("\"pg_status\"") || has("\"nccl_comm_state\"") || has("\"entries\""))
}

/// The rank at the end of a file's name: `nccl_trace_rank_3`, `rank_3.json`.
fn rank_of_name(name: &str) -> Option<u32> {
    let mut stem = name.rsplit('/').next()?;
    for ending in [".gz", ".json", ".pickle", ".pkl", ".pt", ".bin"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    let digits = stem.len() - stem.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    stem[stem.len() - digits..].parse().ok()
}

/// What a dump says, and what of it is left out.
#[derive(Debug)]
pub struct Flight {
    /// Collectives; the iteration is the number that `PyTorch` gives them within their process group.
    pub records: Vec<OperationRecord>,
    /// What each of these calls, by the number of the record.
    pub calls: Vec<Option<String>>,
    /// The ranks of each communicator.
    pub members: BTreeMap<String, BTreeSet<u32>>,
    /// Messages between two ranks, which each rank numbers by itself.
    pub left_out: usize,
}

impl Dump {
    /// What the dump of the file with this name says.
    ///
    /// # Errors
    /// It is of another version, or nothing says of which rank it is.
    pub fn flight(self, name: &str) -> Result<Flight, String> {
        if !self.version.starts_with("2.") {
            return Err(format!("a flight recorder's dump of version {:.16}; Kelpie reads 2", self.version));
        }
        let rank = self.rank.or_else(|| rank_of_name(name));
        let rank = rank.ok_or("a flight recorder's dump, and its name does not end in its rank, as in rank_3.json")?;
        let (mut records, mut calls, mut left_out) = (Vec::new(), Vec::new(), 0);
        let mut members = BTreeMap::new();
        for entry in self.entries {
            let (Some(iteration), false) = (entry.collective_seq_id, entry.is_p2p) else {
                left_out += 1;
                continue;
            };
            let (name, description) = &entry.process_group;
            let communicator = if description.is_empty() { name.clone() } else { format!("{name} ({description})") };
            let group = self.pg_config.get(name).and_then(|group| group.ranks.as_deref());
            let ranks = group.map(ranks_of);
            if let Some(ranks) = ranks.as_ref().filter(|_| !members.contains_key(&communicator)) {
                members.insert(communicator.clone(), ranks.clone());
            }
            let is_done = entry.state == "completed";
            // Times of day are those of when a thread looked; only what the GPU measured is a time.
            let took = entry.duration_ms.filter(|took| *took >= 0.0).map_or(0.0, |took| took * 1e3);
            let operation = Operation {
                iteration,
                source: rank,
                destination: None,
                bytes: entry.bytes(),
                entered: (!is_done).then_some(0.0),
                begin: (entry.state != "scheduled").then_some(0.0),
                end: is_done.then_some(took),
            };
            calls.push(entry.profiling_name.as_deref().map(called));
            records.push(OperationRecord {
                communicator: Some(communicator),
                // PyTorch numbers all collectives of a group together, whatever their function.
                function: None,
                ranks: ranks.and_then(|ranks| u32::try_from(ranks.len()).ok()),
                reporter: Some(Reporter { rank, host: self.host_name.as_deref().map(host_name), process: None }),
                operation,
            });
        }
        Ok(Flight { records, calls, members, left_out })
    }
}

/// The ranks of a group, which are written as `[0, 1, 2]`.
fn ranks_of(text: &str) -> BTreeSet<u32> {
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    numbers.filter_map(|rank| rank.parse().ok()).filter(|rank| *rank <= MAX_RANK).collect()
}

/// What a name of a profile calls: which of `PyTorch`'s ways led to a collective of NCCL makes no difference to others.
fn called(profiling_name: &str) -> String {
    let name = profiling_name.rsplit(':').next().unwrap_or(profiling_name).trim_start_matches('_');
    let name = ["_base", "_oop"].iter().fold(name, |name, ending| name.strip_suffix(ending).unwrap_or(name));
    let letters = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
    letters.take(64).collect()
}

impl Entry {
    /// What goes in; 0 if types are not known.
    fn bytes(&self) -> u64 {
        let of = |(sizes, kind): (&Vec<u64>, &String)| {
            let wide: u64 = match kind.as_str() {
                "Byte" | "Char" | "Bool" | "Float8_e4m3fn" | "Float8_e5m2" => 1,
                "Half" | "BFloat16" | "Short" | "UInt16" => 2,
                "Float" | "Int" | "UInt32" => 4,
                "Double" | "Long" | "ComplexFloat" | "UInt64" => 8,
                _ => 0,
            };
            sizes.iter().fold(wide, |bytes, size| bytes.saturating_mul(*size))
        };
        self.input_sizes.iter().zip(&self.input_dtypes).map(of).fold(0, u64::saturating_add)
    }
}
