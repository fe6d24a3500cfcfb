//! What went wrong, for people or as JSON.

use std::error::Error as _;
use std::net::AddrParseError;
use std::num::{ParseFloatError, ParseIntError};

use clap::error::ContextKind;
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

/// An error of the command line, without words of Rust: what kind of value is wanted instead.
pub fn in_words(error: clap::Error) -> clap::Error {
    let wanted = match error.source() {
        Some(cause) if cause.is::<ParseIntError>() => "write a whole number from 0, such as 300",
        Some(cause) if cause.is::<ParseFloatError>() => "write a number, such as 0.5",
        Some(cause) if cause.is::<AddrParseError>() => "write ADDRESS:PORT, such as 10.0.0.1:7471",
        _ => return error,
    };
    let said = |kind| error.get(kind).map_or_else(String::new, ToString::to_string);
    let (value, argument) = (said(ContextKind::InvalidValue), said(ContextKind::InvalidArg));
    let help = "For more information, try '--help'.";
    clap::Error::raw(error.kind(), format!("invalid value '{value}' for '{argument}': {wanted}\n\n{help}\n"))
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
