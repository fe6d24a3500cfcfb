//! What went wrong, for people or as JSON.

use std::error::Error as _;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::ContextKind;
use kelpie_agent::PairFileError;
use kelpie_diagnosis::MatrixError;
use kelpie_sim::ModelError;
use kelpie_spaces::SpaceError;
use kelpie_spaces::document::{DocumentError, Mistakes, without_password};
use serde_json::json;

/// What clap ends its errors with.
const HELP: &str = "For more information, try '--help'.";

/// The error as it is written to stderr: a line of JSON with `--json`.
pub fn text(error: &anyhow::Error, as_json: bool) -> String {
    if !as_json {
        return format!("error: {error:#}");
    }
    let message = format!("{error:#}");
    let mut document = json!({ "message": message.lines().next().unwrap_or_default() });
    if let Some(Mistakes { file, first, more, at_least }) = error.chain().find_map(mistakes) {
        document["file"] = json!(file);
        document["mistakes"] = json!(first);
        document["more"] = json!(more);
        if *at_least {
            document["at_least"] = json!(true);
        }
    }
    json!({ "error": document }).to_string()
}

/// An error of the command line, without words of Rust: what kind of value is wanted instead.
pub fn in_words(error: clap::Error) -> clap::Error {
    let said = |kind| error.get(kind).map_or_else(String::new, ToString::to_string);
    let (value, argument) = (said(ContextKind::InvalidValue), said(ContextKind::InvalidArg));
    let Some(cause) = error.source() else { return error };
    let (shown, cause_shown) = (without_password(&value), without_password(&cause.to_string()));
    if shown != value {
        let text = format!("invalid value '{shown}' for '{argument}': {cause_shown}\n\n{HELP}\n");
        return clap::Error::raw(error.kind(), text);
    }
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
    clap::Error::raw(error.kind(), format!("invalid value '{value}' for '{argument}': {wanted}\n\n{HELP}\n"))
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
    fn a_lower_bound_is_one_in_json_too() {
        let flow = "  - {from: a, to: b, mtu: 1}\n";
        for (flows, at_least) in [(30, None), (60, Some(true))] {
            let text_of = format!("kelpie: workload/1\nflows:\n{}", flow.repeat(flows));
            let error = kelpie_spaces::workload_from_yaml("w.yaml", &text_of).expect_err("mistakes");
            let said: serde_json::Value = serde_json::from_str(&text(&error.into(), true)).expect("JSON");
            assert_eq!(said["error"]["at_least"].as_bool(), at_least, "{said}");
        }
    }

    #[test]
    fn a_password_is_not_repeated() {
        let args = ["kelpie", "campaign", "list", "--db", "mysql://me:secret@host/k"];
        let error = in_words(crate::cli::command().try_get_matches_from(args).expect_err("no file")).to_string();
        assert!(!error.contains("secret") && error.contains("name a file"), "{error}");
    }

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
