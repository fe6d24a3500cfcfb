//! Reading a tagged YAML file into a type, with file, line and key of every mistake. What the keys mean lives with the
//! types.

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use serde_yaml::Value;

use crate::document::{Document, DocumentError};

/// Mistakes that are looked for at most. Source: our choice, as many as an error says.
const MOST_MISTAKES: usize = 10;

/// Reads `text`, whose key `kelpie` has to be `tag`; the document comes along to refuse more of it by line.
///
/// # Errors
/// Names file, line, key and rule of every mistake, up to some.
pub fn read_tagged<'t, T: DeserializeOwned>(
    file: &str,
    text: &'t str,
    tag: &str,
) -> Result<(Document<'t>, T), DocumentError> {
    let document = Document::parse(file, text)?;
    document.expect(tag)?;
    let mut tree: Value = document.tree()?;
    let found = tree.as_mapping_mut().and_then(|map| map.shift_remove("kelpie"));
    if found.as_ref().and_then(|found| found.as_str()) != Some(tag) {
        return Err(document.refuse("kelpie", &format!("this is another version; write `kelpie: {tag}`")));
    }
    let read = decode(&document, tree, |_| Vec::new())?;
    Ok((document, read))
}

/// Decodes the tree of a document, and checks the rules of what it decodes to: each broken one with its key path.
///
/// serde ends at the first mistake. So what is wrong is noted and taken out, and the rest is decoded again.
///
/// # Errors
/// Every mistake, up to some.
pub fn decode<T: DeserializeOwned>(
    document: &Document<'_>,
    mut tree: Value,
    rules: impl FnOnce(&T) -> Vec<(String, String)>,
) -> Result<T, DocumentError> {
    let mut cut: Vec<Vec<Step>> = Vec::new();
    // Each time something is taken out, so that this ends.
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(tree.clone()) {
            Ok(read) => {
                let broken = rules(&read);
                document.refuse_all(broken.into_iter())?;
                return Ok(read);
            }
            Err(error) => error,
        };
        let here = steps(error.path());
        let place = in_file(&here, &cut);
        let rule = error.inner().to_string();
        if !is_consequence(&rule, &place, &cut) {
            document.note_value(&written(&place), &rule);
        }
        let is_out = cut.len() < MOST_MISTAKES * 4 && take_out(&mut tree, &here);
        if !is_out || document.has(MOST_MISTAKES) {
            return Err(document.error());
        }
        cut.push(place);
    }
}

/// A step of a key path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

fn steps(path: &serde_path_to_error::Path) -> Vec<Step> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

/// The path in the file of a path in the tree, from whose lists items were taken out.
fn in_file(here: &[Step], cut: &[Vec<Step>]) -> Vec<Step> {
    let mut place: Vec<Step> = Vec::new();
    for step in here {
        let Step::Index(index) = step else {
            place.push(step.clone());
            continue;
        };
        let of_list = |path: &Vec<Step>| match path.split_last() {
            Some((Step::Index(gone), list)) if list == place => Some(*gone),
            _ => None,
        };
        let mut gone: Vec<usize> = cut.iter().filter_map(of_list).collect();
        gone.sort_unstable();
        let index = gone.into_iter().fold(*index, |index, gone| if gone <= index { index + 1 } else { index });
        place.push(Step::Index(index));
    }
    place
}

/// Whether a key is missing only because it was taken out.
fn is_consequence(rule: &str, place: &[Step], cut: &[Vec<Step>]) -> bool {
    let missing = rule.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    missing.is_some_and(|key| cut.contains(&[place, &[Step::Key(key.to_owned())]].concat()))
}

/// Takes out what is at a path; says whether there was something.
fn take_out(tree: &mut Value, path: &[Step]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let mut at = Some(tree);
    for step in parents {
        at = at.and_then(|tree| match step {
            Step::Key(key) => tree.get_mut(key.as_str()),
            Step::Index(index) => tree.get_mut(*index),
        });
    }
    match (at, last) {
        (Some(Value::Mapping(map)), Step::Key(key)) => map.shift_remove(key.as_str()).is_some(),
        (Some(Value::Sequence(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "what is read does not matter here")]
    struct File {
        name: String,
        hosts: Vec<Host>,
        #[serde(default)]
        bounds: Bounds,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "as above")]
    struct Host {
        agent: String,
        #[serde(default)]
        port: u8,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Bounds {
        bps: f64,
    }

    fn mistakes(body: &str) -> Vec<(usize, String)> {
        match read_tagged::<File>("f.yaml", &format!("kelpie: file/1\n{body}"), "file/1") {
            Err(DocumentError::Mistakes(all)) => {
                all.first.into_iter().map(|one| (one.line, format!("{}: {}", one.key, one.rule))).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_mistake_is_said_where_it_is_and_what_follows_from_one_is_not() {
        let body = "name: [x]\nhosts:\n- {agent: a, port: 999}\n- {agent: [], prot: 1}\n- {}\n- {agent: b, port: x}\n\
                    bounds: {bps: fast, pps: 1}\nmore: 1\n";
        let expected = [
            (2, "name: a list is not text"),
            (4, "hosts[0].port: `999` is not a whole number from 0 to 255"),
            (5, "hosts[1].agent: a list is not text"),
            (5, "hosts[1].prot: unknown key `prot`; did you mean `port`?"),
            (6, "hosts[2]: key `agent` is missing"),
            (7, "hosts[3].port: `x` is not a whole number from 0 to 255"),
            (8, "bounds.bps: `fast` is not a number"),
            (8, "bounds.pps: unknown key `pps`; did you mean `bps`?"),
            (9, "more: unknown key `more`; the keys here are name, hosts, bounds"),
        ];
        let expected: Vec<_> = expected.map(|(line, text)| (line, text.to_owned())).into();
        assert_eq!(mistakes(body), expected);
    }

    #[test]
    fn what_serde_has_no_place_for_is_refused_where_it_stands() {
        for (body, expected) in [
            (
                "name: x\nhosts:\n- {agent: b, port: 99999999999999999999999}\n",
                (4, "hosts[0].port: `99999999999999999999999` is not a number of at most 64 bits"),
            ),
            (
                "name: x\nhosts: []\n\"my key\": 99999999999999999999999\n",
                (4, "my key: `99999999999999999999999` is not a number of at most 64 bits"),
            ),
            (
                "name: x\nhosts: []\nbounds:\n  1: 3\n  0x1: 4\n",
                (5, "the document: bounds: duplicate entry with key 1"),
            ),
        ] {
            let (line, rule) = expected;
            assert_eq!(mistakes(body), [(line, rule.to_owned())], "{body}");
        }
    }

    #[test]
    fn no_file_of_mistakes_takes_for_ever() {
        let many = "- {agent: [], port: x, more: 1}\n".repeat(5000);
        assert_eq!(mistakes(&format!("name: x\nhosts:\n{many}")).len(), MOST_MISTAKES);
        assert_eq!(mistakes("name: x\nhosts: 1\n"), [(3, "hosts: `1` is not a list, such as [a, b]".to_owned())]);
    }

    #[test]
    fn rules_are_checked_of_what_is_left() {
        let text = "name: x\nhosts: []\nbounds: {bps: fast}\n";
        let document = Document::parse("f.yaml", text).expect("YAML");
        let tree = document.tree().expect("YAML");
        let rules = |file: &File| vec![("name".to_owned(), format!("`{}` is short", file.name))];
        let error = decode::<File>(&document, tree, rules).expect_err("two mistakes").to_string();
        assert!(error.contains("name: `x` is short") && error.contains("`fast` is not a number"), "{error}");
    }
}
