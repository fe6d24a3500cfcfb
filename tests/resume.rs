//! A campaign that is killed at any moment goes on with the same decisions; one that is interrupted says how.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use kelpie_store::Store;
use rand::RngExt as _;

use crate::determinism::content;
use crate::support::{Bench, Ran, SMALL_SPACE};

/// A campaign of few QPs and short experiments: what they measure is of no matter here.
fn run_args<'a>(database: &'a str, algorithm: &'a str, budget: &'a str) -> Vec<&'a str> {
    let args = ["campaign", "run", "--subsystem", "sim:F", "--space", "small.yaml", "--seed", "2", "--db", database];
    [&args[..], &["--set", "sampling.max_events=3000", "--algorithm", algorithm, "--budget", budget]].concat()
}

fn start(bench: &Bench, args: &[&str]) -> Child {
    bench.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

/// Experiments stored so far; `None` if there is not even a campaign.
fn experiments(bench: &Bench, database: &str) -> Option<u64> {
    let mut store = Store::open_to_read(bench.path(database)).ok()?;
    store.campaigns().ok()?.first().map(|campaign| campaign.experiments)
}

/// A campaign that runs and has stored some experiments.
pub fn started(bench: &Bench, args: &[&str], database: &str) -> Child {
    let mut child = start(bench, args);
    let deadline = Instant::now() + Duration::from_mins(1);
    while experiments(bench, database) < Some(3) && child.try_wait().expect("it is our child").is_none() {
        assert!(Instant::now() < deadline, "no experiment within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// How a campaign ends that gets a signal.
pub fn ended_by(signal: &str, child: Child) -> Ran {
    let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    Ran::of(child.wait_with_output().expect("it ends"))
}

/// Lets a campaign run until it is time to kill it; `Some` if it ended before.
fn run_until(bench: &Bench, command: &[&str], is_time: impl Fn() -> bool) -> Option<Ran> {
    let mut child = start(bench, command);
    while child.try_wait().expect("it is our child").is_none() {
        if is_time() {
            child.kill().expect("it is our child");
            child.wait().expect("it was killed");
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Some(Ran::of(child.wait_with_output().expect("it ended")))
}

/// Kills at moments that are counted in experiments, of which a busy machine may let several pass at once. The budget
/// is above the hundred experiments after which a checkpoint is stored.
fn killed_at_moments(algorithm: &str, budget: &str, step: impl Fn(u64) -> u64) {
    let kills = killed_often(&run_args("killed.db", algorithm, budget), &run_args("whole.db", algorithm, budget), step);
    assert!(kills >= 9, "killed only {kills} times");
}

#[test]
fn a_campaign_that_is_killed_often_ends_like_one_that_is_not() {
    killed_at_moments("kelpie", "120", |round| 1 + round * 5 % 13);
}

#[test]
fn a_campaign_whose_database_is_replaced_says_where_it_goes_on() {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    bench.expect(0, &run_args("other.db", "random", "3"));
    let campaign = started(&bench, &run_args("d.db", "random", "100000"), "d.db");
    std::fs::rename(bench.path("other.db"), bench.path("d.db")).expect("both are ours");
    let ran = Ran::of(campaign.wait_with_output().expect("it ends"));
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let command = ran.stderr.split("go on with `").nth(1).and_then(|rest| rest.split('`').next()).expect("a command");
    let saved = command.rsplit(' ').next().expect("a database").to_owned();
    assert!(saved.starts_with("d.db.saved-") && command.starts_with("kelpie campaign resume 1 --db"), "{ran:?}");
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--budget", "8"]).collect();
    bench.run(&words);
    assert!(experiments(&bench, &saved) >= Some(3), "what was stored goes on");
    assert_eq!(experiments(&bench, "d.db"), Some(3), "what was put in its place is left alone");
}

/// Other algorithms and many more kills, by `make test-long`.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn another_algorithm_that_is_killed_often_ends_like_one_that_is_not() {
        killed_at_moments("collie", "130", |round| 1 + round * 17 % 23);
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn twenty_kills_at_random_moments_lose_nothing() {
        let mut rng = rand::rng();
        for algorithm in ["kelpie", "collie", "random"] {
            let moments: Vec<u64> = (0..100).map(|_| rng.random_range(1..40)).collect();
            println!("{algorithm}: killed after so many more experiments: {moments:?}");
            let args = |database| run_args(database, algorithm, "600");
            let kills = killed_often(&args("killed.db"), &args("whole.db"), |round| moments[round as usize]);
            println!("{algorithm}: {kills} kills");
            assert!(kills >= 20, "killed only {kills} times");
        }
    }
}

/// Runs a campaign as a whole, and another that is killed again and again after `step` more experiments; says how
/// often.
fn killed_often(killed: &[&str], whole: &[&str], step: impl Fn(u64) -> u64) -> u64 {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    bench.expect(0, whole);

    // The moments differ from run to run, and shall: whatever they are, the outcome must not change. The first
    // few fall into the creation of the database, the others between and into experiments.
    let mut stored = None;
    let kills = (0_u64..100).find(|&round| {
        let command =
            if stored.is_none() { killed.to_vec() } else { vec!["campaign", "resume", "1", "--db", "killed.db"] };
        let start = Instant::now();
        let ended = run_until(&bench, &command, || {
            if round < 8 {
                return start.elapsed() >= Duration::from_millis(round * 9);
            }
            let goal = stored.unwrap_or(0) + step(round);
            let reached = experiments(&bench, "killed.db").is_some_and(|now| now >= goal);
            if reached {
                std::thread::sleep(Duration::from_millis(round * 7 % 31));
            }
            reached
        });
        let listed = bench.run(&["campaign", "list", "--db", "killed.db", "--json"]);
        let nothing_yet = listed.stderr.contains("no Kelpie database there yet");
        assert!(listed.status == Some(0) || (stored.is_none() && nothing_yet), "after kill {round}: {listed:?}");
        let now = experiments(&bench, "killed.db");
        assert!(now >= stored, "nothing that was stored is lost: {stored:?}, then {now:?}");
        stored = now;
        if let Some(ran) = &ended {
            assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        }
        // A kill may also come after the campaign's end and before the process's.
        ended.is_some() || listed.stdout.contains("\"finished\"")
    });
    assert_eq!(content(&bench, "killed.db", "1"), content(&bench, "whole.db", "1"));
    kills.expect("the campaign comes to its end")
}

#[test]
fn an_interrupted_campaign_says_how_to_go_on() {
    let bench = Bench::new();
    let run = ["campaign", "run", "--subsystem", "sim:F", "--budget", "100000", "--db", "k.db"];
    let child = started(&bench, &run, "k.db");
    let second = bench.run(&["campaign", "resume", "1", "--db", "k.db"]);
    assert_eq!(second.status, Some(2), "one writer per campaign");
    assert!(second.stderr.contains("being run by another process"), "{}", second.stderr);
    assert_eq!(bench.json(0, &["campaign", "list", "--db", "k.db"])["campaigns"][0]["state"], "running");

    let ran = ended_by("INT", child);
    assert_eq!(ran.status, Some(2), "it did not run to its end: {}", ran.stderr);
    assert!(ran.stderr.contains("go on with `kelpie campaign resume 1 --db k.db`"), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("campaign 1 (stopped)"), "{}", ran.stdout);
    let done = experiments(&bench, "k.db").expect("a campaign");
    let goal = (done + 5).to_string();
    let resumed = bench.json(0, &["campaign", "resume", "--db", "k.db", "--budget", &goal]);
    assert_eq!(resumed["experiments"], done + 5);
}
