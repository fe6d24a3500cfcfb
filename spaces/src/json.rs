//! JSON files of others, with the place of a mistake as in YAML files. What the keys mean lives with each format.

use serde::de::DeserializeOwned;

use crate::document::{DocumentError, Mark, Mistakes, mistake, utf8};
use crate::serde_words::serde_words;

/// Reads a value; `file` stands for the file's name.
///
/// # Errors
/// Names file, line, column, key and rule of the first mistake.
///
/// # Examples
/// ```
/// let error = kelpie_spaces::from_json::<Vec<u8>>("n.json", b"[1,\n \"x\"]").unwrap_err();
/// assert!(error.to_string().starts_with("n.json:2:4: [1]: `x` is not a whole number from 0 to 255\n"), "{error}");
/// ```
pub fn from_json<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, DocumentError> {
    let text = utf8(file, bytes)?;
    let failed = |key: String, error: &serde_json::Error| {
        // The last line has its end behind it, which is no place to look at.
        let lines = text.lines().count().max(1);
        let mark = Mark { line: error.line().clamp(1, lines), column: error.column().max(1) };
        let first = vec![mistake(text, mark, key, words(error))];
        DocumentError::Mistakes(Mistakes { file: file.to_owned(), first, more: 0, at_least: false })
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let key = if matches!(path.as_str(), "." | "?") { String::new() } else { path };
        failed(key.chars().filter(|c| !c.is_control()).take(60).collect(), error.inner())
    })?;
    json.end().map_err(|error| failed(String::new(), &error))?;
    Ok(value)
}

/// What `serde_json` says, in the words of other mistakes.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
    let problem: String = text.chars().filter(|c| !c.is_control()).take(120).collect();
    match error.classify() {
        serde_json::error::Category::Data => serde_words(&problem),
        serde_json::error::Category::Eof => "this is no JSON: it ends in the middle of a value".to_owned(),
        _ if problem.starts_with("trailing characters") => "something follows the end of the JSON document".to_owned(),
        _ => format!("this is no JSON: {problem}"),
    }
}
