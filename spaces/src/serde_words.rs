//! What serde says of a value that does not fit, in the words of the other mistakes of a file.

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

/// Rewrites an error of serde; one whose form is not known stays as it is.
///
/// # Examples
/// ```
/// use kelpie_spaces::serde_words;
/// assert_eq!(serde_words("invalid type: string \"fast\", expected f64"), "`fast` is not a number");
/// assert_eq!(serde_words("missing field `name`"), "key `name` is missing");
/// ```
pub fn serde_words(error: &str) -> String {
    rewritten(error).unwrap_or_else(|| error.to_owned())
}

fn rewritten(error: &str) -> Option<String> {
    if let Some(rest) = error.strip_prefix("missing field ") {
        return Some(format!("key {rest} is missing"));
    }
    if let Some((found, expected)) = pair(error, "unknown field ") {
        return Some(unknown("key", "the keys here are", found, &expected));
    }
    if let Some((found, expected)) = pair(error, "unknown variant ") {
        return Some(unknown("word", "write one of", found, &expected));
    }
    let wrong = error.strip_prefix("invalid type: ").or_else(|| error.strip_prefix("invalid value: "))?;
    let (found, expected) = wrong.rsplit_once(", expected ")?;
    let found = found.strip_suffix(" as u128").or_else(|| found.strip_suffix(" as i128")).unwrap_or(found);
    let whole = WHOLE.iter().find(|(name, _)| *name == expected).map(|(_, words)| *words);
    let expected = match expected {
        _ if whole.is_some() => whole.unwrap_or_default(),
        name if REAL.contains(&name) => "a number",
        "a string" => "text",
        "a boolean" => "true or false",
        "map with a single key" => "a group with a single key",
        "any YAML value" => "a number of at most 64 bits",
        "a sequence" => "a list, such as [a, b]",
        name if name.starts_with("struct ") || name.ends_with("map") || name.ends_with("mapping") => "a group of keys",
        other => other,
    };
    Some(format!("{} is not {expected}", shown(found)))
}

/// The keys that serde knows, if it says that one is unknown and which are not.
pub(crate) fn known_fields(error: &str) -> Option<Vec<&str>> {
    let says = error.ends_with("`, there are no fields") || error.contains("`, expected ");
    pair(error, "unknown field ").filter(|_| says).map(|(_, known)| known)
}

/// The word in back quotes after `start`, and the words that were expected instead.
fn pair<'e>(error: &'e str, start: &str) -> Option<(&'e str, Vec<&'e str>)> {
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
    let quoted = |mark: char| {
        let inside = found.split_once(mark)?.1.strip_suffix(mark)?;
        let short: String = inside.chars().take(MAX_QUOTE).collect();
        let more = if short.len() < inside.len() { "…" } else { "" };
        Some(format!("`{short}{more}`"))
    };
    match found {
        "map" | "struct" => "a group of keys".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" | "unit" | "null" => "a missing value".to_owned(),
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
            ("something else", "something else"),
        ] {
            assert_eq!(serde_words(error), expected);
        }
    }
}
