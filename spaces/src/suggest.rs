//! What somebody may have meant by a word that is none of those that are known.

/// How alike two words must be, by Jaro and Winkler, 0 to 1. Source: our choice, as for suggestions of command lines
/// (clap uses 0.7, which also pairs words that nobody would confuse).
const ALIKE: f64 = 0.75;

/// Part of the longer word's letters in which a word may be mistyped. Source: our choice, two of six: likeness by Jaro
/// and Winkler alone pairs `potato` with `ports`.
const MISTYPED: usize = 3;

/// Whether a word may be another one, mistyped or cut short.
fn may_be(word: &str, known: &str) -> bool {
    let longest = word.chars().count().max(known.chars().count());
    let is_cut = !word.is_empty() && (known.starts_with(word) || word.starts_with(known));
    is_cut || strsim::damerau_levenshtein(word, known) <= (longest / MISTYPED).max(1)
}

/// The word of `known` that is most like `word`, if one is alike; case does not count.
pub fn suggestion<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // What is longer than any known word is like none, and its length is not bounded.
    let word: String = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let known = known.map(|known| (known.to_lowercase(), known)).filter(|(lower, _)| may_be(&word, lower));
    let likeness = known.map(|(lower, known)| (strsim::jaro_winkler(&word, &lower), known));
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
            ("message", Some("message_max")),
            ("prots", Some("ports")),
            ("potato", None),
            ("colour", None),
            ("", None),
        ] {
            let known = ["qps", "mtu", "bidirectional", "ports", "message_max"];
            assert_eq!(suggestion(word, known.into_iter()), near, "{word}");
        }
        let long = "q".repeat(1 << 20);
        assert_eq!(suggestion(&long, ["bidirectional"].into_iter()), None);
    }
}
