//! `kelpie calibrate`: a table becomes a model that can be measured, and bad tables are refused with line and column.

use crate::support::{Bench, Ran};

/// Measurements of F with another line rate (160), PCIe (200) and XOFF, as a user writes them. The long suite measures
/// them again.
const TABLE: &str = include_str!("calibrate/mine.csv");

const TWO: [&str; 2] = ["--parameters", "port.line_rate_gbps,pcie.gbps"];

#[test]
fn a_table_becomes_a_model_that_predicts_what_was_held_back() {
    let bench = Bench::new();
    bench.write("mine.csv", TABLE);
    let args = [&["calibrate", "mine.csv", "--base", "F", "--out", "mine.yaml"], &TWO[..]].concat();
    let fit = bench.json(0, &args)["fit"].clone();
    for (at, (path, truth)) in [("port.line_rate_gbps", 160.0), ("pcie.gbps", 200.0)].into_iter().enumerate() {
        let estimate = &fit["parameters"][at];
        assert_eq!(
            (estimate["path"].as_str(), estimate["state"].as_str()),
            (Some(path), Some("determined")),
            "{fit:#}"
        );
        let error = estimate["used"].as_f64().expect("a value") / truth - 1.0;
        assert!(error.abs() < 0.05, "{path}: {error}");
        assert!(!estimate["lines"].as_array().expect("lines").is_empty());
    }
    assert!(fit["held_back_error"].as_f64().expect("two rows are held back") < 0.05, "{fit:#}");
    assert_eq!((fit["rows"].as_array().map(Vec::len), &fit["converged"]), (Some(10), &true.into()));
    let model = std::fs::read_to_string(bench.path("mine.yaml")).expect("it was written");
    assert!(model.contains("base: F") && model.contains("# fitted to mine.csv, lines "), "{model}");
    assert!(!model.contains("max_mpps"), "only what was fitted: {model}");
    bench.expect(0, &["subsystem", "check", "sim:mine.yaml"]);

    let again = bench.run(&args);
    assert_eq!(again.status, Some(2), "{again:?}");
    assert!(again.stderr.contains("--force"), "{again:?}");
    let text = bench.expect(0, &[&args[..], &["--force"]].concat());
    assert!(text.contains("determined") && text.contains("Median error of the 2 rows"), "{text}");
    let same = std::fs::read_to_string(bench.path("mine.yaml")).expect("it was written");
    assert_eq!(same, model, "equal tables give equal models");
}

#[test]
fn rows_that_fight_are_named_and_the_status_says_so() {
    let bench = Bench::new();
    let rows: Vec<&str> = TABLE.lines().collect();
    let halved: Vec<String> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| match at {
            // Lines 2 and 4 say half of what lines 3, 5 and 6 do.
            1 | 3 => row.replace(",15", ",7").replace(",16", ",8"),
            _ => (*row).to_owned(),
        })
        .collect();
    bench.write("bad.csv", halved.join("\n"));
    let args = [&["calibrate", "bad.csv", "--base", "F", "--out", "bad.yaml"], &TWO[..]].concat();
    let text = bench.expect(1, &args);
    assert!(text.contains("did not converge"), "{text}");
    let fight = text.lines().find(|line| line.starts_with("Rows fight over port.line_rate_gbps")).expect(&text);
    assert!(fight.contains("less is asked for by: ") && fight.contains("line 2 ("), "{text}");
}

#[test]
fn the_plan_is_a_table_to_fill_in_and_workloads_to_measure() {
    let bench = Bench::new();
    let csv = bench.expect(0, &["calibrate", "plan", "--csv"]);
    assert!(csv.starts_with("operation,transport,size_bytes,qps,"), "{csv}");
    let rows = csv.lines().count() - 1;
    assert!((45..=95).contains(&rows), "{rows}");
    bench.write("empty.csv", &csv);
    let empty = bench.run(&["calibrate", "empty.csv", "--out", "e.yaml"]);
    assert_eq!(empty.status, Some(2));
    assert!(empty.stderr.contains("0 measured rows"), "{}", empty.stderr);
    bench.expect(0, &["calibrate", "plan", "--workloads", "rows"]);
    assert_eq!(std::fs::read_dir(bench.path("rows")).expect("a folder").count(), rows);
    let measured = bench.run(&["measure", "rows/02.yaml", "--subsystem", "sim:F"]);
    assert_eq!(measured.status, Some(0), "{measured:?}");
}

