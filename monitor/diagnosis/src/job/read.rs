//! Reads what people have of a job's operations: CSV, JSON, what NCCL's profilers write, dumps of `PyTorch`'s flight
//! recorder, `matrix/1`. What they mean is elsewhere.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

use indexmap::IndexMap;

use super::flight::{Dump, is_dump};
use super::follow::{MARK, RecordFollower, Skipped};
use super::operation::{JobOperations, Operation};
use super::pickle;
use super::record::{JobKey, MAX_RANK, OperationRecord, check, shown};
use crate::matrix::{Matrix, MatrixError};

/// Most operations of all files. Source: our choice; at 80 bytes each they need 640 MiB.
pub const MAX_OPERATIONS: usize = 8 << 20;
/// Most communicators and functions of all files. Source: our choice.
const MAX_JOBS: usize = 65_536;
/// By how many bytes the form of a file is known. Source: our choice; the tag of a format is among its first keys.
const HEAD: u64 = 4096;
/// Longest matrix or dump, which is read as a whole. Units: bytes. Source: our choice, above a dump of 100,000 records.
const MAX_WHOLE: u64 = 256 << 20;
/// What is read at once. Units: bytes. Source: our choice.
const PIECE: u64 = 1 << 16;

/// Why a file was refused; always names it.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A record that cannot be read.
    #[error("{file}:{line}: {problem}")]
    Record {
        /// Where it came from.
        file: String,
        /// Line, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// A matrix that cannot be read.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// It cannot be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// Where it came from.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// Nothing to diagnose.
    #[error(
        "{file}: no operation in it; write CSV with the heading iteration,source,destination,bytes,begin,end,entered"
    )]
    Empty {
        /// Where it came from.
        file: String,
    },
}

/// What was read.
#[derive(Debug)]
pub struct Jobs {
    /// One job for each communicator and function.
    pub jobs: Vec<JobOperations>,
    /// What was left out, in words.
    pub notes: Vec<String>,
}

/// Reads the jobs of a file, one per communicator and function.
///
/// # Errors
/// Names file and line of the first mistake.
pub fn read(file: &str, bytes: &[u8]) -> Result<Jobs, JobError> {
    let mut reader = Reader::default();
    reader.add(file, bytes)?;
    reader.finish()
}

/// Reads the files of a job, one after the other.
#[derive(Debug, Default)]
pub struct Reader {
    jobs: IndexMap<JobKey, JobOperations>,
    count: usize,
    files: Vec<String>,
    is_truncated: bool,
    /// Lines of other programs, and the first of them.
    foreign: u64,
    first_foreign: Option<(String, Skipped)>,
    /// Records that break off within a file, and the first of them.
    torn: u64,
    first_torn: Option<(String, Skipped)>,
    /// Messages of flight recorders.
    left_out: usize,
    /// Whether each rank's records begin where its recorder's memory did.
    is_of_rings: bool,
}

