//! Text of others within Markdown.

use kelpie_text::steers;

/// Text that Markdown takes as it is, on one line.
pub(crate) fn escaped(text: &str) -> String {
    // Source: CommonMark 0.31, section 2.4 (any ASCII punctuation may be escaped); these begin something.
    escape(text, "\\`*_{}[]<>#!|~&")
}

/// The same for a page that is read as text as well: what does nothing within a line stays as it is.
pub(crate) fn readable(text: &str) -> String {
    escape(text, "\\`*[]<>|~&")
}

fn escape(text: &str, special: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if special.contains(c) {
            escaped.push('\\');
        }
        escaped.push(if steers(c) { ' ' } else { c });
    }
    escaped
}

/// A name within a code span, where nothing can be escaped.
pub(crate) fn code(text: &str) -> String {
    text.chars().map(|c| if steers(c) || c == '`' || c == '|' { ' ' } else { c }).collect()
}
