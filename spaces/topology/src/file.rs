//! Reading a tagged YAML file into a type, with file, line and key in every error. What the keys mean lives with the
//! types.

use kelpie_spaces::document::{Document, DocumentError};
use serde::de::DeserializeOwned;

/// Reads `text`, whose key `kelpie` has to be `tag`; the document comes along to refuse more of it by line.
///
/// # Errors
/// Names file, line, key and rule of the first mistake.
pub fn read_tagged<'t, T: DeserializeOwned>(
    file: &str,
    text: &'t str,
    tag: &str,
) -> Result<(Document<'t>, T), DocumentError> {
    let document = Document::parse(file, text)?;
    let mut tree: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| document.refuse("", &error))?;
    let map = tree
        .as_mapping_mut()
        .ok_or_else(|| document.refuse("", &format!("write a map that begins `kelpie: {tag}`")))?;
    match map.shift_remove("kelpie") {
        Some(found) if found.as_str() == Some(tag) => {}
        Some(_) => return Err(document.refuse("kelpie", &format!("another format; write `kelpie: {tag}`"))),
        None => return Err(document.refuse("", &format!("key `kelpie` is missing; begin with `kelpie: {tag}`"))),
    }
    let read = serde_path_to_error::deserialize(tree).map_err(|error| {
        let path = error.path().to_string();
        document.refuse_value(path.trim_matches('.'), error.inner())
    })?;
    Ok((document, read))
}
