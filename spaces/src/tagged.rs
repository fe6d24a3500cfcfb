//! Reading a tagged YAML file into a type, with file, line and key of every mistake. What the keys mean lives with the
//! types.

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use serde_yaml::Value;

use crate::document::{Document, DocumentError, PathSegment, quote};
use crate::scalar::Scalar;
use crate::serde_words::{known_fields, pair};

/// How often a tree is decoded at most. Source: our choice, four times as many as an error shows mistakes, because some
/// follow from others.
const MOST_ROUNDS: usize = 40;

/// A word that no format knows.
const NO_WORD: &str = "\u{1}";

/// Reads `text`, whose key `kelpie` has to be `tag`; the document comes along to refuse more of it by line.
///
/// # Errors
/// Names file, line, key and rule of every mistake, up to some.
pub fn read_tagged<'t, T: DeserializeOwned>(
    file: &str,
    text: &'t str,
    tag: &str,
) -> Result<(Document<'t>, T), DocumentError> {
    read(file, text, tag, false)
}

/// As [`read_tagged`], of a format in which null stands for what is absent or was not measured.
///
/// # Errors
/// As [`read_tagged`], but for keys without a value.
pub fn read_tagged_with_null<'t, T: DeserializeOwned>(
    file: &str,
    text: &'t str,
    tag: &str,
) -> Result<(Document<'t>, T), DocumentError> {
    read(file, text, tag, true)
}

fn read<'t, T: DeserializeOwned>(
    file: &str,
    text: &'t str,
    tag: &str,
    has_null: bool,
) -> Result<(Document<'t>, T), DocumentError> {
    let document = Document::parse(file, text)?;
    document.expect(tag)?;
    let mut tree = document.tree()?;
    let found = tree.as_mapping_mut().and_then(|map| map.shift_remove("kelpie"));
    let found = found.as_ref().and_then(Value::as_str).unwrap_or_default();
    if found != tag {
        return Err(document.refuse("kelpie", &format!("this is format `{}`; write `kelpie: {tag}`", quote(found))));
    }
    // Whatever is null in the file may be.
    let spare = if has_null { tree.clone() } else { Value::Null };
    let read = decode_beside(&document, tree, &Value::Null, &spare, |_| Vec::new())?;
    Ok((document, read))
}

/// Decodes the tree of a document, and checks the rules of what it decodes to: each broken one with its key path.
///
/// serde ends at the first mistake. So what is wrong is noted and taken out, or replaced by what `spare` has there, and
/// the rest is decoded again. Each round costs as much as the file is long, so that their number has a bound and a file
/// of nothing but mistakes is refused soon.
///
/// Null is a value only where `spare` has it.
///
/// # Errors
/// Every mistake, up to some.
pub fn decode<T: DeserializeOwned>(
    document: &Document<'_>,
    tree: Value,
    spare: &Value,
    rules: impl FnOnce(&T) -> Vec<(String, String)>,
) -> Result<T, DocumentError> {
    decode_beside(document, tree, spare, spare, rules)
}

/// The same; null is a value where `nulls` has it.
fn decode_beside<T: DeserializeOwned>(
    document: &Document<'_>,
    mut tree: Value,
    spare: &Value,
    nulls: &Value,
    rules: impl FnOnce(&T) -> Vec<(String, String)>,
) -> Result<T, DocumentError> {
    let mut cut: Vec<Vec<PathSegment>> = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let error = match serde_path_to_error::deserialize::<_, T>(tree.clone()) {
            Ok(done) => {
                // serde takes nothing for a default; whoever writes a key without a value has lost the value.
                nothing(&tree, &mut Vec::new(), &mut |path| {
                    let place = in_file(path, &cut);
                    let is_value = get(nulls, &place).is_some_and(Value::is_null);
                    if !is_value && document.scalar(&place).is_some_and(Scalar::is_missing) {
                        document.note_missing(&place);
                    }
                });
                document.refuse_all(rules(&done).into_iter())?;
                return Ok(done);
            }
            Err(error) => error,
        };
        let here = steps(error.path());
        let place = in_file(&here, &cut);
        let rule = error.inner().to_string();
        let rule = with_words::<T>(&tree, &here, &rule).unwrap_or(rule);
        let rule = with_tag(&here, rule);
        if !is_consequence(&rule, &place, &cut) {
            document.note_serde(&place, &rule);
        }
        let Some((last, map)) = here.split_last().and_then(|(last, parents)| Some((last, find(&mut tree, parents)?)))
        else {
            return Err(document.error());
        };
        for key in unknown_keys(map, last, &rule) {
            let (PathSegment::Key(named), [above @ .., _]) = (last, &place[..]) else { continue };
            let rule = rule.replacen(&format!("`{named}`"), &format!("`{key}`"), 1);
            document.note_serde(&[above, &[PathSegment::Key(key)]].concat(), &rule);
        }
        let replacement = get(spare, &here).filter(|_| !cut.contains(&place));
        if !take_out(map, last, replacement) {
            return Err(document.error());
        }
        cut.push(place);
    }
    document.is_read_in_part();
    Err(document.error())
}

