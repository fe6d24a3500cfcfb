//! What takes the rows of a table, whatever its format, and how that fails.

use std::fs::File;
use std::io;

use kelpie_store::StoreError;

use super::columns::ExportCell;

/// Why a campaign was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A Parquet file cannot be written.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// What takes rows.
pub trait Sheet {
    /// Takes a row: as many cells as there are columns.
    fn row(&mut self, cells: Vec<ExportCell>) -> Result<(), ExportError>;
    /// Writes what is left and gives the file back.
    fn finish(self: Box<Self>) -> Result<File, ExportError>;
}
