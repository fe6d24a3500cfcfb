//! What the YAML parser says of a text that is no YAML, in words that say what to do about it.

/// The parser's words that people come upon, and ours. Source: saphyr-parser 0.3, `scanner.rs` and `parser.rs`.
const WORDS: [(&str, &str); 13] = [
    ("simple key expect", "this line is neither `key: value` nor part of the line above it"),
    ("mapping values are not allowed", "a second colon in this line; put quotes around text that holds one"),
    ("did not find expected key", "this line does not fit the ones above it; look at how far it is indented"),
    ("did not find expected '-' indicator", "this line does not fit the list above it; begin it with `- `"),
    ("invalid indentation", "this line is indented unlike those it belongs to"),
    ("found a tab", "a tab; YAML is indented with spaces"),
    ("cannot start any token", "no value begins like this; put quotes around it"),
    ("found unprintable character", "a control character; is the file UTF-8?"),
    ("quoted scalar, found unexpected end", "the quotes that begin here never end"),
    ("flow mapping, did not find expected", "the `{` before this is never closed by `}`, or a comma is missing"),
    ("flow sequence, expected", "the `[` before this is never closed by `]`, or a comma is missing"),
    ("did not find expected node content", "the `{` or `[` before this is never closed"),
    ("recursion limit", "nested too deeply"),
];

/// Rewrites a problem; one that is not known stays as it is.
pub(crate) fn yaml_words(problem: &str) -> String {
    let known = WORDS.iter().find(|(theirs, _)| problem.contains(theirs));
    known.map_or_else(|| format!("this is no YAML: {problem}"), |(_, ours)| (*ours).to_owned())
}
