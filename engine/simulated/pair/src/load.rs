//! Reading, writing and changing models. The parameters are in `model`, their domains in `check`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kelpie_spaces::document::{Document, DocumentError, MAX_INPUT, utf8};
use kelpie_spaces::{decode, serde_words, suggestion};
use serde_yaml::{Mapping, Value};

use crate::check::check;
use crate::model::Model;

/// The embedded models, by name. They alone can be bases, so that a loop could only be among them, and a test loads
/// each.
const EMBEDDED: [(&str, &str); 8] = [
    ("A", include_str!("../models/A.yaml")),
    ("B", include_str!("../models/B.yaml")),
    ("C", include_str!("../models/C.yaml")),
    ("D", include_str!("../models/D.yaml")),
    ("E", include_str!("../models/E.yaml")),
    ("F", include_str!("../models/F.yaml")),
    ("G", include_str!("../models/G.yaml")),
    ("H", include_str!("../models/H.yaml")),
];

/// Models that come along and are none of the paper's; they are known by name as well.
const OTHERS: [(&str, &str); 1] = [("DUAL", include_str!("../models/DUAL.yaml"))];

/// What every file says of itself and takes from no base.
const OWN: [&str; 3] = ["kelpie", "name", "description"];

/// Longest parameter path that an error repeats. Units: characters.
const MAX_QUOTE: usize = 200;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No such embedded model, and no such file.
    #[error("no simulated subsystem `{name}`: the embedded ones are A to H and DUAL; a file is given as sim:path.yaml")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    #[error("cannot read the model {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file does not fit the format, or a parameter its domain.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// `--set` names no parameter.
    #[error("the model has no parameter `{path}`: {hint}`kelpie subsystem show` lists them")]
    NoParameter {
        /// What was asked for.
        path: String,
        /// What may have been meant, as a question; empty if nothing is like it.
        hint: String,
    },
    /// `--set` names a group of parameters.
    #[error("`{path}` is a group of parameters: set one of them, such as {path}.{first}")]
    Group {
        /// What was asked for.
        path: String,
        /// Its first parameter.
        first: String,
    },
    /// A changed parameter is outside its domain.
    #[error("{path}: {rule}")]
    Parameter {
        /// Path of the parameter.
        path: String,
        /// The rule.
        rule: String,
    },
    /// `--fix` of an anomaly for which the model knows no fix.
    #[error("the model {name} has no fix for anomaly {anomaly}; it has fixes for {known}")]
    NoFix {
        /// The model.
        name: String,
        /// What was asked for.
        anomaly: u32,
        /// What there is.
        known: String,
    },
}

/// The embedded models' names.
pub fn names() -> [&'static str; 8] {
    EMBEDDED.map(|(name, _)| name)
}

/// Names of the embedded models that are none of the paper's.
pub fn other_names() -> impl Iterator<Item = &'static str> {
    OTHERS.iter().map(|(name, _)| *name)
}

fn embedded(name: &str) -> Option<&'static str> {
    EMBEDDED.iter().chain(&OTHERS).find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Takes away what must be there: a base may have it, and null removes an entry of the base.
fn without_required(schema: &mut serde_json::Value) {
    if let Some(object) = schema.as_object_mut() {
        object.remove("required");
        object.values_mut().for_each(without_required);
    }
}

