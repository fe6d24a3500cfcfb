//! What serde says of a value that does not fit, in the words of the other mistakes of a file.

use crate::scalar::Scalar;
use crate::suggest::suggestion;

/// Longest piece of a value that is repeated. Units: characters.
const MAX_QUOTE: usize = 60;

/// Rust's names of numbers, as serde writes what it expected, with the words for them.
const WHOLE: [(&str, &str); 10] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0"),
    ("usize", "a whole number from 0"),
    ("i8", "a whole number from -128 to 127"),
    ("i16", "a whole number from -32768 to 32767"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
];
const REAL: [&str; 2] = ["f32", "f64"];

/// Words of Rust, which no error of ours has.
const RUST: [&str; 6] = ["enum", "newtype", "struct", "tuple", "untagged", "variant"];

/// Rewrites an error of serde; one whose form is not known stays as it is, if it has no word of Rust.
///
/// # Examples
/// ```
/// use kelpie_spaces::serde_words;
/// assert_eq!(serde_words("invalid type: string \"fast\", expected f64"), "`fast` is not a number");
/// assert_eq!(serde_words("missing field `name`"), "key `name` is missing");
/// ```
pub fn serde_words(error: &str) -> String {
    words(error, None)
}

/// As [`serde_words`], of a value that the file writes like this.
pub(crate) fn words(error: &str, found: Option<&Scalar>) -> String {
    let said = rewritten(error, found).unwrap_or_else(|| error.to_owned());
    // What is in back quotes is the file's, and keys are called what they are called.
    let ours: String = said.split('`').step_by(2).collect();
    let is_key =
        ["unknown field `", "unknown variant `", "missing field `"].iter().any(|start| error.starts_with(start));
    let is_missing = found.is_some_and(Scalar::is_missing) && !said.starts_with("a value is missing");
    if is_missing && !is_key {
        return if is_rust(&ours) { "a value is missing".to_owned() } else { format!("a value is missing: {said}") };
    }
    if is_key || !is_rust(&ours) {
        return said;
    }
    let value = found.map_or_else(|| "what stands here".to_owned(), |found| format!("`{}`", found.text));
    format!("{value} has not the form that is needed; docs/reference/files.md describes it")
}

fn is_rust(text: &str) -> bool {
    let is_path = |(_, behind): (&str, &str)| behind.starts_with(|next: char| next.is_ascii_uppercase());
    text.split(|c: char| !c.is_alphanumeric()).any(|word| RUST.contains(&word))
        || text.split_once("::").is_some_and(is_path)
}

fn rewritten(error: &str, found: Option<&Scalar>) -> Option<String> {
    if let Some(rest) = error.strip_prefix("missing field ") {
        return Some(format!("key {rest} is missing"));
    }
    if let Some((found, expected)) = pair(error, "unknown field ") {
        return Some(unknown("key", "the keys here are", found, &expected));
    }
    if let Some((found, expected)) = pair(error, "unknown variant ") {
        return Some(unknown("word", "write one of", found, &expected));
    }
    let (kind, rest) = error.split_once(": ").unwrap_or(("", error));
    if let Some((len, expected)) = error.strip_prefix("invalid length ").and_then(|rest| rest.split_once(", expected "))
    {
        let entries = if len == "1" { "entry" } else { "entries" };
        return Some(format!("{len} {entries}; write {}", wanted(expected)));
    }
    let (value, expected) =
        rest.rsplit_once(", expected ").filter(|_| ["invalid type", "invalid value"].contains(&kind))?;
    if value == "unit variant" {
        let name = found.map_or_else(|| "the word".to_owned(), |found| format!("`{}`", found.text));
        return Some(format!("{name} needs a value; write `: ` and the value behind it"));
    }
    let wanted = wanted(expected);
    if found.is_some_and(Scalar::is_missing) || is_nothing(value) {
        return Some(format!("a value is missing; write {wanted}"));
    }
    let is_number = wanted.starts_with("a whole number") || wanted.starts_with("a number");
    if let Some(why) = found.filter(|_| is_number).and_then(Scalar::number_in_disguise) {
        return Some(why);
    }
    let value = found.map_or_else(|| shown(value), |found| format!("`{}`", found.text));
    Some(format!("{value} is not {wanted}"))
}

/// What serde expected.
fn wanted(expected: &str) -> &str {
    let whole = WHOLE.iter().find(|(name, _)| *name == expected).map(|(_, words)| *words);
    match expected {
        _ if whole.is_some() => whole.unwrap_or_default(),
        name if REAL.contains(&name) => "a number",
        "a string" | "string" | "str" => "text",
        "a boolean" => "true or false",
        "map with a single key" => "a group with a single key",
        "any YAML value" => "a number of at most 64 bits",
        "a sequence" => "a list, such as [a, b]",
        "field identifier" => "a key that is known here",
        "unit variant" => "a word by itself",
        name if name.starts_with("tuple") || name.starts_with("a tuple") || name.starts_with("an array") => {
            "a list, such as [a, b], of as many entries as are needed"
        }
        name if name.starts_with("struct ") || name.ends_with("map") || name.ends_with("mapping") => "a group of keys",
        other => other,
    }
}

