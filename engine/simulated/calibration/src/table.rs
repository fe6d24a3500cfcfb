//! Reading and writing tables of measurements. What a cell may hold is in `columns`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;

use crate::columns::{self, COLUMNS, TableColumn, quoted};
use crate::error::{CalibrationError, MOST_MISTAKES, TableMistake};
use crate::plan::Planned;
use crate::problem::MeasuredTarget;
use crate::row::{MeasuredRow, Use};
use crate::traffic::{PAGE, Traffic, TrafficPattern};

/// Longest table. Units: bytes. Source: our choice, four hundred bytes for each of as many rows as there may be.
pub const MAX_BYTES: u64 = 4 << 20;
/// Most rows. Source: our choice, a hundred times those of a plan.
pub const MAX_ROWS: usize = 10_000;
/// Longest cell. Units: bytes. Source: our choice, above all numbers and words.
const MAX_CELL: usize = 100;
/// Rows that a fit needs at least. Source: our choice, because fewer say nothing of a NIC that its data sheet does not.
pub const LEAST_ROWS: usize = 8;
/// Ratio of rates of equal traffic from which on two rows contradict each other. Source: our choice, far above what
/// repeated measurements scatter.
pub const CONTRADICTS: f64 = 1.25;

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredTable {
    /// Rows that were measured.
    pub rows: Vec<MeasuredRow>,
    /// Lines of rows whose rate is empty.
    pub unmeasured: Vec<u64>,
}

/// Reads a table; `file` names it in errors.
///
/// # Errors
/// When it cannot be read, is too long, or holds what no NIC can be; all mistakes up to some, each with its line.
pub fn read(file: &str, reader: impl Read) -> Result<MeasuredTable, CalibrationError> {
    let refuse = |line, what| {
        let mistakes = vec![TableMistake { line, column: None, what }];
        CalibrationError::Table { file: file.to_owned(), mistakes }
    };
    let mut bytes = Vec::new();
    let read = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| CalibrationError::Read { file: file.to_owned(), source })?;
    let newlines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').count() as u64;
    if bytes.len() as u64 > MAX_BYTES {
        let what = format!("the table is longer than {} MiB; it may have {MAX_ROWS} rows", MAX_BYTES >> 20);
        return Err(refuse(newlines(&bytes), what));
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| refuse(newlines(&bytes[..error.valid_up_to()]), "this is no UTF-8 text".to_owned()))?;
    parse(text).map_err(|mistakes| CalibrationError::Table { file: file.to_owned(), mistakes })
}

fn parse(text: &str) -> Result<MeasuredTable, Vec<TableMistake>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_row = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut lines = text.lines().enumerate().map(|(at, line)| (at as u64 + 1, line)).filter(|(_, line)| is_row(line));
    let Some((line, heading)) = lines.next() else {
        let what = "the table is empty; `kelpie calibrate plan --csv` writes one to fill in".to_owned();
        return Err(vec![TableMistake { line: 1, column: None, what }]);
    };
    let heading = heading_of(line, heading)?;
    let (mut table, mut mistakes) = (MeasuredTable { rows: Vec::new(), unmeasured: Vec::new() }, Vec::new());
    for (count, (line, text)) in lines.enumerate() {
        if count == MAX_ROWS {
            let what = format!("this is row {}; a table may have {MAX_ROWS}", MAX_ROWS + 1);
            mistakes.push(TableMistake { line, column: None, what });
            break;
        }
        match row(line, &heading, text) {
            Ok(Some(row)) => table.rows.push(row),
            Ok(None) => table.unmeasured.push(line),
            Err(more) => mistakes.extend(more),
        }
        if mistakes.len() > MOST_MISTAKES {
            return Err(mistakes);
        }
    }
    mistakes.extend(contradictions(&table.rows));
    let fitted = table.rows.iter().filter(|row| row.used_for != Some(Use::Check)).count();
    if mistakes.is_empty() && fitted < LEAST_ROWS {
        let what = format!(
            "{fitted} measured rows to fit are too few: take at least {LEAST_ROWS}; `kelpie calibrate plan` says which"
        );
        mistakes.push(TableMistake { line, column: None, what });
    }
    if mistakes.is_empty() { Ok(table) } else { Err(mistakes) }
}

/// The cells of a line.
fn cells(line: u64, text: &str) -> Result<Vec<String>, TableMistake> {
    let refuse = |column, what: String| TableMistake { line, column, what };
    let mut reader = csv::ReaderBuilder::new();
    let mut reader =
        reader.has_headers(false).trim(csv::Trim::All).buffer_capacity(1 << 10).from_reader(text.as_bytes());
    let record = reader.records().next().ok_or_else(|| refuse(None, "no cells".to_owned()))?;
    let record = record.map_err(|error| refuse(None, error.to_string()))?;
    if let Some(long) = record.iter().position(|cell| cell.len() > MAX_CELL) {
        let what = format!("{} is longer than the {MAX_CELL} bytes of a cell", quoted(&record[long]));
        return Err(refuse(Some(long + 1), what));
    }
    Ok(record.iter().map(str::to_owned).collect())
}

