//! A fleet of four guests behind the leaf: who is slow, who hangs, and what a qualification loses when it is killed.

use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::DualPortLab;

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];
const RUN: &str = "/run/steered/kelpie qualify";

/// Agents in four guests, and their inventory; they end with it.
struct Fleet<'l> {
    lab: &'l DualPortLab,
}

impl<'l> Fleet<'l> {
    fn start(lab: &'l DualPortLab) -> Self {
        let fleet = Self { lab };
        let mut file = "kelpie: inventory/1\nplain: true\nhosts:\n".to_owned();
        for (host, number) in HOSTS.into_iter().zip(1..) {
            lab.in_guest(host, "mkdir -p /run/steered && cp -u /run/lab/kelpie /run/steered/");
            fleet.at_ports(host, &["clear"]);
            lab.in_guest(
                host,
                &format!(
                    "(setsid /run/steered/kelpie agent --listen 10.8.0.{number}:7480 --plain --device rxe0 \
                     >/run/fleet.log 2>&1 & echo $! >/run/fleet.pid)"
                ),
            );
            let nic = "{device: rxe0, gid_index: 1, tuning: {ack_timeout: 20}}";
            let _ = writeln!(file, "  - {{name: {host}, agent: \"10.8.0.{number}:7480\", leaf: l1, nics: [{nic}]}}");
        }
        fs::write(lab.dir.join("share/hosts.yaml"), file).expect("the share is writable");
        let started = Instant::now();
        while !lab.in_guest("a", "/run/steered/kelpie inventory check /run/lab/hosts.yaml").contains("4 of 4") {
            assert!(started.elapsed() < Duration::from_secs(40), "agents start");
            thread::sleep(Duration::from_millis(200));
        }
        fleet
    }

    /// Sets both of a host's links so, where they end at the leaf.
    fn at_ports(&self, host: &str, words: &[&str]) {
        for side in ["left", "right"] {
            self.lab.xtask(&[&["netem", "--dual-port", &format!("{host}-{side}")], words].concat());
        }
    }

    /// The state of each host by a qualification with these arguments; this is run beside it.
    fn states(&self, arguments: &str, meanwhile: &str) -> (Vec<String>, Value) {
        let run = format!(
            "{RUN} {arguments} --db /run/fleet.db --at-once 1 --json >/run/lab/fleet.json 2>/run/lab/fleet.log"
        );
        self.lab.in_guest("a", &format!("{meanwhile} {run}; true"));
        let said = fs::read(self.lab.dir.join("share/fleet.json")).expect("it was written");
        let log = fs::read_to_string(self.lab.dir.join("share/fleet.log")).unwrap_or_default();
        let verdict: Value = serde_json::from_slice(&said).unwrap_or_else(|error| panic!("{error}: {log}"));
        eprintln!("{arguments}: {}", verdict["nodes"]);
        let state = |host: &str| verdict["nodes"][host]["state"].as_str().expect("a state").to_owned();
        (HOSTS.map(state).to_vec(), verdict)
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        for host in HOSTS {
            self.at_ports(host, &["clear"]);
            self.lab.in_guest(host, "kill -9 $(cat /run/fleet.pid); rm -f /run/fleet.*");
        }
    }
}

#[test]
#[ignore = "needs the lab"]
fn a_fleet_of_four_guests_names_the_slow_the_delayed_and_the_dead_and_goes_on_after_a_kill() {
    let lab = DualPortLab::up();
    let fleet = Fleet::start(&lab);
    // Emulated loopback is as fast as the processor that guests share lets it be.
    let plan = "run /run/lab/hosts.yaml --plan pair --criteria /run/lab/criteria.json";
    let (healthy, mut verdict) = fleet.states("run /run/lab/hosts.yaml --plan all_pairs,incast_3", "");
    // Four hosts that vary may be too few to learn from, and then all are unknown.
    assert!(healthy.iter().all(|state| state != "out"), "{verdict}");
    // Each host is in three pairs, of which two metrics count both ways, and each way's agreement, and in an incast.
    assert!(verdict["nodes"].as_object().expect("nodes").values().all(|node| node["values"] == 3 * 6 + 2));
    // What they measured is what later runs are held against, as far apart as guests on few cores are.
    for (metric, criterion) in verdict["criteria"]["metrics"].as_object_mut().expect("criteria") {
        criterion["alpha"] = if metric.starts_with("pair_bandwidth") { 0.4.into() } else { 0.15.into() };
    }
    fs::write(lab.dir.join("share/criteria.json"), verdict["criteria"].to_string()).expect("the share is writable");
    for (host, fault) in [("d", ["--rate", "1mbit"]), ("c", ["--delay", "20ms"]), ("b", ["--loss", "5%"])] {
        fleet.at_ports(host, &fault);
        let (states, verdict) = fleet.states(plan, "");
        fleet.at_ports(host, &["clear"]);
        let expected = HOSTS.map(|other| if other == host { "out" } else { "in" });
        assert_eq!(states, expected, "{fault:?}: {verdict}");
    }
    // A guest that is dead in the middle costs its own units only, and a controller that is killed none.
    lab.in_guest("d", "(sleep 4; kill -STOP $(cat /run/fleet.pid)) >/dev/null 2>&1 &");
    let killed = format!(
        "({RUN} run /run/lab/hosts.yaml --plan all_pairs --criteria /run/lab/criteria.json --db /run/fleet.db --at-once 1 & echo $! >/run/controller.pid; \
         sleep 6; kill -9 $(cat /run/controller.pid)) >/dev/null 2>&1;"
    );
    let (states, verdict) = fleet.states("resume", &killed);
    assert_eq!(states, ["in", "in", "in", "out"], "{verdict}");
}
