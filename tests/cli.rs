//! The commands as scripts see them: help, exit statuses, the shape of JSON, quiet pipes.

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{ANOMALY_1, Bench, HEALTHY, Ran};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn every_command_has_a_manual_page_and_shells_complete_it() {
    let bench = Bench::new();
    bench.expect(0, &["generate", "--out", "prefix"]);
    let share = bench.path("prefix/share");
    let read = |name: &str| std::fs::read_to_string(share.join(name)).expect(name);
    for page in ["kelpie", "kelpie-measure", "kelpie-campaign-run", "kelpie-agent-cert"] {
        let text = read(&format!("man/man1/{page}.1"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains(&page.replace('-', "\\-")), "{page}: {text}");
    }
    for completions in
        ["bash-completion/completions/kelpie", "zsh/site-functions/_kelpie", "fish/vendor_completions.d/kelpie.fish"]
    {
        let text = read(completions);
        assert!(text.contains("campaign") && text.contains("gate-severity"), "{completions}");
    }
}

#[test]
fn values_that_are_names_are_listed_and_guessed() {
    let bench = Bench::new();
    let help = bench.expect(0, &["campaign", "run", "--help"]);
    let help: Vec<&str> = help.split_whitespace().collect();
    let help = help.join(" ");
    assert!(help.contains("[possible values: kelpie, collie, anneal, random, bayes]"), "{help}");
    let refused = bench.run(&["campaign", "run", "-s", "sim:F", "--algorithm", "kolie"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("similar value exists: 'collie'"), "{}", refused.stderr);
}

#[test]
fn measure_tells_healthy_from_anomalous() {
    let bench = Bench::new();
    bench.write("healthy.yaml", HEALTHY);
    bench.write("anomaly.yaml", ANOMALY_1);

    let healthy = bench.json(0, &["measure", "healthy.yaml", "--subsystem", "sim:F"]);
    assert_eq!(
        keys(&healthy),
        ["verdict", "symptoms", "directions", "pause_ratio", "counters", "bounds", "samples", "confidence"],
        "exactly what is documented"
    );
    assert_eq!(healthy["verdict"], "healthy");
    assert_eq!(healthy["symptoms"], Value::Array(Vec::new()));
    let way = &healthy["directions"][0];
    assert_eq!(keys(way), ["from", "to", "goodput_bps", "packets_per_sec", "messages_per_sec", "nearest"]);
    assert_eq!(keys(&way["nearest"]), ["bound", "from", "to", "share"]);
    assert_eq!(way["nearest"]["bound"], "wire");
    assert_eq!((&way["from"], &way["to"]), (&"a".into(), &"b".into()));
    for host in ["a", "b"] {
        assert_eq!(keys(&healthy["pause_ratio"][host]), ["tx", "rx"]);
        assert!(healthy["counters"][host].is_object());
    }
    assert_eq!(keys(&healthy["bounds"]), ["max_bps", "max_pps"]);
    assert_eq!(healthy["samples"].as_array().map(Vec::len), Some(4), "four samples, as in the paper");

    let anomalous = bench.json(1, &["measure", "anomaly.yaml", "--subsystem", "sim:F", "--explain"]);
    assert_eq!(anomalous["verdict"], "anomalous");
    assert_eq!(anomalous["symptoms"][0], "pause");
    assert_eq!(anomalous["limiting"], "receive_wqe_chain:UD_SEND");

    let text = bench.expect(1, &["measure", "anomaly.yaml", "--subsystem", "sim:F"]);
    assert!(text.starts_with("sim:F: anomalous: pause"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe: {text}");
}

/// As an engineer reads the rows of Table 2: what the anomaly needs, from where on, and with what else it shows.
#[test]
fn an_anomaly_comes_down_to_its_conditions() {
    let bench = Bench::new();
    bench.write("anomaly.yaml", ANOMALY_1);
    bench.write("healthy.yaml", HEALTHY);
    let found = ["mfs", "measure", "anomaly.yaml", "--subsystem", "sim:F", "--out", "witness.yaml"];
    let document = bench.json(1, &found);
    assert_eq!(document["symptom"], "pause");
    let conditions = document["conditions"].as_array().expect("a list");
    assert!((2..=4).contains(&conditions.len()), "{document}");
    for row in conditions {
        for side in row["sides"].as_array().expect("a list") {
            bench.write("healthy-side.yaml", side["gone"].to_string());
            bench.write("anomalous-side.yaml", side["anomalous"].to_string());
            let within = bench.json(1, &["measure", "anomalous-side.yaml", "--subsystem", "sim:F"]);
            let beyond = bench.run(&["measure", "healthy-side.yaml", "--subsystem", "sim:F", "--json"]);
            let beyond: Value = serde_json::from_str(&beyond.stdout).expect("it was measured");
            let longest = |shown: &Value| {
                let of = |host: &str| shown["pause_ratio"][host]["rx"].as_f64().unwrap_or(0.0);
                of("a").max(of("b"))
            };
            assert!(longest(&beyond) < longest(&within), "{row}: {}", beyond["pause_ratio"]);
        }
    }
    bench.json(1, &["measure", "witness.yaml", "--subsystem", "sim:F"]);
    assert_eq!(bench.json(0, &["mfs", "measure", "healthy.yaml", "--subsystem", "sim:F"])["symptom"], Value::Null);
}

#[test]
fn a_workload_can_come_from_a_pipe() {
    let bench = Bench::new();
    let sample = bench.expect(0, &["space", "sample", "rpc-library", "--seed", "11"]);
    assert_eq!(
        sample,
        bench.expect(0, &["space", "sample", "rpc-library", "--seed", "11"]),
        "equal seeds, equal bytes"
    );
    assert_ne!(sample, bench.expect(0, &["space", "sample", "rpc-library", "--seed", "12"]));
    bench.write("sample.yaml", &sample);
    let mut command = bench.command(&["measure", "-", "--subsystem", "sim:F", "--json"]);
    command.stdin(std::fs::File::open(bench.path("sample.yaml")).expect("just written"));
    let piped = Ran::of(command.output().expect("the binary starts"));
    let named = bench.run(&["measure", "sample.yaml", "--subsystem", "sim:F", "--json"]);
    assert_eq!(piped.stdout, named.stdout);
    assert!(piped.stdout.contains("\"verdict\""), "{}", piped.stderr);
}

#[test]
fn the_model_can_be_changed_from_the_command_line() {
    let bench = Bench::new();
    bench.write("healthy.yaml", HEALTHY);
    let args = ["measure", "healthy.yaml", "--subsystem", "sim:F"];
    let rate = |document: &Value| document["directions"][0]["goodput_bps"].as_f64().expect("a rate");
    let before = rate(&bench.json(0, &args));
    let slower = bench.json(0, &[&args[..], &["--set", "port.line_rate_gbps=100"]].concat());
    assert!(rate(&slower) < 0.6 * before, "{} against {before}", rate(&slower));
    assert_eq!(slower["bounds"]["max_bps"].as_f64(), Some(1e11));

    let noisy =
        |seed: &str| rate(&bench.json(0, &[&args[..], &["--set", "sampling.noise=0.01", "--seed", seed]].concat()));
    assert_eq!(noisy("7").to_bits(), noisy("7").to_bits());
    assert_ne!(noisy("7").to_bits(), noisy("8").to_bits());

    let shown = bench.expect(0, &["subsystem", "show", "sim:F"]);
    bench.write("mine.yaml", shown);
    let from_file = bench.json(0, &["measure", "healthy.yaml", "--subsystem", "sim:mine.yaml"]);
    assert_eq!(rate(&from_file).to_bits(), before.to_bits(), "what is shown can be loaded and is the same");
}

#[test]
fn spaces_and_subsystems_can_be_looked_at() {
    let bench = Bench::new();
    let spaces = bench.json(0, &["space", "list"]);
    let names: Vec<&str> =
        spaces["spaces"].as_array().into_iter().flatten().filter_map(|s| s["name"].as_str()).collect();
    for name in ["full", "rpc-library", "dml"] {
        assert!(names.contains(&name), "{names:?}");
        let yaml = bench.expect(0, &["space", "show", name]);
        bench.write("copy.yaml", yaml);
        bench.expect(0, &["space", "check", "copy.yaml"]);
        let size = bench.json(0, &["space", "count", name]);
        assert_eq!(size["log10_size"], bench.json(0, &["space", "count", "copy.yaml"])["log10_size"], "{name}");
    }
    let samples = bench.json(0, &["space", "sample", "full", "--number", "3"]);
    assert_eq!(samples["workloads"].as_array().map(Vec::len), Some(3));
    let subsystems = bench.json(0, &["subsystem", "list"]);
    assert_eq!(subsystems["subsystems"].as_array().map(Vec::len), Some(9), "A to H and DUAL");
    let hosts = subsystems["hosts"].as_array().expect("hosts");
    assert!(hosts.contains(&serde_json::json!({"subsystem": "sim:a100", "rnics": 4})), "{hosts:?}");
    bench.expect(0, &["subsystem", "check", "sim:H"]);
}

#[test]
fn a_campaign_is_stored_shown_and_gates() {
    let bench = Bench::new();
    bench.write("ud.yaml", crate::support::SMALL_SPACE);
    let run = ["campaign", "run", "--subsystem", "sim:F", "--space", "ud.yaml", "--budget", "40", "--seed", "1"];
    let ran = bench.run(&[&run[..], &["--json"]].concat());
    assert_eq!(ran.status, Some(0), "findings alone are no failure: {}", ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).expect("one document on stdout");
    assert_eq!(document["experiments"], 40);
    let findings = document["findings"].as_array().expect("a list");
    assert!(!findings.is_empty(), "{document}");
    assert_eq!(
        keys(&findings[0]),
        [
            "id",
            "symptom",
            "severity",
            "found_at",
            "experiments_for_mfs",
            "mfs",
            "workload",
            "confidence",
            "own",
            "any",
            "signature",
            "transports",
            "seen",
            "measured",
            "variants",
            "limiting"
        ]
    );
    let variants: usize = findings.iter().filter_map(|one| one["variants"].as_array()).map(Vec::len).sum();
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("finding 1.")).collect();
    assert_eq!(lines.len(), findings.len() + variants, "one line per finding: {}", ran.stderr);
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\r'), "no bar off a terminal: {}", ran.stderr);
    assert!(ran.stderr.contains(".local/share/kelpie/kelpie.db"), "says where: {}", ran.stderr);

    let mut shown = bench.json(0, &["campaign", "show", "1"]);
    let clock = shown.as_object_mut().expect("a document").shift_remove("clock").expect("it says when it ran");
    assert!(clock["started_unix_ms"].as_u64() > Some(1_700_000_000_000), "{clock}");
    assert!(clock["measured_seconds"].as_f64() > Some(0.0), "{clock}");
    assert_eq!(shown, document);
    assert_eq!(bench.json(0, &["campaign", "list"])["campaigns"][0]["state"], "finished");
    let listed = bench.json(0, &["mfs", "list"]);
    assert_eq!(listed["findings"].as_array().map(Vec::len), Some(findings.len()));

    // The workload that showed a finding was measured; nothing like large RC WRITEs was, until somebody measures them.
    let witness = serde_json::to_string(&findings[0]["workload"]).expect("JSON is YAML");
    bench.write("witness.yaml", witness);
    let inside = bench.json(1, &["mfs", "check", "witness.yaml"]);
    assert_eq!(keys(&inside)[..5], ["answer", "probability", "findings", "nearest", "ways_out"]);
    assert_eq!(inside["answer"], "anomalous", "{inside}");
    let ids: Vec<&Value> = inside["findings"].as_array().expect("a list").iter().map(|found| &found["id"]).collect();
    assert!(ids.contains(&&findings[0]["id"]), "{inside}");
    assert!(inside["nearest"].as_array().is_some_and(|nearest| !nearest.is_empty()), "{inside}");
    for way in inside["ways_out"].as_array().expect("a list") {
        assert_eq!(keys(way)[..4], ["change", "words", "state", "probability"]);
    }
    bench.write("healthy.yaml", HEALTHY);
    assert_eq!(bench.json(2, &["mfs", "check", "healthy.yaml"])["answer"], "unknown");
    let others = ["--subsystem", "sim:A"];
    assert_eq!(bench.json(2, &[&["mfs", "check", "witness.yaml"][..], &others].concat())["findings"], json!([]));
    let settled = bench.json(0, &["mfs", "check", "healthy.yaml", "--measure", "sim:F"]);
    assert_eq!((&settled["answer"], &settled["probability"]), (&json!("safe"), &json!([0.0, 0.0])));
    let settled = bench.json(1, &["mfs", "check", "witness.yaml", "--measure", "sim:F"]);
    assert_eq!(settled["reason"], "measured anomalous");

    let of_findings = |finding: &Value| finding["severity"]["share"].as_f64().expect("its workload was measured");
    let shares: Vec<f64> = findings.iter().map(of_findings).collect();
    assert!(shares.is_sorted_by(|one, next| one >= next) && shares[0] > 0.2, "the worst first: {shares:?}");
    let unexplained = document["unexplained"].as_array().expect("a list").len() as u64;
    assert!(document["anomalous"].as_u64() > Some(unexplained), "{document}");

    bench.expect(1, &[&run[..], &["--gate"]].concat());
    let extended = bench.json(0, &["campaign", "resume", "1", "--budget", "44"]);
    assert_eq!(extended["experiments"], 44);
}

#[test]
fn the_gate_stops_on_every_anomaly_that_no_baseline_accepts() {
    let bench = Bench::new();
    let run = ["campaign", "run", "-s", "sim:F", "--algorithm", "random", "--budget", "12", "--seed", "1", "--gate"];
    let document = bench.json(1, &run);
    let anomalous = document["anomalous"].as_u64().expect("a number");
    assert!(anomalous > 0, "{document}");
    let written = bench.json(0, &["campaign", "baseline", "--out", "all.yaml", "--unexplained"]);
    assert_eq!(written["not_accepted"], 0);
    let with = |baseline: &'static str| [&run[..], &["--gate-baseline", baseline]].concat();
    assert_eq!(bench.json(0, &with("all.yaml"))["anomalous"], anomalous, "the same, and accepted");
    let taken = bench.run(&["campaign", "baseline", "--out", "all.yaml"]);
    assert!(taken.status == Some(2) && taken.stderr.contains("--force"), "{}", taken.stderr);

    let report = ["report", "--out", "report", "--force", "--gate"];
    bench.expect(1, &report);
    bench.expect(0, &[&report[..], &["--gate-baseline", "all.yaml"]].concat());
    let junit = std::fs::read_to_string(bench.path("report/junit.xml")).expect("a report has it");
    assert!(junit.contains("failures=\"0\"") && junit.contains("<testcase"), "{junit}");

    bench.write(
        "bad.yaml",
        "kelpie: baseline/1\naccepted:\n  - symptom: pause\n    region:\n      - {feature: qps}\n  x\n",
    );
    let refused = bench.run(&with("bad.yaml"));
    assert!(refused.status == Some(2) && refused.stderr.contains("bad.yaml:"), "{}", refused.stderr);
    let campaigns = bench.json(0, &["campaign", "list"])["campaigns"].as_array().expect("a list").len();
    assert_eq!(campaigns, 2, "the file is read before anything begins");
    let alone = bench.run(&["campaign", "run", "-s", "sim:F", "--gate-severity", "0.3"]);
    assert!(alone.status == Some(2) && alone.stderr.contains("--gate"), "{}", alone.stderr);
}

#[test]
fn a_gate_over_no_verdict_is_unknown() {
    let bench = Bench::new();
    // Memory that this model does not have.
    let elsewhere = "kelpie: space/1\nmemory_requester: [\"dram:9\"]\nmemory_responder: [\"dram:9\"]\n";
    bench.write("elsewhere.yaml", elsewhere);
    let run = ["campaign", "run", "-s", "sim:A", "--space", "elsewhere.yaml", "--budget", "5", "--gate"];
    let ran = bench.run(&run);
    assert!(
        ran.status == Some(2) && ran.stderr.contains("no experiment has a verdict"),
        "{:?}: {}",
        ran.status,
        ran.stderr
    );
    let ruling = &bench.json(2, &["report", "--out", "report", "--gate"])["gate"];
    assert_eq!(ruling["colour"], "unknown", "{ruling}");
    let junit = std::fs::read_to_string(bench.path("report/junit.xml")).expect("a report has it");
    assert!(junit.contains("skipped=\"1\""), "{junit}");
}

#[test]
fn measuring_settles_a_workload_by_the_subsystem_that_was_measured() {
    let bench = Bench::new();
    bench.write("ud.yaml", crate::support::SMALL_SPACE);
    // The same name with another line rate: its experiments say nothing of the embedded model.
    let run = ["campaign", "run", "-s", "sim:F", "--space", "ud.yaml", "--budget", "25", "--seed", "1"];
    bench.expect(0, &[&run[..], &["--set", "port.line_rate_gbps=20"]].concat());
    let documents = [bench.json(0, &run), bench.json(0, &["mfs", "list"])];
    let witness = &documents[0]["findings"][0]["workload"];
    bench.write("witness.yaml", witness.to_string());
    let alone = bench.json(1, &["mfs", "check", "witness.yaml", "--measure", "sim:F", "--db", "none.db"]);
    assert_eq!((&alone["answer"], &alone["campaigns"]), (&json!("anomalous"), &json!([])), "{alone}");
    let other = bench.run(&["mfs", "check", "witness.yaml", "--subsystem", "sim:f"]);
    assert!(other.status == Some(2) && other.stderr.contains("stored are sim:F"), "{}", other.stderr);
    let checked = bench.json(1, &["mfs", "check", "witness.yaml", "--measure", "sim:F"]);
    assert_eq!((&checked["answer"], &checked["campaigns"]), (&json!("anomalous"), &json!([2])), "{checked}");
    for way in checked["ways_out"].as_array().expect("a list") {
        if way["state"] == "measured_healthy" {
            bench.write("way.yaml", way["workload"].to_string());
            bench.expect(0, &["measure", "way.yaml", "--subsystem", "sim:F"]);
        }
    }
    let elsewhere = bench.json(1, &["mfs", "check", "witness.yaml", "--subsystem", "sim:F", "--measure", "sim:E"]);
    assert_eq!((&elsewhere["subsystem"], &elsewhere["findings"]), (&json!("sim:E"), &json!([])), "{elsewhere}");
    let aside = bench.json(1, &["mfs", "check", "witness.yaml", "--subsystem", "sim:E", "--measure", "sim:F"]);
    assert_eq!(aside, checked);
    let both = bench.run(&["mfs", "check", "witness.yaml"]);
    assert!(
        both.stdout.contains("sim:F (campaign 1)") && both.stdout.contains("sim:F (campaign 2)"),
        "{}",
        both.stdout
    );
}

#[test]
fn an_anomaly_of_a_wider_space_has_ways_out() {
    let bench = Bench::new();
    bench.write("ud.yaml", crate::support::SMALL_SPACE);
    bench.expect(0, &["campaign", "run", "-s", "sim:F", "--space", "ud.yaml", "--budget", "2", "--seed", "1"]);
    let app = "kelpie: workload/1\nflows:\n  - {from: a, to: b, qp_type: RC, qps: 2000, mtu: 1024, interarrival_ns: 500, \
               pattern: [{op: READ, sge: [64]}]}\n";
    bench.write("app.yaml", app);
    let checked = bench.json(1, &["mfs", "check", "app.yaml", "--measure", "sim:F"]);
    let ways = checked["ways_out"].as_array().expect("a list");
    let keeps_pause = |way: &&Value| way["workload"]["flows"][0]["interarrival_ns"] == 500;
    assert!(ways.iter().filter(keeps_pause).count() > 1, "{checked}");
}

#[test]
fn time_ends_a_campaign_that_can_be_resumed() {
    let bench = Bench::new();
    let ran = bench.run(&["campaign", "run", "--subsystem", "sim:F", "--time", "1s", "--db", "k.db"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("kelpie campaign resume 1 --db k.db --time 1s"), "{}", ran.stderr);
    assert_eq!(bench.json(0, &["campaign", "list", "--db", "k.db"])["campaigns"][0]["state"], "finished");
    bench.expect(0, &["campaign", "resume", "1", "--db", "k.db", "--time", "1s"]);
    let refused = bench.run(&["campaign", "resume", "1", "--db", "k.db"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("--time T or --budget N"), "{}", refused.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let bench = Bench::new();
    let mut child = bench
        .command(&["space", "sample", "full", "--number", "2000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = [0; 100];
    child.stdout.take().expect("piped").read_exact(&mut first).expect("something is printed");
    // The pipe is closed here, long before everything was written.
    let ran = Ran::of(child.wait_with_output().expect("it ends"));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn campaigns_can_be_told_apart_and_removed() {
    let bench = Bench::new();
    let run = |more: &[&str]| {
        let args = ["campaign", "run", "--subsystem", "sim:F", "--budget", "3", "--db", "k.db"];
        bench.expect(0, &[&args[..], more].concat())
    };
    run(&["--name", "old firmware", "--note", "before the recall"]);
    let shown = run(&["--set", "port.max_mpps=100"]);
    assert!(shown.contains("  with port.max_mpps 100.0 instead of 155.0\n"), "{shown}");
    let shown = bench.expect(0, &["campaign", "show", "1", "--db", "k.db"]);
    assert!(shown.contains("  old firmware: before the recall\n") && shown.contains("  begun 2"), "{shown}");
    bench.expect(0, &["campaign", "label", "2", "--name", "new firmware", "--db", "k.db"]);
    let list = bench.json(0, &["campaign", "list", "--db", "k.db"]);
    let names: Vec<&Value> = list["campaigns"].as_array().expect("rows").iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["old firmware", "new firmware"]);
    assert!(list["campaigns"][0]["started_unix_ms"].as_u64() > Some(1_600_000_000_000), "{list}");
    assert!(list["campaigns"][0]["measured_seconds"].as_f64() > Some(0.0), "{list}");

    let diff = bench.expect(0, &["diff", "1", "2", "--db", "k.db"]);
    let differs = diff.lines().position(|line| line.starts_with("port.max_mpps")).expect("the parameter is named");
    let counts = diff.lines().position(|line| line.contains(" new, ")).expect("the counts");
    assert!(differs < counts && diff.lines().nth(differs).is_some_and(|line| line.ends_with("155.0  100.0")), "{diff}");
    let diff = bench.json(0, &["diff", "1", "2", "--db", "k.db"]);
    assert_eq!(diff["differences"], json!([{"about": "port.max_mpps", "a": "155.0", "b": "100.0"}]));

    bench.expect(0, &["report", "1", "--out", "r", "--db", "k.db"]);
    let page = std::fs::read_to_string(bench.path("r/index.html")).expect("a page");
    assert!(page.contains("old firmware") && page.contains("before the recall"));
    let junit = std::fs::read_to_string(bench.path("r/junit.xml")).expect("a document");
    assert!(junit.contains("<property name=\"name\" value=\"old firmware\"/>"), "{junit}");

    let refused = bench.run(&["campaign", "rm", "1", "--db", "k.db"]);
    assert!(refused.status == Some(2) && refused.stderr.contains("--yes"), "{refused:?}");
    let removed = bench.expect(0, &["campaign", "rm", "1", "--yes", "--db", "k.db"]);
    assert!(removed.starts_with("campaign 1: removed, with 3 experiments"), "{removed}");
    assert_eq!(bench.run(&["campaign", "rm", "1", "--yes", "--db", "k.db"]).status, Some(2));
    assert_eq!(bench.json(0, &["campaign", "list", "--db", "k.db"])["campaigns"][0]["campaign"], 2);
    let refused = bench.run(&["campaign", "label", "2", "--db", "k.db"]);
    assert!(refused.stderr.contains("--name"), "{refused:?}");
}

#[test]
fn how_much_is_said_and_in_which_colours_can_be_chosen() {
    let bench = Bench::new();
    bench.write("w.yaml", ANOMALY_1);
    let measure = |more: &[&str]| bench.run(&[&["measure", "w.yaml", "--subsystem", "sim:F"], more].concat());
    assert!(!measure(&[]).stdout.contains('\u{1b}'), "a pipe has no colours");
    assert!(measure(&["--color", "always"]).stdout.contains("\u{1b}["));
    assert!(!measure(&["--color", "never"]).stdout.contains('\u{1b}'));
    let run = |more: &[&str]| {
        let args = ["campaign", "run", "--subsystem", "sim:F", "--budget", "2", "--db", "k.db"];
        bench.run(&[&args[..], more].concat())
    };
    assert!(run(&[]).stderr.contains("2 experiments"));
    let quiet = run(&["-q"]);
    assert_eq!((quiet.status, quiet.stderr.as_str()), (Some(0), ""));
    assert!(quiet.stdout.contains("campaign 2 (finished)"), "{quiet:?}");
    let failed = bench.run(&["campaign", "show", "9", "--db", "k.db", "-q"]);
    assert!(failed.stderr.starts_with("error: "), "errors are always said: {failed:?}");
    let negative = run(&["--seed", "-1"]);
    assert!(
        negative.stderr.contains("invalid value '-1' for '--seed") && !negative.stderr.contains("tip:"),
        "{}",
        negative.stderr
    );
    for (args, wanted) in [
        (["campaign", "run", "-s", "sim:F", "--budget", "1e6"].as_slice(), "write a whole number, such as 300"),
        (&["campaign", "run", "-s", "sim:F", "--budget", "0"], "write a whole number from 1\n"),
        (&["bench", "search", "-s", "sim:F", "--seeds", "0"], "write a whole number from 1 to 10000\n"),
        (&["agent", "--listen", "1.2.3.4:99999"], "write ADDRESS:PORT, such as 10.0.0.1:7471"),
        (&["agent", "--max-memory", "0"], "write a size such as 16GiB"),
    ] {
        let refused = bench.run(args);
        assert_eq!(refused.status, Some(2), "{args:?}");
        assert!(refused.stderr.starts_with("error: invalid value '") && refused.stderr.contains(wanted), "{refused:?}");
        assert!(refused.stderr.ends_with("try '--help'.\n"), "{refused:?}");
    }
    let left: Vec<_> =
        std::fs::read_dir(bench.path(".")).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".lock")), "{left:?}");
}