impl Reader {
    /// Adds a file. A last record that breaks off is left out, and the jobs say so.
    ///
    /// # Errors
    /// Names file and line of the first mistake.
    pub fn add(&mut self, file: &str, mut input: impl BufRead) -> Result<(), JobError> {
        self.files.push(file.to_owned());
        let unreadable = |problem: String| JobError::Unreadable { file: file.to_owned(), problem };
        let failed = |error: &io::Error| unreadable(error.to_string());
        let mut head = Vec::new();
        input.by_ref().take(HEAD).read_to_end(&mut head).map_err(|error| failed(&error))?;
        if head.starts_with(MARK) {
            head.drain(..MARK.len());
        }
        let begin = head.trim_ascii_start();
        let (is_matrix, is_pickle) = (is_matrix(begin), begin.starts_with(b"\x80"));
        let is_dump = is_dump(begin);
        if !(is_matrix || is_pickle || is_dump) {
            return self.lines(file, &head, input);
        }
        let mut whole = head;
        input.take(MAX_WHOLE).read_to_end(&mut whole).map_err(|error| failed(&error))?;
        if whole.len() as u64 > MAX_WHOLE {
            return Err(unreadable(format!("longer than {} MiB, the most of this form", MAX_WHOLE >> 20)));
        }
        if is_matrix {
            let job = of_matrix(&Matrix::from_bytes(file, &whole)?);
            self.count += job.operations.len();
            self.job((Some(file.to_owned()), None), || job).map_err(unreadable)?;
            return Ok(());
        }
        let dump: Dump = if is_pickle {
            pickle::from_slice(&whole).map_err(|error| unreadable(format!("pickle: {}", shown(&error.to_string()))))?
        } else {
            serde_json::from_slice(&whole).map_err(|error| JobError::Record {
                file: file.to_owned(),
                line: error.line() as u64,
                problem: shown(&error.to_string()),
            })?
        };
        let flight = dump.flight(file).map_err(unreadable)?;
        self.is_of_rings = true;
        self.left_out += flight.left_out;
        for (record, called) in flight.records.into_iter().zip(flight.calls) {
            let (key, iteration, rank) = (record.key(), record.operation.iteration, record.operation.source);
            self.push(record).map_err(unreadable)?;
            let Some(job) = self.jobs.get_mut(&key) else { continue };
            if let Some(called) = called {
                job.calls.entry(iteration).or_default().entry(called).or_default().push(rank);
            }
        }
        for (communicator, members) in flight.members {
            if let Some(job) = self.jobs.get_mut(&(Some(communicator), None)) {
                job.members.extend(members);
            }
        }
        Ok(())
    }

    fn lines(&mut self, file: &str, head: &[u8], mut input: impl BufRead) -> Result<(), JobError> {
        let mut follower = RecordFollower::default();
        let mut refused = None;
        let mut piece = head.to_vec();
        while !piece.is_empty() {
            follower.take(&piece, |one| self.give(file, one, &mut refused));
            if let Some(error) = refused {
                return Err(error);
            }
            piece.clear();
            let got = input.by_ref().take(PIECE).read_to_end(&mut piece);
            got.map_err(|error| JobError::Unreadable { file: file.to_owned(), problem: error.to_string() })?;
        }
        let before = self.count;
        let last = follower.finish(|one| self.give(file, one, &mut refused));
        if let Some(error) = refused {
            return Err(error);
        }
        match last {
            // Somebody may still be writing the last record.
            Some(_) if before > 0 => self.is_truncated = true,
            Some(Skipped { line, problem, .. }) => {
                return Err(JobError::Record { file: file.to_owned(), line, problem });
            }
            None => {}
        }
        Ok(())
    }

    fn give(&mut self, file: &str, one: Result<OperationRecord, Skipped>, refused: &mut Option<JobError>) {
        let file = || file.to_owned();
        match one {
            _ if refused.is_some() => {}
            Ok(record) => {
                if let Err(problem) = self.push(record) {
                    *refused = Some(JobError::Unreadable { file: file(), problem });
                }
            }
            Err(skipped) if skipped.is_foreign => {
                self.foreign += 1;
                self.first_foreign.get_or_insert((file(), skipped));
            }
            Err(skipped) if skipped.is_torn => {
                self.torn += 1;
                self.first_torn.get_or_insert((file(), skipped));
            }
            Err(Skipped { line, problem, .. }) => *refused = Some(JobError::Record { file: file(), line, problem }),
        }
    }

    fn push(&mut self, record: OperationRecord) -> Result<(), String> {
        check(&record.operation)?;
        if self.count >= MAX_OPERATIONS {
            return Err(format!("more than {MAX_OPERATIONS} operations; give the latest iterations alone"));
        }
        self.count += 1;
        let (communicator, function) = record.key();
        let fresh = || JobOperations { communicator, function, ..JobOperations::default() };
        let job = self.job(record.key(), fresh)?;
        job.ranks = job.ranks.max(record.ranks);
        if let Some(reporter) = record.reporter {
            if let Some(host) = reporter.host.filter(|_| !job.hosts.contains_key(&reporter.rank)) {
                job.hosts.insert(reporter.rank, host);
            }
            if let Some(process) = reporter.process {
                job.processes.insert(reporter.rank, process);
            }
        }
        job.operations.push(record.operation);
        Ok(())
    }

