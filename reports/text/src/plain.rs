//! Text of others, so that it does nothing where it is shown but stand there.

/// Whether a character does something to a terminal or to the direction of writing.
///
/// Source: Unicode, `Bidi_Control`, and its line and paragraph separators, beside the control characters.
pub fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// A file for people, or a part of one: lines of text in which nothing steers, but a sign stands for what would.
pub fn plain(text: &str) -> String {
    let stands = |c: char| if steers(c) && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(stands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_nothing_steers() {
        let hostile = "a\n\tb\r\u{1b}[2J\u{7}\u{9b}31m\u{202e}c\u{2066}é";
        let shown = plain(hostile);
        assert!(!shown.chars().any(|c| steers(c) && !matches!(c, '\n' | '\t')), "{shown:?}");
        assert!(shown.starts_with("a\n\tb\u{fffd}\u{fffd}[2J") && shown.ends_with("c\u{fffd}é"), "{shown:?}");
    }
}
