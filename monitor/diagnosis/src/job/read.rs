//! Reads a file of a job's operations: CSV, JSON, NCCL Inspector's JSON, `matrix/1`. What they mean is elsewhere.

use indexmap::IndexMap;

use super::operation::{Job, Operation};
use super::record::{AnyRecord, Columns, MAX_RANK, MAX_RECORD, Record, check, shown};
use crate::matrix::{Matrix, MatrixError};

/// Most operations of a file. Source: our choice; at 64 bytes each they need 512 MiB.
const MAX_OPERATIONS: usize = 8 << 20;
/// Most communicators of a file. Source: our choice.
const MAX_COMMUNICATORS: usize = 65_536;

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
    /// Nothing to diagnose.
    #[error(
        "{file}: no operation in it; write CSV with the heading iteration,source,destination,bytes,begin,end,entered"
    )]
    Empty {
        /// Where it came from.
        file: String,
    },
}

/// Reads the jobs of a file, one per communicator. A last record that breaks off is left out, and the job says so.
///
/// # Errors
/// Names file and line of the first mistake.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Job>, JobError> {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(bytes.len());
    let jobs = match bytes.get(start) {
        None => return Err(JobError::Empty { file: file.to_owned() }),
        Some(b'[' | b'{') if is_matrix(&bytes[start..]) => vec![of_matrix(&Matrix::from_bytes(file, bytes)?)],
        Some(b'[' | b'{') => json(file, bytes)?,
        _ => vec![csv(file, bytes)?],
    };
    let mut jobs: Vec<Job> = jobs.into_iter().filter(|job| !job.operations.is_empty()).collect();
    if jobs.is_empty() {
        return Err(JobError::Empty { file: file.to_owned() });
    }
    for job in &mut jobs {
        job.operations.sort_by_key(|operation| operation.iteration);
    }
    Ok(jobs)
}

/// Whether JSON is of the format `matrix/1`: the tag is among its first keys.
fn is_matrix(text: &[u8]) -> bool {
    let head = &text[..text.len().min(4096)];
    head.starts_with(b"{") && head.windows(8).any(|window| window == b"\"kelpie\"")
}

fn of_matrix(matrix: &Matrix) -> Job {
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
    Job { operations, ..Job::default() }
}

fn csv(file: &str, bytes: &[u8]) -> Result<Job, JobError> {
    let refuse = |line: u64, problem: String| JobError::Record { file: file.to_owned(), line, problem };
    if let Some(line) = (0..).zip(bytes.split(|byte| *byte == b'\n')).find(|(_, text)| text.len() > MAX_RECORD) {
        // Each cell of it would be copied, and a file of zeroes is one cell.
        return Err(refuse(line.0 + 1, format!("a record of over {} MiB", MAX_RECORD >> 20)));
    }
    // Somebody may still be writing the last line.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::Headers).from_reader(bytes);
    let heading = reader.byte_headers().map_err(|error| refuse(1, shown(&error.to_string())))?.clone();
    let columns = Columns::of(&heading).map_err(|problem| refuse(1, problem))?;
    let mut job = Job::default();
    let mut record = csv::ByteRecord::new();
    loop {
        let at = reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {}
            Err(error) => return Err(refuse(at, shown(&error.to_string()))),
        }
        let line = record.position().map_or(at, csv::Position::line);
        let parsed = columns.operation(&record);
        let is_last = reader.position().byte() as usize > whole;
        match parsed {
            Ok(operation) if !is_last || columns.fit(&record) => push(&mut job, operation, file, line)?,
            Ok(_) => job.is_truncated = true,
            Err(_) if is_last => job.is_truncated = true,
            Err(problem) => return Err(refuse(line, problem)),
        }
    }
    Ok(job)
}

fn push(job: &mut Job, operation: Operation, file: &str, line: u64) -> Result<(), JobError> {
    let refuse = |problem: String| JobError::Record { file: file.to_owned(), line, problem };
    check(&operation).map_err(refuse)?;
    if job.operations.len() >= MAX_OPERATIONS {
        return Err(refuse(format!("more than {MAX_OPERATIONS} operations; give the latest iterations alone")));
    }
    job.operations.push(operation);
    Ok(())
}

