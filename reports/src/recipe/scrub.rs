//! Taking identities out of texts: names that are known, and whatever reads as an address or a GID.

use std::net::{IpAddr, SocketAddr};

/// What stands in the place of an identity.
const REMOVED: &str = "[removed]";

/// `text` without the given names, and without IP addresses, MAC addresses, GUIDs and GIDs.
pub fn scrub(text: &str, names: &[String]) -> String {
    let mut names: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    // The longest first, so that no rest of a longer name stays behind.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let nameless = names.into_iter().fold(text.to_owned(), |text, name| without_name(&text, name));
    let mut scrubbed = String::new();
    let mut rest = nameless.as_str();
    while let Some(c) = rest.chars().next() {
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length.max(c.len_utf8()));
        scrubbed += &without_address(word);
        rest = behind;
    }
    scrubbed
}

/// Removes a name where it stands as a word, with the domain behind it.
fn without_name(text: &str, name: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut scrubbed = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(name) {
        let (before, behind) = (&rest[..start], &rest[start + name.len()..]);
        scrubbed += before;
        if before.chars().next_back().is_some_and(is_word) || behind.chars().next().is_some_and(is_word) {
            scrubbed += name;
            rest = behind;
        } else {
            scrubbed += REMOVED;
            let domain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
            rest = if behind.starts_with('.') { behind.trim_start_matches(domain) } else { behind };
        }
    }
    scrubbed + rest
}

/// Letters count, so that no part of a longer word is taken for an address.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-' | '%' | '_')
}

fn without_address(word: &str) -> String {
    let core = word.trim_matches(['.', ':', '-']);
    // `::1` begins with what ends a sentence elsewhere.
    for candidate in [word, word.trim_end_matches(['.', ':', '-']), core] {
        if is_address(candidate) {
            return word.replacen(candidate, REMOVED, 1);
        }
    }
    word.to_owned()
}

fn is_address(word: &str) -> bool {
    let host = word.split_once('%').map_or(word, |(address, _)| address);
    host.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok() || [':', '-'].iter().any(|c| is_hex(word, *c))
}

/// Six groups of two figures (a MAC), eight of two or four of four (a GUID), eight of four (a GID).
fn is_hex(word: &str, separator: char) -> bool {
    let groups: Vec<&str> = word.split(separator).collect();
    let all = |length| groups.iter().all(|group| group.len() == length && group.chars().all(|c| c.is_ascii_hexdigit()));
    match groups.len() {
        6 => all(2),
        8 => all(2) || all(4),
        4 => all(4),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::scrub;

    #[test]
    fn identities_go_and_words_stay() {
        let names = ["node-a".to_owned(), "node-a.rack7.example".to_owned(), String::new()];
        let table = [
            ("host node-a.rack7.example: QP 3 in error", "host [removed]: QP 3 in error"),
            ("node-a:7471 is gone", "[removed]:7471 is gone"),
            ("node-a.other.example: gone", "[removed]: gone"),
            ("supernode-a and node-ab", "supernode-a and node-ab"),
            ("10.0.0.1:7471 is gone.", "[removed] is gone."),
            ("from 10.0.0.1, to 10.0.0.2.", "from [removed], to [removed]."),
            ("fe80::1%eth0 and ::1", "[removed] and [removed]"),
            ("mac b8:3f:d2:00:11:22", "mac [removed]"),
            ("guid b83f:d203:0011:2233", "guid [removed]"),
            ("gid fe80:0000:0000:0000:ba3f:d2ff:fe00:1122", "gid [removed]"),
            ("firmware 22.38.1002", "firmware 22.38.1002"),
            ("kernel 6.1.0-18-amd64: ok", "kernel 6.1.0-18-amd64: ok"),
            ("IBV_WC_RETRY_EXC_ERR on QP 17", "IBV_WC_RETRY_EXC_ERR on QP 17"),
            ("größe: 3", "größe: 3"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(scrub(text, &names), expected);
        }
    }
}
