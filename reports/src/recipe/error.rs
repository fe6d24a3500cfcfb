//! Why a recipe was refused or could not be written. Errors show a stranger's text in a safe form.

use std::path::PathBuf;

use super::limits::{MAX_ARCHIVE, MAX_ENTRIES, MAX_UNPACKED};

/// A failure of reading or writing a recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// A file or directory cannot be read.
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    /// Neither a directory nor a file.
    #[error("neither a directory nor a file, so no recipe")]
    NotARecipe,
    /// Longer than any archive of a recipe.
    #[error("the archive is longer than {MAX_ARCHIVE} bytes, the most for a recipe")]
    ArchiveTooLong,
    /// Unpacks to more than any recipe.
    #[error("the archive unpacks to more than {MAX_UNPACKED} bytes, the most for a recipe")]
    Bomb,
    /// No gzip, or damaged.
    #[error("not a complete gzip archive; a recipe is a directory, a .tar.gz or a .tgz")]
    Gzip(#[source] std::io::Error),
    /// No tar, or damaged.
    #[error("not a tar archive inside")]
    Tar(#[source] std::io::Error),
    /// Something behind the end.
    #[error("there are data behind the end of the archive")]
    Trailing,
    /// More entries than a recipe can have.
    #[error("more than {MAX_ENTRIES} entries; a recipe has recipe.json, README.md and perftest.txt")]
    TooMany,
    /// The name of a file of another kind.
    #[error("{path}: a recipe is written as a directory, or as an archive whose name ends in .tar.gz or .tgz")]
    Ending {
        /// What was named.
        path: PathBuf,
    },
    /// An entry of another name.
    #[error(
        "entry `{entry}` is none of recipe.json, README.md and perftest.txt, which lie at the top or all in one folder"
    )]
    Name {
        /// Its name.
        entry: String,
    },
    /// An entry that is no plain file.
    #[error("entry `{entry}` is {kind}; a recipe has plain files only (`tar --format=ustar` packs them)")]
    Kind {
        /// Its name.
        entry: String,
        /// What it is.
        kind: &'static str,
    },
    /// An entry that is there twice.
    #[error("entry `{entry}` is there twice")]
    Twice {
        /// Its name.
        entry: String,
    },
    /// An entry that says it is too long.
    #[error("entry `{entry}` has {size} bytes; at most {max} are accepted")]
    TooLong {
        /// Its name.
        entry: String,
        /// The size that it declares.
        size: u64,
        /// The most.
        max: u64,
    },
    /// An entry that ends early.
    #[error("entry `{entry}` ends after {found} of {declared} bytes")]
    Truncated {
        /// Its name.
        entry: String,
        /// What it declares.
        declared: u64,
        /// What is there.
        found: u64,
    },
    /// No `recipe.json`.
    #[error("entry `recipe.json` is missing")]
    Missing,
    /// An entry that is no text.
    #[error("entry `{entry}` is not UTF-8 text")]
    NotText {
        /// Its name.
        entry: String,
    },
    /// Not JSON, or of another shape than a recipe.
    #[error("recipe.json: {key}: {problem}")]
    Json {
        /// Where.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// A value that breaks a rule.
    #[error("recipe.json: {key}: {rule}")]
    Rule {
        /// Where.
        key: String,
        /// The rule.
        rule: String,
    },
    /// Something is there already.
    #[error("{}: already there; name a new path, or an empty directory", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}