/// The paths of all parameters.
fn parameters(tree: &Value) -> Vec<String> {
    let inside = |key: &str, value: &Value| {
        let below = parameters(value);
        if below.is_empty() { vec![key.to_owned()] } else { below.iter().map(|path| format!("{key}.{path}")).collect() }
    };
    match tree {
        Value::Mapping(map) => {
            map.iter().flat_map(|(key, value)| inside(key.as_str().unwrap_or_default(), value)).collect()
        }
        Value::Sequence(items) => {
            items.iter().enumerate().flat_map(|(index, value)| inside(&index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    }
}

fn no_parameter(path: &str, known: &[String]) -> ModelError {
    let near = suggestion(path, known.iter().map(String::as_str));
    let hint = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    ModelError::NoParameter { path: path.chars().take(MAX_QUOTE).collect(), hint }
}

impl Model {
    /// Loads an embedded model by name, or a file.
    ///
    /// # Errors
    /// When there is none of that name, or it does not fit the format.
    pub fn load(name_or_path: &str) -> Result<Self, ModelError> {
        if let Some(text) = embedded(name_or_path) {
            return Ok(Self::parse(name_or_path, text)?);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            return Err(ModelError::Unknown { name: name_or_path.chars().take(MAX_QUOTE).collect() });
        }
        let mut bytes = Vec::new();
        // One byte more than is accepted shows that a file is too long, and what has no end is not read to it.
        File::open(path)
            .and_then(|file| file.take(MAX_INPUT as u64 + 1).read_to_end(&mut bytes))
            .map_err(|source| ModelError::Read { path: path.to_owned(), source })?;
        Ok(Self::parse(name_or_path, utf8(name_or_path, &bytes)?)?)
    }

    /// The JSON schema of a model's file: whole, or what differs from its `base`.
    pub fn schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Model).to_value();
        without_required(&mut schema);
        schema["title"] = "Kelpie model, version 2".into();
        schema["required"] = serde_json::json!(OWN);
        schema["properties"]["kelpie"] = serde_json::json!({"const": "model/2"});
        // Null takes a fix of the base away.
        schema["properties"]["fixes"] = serde_json::json!({
            "type": "object", "description": "number of an anomaly to the parameters that mend it",
        });
        schema["properties"]["base"] = serde_json::json!({
            "enum": names(), "description": "the model that the file changes; the file is whole without it",
        });
        schema
    }

    /// Reads a model from text; `file` names it in errors.
    ///
    /// # Errors
    /// Names file, line, key and rule of the first mistake.
    pub fn parse(file: &str, text: &str) -> Result<Self, DocumentError> {
        let document = Document::parse(file, text)?;
        document.expect("model/2")?;
        let Value::Mapping(mut tree) = document.tree()? else { unreachable!("a map, or it was not expected") };
        if let Some(base) = tree.remove("base") {
            let known = base.as_str().and_then(|name| Some((name, embedded(name)?)));
            let (name, text) =
                known.ok_or_else(|| document.refuse("base", &"write the name of an embedded model, A to H"))?;
            let mut whole = Self::parse(name, text)?.tree();
            for key in OWN {
                whole.remove(key);
            }
            merge(&mut whole, tree);
            tree = whole;
        }
        // What F has stands in for what cannot be read, so that the rules of the rest are checked too.
        let spare = serde_yaml::from_str(embedded("F").unwrap_or_default()).unwrap_or_default();
        let rules = |model: &Self| check(model).into_iter().map(|refused| (refused.path, refused.rule)).collect();
        decode(&document, Value::Mapping(tree), &spare, rules)
    }

    fn tree(&self) -> Mapping {
        match serde_yaml::to_value(self) {
            Ok(Value::Mapping(tree)) => tree,
            _ => unreachable!("a model is a map of numbers, words, lists and maps, which YAML can hold"),
        }
    }

    /// The parameters as YAML.
    pub fn yaml(&self) -> String {
        serde_yaml::to_string(&self.tree()).expect("a tree can be written")
    }

    /// Changes one parameter, `path.to.key`, to a YAML value.
    ///
    /// # Errors
    /// When there is no such parameter, or the value does not fit.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), ModelError> {
        let value = serde_yaml::from_str(value)
            .map_err(|error| ModelError::Parameter { path: path.to_owned(), rule: error.to_string() })?;
        self.set_value(path, value)
    }

    /// The number at `path.to.key`; none if there is none.
    pub fn number(&self, path: &str) -> Option<f64> {
        let tree = Value::Mapping(self.tree());
        path.split('.').try_fold(&tree, |node, key| node.get(key))?.as_f64()
    }

    /// Changes several numbers at once, so that their rules are checked when all have changed.
    ///
    /// # Errors
    /// When there is no such parameter, or a value does not fit.
    pub fn set_numbers(&mut self, numbers: &[(&str, f64)]) -> Result<(), ModelError> {
        let mut tree = Value::Mapping(self.tree());
        for (path, number) in numbers {
            let node =
                path.split('.').try_fold(&mut tree, |node, key| node.get_mut(key)).filter(|node| node.is_number());
            // A count is written without a fraction, or it would not be read as one.
            let whole = (number.fract() == 0.0 && number.abs() < 1e15).then_some(*number as i64);
            *node.ok_or_else(|| no_parameter(path, &[]))? = whole.map_or_else(|| Value::from(*number), Value::from);
        }
        let Value::Mapping(tree) = tree else { unreachable!("it was made as one") };
        self.replace(tree)
    }

    /// Takes other parameters, if they fit.
    fn replace(&mut self, tree: Mapping) -> Result<(), ModelError> {
        let model: Self = serde_path_to_error::deserialize(Value::Mapping(tree)).map_err(|error| {
            let rule = serde_words(&error.inner().to_string());
            ModelError::Parameter { path: error.path().to_string(), rule }
        })?;
        if let Some(refused) = check(&model).into_iter().next() {
            return Err(ModelError::Parameter { path: refused.path, rule: refused.rule });
        }
        *self = model;
        Ok(())
    }

    fn set_value(&mut self, path: &str, value: Value) -> Result<(), ModelError> {
        let mut tree = Value::Mapping(self.tree());
        let known = parameters(&tree);
        let no_parameter = || no_parameter(path, &known);
        let mut node = &mut tree;
        for key in path.split('.') {
            let next = match node {
                Value::Sequence(items) => key.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
                Value::Mapping(_) => node.get_mut(key),
                _ => None,
            };
            node = next.ok_or_else(no_parameter)?;
        }
        if matches!(node, Value::Mapping(_) | Value::Sequence(_)) {
            let inside = known.iter().find_map(|known| known.strip_prefix(path)?.strip_prefix('.'));
            return Err(match inside {
                Some(first) => ModelError::Group { path: path.to_owned(), first: first.to_owned() },
                None => no_parameter(),
            });
        }
        *node = value;
        let Value::Mapping(tree) = tree else { return Err(no_parameter()) };
        self.replace(tree)
    }

    /// Applies the fix of one of the paper's anomalies.
    ///
    /// # Errors
    /// When the model knows none.
    pub fn fix(&mut self, anomaly: u32) -> Result<(), ModelError> {
        let Some(changes) = self.fixes.get(&anomaly).cloned() else {
            let known: Vec<String> = self.fixes.keys().map(u32::to_string).collect();
            return Err(ModelError::NoFix { name: self.name.clone(), anomaly, known: known.join(", ") });
        };
        changes.into_iter().try_for_each(|(path, value)| self.set_value(&path, value))
    }
}

