//! Equal seeds give equal content; different seeds do not.

use crate::support::Bench;

/// Everything that a campaign stored, but for its number and what a clock says.
pub fn content(bench: &Bench, database: &str, id: &str) -> String {
    let mut document = bench.json(0, &["campaign", "show", id, "--db", database, "--experiments"]);
    document["campaign"] = serde_json::Value::Null;
    document["clock"] = serde_json::Value::Null;
    serde_json::to_string_pretty(&document).expect("JSON")
}

#[test]
fn equal_seeds_give_equal_databases() {
    let bench = Bench::new();
    let run = |database: &str, seed: &str| {
        let args =
            ["campaign", "run", "--subsystem", "sim:F", "--budget", "10", "--db", database, "--seed", seed, "--json"];
        bench.expect(0, &args)
    };
    let printed = run("one.db", "3");
    assert_eq!(printed, run("two.db", "3"), "the same bytes on stdout");
    assert_eq!(content(&bench, "one.db", "1"), content(&bench, "two.db", "1"));
    // A second campaign beside the first is the same but for its number.
    run("one.db", "3");
    assert_eq!(content(&bench, "one.db", "1"), content(&bench, "one.db", "2"));
    run("one.db", "4");
    assert_ne!(content(&bench, "one.db", "1"), content(&bench, "one.db", "3"));
}

#[test]
fn every_algorithm_and_signal_runs() {
    let bench = Bench::new();
    for algorithm in ["collie", "anneal", "random", "bayes"] {
        for signal in ["perf", "diag", "both"] {
            let args = ["--algorithm", algorithm, "--signal", signal, "--budget", "5", "--db", "k.db"];
            let document = bench.json(0, &[&["campaign", "run", "--subsystem", "sim:H"], &args[..]].concat());
            assert_eq!((&document["algorithm"], &document["experiments"]), (&algorithm.into(), &5.into()));
        }
    }
}
