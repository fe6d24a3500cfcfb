//! Spaces as YAML, format `space/1`, and the catalog that is built in. Workloads are in `yaml`.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::dimensions::{Dimension, DimensionKind, TABLE};
use crate::document::{PathSegment, utf8};
use crate::domain::Domain;
use crate::space::{Space, SpaceError};
use crate::tagged::read_tagged;

/// The format tag of this version.
const FORMAT: &str = "space/1";
/// Most values of a set. Source: our choice, because a longer list is a range.
const MAX_SET: usize = 256;
/// Longest description. Units: characters. Source: our choice, because it is shown in a list.
const MAX_ABOUT: usize = 1000;

macro_rules! catalog {
    ($($name:literal),*) => {
        const NAMES: &[&str] = &[$($name),*];
        const FILES: &[&str] = &[$(include_str!(concat!("../catalog/", $name, ".yaml"))),*];
    };
}

catalog!("full", "rpc-library", "dml", "lab");

impl Space {
    /// A space of the catalog.
    pub fn catalog(name: &str) -> Option<Space> {
        let index = NAMES.iter().position(|known| *known == name)?;
        Some(Space::from_yaml(name, FILES[index]).expect("every file of the catalog is read by a test"))
    }

    /// The names of the catalog, the paper's whole space first.
    pub fn catalog_names() -> &'static [&'static str] {
        NAMES
    }

    /// Reads a space file; a dimension that it leaves out has its full domain.
    ///
    /// # Errors
    /// Names file, line, column, key and rule of each mistake, or says that no workload fits all bounds together.
    pub fn from_yaml(source_name: &str, text: &str) -> Result<Space, SpaceError> {
        let (document, SpaceFile { domains }) = read_tagged(source_name, text, FORMAT)?;
        // As the file writes it, whatever YAML takes it for.
        let about = document.scalar(&[PathSegment::Key("about".to_owned())]).map_or("", |about| about.text.trim());
        Space::new(source_name, about.chars().take(MAX_ABOUT).collect(), domains)
    }

    /// As [`Space::from_yaml`], from bytes that may not be text.
    ///
    /// # Errors
    /// Also for bytes that are not UTF-8, with the offset.
    pub fn from_bytes(source_name: &str, bytes: &[u8]) -> Result<Space, SpaceError> {
        Space::from_yaml(source_name, utf8(source_name, bytes)?)
    }

    /// Writes the space with every dimension; [`Space::from_yaml`] reads the same space back.
    pub fn to_yaml(&self) -> String {
        let mut text = format!("kelpie: {FORMAT}\n");
        if !self.about().is_empty() {
            // JSON strings are YAML strings, with every special character escaped.
            let _ = writeln!(text, "about: {}", quoted(self.about()));
        }
        for dimension in Dimension::all() {
            let _ = writeln!(text, "{}: {}", dimension.name(), dimension.written(self.domain(dimension)));
        }
        text
    }
}

/// A double-quoted YAML scalar.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            plain if plain == ' ' || plain.is_ascii_graphic() => quoted.push(plain),
            other => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(other));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// What follows the tag, but for what the space is about: the domain of each dimension.
struct SpaceFile {
    domains: Vec<Domain>,
}

/// A key of the file.
enum SpaceKey {
    About,
    Of(Dimension),
}

/// The keys of the file, as an error lists them.
static KEYS: LazyLock<Vec<&str>> =
    LazyLock::new(|| ["about"].into_iter().chain(TABLE.iter().map(|row| row.name)).collect());

impl<'de> Deserialize<'de> for SpaceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Word(key) = Word::deserialize(deserializer)?;
        match Dimension::all().find(|dimension| dimension.name() == key) {
            Some(dimension) => Ok(SpaceKey::Of(dimension)),
            None if key == "about" => Ok(SpaceKey::About),
            None => Err(Error::unknown_field(&key, &KEYS)),
        }
    }
}

