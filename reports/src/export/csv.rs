//! Rows as CSV.

use std::fs::File;
use std::io;

use super::columns::{ExportCell, ExportColumn};
use super::sheet::ExportError;

/// A CSV file that is being written.
pub struct CsvSheet {
    writer: csv::Writer<File>,
}

impl CsvSheet {
    /// Writes the line of names.
    pub fn new(file: File, columns: &[ExportColumn]) -> Result<Self, ExportError> {
        let mut writer = csv::Writer::from_writer(file);
        writer.write_record(columns.iter().map(|column| &column.name)).map_err(io::Error::from)?;
        Ok(Self { writer })
    }
}

impl super::sheet::Sheet for CsvSheet {
    fn row(&mut self, cells: Vec<ExportCell>) -> Result<(), ExportError> {
        let texts = cells.into_iter().map(|cell| match cell {
            ExportCell::Missing => String::new(),
            ExportCell::Count(count) => count.to_string(),
            ExportCell::Real(real) => real.to_string(),
            ExportCell::Text(text) => text,
        });
        Ok(self.writer.write_record(texts).map_err(io::Error::from)?)
    }

    fn finish(self: Box<Self>) -> Result<File, ExportError> {
        Ok(self.writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?)
    }
}
