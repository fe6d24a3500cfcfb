//! Reads records of a job as they are written, piece by piece and in bounded memory. Files and windows are elsewhere.

use super::record::{AnyRecord, Columns, MAX_RECORD, Marker, OperationRecord, Wrong, is_meant_for_a_record, shown};
use super::trace::Trace;

/// A record that could not be read, and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Line, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
    /// Whether another program wrote it, as far as can be told.
    pub is_foreign: bool,
    /// Whether it breaks off, or two were written into one another: whoever wrote it was ended, or two wrote one file.
    pub is_torn: bool,
}

impl Skipped {
    fn of(line: u64, wrong: Wrong) -> Self {
        Self { line, problem: wrong.problem, is_foreign: wrong.is_foreign, is_torn: wrong.is_torn }
    }
}

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordForm {
    /// Not known yet.
    Unknown,
    Csv,
    Json,
}

/// What is known of a growing file so far.
#[derive(Debug, Clone)]
pub struct RecordFollower {
    form: RecordForm,
    columns: Option<Columns>,
    /// Of whom the records of NCCL's Inspector are that do not say so themselves.
    marker: Option<Marker>,
    trace: Trace,
    /// The begin of a record whose end is not written yet.
    rest: Vec<u8>,
    /// Whether what comes up to the next line's end belongs to a record that is too long.
    is_dropping: bool,
    /// Whether nothing came yet, so that a mark of UTF-8 may.
    is_at_begin: bool,
    line: u64,
}

/// What editors and tables of Windows write before UTF-8.
pub const MARK: &[u8] = "\u{feff}".as_bytes();

impl Default for RecordFollower {
    fn default() -> Self {
        let (columns, marker, trace) = (None, None, Trace::default());
        Self {
            form: RecordForm::Unknown,
            columns,
            marker,
            trace,
            rest: Vec::new(),
            is_dropping: false,
            is_at_begin: true,
            line: 1,
        }
    }
}

impl RecordFollower {
    /// One that goes on within a file that began like this: a heading of CSV, or a marker of NCCL's Inspector.
    pub fn after(begin: &str) -> Self {
        if let Some(marker) = Marker::from_text(begin) {
            return Self {
                form: RecordForm::Json,
                marker: Some(marker),
                is_at_begin: false,
                line: 2,
                ..Self::default()
            };
        }
        let record: csv::ByteRecord = begin.split(',').map(str::as_bytes).collect::<Vec<_>>().into();
        let columns = Columns::of(&record).ok();
        let form = if columns.is_some() { RecordForm::Csv } else { RecordForm::Unknown };
        Self { form, columns, is_at_begin: false, line: 2, ..Self::default() }
    }

    /// What has to be known of what was read: the heading of CSV, or the marker of NCCL's Inspector.
    pub fn begin(&self) -> Option<String> {
        self.columns.as_ref().map(Columns::heading).or_else(|| self.marker.as_ref().map(Marker::text))
    }

    /// Bytes that were taken and belong to a record that is not complete.
    pub fn pending(&self) -> usize {
        self.rest.len()
    }

    /// The file begins anew. A heading that was read holds on, in case the new one has none.
    pub fn restart(&mut self) {
        let form = if self.columns.is_some() { RecordForm::Csv } else { RecordForm::Unknown };
        *self = Self { form, columns: self.columns.take(), ..Self::default() };
    }

    /// Takes what was written, and gives what is complete. What cannot be read is skipped up to the end of its line.
    pub fn take(&mut self, bytes: &[u8], mut give: impl FnMut(Result<OperationRecord, Skipped>)) {
        let bytes = self.undropped(bytes);
        self.rest.extend_from_slice(bytes);
        if self.is_at_begin && !self.rest.is_empty() {
            // A mark may come in pieces, too.
            if MARK.starts_with(&self.rest) && self.rest != MARK {
                return;
            }
            self.is_at_begin = false;
            if self.rest.starts_with(MARK) {
                self.rest.drain(..MARK.len());
            }
        }
        let mut used = 0;
        while self.form == RecordForm::Unknown {
            let begin = self.rest[used..].trim_ascii_start();
            if begin.strip_prefix(b"[").unwrap_or(begin).trim_ascii_start().starts_with(b"{") {
                self.form = RecordForm::Json;
                break;
            }
            let Some(end) = self.rest[used..].iter().position(|byte| *byte == b'\n') else { break };
            let line = &self.rest[used..used + end];
            if line.trim_ascii() == b"[" {
                break;
            }
            if !line.trim_ascii().is_empty() {
                let cells: csv::ByteRecord = line.trim_ascii().split(|byte| *byte == b',').collect::<Vec<_>>().into();
                match Columns::of(&cells) {
                    Ok(columns) => (self.columns, self.form) = (Some(columns), RecordForm::Csv),
                    Err(problem) => give(Err(Skipped { line: self.line, problem, is_foreign: true, is_torn: false })),
                }
            }
            self.line += 1;
            used += end + 1;
        }
        self.rest.drain(..used);
        let used = match self.form {
            RecordForm::Unknown => 0,
            RecordForm::Csv => self.csv(&mut give),
            RecordForm::Json => self.json(&mut give),
        };
        self.rest.drain(..used);
        if self.rest.len() > MAX_RECORD {
            let problem = format!("a record of over {} MiB", MAX_RECORD >> 20);
            give(Err(Skipped { line: self.line, problem, is_foreign: false, is_torn: false }));
            self.rest = Vec::new();
            self.is_dropping = true;
        }
    }

