//! Catalogs against captures, and of a port that loses packets; a part of `make test`.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{DualPortLab, LEAF, leading, state};

/// Probes so many source ports each way, and compares what is said of them with what passed the leaf.
fn the_catalog_agrees_with_captures(source_ports: u32) {
    let lab = DualPortLab::up();
    // The first packets of each port are those that tell ports apart; more would fill the guest's memory.
    let start = |interface: &str| {
        format!(
            "(setsid dumpcap -q -i {interface} -f 'udp port 4791' -s 64 -c 4000 -a duration:100 -w /run/{interface}.pcapng \
             >/run/{interface}.log 2>&1 & echo $! >/run/{interface}.pid); "
        )
    };
    lab.in_guest("leaf", &LEAF.map(|(interface, ..)| start(interface)).concat());
    let started = Instant::now();
    for (interface, ..) in LEAF {
        while !lab.in_guest("leaf", &format!("cat /run/{interface}.log")).contains("File: ") {
            assert!(started.elapsed() < Duration::from_mins(1), "dumpcap starts");
            thread::sleep(Duration::from_millis(200));
        }
    }
    let (_, catalog) = lab.probe(source_ports, false);
    let mut seen: BTreeMap<(char, u64), BTreeMap<&str, &str>> = BTreeMap::new();
    for (interface, host, side) in LEAF {
        lab.in_guest(
            "leaf",
            &format!(
                "kill -INT $(cat /run/{interface}.pid) 2>/dev/null; sleep 1; cp /run/{interface}.pcapng /run/lab/; \
                 rm /run/{interface}.*"
            ),
        );
        let file = lab.dir.join(format!("share/{interface}.pcapng"));
        let output = Command::new("tshark")
            .args(["-r", file.to_str().expect("UTF-8"), "-n", "-T", "fields", "-e", "ip.src", "-e", "udp.srcport"])
            .output()
            .expect("tshark is installed: `cargo xtask lab install`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(file).expect("it was there");
        for line in String::from_utf8(output.stdout).expect("numbers").lines() {
            let (source, port) = line.split_once('\t').expect("two fields");
            let from = if source == "10.9.1.1" { 'a' } else { 'b' };
            let end = if from == host { "leaves" } else { "arrives" };
            let before = seen.entry((from, port.parse().expect("a port"))).or_default().insert(end, side);
            assert!(before.is_none_or(|before| before == side), "{port} from {from} takes both ports");
        }
    }
    let mut count = 0;
    for direction in catalog["directions"].as_array().expect("both") {
        let from = direction["from"].as_str().expect("a host").chars().next().expect("a letter");
        for path in direction["paths"].as_array().expect("paths") {
            let truth = &seen[&(from, path["source_port"].as_u64().expect("a port"))];
            assert_eq!(
                (&path["leaves"], &path["arrives"]),
                (&truth["leaves"].into(), &truth["arrives"].into()),
                "{path}"
            );
            count += 1;
        }
    }
    assert_eq!(count, 2 * source_ports, "each of them, both ways");
}

#[test]
#[ignore = "needs the lab"]
fn the_catalog_agrees_with_captures_on_all_four_ports() {
    the_catalog_agrees_with_captures(20);
}

#[test]
#[ignore = "needs the lab"]
fn a_large_catalog_agrees_with_captures_on_all_four_ports() {
    the_catalog_agrees_with_captures(64);
}

#[test]
#[ignore = "needs the lab"]
fn a_port_that_loses_packets_is_faulty_and_left_out() {
    let lab = DualPortLab::up();
    lab.at_port('b', "right", &["--loss", "2%"]);
    let (file, catalog) = lab.probe(28, true);
    for path in catalog["directions"][0]["paths"].as_array().expect("paths") {
        let is_to_blame = path["fault"].as_str().is_some_and(|fault| fault.contains("host b's right port loses"));
        assert_eq!(is_to_blame, path["arrives"] == "right", "{path}");
    }
    let back = catalog["directions"][1]["paths"].as_array().expect("paths");
    for path in back {
        assert!(path["fault"].is_null(), "nothing is wrong the other way: {path}");
    }
    // A plan on it uses the left side alone; the check of it says that this is one port.
    let planned = lab.check(1, &["--plan", file.to_str().expect("UTF-8")]);
    assert_eq!((state(&planned, "loss"), state(&planned, "pairing")), ("pass".to_owned(), "pass".to_owned()));
    let right: Vec<String> = leading(&catalog, "right", "right").iter().map(u64::to_string).collect();
    let lossy = lab.check(1, &["--source-ports", &right[..2].join(",")]);
    assert_eq!(state(&lossy, "loss"), "fail");
    assert!(lossy["loss"]["evidence"].to_string().contains(&right[0]), "{}", lossy["loss"]);
}
