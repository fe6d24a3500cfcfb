//! What a row of the table holds: of a dimension, and of each feature that shows it.

use super::{Dimension, Feature};
use crate::dimensions::scope::Scope;
use crate::workload::{Flow, Workload};

/// What the values of a dimension are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DimensionKind {
    /// A transport.
    QpType,
    /// An operation.
    Opcode,
    /// A path MTU in bytes.
    Mtu,
    /// `dram:N` or `gpu:N`.
    Device,
    /// `true` or `false`.
    Truth,
    /// Which ports of a bonded NIC.
    Ports,
    /// A count.
    Count,
    /// A size in bytes.
    Size,
}

/// Values written in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Words, as in a space file.
    Set(&'static [&'static str]),
    /// Both ends inclusive.
    Range(u64, u64),
}

/// No limit: the words of a kind are all that there is.
pub(super) const ANY: (u64, u64) = (0, u64::MAX);

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct DimensionRow {
    /// The dimension.
    pub dimension: Dimension,
    /// Its key in a space file.
    pub name: &'static str,
    /// Which of the paper's dimensions it belongs to.
    pub group: &'static str,
    /// What its values are.
    pub kind: DimensionKind,
    /// What a value counts.
    pub unit: &'static str,
    /// The keys of a flow in a workload file that hold its values.
    pub place: &'static str,
    /// Where its values stand in a workload, and how they are read and set.
    pub scope: Scope,
    /// Its domain in `catalog/full.yaml`, and wherever a space file leaves it out.
    pub full: Values,
    /// Values beyond which no space file may go, both inclusive: what a workload may hold at all.
    pub limit: (u64, u64),
    /// The other side of a queue, which usually has the same value.
    pub twin: Option<Dimension>,
    /// The features that show it.
    pub features: &'static [Feature],
    /// The feature of another dimension that it has a part in.
    pub also: Option<Feature>,
    /// Why it matters.
    pub why: &'static str,
    /// Where the bound comes from.
    pub source: &'static str,
}

/// How a value of each flow is read and set.
type FlowAccess = (fn(&Flow) -> u64, fn(&mut Flow, u64));

impl DimensionRow {
    /// How its value is read and set, if it is optional: off in the full space, so that only a space that asks for it
    /// has others, and left out of a workload file if it is off.
    pub fn optional(&self) -> Option<FlowAccess> {
        match (self.scope, self.full) {
            (Scope::Flow { get, set }, Values::Set([_])) => Some((get, set)),
            _ => None,
        }
    }
}

/// What the table says of a feature, in the row of the dimension that it shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeatureRow {
    pub(crate) feature: Feature,
    pub(crate) dimension: Dimension,
    /// Its name in every file, on every screen.
    pub(crate) name: &'static str,
    pub(crate) reading: FeatureReading,
    /// A noun phrase for people.
    pub(crate) phrase: &'static str,
    pub(crate) advice: FeatureAdvice,
    /// When a walk from one workload to another changes it: the lowest first.
    pub(crate) walk: u16,
    /// What a plain workload has, as a space file writes it.
    pub(crate) plain: Option<&'static str>,
}

/// How a feature is read from a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FeatureReading {
    /// The largest value of its dimension; nothing is 0.
    Largest,
    /// The smallest.
    Smallest,
    /// The words of all values of its dimension, sorted and joined by `+`.
    Words,
    /// A number of its own.
    Number(fn(&Workload) -> u64),
    /// A word of its own.
    Word(fn(&Workload) -> String),
}

/// What a changed value asks of a programmer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FeatureAdvice {
    /// `{}` stands for a bound such as `at most 8`.
    Bound(&'static str),
    /// The same, and what it asks if the new value is 0.
    BoundOrNone { bound: &'static str, none: &'static str },
    /// `{}` stands for the new word, `{now}` for the present one.
    Word(&'static str),
    /// Whether it is to be or not.
    Truth { on: &'static str, off: &'static str },
}
