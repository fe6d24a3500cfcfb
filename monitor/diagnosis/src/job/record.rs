//! One record of a job: a row of CSV, or JSON of the documented format or of NCCL's Inspector.

use serde::Deserialize;

use super::operation::Operation;

/// Highest rank. Source: our choice, because no job has a million GPUs.
pub const MAX_RANK: u32 = 1 << 20;

/// Longest record. Units: bytes. Source: our choice, a thousand times what any record needs.
pub const MAX_RECORD: usize = 1 << 20;

/// An operation, and the communicator and its ranks if the record names them.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The communicator.
    pub communicator: Option<String>,
    /// Its ranks.
    pub ranks: Option<u32>,
    /// The operation.
    pub operation: Operation,
}

/// A record: of the documented format with times in microseconds, or of NCCL's Inspector.
///
/// Source: NCCL, `ext-profiler/inspector/README.md`, output format v4.0.
#[derive(Deserialize)]
pub struct AnyRecord {
    iteration: Option<u64>,
    source: Option<u32>,
    destination: Option<u32>,
    #[serde(default)]
    bytes: u64,
    #[serde(alias = "begin_us")]
    begin: Option<f64>,
    #[serde(alias = "end_us")]
    end: Option<f64>,
    #[serde(alias = "entered_us")]
    entered: Option<f64>,
    header: Option<InspectedHeader>,
    coll_perf: Option<InspectedCollective>,
    p2p_perf: Option<InspectedPeer>,
}

#[derive(Deserialize)]
struct InspectedHeader {
    id: String,
    rank: u32,
    #[serde(default)]
    n_ranks: Option<u32>,
}

#[derive(Deserialize)]
struct InspectedCollective {
    #[serde(rename = "coll_sn")]
    number: u64,
    #[serde(rename = "coll_msg_size_bytes")]
    bytes: u64,
    #[serde(rename = "coll_exec_time_us")]
    time_us: f64,
}

#[derive(Deserialize)]
struct InspectedPeer {
    #[serde(rename = "p2p")]
    function: String,
    #[serde(rename = "p2p_sn")]
    number: u64,
    #[serde(rename = "p2p_peer")]
    peer: u32,
    #[serde(rename = "p2p_msg_size_bytes")]
    bytes: u64,
    #[serde(rename = "p2p_exec_time_us")]
    time_us: f64,
}

impl AnyRecord {
    /// What the record says; nothing if it is Inspector's and of no operation.
    pub fn record(self) -> Result<Option<Record>, String> {
        let Self { iteration, source, destination, bytes, begin, end, entered, header, coll_perf, p2p_perf } = self;
        let (communicator, ranks, operation) = match (header, coll_perf, p2p_perf, iteration, source) {
            (Some(header), Some(done), ..) => (Some(header.id), header.n_ranks, of_collective(header.rank, &done)),
            (Some(header), None, Some(done), ..) => (Some(header.id), header.n_ranks, of_peer(header.rank, &done)),
            (Some(_), None, None, ..) => return Ok(None),
            (None, _, _, Some(iteration), Some(source)) => {
                (None, None, Operation { iteration, source, destination, bytes, entered, begin, end })
            }
            _ => {
                let problem = "no record: write iteration, source, destination, bytes, begin, end, entered, or what \
                               NCCL's Inspector writes";
                return Err(problem.to_owned());
            }
        };
        Ok(Some(Record { communicator, ranks, operation }))
    }
}

/// Which column of CSV is what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Iteration, source, destination, end.
    needed: [usize; 4],
    /// Bytes, begin, entered.
    optional: [Option<usize>; 3],
    width: usize,
}

impl Columns {
    /// The columns of a heading.
    pub fn of(heading: &csv::ByteRecord) -> Result<Self, String> {
        let column = |name: &str| {
            let with_unit = format!("{name}_us");
            heading.iter().position(|cell| {
                cell.eq_ignore_ascii_case(name.as_bytes()) || cell.eq_ignore_ascii_case(with_unit.as_bytes())
            })
        };
        let need = |name: &str| {
            let rule = "the heading is iteration,source,destination,bytes,begin,end,entered";
            column(name).ok_or_else(|| format!("no column `{name}`; {rule}"))
        };
        Ok(Self {
            needed: [need("iteration")?, need("source")?, need("destination")?, need("end")?],
            optional: ["bytes", "begin", "entered"].map(column),
            width: heading.len(),
        })
    }

