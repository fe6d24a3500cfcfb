//! Reads records of a job as they are written, piece by piece and in bounded memory. Files and windows are elsewhere.

use super::record::{AnyRecord, Columns, MAX_RECORD, Record, check, shown};

/// A record that could not be read, and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Line, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
}

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Not known yet.
    Unknown,
    Csv,
    Json,
}

/// What is known of a growing file so far.
#[derive(Debug, Clone)]
pub struct Follower {
    form: Form,
    columns: Option<Columns>,
    /// The begin of a record whose end is not written yet.
    rest: Vec<u8>,
    /// Whether what comes up to the next line's end belongs to a record that is too long.
    is_dropping: bool,
    line: u64,
}

impl Default for Follower {
    fn default() -> Self {
        Self { form: Form::Unknown, columns: None, rest: Vec::new(), is_dropping: false, line: 1 }
    }
}

impl Follower {
    /// One that goes on within a file of CSV with this heading.
    pub fn after(heading: &str) -> Self {
        let record: csv::ByteRecord = heading.split(',').map(str::as_bytes).collect::<Vec<_>>().into();
        let columns = Columns::of(&record).ok();
        let form = if columns.is_some() { Form::Csv } else { Form::Unknown };
        Self { form, columns, line: 2, ..Self::default() }
    }

    /// The heading, if it is CSV.
    pub fn heading(&self) -> Option<String> {
        self.columns.as_ref().map(Columns::heading)
    }

    /// Bytes that were taken and belong to a record that is not complete.
    pub fn pending(&self) -> usize {
        self.rest.len()
    }

    /// The file begins anew. A heading that was read holds on, in case the new one has none.
    pub fn restart(&mut self) {
        *self = Self { columns: self.columns.take(), ..Self::default() };
    }