    /// The file ends here. Says what its last record lacks, if that breaks off.
    pub fn finish(&mut self, mut give: impl FnMut(Result<OperationRecord, Skipped>)) -> Option<Skipped> {
        let (mut last, line) = (None, self.line);
        let breaks_off =
            || serde_json::from_slice::<serde::de::IgnoredAny>(&self.rest).is_err_and(|error| error.is_eof());
        if self.form == RecordForm::Json && self.rest.trim_ascii_start().starts_with(b"{") && breaks_off() {
            let problem = "the file ends within it".to_owned();
            last = Some(Skipped { line, problem, is_foreign: false, is_torn: true });
        } else if !self.rest.trim_ascii().is_empty() {
            let is_csv = self.form == RecordForm::Csv;
            self.take(b"\n", |one| match one {
                Err(one) if !one.is_foreign || is_csv => last = Some(one),
                one => give(one),
            });
        }
        self.trace.finish().into_iter().for_each(|record| give(Ok(record)));
        last
    }

    /// What of `bytes` belongs to records that are not dropped.
    fn undropped<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if !self.is_dropping {
            return bytes;
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return &[] };
        self.is_dropping = false;
        self.line += 1;
        &bytes[end + 1..]
    }

    fn csv(&mut self, give: &mut impl FnMut(Result<OperationRecord, Skipped>)) -> usize {
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n').map(|end| end + 1) else { return 0 };
        // No quotes: a quotation mark that is never closed would swallow all that follows.
        let mut builder = csv::ReaderBuilder::new();
        let builder = builder.has_headers(false).flexible(true).quoting(false);
        let mut reader = builder.from_reader(&self.rest[..end]);
        let mut row = csv::ByteRecord::new();
        while reader.read_byte_record(&mut row).unwrap_or(false) {
            let line = self.line + row.position().map_or(0, |at| at.line() - 1);
            let Some(columns) = &self.columns else { break };
            match columns.record(&row) {
                Ok(record) => give(Ok(record)),
                // Files that were put together repeat their heading.
                Err(wrong) => match Columns::of(&row) {
                    Ok(columns) => self.columns = Some(columns),
                    Err(_) => give(Err(Skipped::of(line, wrong))),
                },
            }
        }
        self.line += newlines(&self.rest[..end]);
        end
    }

    /// Records one after the other, or a list of them.
    fn json(&mut self, give: &mut impl FnMut(Result<OperationRecord, Skipped>)) -> usize {
        let Self { rest, marker, trace, line, .. } = self;
        let mut used = 0;
        loop {
            let between = rest[used..].iter().position(|byte| !byte.is_ascii_whitespace() && !b"[],".contains(byte));
            let begin = used + between.unwrap_or(rest.len() - used);
            *line += newlines(&rest[used..begin]);
            used = begin;
            let line_end = || rest[begin..].iter().position(|byte| *byte == b'\n').map(|end| begin + end + 1);
            let mut stream = serde_json::Deserializer::from_slice(&rest[begin..]).into_iter::<AnyRecord>();
            let wrong = match (rest.get(begin), stream.next()) {
                (None, _) | (_, None) => return used,
                (Some(b'{'), Some(Ok(record))) => {
                    let end = begin + stream.byte_offset();
                    let found = match record.record(marker) {
                        Err(wrong) if wrong.is_foreign => trace.take(&rest[begin..end]).ok_or(wrong),
                        found => found,
                    };
                    match found {
                        Ok(record) => record.into_iter().for_each(|record| give(Ok(record))),
                        Err(wrong) => give(Err(Skipped::of(*line, wrong))),
                    }
                    *line += newlines(&rest[begin..end]);
                    used = end;
                    continue;
                }
                (Some(b'{'), Some(Err(error))) if error.is_eof() => return used,
                (Some(b'{'), Some(Err(error))) => {
                    let end = line_end().unwrap_or(rest.len());
                    let is_foreign = !is_meant_for_a_record(&rest[begin..end]);
                    let is_torn = error.is_syntax() && !is_foreign;
                    let problem = if is_torn { "it breaks off".to_owned() } else { shown(&error.to_string()) };
                    Wrong { problem, is_foreign, is_torn }
                }
                (Some(_), _) => Wrong { problem: "no JSON".to_owned(), is_foreign: true, is_torn: false },
            };
            // The next record begins on the next line, if there is one.
            let Some(end) = line_end() else { return used };
            give(Err(Skipped::of(*line, wrong)));
            *line += 1;
            used = end;
        }
    }
}

