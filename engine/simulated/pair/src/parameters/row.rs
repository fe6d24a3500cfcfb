//! What a row of the table of parameters holds, and what can be asked of it.

use std::fmt;
use std::ops::{Bound, RangeBounds as _};

use serde::{Serialize, Serializer};

use super::{Parameter, TABLE};
use crate::model::Model;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ParameterRow {
    /// The parameter.
    pub parameter: Parameter,
    /// Its path in a model file, by which it is called.
    pub path: &'static str,
    /// The unit of its value; empty for a count, a share or a word.
    pub unit: &'static str,
    /// The values that a model file may have.
    pub domain: ParameterDomain,
    /// Whether a calibration fits it.
    pub fitted: Fitted,
    /// Whether generated models draw it.
    pub drawn: Drawn,
    /// How generated models break it on purpose, which they do to one parameter of each kind.
    pub broken: Option<Breakage>,
    /// Reads it from a model; none if the model leaves it out, or if it is a word.
    pub(super) get: fn(&Model) -> Option<f64>,
}

/// The values that a parameter may have.
#[derive(Debug, Clone, Copy)]
pub enum ParameterDomain {
    /// Any number of a range.
    Real(Range),
    /// The whole numbers of a range.
    Whole(Range),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A path MTU.
    Mtu,
}

/// A range of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Both ends.
    pub ends: (Bound<f64>, Bound<f64>),
    /// What is said of a value outside.
    pub(crate) refusal: fn(f64) -> String,
    /// Where the ends come from.
    pub source: &'static str,
}

/// Whether a calibration fits a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Fitted {
    /// It does not, for this reason.
    No(&'static str),
    /// It keeps its ratio to another that is fitted.
    Along(Parameter),
    /// It does.
    Yes {
        /// The place in the order in which a fit begins: what hides others comes first.
        turn: u8,
        /// The parameter in a few words.
        phrase: &'static str,
    },
}

/// A range from which a number is drawn, evenly by its logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawRange {
    /// The least value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
    /// Where both come from.
    pub source: &'static str,
}

/// Whether generated models draw a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Drawn {
    /// They do not, for this reason.
    No(&'static str),
    /// Alone.
    Alone(DrawRange),
    /// As one of the pairs of line rate and PCIe bandwidth.
    WithPort,
    /// By the way in which the NIC uses contexts: in several tables for a turn of many packets, or in one for a few.
    ByContexts([DrawRange; 2]),
    /// As above, but without chance.
    OfContexts([f64; 2]),
    /// From a number that is drawn, which has this name.
    From(&'static str, DrawRange),
    /// From the number of this other parameter, so that their ratio is kept.
    Along(Parameter),
    /// One of two words.
    Either {
        /// The place in the order in which words are drawn. A new one comes last, so that a seed keeps its other words.
        turn: u8,
        /// Both.
        words: [&'static str; 2],
    },
}

/// How a generated model breaks a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// A cache that is far too small.
    Small,
    /// A path with far too few misses at a time.
    Narrow,
    /// A pipeline that has time for one direction.
    Serialised,
}

impl ParameterDomain {
    /// Whether only whole numbers are in it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_) | Self::Mtu)
    }
}

impl ParameterRow {
    /// What is wrong with a model's value; none if nothing is, or if the model leaves it out.
    pub(crate) fn refusal(&self, model: &Model) -> Option<String> {
        let value = (self.get)(model)?;
        match self.domain {
            ParameterDomain::Real(range) | ParameterDomain::Whole(range) => {
                (!range.ends.contains(&value)).then(|| (range.refusal)(value))
            }
            ParameterDomain::Mtu => {
                let is_one = kelpie_spaces::Mtu::try_from(value as u64).is_ok();
                (!is_one).then(|| format!("Some({value}) must be a path MTU or null"))
            }
            ParameterDomain::Words(_) => None,
        }
    }
}

impl Parameter {
    /// Its row.
    pub fn row(self) -> &'static ParameterRow {
        &TABLE[self as usize]
    }

    /// Its path in a model file.
    pub fn path(self) -> &'static str {
        self.row().path
    }

    /// Every parameter, in the order of a model file.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.parameter)
    }

    /// Those that a calibration fits, in the order in which it begins.
    pub fn fitted() -> Vec<Self> {
        let turn = |row: &ParameterRow| match row.fitted {
            Fitted::Yes { turn, .. } => Some((turn, row.parameter)),
            Fitted::Along(_) | Fitted::No(_) => None,
        };
        let mut fitted: Vec<(u8, Self)> = TABLE.iter().filter_map(turn).collect();
        fitted.sort_by_key(|(turn, _)| *turn);
        fitted.into_iter().map(|(_, parameter)| parameter).collect()
    }

    /// Those that keep their ratio to this one while it is fitted.
    pub fn along(self) -> Vec<Self> {
        let is_along = |row: &&ParameterRow| matches!(row.fitted, Fitted::Along(to) if to == self);
        TABLE.iter().filter(is_along).map(|row| row.parameter).collect()
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

impl Serialize for Parameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.path())
    }
}

/// A field of a model that may hold a number.
pub(super) trait Number {
    /// The number.
    fn number(&self) -> Option<f64>;
}

impl Number for f64 {
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

impl Number for u32 {
    fn number(&self) -> Option<f64> {
        Some(f64::from(*self))
    }
}

impl Number for u64 {
    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl<T: Number> Number for Option<T> {
    fn number(&self) -> Option<f64> {
        self.as_ref()?.number()
    }
}

/// Words are read by their own types, which refuse others.
macro_rules! words {
    ($($word:ty),*) => {
        $(impl Number for $word {
            fn number(&self) -> Option<f64> {
                None
            }
        })*
    };
}

words!(bool, crate::model::Replacement, crate::model::WhenBusy, crate::model::Ordering);
