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
    use crate::subsystem::MeasureError;

    #[test]
    fn every_cause_is_said_once() {
        let source = Box::new(std::io::Error::other("cable cut"));
        let error = MeasureError::Host { host: kelpie_spaces::Host::A, operation: "connect QPs".to_owned(), source };
        assert_eq!(chain(&error), "host a: connect QPs failed: cable cut");
        assert_eq!(chain(&std::io::Error::other("cable cut")), "cable cut");
    }
}