/// An array of records, or records one after the other.
fn json(file: &str, bytes: &[u8]) -> Result<Vec<Job>, JobError> {
    let mut jobs: IndexMap<String, Job> = IndexMap::new();
    let refuse = |error: &serde_json::Error| JobError::Record {
        file: file.to_owned(),
        line: error.line() as u64,
        problem: shown(&error.to_string()),
    };
    let mut is_truncated = false;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let records: Vec<AnyRecord> = serde_json::from_slice(bytes).map_err(|error| refuse(&error))?;
        for (index, record) in records.into_iter().enumerate() {
            take(&mut jobs, record, file, index as u64 + 1)?;
        }
    } else {
        let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<AnyRecord>();
        let mut count = 0;
        while let Some(record) = stream.next() {
            count += 1;
            match record {
                Ok(record) => take(&mut jobs, record, file, count)?,
                Err(error) if error.is_eof() && count > 1 => is_truncated = true,
                Err(error) => {
                    let before = &bytes[..stream.byte_offset().min(bytes.len())];
                    let line = before.split(|byte| *byte == b'\n').count() as u64;
                    return Err(JobError::Record { file: file.to_owned(), line, problem: shown(&error.to_string()) });
                }
            }
        }
    }
    let mut jobs: Vec<Job> = jobs.into_values().collect();
    for job in &mut jobs {
        job.is_truncated = is_truncated;
    }
    Ok(jobs)
}

fn take(jobs: &mut IndexMap<String, Job>, record: AnyRecord, file: &str, line: u64) -> Result<(), JobError> {
    let refuse = |problem: String| JobError::Record { file: file.to_owned(), line, problem };
    let Some(Record { communicator, ranks, operation }) = record.record().map_err(refuse)? else { return Ok(()) };
    let key = communicator.clone().unwrap_or_default();
    if !jobs.contains_key(&key) && jobs.len() >= MAX_COMMUNICATORS {
        return Err(refuse(format!("more than {MAX_COMMUNICATORS} communicators")));
    }
    let job = jobs.entry(key).or_insert_with(|| Job { communicator, ranks, ..Job::default() });
    push(job, operation, file, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "iteration,source,destination,bytes,begin,end,entered\n0,0,1,1024,10,20.5,9\n0,1,0,1024,10,,9\n";

    #[test]
    fn csv_and_json_say_the_same() {
        let job = &read("j", CSV.as_bytes()).expect("it keeps the rules")[0];
        assert_eq!((job.operations[0].duration(), job.operations[1].duration()), (Some(10.5), None));
        let lines = r#"{"iteration":0,"source":0,"destination":1,"bytes":1024,"begin":10,"end":20.5,"entered":9}
{"iteration":0,"source":1,"destination":0,"bytes":1024,"begin":10,"end":null,"entered":9}"#;
        assert_eq!(&read("j", lines.as_bytes()).expect("it keeps the rules")[0], job);
        let list = format!("[{}]", lines.replace('\n', ","));
        assert_eq!(&read("j", list.as_bytes()).expect("it keeps the rules")[0], job);
        assert_eq!(job.iterations().map(<[Operation]>::len).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_last_record_that_breaks_off_is_left_out_and_said() {
        for end in ["0,1", "0,1,0,1024,10,7", "1,0,1,1024,10,2"] {
            let text = format!("{}{end}", &CSV[..CSV.len() - 17]);
            let job = &read("j", text.as_bytes()).expect("the rest is good")[0];
            assert_eq!((job.operations.len(), job.is_truncated), (1, true), "{text}");
        }
        let json = r#"{"iteration":0,"source":0,"destination":1,"end":20.5,"entered":9} {"iteration":0,"sou"#;
        let job = &read("j", json.as_bytes()).expect("the rest is good")[0];
        assert_eq!((job.operations.len(), job.is_truncated), (1, true));
    }

    #[test]
    fn inspector_has_a_job_per_communicator() {
        let text = r#"{"header":{"id":"0x7f","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"hostname":"h","dump_timestamp_us":1},
            "coll_perf":{"coll":"AllReduce","coll_sn":14,"coll_msg_size_bytes":17,"coll_exec_time_us":61974,"coll_busbw_gbs":4.5}}
            {"header":{"id":"0x80","rank":1,"n_ranks":2,"nnodes":1},"p2p_perf":{"p2p":"Recv","p2p_sn":3,"p2p_peer":0,
            "p2p_msg_size_bytes":8,"p2p_exec_time_us":5}}"#;
        let jobs = read("j", text.as_bytes()).expect("it keeps the rules");
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
            (&CSV.replace("20.5", "5"), "j:2: it ends at 5, before it begins at 10"),
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
}
