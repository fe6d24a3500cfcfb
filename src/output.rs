//! How results look: text that stays quiet when its reader is gone, aligned tables, units. No decisions.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use serde::Serialize;

pub use kelpie_spaces::units::{percent, si};

use crate::safe_text::{clean, clean_json, outgoing};

/// Writes a document to stdout; nothing in it steers a terminal, whoever wrote it. A reader that went away early (`|
/// head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = outgoing(text, console::colors_enabled());
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("stdout"),
    }
}

/// The same for text that people read; a terminal shows lines that are too long for it wrapped between words.
pub fn print_prose(text: &str) -> anyhow::Result<()> {
    match console::Term::stdout().size_checked() {
        Some((_, columns)) => print(&wrapped(text, columns.into())),
        None => print(text),
    }
}

/// The text in lines of at most so many columns; what goes on stands two columns farther in.
fn wrapped(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        if console::measure_text_width(line) <= columns {
            return line.to_owned() + "\n";
        }
        let indent = line.len() - line.trim_start().len();
        let further = " ".repeat(indent + 2);
        textwrap::fill(
            line,
            textwrap::Options::new(columns)
                .subsequent_indent(&further)
                // A name with a hyphen is to be copied as it is.
                .word_splitter(textwrap::WordSplitter::NoHyphenation),
        ) + "\n"
    };
    text.lines().map(line).collect()
}

/// Writes one JSON document to stdout.
pub fn print_json<T: Serialize>(document: &T) -> anyhow::Result<()> {
    print(&(clean_json(serde_json::to_string_pretty(document)?) + "\n"))
}

/// Whether only errors are said.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on, [`note`] says errors only.
pub fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Whether only errors are said.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Writes a line to stderr; if that fails, nobody can read an error either.
pub fn note(line: &str) {
    if !is_quiet() || line.starts_with("error: ") {
        let _ = writeln!(io::stderr(), "{}", outgoing(line, console::colors_enabled_stderr()));
    }
}

/// stderr for the log, which quotes others.
pub struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(outgoing(&text, console::colors_enabled_stderr()).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Columns that line up; the first is flush left, those of `right` flush right.
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    right: &'static [usize],
}

impl Table {
    /// A table with its heading; `right` names the columns of numbers.
    pub fn new(heading: &[&str], right: &'static [usize]) -> Self {
        Self { heading: heading.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new(), right }
    }

    /// Adds a row; a cell is one line, whatever it says.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// Whether there is a heading only.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line behind `indent`.
    pub fn render(&self, indent: &str) -> String {
        self.rendered(indent, None)
    }

    /// The same in lines of at most `width` columns: cells are wrapped.
    pub fn render_within(&self, indent: &str, width: u16) -> String {
        self.rendered(indent, Some(width.saturating_sub(indent.len() as u16)))
    }

    fn rendered(&self, indent: &str, width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_header(&self.heading).add_rows(&self.rows);
        let mut least: Vec<u16> = Vec::new();
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            let padded = |index| self.longest_word(index).saturating_add(1 + u16::from(index != 0));
            least = (0..self.heading.len()).map(padded).collect();
            // No word is broken if there is room for all.
            if least.iter().map(|least| usize::from(*least)).sum::<usize>() > usize::from(width) {
                least.clear();
            }
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((u16::from(index != 0), 1));
            if let Some(least) = least.get(index) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*least)));
            }
            if self.right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for (index, line) in table.lines().enumerate() {
            let line = format!("{indent}{}", line.trim_end());
            let line = if index == 0 { console::style(line).dim().to_string() } else { line };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// Units: columns of a terminal.
    fn longest_word(&self, index: usize) -> u16 {
        let cells = self.rows.iter().chain([&self.heading]).filter_map(|row| row.get(index));
        let words = cells.flat_map(|cell| cell.split(' ')).map(console::measure_text_width);
        words.max().unwrap_or(0).try_into().unwrap_or(u16::MAX)
    }
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Columns that lines may take: those of the terminal, else so many that a log can be read; never more.
pub fn width() -> u16 {
    /// Source: our choice, because longer lines are hard to read.
    const MOST: u16 = 100;
    console::Term::stdout().size_checked().map_or(MOST, |(_, columns)| columns.min(MOST))
}

/// A time in four figures, such as `12.3 us`.
///
/// Units: nanoseconds.
pub fn time(nanos: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let nanos = nanos as f64;
    // As in `si`: by what rounding would make of it.
    match UNITS.iter().find(|(scale, _)| nanos >= scale * 0.99995) {
        Some((scale, unit)) => format!("{:.1} {unit}", nanos / scale),
        None => format!("{nanos:.0} ns"),
    }
}

/// `1 finding`, `2 findings`.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_farther_in() {
        let text = "  of 20 workloads 17 show it\nshort\n";
        assert_eq!(wrapped(text, 18), "  of 20 workloads\n    17 show it\nshort\n");
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn units_are_readable() {
        for (value, expected) in [
            (0.0, "0.0 "),
            (999.0, "999.0 "),
            (999_960.0, "1.0 M"),
            (1500.0, "1.5 k"),
            (187_340_000_000.0, "187.3 G"),
            (2e12, "2.0 T"),
        ] {
            assert_eq!(si(value), expected);
        }
        assert_eq!(percent(0.1234), "12.34 %");
        assert_eq!((plural(1, "finding"), plural(0, "finding")), ("1 finding".to_owned(), "0 findings".to_owned()));
    }

    #[test]
    fn times_are_readable() {
        for (nanos, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 us"),
            (20_480, "20.5 us"),
            (999_940, "999.9 us"),
            (999_960, "1.0 ms"),
            (20_000_000, "20.0 ms"),
            (60_000_000_000, "60.0 s"),
        ] {
            assert_eq!(time(nanos), expected);
        }
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["id", "count"], &[1]);
        table.row(vec!["long name".to_owned(), "7".to_owned()]);
        table.row(vec!["x".to_owned(), "1000".to_owned()]);
        assert_eq!(table.render("  "), "  id         count\n  long name      7\n  x           1000\n");
    }
}
