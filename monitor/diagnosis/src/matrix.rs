//! `matrix/1`: what was measured between the rows and the columns, read from JSON. What it means is elsewhere.

use kelpie_spaces::{DocumentError, from_json};
use serde::{Deserialize, Serialize};

use kelpie_monitor::statistics::median;

/// Tag of the format.
pub const FORMAT: &str = "matrix/1";
/// Most rows, and most columns. Source: our choice, because a file of 4096 x 4096 numbers is beyond the longest input.
pub const MAX_SIDE: usize = 4096;
/// Longest name. Units: characters.
const MAX_NAME: usize = 64;

/// Values, row by row; `None` where nothing was measured.
pub type Cells = Vec<Vec<Option<f64>>>;

/// A matrix of measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The format.
    pub kelpie: String,
    /// Names of the rows: the RNICs that sent, or the source ranks.
    pub rows: Vec<String>,
    /// Names of the columns: endpoints, or destination ranks.
    pub columns: Vec<String>,
    /// Bandwidth of large messages. Units: Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_gbps: Option<Cells>,
    /// Latency of small messages. Units: microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Cells>,
    /// Completion times between ranks. Units: microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_us: Option<Cells>,
    /// Rows that had other traffic meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<String>,
    /// Who measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_by: Option<String>,
    /// When, as its writer wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<String>,
}

/// Why a matrix was refused; always names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// No JSON, or not of this shape; the text names line and key.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// A value that breaks a rule.
    #[error("{file}: {key}: {rule}")]
    Key {
        /// Where it came from.
        file: String,
        /// Path of the key.
        key: String,
        /// The rule.
        rule: String,
    },
}

