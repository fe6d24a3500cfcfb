//! Dynamic balance of a ring at work: one port of a host is slow, and QPs move away from it, as many as are best.

use std::fs;

use super::DualPortLab;
use super::ranks::RunningRanks;

/// QPs that share a message, and what each host contributes. A part has 16 KiB.
const QPS: u32 = 8;
const SIZE: &str = "256KiB";

/// Iterations, and those at the end that are judged.
const ITERATIONS: u32 = 30;
const JUDGED: u32 = 5;

/// Two ranks.
struct Ring<'l> {
    lab: &'l DualPortLab,
    _ranks: RunningRanks<'l>,
}

impl<'l> Ring<'l> {
    fn start(lab: &'l DualPortLab) -> Self {
        let ranks = ["a", "b"].map(|host| (host, 10, "{ack_timeout: 20}".to_owned()));
        Self { lab, _ranks: RunningRanks::start(lab, "balanced", &ranks) }
    }

    /// Runs the ring; what it said, and the time of the slowest message of each iteration. Units: ms.
    fn run(&self, name: &str, options: &str) -> (String, Vec<f64>) {
        let run = format!(
            "/run/steered/kelpie job run --agents /run/lab/balanced.yaml --size {SIZE} --iterations {ITERATIONS} \
             --qps {QPS} --pause 1ms {options} 2>&1 >/run/lab/{name}.csv"
        );
        let said = self.lab.in_guest("a", &run);
        let records = fs::read_to_string(self.lab.dir.join(format!("share/{name}.csv"))).expect("records");
        let mut slowest = vec![0.0_f64; ITERATIONS as usize];
        for row in records.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            let number = |nth: usize| fields[nth].parse::<f64>().expect("a number");
            let iteration = number(0) as usize;
            slowest[iteration] = slowest[iteration].max((number(5) - number(4)) / 1e3);
        }
        (said, slowest)
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        for side in ["left", "right"] {
            self.lab.at_port('b', side, &["clear"]);
        }
    }
}

#[test]
#[ignore = "needs the lab"]
fn qps_leave_a_slow_port_and_the_slowest_step_comes_near_the_best_split() {
    let lab = DualPortLab::up();
    let catalog = lab.catalog();
    fs::copy(&catalog, lab.dir.join("share/balance.yaml")).expect("the share is writable");
    // Both ports to host b carry what a message is seen by: the left one a third of the right one.
    let [slow, fast] = [2e6, 6e6];
    lab.at_port('b', "left", &["--rate", "2mbit"]);
    lab.at_port('b', "right", &["--rate", "6mbit"]);
    let ring = Ring::start(&lab);
    let (said, after) = ring.run("balanced", "--balance /run/lab/balance.yaml");
    let last = &after[(ITERATIONS - JUDGED) as usize..];
    let last = last.iter().sum::<f64>() / f64::from(JUDGED);
    let part_bits = 8.0 * 16_384.0;
    let time = |left: u32| {
        let of = |qps: u32, rate: f64| f64::from(qps) * part_bits / rate * 1e3;
        of(left, slow).max(of(QPS - left, fast))
    };
    let best = (0..=QPS).map(time).fold(f64::MAX, f64::min);
    eprintln!("half and half {:.1} ms by rate, best {best:.1} ms; at the end {last:.1} ms\n{said}", time(4));
    assert!(said.contains("moves from the left port"), "{said}");
    assert!(last <= 1.2 * best, "{last:.1} ms, and {best:.1} ms are possible: {after:?} {said}");
}
