//! One record of a job: a row of CSV, or JSON of the documented format or of NCCL's Inspector.

use serde::Deserialize;

use super::operation::Operation;

/// Highest rank. Source: our choice, because no job has a million GPUs.
pub const MAX_RANK: u32 = 1 << 20;

/// Longest record. Units: bytes. Source: our choice, a thousand times what any record needs.
pub const MAX_RECORD: usize = 1 << 20;

/// An operation, and what the record says of where it belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRecord {
    /// The communicator.
    pub communicator: Option<String>,
    /// The function, such as `AllGather`.
    pub function: Option<String>,
    /// The ranks of the communicator.
    pub ranks: Option<u32>,
    /// Who wrote the record.
    pub reporter: Option<Reporter>,
    /// The operation.
    pub operation: Operation,
}

impl OperationRecord {
    /// An operation of a file that names nothing else.
    pub fn of(operation: Operation) -> Self {
        Self { communicator: None, function: None, ranks: None, reporter: None, operation }
    }

    /// What its job is told from others by.
    pub fn key(&self) -> JobKey {
        (self.communicator.clone(), self.function.clone())
    }
}

/// Communicator and function.
pub type JobKey = (Option<String>, Option<String>);

/// The process that wrote a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Its host.
    pub host: Option<String>,
    /// Its number on the host.
    pub process: Option<u32>,
}

/// Why something is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub problem: String,
    /// Whether another program wrote it, as far as can be told.
    pub is_foreign: bool,
    /// Whether it breaks off, or two were written into one another.
    pub is_torn: bool,
}

impl Wrong {
    /// A record that is broken.
    pub fn broken(problem: String) -> Self {
        Self { problem, is_foreign: false, is_torn: false }
    }
}

/// A record: of the documented format with times in microseconds, or of NCCL's Inspector.
///
/// Source: NCCL, `plugins/profiler/inspector/README.md`, output formats v4.0 to v4.3.
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
    metadata: Option<InspectedMetadata>,
    coll_perf: Option<InspectedCollective>,
    p2p_perf: Option<InspectedPeer>,
}

#[derive(Debug, Clone, Deserialize)]
struct InspectedHeader {
    id: String,
    rank: u32,
    #[serde(default)]
    n_ranks: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct InspectedMetadata {
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    pid: Option<u32>,
}

/// Of which communicator and process the records are that come next: Inspector says so once, from v4.1 on.
#[derive(Debug, Clone)]
pub struct Marker {
    header: InspectedHeader,
    metadata: InspectedMetadata,
}

impl Marker {
    /// Reads what `text` wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        let record: AnyRecord = serde_json::from_str(text).ok()?;
        Some(Self { header: record.header?, metadata: record.metadata.unwrap_or_default() })
    }

    /// The marker as Inspector writes it.
    pub fn text(&self) -> String {
        let Self { header, metadata } = self;
        let header = serde_json::json!({"id": header.id, "rank": header.rank, "n_ranks": header.n_ranks});
        let metadata = serde_json::json!({"hostname": metadata.hostname, "pid": metadata.pid});
        serde_json::json!({"header": header, "metadata": metadata}).to_string()
    }
}

#[derive(Deserialize)]
struct InspectedCollective {
    #[serde(rename = "coll")]
    function: Option<String>,
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
    /// What the record says; nothing if it is a marker, which is kept for the next ones.
    pub fn record(self, marker: &mut Option<Marker>) -> Result<Option<OperationRecord>, Wrong> {
        let Self { iteration, source, destination, bytes, begin, end, entered, header, .. } = self;
        let own = header.map(|header| Marker { header, metadata: self.metadata.unwrap_or_default() });
        if self.coll_perf.is_none() && self.p2p_perf.is_none() {
            return match (own, iteration, source) {
                (Some(own), ..) => {
                    *marker = Some(own);
                    Ok(None)
                }
                (None, Some(iteration), Some(source)) => {
                    let operation = Operation { iteration, source, destination, bytes, entered, begin, end };
                    check(&operation).map_err(Wrong::broken)?;
                    Ok(Some(OperationRecord::of(operation)))
                }
                _ => Err(Wrong { problem: NO_RECORD.to_owned(), is_foreign: true, is_torn: false }),
            };
        }
        let Some(Marker { header, metadata }) = own.as_ref().or(marker.as_ref()) else {
            let problem = "of NCCL's Inspector, and no `header` here or in a record before: of which rank is it?";
            return Err(Wrong::broken(problem.to_owned()));
        };
        let (function, operation) = match (self.coll_perf, self.p2p_perf) {
            (Some(done), _) => (done.function.clone(), of_collective(header.rank, &done)),
            (None, Some(done)) => (Some(done.function.clone()), of_peer(header.rank, &done)),
            (None, None) => return Ok(None),
        };
        check(&operation).map_err(Wrong::broken)?;
        let host = metadata.hostname.as_deref().map(host_name);
        let reporter = Reporter { rank: header.rank, host, process: metadata.pid };
        let (communicator, ranks) = (Some(header.id.clone()), header.n_ranks);
        Ok(Some(OperationRecord { communicator, function, ranks, reporter: Some(reporter), operation }))
    }
}

const NO_RECORD: &str =
    "no record: write iteration, source, destination, bytes, begin, end, entered, or what NCCL's Inspector writes";

/// Whether JSON that cannot be read was meant for a record, by its keys.
pub fn is_meant_for_a_record(text: &[u8]) -> bool {
    let has = |key: &str| text.windows(key.len()).any(|window| window == key.as_bytes());
    has("\"coll_perf\"") || has("\"p2p_perf\"") || has("\"n_ranks\"") || (has("\"iteration\"") && has("\"source\""))
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
            (0..heading.len()).position(|index| {
                let cell = cell(heading, index).unwrap_or_default();
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

    /// What a row says.
    pub fn record(&self, record: &csv::ByteRecord) -> Result<OperationRecord, Wrong> {
        let is_number = |index: usize| {
            cell(record, index).is_some_and(|cell| cell.first().is_some_and(|first| b"-0123456789".contains(first)))
        };
        let is_fit = record.len() == self.width;
        let wrong = |problem: String| {
            let is_ours = is_number(self.needed[0]) && (is_fit || is_number(self.needed[1]));
            Wrong { problem, is_foreign: !is_ours, is_torn: is_ours && !is_fit }
        };
        if !is_fit {
            return Err(wrong(format!("{} cells; the heading has {}", record.len(), self.width)));
        }
        let operation = self.operation(record).map_err(wrong)?;
        check(&operation).map_err(Wrong::broken)?;
        Ok(OperationRecord::of(operation))
    }

    fn operation(&self, record: &csv::ByteRecord) -> Result<Operation, String> {
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
    let cell = record.get(index)?.trim_ascii();
    let cell = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell).trim_ascii();
    Some(cell).filter(|cell| !cell.is_empty())
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
        // The clocks of two hosts may be apart, and of one they are not.
        && operation.destination.is_none()
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

/// A host as a record names it. What would break a line is replaced, not left out: it could be another host's name
/// then.
pub fn host_name(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    text.chars().map(plain).take(256).collect()
}

/// What of a stranger's text an error repeats.
pub fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(120).collect()
}
