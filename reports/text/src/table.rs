//! Tables of text whose columns line up.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};

use crate::safe::clean;

/// Columns that line up; the first is flush left, those of `right` flush right.
#[derive(Debug)]
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

/// Columns that lines may take: those of the terminal, else so many that a log can be read; never more.
pub fn width() -> u16 {
    /// Source: our choice, because longer lines are hard to read.
    const MOST: u16 = 100;
    console::Term::stdout().size_checked().map_or(MOST, |(_, columns)| columns.min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["id", "count"], &[1]);
        table.row(vec!["long name".to_owned(), "7".to_owned()]);
        table.row(vec!["x".to_owned(), "1000".to_owned()]);
        assert_eq!(table.render("  "), "  id         count\n  long name      7\n  x           1000\n");
    }
}
