//! What keeps a database from being lost: backups, checks of what is stored, and notice of a file that was taken away.

use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::Store;
use crate::error::{StoreError, classify};
use crate::link::{Link, values};
use crate::postgres;
use crate::records::CampaignId;
use crate::sqlite::open::{BEING_WRITTEN, WRITTEN, identity};

/// What SQLite puts beside a file: its write-ahead log, and the index of that.
const LOGS: [&str; 2] = ["-wal", "-shm"];

impl Store {
    /// Reads all that is stored of a campaign, and checks it.
    ///
    /// # Errors
    /// Something is damaged, or the database cannot be read.
    pub fn verify(&mut self, id: CampaignId) -> Result<(), StoreError> {
        self.campaign(id)?;
        self.findings(id)?;
        let sql = self.select(super::experiments::EXPERIMENT, "experiment WHERE campaign = $1 ORDER BY number");
        self.rows("checking the experiments", sql, values![id], |store, row| {
            store.verify_experiment(row).map(ControlFlow::Continue)
        })
    }

    /// Writes a copy with everything that is committed, also while a campaign runs: a file of SQLite.
    ///
    /// # Errors
    /// There is a file already, it cannot be written, or the database cannot be read.
    pub fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        let failed = |operation, source| StoreError::Backup { path: to.to_owned(), operation, source };
        if to.symlink_metadata().is_ok() {
            return Err(failed("create", std::io::ErrorKind::AlreadyExists.into()));
        }
        let part = beside(to, &format!(".part-{}", std::process::id()));
        let copied = self.copy_into(&part).map_err(|error| match error {
            // The disk that the copy is to be on.
            StoreError::Full { .. } => failed("write", std::io::ErrorKind::StorageFull.into()),
            StoreError::Io { database, detail } => {
                failed("write", std::io::Error::other(format!("{detail}, there or in {database}")))
            }
            other => other,
        });
        let copied = copied.and_then(|()| {
            File::open(&part).and_then(|file| file.sync_all()).map_err(|source| failed("write", source))?;
            // Unlike a renaming, this replaces nothing.
            fs::hard_link(&part, to).map_err(|source| failed("create", source))
        });
        // What is left of it is in the way of nobody.
        let _ = fs::remove_file(&part);
        copied
    }

    fn copy_into(&mut self, to: &Path) -> Result<(), StoreError> {
        if self.database.file().is_none() {
            let copy = Store::create(to)?;
            return self
                .sql("writing a copy", |from| copy.write("writing a copy", None, |to| postgres::copy::copy(from, to)));
        }
        let name = to.display().to_string();
        self.sql("writing a copy", |link| link.execute("VACUUM INTO $1", values![&name]))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let clean = async || -> Result<(), sqlx::Error> {
            let mut copy = SqliteConnectOptions::new().filename(to).connect().await?;
            sqlx::raw_sql(WRITTEN).execute(&mut copy).await?;
            copy.close().await
        };
        let cleaned = runtime.map_err(sqlx::Error::Io).and_then(|runtime| runtime.block_on(clean()));
        cleaned.map_err(|error| classify(&to.into(), "writing a copy", error))
    }

    /// From now on the database is written to, until the value is dropped.
    pub(super) fn begin_writing(&mut self) -> Result<(), StoreError> {
        let Some(path) = self.database.file() else { return Ok(()) };
        self.sql("marking the database", |link| link.script(BEING_WRITTEN))?;
        let (written, logs) = (identity(path), LOGS.map(|suffix| identity(&beside(path, suffix))));
        (self.written, self.logs) = (written, logs);
        Ok(())
    }

    /// Removes the write-ahead log of a file that is not there any more: whoever opens the one that took its place
    /// would read the log as part of it.
    pub(super) fn take_logs_along(&self, path: &Path) {
        for (suffix, ours) in LOGS.into_iter().zip(self.logs) {
            let log = beside(path, suffix);
            if ours.is_some() && identity(&log) == ours {
                // It is open, so that what is in it can be read until the end.
                let _ = fs::remove_file(&log);
            }
        }
    }

    /// Puts what was committed into the file itself, so that the log is empty until the next commit. Nothing depends on
    /// that: a reader that is in the way makes it wait.
    pub(super) fn empty_log(&mut self) {
        if self.database.file().is_some() {
            let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
            let _ = self.sql("emptying the write-ahead log", |link| link.script(truncate));
        }
    }

    /// The last thing that a writer does.
    pub(super) fn end_writing(link: &mut Link) {
        // A mark that stays makes a later reader warn for nothing, and no more.
        let _ = link.script(WRITTEN);
    }

    /// Fails if what was just committed went into a file that has no name any more. What it holds is saved beside it.
    pub(super) fn check_place(&mut self) -> Result<(), StoreError> {
        let Some(path) = self.database.file().map(Path::to_owned) else { return Ok(()) };
        if self.written.is_none() || identity(&path) == self.written {
            return Ok(());
        }
        self.written = None;
        self.take_logs_along(&path);
        let saved = beside(&path, &format!(".saved-{}", std::process::id()));
        let saved = self.copy_into(&saved).is_ok().then_some(saved);
        Err(StoreError::Gone { database: self.database.clone(), saved })
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::database::Database;
    use crate::place::{Place, both, change};
    use crate::records::ExperimentClock;
    use crate::store::follow::CampaignFollower;
    use crate::testing::{definition, inconclusive, measured, sample, unsupported, workload};
    use kelpie_monitor::Symptom;

    const CLOCK: ExperimentClock = ExperimentClock { started_unix_ms: 0, duration_seconds: 0.0 };

    fn begun(database: impl Into<Database>) -> (Store, CampaignId) {
        let mut store = Store::create(database).unwrap();
        let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
        store.append_experiment(id, &unsupported(1), CLOCK).unwrap();
        (store, id)
    }

    fn a_value_that_changed_by_itself_is_noticed_wherever_it_is_read(place: &Place<'_>) {
        for (number, (sql, of_campaign)) in [
            ("UPDATE experiment SET unsupported = replace(unsupported, 'alert', 'alerT')", false),
            ("UPDATE experiment SET skipped_before = skipped_before + 1", false),
            ("UPDATE experiment SET purpose = 'rank'", false),
            ("UPDATE campaign SET seed = seed + 1", true),
            ("UPDATE campaign SET budget = 1", true),
            ("UPDATE campaign SET space_source = ''", true),
        ]
        .into_iter()
        .enumerate()
        {
            let path = place.database(&number.to_string());
            let (mut store, id) = begun(&path);
            store.finish_campaign(id, 3).unwrap();
            store.verify(id).unwrap();
            drop(store);
            change(&path, sql);
            let mut store = Store::open_to_read(&path).unwrap();
            let error = store.verify(id).expect_err(sql);
            assert!(
                matches!(&error, StoreError::Damaged { detail, .. } if detail.contains("checksum")),
                "{sql}: {error}"
            );
            assert_eq!(store.experiment(id, 1).is_err(), !of_campaign, "{sql}");
            assert_eq!(store.campaigns().is_err(), of_campaign, "{sql}");
        }
    }

    fn no_view_of_a_campaign_hides_what_changed_by_itself(place: &Place<'_>) {
        for (number, (sql, of_anomalies)) in [
            ("UPDATE experiment SET assessment = replace(assessment, 'anomalous', 'anomalOus')", true),
            ("UPDATE experiment SET measurement = measurement || ' ' WHERE number = 1", true),
            ("UPDATE experiment SET purpose = 'rank' WHERE number = 2", false),
            ("DELETE FROM experiment_clock; DELETE FROM experiment WHERE number = 1", true),
            ("UPDATE campaign SET skipped_at_end = 5", true),
        ]
        .into_iter()
        .enumerate()
        {
            let path = place.database(&number.to_string());
            let mut store = Store::create(&path).unwrap();
            let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
            let low = measured(1, workload(4, 4096), sample(0.3, None), vec![Symptom::LowThroughput]);
            store.append_experiment(id, &low, CLOCK).unwrap();
            store.append_experiment(id, &inconclusive(2), CLOCK).unwrap();
            let campaign = store.campaign(id).unwrap();
            assert_eq!(store.anomalies(id).unwrap().len(), 1);
            drop(store);
            change(&path, sql);
            let mut store = Store::open_to_read(&path).unwrap();
            assert_eq!(store.anomalies(id).is_err(), of_anomalies, "{sql}");
            let is_gone = sql.starts_with("DELETE");
            assert_eq!(store.campaigns().is_err(), is_gone || sql.contains("campaign SET"), "{sql}");
            let followed = CampaignFollower::new(&path, &campaign).read();
            assert!(matches!(followed, Err(StoreError::Damaged { .. })) || is_gone, "{sql}: {followed:?}");
        }
    }

    #[test]
    fn a_database_that_is_replaced_keeps_nothing_of_the_one_before() {
        for is_noticed in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (path, other) = (folder.path().join("kelpie.db"), folder.path().join("other.db"));
            let (mut theirs, theirs_id) = begun(&other);
            theirs.append_experiment(theirs_id, &inconclusive(2), CLOCK).unwrap();
            drop(theirs);
            let (mut store, id) = begun(&path);
            for number in 2..40 {
                store.append_experiment(id, &inconclusive(number), CLOCK).unwrap();
            }
            fs::rename(&other, &path).unwrap();
            if is_noticed {
                let error = store.append_experiment(id, &inconclusive(40), CLOCK).unwrap_err();
                assert!(matches!(&error, StoreError::Gone { saved: Some(_), .. }), "{error}");
                assert!(!beside(&path, "-wal").exists(), "while the campaign still runs");
            }
            drop(store);
            for suffix in LOGS {
                assert!(!beside(&path, suffix).exists(), "{suffix}");
            }
            let mut there = Store::open_to_write(&path).unwrap();
            assert_eq!(there.campaign(theirs_id).unwrap().experiments, 2);
            there.verify(theirs_id).unwrap();
        }
    }

    #[test]
    fn after_an_experiment_that_took_long_the_log_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kelpie.db");
        let (mut store, id) = begun(&path);
        assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 0);
        store.append_experiment(id, &inconclusive(2), ExperimentClock { duration_seconds: 3.0, ..CLOCK }).unwrap();
        assert_eq!(fs::metadata(beside(&path, "-wal")).unwrap().len(), 0);
    }

    #[test]
    fn a_database_that_was_taken_away_is_noticed_and_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kelpie.db");
        let (mut store, id) = begun(&path);
        fs::remove_file(&path).unwrap();
        let error = store.append_experiment(id, &inconclusive(2), CLOCK).unwrap_err();
        let StoreError::Gone { saved: Some(saved), .. } = &error else { panic!("{error}") };
        let mut copy = Store::open_to_read(saved).unwrap();
        assert_eq!(copy.campaign(id).unwrap().experiments, 2);
        copy.verify(id).unwrap();

        let (mut store, id) = begun(&path);
        fs::rename(&path, folder.path().join("other.db")).unwrap();
        fs::write(&path, "another").unwrap();
        assert!(matches!(store.append_experiment(id, &inconclusive(2), CLOCK), Err(StoreError::Gone { .. })));
    }

    fn a_backup_has_what_is_committed_and_replaces_nothing(place: &Place<'_>) {
        let (path, to) = (place.database("kelpie"), place.folder.path().join("copy.db"));
        let (mut store, id) = begun(&path);
        Store::open_to_read(&path).unwrap().backup(&to).unwrap();
        store.append_experiment(id, &inconclusive(2), CLOCK).unwrap();
        let mut copy = Store::open_to_read(&to).unwrap();
        assert_eq!((copy.campaign(id).unwrap().experiments, store.campaign(id).unwrap().experiments), (1, 2));
        copy.verify(id).unwrap();
        let before = fs::read(&to).unwrap();
        assert!(matches!(store.backup(&to), Err(StoreError::Backup { .. })));
        assert_eq!(fs::read(&to).unwrap(), before);
        assert_eq!(
            fs::read_dir(place.folder.path())
                .unwrap()
                .filter(|file| { file.as_ref().unwrap().file_name().to_string_lossy().contains("part") })
                .count(),
            0
        );
    }

    #[test]
    fn a_copy_of_the_file_alone_is_known_by_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("kelpie.db"), folder.path().join("copy.db"));
        let mark = |path: &Path| {
            let store = Store::open_to_read(path).unwrap();
            store.sql("reading the mark", |link| link.number("PRAGMA user_version", &[], "user_version")).unwrap()
        };
        let (store, _) = begun(&path);
        fs::copy(&path, &copy).unwrap();
        drop(store);
        assert_eq!((mark(&copy), mark(&path)), (1, 0));
    }

    #[test]
    fn a_damaged_database_is_refused_before_it_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kelpie.db");
        let (mut store, id) = begun(&path);
        for number in 2..200 {
            store.append_experiment(id, &unsupported(number), CLOCK).unwrap();
        }
        drop(store);
        let mut bytes = fs::read(&path).unwrap();
        // The head of a page in the middle: no row tells of it.
        let at = bytes.len() / 4096 / 2 * 4096;
        bytes[at..at + 8].fill(0xff);
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(Store::open_to_write(&path), Err(StoreError::Damaged { .. })));
        assert!(matches!(Store::create(&path), Err(StoreError::Damaged { .. })));
        assert!(fs::read(&path).unwrap() == bytes, "it is as it was");
    }

    both![
        a_value_that_changed_by_itself_is_noticed_wherever_it_is_read,
        no_view_of_a_campaign_hides_what_changed_by_itself,
        a_backup_has_what_is_committed_and_replaces_nothing,
    ];
}
