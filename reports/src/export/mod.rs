//! A campaign as tables for other programs: one row per experiment, one per finding, as CSV or Parquet.
//!
//! Both formats are written from the same columns. A row is written before the next is read, or in groups, so that a
//! campaign need not fit into memory.

mod columns;
mod csv;
mod parquet;
mod sheet;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use kelpie_store::{CampaignId, Store};

pub use columns::{ColumnKind, ExportColumn, experiments, findings};

use crate::explained::{self, Explained};
use crate::folder;
use columns::{experiment_row, finding_row};
pub use sheet::ExportError;
use sheet::Sheet;

/// How tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values (RFC 4180), UTF-8, with a line of names; what is missing is empty.
    Csv,
    /// Apache Parquet, compressed with Snappy; what is missing is null.
    Parquet,
}

impl ExportFormat {
    /// Every format.
    pub const ALL: [ExportFormat; 2] = [ExportFormat::Csv, ExportFormat::Parquet];

    /// Its name, which is also what names of its files end with.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Csv => "csv",
            ExportFormat::Parquet => "parquet",
        }
    }
}

fn sheet(file: File, format: ExportFormat, columns: &[ExportColumn]) -> Result<Box<dyn Sheet>, ExportError> {
    Ok(match format {
        ExportFormat::Csv => Box::new(csv::CsvSheet::new(file, columns)?),
        ExportFormat::Parquet => Box::new(parquet::ParquetSheet::new(file, columns)?),
    })
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Files, experiments first.
    pub files: Vec<PathBuf>,
    /// Rows of the experiments.
    pub experiments: u64,
    /// Rows of the findings.
    pub findings: u64,
}

/// Writes `experiments` and `findings` of a campaign into a new directory.
///
/// # Errors
/// The database cannot be read, or the directory is not empty or cannot be written; then nothing is left behind.
pub fn write(store: &mut Store, id: CampaignId, format: ExportFormat, out: &Path) -> Result<Exported, ExportError> {
    let bounds = store.campaign(id)?.definition.bounds;
    let name = |table: &str| format!("{table}.{}", format.name());
    let mut count = [0, 0];
    folder::write_with(out, |new| {
        let mut rows = sheet(File::create_new(new.join(name("experiments")))?, format, &experiments())?;
        let mut outcome = Ok(());
        store.experiments(id, |experiment| {
            if outcome.is_ok() {
                count[0] += 1;
                outcome = rows.row(experiment_row(&experiment, &bounds));
            }
        })?;
        outcome?;
        rows.finish()?.sync_all()?;
        let (all, anomalies) = explained::read(store, id)?;
        let mut rows = sheet(File::create_new(new.join(name("findings")))?, format, &findings())?;
        for found in Explained::new(&all, &anomalies).all() {
            count[1] += 1;
            rows.row(finding_row(found))?;
        }
        Ok::<(), ExportError>(rows.finish()?.sync_all()?)
    })?;
    let files = ["experiments", "findings"].map(|table| out.join(name(table))).into();
    Ok(Exported { files, experiments: count[0], findings: count[1] })
}
