//! The columns of both tables, and the cells of a row: the only place that knows what an export holds.

use kelpie_monitor::{Bounds, Severity};
use kelpie_spaces::{Feature, FeatureValue, Host, Workload};
use kelpie_store::{Ended, Experiment, ExperimentOutcome};

use crate::explained::Weighed;
use crate::wording;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A whole number.
    Count,
    /// A real number.
    Real,
    /// Text.
    Text,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportColumn {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
    /// What they mean, with their unit.
    pub meaning: String,
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportCell {
    /// Nothing is known.
    Missing,
    /// A whole number.
    Count(u64),
    /// A real number.
    Real(f64),
    /// Text.
    Text(String),
}

impl ExportCell {
    fn of<T: Into<ExportCell>>(value: Option<T>) -> ExportCell {
        value.map_or(ExportCell::Missing, T::into)
    }
}

impl From<u64> for ExportCell {
    fn from(count: u64) -> Self {
        ExportCell::Count(count)
    }
}

impl From<f64> for ExportCell {
    fn from(real: f64) -> Self {
        ExportCell::Real(real)
    }
}

impl From<String> for ExportCell {
    fn from(text: String) -> Self {
        ExportCell::Text(text)
    }
}

impl From<FeatureValue> for ExportCell {
    fn from(value: FeatureValue) -> Self {
        match value {
            FeatureValue::Number(number) => ExportCell::Count(number),
            FeatureValue::Category(word) => ExportCell::Text(word),
        }
    }
}

fn column(name: &str, kind: ColumnKind, meaning: &str) -> ExportColumn {
    ExportColumn { name: name.to_owned(), kind, meaning: meaning.to_owned() }
}

fn severity_columns() -> [ExportColumn; 2] {
    [
        column("port_lost", ColumnKind::Real, "how far the worst direction falls short of its bound, 0 to 1"),
        column("pause_ratio", ColumnKind::Real, "longest share of the time in which a port was paused, 0 to 1"),
    ]
}

fn severity_cells(severity: Option<Severity>) -> [ExportCell; 2] {
    [ExportCell::of(severity.map(|some| some.port_lost)), ExportCell::of(severity.map(|some| some.pause_ratio))]
}

/// Features of a workload, then the workload itself as JSON (`workload/1`).
fn workload_columns() -> impl Iterator<Item = ExportColumn> {
    let features = Feature::ALL.into_iter().map(|feature| {
        let kind = if feature.is_ordered() { ColumnKind::Count } else { ColumnKind::Text };
        column(feature.name(), kind, feature.phrase())
    });
    features.chain([column("workload", ColumnKind::Text, "the workload (workload/1) as JSON")])
}

fn workload_cells(workload: &Workload) -> impl Iterator<Item = ExportCell> {
    let features = Feature::ALL.into_iter().map(|feature| workload.feature(feature).into());
    let whole = serde_json::to_string(workload).expect("a workload is JSON");
    features.chain([ExportCell::Text(whole)])
}

const WAYS: [(Host, Host, &str); 4] = [
    (Host::A, Host::B, "a_to_b"),
    (Host::B, Host::A, "b_to_a"),
    (Host::A, Host::A, "a_to_a"),
    (Host::B, Host::B, "b_to_b"),
];

/// The columns of `experiments`.
pub fn experiments() -> Vec<ExportColumn> {
    let mut columns = vec![
        column("number", ColumnKind::Count, "number of the experiment in its campaign, from 1"),
        column("purpose", ColumnKind::Text, "what the search asked for"),
        column("skipped_before", ColumnKind::Count, "workloads skipped since the experiment before"),
        column("verdict", ColumnKind::Text, "healthy, anomalous, inconclusive, or unsupported"),
        column("symptoms", ColumnKind::Text, "pause, low_throughput, or both with + between"),
        column("reason", ColumnKind::Text, "why it is inconclusive or unsupported"),
        column("attempts", ColumnKind::Count, "how often it was measured"),
    ];
    columns.extend(severity_columns());
    for (_, _, way) in WAYS {
        columns.push(column(&format!("goodput_{way}_bps"), ColumnKind::Real, "delivered payload, bits/s"));
        columns.push(column(&format!("messages_{way}_per_sec"), ColumnKind::Real, "completed messages, messages/s"));
    }
    columns.extend(workload_columns());
    columns
}

/// The row of an experiment.
pub fn experiment_row(experiment: &Experiment, bounds: &Bounds) -> Vec<ExportCell> {
    let Experiment { number, purpose, skipped_before, workload, outcome } = experiment;
    let word = |word: &str| ExportCell::Text(word.to_owned());
    let mut row = vec![ExportCell::Count(*number), word(purpose.name()), ExportCell::Count(*skipped_before)];
    let mean = match outcome {
        ExperimentOutcome::Measured { measurement, assessment, attempts } => {
            let symptoms: Vec<&str> = assessment.symptoms.iter().map(|symptom| symptom.name()).collect();
            let reason = assessment.inconclusive.as_ref().map(ToString::to_string);
            let verdict = wording::ended(Ended::Judged(assessment.verdict));
            row.extend([word(verdict), word(&symptoms.join("+")), ExportCell::of(reason)]);
            row.push(ExportCell::Count(u64::from(*attempts)));
            row.extend(severity_cells(Severity::of(workload, bounds, measurement)));
            measurement.mean()
        }
        ExperimentOutcome::Unsupported { reason } => {
            row.extend([word(wording::ended(Ended::Unsupported)), word(""), word(reason)]);
            row.extend([ExportCell::Missing, ExportCell::Missing, ExportCell::Missing]);
            None
        }
    };
    for (from, to, _) in WAYS {
        let rates = mean.as_ref().and_then(|mean| mean.direction(from, to));
        row.extend([
            ExportCell::of(rates.map(|rates| rates.goodput_bps)),
            ExportCell::of(rates.map(|rates| rates.messages_per_sec)),
        ]);
    }
    row.extend(workload_cells(workload));
    row
}

/// The columns of `findings`.
pub fn findings() -> Vec<ExportColumn> {
    let mut columns = vec![
        column("number", ColumnKind::Count, "number of the finding in its campaign, from 1"),
        column("symptom", ColumnKind::Text, "pause or low_throughput"),
        column("found_at", ColumnKind::Count, "number of the experiment that first showed it"),
        column("experiments_for_mfs", ColumnKind::Count, "experiments that its reduction took"),
        column("confidence", ColumnKind::Real, "how sure the validation is, 0 to 1"),
        column("conditions", ColumnKind::Text, "the minimal feature set in words"),
        column("mfs", ColumnKind::Text, "the minimal feature set as JSON"),
    ];
    columns.extend(severity_columns());
    columns.extend(workload_columns());
    columns
}

/// The row of a finding.
pub fn finding_row(Weighed { finding, severity, .. }: &Weighed<'_>) -> Vec<ExportCell> {
    let mfs = serde_json::to_string(&finding.mfs.conditions).expect("conditions are JSON");
    let mut row = vec![
        ExportCell::Count(finding.number),
        ExportCell::Text(finding.symptom.name().to_owned()),
        ExportCell::Count(finding.found_at),
        ExportCell::Count(finding.experiments_for_mfs),
        ExportCell::Real(finding.confidence),
        ExportCell::Text(finding.mfs.to_string()),
        ExportCell::Text(mfs),
    ];
    row.extend(severity_cells(*severity));
    row.extend(workload_cells(&finding.workload));
    row
}
