//! Narrowing a space by hand: one dimension to some of its values, or to a bound. Restricting one space by another
//! lives in `space`.

use crate::dimensions::{Dimension, DimensionKind};
use crate::domain::Domain;
use crate::features::Feature;
use crate::space::{Space, SpaceError};
use crate::suggest::suggestion;

/// What the values of one dimension are narrowed to, in the words of a space file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Narrowing {
    /// These values.
    Only(Vec<String>),
    /// This value and those above.
    Min(String),
    /// This value and those below.
    Max(String),
}

impl Space {
    /// The space with fewer values of one dimension.
    ///
    /// The dimension is named as in a space file; the features `message_min` and `message_max` stand for the lower and
    /// the upper bound of `message`.
    ///
    /// # Errors
    /// For a key that is no dimension, a value that it cannot have, or where no workload is left.
    pub fn narrow(&self, key: &str, to: &Narrowing) -> Result<Space, SpaceError> {
        let refused = |rule: String| SpaceError::Narrowing { key: key.to_owned(), rule };
        let dimension = dimension(key, to).map_err(refused)?;
        let wanted = wanted(dimension, to).map_err(refused)?;
        let own = self.domain(dimension);
        let left = own.intersect(&wanted).ok_or_else(|| {
            refused(format!("none of these values is in {}, which has {}", self.name(), dimension.written(own)))
        })?;
        let with_left = |other: Dimension| if other == dimension { left.clone() } else { self.domain(other).clone() };
        Space::new(self.name(), self.about().to_owned(), Dimension::all().map(with_left).collect())
    }
}

fn dimension(key: &str, to: &Narrowing) -> Result<Dimension, String> {
    if let Some(dimension) = Dimension::all().find(|dimension| dimension.name() == key) {
        return Ok(dimension);
    }
    match (key.parse::<Feature>(), to) {
        (Ok(Feature::MessageMax), Narrowing::Max(_)) | (Ok(Feature::MessageMin), Narrowing::Min(_)) => {
            Ok(Dimension::Message)
        }
        (Ok(feature), _) => {
            let name = Dimension::of(feature).name();
            Err(format!("a feature of findings, which a space bounds by its dimension; write `{name}` instead"))
        }
        (Err(_), _) => {
            let names: Vec<&str> = Dimension::all().map(Dimension::name).collect();
            Err(match suggestion(key, names.iter().copied()) {
                Some(near) => format!("no dimension; did you mean `{near}`?"),
                None => format!("no dimension; write one of {}", names.join(", ")),
            })
        }
    }
}

fn wanted(dimension: Dimension, to: &Narrowing) -> Result<Domain, String> {
    let is_ordered = matches!(dimension.row().kind, DimensionKind::Count | DimensionKind::Size | DimensionKind::Mtu);
    let wanted = match to {
        Narrowing::Only(_) | Narrowing::Min(_) if dimension == Dimension::PinnedPerHost => {
            return Err("only an upper bound has a meaning here".to_owned());
        }
        Narrowing::Min(_) | Narrowing::Max(_) if !is_ordered => {
            return Err("its values have no order; name those to keep".to_owned());
        }
        Narrowing::Only(words) => {
            let codes = words.iter().map(|word| dimension.code(word)).collect::<Result<Vec<u64>, String>>()?;
            Domain::set(codes)
        }
        Narrowing::Min(word) => Domain::range(dimension.code(word)?, u64::MAX),
        Narrowing::Max(word) => Domain::range(0, dimension.code(word)?),
    };
    wanted.ok_or_else(|| "name at least one value".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Space {
        Space::catalog("full").expect("in the catalog")
    }

    fn only(words: &[&str]) -> Narrowing {
        Narrowing::Only(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn max(word: &str) -> Narrowing {
        Narrowing::Max(word.to_owned())
    }

    fn min(word: &str) -> Narrowing {
        Narrowing::Min(word.to_owned())
    }

    #[test]
    fn one_dimension_is_narrowed_and_the_others_stay() {
        for (key, to, expected) in [
            ("qp_type", only(&["RC", "UC"]), "qp_type: [RC, UC]"),
            ("qps", max("64"), "qps: {min: 1, max: 64}"),
            ("qps", only(&["48", "1"]), "qps: [1, 48]"),
            ("mtu", min("1024"), "mtu: [1024, 2048, 4096]"),
            ("message", min("1KiB"), "message: {min: 1KiB, max: 4MiB}"),
            ("message_min", min("1KiB"), "message: {min: 1KiB, max: 4MiB}"),
            ("message_max", max("64KiB"), "message: {min: 64B, max: 64KiB}"),
            ("memory_requester", only(&["gpu:0"]), "memory_requester: [gpu:0]"),
            ("pinned_per_host", max("1GiB"), "pinned_per_host: {min: 1B, max: 1GiB}"),
        ] {
            let narrowed = full().narrow(key, &to).expect(key);
            let (before, after) = (full().to_yaml(), narrowed.to_yaml());
            let changed: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
            assert_eq!(changed, [expected], "{key}");
            assert!(narrowed.is_within(&full()));
        }
    }

    #[test]
    fn a_mistake_names_its_key_and_rule() {
        for (key, to, part) in [
            ("colour", max("4"), "no dimension; write one of memory_requester,"),
            ("qbs", max("4"), "no dimension; did you mean `qps`?"),
            ("sge_min", max("4B"), "write `message` instead"),
            ("message_max", min("4B"), "write `message` instead"),
            ("qp_type", max("RC"), "name those to keep"),
            ("qp_type", only(&["XRC"]), "write one of RC, UC, UD"),
            ("qps", max("many"), "whole number"),
            ("qps", min("19999999"), "outside 1 to"),
            ("qps", only(&[]), "at least one"),
            ("pinned_per_host", min("1GiB"), "upper bound"),
            ("mtu", max("255"), "path MTU"),
            ("message", max("63B"), "which has {min: 64B"),
        ] {
            let error = full().narrow(key, &to).expect_err(key).to_string();
            assert!(error.starts_with(&format!("{key}: ")) && error.contains(part), "{error}");
        }
        let datagrams = full().narrow("qp_type", &only(&["UD"])).expect("in the full space");
        let error = datagrams.narrow("opcode", &only(&["READ"])).expect_err("UD has no READ");
        assert!(matches!(error, SpaceError::Empty { .. }), "{error}");
    }
}
