//! The name of a database: where campaigns are kept. What is in it is read and written by `store`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Schemes of the addresses that databases and servers of others have.
const SCHEMES: [&str; 6] = ["postgres", "postgresql", "mysql", "sqlite", "http", "https"];

/// Where campaigns are kept: a file of SQLite. Its callers know it by this name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database(PathBuf);

impl Database {
    /// Whether there is something to open.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<OsString> for Database {
    type Error = String;

    fn try_from(name: OsString) -> Result<Self, Self::Error> {
        let text = name.to_string_lossy();
        // Only what nobody calls a file: a folder may end with a colon.
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_lowercase());
        match scheme.filter(|scheme| SCHEMES.contains(&scheme.as_str())) {
            Some(scheme) => Err(format!("campaigns are kept in files, and `{scheme}://` is none; name a file")),
            None if text.is_empty() => Err("name a file".to_owned()),
            None => Ok(Self(name.into())),
        }
    }
}

impl FromStr for Database {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        OsString::from(name).try_into()
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl From<PathBuf> for Database {
    fn from(file: PathBuf) -> Self {
        Self(file)
    }
}

impl From<&PathBuf> for Database {
    fn from(file: &PathBuf) -> Self {
        Self(file.clone())
    }
}

impl From<&Path> for Database {
    fn from(file: &Path) -> Self {
        Self(file.to_owned())
    }
}

impl From<&Database> for Database {
    fn from(database: &Database) -> Self {
        database.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_files_and_addresses_are_refused() {
        for text in ["kelpie.db", "/a b/it's.db", "./postgres", "./http://x.db", "/a/postgres://x", "a://b/k.db"] {
            assert_eq!(text.parse::<Database>().map(|database| database.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "postgres://me:secret@fleet/kelpie", "sqlite:///x.db", "HTTPS://me:secret@x"] {
            let error = text.parse::<Database>().expect_err(text);
            assert!(error.ends_with("name a file") && !error.contains("secret"), "{error}");
        }
    }
}