fn heading_of(line: u64, text: &str) -> Result<Vec<TableColumn>, Vec<TableMistake>> {
    let names = cells(line, text).map_err(|mistake| vec![mistake])?;
    let (mut columns, mut mistakes) = (Vec::new(), Vec::new());
    for (at, name) in names.iter().enumerate() {
        let mut refuse = |what| mistakes.push(TableMistake { line, column: Some(at + 1), what });
        match TableColumn::named(name) {
            Ok(column) if columns.contains(&column) => refuse(format!("the column {name} stands here twice")),
            Ok(column) => columns.push(column),
            Err(what) => refuse(what),
        }
    }
    let has = |column| columns.contains(&column);
    for column in
        [TableColumn::Operation, TableColumn::Size, TableColumn::Qps].into_iter().filter(|column| !has(*column))
    {
        mistakes.push(TableMistake { line, column: None, what: format!("the column {} is missing", column.name()) });
    }
    if !has(TableColumn::Gbps) && !has(TableColumn::Mpps) {
        let what = "there is no column of rates: rate_gbps (goodput) or rate_mpps (messages)".to_owned();
        mistakes.push(TableMistake { line, column: None, what });
    }
    mistakes.truncate(MOST_MISTAKES);
    if mistakes.is_empty() { Ok(columns) } else { Err(mistakes) }
}

/// The cells of a row, with the mistakes that they hold.
struct RowCells<'a> {
    line: u64,
    heading: &'a [TableColumn],
    texts: Vec<String>,
    mistakes: Vec<TableMistake>,
}

impl RowCells<'_> {
    fn refuse(&mut self, column: TableColumn, what: &str) {
        let at = self.heading.iter().position(|other| *other == column).map(|at| at + 1);
        self.mistakes.push(TableMistake { line: self.line, column: at, what: format!("{}: {what}", column.name()) });
    }

    /// The value of a cell, if it is not empty; a mistake is noted.
    fn get<T>(&mut self, column: TableColumn, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let at = self.heading.iter().position(|other| *other == column)?;
        let cell = self.texts.get(at).filter(|cell| !cell.is_empty())?;
        read(cell).map_err(|what| self.refuse(column, &what)).ok()
    }

    /// The same of a cell that must not be empty.
    fn need<T>(&mut self, column: TableColumn, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let before = self.mistakes.len();
        let value = self.get(column, read);
        if value.is_none() && self.mistakes.len() == before {
            self.refuse(column, "this must not be empty");
        }
        value
    }

    fn traffic(&mut self) -> Option<Traffic> {
        let operation = self.need(TableColumn::Operation, columns::operation);
        let size = self.need(TableColumn::Size, |cell| columns::whole(cell, 1 << 31));
        let qps = self.need(TableColumn::Qps, columns::qps);
        let count = |cell: &str| columns::whole(cell, 1 << 20).map(|number| number as u32);
        let transport = self.get(TableColumn::Transport, columns::transport);
        let mtu = self.get(TableColumn::Mtu, columns::mtu);
        let [depth, batch, mrs] =
            [TableColumn::Depth, TableColumn::Batch, TableColumn::Mrs].map(|column| self.get(column, count));
        let mr_bytes = self.get(TableColumn::MrSize, |cell| columns::whole(cell, 1 << 40));
        let path = self.get(TableColumn::Directions, columns::directions);
        let cores = self.get(TableColumn::Cores, columns::cores);
        let plain = Traffic::new(operation?, size?, qps?);
        Some(Traffic {
            transport: transport.unwrap_or(plain.transport),
            mtu: mtu.unwrap_or(plain.mtu),
            depth: depth.unwrap_or(plain.depth),
            batch: batch.unwrap_or(plain.batch),
            mrs_per_qp: mrs.unwrap_or(plain.mrs_per_qp),
            mr_bytes: mr_bytes.unwrap_or_else(|| size.unwrap_or_default().max(PAGE)),
            path: path.unwrap_or(plain.path),
            cores,
            ..plain
        })
    }

    /// The rates; of traffic that cannot be read, too, so that all mistakes of a row are said.
    fn target(&mut self, traffic: Option<&Traffic>) -> Option<MeasuredTarget> {
        let ports = if traffic.is_none_or(|traffic| traffic.path == TrafficPattern::Both) { 2.0 } else { 1.0 };
        let before = self.mistakes.len();
        let gbps = self.get(TableColumn::Gbps, |cell| columns::gbps(cell, ports));
        let mpps = traffic
            .and_then(|traffic| self.get(TableColumn::Mpps, |cell| columns::mpps(cell, traffic.size_bytes, ports)));
        if gbps.is_some() && mpps.is_some() {
            self.refuse(TableColumn::Mpps, "rate_gbps is filled in too; write one of both");
        }
        let pause_ratio = self.get(TableColumn::Pause, columns::percent);
        let goodput_bps = gbps.or(mpps).filter(|_| self.mistakes.len() == before)?;
        Some(MeasuredTarget { goodput_bps, pause_ratio })
    }
}