#[expect(clippy::naive_bytecount, reason = "reading the records takes longer")]
fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "iteration,source,destination,end,begin\n1,0,1,9,2\n1,1,0,,2\n2,0,1,9.5,2\n";
    const JSON: &str = "{\"iteration\":1,\"source\":0,\"destination\":1,\"begin\":2,\"end\":9}\n{\"iteration\":1,\n\
        \"source\":1,\"destination\":0,\"begin\":2}{\"iteration\":2,\"source\":0,\"destination\":1,\"begin\":2,\"end\":9.5}";

    fn all(follower: &mut RecordFollower, text: &[u8], step: usize) -> (Vec<OperationRecord>, Vec<Skipped>) {
        let (mut records, mut skipped) = (Vec::new(), Vec::new());
        for piece in text.chunks(step) {
            let give = |one| match one {
                Ok(record) => records.push(record),
                Err(one) => skipped.push(one),
            };
            follower.take(piece, give);
        }
        (records, skipped)
    }

    #[test]
    fn pieces_of_any_size_give_the_same() {
        let whole = all(&mut RecordFollower::default(), CSV.as_bytes(), CSV.len()).0;
        assert_eq!(whole.len(), 3);
        for text in [CSV, JSON, &format!("\u{feff}{CSV}"), &format!("\u{feff}{JSON}")] {
            for step in 1..40 {
                let mut follower = RecordFollower::default();
                assert_eq!(all(&mut follower, text.as_bytes(), step), (whole.clone(), Vec::new()), "{text} by {step}");
                assert_eq!(follower.pending(), 0, "{text} by {step}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_named_by_its_line() {
        let csv = CSV.replace("1,1,0,,2", "1,\"1,0,,2\n1,1,0\n1,1,,1,2");
        let (records, skipped) = all(&mut RecordFollower::default(), csv.as_bytes(), 7);
        assert_eq!(records.len(), 2);
        assert_eq!(skipped.iter().map(|one| one.line).collect::<Vec<_>>(), [3, 4, 5], "{skipped:?}");
        let json = format!("{{\"iteration\":true}}\n{{\"it\n{{}}\n{JSON}");
        let (records, skipped) = all(&mut RecordFollower::default(), json.as_bytes(), 5);
        assert_eq!((records.len(), skipped.len()), (3, 3), "{skipped:?}");
    }

    #[test]
    fn a_long_record_takes_no_memory() {
        let mut follower = RecordFollower::default();
        let mut long = CSV.as_bytes().to_vec();
        long.extend(std::iter::repeat_n(b'7', 5 * MAX_RECORD));
        long.extend(b"\n3,0,1,9,2\n");
        let (records, skipped) = all(&mut follower, &long, 4096);
        assert_eq!((records.len(), skipped.len()), (4, 1), "{skipped:?}");
        assert!(follower.rest.capacity() < 3 * MAX_RECORD);
    }

    #[test]
    fn a_file_that_begins_anew_may_leave_its_heading_out() {
        let mut follower = RecordFollower::default();
        all(&mut follower, CSV.as_bytes(), 9);
        follower.restart();
        assert_eq!(all(&mut follower, b"5,0,1,9,2\n", 3).0.len(), 1);
        follower.restart();
        assert_eq!(all(&mut follower, CSV.as_bytes(), 3).0.len(), 3);
    }
}
