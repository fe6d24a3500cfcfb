//! Campaigns side by side, as a user scores them: equal seeds give equal scores, and what is stopped says so.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, Ran, SMALL_SPACE};

const SEARCH: [&str; 4] = ["bench", "search", "--space", "small.yaml"];

/// Short campaigns of two seeds each.
fn search(more: &[&'static str]) -> Vec<&'static str> {
    [&SEARCH[..], &["--budget", "12", "--seeds", "2"], more].concat()
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
    assert_eq!(names, ["sim:F collie", "sim:F random", "sim:H collie", "sim:H random", "all collie", "all random"]);
    for score in &scores[..4] {
        let campaigns = score["campaigns"].as_array().expect("campaigns");
        let seeds: Vec<&serde_json::Value> = campaigns.iter().map(|campaign| &campaign["seed"]).collect();
        assert_eq!(seeds, [3, 4]);
        let touched: Vec<usize> = campaigns.iter().map(|campaign| weaknesses(&campaign["touched"])).collect();
        let last = score["touched"].as_array().and_then(|moments| moments.last()).expect("the budget is a moment");
        assert_eq!(last["experiments"], 12, "{score}");
        assert_eq!(last["mean"], (touched[0] + touched[1]) as f64 / 2.0, "{score}");
        assert!(last["deviation"].is_number(), "{score}");
    }
    assert!(weaknesses(&scores[0]["campaigns"][0]["touched"]) > 0, "the small space holds anomaly 1 of F: {document}");
    let text = bench.expect(0, &search(&["--subsystem", "sim:H", "--algorithms", "collie", "random", "--seed", "3"]));
    assert!(text.contains(" ± ") && text.contains("collie both"), "{text}");
    let args = ["--subsystem", "sim:F", "--algorithms", "kelpie", "--seeds", "1", "--budget", "24", "--seed", "3"];
    let document = bench.json(0, &[&SEARCH[..], &args[..]].concat());
    assert!(weaknesses(&document["scores"][0]["campaigns"][0]["found"]) > 0, "{document}");
}

/// Distinct symptoms with their parts.
fn weaknesses(sightings: &serde_json::Value) -> usize {
    let sightings = sightings.as_array().expect("a list");
    sightings.iter().map(|seen| (seen["symptom"].to_string(), seen["part"].to_string())).collect::<BTreeSet<_>>().len()
}

#[test]
fn a_directory_keeps_campaigns_and_gets_the_figures() {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    // Long enough that each algorithm that can find something does.
    let args = ["--budget", "40", "--seeds", "1", "--seed", "1", "--subsystem", "sim:F", "--signal", "perf", "diag"];
    let algorithms = ["--algorithms", "collie", "anneal", "random", "--out", "kept", "--known", "20"];
    let kept = [&SEARCH[..], &args[..], &algorithms[..]].concat();
    let document = bench.json(0, &kept);
    assert_eq!(document["scores"].as_array().map(Vec::len), Some(5), "no signal guides random points: {document}");
    for name in ["figure-4-sim%3AF.svg", "figure-5-sim%3AF.svg", "figure-6-sim%3AF.svg"] {
        let svg = std::fs::read_to_string(bench.path("kept").join(name)).expect(name);
        assert!(svg.starts_with("<svg") && svg.contains("collie diag"), "{name}");
    }
    let campaign = bench.path("kept/sim%3AF_collie_diag_1_course.json");
    let stored = std::fs::read(&campaign).expect("a campaign is kept");
    std::fs::remove_file(&campaign).expect("it is ours");
    assert_eq!(bench.json(0, &kept), document);
    assert_eq!(std::fs::read(&campaign).expect("it ran again"), stored);
    assert!(document["scores"][0]["known_share"][0]["mean"].is_number(), "{document}");
    assert!(document["known"][0]["weaknesses"].as_array().is_some_and(|known| !known.is_empty()), "{document}");
    let other = ["bench", "search", "--space", "small.yaml", "--budget", "6", "--subsystem", "sim:F", "--out", "kept"];
    let ran = bench.run(&other);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("a budget of 40 experiments"), "{ran:?}");
}

#[test]
fn what_cannot_be_scored_is_refused_by_its_name() {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    bench.write("pair.yaml", "kelpie: pair/1\n");
    for (more, named) in [
        (&["--subsystem", "sim:Z"][..], "Z"),
        (&["--subsystem", "pair.yaml"], "`pair.yaml` is real"),
        (&["--subsystem", "sim:F", "--algorithms", "magic"], "invalid value 'magic'"),
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
    kill_process(pid, Signal::INT).expect("it is our child");
    assert_eq!(said, "15 campaigns of 1000000 experiments\n");
    let output = child.wait_with_output().expect("it ends");
    stderr.read_to_string(&mut said).expect("UTF-8");
    let ran = Ran { stderr: said, ..Ran::of(output) };
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("stopped: 15 campaigns of 15 did not end"), "{ran:?}");
    assert_eq!(ran.json()["scores"][0]["campaigns"], serde_json::json!([]));
}

#[test]
fn generated_subsystems_are_files_that_can_be_scored() {
    let bench = Bench::new();
    bench.write("small.yaml", SMALL_SPACE);
    bench.expect(0, &["subsystem", "generate", "--seed", "1000", "--out", "drawn.yaml"]);
    let printed = bench.expect(0, &["subsystem", "generate", "--seed", "1000"]);
    assert_eq!(std::fs::read_to_string(bench.path("drawn.yaml")).expect("it was written"), printed);
    assert_ne!(printed, bench.expect(0, &["subsystem", "generate", "--seed", "1001"]));
    bench.expect(0, &["subsystem", "check", "sim:drawn.yaml"]);
    let taken = bench.run(&["subsystem", "generate", "--out", "drawn.yaml"]);
    assert_eq!(taken.status, Some(2), "a file is not replaced: {taken:?}");
    let args = ["bench", "search", "--space", "small.yaml", "--budget", "12", "--seeds", "1", "--algorithms", "random"];
    let score = |more: &[&str]| bench.json(0, &[&args[..], more].concat())["scores"][0].clone();
    let (file, drawn) = (score(&["--subsystem", "sim:drawn.yaml"]), score(&["--generated", "1"]));
    assert_eq!((&drawn["subsystem"], &drawn["touched"]), (&"generated:1000".into(), &file["touched"]));
}