/// A row; none if it was not measured.
fn row(line: u64, heading: &[TableColumn], text: &str) -> Result<Option<MeasuredRow>, Vec<TableMistake>> {
    let texts = cells(line, text).map_err(|mistake| vec![mistake])?;
    if texts.len() != heading.len() {
        let what = format!("{} cells under a heading of {}", texts.len(), heading.len());
        return Err(vec![TableMistake { line, column: None, what }]);
    }
    let mut cells = RowCells { line, heading, texts, mistakes: Vec::new() };
    let traffic = cells.traffic();
    let used_for = cells.get(TableColumn::Use, columns::used_for);
    let target = cells.target(traffic.as_ref());
    if let Some(Err(violation)) = traffic.as_ref().map(Traffic::workload) {
        cells.mistakes.push(TableMistake { line, column: None, what: violation.rule.to_string() });
    }
    match (traffic, target) {
        _ if !cells.mistakes.is_empty() => Err(cells.mistakes),
        (Some(traffic), Some(target)) => Ok(Some(MeasuredRow { line, traffic, target, used_for })),
        _ => Ok(None),
    }
}

/// Rows of equal traffic and unequal rates.
fn contradictions(rows: &[MeasuredRow]) -> Vec<TableMistake> {
    let mut first: BTreeMap<&Traffic, &MeasuredRow> = BTreeMap::new();
    let mut mistakes = Vec::new();
    for row in rows {
        let other = *first.entry(&row.traffic).or_insert(row);
        let ratio = row.target.goodput_bps / other.target.goodput_bps;
        if ratio.max(1.0 / ratio) > CONTRADICTS {
            let [a, b] = [row, other].map(|row| row.target.goodput_bps / 1e9);
            let what = format!(
                "{a:.4} Gbit/s contradict the {b:.4} of line {}, which has the same traffic: they differ by more than \
                 a factor of {CONTRADICTS}",
                other.line
            );
            mistakes.push(TableMistake { line: row.line, column: None, what });
        }
    }
    mistakes
}

