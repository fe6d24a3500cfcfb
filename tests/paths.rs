//! `kelpie fabric` and `kelpie paths`: rates, plans, the published comparison, advice, and their errors.

use serde_json::{Value, json};

use crate::support::Bench;

const CLUSTER: &str = "\
kelpie: topology/1
cluster:
  hosts: 4
  nics_per_host: 2
  port_gbps: 200
  nic_gbps: 362
  leaves: 4
  spines: 2
  cables: 2
  cable_gbps: 200
";

const JOBS: &str = "\
kelpie: job/1
jobs:
  - {name: train, hosts: [0, 2], collective: ring, qps_per_connection: 8}
events:
  - {at_s: 1, fail: {leaf: 0, spine: 0}}
  - {at_s: 2, repair: {leaf: 0, spine: 0}}
";

const REQUEST: &str = "\
kelpie: paths/1
steps:
  - connect: {name: x, from: {host: 0}, to: {host: 2}, qps: 4}
  - connect: {from: {host: 1, nic: 1}, to: {host: 3, nic: 1}, qps: 3}
  - fail: {leaf: 0, spine: 0}
";

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|one| one.as_f64().expect("a number")).collect()
}

#[test]
fn a_campaign_on_bonded_hosts_names_their_ports_and_the_plan_is_the_cure() {
    let bench = Bench::new();
    let space = "kelpie: space/1\nqp_type: [RC]\nopcode: [WRITE]\nmtu: [4096]\nqps: {min: 4, max: 64}\nmrs: [1]\n\
        requests: [1]\nsge_count: [1]\nmessage: {min: 64KiB, max: 1MiB}\nmemory_requester: [\"dram:0\"]\n\
        memory_responder: [\"dram:0\"]\nloopback: [false]\nports: [crossed, planned]\n";
    bench.write("space.yaml", space);
    let args =
        ["campaign", "run", "--subsystem", "sim:DUAL", "--space", "space.yaml", "--budget", "60", "--db", "k.db"];
    let found = bench.json(0, &args);
    let finding = &found["findings"][0];
    let of_ports = finding["mfs"].as_array().and_then(|all| all.iter().find(|one| one["feature"] == "ports"));
    assert_eq!(of_ports.expect("a condition on ports")["in"], json!(["crossed"]), "{found}");
    // The same workload as a plan has it.
    let mut workload = finding["workload"].clone();
    for flow in workload["flows"].as_array_mut().expect("flows") {
        assert_eq!(flow["ports"], "crossed");
        flow["ports"] = json!("planned");
    }
    bench.write("planned.yaml", workload.to_string());
    assert_eq!(bench.json(0, &["measure", "planned.yaml", "--subsystem", "sim:DUAL"])["verdict"], "healthy");
    let refused = bench.run(&["measure", "planned.yaml", "--subsystem", "sim:F"]);
    assert!(
        refused.status == Some(2) && refused.stderr.contains("one port: leave out `ports: planned`"),
        "{refused:?}"
    );
}

