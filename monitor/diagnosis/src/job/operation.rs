//! What a job did: operations between ranks, with their times.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One operation: a message from a rank to another, or a rank's share of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "OperationRow", into = "OperationRow")]
pub struct Operation {
    /// Which iteration it belongs to.
    pub iteration: u64,
    /// The rank that sends.
    pub source: u32,
    /// The rank that receives; `None` for a rank's share of a collective.
    pub destination: Option<u32>,
    /// Size of the message.
    pub bytes: u64,
    /// When the source came to the operation. Units: microseconds on the job's clock.
    pub entered: Option<f64>,
    /// When the transfer began; as `entered`.
    pub begin: Option<f64>,
    /// When it was complete; `None` if it never was while anybody looked.
    pub end: Option<f64>,
}

/// An operation as it is kept: iteration, source, destination, bytes, entered, begin, end.
type OperationRow = (u64, u32, Option<u32>, u64, Option<f64>, Option<f64>, Option<f64>);

impl From<OperationRow> for Operation {
    fn from((iteration, source, destination, bytes, entered, begin, end): OperationRow) -> Self {
        Self { iteration, source, destination, bytes, entered, begin, end }
    }
}

impl From<Operation> for OperationRow {
    fn from(of: Operation) -> Self {
        (of.iteration, of.source, of.destination, of.bytes, of.entered, of.begin, of.end)
    }
}

impl Operation {
    /// From begin, or else from entry, to completion. Units: microseconds.
    pub fn duration(&self) -> Option<f64> {
        Some(self.end? - self.begin.or(self.entered)?).filter(|duration| *duration > 0.0)
    }

    /// From entry to begin. Units: microseconds.
    pub fn wait(&self) -> Option<f64> {
        Some((self.begin? - self.entered?).max(0.0))
    }
}

/// The operations of a function of a communicator, sorted by iteration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobOperations {
    /// The communicator, where the file names several.
    pub communicator: Option<String>,
    /// The function, such as `AllGather`, where the file names it: NCCL counts operations per communicator and
    /// function.
    pub function: Option<String>,
    /// Host of each rank, where the file names it.
    pub hosts: BTreeMap<u32, String>,
    /// Process of each rank, where the file names it.
    pub processes: BTreeMap<u32, u32>,
    /// Ranks that the file says there are, whether they show up or not.
    pub ranks: Option<u32>,
    /// The same by their numbers, where these count within the whole job and not within the communicator.
    pub members: BTreeSet<u32>,
    /// Of each iteration the functions that were called and by whom, where one numbering counts all functions.
    pub calls: BTreeMap<u64, BTreeMap<String, Vec<u32>>>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// Whether the file ends within a record.
    pub is_truncated: bool,
}

impl JobOperations {
    /// The ranks that show up, as senders or receivers.
    pub fn seen_ranks(&self) -> BTreeSet<u32> {
        let ends = self.operations.iter().flat_map(|operation| [Some(operation.source), operation.destination]);
        ends.flatten().collect()
    }

    /// Whether the ranks of an iteration may lawfully pass different sizes: each has its own share of what it sends.
    pub fn may_sizes_differ(&self, iteration: u64) -> bool {
        let called = self.calls.get(&iteration).into_iter().flat_map(BTreeMap::keys);
        self.function.iter().chain(called).any(|function| is_uneven(function))
    }

    /// The operations, an iteration at a time.
    pub fn iterations(&self) -> impl DoubleEndedIterator<Item = &[Operation]> {
        self.operations.chunk_by(|one, next| one.iteration == next.iteration)
    }
}

/// A function's name as letters and digits alone: NCCL, `PyTorch` and nccl-tests spell the same one differently.
pub fn plain(function: &str) -> String {
    let name = function.rsplit(':').next().unwrap_or(function);
    let name = name.trim_start_matches('_').trim_end_matches("_base").trim_end_matches("_oop");
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether each rank has its own size. Source: MPI's `Alltoallv` and its kin; of `Scatter` and `Gather` the root alone
/// passes all.
fn is_uneven(function: &str) -> bool {
    let name = plain(function);
    let has = |part: &str, but: &str| name.contains(part) && !name.contains(but);
    name.contains("alltoall")
        || has("scatter", "reducescatter")
        || has("gather", "allgather")
        || name.ends_with("gatherv")
        || name.ends_with("scatterv")
}
