//! Units as types, and text forms of values; arithmetic on them lives where it is used.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A size in bytes, written `128B`, `64KiB`, `4MiB` or `1GiB`; a bare integer is bytes.
///
/// Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// Why a size could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size: write an integer with B, KiB, MiB or GiB, such as 64KiB")]
pub struct ParseBytesError(pub String);

const SUFFIXES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A value with an SI prefix and four figures, such as `187.3 G`.
pub fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // Compared with what rounding would make of it, so that 999,960 is 1.0 M and not 1000.0 k.
    match PREFIXES.iter().find(|(scale, _)| value >= scale * 0.99995) {
        Some((scale, prefix)) => format!("{:.1} {prefix}", value / scale),
        None => format!("{value:.1} "),
    }
}

/// A share as a percentage.
///
/// Units: 0 to 1.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseBytesError(text.chars().take(40).collect());
        let (digits, scale) = SUFFIXES
            .iter()
            .find_map(|(suffix, scale)| text.strip_suffix(suffix).map(|digits| (digits, *scale)))
            .unwrap_or((text, 1));
        let count: u64 = digits.trim().parse().map_err(|_| refused())?;
        count.checked_mul(scale).map(Bytes).ok_or_else(refused)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (suffix, scale) =
            SUFFIXES.iter().find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale)).unwrap_or(&("B", 1));
        write!(f, "{}{suffix}", self.0 / scale)
    }
}

/// Reads a count of `LEAST` to `MOST`, which an error names; a number outside is left to the rules, which know more.
///
/// # Errors
/// No whole number.
pub fn counted<'de, D: Deserializer<'de>, const LEAST: u64, const MOST: u64>(deserializer: D) -> Result<u32, D::Error> {
    struct Visitor<const LEAST: u64, const MOST: u64>;
    impl<const LEAST: u64, const MOST: u64> serde::de::Visitor<'_> for Visitor<LEAST, MOST> {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {LEAST} to {MOST}")
        }

        fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u32, E> {
            u32::try_from(value).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(value), &self))
        }
    }
    deserializer.deserialize_u32(Visitor::<LEAST, MOST>)
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 64KiB")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Bytes, E> {
                Ok(Bytes(value))
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Bytes, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
