//! An error with its causes on one line, for places that carry text: replies, events, logs.

use std::error::Error;

/// The error and each of its sources, outermost first, separated by colons.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::wire::WireError;

    #[test]
    fn every_cause_is_said_once() {
        let error = WireError::Io(std::io::Error::other("cable cut"));
        assert_eq!(chain(&error), "the connection failed: cable cut");
        assert_eq!(chain(&WireError::Closed), "the connection was closed by the other side");
    }
}