    fn job(&mut self, key: JobKey, fresh: impl FnOnce() -> JobOperations) -> Result<&mut JobOperations, String> {
        if self.jobs.len() >= MAX_JOBS && !self.jobs.contains_key(&key) {
            return Err(format!("more than {MAX_JOBS} communicators and functions"));
        }
        Ok(self.jobs.entry(key).or_insert_with(fresh))
    }

    /// The jobs of all files.
    ///
    /// # Errors
    /// There is no operation.
    pub fn finish(self) -> Result<Jobs, JobError> {
        let mut jobs: Vec<JobOperations> = self.jobs.into_values().filter(|job| !job.operations.is_empty()).collect();
        if jobs.is_empty() {
            return Err(match self.first_torn.or(self.first_foreign) {
                Some((file, Skipped { line, problem, .. })) => JobError::Record { file, line, problem },
                None => JobError::Empty { file: self.files.first().cloned().unwrap_or_default() },
            });
        }
        for job in &mut jobs {
            job.operations.sort_by_key(|operation| operation.iteration);
            job.is_truncated = self.is_truncated;
            if self.is_of_rings {
                begin_together(job);
            }
        }
        let mut notes = Vec::new();
        if let Some((file, first)) = self.first_foreign {
            let lines = if self.foreign == 1 { "1 line is".to_owned() } else { format!("{} lines are", self.foreign) };
            notes.push(format!("{lines} of other programs and left out, the first at {file}:{}", first.line));
        }
        if let Some((file, first)) = self.first_torn {
            let (torn, line) = (self.torn, first.line);
            let records = if torn == 1 {
                "1 record breaks off and is left out".to_owned()
            } else {
                format!("{torn} records break off and are left out")
            };
            notes.push(format!("{records}, the first at {file}:{line}"));
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} messages of flight recorders are left out: each rank numbers its own",
                self.left_out
            ));
        }
        Ok(Jobs { jobs, notes })
    }
}

/// Each rank keeps its latest operations, and not the same number: what not all have kept is left out, unless a rank
/// would lose all.
fn begin_together(job: &mut JobOperations) {
    let mut kept: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for operation in &job.operations {
        let (_, last) = kept.entry(operation.source).or_insert((operation.iteration, operation.iteration));
        *last = operation.iteration;
    }
    let first = kept.values().map(|(first, _)| *first).max().unwrap_or(0);
    if kept.values().all(|(_, last)| *last >= first) {
        job.operations.retain(|operation| operation.iteration >= first);
    }
}

/// Whether JSON is of the format `matrix/1`: the tag is among its first keys.
fn is_matrix(head: &[u8]) -> bool {
    head.starts_with(b"{") && head.windows(8).any(|window| window == b"\"kelpie\"")
}

