//! Tests on one server: those that hold for files too, and what only a server does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use kelpie_store::{
    CampaignFollower, CampaignId, CampaignState, Database, ExperimentClock, StoreError, StoredCheckpoint,
};

use super::testing::Server;
use crate::link::values;
use crate::place::Place;
use crate::store::Store;
use crate::testing::{definition, finding, inconclusive, measured, sample, unsupported, workload};
use crate::{store, testing};

const CLOCK: ExperimentClock = ExperimentClock { started_unix_ms: 1_700_000_000_000, duration_seconds: 0.25 };

/// What a test on a server is given: the server, an empty database of its own, and its name there.
type OnServer = fn(&Server, &Database, &str);

const ON_A_SERVER: [(&str, OnServer); 9] = [
    ("another_program", another_programs_tables_are_left_as_they_are),
    ("newer", a_newer_database_and_one_that_is_not_there_are_refused),
    ("roles", a_role_that_may_only_read_reads_everything_and_writes_nothing),
    ("cut_off", a_writer_that_was_cut_off_writes_nothing),
    ("lost", a_connection_that_is_lost_loses_nothing_and_frees_its_lock),
    ("busy", who_holds_a_lock_for_long_is_not_waited_for),
    ("texts", texts_that_a_server_cannot_keep_are_cleaned_or_refused),
    ("copy", a_copy_is_a_file_with_everything),
    ("columns", a_server_has_the_columns_of_a_file),
];

#[test]
fn the_store_holds_on_a_server() {
    let mut server = Server::start();
    let mut failed: Vec<&str> = Vec::new();
    for &(name, test) in store::ON_A_SERVER.iter().copied().flatten() {
        let begin = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| test(&Place::on(&server, name)))).is_err() {
            failed.push(name);
        }
        println!("{name}: {:.0?}", begin.elapsed());
    }
    for (name, test) in ON_A_SERVER {
        let begin = Instant::now();
        let database = server.create(name).parse().unwrap();
        if catch_unwind(AssertUnwindSafe(|| test(&server, &database, name))).is_err() {
            failed.push(name);
        }
        println!("{name}: {:.0?}", begin.elapsed());
    }
    assert!(failed.is_empty(), "{failed:?}");
    nothing_is_lost_with_a_server_that_is_killed(&mut server);
}

fn begun(database: &Database) -> (Store, CampaignId, kelpie_store::WriterLock) {
    let mut store = Store::create(database).unwrap();
    let (id, lock) = store.begin_campaign(&definition(), &[]).unwrap();
    store.append_experiment(id, &unsupported(1), CLOCK).unwrap();
    (store, id, lock)
}

fn another_programs_tables_are_left_as_they_are(server: &Server, database: &Database, name: &str) {
    server.sql(name, "CREATE TABLE theirs (id INT)");
    for opened in [Store::create(database), Store::open_to_write(database), Store::open_to_read(database)] {
        assert!(matches!(opened, Err(StoreError::Foreign { .. })), "{opened:?}");
    }
    server.sql(name, "DROP TABLE theirs");
    Store::create(database).unwrap();
}

fn a_newer_database_and_one_that_is_not_there_are_refused(server: &Server, database: &Database, name: &str) {
    for opened in [Store::open_to_write(database), Store::open_to_read(database)] {
        assert!(matches!(opened, Err(StoreError::Missing { .. })), "{opened:?}");
    }
    begun(database);
    server.sql(name, "INSERT INTO _sqlx_migrations VALUES (1000, 'next', now(), TRUE, '', 1)");
    for opened in [Store::create(database), Store::open_to_read(database)] {
        assert!(matches!(opened, Err(StoreError::Newer { found: 1000, .. })), "{opened:?}");
    }
    let nowhere = [server.address("nowhere"), "postgres://me:secret@127.0.0.1:1/kelpie".to_owned()];
    for (address, why) in nowhere.iter().zip(["does not exist", "refused"]) {
        let error = Store::create(address.parse::<Database>().unwrap()).unwrap_err();
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(why) && !text.contains("secret"), "{text}");
    }
}