/// The words that may stand at a path, if serde only says that what stands there is none: it names them to who writes a
/// word that it does not know.
fn with_words<T: DeserializeOwned>(tree: &Value, here: &[PathSegment], rule: &str) -> Option<String> {
    let (found, expected) = rule.strip_prefix("invalid type: ")?.rsplit_once(", expected ")?;
    if !expected.contains("enum") {
        return None;
    }
    let mut asked = tree.clone();
    *find(&mut asked, here)? = Value::String(NO_WORD.to_owned());
    let error = serde_path_to_error::deserialize::<_, T>(asked).err()?.into_inner().to_string();
    let (_, known) = pair(&error, "unknown variant ").filter(|(word, _)| *word == NO_WORD)?;
    Some(format!("invalid type: {found}, expected one of {}", known.join(", ")))
}

/// What serde says of an unknown key of the document, whose tag it does not know of.
fn with_tag(here: &[PathSegment], rule: String) -> String {
    match (here, known_fields(&rule), pair(&rule, "unknown field ")) {
        ([PathSegment::Key(_)], Some(known), Some((found, _))) if !known.contains(&"kelpie") => {
            format!("unknown field `{found}`, expected one of `kelpie`, `{}`", known.join("`, `"))
        }
        _ => rule,
    }
}

/// Calls `each` with the path of everything that is nothing.
fn nothing(tree: &Value, path: &mut Vec<PathSegment>, each: &mut impl FnMut(&[PathSegment])) {
    let mut below = |step: PathSegment, value: &Value, path: &mut Vec<PathSegment>| {
        path.push(step);
        nothing(value, path, each);
        path.pop();
    };
    match tree {
        Value::Mapping(map) => {
            let named = map.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
            named.for_each(|(key, value)| below(PathSegment::Key(key.to_owned()), value, path));
        }
        Value::Sequence(items) => {
            items.iter().enumerate().for_each(|(index, item)| below(PathSegment::Index(index), item, path));
        }
        Value::Null => each(path),
        _ => {}
    }
}

fn steps(path: &serde_path_to_error::Path) -> Vec<PathSegment> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(PathSegment::Index(*index)),
        Segment::Map { key } => Some(PathSegment::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

/// The path in the file of a path in the tree, from whose lists items were taken out.
fn in_file(here: &[PathSegment], cut: &[Vec<PathSegment>]) -> Vec<PathSegment> {
    let mut place: Vec<PathSegment> = Vec::new();
    for step in here {
        let PathSegment::Index(index) = step else {
            place.push(step.clone());
            continue;
        };
        let of_list = |path: &Vec<PathSegment>| match path.split_last() {
            Some((PathSegment::Index(gone), list)) if list == place => Some(*gone),
            _ => None,
        };
        let mut gone: Vec<usize> = cut.iter().filter_map(of_list).collect();
        gone.sort_unstable();
        let index = gone.into_iter().fold(*index, |index, gone| if gone <= index { index + 1 } else { index });
        place.push(PathSegment::Index(index));
    }
    place
}

/// Whether something is wrong only because of what was taken out: a key that is missing, or a rule between the parts of
/// a group or list that has lost one.
fn is_consequence(rule: &str, place: &[PathSegment], cut: &[Vec<PathSegment>]) -> bool {
    let lost = |path: &Vec<PathSegment>| {
        path.split_last().filter(|(_, parent)| *parent == place).map(|(last, _)| last.clone())
    };
    let mut lost = cut.iter().filter_map(lost);
    match rule.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        Some(key) => lost.any(|lost| lost == PathSegment::Key(key.to_owned())),
        None => lost.next().is_some(),
    }
}