#[test]
fn the_bare_solver_answers_problems() {
    let bench = Bench::new();
    let problem = |solver: &str| {
        let flow = |job: u32, link: &str| json!({"job": job, "links": [link]});
        json!({
            "capacity_gbps": {"x": 200, "y": 100}, "cap_gbps": 362, "qps_per_connection": 2, "solver": solver,
            "flows": [flow(0, "x"), flow(0, "y"), flow(1, "x"), flow(1, "x")],
        })
    };
    for (solver, busbw, rates) in [
        // Job 0 and the two flows of job 1 rise together to a third of x; job 0 goes on with its flow over y alone.
        ("independent", [2.0 * 200.0 / 3.0, 2.0 * 200.0 / 3.0], [200.0 / 3.0, 100.0, 200.0 / 3.0, 200.0 / 3.0]),
        ("lockstep", [2.0 * 200.0 / 3.0, 2.0 * 200.0 / 3.0], [200.0 / 3.0; 4]),
    ] {
        bench.write("problem.json", problem(solver).to_string());
        let answer = bench.json(0, &["fabric", "rates", "--problem", "problem.json"]);
        for (key, expected) in [("busbw_gbps", &busbw[..]), ("rate_gbps", &rates[..])] {
            let close = |(a, b): (&f64, f64)| (a - b).abs() < 1e-9;
            assert!(expected.iter().zip(numbers(&answer[key])).all(close), "{solver} {answer}");
        }
    }
    let mut wrong = problem("lockstep");
    wrong["flows"][1]["links"][0] = json!("z");
    bench.write("problem.json", wrong.to_string());
    let ran = bench.run(&["fabric", "rates", "--problem", "problem.json"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("problem.json: flows[1].links[0]: no link `z`"), "{}", ran.stderr);
    for (text, expected) in [
        ("{\"capacity_gbps\": {\"a\": 1},\n\"flows\": [{\"jobs\": 0}]}", ": flows[0].jobs: unknown key `jobs`"),
        ("{\"capacity_gbps\": {\"a\": 1, \"a\": 2}}", ": capacity_gbps: link `a` is named twice"),
        ("{\"capacity_gbps\": {\"a\": 1}, \"solver\": \"fast\"}", ": solver: unknown word `fast`"),
    ] {
        bench.write("problem.json", text);
        let ran = bench.run(&["fabric", "rates", "--problem", "problem.json"]);
        assert!(ran.status == Some(2) && ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn a_planned_job_gets_what_its_hosts_can_give_and_a_failure_shows() {
    let bench = Bench::new();
    bench.write("cluster.yaml", CLUSTER);
    bench.write("jobs.yaml", JOBS);
    let rates = |routing: &str| {
        let answer = bench.json(0, &["fabric", "rates", "cluster.yaml", "jobs.yaml", "--routing", routing]);
        let moments = answer["moments"].as_array().expect("a list").iter();
        moments.map(|moment| numbers(&moment["busbw_gbps"])[0]).collect::<Vec<f64>>()
    };
    let planned = rates("planned");
    assert_eq!((planned.len(), planned[0], planned[2]), (3, 362.0, 362.0));
    let ecmp = rates("ecmp");
    assert!(ecmp.iter().zip(&planned).all(|(ecmp, planned)| ecmp < planned), "{ecmp:?} {planned:?}");
}

#[test]
fn a_plan_keeps_sides_spreads_planes_and_avoids_what_failed() {
    let bench = Bench::new();
    bench.write("cluster.yaml", CLUSTER);
    bench.write("request.yaml", REQUEST);
    for leaving in ["chosen", "hashed"] {
        let args = ["paths", "plan", "request.yaml", "--topology", "cluster.yaml", "--leaving", leaving];
        let plan = bench.json(0, &args);
        let qps = plan["qps"].as_array().expect("a list");
        assert_eq!((qps.len(), &plan["without_path"]), (7, &json!(0)));
        let left = qps.iter().filter(|qp| qp["connection"] == "x" && qp["side"] == "left").count();
        assert_eq!(left, 2, "{plan}");
        for qp in qps {
            // Leaf 0 is on the left.
            assert!(qp["side"] == "right" || qp["spine"] == 1, "{qp}");
            assert!(qp["source_port"].as_u64().is_some_and(|port| port >= 49_152), "{qp}");
        }
    }
    bench.write("request.yaml", format!("{REQUEST}  - release: {{name: y}}\n"));
    let ran = bench.run(&["paths", "plan", "request.yaml", "--topology", "cluster.yaml"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("request.yaml:6") && ran.stderr.contains("steps[3]: no connection"), "{}", ran.stderr);
}

#[test]
fn the_published_comparison_stands_in_one_table_with_assumptions_and_plots() {
    let bench = Bench::new();
    let table = bench.json(0, &["paths", "compare", "--seeds", "1", "--out", "plots"]);
    let rows = table["table"]["rows"].as_array().expect("a list");
    assert!(table["assumptions"].as_array().is_some_and(|lines| !lines.is_empty()));
    for row in &rows[..3] {
        let [ecmp, planned] = ["ecmp_gbps", "planned_gbps"].map(|key| numbers(&row[key])[1]);
        assert!(ecmp < 290.0 && (planned - 362.0).abs() < 1.0, "{row}");
    }
    let gain = |row: usize| rows[row]["gain_percent"].as_f64().expect("a number");
    assert!((gain(3) - 70.3).abs() < 25.0, "{rows:?}");
    // A balanced plan is between one that stays and one that is made anew.
    assert!(gain(6) <= gain(5) && gain(5) <= gain(7), "{rows:?}");
    for plot in ["failure.svg", "moves.svg", "experiments.svg"] {
        let svg = std::fs::read_to_string(bench.path("plots").join(plot)).expect(plot);
        assert!(svg.starts_with("<svg") && svg.contains("polyline"), "{plot}");
    }
}

#[test]
fn advice_depends_on_the_mode_of_the_bond() {
    let bench = Bench::new();
    for (library, mode, applies) in
        [("nccl", "hash", true), ("ucx", "queue-affinity", true), ("nccl", "active-backup", false)]
    {
        let advice = bench.json(0, &["paths", "advise", "--library", library, "--mode", mode]);
        assert_eq!(advice["applies"], applies, "{advice}");
        let settings = advice["settings"].as_array().expect("a list");
        assert_eq!(!settings.is_empty(), applies, "{advice}");
        let prefix = format!("{}_IB", library.to_uppercase());
        assert!(settings.iter().all(|one| one["name"].as_str().is_some_and(|name| name.starts_with(&prefix))));
    }
}

const READINGS: &str = "\
kelpie: ports/1
directions:
  - about: a to b
    mode: hash
    qps:
      - {source_port: 50000, leaves: left, arrives: left, loss: 0}
      - {source_port: 50001, leaves: right, arrives: right, loss: 0}
    sent_bytes: [1000, 1010]
    received_bytes: [1005, 1005]
    alone_bps: 1.98e8
    together_bps: 3.9e8
    failover: {gap_ms: 300, came_back: true}
    sender: {pcie_bps: 5e8, ports: [{speed_bps: 2e8, capable_bps: 2e8}, {speed_bps: 2e8, capable_bps: 2e8}]}
    receiver: {pcie_bps: 5e8, ports: [{speed_bps: 2e8, capable_bps: 2e8}, {speed_bps: 2e8, capable_bps: 2e8}]}
    down: []
";

#[test]
fn readings_are_judged_and_a_fault_is_the_exit_status() {
    let bench = Bench::new();
    for (from, to, failing) in [
        ("", "", &[][..]),
        ("left, loss: 0", "left, loss: 0.02", &["loss"]),
        ("arrives: right", "arrives: left", &["pairing"]),
        ("[1000, 1010]\n    received_bytes: [1005, 1005]", "[2000, 10]\n    received_bytes: [1990, 15]", &["balance"]),
        ("gap_ms: 300, ", "gap_ms: null, ", &["failover"]),
        ("gap_ms: 300, ", "gap_ms: 1500, ", &["failover"]),
        ("capable_bps: 2e8}, {", "capable_bps: 4e8, agreed_bps: 4e8}, {", &["speed"]),
        // A port that is faster than the switch is a warning, because nobody says what the switch offers.
        ("capable_bps: 2e8}, {", "capable_bps: 4e8}, {", &[]),
    ] {
        bench.write("readings.yaml", READINGS.replacen(from, to, 1));
        let judged = bench.json(i32::from(!failing.is_empty()), &["paths", "check", "readings.yaml"]);
        let checks = judged["checks"].as_array().expect("a list").iter();
        let fails: Vec<&Value> = checks.filter(|check| check["state"] == "fail").map(|check| &check["name"]).collect();
        assert_eq!(fails, failing, "{judged}");
    }
    // Twice one alone says nothing of ports whose speed nobody read: both may run at half of it.
    bench.write("readings.yaml", READINGS.replace("speed_bps: 2e8, capable_bps: 2e8", ""));
    let judged = bench.json(2, &["paths", "check", "readings.yaml"]);
    assert_eq!((&judged["checks"][1]["name"], &judged["checks"][1]["state"]), (&json!("speed"), &json!("unknown")));
    bench.write("readings.yaml", READINGS.replace("3.9e8", "4.9e8"));
    let ran = bench.run(&["paths", "check", "readings.yaml"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("directions[0].together_bps: 0.5 Gbit/s is more"), "{ran:?}");
    bench.write("readings.yaml", READINGS.replace("[1000, 1010]", "[1800, 200]"));
    let ran = bench.run(&["paths", "check", "readings.yaml"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("directions[0].sent_bytes: 200 bytes left"), "{ran:?}");
    // Where nothing can be steered, that is said, and nothing is suggested.
    let crossed = READINGS.replace("arrives: right", "arrives: left");
    bench.write("readings.yaml", crossed.replace("mode: hash", "mode: queue_affinity\n    lag_refused: no such call"));
    let judged = bench.json(0, &["paths", "check", "readings.yaml"]);
    let checks = judged["checks"].as_array().expect("a list");
    let pairing = checks.iter().find(|check| check["name"] == "pairing").expect("it is judged");
    assert_eq!((&pairing["name"], &pairing["state"]), (&json!("pairing"), &json!("not_applicable")), "{judged}");
    assert!(pairing.to_string().contains("no such call") && pairing["fix"].is_null(), "{pairing}");
    bench.write("readings.yaml", READINGS.replace("loss: 0}", "loss: 7}"));
    let ran = bench.run(&["paths", "check", "readings.yaml"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("directions[0].qps[0].loss: write a share"), "{}", ran.stderr);
}

#[test]
fn no_planner_begins_with_lag_ports_that_programs_are_not_steered_to() {
    let bench = Bench::new();
    let end = |host: &str, selection: &str| {
        format!(
            "- {{host: {host}, device: m, gid: g, mode: m, policy: p, selection: {selection}, \
             ports: [{{name: l, mac: x}}, {{name: r, mac: y}}]}}\n"
        )
    };
    bench.write(
        "catalog.yaml",
        format!(
            "kelpie: catalog/1\nsubsystem: s\nmeasured: now\nmeasured_unix_s: 0\nends:\n{}{}directions:\n\
             - {{from: a, lag: {{ports: [{{port: 1, active: 1, leaves: right}}, {{port: 2, active: 2, leaves: left}}]}}, \
             paths: [], ways: []}}\n- {{from: b, paths: [], ways: []}}\n",
            end("a", "queue_affinity"),
            end("b", "hash")
        ),
    );
    let ran = bench.run(&["paths", "serve", "catalog.yaml", "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("LAG port 1 of host a leaves by right, but programs are steered"), "{}", ran.stderr);
}

#[test]
fn mistakes_in_files_are_named() {
    let bench = Bench::new();
    bench.write("jobs.yaml", JOBS);
    for (from, to, expected) in [
        ("leaves: 4", "leaves: 3", "cluster.leaves: 3 leaves"),
        ("hosts: 4", "hosts: 4000000", "cluster.hosts: 8000000 NICs"),
        ("spines: 2", "spine: 2", "cluster.spine: unknown key"),
        ("port_gbps: 200", "port_gbps: -1", "cluster.port_gbps: write Gbit/s"),
    ] {
        bench.write("cluster.yaml", CLUSTER.replace(from, to));
        let ran = bench.run(&["fabric", "rates", "cluster.yaml", "jobs.yaml"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""));
        assert!(ran.stderr.contains("cluster.yaml:") && ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn checks_of_simulated_ports_pass_on_the_plan_and_fail_on_what_crosses_or_meets() {
    let bench = Bench::new();
    let checks = |status: i32, ports: &str| {
        bench.write(
            "w.yaml",
            format!(
                "kelpie: workload/1\nflows:\n  - {{from: a, to: b, qps: 8, ports: {ports}, \
                 pattern: [{{op: WRITE, sge: [64KiB]}}]}}\n"
            ),
        );
        let document = bench.json(status, &["paths", "check", "w.yaml", "--subsystem", "sim:DUAL"]);
        let state = |name: &str| {
            let one = document["checks"].as_array().expect("checks").iter().find(|check| check["name"] == name);
            one.expect(name)["state"].as_str().expect("a state").to_owned()
        };
        ["links", "pairing", "balance", "diversity", "collision", "loss", "failover"].map(state).join(" ")
    };
    assert_eq!(checks(0, "planned"), "pass pass pass pass pass pass unknown");
    assert_eq!(checks(1, "crossed"), "pass fail pass pass fail pass unknown");
    assert_eq!(checks(1, "one"), "pass pass fail warn fail pass unknown");
    assert_eq!(checks(1, "hashed"), "pass fail pass pass fail pass unknown");
    let one_port = bench.json(0, &["paths", "check", "--subsystem", "sim:F"]);
    let pairing = one_port["checks"].as_array().expect("checks").iter().find(|check| check["name"] == "pairing");
    assert_eq!(pairing.expect("it is judged")["state"], "not_applicable");
    let refused = bench.run(&["paths", "check", "--subsystem", "sim:DUAL", "--source-ports", "50000"]);
    assert!(refused.status == Some(2) && refused.stderr.contains("`ports: hashed`"), "{refused:?}");
}