/// Changes `tree` key by key; what is no map replaces what was there, and null removes it.
///
/// Source: JSON Merge Patch, RFC 7386.
fn merge(tree: &mut Mapping, changes: Mapping) {
    for (key, change) in changes {
        match (tree.get_mut(&key), change) {
            (Some(Value::Mapping(old)), Value::Mapping(change)) => merge(old, change),
            (Some(_), Value::Null) => drop(tree.remove(&key)),
            (_, change) => drop(tree.insert(key, change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file over F.
    fn over_f(changes: &str) -> Result<Model, String> {
        let text = format!("kelpie: model/2\nname: mine\ndescription: mine\nbase: F\n{changes}");
        Model::parse("mine.yaml", &text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_embedded_model_can_be_loaded_shown_and_fixed() {
        for name in names() {
            let model = Model::load(name).expect(name);
            assert_eq!(model.name, name);
            assert_eq!(Model::parse(name, &model.yaml()).as_ref(), Ok(&model));
            for anomaly in model.fixes.keys() {
                model.clone().fix(*anomaly).expect("a fix sets parameters that there are");
            }
        }
    }

    #[test]
    fn numbers_that_bound_each_other_change_together() {
        let mut model = Model::load("F").expect("embedded");
        assert_eq!(
            [model.number("receive.xoff_kib"), model.number("receive.no"), model.number("host.gpus")],
            [Some(192.0), None, None]
        );
        let change = [("receive.xon_kib", 600.0), ("receive.xoff_kib", 700.0), ("receive.capacity_kib", 800.0)];
        assert!(model.set_numbers(&change[..1]).is_err(), "above XOFF");
        model.set_numbers(&change).expect("all fit each other");
        model.set_numbers(&[("processing.max_reads", 9.0), ("pcie.gbps", 126.5)]).expect("a count and a rate");
        assert_eq!((model.receive.xon_kib, model.processing.max_reads, model.pcie.gbps), (600.0, 9, 126.5));
        for (path, number) in [("pcie.gpbs", 1.0), ("name", 1.0), ("host.gpus", 1.0), ("pcie.gbps", f64::NAN)] {
            assert!(model.set_numbers(&[(path, number)]).is_err(), "{path}");
        }
    }

    #[test]
    fn a_file_holds_what_differs_from_its_base() {
        let base = Model::load("F").expect("embedded");
        let mine = over_f("fetch: {send_misses: 3}\nhost: {gpus: []}\nfixes: {12: null}\n").expect("a model");
        assert_eq!((mine.fetch.send_misses, mine.fetch.wqe_lines), (3, base.fetch.wqe_lines));
        assert!(mine.host.gpus.is_empty());
        assert!(mine.fixes.keys().eq(&[3, 11]));
        let forced = over_f("port: {force_mtu: 4096}\n").expect("a model");
        assert_eq!(forced.port.force_mtu, Some(4096));
    }

    #[test]
    fn all_mistakes_of_a_file_are_named_at_once() {
        let many = "pcie: {gbps: fast, gpbs: 3}\nprocessing: {unitz: 3, slots: 0}\nhost: {memory_gbps: -1, dram: []}\n\
                    receive: {xoff_kib: 100, xon_kib: 300}\ncaches: {contexts: {kib: 1e12, ways: 8, replacement: random}}\n";
        let error = over_f(many).expect_err("nine mistakes");
        for expected in [
            "mine.yaml:5:14: pcie.gbps: `fast` is not a number",
            "mine.yaml:5:20: pcie.gpbs: unknown key",
            "mine.yaml:6:14: processing.unitz: unknown key `unitz`; did you mean `units`?",
            "mine.yaml:6:31: processing.slots: 0 must be above zero",
            "mine.yaml:7:21: host.memory_gbps: -1.0 is outside",
            "mine.yaml:7:31: host.dram: 0 must list 1 to 64",
            "mine.yaml:8:35: receive.xon_kib: 300 must not be above xoff_kib",
            "mine.yaml:9:26: caches.contexts.kib: 1000000000000 KiB",
        ] {
            assert!(error.contains(expected), "{expected} is not in:\n{error}");
        }
    }

    /// That an error names this line, at any column, and says this.
    fn says(error: &str, message: &str) {
        let (place, rest) = message.split_once(": ").expect("a line");
        assert!(error.starts_with(&format!("{place}:")) && error.contains(rest), "{message}: {error}");
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_what_may_have_been_meant() {
        for (path, value, expected) in [
            ("port", "1", "`port` is a group of parameters: set one of them, such as port.line_rate_gbps"),
            ("port.max_mqps", "1", "did you mean `port.max_mpps`?"),
            ("colour", "1", "the model has no parameter `colour`: `kelpie subsystem show`"),
            ("port.max_mpps", "fast", "port.max_mpps: `fast` is not a number"),
            ("port.line_rate_gbps", "1e-30", "is outside 0.001 to 1e9"),
            ("fetch.send_misses", "-1", "`-1` is not a whole number"),
        ] {
            let error = Model::load("F").expect("embedded").set(path, value).expect_err(path).to_string();
            assert!(error.contains(expected), "{path}: {error}");
        }
    }

    #[test]
    fn mistakes_name_file_line_key_and_rule() {
        for (changes, message) in [
            ("port: {max_mqps: 3}\n", "mine.yaml:5: port.max_mqps: unknown key `max_mqps`; did you mean `max_mpps`?"),
            ("port:\n  link_delay_ns: 1\n  max_mpps: fast\n", "mine.yaml:7: port.max_mpps: `fast` is not a number"),
            (
                "host:\n  gpus:\n    - {socket: one, beside_nic: true}\n",
                "mine.yaml:7: host.gpus[0].socket: `one` is not a whole number",
            ),
            ("fetch: {send_misses: null}\n", "mine.yaml:5: fetch: key `send_misses` is missing"),
            ("fetch: {missus: null}\n", "mine.yaml:5: fetch.missus: unknown key"),
            ("fetch: {send_misses: 0}\n", "mine.yaml:5: fetch.send_misses: 0 must be above zero"),
            ("receive: {xoff_kib: 1}\n", "mine.yaml:5: receive.xon_kib: 128 must not be above"),
            ("fetch: {send_misses: 1}\nfetch: {send_misses: 2}\n", "mine.yaml:6: key `fetch` is written twice"),
        ] {
            says(&over_f(changes).expect_err(changes), message);
        }
        for (text, message) in [
            ("kelpie: model/2\nbase: mine.yaml\n", "m.yaml:2: base: write the name of an embedded model"),
            ("kelpie: model/2\nbase: [F]\n", "m.yaml:2: base: write the name of an embedded model"),
            ("kelpie: model/2\nbase: F\ndescription: mine\n", "m.yaml:1: the document: key `name` is missing"),
            ("kelpie: model/1\nbase: F\nname: m\ndescription: m\n", "m.yaml:1: kelpie: model/1 is not model/2"),
            ("just a word\n", "m.yaml:1: the document: "),
        ] {
            says(&Model::parse("m.yaml", text).expect_err(text).to_string(), message);
        }
    }
}
