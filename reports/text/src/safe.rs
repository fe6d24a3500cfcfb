//! Text of databases, agents and files, so that it does nothing to a terminal but stand there.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::plain::steers;

/// Longest text of the database that is shown in one place. Units: characters. Source: our choice, because names are
/// shorter, and a screen holds less.
const MOST_CHARACTERS: usize = 4000;

/// Text of a database as text: what would steer a terminal, or turn the direction of writing, is spelled out.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars().take(MOST_CHARACTERS) {
        if steers(c) { cleaned.extend(c.escape_unicode()) } else { cleaned.push(c) }
    }
    if text.chars().nth(MOST_CHARACTERS).is_some() {
        cleaned.push('…');
    }
    cleaned
}

/// A JSON document in which no character steers a terminal either; it reads back the same.
pub fn clean_json(document: String) -> String {
    // JSON escapes what is below 0x20 itself, and its line feeds between values are meant.
    let is_meant = |c: char| c < '\u{7f}' || !steers(c);
    if document.chars().all(is_meant) {
        return document;
    }
    let mut cleaned = String::with_capacity(document.len());
    for c in document.chars() {
        if is_meant(c) {
            cleaned.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(cleaned, "\\u{:04x}", u32::from(c));
        }
    }
    cleaned
}

/// Whether a sequence after an escape character is one of those by which this program itself colours text: `[`, one
/// number and `m`. Source: ECMA-48, section 8.3.117 (SGR): 0 to 4 are plain, bold, faint, italic, underlined.
fn colour(after: &str) -> Option<usize> {
    let digits = after.strip_prefix('[')?;
    let end = digits.find('m').filter(|end| *end <= 2)?;
    let number: u8 = digits[..end].parse().ok()?;
    matches!(number, 0..=4 | 30..=37 | 90..=97).then_some(end + 2)
}

/// What leaves this program: lines of text in which nothing steers a terminal but, if they are meant, colours.
pub fn outgoing(text: &str, has_colours: bool) -> Cow<'_, str> {
    let is_plain = |c: char| c == '\n' || c == '\t' || !steers(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        let length = if c == '\u{1b}' && has_colours { colour(behind).unwrap_or(0) } else { 0 };
        if is_plain(c) || length > 0 {
            cleaned.push_str(&rest[..c.len_utf8() + length]);
        } else {
            cleaned.extend(c.escape_unicode());
        }
        rest = &behind[length..];
    }
    Cow::Owned(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_stays() {
        for (text, expected) in [
            ("sim:F", "sim:F"),
            ("größer 雪 🦀", "größer 雪 🦀"),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("a\r\n\tb\u{0}", "a\\u{d}\\u{a}\\u{9}b\\u{0}"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("\u{202e}txt.exe\u{2066}\u{200f}", "\\u{202e}txt.exe\\u{2066}\\u{200f}"),
        ] {
            assert_eq!(clean(text), expected);
        }
        let long = clean(&"x".repeat(1 << 20));
        assert_eq!((long.chars().count(), long.ends_with("x…")), (MOST_CHARACTERS + 1, true));
        assert!(!clean(&"x".repeat(MOST_CHARACTERS)).ends_with('…'));
    }

    #[test]
    fn json_reads_back_the_same_without_what_steers_a_terminal() {
        let hostile = "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\"\\雪";
        let document = serde_json::to_string(hostile).unwrap();
        let cleaned = clean_json(document);
        assert!(!cleaned.chars().any(char::is_control) && !cleaned.contains('\u{202e}'), "{cleaned}");
        assert_eq!(serde_json::from_str::<String>(&cleaned).unwrap(), hostile);
    }

    #[test]
    fn what_leaves_the_program_has_colours_and_nothing_else() {
        for (text, plain, coloured) in [
            ("a\tb\n", "a\tb\n", "a\tb\n"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[8mhidden\u{1b}[2J", "\\u{1b}[8mhidden\\u{1b}[2J", "\\u{1b}[8mhidden\\u{1b}[2J"),
            ("\u{1b}]0;title\u{7}\r", "\\u{1b}]0;title\\u{7}\\u{d}", "\\u{1b}]0;title\\u{7}\\u{d}"),
            ("\u{1b}[31;1mé\u{202e}\u{1b}", "\\u{1b}[31;1mé\\u{202e}\\u{1b}", "\\u{1b}[31;1mé\\u{202e}\\u{1b}"),
        ] {
            assert_eq!(outgoing(text, false), plain);
            assert_eq!(outgoing(text, true), coloured);
        }
    }
}
