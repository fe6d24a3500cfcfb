//! Results of checks on nodes, grouped by metric as they are read: JSON lines of ours, and SuperBench's
//! `results-summary.jsonl`, whose lines have a node and all its metrics.

use std::collections::HashMap;
use std::io::BufRead;

use serde::{Deserialize, Serialize};

use crate::names::full_name;

/// Longest line. Units: bytes. Source: our choice; a series of 100,000 values is shorter.
const MAX_LINE: usize = 4 << 20;
/// Most values in all. Source: our choice: 3,000 nodes with 2,441 metrics of 10 values are 73 million.
const MAX_VALUES: usize = 1 << 28;
/// Longest name. Units: bytes. Source: our choice.
const MAX_NAME: usize = 512;

/// Whether more of a metric is better, or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughput.
    #[default]
    Higher,
    /// Latency.
    Lower,
}

/// What a metric is measured in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Direction {
    /// As people write it; empty if nobody did.
    #[serde(default)]
    pub unit: String,
    /// Which way is better.
    #[serde(default)]
    pub better: Better,
}

/// A line.
#[derive(Debug, Deserialize)]
pub(crate) struct ResultLine {
    pub(crate) node: String,
    pub(crate) metric: String,
    /// Of several equal parts of a node, which one: each has a criterion of its own.
    #[serde(default)]
    pub(crate) component: Option<String>,
    #[serde(flatten)]
    direction: Direction,
    pub(crate) samples: Vec<f64>,
}

/// A line of SuperBench: a node, and a number or a word for each metric. Source: its documentation of results,
/// <https://microsoft.github.io/superbenchmark/docs/user-tutorial/result-summary>.
#[derive(Debug, Deserialize)]
struct SummaryLine {
    node: String,
    #[serde(flatten)]
    metrics: serde_json::Map<String, serde_json::Value>,
}

/// What the exit status of a benchmark is called there: no measurement.
const RETURN_CODE: &str = "/return_code";

/// What all nodes measured of one metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricResults {
    /// Its unit and which way is better.
    pub direction: Direction,
    /// Node, and where its values end; they are in ascending order. In order of the nodes.
    nodes: Vec<(u32, usize)>,
    values: Vec<f64>,
}

impl MetricResults {
    /// Each node by its number, and its values in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = (u32, &[f64])> {
        let begins = std::iter::once(0).chain(self.nodes.iter().map(|(_, end)| *end));
        self.nodes.iter().zip(begins).map(|((node, end), begin)| (*node, &self.values[begin..*end]))
    }

    /// Puts nodes in order, each once, with all its values in order.
    fn settle(&mut self) {
        let mut pieces: Vec<(u32, Vec<f64>)> = self.nodes().map(|(node, values)| (node, values.to_vec())).collect();
        pieces.sort_by_key(|(node, _)| *node);
        pieces.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                first.1.append(&mut later.1);
            }
            is_same
        });
        (self.nodes, self.values) = (Vec::with_capacity(pieces.len()), Vec::with_capacity(self.values.len()));
        for (node, mut values) in pieces {
            values.sort_by(f64::total_cmp);
            self.values.append(&mut values);
            self.nodes.push((node, self.values.len()));
        }
    }
}

/// What all nodes measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Results {
    /// Names of nodes, in order of their numbers, which is that of the names.
    pub nodes: Vec<String>,
    /// Metrics by name, in order.
    pub metrics: Vec<(String, MetricResults)>,
}

/// Why results were refused.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A line breaks a rule.
    #[error("{file}:{line}: {rule}")]
    Line {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        rule: String,
    },
    /// The file cannot be read.
    #[error("{file}")]
    Io {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error(
        "no result: write JSON lines such as {{\"node\": \"n1\", \"metric\": \"loopback_write\", \"samples\": [23.7]}}"
    )]
    Empty,
}

/// Takes results file by file.
#[derive(Debug, Default)]
pub struct ResultsReader {
    nodes: HashMap<String, u32>,
    metrics: HashMap<String, MetricResults>,
    values: usize,
    notes: Vec<String>,
}

impl Results {
    /// Reads JSON lines of several files, named for errors.
    ///
    /// # Errors
    /// Names file and line of the first mistake.
    pub fn read<'f>(files: impl IntoIterator<Item = (&'f str, &'f mut dyn BufRead)>) -> Result<Self, ResultsError> {
        let mut reader = ResultsReader::default();
        for (name, file) in files {
            reader.add(name, file)?;
        }
        reader.finish()
    }
}