/// What is at a path.
fn get<'t>(tree: &'t Value, path: &[PathSegment]) -> Option<&'t Value> {
    path.iter().try_fold(tree, |tree, step| match step {
        PathSegment::Key(key) => tree.get(key.as_str()),
        PathSegment::Index(index) => tree.get(*index),
    })
}

/// The same, to change it.
fn find<'t>(tree: &'t mut Value, path: &[PathSegment]) -> Option<&'t mut Value> {
    path.iter().try_fold(tree, |tree, step| match step {
        PathSegment::Key(key) => tree.get_mut(key.as_str()),
        PathSegment::Index(index) => tree.get_mut(*index),
    })
}

/// Takes the other keys out of a map that serde does not know either, if it has just refused one and said which it
/// knows. So a map of unknown keys takes one round.
fn unknown_keys(map: &mut Value, refused: &PathSegment, rule: &str) -> Vec<String> {
    let (Value::Mapping(map), PathSegment::Key(refused), Some(known)) = (map, refused, known_fields(rule)) else {
        return Vec::new();
    };
    let is_known = |key: &Value| key.as_str().is_none_or(|key| key == refused || known.contains(&key));
    let unknown = map.keys().filter(|key| !is_known(key)).filter_map(Value::as_str);
    let unknown: Vec<String> = unknown.map(str::to_owned).collect();
    map.retain(|key, _| is_known(key));
    unknown
}