#[test]
fn bad_tables_end_with_status_2_and_say_where() {
    let bench = Bench::new();
    let head = "operation,size_bytes,qps,rate_gbps\n";
    let rows: String = (0..8).map(|at| ["WRITE,", &(4096 << at).to_string(), ",8,100\n"].concat()).collect();
    let huge = "WRITE,4096,8,1\n".repeat(400_000);
    for (case, table, expected) in [
        ("no unit", "operation,size,qps,rate\n".to_owned() + &rows, "t.csv:1:2: no column is called `size`"),
        ("zero", format!("{head}{rows}WRITE,8,0,1\n"), "t.csv:10:3: qps: `0`"),
        ("negative", format!("{head}{rows}WRITE,8,1,-4\n"), "t.csv:10:4: rate_gbps: `-4`"),
        ("absurd", format!("{head}{rows}WRITE,8,1,1e30\n"), "t.csv:10:4: rate_gbps: `1e30`"),
        (
            "contradiction",
            format!("{head}{rows}WRITE,4096,8,50\n"),
            "t.csv:10: 50.0000 Gbit/s contradict the 100.0000 of line 2",
        ),
        ("too few", head.to_owned() + "WRITE,8,1,1\n", "1 measured rows to fit are too few"),
        ("gigabytes", head.to_owned() + &huge, "longer than 4 MiB"),
        ("empty", String::new(), "the table is empty"),
    ] {
        bench.write("t.csv", table);
        let Ran { status, stdout, stderr } = bench.run(&["calibrate", "t.csv", "--out", "t.yaml"]);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{case}: {stderr}");
        assert!(stderr.contains(expected), "{case}: {stderr}");
        assert!(!bench.path("t.yaml").exists(), "{case}");
    }
    for (args, expected) in [
        (vec!["calibrate", "no.csv", "--out", "t.yaml"], "no.csv"),
        (vec!["calibrate", "t.csv", "--out", "t.yaml", "--base", "Z"], "A to H"),
        (vec!["calibrate", "t.csv", "--out", "t.yaml", "--parameters", "pcie.gpbs"], "pcie.gbps"),
        (vec!["calibrate", "plan", "--base", "Z"], "A to H"),
        (vec!["calibrate", "t.csv"], "--out"),
    ] {
        let ran = bench.run(&args);
        assert_eq!(ran.status, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    }
}

/// What is committed for the tests above, by `make test-long`.
mod long {
    use super::*;

    /// The table, measured.
    fn table(bench: &Bench) -> String {
        let mut text = "operation,size_bytes,qps,mtu_bytes,depth,directions,rate_gbps,pause_percent,use\n".to_owned();
        let rows = [
            ("WRITE", 65_536, 8, 4096, 128, "one", "fit"),
            ("WRITE", 65_536, 16, 512, 128, "one", "fit"),
            ("WRITE", 1_048_576, 4, 4096, 128, "one", "fit"),
            ("READ", 65_536, 8, 4096, 128, "one", "fit"),
            ("SEND", 65_536, 8, 2048, 128, "one", "fit"),
            ("WRITE", 65_536, 8, 4096, 128, "loopback", "fit"),
            ("WRITE", 262_144, 4, 4096, 128, "loopback", "fit"),
            ("SEND", 65_536, 8, 4096, 128, "loopback", "fit"),
            ("WRITE", 131_072, 8, 4096, 128, "one", "check"),
            ("SEND", 131_072, 4, 4096, 128, "loopback", "check"),
        ];
        for (operation, size, qps, mtu, depth, directions, used) in rows {
            let to = if directions == "loopback" { "a" } else { "b" };
            let workload = format!(
                "kelpie: workload/1\nflows:\n  - from: a\n    to: {to}\n    qp_type: RC\n    qps: {qps}\n    \
                 mtu: {mtu}\n    wq_depth: {{send: {depth}, recv: {depth}}}\n    batch: {{send: 1, recv: 1}}\n    pattern:\n      \
                 - {{op: {operation}, sge: [{size}B]}}\n    memory:\n      \
                 from: {{device: \"dram:0\", mrs: 1, mr_size: {size}B}}\n      \
                 to: {{device: \"dram:0\", mrs: 1, mr_size: {size}B}}\n"
            );
            bench.write("row.yaml", workload);
            let args = [
                "measure",
                "row.yaml",
                "--subsystem",
                "sim:F",
                "--set",
                "port.line_rate_gbps=160",
                "--set",
                "pcie.gbps=200",
            ];
            let ran = bench.run(&[&args[..], &["--json"]].concat());
            let measured = ran.json();
            let goodput = measured["directions"][0]["goodput_bps"].as_f64().expect("a rate") / 1e9;
            let pause = &measured["pause_ratio"];
            let [a, b] = ["a", "b"].map(|host| pause[host]["tx"].as_f64().expect("a share"));
            let pause = 100.0 * a.max(b);
            let cells = format!("{operation},{size},{qps},{mtu},{depth},{directions},{goodput:.3},{pause:.2},{used}\n");
            text.push_str(&cells);
        }
        text
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn the_committed_table_is_what_is_measured() {
        let measured = table(&Bench::new());
        assert_eq!(TABLE, measured);
    }
}
