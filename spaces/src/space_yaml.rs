//! Spaces as YAML, format `space/1`, and the catalog that is built in. Workloads are in `yaml`.

use std::fmt::Write as _;

use crate::dimensions::{Dimension, Kind, TABLE};
use crate::document::{Document, Reader, utf8};
use crate::domain::Domain;
use crate::space::{Space, SpaceError};

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
        let document = Document::parse(source_name, text)?;
        document.expect(FORMAT)?;
        let (about, domains) = document.complete(whole(&document.root()))?;
        Space::new(source_name, about, domains)
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

/// What the space is about, and the domain of each dimension.
fn whole(root: &Reader<'_>) -> Option<(String, Vec<Domain>)> {
    let mut keys = vec!["kelpie", "about"];
    keys.extend(TABLE.iter().map(|row| row.name));
    let top = root.map(&keys)?;
    let tag = top.need("kelpie", |tag| match tag.text()? {
        FORMAT => Some(()),
        _ => tag.refuse(&format!("this is another version; write `kelpie: {FORMAT}`")),
    });
    let about = top.or("about", String::new(), |place| Some(place.text()?.trim().chars().take(MAX_ABOUT).collect()));
    let domains: Vec<Option<Domain>> = Dimension::all()
        .map(|dimension| top.or(dimension.name(), dimension.full(), |place| domain(dimension, place)))
        .collect();
    tag?;
    Some((about?, domains.into_iter().collect::<Option<_>>()?))
}

fn domain(dimension: Dimension, place: &Reader<'_>) -> Option<Domain> {
    let domain = any_domain(dimension, place)?;
    if dimension == Dimension::PinnedPerHost && (!domain.is_range() || domain.min() != dimension.full().min()) {
        return place.refuse(&"only an upper bound has a meaning here; write {max: ...}");
    }
    Some(domain)
}

fn any_domain(dimension: Dimension, place: &Reader<'_>) -> Option<Domain> {
    let code = |place: &Reader<'_>| dimension.code(place.text()?).map_or_else(|rule| place.refuse(&rule), Some);
    if place.is_list() {
        let values = place.list(MAX_SET, code)?;
        return Domain::set(values).or_else(|| place.refuse(&"an empty set admits nothing"));
    }
    if !matches!(dimension.row().kind, Kind::Count | Kind::Size) {
        return place.refuse(&"write a list of the values to admit, such as [a, b]");
    }
    let fields = place.map(&["min", "max"])?;
    let full = match dimension.row().optional() {
        // Whoever gives one end of what is off elsewhere wants it on.
        Some(_) => Domain::range(dimension.row().limit.0, dimension.row().limit.1).unwrap_or_else(|| dimension.full()),
        None => dimension.full(),
    };
    let (min, max) = (fields.or("min", full.min(), code), fields.or("max", full.max(), code));
    let (min, max) = (min?, max?);
    Domain::range(min, max)
        .or_else(|| place.refuse(&format!("min {} is over max {}", dimension.word(min), dimension.word(max))))
}
