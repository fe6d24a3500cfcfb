//! What can be wrong with a table, a plan or a fit.

/// Most mistakes of a table that one error names. Source: our choice, a screen.
pub const MOST_MISTAKES: usize = 10;

/// A mistake in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMistake {
    /// Line of the file, from 1.
    pub line: u64,
    /// Column of the table, from 1.
    pub column: Option<usize>,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The table could not be read.
    #[error("{file}: it cannot be read")]
    Read {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The table breaks rules of the format.
    #[error("{}", shown(file, mistakes))]
    Table {
        /// The file.
        file: String,
        /// The mistakes, in the order of lines.
        mistakes: Vec<TableMistake>,
    },
    /// A name that is no parameter.
    #[error("`{path}` is no parameter of a calibration; there are {known}")]
    NoParameter {
        /// What was asked for.
        path: String,
        /// What there is.
        known: String,
    },
    /// It was stopped before there was anything to show.
    #[error("the fit was stopped before it had tried any value")]
    Stopped,
    /// The limit of experiments does not suffice for a beginning.
    #[error("a fit of these rows begins with more than {most} experiments; give it more, or fewer rows")]
    TooFewExperiments {
        /// The limit.
        most: u64,
    },
    /// The base cannot run a row.
    #[error("{file}:{line}: the base cannot run this row: {reason}")]
    Base {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What is missing.
        reason: String,
    },
}

fn shown(file: &str, mistakes: &[TableMistake]) -> String {
    let one = |TableMistake { line, column, what }: &TableMistake| {
        let column = column.map_or_else(String::new, |column| format!(":{column}"));
        format!("{file}:{line}{column}: {what}")
    };
    let mut lines: Vec<String> = mistakes.iter().take(MOST_MISTAKES).map(one).collect();
    if mistakes.len() > MOST_MISTAKES {
        lines.push(format!("{file}: and {} more", mistakes.len() - MOST_MISTAKES));
    }
    lines.join("\n")
}
