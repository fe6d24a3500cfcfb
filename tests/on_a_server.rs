//! Commands on a database on a server: they say what they say of a file, and what is killed loses nothing.

#[path = "../reports/store/src/postgres/testing.rs"]
mod postgres;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use kelpie_store::{Database, Store};

use crate::determinism::content;
use crate::support::{Bench, Ran, SMALL_SPACE};
use postgres::Server;

fn run_args(database: &str) -> Vec<&str> {
    let args = ["campaign", "run", "--subsystem", "sim:F", "--space", "small.yaml", "--seed", "2", "--budget", "120"];
    [&args[..], &["--set", "sampling.max_events=3000", "--db", database]].concat()
}

fn experiments(database: &str) -> Option<u64> {
    let mut store = Store::open_to_read(database.parse::<Database>().expect("an address")).ok()?;
    store.campaigns().ok()?.first().map(|campaign| campaign.experiments)
}

/// Runs a command until so many experiments are stored.
fn run_until(bench: &Bench, args: &[&str], database: &str, stored: u64) -> Child {
    let mut child = bench.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begin = Instant::now();
    while experiments(database) < Some(stored) {
        assert_eq!(child.try_wait().expect("it is our child"), None, "it ran to its end");
        assert!(begin.elapsed() < Duration::from_mins(1), "no experiment within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_campaign_whose_writer_and_server_are_killed_ends_like_one_in_a_file() {
    let mut server = Server::start();
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    bench.expect(0, &run_args("file.db"));

    let database = server.create("kelpie");
    let mut writer = run_until(&bench, &run_args(&database), &database, 5);
    let second = bench.run(&["campaign", "resume", "1", "--db", &database]);
    let named = format!("being run by another process (process {} on ", writer.id());
    assert!(second.status == Some(2) && second.stderr.contains(&named), "{second:?}");
    writer.kill().expect("it is our child");
    writer.wait().expect("it was killed");

    let resume = ["campaign", "resume", "1", "--db", &database];
    let stored = experiments(&database).expect("a campaign");
    assert!(stored >= 5);
    let writer = run_until(&bench, &resume, &database, stored + 5);
    server.kill();
    let ran = Ran::of(writer.wait_with_output().expect("it ends"));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("the server is gone"), "{ran:?}");
    let next = format!("go on with `kelpie campaign resume 1 --db '{database}'");
    assert!(ran.stderr.contains(&next), "{ran:?}");
    let down = bench.run(&["campaign", "list", "--db", &database]);
    assert!(down.status == Some(2) && down.stderr.contains("check the server"), "{down:?}");

    server.restart();
    assert!(experiments(&database) >= Some(stored + 5), "what was stored is there");
    bench.expect(0, &resume);
    assert_eq!(content(&bench, &database, "1"), content(&bench, "file.db", "1"));
    commands_say_what_they_say_of_a_file(&bench, &database);
}

fn commands_say_what_they_say_of_a_file(bench: &Bench, database: &str) {
    let said = |args: &[&str], database: &str, out: &str| {
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "OUT" { out } else { arg }).collect();
        let ran = bench.run(&[&args[..], &["--db", database]].concat());
        // Without what a clock says.
        let said =
            (ran.stdout + &ran.stderr).lines().filter(|line| !line.contains("begun ")).collect::<Vec<_>>().join("\n");
        // A command that is to be pasted names the database, quoted if it must be.
        let said = said.replace(&format!("'{database}'"), "DB").replace(database, "DB").replace(out, "OUT");
        (ran.status, said)
    };
    for args in [
        &["campaign", "label", "1", "--name", "night", "--note", "why"][..],
        &["campaign", "show", "1"],
        &["campaign", "baseline", "--out", "OUT"],
        &["campaign", "export", "--out", "OUT"],
        &["campaign", "backup", "--out", "OUT"],
        &["mfs", "list"],
        &["report", "--out", "OUT"],
        &["diff", "1", "1", "--no-measure"],
        &["campaign", "show", "2"],
        &["campaign", "rm", "2", "--yes"],
    ] {
        let command = args.join("-").replace("OUT", "");
        let [of_file, of_server] = [("file.db", "one"), (database, "two")]
            .map(|(database, out)| said(args, database, &format!("{out}-{command}")));
        assert_eq!(of_server, of_file, "{args:?}");
    }
    let copy = "two-campaign-backup---out-";
    assert_eq!(content(bench, copy, "1"), content(bench, database, "1"));
    let watched = bench.run(&["watch", "1", "--db", database]);
    assert!(watched.status == Some(0) && watched.stdout.contains("120"), "{watched:?}");
    bench.expect(0, &["campaign", "rm", "1", "--yes", "--db", database]);
    let secret = database.replace("user=kelpie", "user=kelpie&password=secret");
    let refused = bench.run(&["campaign", "show", "1", "--db", &secret]);
    assert!(refused.status == Some(2) && !refused.stderr.contains("secret"), "{refused:?}");
}
