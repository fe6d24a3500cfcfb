//! What went wrong, for people or as JSON.

use std::error::Error as _;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

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
    if let Some(Mistakes { file, first, more, .. }) = error.chain().find_map(mistakes) {
        document["file"] = json!(file);
        document["mistakes"] = json!(first);
        document["more"] = json!(more);
    }
    json!({ "error": document }).to_string()
}

/// An error of the command line, without words of Rust: what kind of value is wanted instead.
pub fn in_words(error: clap::Error) -> clap::Error {
    let said = |kind| error.get(kind).map_or_else(String::new, ToString::to_string);
    let (value, argument) = (said(ContextKind::InvalidValue), said(ContextKind::InvalidArg));
    let Some(cause) = error.source() else { return error };
    let wanted = if let Some(cause) = cause.downcast_ref::<ParseIntError>() {
        match cause.kind() {
            IntErrorKind::PosOverflow => "the number is too large".to_owned(),
            _ => "write a whole number, such as 300".to_owned(),
        }
    } else if cause.is::<ParseFloatError>() {
        "write a number, such as 0.5".to_owned()
    } else if cause.is::<AddrParseError>() {
        "write ADDRESS:PORT, such as 10.0.0.1:7471".to_owned()
    } else if let Some(range) = range_in_words(&cause.to_string()) {
        format!("write a whole number {range}")
    } else {
        return error;
    };
    let help = "For more information, try '--help'.";
    clap::Error::raw(error.kind(), format!("invalid value '{value}' for '{argument}': {wanted}\n\n{help}\n"))
}

/// The range in an error of clap such as `0 is not in 1..=1000`. If the number is too small, a largest one of 63 bits
/// or more is left out, because it would not help.
fn range_in_words(error: &str) -> Option<String> {
    let (value, range) = error.split_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let least: i128 = least.parse().ok()?;
    let most: i128 = most.trim_start_matches('=').parse().unwrap_or(i128::MAX);
    let is_low = value.parse().is_ok_and(|value: i128| value < least);
    Some(if is_low && most >= i64::MAX.into() { format!("from {least}") } else { format!("from {least} to {most}") })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_said_without_words_of_rust() {
        for (error, expected) in [
            ("0 is not in 1..=10000", Some("from 1 to 10000")),
            ("0 is not in 1..=9223372036854775807", Some("from 1")),
            ("9223372036854775808 is not in 0..=9223372036854775807", Some("from 0 to 9223372036854775807")),
            ("0 is not in 1..", Some("from 1")),
            ("it is less than a second", None),
        ] {
            assert_eq!(range_in_words(error).as_deref(), expected, "{error}");
        }
    }
}
