//! Workloads as YAML, format `workload/1`: reading with the line of every mistake, and writing. Spaces are in
//! `space_yaml`.

use serde::Deserialize;

use crate::constraints;
use crate::document::{DocumentError, utf8};
use crate::tagged::read_tagged;
use crate::workload::{Flow, Workload};

/// Why a workload file was refused; the message names file, line, key and rule.
pub type WorkloadError = DocumentError;

/// Reads a workload and checks every rule.
///
/// # Errors
/// Names file, line, column, key and rule of each mistake; `source_name` stands for the file.
///
/// # Examples
/// ```
/// let error = kelpie_spaces::workload_from_yaml("w.yaml", "kelpie: workload/1\nflows: []\n").unwrap_err();
/// assert!(error.to_string().starts_with("w.yaml:2:8: flows: 0 entries; write 1 to 64\n"));
/// ```
pub fn workload_from_yaml(source_name: &str, text: &str) -> Result<Workload, WorkloadError> {
    let (document, WorkloadFile { flows }) = read_tagged(source_name, text, Workload::FORMAT)?;
    let workload = Workload::new(flows);
    document.refuse_all(constraints::violations(&workload).map(|violation| (violation.path, violation.rule)))?;
    Ok(workload)
}

/// What follows the tag.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    flows: Vec<Flow>,
}

/// As [`workload_from_yaml`], from bytes that may not be text.
///
/// # Errors
/// Also [`DocumentError::NotUtf8`] with the offset.
pub fn workload_from_bytes(source_name: &str, bytes: &[u8]) -> Result<Workload, WorkloadError> {
    workload_from_yaml(source_name, utf8(source_name, bytes)?)
}

/// Writes a workload; [`workload_from_yaml`] reads the same workload back.
pub fn workload_to_yaml(workload: &Workload) -> String {
    serde_yaml::to_string(workload).expect("a workload holds only text, numbers and lists, which YAML can write")
}