impl Matrix {
    /// Reads a matrix and checks it.
    ///
    /// # Errors
    /// Names file, line or key, and rule of the first mistake.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, MatrixError> {
        let matrix: Self = from_json(file, bytes)?;
        matrix.check().map_err(|(key, rule)| MatrixError::Key { file: file.to_owned(), key, rule })?;
        Ok(matrix)
    }

    fn check(&self) -> Result<(), (String, String)> {
        if self.kelpie != FORMAT {
            return Err(("kelpie".to_owned(), format!("this is format `{}`; write \"{FORMAT}\"", shown(&self.kelpie))));
        }
        for (key, names) in [("rows", &self.rows), ("columns", &self.columns)] {
            if !(1..=MAX_SIDE).contains(&names.len()) {
                return Err((key.to_owned(), format!("{} entries; write 1 to {MAX_SIDE}", names.len())));
            }
            let mut seen = std::collections::HashSet::new();
            for (index, name) in names.iter().enumerate() {
                let at = format!("{key}[{index}]");
                if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
                    return Err((at, format!("a name has 1 to {MAX_NAME} characters, none of them control")));
                }
                if !seen.insert(name) {
                    return Err((at, format!("`{name}` is there twice")));
                }
            }
        }
        for (index, name) in self.busy.iter().enumerate() {
            if !self.rows.contains(name) {
                return Err((format!("busy[{index}]"), format!("no row `{}`", shown(name))));
            }
        }
        let kinds = [
            ("bandwidth_gbps", &self.bandwidth_gbps),
            ("latency_us", &self.latency_us),
            ("completion_us", &self.completion_us),
        ];
        if kinds.iter().all(|(_, cells)| cells.is_none()) {
            return Err((
                "the document".to_owned(),
                "nothing was measured: write bandwidth_gbps or completion_us".to_owned(),
            ));
        }
        for (key, cells) in kinds {
            let Some(cells) = cells else { continue };
            if cells.len() != self.rows.len() {
                return Err((key.to_owned(), format!("{} rows, but `rows` names {}", cells.len(), self.rows.len())));
            }
            for (index, row) in cells.iter().enumerate() {
                let at = || format!("{key}[{index}]");
                if row.len() != self.columns.len() {
                    return Err((at(), format!("{} values, but `columns` names {}", row.len(), self.columns.len())));
                }
                if let Some(column) =
                    row.iter().position(|value| value.is_some_and(|value| !(0.0..1e12).contains(&value)))
                {
                    return Err((format!("{}[{column}]", at()), "write a number from 0, or null".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The value of a cell of `cells`, by the names of its row and column.
    pub fn find(&self, cells: Option<&Cells>, row: &str, column: &str) -> Option<f64> {
        let row = self.rows.iter().position(|name| name == row)?;
        let column = self.columns.iter().position(|name| name == column)?;
        cells?[row][column]
    }

    /// Cell by cell the median of this matrix and of repeats, matched by name. A cell that nobody measured stays so.
    #[must_use]
    pub fn median_with(&self, repeats: &[Self]) -> Self {
        let middle = |cells: fn(&Self) -> Option<&Cells>| -> Option<Cells> {
            cells(self)?;
            let cell = |row: &String, column: &String| {
                let all = std::iter::once(self).chain(repeats);
                let values: Vec<f64> = all.filter_map(|matrix| matrix.find(cells(matrix), row, column)).collect();
                median(&values)
            };
            Some(self.rows.iter().map(|row| self.columns.iter().map(|column| cell(row, column)).collect()).collect())
        };
        Self {
            bandwidth_gbps: middle(|matrix| matrix.bandwidth_gbps.as_ref()),
            latency_us: middle(|matrix| matrix.latency_us.as_ref()),
            completion_us: middle(|matrix| matrix.completion_us.as_ref()),
            ..self.clone()
        }
    }
}

/// What of a stranger's text an error repeats.
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"kelpie": "matrix/1",
"rows": ["rnic0"], "columns": ["mem0", "gpu0"],
"bandwidth_gbps": [[197.3, null]], "latency_us": [[2.55, 2.82]]}"#;

    #[test]
    fn mistakes_are_named() {
        let good = Matrix::from_bytes("m.json", SMALL.as_bytes()).expect("it keeps the rules");
        assert_eq!(good.find(good.bandwidth_gbps.as_ref(), "rnic0", "mem0"), Some(197.3));
        for (from, to, expected) in [
            ("matrix/1", "matrix/2", "m.json: kelpie: this is format `matrix/2`"),
            ("197.3", "\"fast\"", "m.json:3:26: bandwidth_gbps[0][0]: `fast` is not "),
            ("197.3", "-1", "m.json: bandwidth_gbps[0][0]: write a number from 0"),
            ("[197.3, null]", "[197.3]", "m.json: bandwidth_gbps[0]: 1 values, but `columns` names 2"),
            ("[[2.55, 2.82]]", "[]", "m.json: latency_us: 0 rows, but `rows` names 1"),
            ("\"gpu0\"", "\"mem0\"", "m.json: columns[1]: `mem0` is there twice"),
            (
                "\"latency_us\"",
                "\"latency\"",
                "m.json:3:44: latency: unknown key `latency`; did you mean `latency_us`?",
            ),
            ("2.82]]}", "2.82]]", "m.json:3:63: this is no JSON: it ends in the middle"),
            ("2.82]]}", "2.82]]} x", "m.json:3:66: something follows the end"),
        ] {
            assert!(SMALL.contains(from), "{from}");
            let error = Matrix::from_bytes("m.json", SMALL.replacen(from, to, 1).as_bytes()).expect_err(to).to_string();
            assert!(error.starts_with(expected), "{to}: {error}");
        }
    }

    #[test]
    fn repeats_are_matched_by_name() {
        let first = Matrix::from_bytes("m", SMALL.as_bytes()).expect("it keeps the rules");
        let other = Matrix {
            columns: vec!["gpu0".to_owned(), "mem0".to_owned()],
            bandwidth_gbps: Some(vec![vec![Some(100.0), Some(199.3)]]),
            latency_us: None,
            ..first.clone()
        };
        let both = first.median_with(&[other]);
        assert_eq!(both.bandwidth_gbps, Some(vec![vec![Some(198.3), Some(100.0)]]));
        assert_eq!(both.latency_us, first.latency_us);
    }
}
