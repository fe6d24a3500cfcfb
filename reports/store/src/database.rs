//! The name of a database: where campaigns are kept. What is in it is read and written by `store`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use url::Url;

/// Schemes of the addresses that databases and servers of others have.
const OTHERS: [&str; 4] = ["mysql", "sqlite", "http", "https"];

/// Schemes of a server of PostgreSQL.
const SERVERS: [&str; 2] = ["postgres", "postgresql"];

/// Where campaigns are kept: a file of SQLite, or a server of PostgreSQL. Its callers know it by this name alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Database(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    /// Its address, with a password if it was given one.
    Server(String),
}

impl Database {
    /// Whether there is something to open; a server says that when it is asked.
    pub fn exists(&self) -> bool {
        match &self.0 {
            Place::File(file) => file.exists(),
            Place::Server(_) => true,
        }
    }

    /// The file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(file) => Some(file),
            Place::Server(_) => None,
        }
    }

    /// The address of the server, with its password, if it is on one.
    pub(crate) fn address(&self) -> Option<&str> {
        match &self.0 {
            Place::File(_) => None,
            Place::Server(address) => Some(address),
        }
    }
}

/// The address of a server without its password: `PGPASSWORD` or a password file can give it.
fn without_password(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return "a server of PostgreSQL".to_owned() };
    let is_secret = |key: &str| key.contains("pass");
    if url.password().is_none() && !url.query_pairs().any(|(key, _)| is_secret(&key)) {
        return address.to_owned();
    }
    // It can be set wherever there is one.
    let _ = url.set_password(None);
    let shown = url.query_pairs().filter(|(key, _)| !is_secret(key));
    let shown: Vec<(String, String)> = shown.map(|(key, value)| (key.into(), value.into())).collect();
    url.set_query(None);
    if !shown.is_empty() {
        url.query_pairs_mut().extend_pairs(shown);
    }
    url.to_string()
}

impl TryFrom<OsString> for Database {
    type Error = String;

    fn try_from(name: OsString) -> Result<Self, Self::Error> {
        let text = name.to_string_lossy();
        // Only what nobody calls a file: a folder may end with a colon.
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_lowercase());
        match scheme.as_deref() {
            // Whoever opens it says what is wrong with it: an error here would have the address in it.
            Some(scheme) if SERVERS.contains(&scheme) => Ok(Self(Place::Server(text.into_owned()))),
            Some(scheme) if OTHERS.contains(&scheme) => Err(format!(
                "campaigns are kept in files and on servers of PostgreSQL, and `{scheme}://` is neither; name a file"
            )),
            _ if text.is_empty() => Err("name a file".to_owned()),
            _ => Ok(Self(Place::File(name.into()))),
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
        match &self.0 {
            Place::File(file) => file.display().fmt(f),
            Place::Server(address) => f.pad(&without_password(address)),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({self})")
    }
}

impl From<PathBuf> for Database {
    fn from(file: PathBuf) -> Self {
        Self(Place::File(file))
    }
}

impl From<&PathBuf> for Database {
    fn from(file: &PathBuf) -> Self {
        file.clone().into()
    }
}

impl From<&Path> for Database {
    fn from(file: &Path) -> Self {
        file.to_owned().into()
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
    fn names_are_files_or_servers_and_other_addresses_are_refused() {
        for text in ["kelpie.db", "/a b/it's.db", "./postgres", "./http://x.db", "/a/postgres://x", "a://b/k.db"] {
            let database: Database = text.parse().unwrap();
            assert_eq!((database.to_string(), database.file()), (text.to_owned(), Some(Path::new(text))));
        }
        for text in [
            "postgres:///kelpie?host=/run/postgresql&user=kelpie",
            "PostgreSQL://kelpie@db.example:5433/kelpie?sslmode=require&options[search_path]=kelpie",
        ] {
            let database: Database = text.parse().unwrap();
            assert_eq!((database.to_string(), database.file()), (text.to_owned(), None));
        }
        for text in ["", "sqlite:///x.db", "HTTPS://me:secret@x", "mysql://me:secret@x"] {
            let error = text.parse::<Database>().expect_err(text);
            assert!(error.ends_with("name a file") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://me:secret@db/kelpie", "postgres://me@db/kelpie"),
            ("postgres://me:secret@db:5433/k?sslmode=require", "postgres://me@db:5433/k?sslmode=require"),
            ("postgres:///k?host=%2Frun&user=me&password=secret", "postgres:///k?host=%2Frun&user=me"),
            ("postgres:///k?%70assword=secret", "postgres:///k"),
        ] {
            let database: Database = text.parse().unwrap();
            assert_eq!(database.to_string(), shown);
            assert!(!format!("{database:?}").contains("secret"));
            assert_eq!(database.address(), Some(text), "it is used");
        }
        for bad in ["postgres://me:secret@[", "postgres://me:secret@db/k?sslmode=x", "postgres:///k?pass=secret"] {
            let error = crate::Store::open_to_read(bad.parse::<Database>().unwrap()).unwrap_err().to_string();
            assert!(error.contains("not an address") && !error.contains("secret"), "{error}");
        }
    }
}
