//! The table against the format of a model file and against the models; the reference page of all parameters.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Bound;

use serde_json::Value;

use super::*;
use crate::load::names;

/// A key of a model file: its path, what the format says of it, and the words that it may be.
struct ModelKey {
    path: String,
    about: String,
    unit: String,
    words: Vec<String>,
}

/// All keys of a model file, whether or not any model has them: the leaves of its schema.
fn keys() -> Vec<ModelKey> {
    let schema = schemars::schema_for!(Model).to_value();
    let mut keys = Vec::new();
    let groups = schema["properties"].as_object().expect("a model is a map");
    for (name, group) in groups {
        walk(&schema, resolved(&schema, group), name, "", &mut keys);
    }
    keys
}

/// Adds the keys of a node, of which `about` says what it is.
fn walk(schema: &Value, node: &Value, path: &str, about: &str, keys: &mut Vec<ModelKey>) {
    if let Some(parts) = node["properties"].as_object() {
        for (name, part) in parts {
            let own = part["description"].as_str().unwrap_or_default();
            let about = format!("{about} {own}");
            walk(schema, resolved(schema, part), &format!("{path}.{name}"), about.trim_start(), keys);
        }
        return;
    }
    let of_enum = node["oneOf"].as_array().into_iter().flatten().filter_map(|word| word["const"].as_str());
    let words = of_enum.map(str::to_owned).collect();
    let about = about.replace('\n', " ");
    let (before, unit) = about.split_once("Units: ").unwrap_or((&about, "."));
    let (unit, after) = unit.split_once('.').expect("a unit ends its sentence");
    let about = format!("{}{after}", before.trim_end());
    keys.push(ModelKey { path: path.to_owned(), about, unit: unit.to_owned(), words });
}

/// What a node refers to, be it optional or not.
fn resolved<'a>(schema: &'a Value, node: &'a Value) -> &'a Value {
    let some = node["anyOf"].as_array().and_then(|any| any.iter().find(|one| one["type"] != "null")).unwrap_or(node);
    match some["$ref"].as_str() {
        Some(name) => schema.pointer(name.trim_start_matches('#')).expect("a schema refers to its own parts"),
        None => some,
    }
}

#[test]
fn every_key_of_a_model_file_has_a_row_or_a_reason_and_every_row_a_key() {
    let keys: BTreeSet<String> = keys().into_iter().map(|key| key.path).collect();
    let rows: BTreeSet<String> = TABLE.iter().map(|row| row.path.to_owned()).collect();
    let others: BTreeSet<String> = NO_PARAMETERS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(rows.len(), TABLE.len(), "two rows have one path");
    assert!(rows.is_disjoint(&others), "a parameter is among those that are none");
    let known: BTreeSet<String> = rows.union(&others).cloned().collect();
    let forgotten: Vec<&String> = keys.difference(&known).collect();
    assert!(
        forgotten.is_empty(),
        "give each a row of `parameters::TABLE`, or a reason in `NO_PARAMETERS`: {forgotten:?}"
    );
    assert_eq!(known.difference(&keys).next(), None, "no key of a model file");
}

#[test]
fn every_number_of_a_model_is_read_by_its_row() {
    let mut read = BTreeSet::new();
    let mut models: Vec<Model> = names().map(|name| Model::load(name).expect("embedded")).into();
    models.push(Model::load("DUAL").expect("embedded"));
    for part in ["pcie: {sleep: {after_us: 20, wake_us: 32}}", "port: {force_mtu: 1024}"] {
        let text = format!("kelpie: model/2\nname: mine\ndescription: F and one part\nbase: F\n{part}\n");
        models.push(Model::parse("mine", &text).expect("a model"));
    }
    for model in &models {
        for row in TABLE {
            assert_eq!((row.get)(model), model.number(row.path), "{} of {}", row.path, model.name);
            read.extend((row.get)(model).map(|_| row.path));
        }
    }
    let is_unread = |row: &&ParameterRow| !matches!(row.domain, Words(_)) && !read.contains(row.path);
    assert_eq!(TABLE.iter().find(is_unread).map(|row| row.path), None, "no model of this test has it");
}

#[test]
fn rows_agree_with_the_format_in_units_and_words() {
    for key in keys() {
        let Some(row) = TABLE.iter().find(|row| row.path == key.path) else { continue };
        let unit = key.unit.replace("million packets/s", "Mpackets/s");
        assert_eq!(row.unit, unit, "{}: {}", row.path, key.about);
        if let Words(words) = row.domain {
            assert!(key.words.is_empty() || key.words == words, "{}: {:?}", row.path, key.words);
        }
    }
}

#[test]
fn whole_numbers_are_those_that_the_format_takes_only_whole() {
    let model = Model::load("DUAL").expect("embedded");
    for row in TABLE {
        let Some(value) = (row.get)(&model) else { continue };
        let takes_parts = model.clone().set_numbers(&[(row.path, value + 0.25)]).is_ok();
        assert!(!(row.domain.is_whole() && takes_parts), "{} takes {value}.25", row.path);
        let refuses_type = model.clone().set_numbers(&[(row.path, value + 0.25)]).err().map(|error| error.to_string());
        let is_of_type = refuses_type.is_some_and(|said| said.contains("is not a whole number"));
        assert_eq!(row.domain.is_whole(), is_of_type, "{}", row.path);
    }
}

