//! The one table of dimensions: space files, the space itself and the reference page all come from it. Its rows live in
//! `table`.

mod reference;
mod scope;
mod table;

use crate::domain::Domain;
use crate::suggest::suggestion;
use crate::units::Bytes;
use crate::workload::{Device, Mtu, Opcode, Ports, QpType};

pub use crate::sides::FlowSide;
pub use reference::reference;
pub use scope::{Scope, Special};
pub(crate) use scope::{device, device_code};
pub(crate) use table::DESCRIBED;
pub use table::row::{DimensionKind, DimensionRow, Values};
pub(crate) use table::row::{FeatureAdvice, FeatureReading, FeatureRow};
pub use table::{Dimension, Feature, TABLE};

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = TABLE.len();

    /// Every dimension, in the order of the table.
    pub fn all() -> impl Iterator<Item = Dimension> {
        TABLE.iter().map(|row| row.dimension)
    }

    /// Its row of the table.
    pub fn row(self) -> &'static DimensionRow {
        &TABLE[self as usize]
    }

    /// Its key in a space file.
    pub fn name(self) -> &'static str {
        self.row().name
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

impl Dimension {
    /// The number that stands for a word of a space file, or the rule that the word breaks.
    pub(crate) fn code(self, word: &str) -> Result<u64, String> {
        let index = |words: &[&str]| {
            let found = words.iter().position(|known| *known == word);
            found.map(|index| index as u64).ok_or_else(|| {
                let near = suggestion(word, words.iter().copied());
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                format!("write one of {}{near}", words.join(", "))
            })
        };
        let value = match self.row().kind {
            DimensionKind::QpType => index(&["RC", "UC", "UD"])?,
            DimensionKind::Opcode => index(&Opcode::ALL.map(Opcode::name))?,
            DimensionKind::Truth => index(&["false", "true"])?,
            DimensionKind::Ports => index(&Ports::ALL.map(Ports::name))?,
            DimensionKind::Device => device_code(word.parse::<Device>().map_err(|error| error.to_string())?),
            DimensionKind::Mtu => {
                let bytes = word.parse::<Bytes>().map_err(|_| "write path MTUs in bytes".to_owned())?;
                Mtu::try_from(bytes).map_err(|error| error.to_string())?.bytes()
            }
            DimensionKind::Count => word.parse().map_err(|_| "write a whole number".to_owned())?,
            DimensionKind::Size => word.parse::<Bytes>().map_err(|error| error.to_string())?.0,
        };
        let (min, max) = self.row().limit;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("outside {} to {}", self.word(min), self.word(max)))
        }
    }

    /// The word of a space file for a number.
    pub fn word(self, code: u64) -> String {
        match self.row().kind {
            DimensionKind::QpType => QpType::ALL[code as usize].to_string(),
            DimensionKind::Opcode => Opcode::ALL[code as usize].to_string(),
            DimensionKind::Truth => (code == 1).to_string(),
            DimensionKind::Ports => Ports::ALL[code as usize].to_string(),
            DimensionKind::Device => device(code).to_string(),
            DimensionKind::Mtu | DimensionKind::Count => code.to_string(),
            DimensionKind::Size => Bytes(code).to_string(),
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
