//! What rows of the table of checks hold: of a check, of what it measures, and what can be asked of them.

use super::{CheckKind, Gauge, Repair};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct CheckRow {
    /// The check.
    pub kind: CheckKind,
    /// The word for it in JSON and in text. Two checks of different groups may share one.
    pub name: &'static str,
    /// What it looks at.
    pub group: CheckGroup,
    /// What it costs.
    pub cost: CheckCost,
    /// What it measures.
    pub measures: &'static str,
    /// Why that matters.
    pub cause: &'static str,
    /// When it warns or fails, and from which source it knows.
    pub test: &'static str,
    /// What repairs what it finds.
    pub repairs: &'static [Repair],
}

/// What a check looks at; each is a part of the reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckGroup {
    /// A host, and each port of its RDMA devices.
    Host,
    /// Two hosts side by side.
    Pair,
    /// Both ports of a bond.
    Ports,
    /// The inside of a host whose topology is discovered.
    Inside,
}

/// What a check costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckCost {
    /// Files are read, and no traffic is sent.
    Files,
    /// Some seconds of traffic.
    Seconds,
    /// A minute of traffic or more, during which a port is taken down.
    Minutes,
}

/// Which values are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Higher ones.
    Higher,
    /// Lower ones.
    Lower,
    /// None is better than another.
    Neither,
}

/// What is known of a value that a check measures.
#[derive(Debug, Clone, Copy)]
pub struct GaugeRow {
    /// The value.
    pub gauge: Gauge,
    /// The check that measures it.
    pub kind: CheckKind,
    /// Its name in JSON.
    pub name: &'static str,
    /// Its unit; empty for a count or a share.
    pub unit: &'static str,
    /// Which values are good.
    pub better: Better,
}

impl CheckKind {
    /// Its row.
    pub fn row(self) -> &'static CheckRow {
        &super::CHECKS[self as usize]
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The check of a pair that compares a fact of this name.
    pub fn of_fact(name: &str) -> Option<Self> {
        let is_of_fact = |row: &&CheckRow| row.group == CheckGroup::Pair && row.name == name;
        super::CHECKS.iter().find(is_of_fact).map(|row| row.kind)
    }
}

impl Gauge {
    /// Its row.
    pub fn row(self) -> &'static GaugeRow {
        &super::GAUGES[self as usize]
    }
}

impl Repair {
    /// The step, with what each word stands for.
    pub fn text(self, words: &[(&str, &str)]) -> String {
        let (_, text) = super::REPAIRS[self as usize];
        words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(&format!("<{word}>"), value))
    }
}