fn a_role_that_may_only_read_reads_everything_and_writes_nothing(server: &Server, database: &Database, name: &str) {
    let (mut writer, id, _lock) = begun(database);
    server.sql(name, "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    let reader: Database = server.address_as(name, "reader").parse().unwrap();
    let mut store = Store::open_to_read(&reader).unwrap();
    let campaign = store.campaign(id).unwrap();
    assert_eq!((campaign.state, &store.campaigns().unwrap()), (CampaignState::Running, &vec![campaign.clone()]));
    store.verify(id).unwrap();
    assert_eq!(CampaignFollower::new(&reader, &campaign).read().unwrap().stored, 1);
    let mut store = Store::open_to_write(&reader).unwrap();
    let refused = [
        store.begin_campaign(&definition(), &[]).map(drop),
        store.append_experiment(id, &inconclusive(2), CLOCK),
        store.put_label(id, &kelpie_store::Label { name: Some("mine".to_owned()), note: None }),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    }
    let mut only_reads = Store::open_to_read(database).unwrap();
    assert!(matches!(only_reads.put_finding(id, &finding(1, 1, workload(1, 1024))), Err(StoreError::ReadOnly { .. })));
    writer.append_experiment(id, &inconclusive(2), CLOCK).unwrap();
}

fn a_writer_that_was_cut_off_writes_nothing(server: &Server, database: &Database, name: &str) {
    let (mut writer, id, lock) = begun(database);
    let mut second = Store::open_to_write(database).unwrap();
    let error = second.lock_campaign(id).unwrap_err();
    let StoreError::Locked { holder: Some(holder), .. } = &error else { panic!("{error}") };
    assert_eq!(holder.process, std::process::id());
    // A pool of connections may give the writer another one, whose lock is free.
    server.sql(name, "UPDATE campaign SET epoch = epoch + 1, writer = '{\"host\":\"b\",\"process\":7,\"since\":0}'");
    for refused in [
        writer.append_experiment(id, &inconclusive(2), CLOCK),
        writer.put_finding(id, &finding(1, 1, workload(1, 1024))),
        writer.put_checkpoint(id, &StoredCheckpoint { experiments: 1, state: "{}".to_owned() }),
        writer.finish_campaign(id, 0),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("process 7 on b since 1970-01-01"), "{error}");
    }
    assert_eq!(second.campaign(id).unwrap().experiments, 1);
    drop(lock);
    second.lock_campaign(id).unwrap();
}

fn a_connection_that_is_lost_loses_nothing_and_frees_its_lock(server: &Server, database: &Database, name: &str) {
    let (mut writer, id, lock) = begun(database);
    server.sql("postgres", &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"));
    for _ in 0..2 {
        let error = writer.append_experiment(id, &inconclusive(2), CLOCK).unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error}");
        assert!(error.to_string().contains("then resume"), "{error}");
    }
    let mut second = Store::open_to_write(database).unwrap();
    let lock_of_second = second.lock_campaign(id).unwrap();
    drop(lock);
    second.append_experiment(id, &inconclusive(2), CLOCK).unwrap();
    assert_eq!(second.campaign(id).unwrap().state, CampaignState::Running, "its lock is its own");
    drop(lock_of_second);
    assert_eq!(second.campaign(id).unwrap().state, CampaignState::Stopped);
}

fn who_holds_a_lock_for_long_is_not_waited_for(_: &Server, database: &Database, _: &str) {
    let (mut writer, id, _lock) = begun(database);
    writer.sql("hurrying", |link| link.script("SET lock_timeout = '200ms'")).unwrap();
    let second = Store::open_to_write(database).unwrap();
    let held = second.write("holding", None, |link| {
        link.execute("UPDATE campaign SET state = state WHERE id = $1", values![id])?;
        let begin = Instant::now();
        let error = writer.append_experiment(id, &inconclusive(2), CLOCK).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        Ok(())
    });
    held.unwrap();
    writer.append_experiment(id, &inconclusive(2), CLOCK).unwrap();
}

fn texts_that_a_server_cannot_keep_are_cleaned_or_refused(_: &Server, database: &Database, _: &str) {
    let (mut store, id, _lock) = begun(database);
    store.add_failed_try(id, 2, "died\0here").unwrap();
    assert_eq!(store.failed_tries(id, 2).unwrap(), ["died\u{fffd}here"]);
    let label = kelpie_store::Label { name: Some("a\0b".to_owned()), note: None };
    assert!(matches!(store.put_label(id, &label), Err(StoreError::Refused { .. })));
    let mut experiment = unsupported(2);
    experiment.outcome = kelpie_store::ExperimentOutcome::Unsupported { reason: "no\0GPU".to_owned() };
    store.append_experiment(id, &experiment, CLOCK).unwrap();
    store.verify(id).unwrap();
}

