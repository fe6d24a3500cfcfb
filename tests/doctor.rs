//! `kelpie doctor` on recorded hosts and on this machine: exit statuses, plain text, the shape of JSON.

use serde_json::Value;

use crate::support::Bench;

#[path = "../monitor/fixtures/unpack.rs"]
pub mod unpack;

/// A bench with the recorded hosts in `good` and `wrong`.
fn bench() -> Bench {
    let bench = Bench::new();
    unpack::unpack("mlx5", &bench.path("good"));
    unpack::unpack("bnxt", &bench.path("wrong"));
    bench
}

fn find<'v>(checks: &'v Value, name: &str) -> &'v Value {
    let checks = checks.as_array().expect("a list of checks");
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no `{name}`"))
}

#[test]
fn the_exit_status_says_whether_something_is_bad() {
    let bench = bench();
    bench.expect(0, &["doctor", "--root", "good"]);
    bench.expect(1, &["doctor", "--root", "wrong"]);
    bench.expect(1, &["doctor", "mlx5_7", "--root", "good"]);
    let ran = bench.run(&["doctor", "--root", "nowhere"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("nowhere"), "{}", ran.stderr);
}

#[test]
fn piped_text_is_plain_and_shows_evidence_and_what_mends() {
    let text = bench().expect(1, &["doctor", "bnxt_re0", "--port", "1", "--root", "wrong"]);
    assert!(!text.contains('\u{1b}'), "{text}");
    for line in [
        "host wrong\n  fail  memlock             only 8 MiB may be locked",
        "\nbnxt_re0 port 1\n  fail  pcie ",
        "\n  pass  port                active, 100 Gb/sec (4X EDR)\n",
        "                            -> ip link set dev enp96s0 mtu 4200",
        "/sys/class/net/enp96s0/mtu: 1500\n",
        "\n2 fail, 10 warnings, 5 pass, 1 unknown\n",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let verbose = bench().expect(0, &["doctor", "--root", "good", "--verbose"]);
    assert!(verbose.contains("/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE"), "{verbose}");
}

#[test]
fn a_host_says_which_bios_it_started_with_and_two_hosts_are_compared_by_it() {
    let bench = bench();
    for (host, version) in [("good", "2.3.4"), ("wrong", "2.4.0")] {
        std::fs::create_dir_all(bench.path(&format!("{host}/sys/class/dmi/id"))).expect("a folder");
        let files = [
            ("sys_vendor", "Dell Inc."),
            ("product_name", "PowerEdge R750"),
            ("bios_vendor", "Dell Inc."),
            ("bios_version", version),
            ("bios_date", "01/18/2024"),
        ];
        for (file, text) in files {
            bench.write(&format!("{host}/sys/class/dmi/id/{file}"), format!("{text}\n"));
        }
    }
    let good = bench.json(0, &["doctor", "mlx5_0", "--port", "1", "--root", "good"]);
    let bios = find(&good["findings"], "BIOS");
    assert_eq!((bios["about"].as_str(), bios["state"].as_str()), (Some("host"), Some("pass")));
    assert_eq!(good["facts"]["BIOS"], "Dell Inc. 2.3.4 01/18/2024");
    assert_eq!(good["facts"]["machine"], "Dell Inc. PowerEdge R750");
    bench.write("good.json", good.to_string());
    let both = bench.json(1, &["doctor", "bnxt_re0", "--port", "1", "--root", "wrong", "--against", "good.json"]);
    let compared = find(&both["pair"], "BIOS");
    assert_eq!(compared["summary"], "a has Dell Inc. 2.4.0 01/18/2024, b has Dell Inc. 2.3.4 01/18/2024");
    assert_eq!(compared["state"], "warn");
}

#[test]
fn json_has_everything_and_is_what_the_other_host_compares_with() {
    let bench = bench();
    let good = bench.json(0, &["doctor", "--root", "good"]);
    assert_eq!((good["host"].as_str(), good["state"].as_str()), (Some("good"), Some("warn")));
    for check in good["findings"].as_array().expect("checks") {
        for key in ["about", "check", "state", "summary", "evidence"] {
            assert!(!check[key].is_null(), "{key} in {check}");
        }
    }
    assert_eq!(find(&good["findings"], "mtu")["evidence"][0]["value"], "9000");
    bench.write("good.json", good.to_string());
    let compared = bench.json(1, &["doctor", "--root", "wrong", "--against", "good.json"]);
    assert_eq!(find(&compared["pair"], "interface MTU")["state"], "warn");
    assert_eq!(find(&compared["pair"], "link speed")["state"], "pass");
    // What was printed before the words were those of all checks is read too.
    let older = good.to_string().replace("\"state\":\"pass\"", "\"state\":\"ok\"");
    assert!(older.contains("\"ok\""), "{older}");
    bench.write("older.json", older);
    let from_older = bench.json(1, &["doctor", "--root", "wrong", "--against", "older.json"]);
    assert_eq!(from_older, compared);
    bench.write("other.json", "{}");
    let ran = bench.run(&["doctor", "--root", "good", "--against", "other.json"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("kelpie doctor --json"), "{}", ran.stderr);
}

#[test]
fn the_traffic_class_of_the_pair_file_can_be_judged() {
    let bench = bench();
    let seen = |more: &[&str]| {
        let seen = bench.json(0, &[&["doctor", "--root", "good"], more].concat());
        find(&seen["findings"], "traffic class").clone()
    };
    assert_eq!(seen(&["--traffic-class", "104"])["state"], "pass");
    let best_effort = seen(&[]);
    assert_eq!(best_effort["state"], "warn");
    let fix = best_effort["fix"].as_str().expect("the step that repairs it");
    assert!(fix.contains("tuning: {traffic_class: 104}"), "{fix}");
    bench.expect(2, &["doctor", "--root", "good", "--traffic-class", "256"]);
}

#[test]
fn a_comparison_is_of_one_port_on_each_host() {
    let bench = bench();
    for device in ["mlx5_0", "mlx5_1"] {
        std::fs::create_dir_all(bench.path(&format!("good/sys/class/infiniband/{device}/ports/1"))).expect("a folder");
    }
    bench.write("both.json", bench.json(1, &["doctor", "--root", "good"]).to_string());
    bench.write("one.json", bench.json(0, &["doctor", "mlx5_0", "--root", "good"]).to_string());
    bench.json(1, &["doctor", "--root", "wrong", "--against", "one.json"]);
    for (args, whose) in [
        (["doctor", "--root", "wrong", "--against", "both.json"], "both.json is of 2 RDMA ports"),
        (["doctor", "--root", "good", "--against", "one.json"], "this host has 2 RDMA ports"),
    ] {
        let ran = bench.run(&args);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(whose) && ran.stderr.contains("kelpie doctor DEVICE --port N"), "{ran:?}");
    }
}

#[test]
fn faults_of_cables_bonds_and_slots_are_told_on_the_screen() {
    for (hosts, status, line) in [
        ("mlx5+over/ib-ndr-x8", 1, "  fail  pcie                x8 at 16 GT/s carries 126 of the port's 400 Gbit/s"),
        ("mlx5+over/ethernet-400-x16-gen4", 1, "x16 at 16 GT/s carries 252 of the port's 400 Gbit/s"),
        ("mlx5+over/flapping-cable", 0, "  warn  cable               link down 14 times"),
        ("mlx5+bond+over/bond-slave-down", 1, "  fail  bond                ens1f1np1 of bond0 is down"),
        ("mlx5+over/dcb-show", 0, "  pass  pfc                 lossless: priority 3"),
    ] {
        let bench = Bench::new();
        hosts.split('+').for_each(|host| unpack::unpack(host, &bench.path("host")));
        let text = bench.expect(status, &["doctor", "--root", "host"]);
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

#[test]
fn a_second_reading_of_a_host_gives_rates() {
    let bench = bench();
    let again = bench.json(0, &["doctor", "--root", "good", "--again", "1s"]);
    let cable = find(&again["findings"], "cable");
    assert!(cable["summary"].as_str().is_some_and(|text| text.contains("; none in the last 1")), "{cable}");
    assert_eq!(again["rates"]["cable errors per second"], 0.0);
    bench.expect(2, &["doctor", "--root", "good", "--again", "10ms"]);
    // An earlier output of the same host is a first reading, if both say when they were made.
    bench.write("good/proc/uptime", "1000.00 1.00\n");
    bench.write("before.json", bench.json(0, &["doctor", "--root", "good"]).to_string());
    bench.write("good/proc/uptime", "1020.00 1.00\n");
    bench.write("good/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "40\n");
    let later = bench.json(0, &["doctor", "--root", "good", "--against", "before.json"]);
    let cable = find(&later["findings"], "cable");
    let summary = cable["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("; 40 symbol errors (2/s) in the last 20 s"), "{cable}");
    assert_eq!(cable["state"], "warn");
}

#[test]
fn this_machine_can_be_looked_at_whatever_it_has() {
    let ran = Bench::new().run(&["doctor", "--json"]);
    assert!(matches!(ran.status, Some(0 | 1)), "{}", ran.stderr);
    let seen: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert!(find(&seen["findings"], "memlock")["summary"].is_string());
}