    /// A heading with these columns.
    pub fn heading(&self) -> String {
        let mut cells = vec![""; self.width];
        for (place, name) in self.needed.into_iter().zip(["iteration", "source", "destination", "end"]) {
            cells[place] = name;
        }
        for (place, name) in self.optional.into_iter().zip(["bytes", "begin", "entered"]) {
            if let Some(place) = place {
                cells[place] = name;
            }
        }
        cells.join(",")
    }

    /// Whether a row has as many cells as the heading.
    pub fn fit(&self, record: &csv::ByteRecord) -> bool {
        record.len() == self.width
    }

    /// What a row says.
    pub fn operation(&self, record: &csv::ByteRecord) -> Result<Operation, String> {
        let time = |index: Option<usize>, name: &str| -> Result<Option<f64>, String> {
            match index {
                Some(index) if cell(record, index).is_some() => number(record, index, name).map(Some),
                _ => Ok(None),
            }
        };
        let [iteration, source, destination, end] = self.needed;
        let [size, begin, entered] = self.optional;
        let bytes = match size {
            Some(size) if cell(record, size).is_some() => number(record, size, "bytes")?,
            _ => 0,
        };
        let destination = match cell(record, destination) {
            Some(_) => Some(number(record, destination, "destination")?),
            None => None,
        };
        Ok(Operation {
            iteration: number(record, iteration, "iteration")?,
            source: number(record, source, "source")?,
            destination,
            bytes,
            begin: time(begin, "begin")?,
            end: time(Some(end), "end")?,
            entered: time(entered, "entered")?,
        })
    }
}

fn cell(record: &csv::ByteRecord, index: usize) -> Option<&[u8]> {
    record.get(index).map(<[u8]>::trim_ascii).filter(|cell| !cell.is_empty())
}

fn number<T: std::str::FromStr>(record: &csv::ByteRecord, index: usize, name: &str) -> Result<T, String> {
    let bytes = cell(record, index).ok_or_else(|| format!("`{name}` is missing"))?;
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("`{name}` is no number: {}", shown(&String::from_utf8_lossy(bytes))))
}

/// Times are closer to 0 than this. Units: microseconds. Source: our choice: nanoseconds since 1970 that were written
/// for microseconds are still told from a clock.
const LONGEST_AGO: f64 = 1e18;

/// Whether an operation can be: ranks within bounds, times in order.
pub fn check(operation: &Operation) -> Result<(), String> {
    if operation.source > MAX_RANK || operation.destination.is_some_and(|rank| rank > MAX_RANK) {
        return Err(format!("a rank is at most {MAX_RANK}"));
    }
    let times = [operation.begin, operation.end, operation.entered];
    if times.iter().flatten().any(|time| !(-LONGEST_AGO..LONGEST_AGO).contains(time)) {
        return Err(format!(
            "a time is a number of microseconds between -{LONGEST_AGO:e} and {LONGEST_AGO:e}, or left out"
        ));
    }
    if let (Some(begin), Some(end)) = (operation.begin.or(operation.entered), operation.end)
        && end < begin
    {
        return Err(format!("it ends at {end}, before it begins at {begin}"));
    }
    Ok(())
}

fn of_collective(rank: u32, done: &InspectedCollective) -> Operation {
    Operation {
        iteration: done.number,
        source: rank,
        destination: None,
        bytes: done.bytes,
        entered: None,
        begin: Some(0.0),
        end: Some(done.time_us),
    }
}

fn of_peer(rank: u32, done: &InspectedPeer) -> Operation {
    let (source, destination) = if done.function.contains("Recv") { (done.peer, rank) } else { (rank, done.peer) };
    Operation {
        iteration: done.number,
        source,
        destination: Some(destination),
        bytes: done.bytes,
        entered: None,
        begin: Some(0.0),
        end: Some(done.time_us),
    }
}

/// What of a stranger's text an error repeats.
pub fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(120).collect()
}