    /// Takes what was written, and gives what is complete. What cannot be read is skipped up to the end of its line.
    ///
    /// # Errors
    /// Says why nothing of the file can be read: it has another form.
    pub fn take(&mut self, bytes: &[u8], mut give: impl FnMut(Result<Record, Skipped>)) -> Result<(), Skipped> {
        let bytes = self.undropped(bytes);
        self.rest.extend_from_slice(bytes);
        if self.form == Form::Unknown {
            self.form = match self.rest.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{') => Form::Json,
                Some(b'[') => {
                    let problem = "a list is complete only at its end: write one record after the other";
                    return Err(Skipped { line: self.line, problem: problem.to_owned() });
                }
                Some(_) => Form::Csv,
            };
        }
        let used = if self.form == Form::Csv { self.csv(&mut give)? } else { self.json(&mut give) };
        self.line += newlines(&self.rest[..used]);
        self.rest.drain(..used);
        if self.rest.len() > MAX_RECORD {
            give(Err(Skipped { line: self.line, problem: format!("a record of more than {MAX_RECORD} bytes") }));
            self.rest = Vec::new();
            self.is_dropping = true;
        }
        Ok(())
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

    fn csv(&mut self, give: &mut impl FnMut(Result<Record, Skipped>)) -> Result<usize, Skipped> {
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n').map(|end| end + 1) else { return Ok(0) };
        // No quotes: a quotation mark that is never closed would swallow all that follows.
        let mut builder = csv::ReaderBuilder::new();
        let builder = builder.has_headers(false).flexible(true).trim(csv::Trim::All).quoting(false);
        let mut reader = builder.from_reader(&self.rest[..end]);
        let mut record = csv::ByteRecord::new();
        let mut is_first = self.line == 1;
        while reader.read_byte_record(&mut record).unwrap_or(false) {
            let line = self.line + record.position().map_or(0, |at| at.line() - 1);
            if is_first || self.columns.is_none() {
                is_first = false;
                match (Columns::of(&record), &self.columns) {
                    (Ok(columns), _) => {
                        self.columns = Some(columns);
                        continue;
                    }
                    (Err(problem), None) => return Err(Skipped { line, problem }),
                    (Err(_), Some(_)) => {}
                }
            }
            let Some(columns) = &self.columns else { continue };
            let operation = if columns.fit(&record) {
                columns.operation(&record)
            } else {
                Err(format!("{} cells; the heading has another number", record.len()))
            };
            let operation = operation.and_then(|operation| check(&operation).map(|()| operation));
            give(match operation {
                Ok(operation) => Ok(Record { communicator: None, ranks: None, operation }),
                Err(problem) => Err(Skipped { line, problem }),
            });
        }
        Ok(end)
    }

    fn json(&self, give: &mut impl FnMut(Result<Record, Skipped>)) -> usize {
        let mut used = 0;
        loop {
            let mut stream = serde_json::Deserializer::from_slice(&self.rest[used..]).into_iter::<AnyRecord>();
            let begin = used;
            let mut broken = None;
            // After an error nothing more is asked: the stream would go on in the middle of a record.
            for record in stream.by_ref() {
                match record {
                    Ok(record) => match record.record().and_then(checked) {
                        Ok(Some(record)) => give(Ok(record)),
                        Ok(None) => {}
                        Err(problem) => give(Err(Skipped { line: self.line, problem })),
                    },
                    Err(error) => {
                        broken = (!error.is_eof()).then(|| shown(&error.to_string()));
                        break;
                    }
                }
            }
            used = begin + stream.byte_offset();
            let Some(problem) = broken else { return used };
            // The next record begins on the next line, if there is one.
            let Some(end) = self.rest[used..].iter().position(|byte| *byte == b'\n') else { return used };
            used += end + 1;
            give(Err(Skipped { line: self.line + newlines(&self.rest[..used]) - 1, problem }));
        }
    }
}

fn checked(record: Option<Record>) -> Result<Option<Record>, String> {
    record.map(|record| check(&record.operation).map(|()| record)).transpose()
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').count() as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "iteration,source,destination,end,begin\n1,0,1,9,2\n1,1,0,,2\n2,0,1,9.5,2\n";
    const JSON: &str = "{\"iteration\":1,\"source\":0,\"destination\":1,\"begin\":2,\"end\":9}\n{\"iteration\":1,\n\
        \"source\":1,\"destination\":0,\"begin\":2}{\"iteration\":2,\"source\":0,\"destination\":1,\"begin\":2,\"end\":9.5}";

    fn all(follower: &mut Follower, text: &[u8], step: usize) -> (Vec<Record>, Vec<Skipped>) {
        let (mut records, mut skipped) = (Vec::new(), Vec::new());
        for piece in text.chunks(step) {
            let give = |one| match one {
                Ok(record) => records.push(record),
                Err(one) => skipped.push(one),
            };
            follower.take(piece, give).expect("a form that is known");
        }
        (records, skipped)
    }

    #[test]
    fn pieces_of_any_size_give_the_same() {
        let whole = all(&mut Follower::default(), CSV.as_bytes(), CSV.len()).0;
        assert_eq!(whole.len(), 3);
        for text in [CSV, JSON] {
            for step in 1..40 {
                let mut follower = Follower::default();
                assert_eq!(all(&mut follower, text.as_bytes(), step), (whole.clone(), Vec::new()), "{text} by {step}");
                assert_eq!(follower.pending(), 0, "{text} by {step}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_named_by_its_line() {
        let csv = CSV.replace("1,1,0,,2", "1,\"1,0,,2\n1,1,0\n1,1,0,1,2");
        let (records, skipped) = all(&mut Follower::default(), csv.as_bytes(), 7);
        assert_eq!(records.len(), 2);
        assert_eq!(skipped.iter().map(|one| one.line).collect::<Vec<_>>(), [3, 4, 5], "{skipped:?}");
        let json = format!("{{\"iteration\":true}}\n{{\"it\n{{}}\n{JSON}");
        let (records, skipped) = all(&mut Follower::default(), json.as_bytes(), 5);
        assert_eq!((records.len(), skipped.len()), (3, 3), "{skipped:?}");
    }

    #[test]
    fn another_form_is_an_error_and_a_long_record_takes_no_memory() {
        let wrong = |text: &str| Follower::default().take(text.as_bytes(), |_| ()).expect_err("another form").problem;
        assert!(wrong("[{}]").contains("one record after the other"));
        assert!(wrong("a,b\n").contains("no column `iteration`"));
        let mut follower = Follower::default();
        let mut long = CSV.as_bytes().to_vec();
        long.extend(std::iter::repeat_n(b'7', 5 * MAX_RECORD));
        long.extend(b"\n3,0,1,9,2\n");
        let (records, skipped) = all(&mut follower, &long, 4096);
        assert_eq!((records.len(), skipped.len()), (4, 1), "{skipped:?}");
        assert!(follower.rest.capacity() < 3 * MAX_RECORD);
    }

    #[test]
    fn a_file_that_begins_anew_may_leave_its_heading_out() {
        let mut follower = Follower::default();
        all(&mut follower, CSV.as_bytes(), 9);
        follower.restart();
        assert_eq!(all(&mut follower, b"5,0,1,9,2\n", 3).0.len(), 1);
        follower.restart();
        assert_eq!(all(&mut follower, CSV.as_bytes(), 3).0.len(), 3);
    }
}