impl<'de> Deserialize<'de> for SpaceFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = SpaceFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SpaceFile, A::Error> {
                let mut file = SpaceFile { domains: Dimension::all().map(Dimension::full).collect() };
                while let Some(key) = map.next_key()? {
                    match key {
                        SpaceKey::About => drop(map.next_value::<Word>()?),
                        SpaceKey::Of(dimension) => {
                            file.domains[dimension as usize] = map.next_value_seed(Admitted(dimension))?;
                        }
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// A single value, whatever YAML takes it for.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyWord;
        impl Visitor<'_> for AnyWord {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Word, E> {
                Ok(Word(value.to_owned()))
            }
        }
        deserializer.deserialize_any(AnyWord)
    }
}

/// Reads the number that stands for a value of a dimension; counts and sizes as a workload has them.
struct Code(Dimension);

impl Code {
    fn code<E: Error>(&self, word: &str) -> Result<u64, E> {
        self.0.code(word).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Code {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Code {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.0.row();
        match row.kind {
            DimensionKind::Count => write!(f, "a whole number from {} to {}", row.limit.0, row.limit.1),
            DimensionKind::Size | DimensionKind::Mtu => f.write_str("a size such as 64KiB"),
            DimensionKind::Truth => f.write_str("true or false"),
            DimensionKind::QpType | DimensionKind::Opcode | DimensionKind::Ports | DimensionKind::Device => {
                f.write_str("a word of this dimension")
            }
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<u64, E> {
        if self.0.row().kind != DimensionKind::Truth {
            return Err(E::invalid_type(Unexpected::Bool(value), &self));
        }
        self.code(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        self.code(&value.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<u64, E> {
        if self.0.row().kind == DimensionKind::Count {
            return Err(E::invalid_type(Unexpected::Str(value), &self));
        }
        self.code(value)
    }
}

/// Reads the values that a space admits: a list of them, or a range by its ends.
struct Admitted(Dimension);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum RangeEnd {
    Min,
    Max,
}

impl Admitted {
    fn is_range(&self) -> bool {
        matches!(self.0.row().kind, DimensionKind::Count | DimensionKind::Size)
    }

    /// The widest range. Whoever gives one end of what is off elsewhere wants it on.
    fn widest(&self) -> (u64, u64) {
        let full = self.0.full();
        if self.0.row().optional().is_some() { self.0.row().limit } else { (full.min(), full.max()) }
    }
}

impl<'de> DeserializeSeed<'de> for Admitted {
    type Value = Domain;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Domain, D::Error> {
        let dimension = self.0;
        let domain = deserializer.deserialize_any(self)?;
        if dimension == Dimension::PinnedPerHost && (!domain.is_range() || domain.min() != dimension.full().min()) {
            return Err(Error::custom("only an upper bound has a meaning here; write {max: ...}"));
        }
        Ok(domain)
    }
}

impl<'de> Visitor<'de> for Admitted {
    type Value = Domain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = if self.is_range() { ", or a group with the keys min, max" } else { "" };
        write!(f, "a list of the values to admit, such as [a, b]{range}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Domain, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Code(self.0))? {
            values.push(value);
        }
        if values.len() > MAX_SET {
            return Err(Error::custom(format!("{} entries; write 1 to {MAX_SET}", values.len())));
        }
        Domain::set(values).ok_or_else(|| Error::custom("an empty set admits nothing"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Domain, A::Error> {
        if !self.is_range() {
            return Err(Error::custom("write a list of the values to admit, such as [a, b]"));
        }
        let (mut min, mut max) = self.widest();
        while let Some(end) = map.next_key()? {
            let value = map.next_value_seed(Code(self.0))?;
            *(match end {
                RangeEnd::Min => &mut min,
                RangeEnd::Max => &mut max,
            }) = value;
        }
        let word = |value| self.0.word(value);
        Domain::range(min, max).ok_or_else(|| Error::custom(format!("min {} is over max {}", word(min), word(max))))
    }
}