fn a_copy_is_a_file_with_everything(_: &Server, database: &Database, _: &str) {
    let (mut store, id, _lock) = begun(database);
    let low = vec![kelpie_monitor::Symptom::LowThroughput];
    let experiment = measured(2, workload(4, 4096), sample(1.0 / 3.0, Some(5e-324)), low);
    store.append_experiment(id, &experiment, CLOCK).unwrap();
    store.put_finding(id, &finding(1, 2, workload(4, 4096))).unwrap();
    store.put_label(id, &kelpie_store::Label { name: Some(testing::HOSTILE.to_owned()), note: None }).unwrap();
    store.add_failed_try(id, 3, "died").unwrap();
    let qualification = store.begin_qualification("{}").unwrap();
    store.add_units(qualification, 1, &["1.50".to_owned(), "[]".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copy.db");
    Store::open_to_read(database).unwrap().backup(&to).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "one file is the copy");
    let mut copy = Store::open_to_write(&to).unwrap();
    copy.verify(id).unwrap();
    let everything = |store: &mut Store| {
        let mut units = Vec::new();
        let read = store.units(qualification, 0, |number, unit| {
            units.push((number, unit.to_owned()));
            std::ops::ControlFlow::Continue(())
        });
        read.unwrap();
        let campaign = kelpie_store::Campaign { state: CampaignState::Stopped, ..store.campaign(id).unwrap() };
        format!(
            "{campaign:?} {:?} {:?} {:?} {:?} {:?} {:?} {units:?}",
            store.experiments_after(id, 0, 9),
            store.findings(id),
            store.label(id),
            store.clock(id),
            store.failed_tries(id, 3),
            store.qualifications(),
        )
    };
    assert_eq!(everything(&mut copy), everything(&mut store));
    assert!(copy.begin_campaign(&definition(), &[]).unwrap().0 > id);
}

fn a_server_has_the_columns_of_a_file(_: &Server, database: &Database, _: &str) {
    let folder = tempfile::tempdir().unwrap();
    let columns = |database: &Database, query: &'static str| {
        let store = Store::create(database).unwrap();
        let rows = store.sql("reading the columns", |link| link.rows(query, &[])).unwrap();
        let mut columns: Vec<String> = rows.iter().map(|row| row.get("name").unwrap()).collect();
        columns.sort();
        columns
    };
    let of_file = columns(
        &folder.path().join("kelpie.db").into(),
        "SELECT tables.name || '.' || columns.name AS name FROM sqlite_master AS tables, \
         pragma_table_info(tables.name) AS columns WHERE tables.type = 'table' AND tables.name GLOB '[a-z]*' \
         AND tables.name NOT GLOB 'sqlite_*'",
    );
    let of_server = columns(
        database,
        "SELECT table_name || '.' || column_name AS name FROM information_schema.columns \
         WHERE table_schema = current_schema() AND table_name NOT IN ('_sqlx_migrations', 'kelpie_database') \
         AND column_name NOT IN ('epoch', 'writer')",
    );
    assert_eq!(of_server, of_file);
    let mut tables: Vec<&str> = of_server.iter().filter_map(|column| Some(column.split_once('.')?.0)).collect();
    tables.dedup();
    let mut copied = super::copy::TABLES.to_vec();
    copied.sort_unstable();
    assert_eq!(copied, tables, "each table is copied");
}

fn nothing_is_lost_with_a_server_that_is_killed(server: &mut Server) {
    let database: Database = server.create("killed").parse().unwrap();
    let (mut writer, id, lock) = begun(&database);
    let qualification = writer.begin_qualification("{}").unwrap();
    for number in 2..=20 {
        writer.append_experiment(id, &inconclusive(number), CLOCK).unwrap();
        writer.add_units(qualification, number - 1, &["{}".to_owned()]).unwrap();
    }
    server.kill();
    let begin = Instant::now();
    // Its processes end one after the other, and the last may still take a commit.
    let mut stored = 20;
    let error = loop {
        match writer.append_experiment(id, &inconclusive(stored + 1), CLOCK) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    assert!(error.to_string().contains("the server is gone"), "{error}");
    let error = writer.add_units(qualification, 20, &["{}".to_owned()]).unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    let error = Store::open_to_write(&database).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. } | StoreError::Lost { .. }), "{error}");
    drop((writer, lock));
    assert!(begin.elapsed() < Duration::from_secs(10), "nobody waits for what is gone: {:?}", begin.elapsed());

    server.restart();
    let mut resumed = Store::open_to_write(&database).unwrap();
    let lock = resumed.lock_campaign(id).unwrap();
    resumed.verify(id).unwrap();
    let experiments = resumed.campaign(id).unwrap().experiments;
    // What was not acknowledged may be there, too.
    assert!(experiments == stored || experiments == stored + 1, "{experiments} of {stored}");
    resumed.append_experiment(id, &inconclusive(experiments + 1), CLOCK).unwrap();
    resumed.add_units(qualification, 20, &["{}".to_owned()]).unwrap();
    drop(lock);
}
