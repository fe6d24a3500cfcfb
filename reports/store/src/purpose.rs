//! What an experiment was for, as a type; words of other versions of Kelpie are kept as they are.

use std::fmt;

use kelpie_search::Purpose as Asked;
use serde::{Serialize, Serializer};

/// What an experiment was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredPurpose {
    /// The search wanted to know something.
    Search(Asked),
    /// It was measured elsewhere and came with a recipe.
    Import,
    /// A word of another version of Kelpie.
    Other(String),
}

const IMPORT: &str = "import";

impl StoredPurpose {
    /// Its name in JSON and the store.
    pub fn name(&self) -> &str {
        match self {
            StoredPurpose::Search(asked) => asked.name(),
            StoredPurpose::Import => IMPORT,
            StoredPurpose::Other(word) => word,
        }
    }

    /// What the search wanted to know, if it is a search that this version knows.
    pub fn asked(&self) -> Option<Asked> {
        match self {
            StoredPurpose::Search(asked) => Some(*asked),
            StoredPurpose::Import | StoredPurpose::Other(_) => None,
        }
    }
}

impl From<Asked> for StoredPurpose {
    fn from(asked: Asked) -> Self {
        StoredPurpose::Search(asked)
    }
}

impl From<String> for StoredPurpose {
    fn from(word: String) -> Self {
        match Asked::ALL.into_iter().find(|asked| asked.name() == word) {
            Some(asked) => StoredPurpose::Search(asked),
            None if word == IMPORT => StoredPurpose::Import,
            None => StoredPurpose::Other(word),
        }
    }
}

impl fmt::Display for StoredPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for StoredPurpose {
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
            ("search", StoredPurpose::Search(Asked::Search)),
            ("rank", StoredPurpose::Search(Asked::Rank)),
            ("mfs", StoredPurpose::Search(Asked::Mfs)),
            ("validate", StoredPurpose::Search(Asked::Validate)),
            ("import", StoredPurpose::Import),
            ("dream", StoredPurpose::Other("dream".to_owned())),
            ("", StoredPurpose::Other(String::new())),
        ] {
            assert_eq!(StoredPurpose::from(word.to_owned()), expected);
            assert_eq!((expected.name(), serde_json::to_value(&expected).unwrap()), (word, word.into()));
        }
    }
}
