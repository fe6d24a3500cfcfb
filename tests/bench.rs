//! Campaigns side by side, as a user scores them: equal seeds give equal scores, and what is stopped says so.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, Ran, SMALL_SPACE};

const SEARCH: [&str; 8] = ["bench", "search", "--space", "small.yaml", "--budget", "120", "--seeds", "2"];

fn search(more: &[&'static str]) -> Vec<&'static str> {
    [&SEARCH[..], more].concat()
}

#[test]
fn equal_seeds_give_equal_scores_of_each_algorithm_and_subsystem() {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    let args = search(&["--subsystem", "sim:F", "sim:H", "--algorithms", "collie", "random", "--seed", "3"]);
    let document = bench.json(0, &args);
    assert_eq!(document, bench.json(0, &args));
    let scores = document["scores"].as_array().expect("scores");
    let names: Vec<String> =
        scores.iter().map(|score| format!("{} {}", score["subsystem"], score["algorithm"]).replace('"', "")).collect();
    assert_eq!(names, ["sim:F collie", "sim:F random", "sim:H collie", "sim:H random"]);
    for score in scores {
        let campaigns = score["campaigns"].as_array().expect("campaigns");
        let seeds: Vec<&serde_json::Value> = campaigns.iter().map(|campaign| &campaign["seed"]).collect();
        assert_eq!(seeds, [3, 4]);
        let touched: Vec<f64> = campaigns.iter().filter_map(|campaign| campaign["touched"].as_f64()).collect();
        assert_eq!(score["touched"]["mean"], f64::midpoint(touched[0], touched[1]), "{score}");
        assert!(score["touched"]["deviation"].is_number(), "{score}");
    }
    let found = |index: usize| scores[index]["found"]["mean"].as_f64().expect("a mean");
    assert!(found(0) > 0.0, "the small space holds anomaly 1 of F: {document}");
    let text = bench.expect(0, &search(&["--subsystem", "sim:H", "--algorithms", "collie", "random", "--seed", "3"]));
    assert!(text.contains(" ± ") && text.lines().count() == 3, "{text}");
}

#[test]
fn what_cannot_be_scored_is_refused_by_its_name() {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    bench.write("pair.yaml", "kelpie: pair/1\n");
    for (more, named) in [
        (&["--subsystem", "sim:Z"][..], "Z"),
        (&["--subsystem", "pair.yaml"], "`pair.yaml` is real"),
        (&["--subsystem", "sim:F", "--algorithms", "magic"], "`magic` is not one of"),
        (&["--subsystem", "sim:F", "--seed", "9223372036854775808"], "--seed"),
        (&[], "--subsystem"),
    ] {
        let ran = bench.run(&[&["bench", "search", "--space", "small.yaml"], more].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{more:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(named), "{more:?}: {}", ran.stderr);
    }
}

#[test]
fn searches_that_are_stopped_leave_a_document_and_say_so() {
    let bench = Bench::new();
    let args = ["bench", "search", "--subsystem", "sim:F", "--budget", "1000000", "--json"];
    let mut child =
        bench.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let pid = Pid::from_child(&child);
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    // It listens by the time that it says what it will do; before that a signal would end it at once.
    stderr.read_line(&mut said).expect("UTF-8");
    assert_eq!(said, "12 campaigns of 1000000 experiments\n");
    kill_process(pid, Signal::INT).expect("it is our child");
    let output = child.wait_with_output().expect("it ends");
    stderr.read_to_string(&mut said).expect("UTF-8");
    let ran = Ran { stderr: said, ..Ran::of(output) };
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("stopped: 12 campaigns of 12 did not end"), "{ran:?}");
    assert_eq!(ran.json()["scores"][0]["campaigns"], serde_json::json!([]));
}
