//! What somebody may have meant by a word that is none of those that are known.

/// How alike two words must be, by Jaro and Winkler, 0 to 1. Source: our choice, as for suggestions of command lines
/// (clap uses 0.7, which also pairs words that nobody would confuse).
const ALIKE: f64 = 0.75;

/// The word of `known` that is most like `word`, if one is alike; case does not count.
pub fn suggestion<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // What is longer than any known word is like none, and its length is not bounded.
    let word: String = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let likeness = known.map(|known| (strsim::jaro_winkler(&word, &known.to_lowercase()), known));
    let near = likeness.filter(|(likeness, _)| *likeness >= ALIKE);
    near.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_suggested() {
        for (word, near) in [
            ("qp", Some("qps")),
            ("Qps", Some("qps")),
            ("bidirectinal", Some("bidirectional")),
            ("mtus", Some("mtu")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(suggestion(word, ["qps", "mtu", "bidirectional"].into_iter()), near, "{word}");
        }
        let long = "q".repeat(1 << 20);
        assert_eq!(suggestion(&long, ["bidirectional"].into_iter()), None);
    }
}