fn is_nothing(found: &str) -> bool {
    ["unit value", "unit", "null"].contains(&found)
}

/// The keys that serde knows, if it says that one is unknown and which are not.
pub(crate) fn known_fields(error: &str) -> Option<Vec<&str>> {
    let says = error.ends_with("`, there are no fields") || error.contains("`, expected ");
    pair(error, "unknown field ").filter(|_| says).map(|(_, known)| known)
}

/// The word in back quotes after `start`, and the words that were expected instead.
pub(crate) fn pair<'e>(error: &'e str, start: &str) -> Option<(&'e str, Vec<&'e str>)> {
    let (found, rest) = error.strip_prefix(start)?.strip_prefix('`')?.rsplit_once("`, expected ").or_else(|| {
        // serde says this of a type without any field.
        Some((error.strip_prefix(start)?.strip_prefix('`')?.split_once('`')?.0, ""))
    })?;
    // What was found may hold anything, so that the expected words are those behind its end.
    let (found, rest) = match found.split_once("`, expected ") {
        Some((first, _)) => (first, &error[start.len() + 1 + first.len()..]),
        None => (found, rest),
    };
    Some((found, rest.split('`').skip(1).step_by(2).collect()))
}

fn unknown(what: &str, list: &str, found: &str, expected: &[&str]) -> String {
    match suggestion(found, expected.iter().copied()) {
        Some(near) => format!("unknown {what} `{found}`; did you mean `{near}`?"),
        None if expected.is_empty() => format!("unknown {what} `{found}`"),
        None => format!("unknown {what} `{found}`; {list} {}", expected.join(", ")),
    }
}

/// What was found, such as `string "fast"` or `map`.
fn shown(found: &str) -> String {
    let found = found.strip_suffix(" as u128").or_else(|| found.strip_suffix(" as i128")).unwrap_or(found);
    let quoted = |mark: char| {
        let inside = found.split_once(mark)?.1.strip_suffix(mark)?;
        let short: String = inside.chars().take(MAX_QUOTE).collect();
        let more = if short.len() < inside.len() { "…" } else { "" };
        Some(format!("`{short}{more}`"))
    };
    match found {
        "map" | "struct" => "a group of keys".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => quoted('"').or_else(|| quoted('`')).unwrap_or_else(|| found.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_rust_is_left() {
        for (error, expected) in [
            ("missing field `port`", "key `port` is missing"),
            (
                "unknown field `max_mqps`, expected one of `max_mpps`, `force_mtu`",
                "unknown key `max_mqps`; did you mean `max_mpps`?",
            ),
            ("unknown field `x`, expected `a` or `b`", "unknown key `x`; the keys here are a, b"),
            ("unknown field `x`, there are no fields", "unknown key `x`"),
            ("unknown variant `fats`, expected `fast` or `slow`", "unknown word `fats`; did you mean `fast`?"),
            ("invalid type: string \"a, expected b\", expected f64", "`a, expected b` is not a number"),
            ("invalid value: integer `-1`, expected u32", "`-1` is not a whole number from 0 to 4294967295"),
            ("invalid type: map, expected a string", "a group of keys is not text"),
            ("invalid type: sequence, expected struct Port", "a list is not a group of keys"),
            ("invalid type: string \"abc\", expected a YAML mapping", "`abc` is not a group of keys"),
            ("invalid type: map, expected map with a single key", "a group of keys is not a group with a single key"),
            ("invalid type: unit value, expected a sequence", "a value is missing; write a list, such as [a, b]"),
            ("invalid type: map, expected unit variant", "a group of keys is not a word by itself"),
            (
                "invalid length 1, expected an array of length 2",
                "1 entry; write a list, such as [a, b], of as many entries as are needed",
            ),
            ("something else", "something else"),
        ] {
            assert_eq!(serde_words(error), expected);
        }
    }

    #[test]
    fn an_error_that_nobody_foresaw_has_no_word_of_rust_either() {
        for error in [
            "data did not match any variant of untagged enum Part",
            "invalid type: integer `1`, expected enum Step",
            "invalid type: integer `1`, expected a Value::Tagged enum",
            "trailing thing, expected X::Y",
        ] {
            let said = serde_words(error);
            assert!(said.ends_with("docs/reference/files.md describes it"), "{said}");
        }
        let named = "unknown field `struct`, expected `enum`";
        assert_eq!(serde_words(named), "unknown key `struct`; the keys here are enum");
    }

    #[test]
    fn what_is_no_number_only_by_how_it_is_written_is_told_so() {
        let said = |text: &str, is_plain| {
            words("invalid type: string \"x\", expected u32", Some(&Scalar { text: text.to_owned(), is_plain }))
        };
        assert_eq!(said("8", false), "`8` is text; write it without quotes");
        assert_eq!(said("010", true), "`010` begins with 0; write 10");
        assert_eq!(said("0x10", true), "`0x10` is not decimal; write 16");
        assert_eq!(said("", true), "a value is missing; write a whole number from 0 to 4294967295");
        assert_eq!(said("", false), "`` is not a whole number from 0 to 4294967295");
        assert_eq!(said("1e-9", true), "`1e-9` is not a whole number from 0 to 4294967295");
    }
}
