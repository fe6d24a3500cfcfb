//! The one table of dimensions: space files, the space itself and the reference page all come from it. Its rows live in `table`.

mod reference;
mod scope;
mod table;

use crate::domain::Domain;
use crate::units::Bytes;
use crate::workload::{Device, Mtu, Opcode, QpType};

pub use reference::reference;
pub use scope::{Scope, Special};
pub(crate) use table::DESCRIBED;
pub use table::{Dimension, Feature, TABLE};

/// What the values of a dimension are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
const ANY: (u64, u64) = (0, u64::MAX);

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The dimension.
    pub dimension: Dimension,
    /// Its key in a space file.
    pub name: &'static str,
    /// Which of the paper's dimensions it belongs to.
    pub group: &'static str,
    /// What its values are.
    pub kind: Kind,
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

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = TABLE.len();

    /// Every dimension, in the order of the table.
    pub fn all() -> impl Iterator<Item = Dimension> {
        TABLE.iter().map(|row| row.dimension)
    }

    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its key in a space file.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The dimension that a feature shows.
    pub fn of(feature: Feature) -> Dimension {
        feature.described().dimension
    }

    /// The domain that stands in the table.
    pub(crate) fn full(self) -> Domain {
        let domain = match self.row().full {
            Values::Range(min, max) => Domain::range(min, max),
            Values::Set(words) => Domain::set(words.iter().filter_map(|word| self.code(word).ok()).collect()),
        };
        domain.expect("no row of the table is empty, which a test checks")
    }
}

const GPU: u64 = 1 << 8;

pub(crate) fn device_code(device: Device) -> u64 {
    match device {
        Device::Dram(index) => index.into(),
        Device::Gpu(index) => GPU + u64::from(index),
    }
}

pub(crate) fn device(code: u64) -> Device {
    if code < GPU { Device::Dram(code as u8) } else { Device::Gpu((code - GPU) as u8) }
}

impl Dimension {
    /// The number that stands for a word of a space file, or the rule that the word breaks.
    pub(crate) fn code(self, word: &str) -> Result<u64, String> {
        let index = |words: &[&str]| {
            let found = words.iter().position(|known| *known == word);
            found.map(|index| index as u64).ok_or_else(|| format!("write one of {}", words.join(", ")))
        };
        let value = match self.row().kind {
            Kind::QpType => index(&["RC", "UC", "UD"])?,
            Kind::Opcode => index(&Opcode::ALL.map(Opcode::name))?,
            Kind::Truth => index(&["false", "true"])?,
            Kind::Device => device_code(word.parse::<Device>().map_err(|error| error.to_string())?),
            Kind::Mtu => {
                let bytes = word.parse::<u64>().map_err(|_| "write path MTUs in bytes".to_owned())?;
                Mtu::try_from(bytes).map_err(|error| error.to_string())?.bytes()
            }
            Kind::Count => word.parse().map_err(|_| "write a whole number".to_owned())?,
            Kind::Size => word.parse::<Bytes>().map_err(|error| error.to_string())?.0,
        };
        let (min, max) = self.row().limit;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("outside {} to {}", self.word(min), self.word(max)))
        }
    }

    /// The word of a space file for a number.
    pub(crate) fn word(self, code: u64) -> String {
        match self.row().kind {
            Kind::QpType => QpType::ALL[code as usize].to_string(),
            Kind::Opcode => Opcode::ALL[code as usize].to_string(),
            Kind::Truth => (code == 1).to_string(),
            Kind::Device => device(code).to_string(),
            Kind::Mtu | Kind::Count => code.to_string(),
            Kind::Size => Bytes(code).to_string(),
        }
    }

    /// A domain as a space file writes it.
    pub(crate) fn written(self, domain: &Domain) -> String {
        if domain.is_range() {
            return format!("{{min: {}, max: {}}}", self.word(domain.min()), self.word(domain.max()));
        }
        let words: Vec<String> = domain.steps().iter().map(|code| self.word(*code)).collect();
        format!("[{}]", words.join(", "))
    }
}