impl ResultsReader {
    /// Takes the lines of a file.
    ///
    /// # Errors
    /// Names file and line of the first mistake.
    pub fn add(&mut self, name: &str, file: &mut dyn BufRead) -> Result<(), ResultsError> {
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let refuse = |rule: String| ResultsError::Line { file: name.to_owned(), line, rule };
            let io = |source| ResultsError::Io { file: name.to_owned(), source };
            let count =
                std::io::Read::take(&mut *file, MAX_LINE as u64 + 1).read_until(b'\n', &mut text).map_err(io)?;
            if count == 0 {
                return Ok(());
            }
            if text.len() > MAX_LINE {
                return Err(refuse(format!("longer than {} MiB", MAX_LINE >> 20)));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let read = match serde_json::from_slice::<ResultLine>(&text) {
                Ok(read) => self.take(read),
                Err(error) => match serde_json::from_slice::<SummaryLine>(&text) {
                    Ok(summary)
                        if !summary.metrics.contains_key("metric") && !summary.metrics.contains_key("samples") =>
                    {
                        self.take_summary(summary)
                    }
                    _ => Err(error.to_string().split(" at line ").next().unwrap_or_default().to_owned()),
                },
            };
            read.map_err(refuse)?;
        }
        Ok(())
    }

    /// A benchmark that failed is no result, and neither is a number below zero, by which SuperBench says the same.
    fn take_summary(&mut self, SummaryLine { node, metrics }: SummaryLine) -> Result<(), String> {
        let mut failed = Vec::new();
        let mut taken = 0;
        for (metric, value) in metrics {
            let Some(value) = value.as_f64() else { continue };
            if let Some(benchmark) = metric.split(':').next().and_then(|name| name.strip_suffix(RETURN_CODE)) {
                if value != 0.0 {
                    failed.push(benchmark.to_owned());
                }
            } else if value >= 0.0 {
                let (component, direction, samples) = (None, Direction::default(), vec![value]);
                self.take(ResultLine { node: node.clone(), metric, component, direction, samples })?;
                taken += 1;
            } else {
                failed.push(metric);
            }
        }
        if !failed.is_empty() {
            self.notes.push(format!("{node}: no result of {}, which failed", failed.join(", ")));
        }
        if taken == 0 && failed.is_empty() {
            return Err("no number in it: write a node and its metrics".to_owned());
        }
        Ok(())
    }

    /// Takes what a node measured of a metric.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn push(
        &mut self,
        node: &str,
        metric: &str,
        component: Option<&str>,
        direction: &Direction,
        samples: &[f64],
    ) -> Result<(), String> {
        self.take(ResultLine {
            node: node.to_owned(),
            metric: metric.to_owned(),
            component: component.map(ToOwned::to_owned),
            direction: direction.clone(),
            samples: samples.to_vec(),
        })
    }

    /// What was left out, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn take(&mut self, line: ResultLine) -> Result<(), String> {
        let is_name = |text: &str| !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control);
        let ResultLine { node, metric, component, direction, samples } = line;
        if !is_name(&node) || !is_name(&metric) || !component.as_deref().is_none_or(is_name) {
            return Err(format!("names have 1 to {MAX_NAME} printable bytes"));
        }
        if samples.is_empty() {
            return Err("samples: write at least one value; leave out a check that did not run".to_owned());
        }
        if let Some(bad) = samples.iter().find(|value| !(value.is_finite() && **value >= 0.0)) {
            return Err(format!("samples: {bad} is no measured value; write numbers from 0"));
        }
        self.values += samples.len();
        if self.values > MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values in all"));
        }
        let metric = full_name(&metric, component.as_deref().unwrap_or_default());
        let next = self.nodes.len() as u32;
        let node = *self.nodes.entry(node).or_insert(next);
        let results = self
            .metrics
            .entry(metric.clone())
            .or_insert_with(|| MetricResults { direction: direction.clone(), ..MetricResults::default() });
        if results.direction != direction {
            let Direction { unit, better } = &results.direction;
            return Err(format!("{metric} is in `{unit}` with {better:?} better elsewhere").to_lowercase());
        }
        results.values.extend(samples);
        results.nodes.push((node, results.values.len()));
        Ok(())
    }

    /// All of it, in order of the names.
    ///
    /// # Errors
    /// There was nothing.
    pub fn finish(self) -> Result<Results, ResultsError> {
        if self.metrics.is_empty() {
            return Err(ResultsError::Empty);
        }
        let mut nodes: Vec<(String, u32)> = self.nodes.into_iter().collect();
        nodes.sort();
        let mut places = vec![0; nodes.len()];
        for (place, (_, number)) in nodes.iter().enumerate() {
            places[*number as usize] = place as u32;
        }
        let mut metrics: Vec<(String, MetricResults)> = self.metrics.into_iter().collect();
        metrics.sort_by(|one, other| one.0.cmp(&other.0));
        for (_, results) in &mut metrics {
            results.nodes.iter_mut().for_each(|(node, _)| *node = places[*node as usize]);
            results.settle();
        }
        Ok(Results { nodes: nodes.into_iter().map(|(name, _)| name).collect(), metrics })
    }
}
