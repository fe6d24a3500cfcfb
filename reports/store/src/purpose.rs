//! What an experiment was for, as a type; words of other versions of Kelpie are kept as they are.

use std::fmt;

use kelpie_search::Purpose as Asked;
use serde::{Serialize, Serializer};

/// What an experiment was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// The search wanted to know something.
    Search(Asked),
    /// It was measured elsewhere and came with a recipe.
    Import,
    /// A word of another version of Kelpie.
    Other(String),
}

const IMPORT: &str = "import";

impl Purpose {
    /// Its name in JSON and the store.
    pub fn name(&self) -> &str {
        match self {
            Purpose::Search(asked) => asked.name(),
            Purpose::Import => IMPORT,
            Purpose::Other(word) => word,
        }
    }

    /// What the search wanted to know, if it is a search that this version knows.
    pub fn asked(&self) -> Option<Asked> {
        match self {
            Purpose::Search(asked) => Some(*asked),
            Purpose::Import | Purpose::Other(_) => None,
        }
    }
}

impl From<Asked> for Purpose {
    fn from(asked: Asked) -> Self {
        Purpose::Search(asked)
    }
}

impl From<String> for Purpose {
    fn from(word: String) -> Self {
        match Asked::ALL.into_iter().find(|asked| asked.name() == word) {
            Some(asked) => Purpose::Search(asked),
            None if word == IMPORT => Purpose::Import,
            None => Purpose::Other(word),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Purpose {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for (word, expected) in [
            ("search", Purpose::Search(Asked::Search)),
            ("rank", Purpose::Search(Asked::Rank)),
            ("mfs", Purpose::Search(Asked::Mfs)),
            ("validate", Purpose::Search(Asked::Validate)),
            ("import", Purpose::Import),
            ("dream", Purpose::Other("dream".to_owned())),
            ("", Purpose::Other(String::new())),
        ] {
            assert_eq!(Purpose::from(word.to_owned()), expected);
            assert_eq!((expected.name(), serde_json::to_value(&expected).unwrap()), (word, word.into()));
        }
    }
}
