//! A measured row of a table. Reading tables is in `table`.

use crate::problem::MeasuredTarget;
use crate::traffic::Traffic;

/// What a row is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Parameters are fitted to it.
    Fit,
    /// It is held back and checks the fit.
    Check,
}

/// A measured row.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredRow {
    /// Line of the table, from 1.
    pub line: u64,
    /// The traffic.
    pub traffic: Traffic,
    /// What was measured.
    pub target: MeasuredTarget,
    /// What it is used for, if the table says so.
    pub used_for: Option<Use>,
}
