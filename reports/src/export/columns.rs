//! The columns of both tables, and the cells of a row: the only place that knows what an export holds.

use kelpie_monitor::{Bounds, Severity};
use kelpie_spaces::{Feature, FeatureValue, Host, Workload};
use kelpie_store::{Ended, Experiment, Outcome};

use crate::explained::Weighed;
use crate::wording;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Count,
    /// A real number.
    Real,
    /// Text.
    Text,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// What they mean, with their unit.
    pub meaning: String,
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing is known.
    Missing,
    /// A whole number.
    Count(u64),
    /// A real number.
    Real(f64),
    /// Text.
    Text(String),
}

impl Cell {
    fn of<T: Into<Cell>>(value: Option<T>) -> Cell {
        value.map_or(Cell::Missing, T::into)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(real: f64) -> Self {
        Cell::Real(real)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<FeatureValue> for Cell {
    fn from(value: FeatureValue) -> Self {
        match value {
            FeatureValue::Number(number) => Cell::Count(number),
            FeatureValue::Category(word) => Cell::Text(word),
        }
    }
}

fn column(name: &str, kind: Kind, meaning: &str) -> Column {
    Column { name: name.to_owned(), kind, meaning: meaning.to_owned() }
}

fn severity_columns() -> [Column; 2] {
    [
        column("port_lost", Kind::Real, "how far the worst direction falls short of its bound, 0 to 1"),
        column("pause_ratio", Kind::Real, "longest share of the time in which a port was paused, 0 to 1"),
    ]
}

fn severity_cells(severity: Option<Severity>) -> [Cell; 2] {
    [Cell::of(severity.map(|some| some.port_lost)), Cell::of(severity.map(|some| some.pause_ratio))]
}

/// Features of a workload, then the workload itself as JSON (`workload/1`).
fn workload_columns() -> impl Iterator<Item = Column> {
    let features = Feature::ALL.into_iter().map(|feature| {
        let kind = if feature.is_ordered() { Kind::Count } else { Kind::Text };
        column(feature.name(), kind, feature.phrase())
    });
    features.chain([column("workload", Kind::Text, "the workload (workload/1) as JSON")])
}

fn workload_cells(workload: &Workload) -> impl Iterator<Item = Cell> {
    let features = Feature::ALL.into_iter().map(|feature| workload.feature(feature).into());
    let whole = serde_json::to_string(workload).expect("a workload is JSON");
    features.chain([Cell::Text(whole)])
}

const WAYS: [(Host, Host, &str); 4] = [
    (Host::A, Host::B, "a_to_b"),
    (Host::B, Host::A, "b_to_a"),
    (Host::A, Host::A, "a_to_a"),
    (Host::B, Host::B, "b_to_b"),
];

/// The columns of `experiments`.
pub fn experiments() -> Vec<Column> {
    let mut columns = vec![
        column("number", Kind::Count, "number of the experiment in its campaign, from 1"),
        column("purpose", Kind::Text, "what the search asked for"),
        column("skipped_before", Kind::Count, "workloads skipped since the experiment before"),
        column("verdict", Kind::Text, "healthy, anomalous, inconclusive, or unsupported"),
        column("symptoms", Kind::Text, "pause, low_throughput, or both with + between"),
        column("reason", Kind::Text, "why it is inconclusive or unsupported"),
        column("attempts", Kind::Count, "how often it was measured"),
    ];
    columns.extend(severity_columns());
    for (_, _, way) in WAYS {
        columns.push(column(&format!("goodput_{way}_bps"), Kind::Real, "delivered payload, bits/s"));
        columns.push(column(&format!("messages_{way}_per_sec"), Kind::Real, "completed messages, messages/s"));
    }
    columns.extend(workload_columns());
    columns
}

/// The row of an experiment.
pub fn experiment_row(experiment: &Experiment, bounds: &Bounds) -> Vec<Cell> {
    let Experiment { number, purpose, skipped_before, workload, outcome } = experiment;
    let word = |word: &str| Cell::Text(word.to_owned());
    let mut row = vec![Cell::Count(*number), word(purpose.name()), Cell::Count(*skipped_before)];
    let mean = match outcome {
        Outcome::Measured { measurement, assessment, attempts } => {
            let symptoms: Vec<&str> = assessment.symptoms.iter().map(|symptom| symptom.name()).collect();
            let reason = assessment.inconclusive.as_ref().map(ToString::to_string);
            let verdict = wording::ended(Ended::Judged(assessment.verdict));
            row.extend([word(verdict), word(&symptoms.join("+")), Cell::of(reason)]);
            row.push(Cell::Count(u64::from(*attempts)));
            row.extend(severity_cells(Severity::of(workload, bounds, measurement)));
            measurement.mean()
        }
        Outcome::Unsupported { reason } => {
            row.extend([word(wording::ended(Ended::Unsupported)), word(""), word(reason)]);
            row.extend([Cell::Missing, Cell::Missing, Cell::Missing]);
            None
        }
    };
    for (from, to, _) in WAYS {
        let rates = mean.as_ref().and_then(|mean| mean.direction(from, to));
        row.extend([
            Cell::of(rates.map(|rates| rates.goodput_bps)),
            Cell::of(rates.map(|rates| rates.messages_per_sec)),
        ]);
    }
    row.extend(workload_cells(workload));
    row
}

/// The columns of `findings`.
pub fn findings() -> Vec<Column> {
    let mut columns = vec![
        column("number", Kind::Count, "number of the finding in its campaign, from 1"),
        column("symptom", Kind::Text, "pause or low_throughput"),
        column("found_at", Kind::Count, "number of the experiment that first showed it"),
        column("experiments_for_mfs", Kind::Count, "experiments that its reduction took"),
        column("confidence", Kind::Real, "how sure the validation is, 0 to 1"),
        column("conditions", Kind::Text, "the minimal feature set in words"),
        column("mfs", Kind::Text, "the minimal feature set as JSON"),
    ];
    columns.extend(severity_columns());
    columns.extend(workload_columns());
    columns
}

/// The row of a finding.
pub fn finding_row(Weighed { finding, severity, .. }: &Weighed<'_>) -> Vec<Cell> {
    let mfs = serde_json::to_string(&finding.mfs.conditions).expect("conditions are JSON");
    let mut row = vec![
        Cell::Count(finding.number),
        Cell::Text(finding.symptom.name().to_owned()),
        Cell::Count(finding.found_at),
        Cell::Count(finding.experiments_for_mfs),
        Cell::Real(finding.confidence),
        Cell::Text(finding.mfs.to_string()),
        Cell::Text(mfs),
    ];
    row.extend(severity_cells(*severity));
    row.extend(workload_cells(&finding.workload));
    row
}
