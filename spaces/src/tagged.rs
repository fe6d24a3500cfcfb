//! Reading a tagged YAML file into a type, with file, line and key in every error. What the keys mean lives with the
//! types.

use serde::de::DeserializeOwned;

use crate::document::{Document, DocumentError};

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
    document.expect(tag)?;
    let mut tree: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| document.refuse("", &error))?;
    let found = tree.as_mapping_mut().and_then(|map| map.shift_remove("kelpie"));
    if found.as_ref().and_then(|found| found.as_str()) != Some(tag) {
        return Err(document.refuse("kelpie", &format!("this is another version; write `kelpie: {tag}`")));
    }
    let read = serde_path_to_error::deserialize(tree).map_err(|error| {
        let path = error.path().to_string();
        document.refuse_value(path.trim_matches('.'), error.inner())
    })?;
    Ok((document, read))
}
