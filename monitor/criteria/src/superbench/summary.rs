//! `results-summary.jsonl` as it is: a node's metrics, return codes and failures among them.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value;

/// Longest line. Units: bytes. Source: our choice; thousands of metrics are shorter.
const MAX_LINE: usize = 4 << 20;
/// Most nodes. Source: our choice.
const MOST_NODES: usize = 1 << 17;

/// What nodes measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// By node, its metrics that are numbers; of several lines of a node the last counts.
    pub nodes: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Why a summary was refused.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// A line is none.
    #[error("{file}:{line}: {why}; write {{\"node\": \"n1\", \"kernel-launch/return_code\": 0}}")]
    Line {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
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
}

#[derive(Deserialize)]
struct NodeLine {
    node: String,
    #[serde(flatten)]
    metrics: serde_json::Map<String, Value>,
}

impl Summary {
    /// Adds the lines of a file.
    ///
    /// # Errors
    /// Names file and line of the first mistake.
    pub fn add(&mut self, name: &str, file: &mut dyn BufRead) -> Result<(), SummaryError> {
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let refuse = |why: String| SummaryError::Line { file: name.to_owned(), line, why };
            let read = std::io::Read::take(&mut *file, MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
            if read.map_err(|source| SummaryError::Io { file: name.to_owned(), source })? == 0 {
                break;
            }
            if text.len() > MAX_LINE || self.nodes.len() > MOST_NODES {
                return Err(refuse(format!("more than {} MiB in a line, or {MOST_NODES} nodes", MAX_LINE >> 20)));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let NodeLine { node, metrics } =
                serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
            let numbers = metrics.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
            self.nodes.entry(node).or_default().extend(numbers);
        }
        Ok(())
    }
}