/// The table of a plan; rates are empty if they were not measured.
pub fn write(planned: &[Planned], measured: &[Option<MeasuredTarget>]) -> String {
    let mut text = COLUMNS.map(|(_, name)| name).join(",") + "\n";
    for (at, Planned { traffic, determines }) in planned.iter().enumerate() {
        let target = measured.get(at).copied().flatten();
        let Traffic { operation, transport, size_bytes, qps, mtu, depth, batch, mrs_per_qp, mr_bytes, path, cores } =
            traffic;
        let cores = cores.map_or_else(String::new, |cores| cores.to_string());
        let rate = target.map_or_else(String::new, |target| format!("{:.6}", target.goodput_bps / 1e9));
        let pause = target.and_then(|target| target.pause_ratio);
        let pause = pause.map_or_else(String::new, |pause| format!("{:.3}", 100.0 * pause));
        let (mtu, path, used) = (mtu.bytes(), path.name(), if determines.is_empty() { "check" } else { "fit" });
        let _ = writeln!(
            text,
            "{operation},{transport},{size_bytes},{qps},{mtu},{depth},{batch},{mrs_per_qp},{mr_bytes},{path},{cores},\
             {rate},,{pause},{used}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use kelpie_sim::SimSubsystem;
    use kelpie_spaces::{Opcode, QpType};

    use super::*;
    use crate::plan::plan;

    const HEAD: &str = "operation,size_bytes,qps,rate_gbps,pause_percent\n";

    fn rows(count: usize) -> String {
        (0..count).map(|at| ["WRITE,", &(1 << at).to_string(), ",8,100,0\n"].concat()).collect()
    }

    fn mistakes(text: &str) -> String {
        read("t.csv", text.as_bytes()).expect_err(text).to_string()
    }

    #[test]
    fn rows_have_defaults_and_their_lines() {
        let text = format!("\u{feff}# my NIC\r\n\r\n{HEAD}# first\n{}read,4096,2,,\n", rows(8)).replace('\n', "\r\n");
        let table = read("t.csv", text.replace("\r\r", "\r").as_bytes()).expect("a table");
        assert_eq!(table.rows.len(), 8);
        assert_eq!((table.rows[0].line, table.rows[7].line, table.unmeasured), (5, 12, vec![13]));
        let MeasuredRow { traffic, target, .. } = &table.rows[3];
        assert_eq!((traffic.operation, traffic.transport, traffic.size_bytes), (Opcode::Write, QpType::Rc, 8));
        assert_eq!((traffic.depth, traffic.batch, traffic.mr_bytes), (128, 1, 4096));
        assert_eq!((target.goodput_bps, target.pause_ratio), (100e9, Some(0.0)));
    }

    #[test]
    fn mistakes_name_file_line_column_value_and_rule() {
        for (bad, expected) in [
            ("WRITE,0,8,100,0", "t.csv:10:2: size_bytes: `0` is no whole number"),
            ("WRITE,64KiB,8,100,0", "t.csv:10:2: size_bytes: `64KiB`"),
            ("WRITE,8,-3,100,0", "t.csv:10:3: qps: `-3`"),
            ("WRITE,8,8,NaN,0", "t.csv:10:4: rate_gbps: `NaN`"),
            ("WRITE,8,8,1e30,0", "t.csv:10:4: rate_gbps: `1e30` Gbit/s is more than any port"),
            ("WRITE,8,8,1,120", "t.csv:10:5: pause_percent: `120`"),
            ("PUSH,8,8,1,0", "t.csv:10:1: operation: `PUSH` is none of"),
            (",8,8,1,0", "t.csv:10:1: operation: this must not be empty"),
            ("WRITE,8,8", "t.csv:10: 3 cells under a heading of 5"),
            ("WRITE,4,8,126,0", "t.csv:10: 126.0000 Gbit/s contradict the 100.0000 of line 4"),
        ] {
            let error = mistakes(&format!("{HEAD}{}{bad}\n", rows(8)));
            assert!(error.starts_with(expected), "{error}\nnot {expected}");
        }
        let all = mistakes(&format!("{HEAD}{}PUSH,8,-3,NaN,120\n", rows(8)));
        for column in ["operation: `PUSH`", "qps: `-3`", "rate_gbps: `NaN`", "pause_percent: `120`"] {
            assert!(all.contains(column), "{all}");
        }
        let long = mistakes(&format!("{HEAD}{}WRITE,{},8,1,0\n", rows(8), "9".repeat(500)));
        assert!(long.starts_with("t.csv:10:2: `9999") && long.len() < 200, "{long}");
    }

    #[test]
    fn mistakes_come_together_up_to_some() {
        let error = mistakes(&format!("{HEAD}{}", "WRITE,0,0,0,0\n".repeat(30)));
        assert_eq!(error.lines().count(), MOST_MISTAKES + 1, "{error}");
        let error = mistakes("operation,size,qps,rate,colour\n");
        assert!(error.contains("t.csv:1:2") && error.contains("t.csv:1:4") && error.contains("t.csv:1:5"), "{error}");
    }

    #[test]
    fn tables_that_are_too_short_too_long_or_no_text_are_refused() {
        assert!(mistakes("").starts_with("t.csv:1: the table is empty"));
        assert!(mistakes(&format!("{HEAD}{}", rows(7))).contains("7 measured rows to fit are too few"));
        assert!(
            mistakes(&format!("{HEAD}{}", "WRITE,8,8,1,0\n".repeat(MAX_ROWS + 1))).contains("t.csv:10002: this is row")
        );
        let endless = std::io::repeat(b'\n');
        assert!(read("t.csv", endless).expect_err("endless").to_string().contains("longer than 4 MiB"));
        assert!(read("t.csv", &b"operation\n\xff\xfe"[..]).expect_err("bytes").to_string().starts_with("t.csv:2: "));
    }

    #[test]
    fn what_verbs_refuse_is_an_error_at_its_line() {
        let text = "operation,size_bytes,qps,transport,depth,batch,rate_mpps\nREAD,8,1,UC,16,1,1\nWRITE,8,1,,4,8,1\n";
        let error = mistakes(text);
        assert!(error.contains("t.csv:2: UC cannot READ") && error.contains("t.csv:3: a batch of 8"), "{error}");
    }

    #[test]
    fn a_plan_is_read_back_as_it_was_written() {
        let planned = plan(&SimSubsystem::load("F").expect("embedded"));
        let target = MeasuredTarget { goodput_bps: 1e9, pause_ratio: Some(0.25) };
        let empty = read("t.csv", write(&planned, &[]).as_bytes()).expect_err("nothing was measured").to_string();
        assert!(empty.contains("0 measured rows"), "{empty}");
        let text = write(&planned, &vec![Some(target); planned.len()]);
        let table = read("t.csv", text.as_bytes()).expect("a table");
        let traffic: Vec<&Traffic> = table.rows.iter().map(|row| &row.traffic).collect();
        assert_eq!(traffic, planned.iter().map(|row| &row.traffic).collect::<Vec<_>>());
        assert!(table.rows.iter().all(|row| row.target == target));
    }
}
