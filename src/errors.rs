//! What went wrong, for people or as JSON.

use kelpie_agent::PairFileError;
use kelpie_diagnosis::MatrixError;
use kelpie_sim::ModelError;
use kelpie_spaces::SpaceError;
use kelpie_spaces::document::{DocumentError, Mistakes};
use serde_json::json;

/// The error as it is written to stderr: a line of JSON with `--json`.
pub fn text(error: &anyhow::Error, as_json: bool) -> String {
    if !as_json {
        return format!("error: {error:#}");
    }
    let message = format!("{error:#}");
    let mut document = json!({ "message": message.lines().next().unwrap_or_default() });
    if let Some(Mistakes { file, first, more }) = error.chain().find_map(mistakes) {
        document["file"] = json!(file);
        document["mistakes"] = json!(first);
        document["more"] = json!(more);
    }
    json!({ "error": document }).to_string()
}

/// The mistakes of a file, if they are why.
fn mistakes<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e Mistakes> {
    let document = cause
        .downcast_ref::<DocumentError>()
        .or_else(|| match cause.downcast_ref::<SpaceError>()? {
            SpaceError::Document(document) => Some(document),
            _ => None,
        })
        .or_else(|| match cause.downcast_ref::<ModelError>()? {
            ModelError::File(document) => Some(document),
            _ => None,
        })
        .or_else(|| match cause.downcast_ref::<PairFileError>()? {
            PairFileError::File(document) => Some(document),
            _ => None,
        })
        .or_else(|| match cause.downcast_ref::<MatrixError>()? {
            MatrixError::File(document) => Some(document),
            MatrixError::Key { .. } => None,
        })?;
    match document {
        DocumentError::Mistakes(mistakes) => Some(mistakes),
        _ => None,
    }
}