#[test]
fn turns_are_counted_without_a_gap() {
    let fitted: Vec<u8> = Parameter::fitted()
        .into_iter()
        .map(|parameter| match parameter.row().fitted {
            Fitted::Yes { turn, .. } => turn,
            Fitted::Along(_) | Fitted::No(_) => unreachable!("it is fitted"),
        })
        .collect();
    assert_eq!(fitted, (0..fitted.len() as u8).collect::<Vec<_>>());
    let mut words: Vec<u8> = (TABLE.iter())
        .filter_map(|row| match row.drawn {
            Drawn::Either { turn, .. } => Some(turn),
            _ => None,
        })
        .collect();
    words.sort_unstable();
    assert_eq!(words, (0..words.len() as u8).collect::<Vec<_>>());
}

#[test]
fn what_goes_along_goes_with_one_that_is_fitted_and_drawn() {
    for row in TABLE {
        if let Fitted::Along(with) = row.fitted {
            assert!(matches!(with.row().fitted, Fitted::Yes { .. }), "{}", row.path);
        }
        if let Drawn::Along(with) = row.drawn {
            assert!(matches!(with.row().drawn, Drawn::From(..)), "{}", row.path);
        }
    }
}

fn values(domain: &ParameterDomain) -> String {
    let written = |value: f64| if value % 1e9 == 0.0 && value > 0.0 { format!("{value:e}") } else { value.to_string() };
    match domain {
        Real(range) | Whole(range) => {
            let low = match range.ends.0 {
                Bound::Included(low) => written(low),
                Bound::Excluded(low) => format!("above {}", written(low)),
                Bound::Unbounded => String::new(),
            };
            match range.ends.1 {
                Bound::Included(high) => format!("{low} to {}", written(high)),
                Bound::Excluded(high) => format!("{low} to below {}", written(high)),
                Bound::Unbounded => format!("from {low}"),
            }
        }
        Words(words) => words.join(", "),
        Mtu => "a path MTU, or null".to_owned(),
    }
}

fn fitted(row: &ParameterRow) -> String {
    match row.fitted {
        Fitted::Yes { .. } => "yes".to_owned(),
        Fitted::Along(with) => format!("along with `{with}`"),
        Fitted::No(why) => format!("no: {why}"),
    }
}

fn drawn(row: &ParameterRow) -> String {
    let range = |draw: &DrawRange| format!("{} to {}", draw.low, draw.high);
    let drawn = match &row.drawn {
        Drawn::No(why) => format!("no: {why}"),
        Drawn::Alone(draw) => range(draw),
        Drawn::WithPort => "a pair of line rate and PCIe".to_owned(),
        Drawn::ByContexts([many, few]) => format!("{} or {}", range(many), range(few)),
        Drawn::OfContexts([many, few]) => format!("{many} or {few}"),
        Drawn::From(what, draw) => format!("from {what}: {}", range(draw)),
        Drawn::Along(with) => format!("along with `{with}`"),
        Drawn::Either { words, .. } => words.join(" or "),
    };
    match row.broken {
        Some(Small) => drawn + "; or far too small",
        Some(Narrow) => drawn + "; or far too narrow",
        Some(Serialised) => drawn + "; or far too slow",
        None => drawn,
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Parameters of a model\n\n\
         Generated from the table in `engine/simulated/pair/src/parameters.rs`; a test fails when this page is stale and says\n\
         how to renew it.\n\n\
         A model file (`kelpie: model/2`) gives each parameter a value, with the source of the value in its line. The\n\
         columns say which values a file may have, whether `kelpie calibrate` fits the parameter, and what\n\
         `kelpie subsystem generate` draws. The step is 1 where only whole numbers are taken.\n",
    );
    let keys = keys();
    let mut group = "";
    for row in TABLE {
        let of_row = row.path.split('.').next().unwrap_or_default();
        if of_row != group {
            group = of_row;
            let _ = write!(
                page,
                "\n## `{group}`\n\n| parameter | meaning | unit | values | step | fitted | drawn |\n\
                 |---|---|---|---|---|---|---|\n"
            );
        }
        let about = keys.iter().find(|key| key.path == row.path).map_or("", |key| key.about.as_str());
        let step = if row.domain.is_whole() { "1" } else { "" };
        let (values, fitted, drawn) = (values(&row.domain), fitted(row), drawn(row));
        let _ = writeln!(page, "| `{}` | {about} | {} | {values} | {step} | {fitted} | {drawn} |", row.path, row.unit);
    }
    page.push_str("\n## Sources of the ranges\n\n");
    let mut known = BTreeSet::new();
    for row in TABLE {
        if let Real(range) | Whole(range) = row.domain
            && known.insert((values(&row.domain), range.source))
        {
            let _ = writeln!(page, "- {}: {}", values(&row.domain), range.source);
        }
    }
    page.push_str("\nThe sources of what is drawn are in [generated-subsystems.md](../generated-subsystems.md).\n");
    page.push_str("\n## Keys that are no parameters\n\n");
    for (path, why) in NO_PARAMETERS {
        let _ = writeln!(page, "- `{path}`: {why}");
    }
    page
}

#[test]
fn the_reference_page_is_not_stale() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/parameters.md");
    if std::env::var_os("KELPIE_BLESS").is_some() {
        std::fs::write(path, page()).expect("docs/ is writable where the page is renewed");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/reference/parameters.md is stale; renew it: KELPIE_BLESS=1 cargo test -p kelpie-sim parameters"
    );
}