/// Takes a part out of a map or list, or replaces it; says whether there was something.
fn take_out(whole: &mut Value, part: &PathSegment, replacement: Option<&Value>) -> bool {
    match (whole, part, replacement) {
        (Value::Mapping(map), PathSegment::Key(key), Some(value)) => {
            map.insert(key.as_str().into(), value.clone()).is_some()
        }
        (Value::Mapping(map), PathSegment::Key(key), None) => map.shift_remove(key.as_str()).is_some(),
        (Value::Sequence(items), PathSegment::Index(index), _) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
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
            (9, "more: unknown key `more`; the keys here are kelpie, name, hosts, bounds"),
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
            ("name: x\nhosts: []\nbounds:\n  1: 3\n", (4, "bounds: `1` is not a key that is known here")),
        ] {
            let (line, rule) = expected;
            assert_eq!(mistakes(body), [(line, rule.to_owned())], "{body}");
        }
    }

    /// What an error says behind its tenth mistake.
    fn more(body: &str) -> String {
        let error = read_tagged::<File>("f.yaml", &format!("kelpie: file/1\n{body}"), "file/1").expect_err("mistakes");
        let DocumentError::Mistakes(all) = &error else { panic!("{error}") };
        assert_eq!(all.first.len(), 10, "{error}");
        error.to_string().lines().last().unwrap_or_default().to_owned()
    }

    /// A file of the greatest length takes well below a second; it would take minutes if every mistake cost as much as
    /// the file is long.
    #[test]
    fn the_time_grows_with_the_file_and_no_faster() {
        let keys: String = (0..90_000).map(|number| ["k", &number.to_string(), ": 1\n"].concat()).collect();
        assert_eq!(more(&format!("name: x\nhosts: []\n{keys}")), "and 89990 more");
        let hosts = "- {agent: [], port: x, more: 1}\n".repeat(2000);
        assert_eq!(more(&format!("name: x\nhosts:\n{hosts}")), "and at least 20 more");
        let rules = (0..90_000).map(|number| (format!("k{number}"), "wrong"));
        let document = Document::parse("f.yaml", &keys).expect("YAML");
        let error = document.refuse_all(rules).expect_err("mistakes").to_string();
        assert!(error.starts_with("f.yaml:1:5: k0: wrong\n") && error.ends_with("\nand 89990 more"), "{error}");
    }

    #[test]
    fn unknown_keys_are_said_with_what_else_is_wrong() {
        let body = "name: x\nhosts:\n- {agent: a, a.b: 1, prot: 1, port: x, '': 1}\n";
        let expected = [
            "hosts[0].a.b: unknown key `a.b`; the keys here are agent, port",
            "hosts[0].prot: unknown key `prot`; did you mean `port`?",
            "hosts[0].port: `x` is not a whole number from 0 to 255",
            "hosts[0].: unknown key ``; the keys here are agent, port",
        ];
        assert_eq!(mistakes(body), expected.map(|text| (4, text.to_owned())));
        assert_eq!(mistakes("name: x\nhosts: 1\n"), [(3, "hosts: `1` is not a list, such as [a, b]".to_owned())]);
    }

    #[test]
    fn nothing_is_no_default() {
        for (body, expected) in [
            (
                "name: x\nhosts: []\nbounds:\nmore: 1\n",
                vec![
                    (4, "bounds: a value is missing"),
                    (5, "more: unknown key `more`; the keys here are kelpie, name, hosts, bounds"),
                ],
            ),
            ("name: x\nhosts: ~\n", vec![(3, "hosts: a value is missing")]),
            (
                "name: x\nhosts:\n- {agent: a, port: null}\n",
                vec![(4, "hosts[0].port: a value is missing; write a whole number from 0 to 255")],
            ),
            (
                "name: ~\nhosts: [~]\n",
                vec![(2, "name: a value is missing; write text"), (3, "hosts[0]: a value is missing")],
            ),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(line, text)| (line, text.to_owned())).collect();
            assert_eq!(mistakes(body), expected, "{body}");
        }
    }

    #[test]
    fn a_format_may_have_null() {
        let text = "kelpie: file/1\nname: x\nhosts: ~\n";
        assert!(read_tagged::<File>("f.yaml", text, "file/1").is_err());
        assert!(read_tagged_with_null::<File>("f.yaml", text, "file/1").is_ok());
    }

    #[test]
    fn nothing_is_a_value_where_the_spare_has_it() {
        let document = Document::parse("f.yaml", "name: x\nhosts: ~\nbounds: ~\n").expect("YAML");
        let tree = document.tree().expect("YAML");
        let spare = serde_yaml::from_str("{hosts: ~, bounds: {bps: 1}}").expect("YAML");
        let error = decode::<File>(&document, tree, &spare, |_| Vec::new()).expect_err("a mistake").to_string();
        assert!(error.contains("bounds: a value is missing") && !error.contains("hosts:"), "{error}");
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Left,
        Right,
    }

    #[derive(Debug, Deserialize)]
    struct Words {
        #[serde(rename = "turns")]
        _turns: Vec<Word>,
    }

    #[test]
    fn what_is_no_word_is_told_the_words() {
        let text = "kelpie: words/1\nturns: [left, 1, [a], {b: 1}, ~, right]\n";
        let error = read_tagged::<Words>("w.yaml", text, "words/1").expect_err("mistakes").to_string();
        for expected in [
            "turns[1]: `1` is not one of left, right",
            "turns[2]: a list is not one of left, right",
            "turns[3]: a group of keys is not one of left, right",
            "turns[4]: a value is missing; write one of left, right",
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn rules_are_checked_of_what_is_left() {
        let text = "name: x\nhosts: []\nbounds: {bps: fast}\n";
        let document = Document::parse("f.yaml", text).expect("YAML");
        let tree = document.tree().expect("YAML");
        let rules = |file: &File| vec![("name".to_owned(), format!("`{}` is short", file.name))];
        let error = decode::<File>(&document, tree, &Value::Null, rules).expect_err("two mistakes").to_string();
        assert!(error.contains("name: `x` is short") && error.contains("`fast` is not a number"), "{error}");
        let document = Document::parse("f.yaml", "name: x\nhosts: 1\n").expect("YAML");
        let (tree, spare) = (document.tree().expect("YAML"), serde_yaml::from_str("hosts: []").expect("YAML"));
        let error = decode::<File>(&document, tree, &spare, rules).expect_err("two mistakes").to_string();
        assert!(error.contains("name: `x` is short") && error.contains("`1` is not a list"), "{error}");
    }
}