fn of_matrix(matrix: &Matrix) -> JobOperations {
    let rank = |names: &[String], index: usize| {
        let number =
            |name: &String| name.trim_start_matches("rank").parse::<u32>().ok().filter(|rank| *rank <= MAX_RANK);
        let all: Option<Vec<u32>> = names.iter().map(number).collect();
        all.map_or(index as u32, |all| all[index])
    };
    let rows: Vec<u32> = (0..matrix.rows.len()).map(|row| rank(&matrix.rows, row)).collect();
    let columns: Vec<u32> = (0..matrix.columns.len()).map(|column| rank(&matrix.columns, column)).collect();
    let mut operations = Vec::new();
    for (row, cells) in matrix.completion_us.iter().flatten().enumerate() {
        for (column, time) in cells.iter().enumerate().filter_map(|(column, time)| Some((column, (*time)?))) {
            let (source, destination) = (rows[row], Some(columns[column]));
            if destination == Some(source) {
                continue;
            }
            let (begin, end) = (Some(0.0), Some(time));
            operations.push(Operation { iteration: 0, source, destination, bytes: 0, entered: None, begin, end });
        }
    }
    JobOperations { operations, ..JobOperations::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "iteration,source,destination,bytes,begin,end,entered\n0,0,1,1024,10,20.5,9\n0,1,0,1024,10,,9\n";

    #[test]
    fn csv_and_json_say_the_same() {
        let job = &read("j", CSV.as_bytes()).expect("it keeps the rules").jobs[0];
        assert_eq!((job.operations[0].duration(), job.operations[1].duration()), (Some(10.5), None));
        let lines = r#"{"iteration":0,"source":0,"destination":1,"bytes":1024,"begin":10,"end":20.5,"entered":9}
{"iteration":0,"source":1,"destination":0,"bytes":1024,"begin":10,"end":null,"entered":9}"#;
        assert_eq!(&read("j", lines.as_bytes()).expect("it keeps the rules").jobs[0], job);
        let list = format!("[{}]", lines.replace('\n', ","));
        assert_eq!(&read("j", list.as_bytes()).expect("it keeps the rules").jobs[0], job);
        assert_eq!(job.iterations().map(<[Operation]>::len).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_last_record_that_breaks_off_is_left_out_and_said() {
        for end in ["0,1", "0,1,0,1024,10,7", "1,0,1,1024,10,2"] {
            let text = format!("{}{end}", &CSV[..CSV.len() - 17]);
            let job = &read("j", text.as_bytes()).expect("the rest is good").jobs[0];
            assert_eq!((job.operations.len(), job.is_truncated), (1, true), "{text}");
        }
        let json = r#"{"iteration":0,"source":0,"destination":1,"end":20.5,"entered":9} {"iteration":0,"sou"#;
        let job = &read("j", json.as_bytes()).expect("the rest is good").jobs[0];
        assert_eq!((job.operations.len(), job.is_truncated), (1, true));
    }

    #[test]
    fn inspector_has_a_job_per_communicator() {
        let text = r#"{"header":{"id":"0x7f","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"hostname":"h","dump_timestamp_us":1},
            "coll_perf":{"coll":"AllReduce","coll_sn":14,"coll_msg_size_bytes":17,"coll_exec_time_us":61974,"coll_busbw_gbs":4.5}}
            {"header":{"id":"0x80","rank":1,"n_ranks":2,"nnodes":1},"p2p_perf":{"p2p":"Recv","p2p_sn":3,"p2p_peer":0,
            "p2p_msg_size_bytes":8,"p2p_exec_time_us":5}}"#;
        let jobs = read("j", text.as_bytes()).expect("it keeps the rules").jobs;
        assert_eq!(jobs.len(), 2);
        assert_eq!((jobs[0].ranks, jobs[0].operations[0].duration()), (Some(8), Some(61974.0)));
        assert_eq!((jobs[1].operations[0].source, jobs[1].operations[0].destination), (0, Some(1)));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            ("", "j: no operation in it"),
            ("iteration,source,destination,end\n", "j: no operation in it"),
            ("a,b\n1,2\n", "j:1: no column `iteration`"),
            (&CSV.replace("20.5", "soon"), "j:2: `end` is no number: soon"),
            (&CSV.replace("0,1,0,1024,10,,9", "0,-1,0,1024,10,,9"), "j:3: `source` is no number: -1"),
            ("iteration,source,destination,begin,end\n0,0,,10,5\n", "j:2: it ends at 5, before it begins at 10"),
            (&CSV.replace("20.5", "inf"), "j:2: a time is a number of microseconds"),
            (&CSV.replace("0,0,1,", "0,0,9999999,"), "j:2: a rank is at most"),
            ("{\"iteration\": 0}\n", "j:1: no record: write iteration"),
            ("{\"kelpie\": \"matrix/1\"}", "j:1:22: key `rows` is missing"),
            (&format!("{CSV}1,{}", "0".repeat(2 << 20)), "j:4: a record of over 1 MiB"),
            ("[1, 2]", "j:1: "),
        ] {
            let error = read("j", text.as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    /// What the ranks of `n` write that is told apart by function: rank 5 of `AllGather` comes late.
    fn inspected(header: &str, function: &str, number: u32, time: u32) -> String {
        format!(
            "{{{header}\"coll_perf\":{{\"coll\":\"{function}\",\"coll_sn\":{number},\"coll_msg_size_bytes\":8,\
             \"coll_exec_time_us\":{time}}}}}\n"
        )
    }

    #[test]
    #[expect(clippy::format_push_string, reason = "a test")]
    fn functions_of_a_communicator_are_jobs_of_their_own_and_markers_name_what_follows() {
        let mut text = String::new();
        for rank in 0..4 {
            text += &format!(
                "{{\"header\":{{\"id\":\"0x1\",\"rank\":{rank},\"n_ranks\":8}},\"metadata\":{{\"hostname\":\"n{rank}\",\
                 \"pid\":{}}},\"dump_stats\":{{\"coll_records\":4}}}}\n",
                100 + rank
            );
            for number in 0..2 {
                text += &inspected("", "AllGather", number, 10);
                text += "epoch 3, loss 2.1\n{\"iteration\": 7, \"loss\": 2.1}\n";
                text += &inspected("", "ReduceScatter", number, 20);
            }
        }
        let Jobs { jobs, notes } = read("j", text.as_bytes()).expect("it keeps the rules");
        assert_eq!(
            jobs.iter().map(|job| job.function.as_deref()).collect::<Vec<_>>(),
            [Some("AllGather"), Some("ReduceScatter")]
        );
        for job in &jobs {
            assert_eq!((job.communicator.as_deref(), job.ranks, job.operations.len()), (Some("0x1"), Some(8), 8));
            assert_eq!((job.hosts[&3].as_str(), job.processes[&2]), ("n3", 102));
            let ranks: Vec<u32> = job.operations.iter().map(|operation| operation.source).collect();
            assert_eq!(ranks, [0, 1, 2, 3, 0, 1, 2, 3]);
        }
        assert_eq!(notes, ["16 lines are of other programs and left out, the first at j:3"]);
        let error = read("j", inspected("", "AllGather", 1, 10).as_bytes()).expect_err("of nobody").to_string();
        assert!(error.starts_with("j:1: of NCCL's Inspector, and no `header`"), "{error}");
    }

    #[test]
    fn a_mark_of_utf8_is_left_out_and_so_is_a_record_that_breaks_off_within_the_file() {
        let good = r#"{"iteration":0,"source":0,"destination":1,"end":20.5}"#;
        let json = format!("\u{feff}{good}\n{good}\n");
        assert_eq!(read("j", json.as_bytes()).expect("two").jobs[0].operations.len(), 2);
        let csv = format!("\u{feff}{CSV}");
        assert_eq!(read("j", csv.as_bytes()).expect("two").jobs[0].operations.len(), 2);
        for torn in [&good[..30], &good[..41], &good[..50]] {
            let Jobs { jobs, notes } = read("j", format!("{good}\n{torn}\n{good}\n").as_bytes()).expect(torn);
            assert_eq!((jobs[0].operations.len(), jobs[0].is_truncated), (2, false), "{torn}");
            assert_eq!(notes, ["1 record breaks off and is left out, the first at j:2"], "{torn}");
        }
        let csv = CSV.replace("0,1,0,1024", "0,1\n0,1,0,1024");
        let Jobs { jobs, notes } = read("j", csv.as_bytes()).expect("two");
        assert_eq!((jobs[0].operations.len(), notes.len()), (2, 1), "{notes:?}");
        assert_eq!(
            read("j", "iteration,source,destination,end\n0,1\n".as_bytes()).expect_err("none").to_string(),
            "j:2: 2 cells; the heading has 4"
        );
    }

    #[test]
    fn lines_of_other_programs_are_skipped_and_broken_records_are_not() {
        let csv =
            "NCCL INFO comm 0x1, rank 0, done\n".to_owned() + &CSV.replace("\n0,1", "\n\nepoch 1: a,b,c,d,e,f\n0,1");
        let Jobs { jobs, notes } = read("j", csv.as_bytes()).expect("two records");
        assert_eq!((jobs[0].operations.len(), notes.len()), (2, 1), "{notes:?}");
        let good = r#"{"iteration":0,"source":0,"destination":1,"end":20.5}"#;
        for (broken, line) in [
            (r#"{"iteration":0,"source":"zero","destination":1}"#, 2),
            (r#"{"iteration":0,"source":0,"begin":9,"end":2}"#, 2),
            (r#"{"coll_perf":{"coll":"AllReduce","coll_sn":0}}"#, 2),
        ] {
            let error = read("j", format!("{good}\n{broken}\n{good}\n").as_bytes()).expect_err(broken).to_string();
            assert!(error.starts_with(&format!("j:{line}: ")), "{error}");
        }
    }

    #[test]
    fn proxy_traces_say_what_went_to_which_peer() {
        let trace = r#"[
{"name": "AllReduce", "cat": "COLL_API", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 0.0, "args": {"count": 2, "Stream": 0x50}},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 10.5, "args": {"SeqNum": 3, "CommHash": 1493613951195738943, "Rank": 2, "Count": 262144}},
{"name": "ScheduleSend", "cat": "PROXY", "ph": "b", "id": 1, "pid": 7, "tid": 1, "ts": 11.0, "args": {"Channel": 0, "Peer": 1, "transSize": 524288}},
{"name": "ScheduleSend", "cat": "PROXY", "ph": "e", "id": 1, "pid": 7, "tid": 1, "ts": 12.0},
{"name": "ProgressSend", "cat": "PROXY", "ph": "b", "id": 1, "pid": 7, "tid": 1, "ts": 12.0, "args": {"Channel": 0, "Peer": 1, "transSize": 524288}},
{"name": "SendWait", "cat": "NET", "ph": "b", "id": 4, "pid": 7, "tid": 1, "ts": 13.0, "args": {"Step": 0}},
{"name": "ProgressSend", "cat": "PROXY", "ph": "e", "id": 1, "pid": 7, "tid": 1, "ts": 112.0},
{"name": "ProgressSend", "cat": "PROXY", "ph": "b", "id": 2, "pid": 7, "tid": 1, "ts": 113.0, "args": {"Channel": 1, "Peer": 3, "transSize": 8}},
{}]"#;
        let Jobs { jobs, notes } = read("j", trace.as_bytes()).expect("a trace");
        let job = &jobs[0];
        assert_eq!((job.function.as_deref(), job.processes[&2]), (Some("AllReduce"), 7));
        let sent = |one: &Operation| {
            (one.iteration, one.source, one.destination, one.bytes, one.duration(), one.end.is_some())
        };
        let sent: Vec<_> = job.operations.iter().map(sent).collect();
        assert_eq!(sent, [(3, 2, Some(1), 524_288, Some(100.0), true), (3, 2, Some(3), 8, None, false)]);
        assert_eq!(notes.len(), 1, "an argument that is no JSON: {notes:?}");
    }

    #[test]
    fn flight_recorders_say_how_far_each_rank_came() {
        let dump = |done: u64, open: &str| {
            let entry = |number: u64, state: &str| {
                format!(
                    r#"{{"process_group":["0","default_pg"],"collective_seq_id":{number},"p2p_seq_id":0,"is_p2p":false,
                    "profiling_name":"nccl:all_reduce","input_sizes":[[3,4]],"input_dtypes":["Float"],"state":"{state}",
                    "duration_ms":1.5,"frames":[]}}"#
                )
            };
            let mut entries: Vec<String> = (1..=done).map(|number| entry(number, "completed")).collect();
            if !open.is_empty() {
                entries.push(entry(done + 1, open));
            }
            entries.push(entry(1, "completed").replace("\"is_p2p\":false", "\"is_p2p\":true"));
            format!(
                r#"{{"entries":[{}],"pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[0, 1, 2]"}}}},"version":"2.9"}}"#,
                entries.join(",")
            )
        };
        let mut reader = Reader::default();
        for (rank, (done, open)) in [(30, "started"), (30, ""), (30, "scheduled")].into_iter().enumerate() {
            reader.add(&format!("dumps/nccl_trace_rank_{rank}"), dump(done, open).as_bytes()).expect("a dump");
        }
        let Jobs { jobs, notes } = reader.finish().expect("three ranks");
        assert_eq!((jobs.len(), jobs[0].ranks, jobs[0].operations.len(), notes.len()), (1, Some(3), 92, 1));
        assert_eq!((jobs[0].operations[0].bytes, jobs[0].operations[0].duration()), (48, Some(1500.0)));
        let found = crate::job::diagnose(crate::job::JobQuestion::at_the_end(&jobs[0]));
        assert_eq!((found.verdict, found.rank), (crate::job::JobVerdict::Hang, vec![1]));
        let error = Reader::default().add("dump.json", dump(1, "").as_bytes()).expect_err("of nobody").to_string();
        assert!(error.contains("does not end in its rank"), "{error}");
    }
}
