//! Where tests of the store keep databases: files, or a server.

use std::cell::RefCell;

use kelpie_store::Database;

use crate::link::sql;
use crate::postgres::testing::Server;
use crate::store::Store;

/// A folder, and perhaps a server.
pub(crate) struct Place<'s> {
    pub folder: tempfile::TempDir,
    server: Option<(&'s Server, &'static str)>,
    created: RefCell<Vec<String>>,
}

impl<'s> Place<'s> {
    /// For files.
    pub fn of_files() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: None, created: RefCell::default() }
    }

    /// For databases on a server whose names begin with that of a test.
    pub fn on(server: &'s Server, test: &'static str) -> Self {
        Self { server: Some((server, test)), ..Self::of_files() }
    }

    /// The database of this name, the same each time. On a server, a test has one database, and a schema of it for each
    /// name, which takes no time to make.
    pub fn database(&self, name: &str) -> Database {
        let Some((server, test)) = self.server else { return self.folder.path().join(format!("{name}.db")).into() };
        // The longest name has 63 bytes.
        let database = &test[..test.len().min(63)];
        let mut created = self.created.borrow_mut();
        if created.is_empty() {
            server.create(database);
        }
        let place = created.iter().position(|made| made == name).unwrap_or_else(|| {
            created.push(name.to_owned());
            server.sql(database, &format!("CREATE SCHEMA IF NOT EXISTS s{}", created.len() - 1));
            created.len() - 1
        });
        format!("{}&options[search_path]=s{place}", server.address(database)).parse().unwrap()
    }
}

/// Tests by their names.
pub(crate) type Tests = &'static [(&'static str, fn(&Place<'_>))];

/// Changes rows behind the back of the store.
pub(crate) fn change(database: &Database, statements: &str) {
    let store = Store::open_to_write(database).unwrap();
    store.sql("changing", |link| link.script(sql(statements.to_owned()))).unwrap();
}

/// Tests that hold for files and on a server: here on files, and in the test of servers on one that they share.
macro_rules! both {
    ($($test:ident),* $(,)?) => {
        mod on_files {
            $(#[test]
            fn $test() {
                super::$test(&crate::place::Place::of_files());
            })*
        }

        pub(crate) const ON_A_SERVER: crate::place::Tests = &[$((stringify!($test), $test)),*];
    };
}
pub(crate) use both;
