//! A single value of a YAML file as it is written, and what it stands for.

use serde_yaml::Value;

/// A single value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scalar {
    /// What the file says.
    pub(crate) text: String,
    /// Whether it stands without quotes.
    pub(crate) is_plain: bool,
}

impl Scalar {
    /// Whether nothing is there, however that is written.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// What it stands for, by YAML 1.2's core schema without its hexadecimal and octal numbers: counts are written in
    /// one way.
    ///
    /// # Errors
    /// The rule that a whole number of more than 64 bits breaks.
    pub(crate) fn value(&self) -> Result<Value, String> {
        if self.is_missing() {
            return Ok(Value::Null);
        }
        let text = self.text.as_str();
        match text {
            _ if !self.is_plain => Ok(text.into()),
            "true" | "True" | "TRUE" => Ok(true.into()),
            "false" | "False" | "FALSE" => Ok(false.into()),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Ok(f64::INFINITY.into()),
            "-.inf" | "-.Inf" | "-.INF" => Ok(f64::NEG_INFINITY.into()),
            ".nan" | ".NaN" | ".NAN" => Ok(f64::NAN.into()),
            _ => number(text).unwrap_or_else(|| Ok(text.into())),
        }
    }

    /// The number that it would be if it were written as numbers are, if it is not.
    pub(crate) fn number_in_disguise(&self) -> Option<String> {
        let text = self.text.as_str();
        if !self.is_plain {
            return number(text)?.ok().map(|_| format!("`{text}` is text; write it without quotes"));
        }
        let radix = [("0x", 16), ("0o", 8), ("0b", 2)];
        let other = radix.iter().find_map(|(start, radix)| u64::from_str_radix(text.strip_prefix(start)?, *radix).ok());
        if let Some(value) = other {
            return Some(format!("`{text}` is not decimal; write {value}"));
        }
        let value = text.parse::<u64>().ok().filter(|_| begins_with_zero(text))?;
        Some(format!("`{text}` begins with 0; write {value}"))
    }
}

/// Whether digits begin with a 0 that does not count, which others take for octal.
fn begins_with_zero(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number that a text is, if it is one.
fn number(text: &str) -> Option<Result<Value, String>> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let begins = digits.strip_prefix('.').unwrap_or(digits).starts_with(|first: char| first.is_ascii_digit());
    if !begins || begins_with_zero(digits) {
        return None;
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(Ok(value.into()));
    }
    if let Some(value) = text.parse::<i64>().ok().filter(|value| *value < 0) {
        return Some(Ok(value.into()));
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let is_too_long = value != 0.0 && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some(if is_too_long { Err(format!("`{text}` is not a number of at most 64 bits")) } else { Ok(value.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar { text: text.to_owned(), is_plain: true }
    }

    #[test]
    fn numbers_are_those_of_serde_yaml_but_for_other_bases() {
        let texts = "8 +8 -8 0 1e2 1E-9 8.0 .5 -.5 1. 1.e3 010 -010 0.5 00.5 1_000 8a 8e - + . .e1 e1 1e999 inf NaN .nan .inf \
                     -.inf true True yes ~ null Null nil 18446744073709551615 -9223372036854775808";
        for text in texts.split_whitespace() {
            let expected: Value = serde_yaml::from_str(&format!("[{text}]")).expect("YAML");
            assert_eq!(
                plain(text).value().map(|value| format!("[{value:?}]")),
                Ok(format!("{:?}", expected.as_sequence().expect("a list"))),
                "{text}"
            );
        }
        for text in ["0x10", "0o17", "0b1"] {
            assert_eq!(plain(text).value(), Ok(Value::String(text.to_owned())));
        }
        assert!(plain("18446744073709551616").value().is_err());
        assert_eq!(Scalar { text: "8".to_owned(), is_plain: false }.value(), Ok(Value::String("8".to_owned())));
    }
}
