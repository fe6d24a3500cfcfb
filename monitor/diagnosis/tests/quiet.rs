//! Hosts without a fault: quiet ones that are said to be busy, a little slow ones, and ones whose topology cannot be
//! true.

use std::fmt::Write as _;

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{HostDiagnosis, HostQuestion, HostVerdict, diagnose};
use kelpie_topology::HostTopology;

/// RNICs of the host, half of them at each socket.
const RNICS: usize = 8;
const NOISE: [f64; 7] = [1.01, 0.992, 1.004, 0.987, 1.0, 1.008, 0.996];

/// Two sockets with RNICs of 400 Gbit/s behind links of 504; that of `mlx5_5` has `gbps`.
fn host(gbps: f64) -> HostTopology {
    let mut nodes = "cpu0: socket, mem0: memory, cpu1: socket, mem1: memory".to_owned();
    let mut links = "{a: mem0, b: cpu0}, {a: mem1, b: cpu1}, {a: cpu0, b: cpu1}".to_owned();
    let mut ports = Vec::new();
    for rnic in 0..RNICS {
        let own = if rnic == 5 { gbps } else { 504.0 };
        let _ = write!(nodes, ", mlx5_{rnic}: rnic");
        let _ = write!(links, ", {{a: mlx5_{rnic}, b: cpu{}, gbps: {own}}}", rnic / (RNICS / 2));
        ports.push(format!("mlx5_{rnic}: 400"));
    }
    let ports = ports.join(", ");
    let text = format!("kelpie: topology/1\nhost: {{nodes: {{{nodes}}}, links: [{links}], ports: {{{ports}}}}}\n");
    HostTopology::from_bytes("t.yaml", text.as_bytes()).expect("it keeps the rules")
}

/// The `round`th matrix of a host whose RNICs carry so much.
fn matrix(round: usize, gbps: impl Fn(usize) -> f64) -> Matrix {
    let value = |rnic: usize, memory: usize| gbps(rnic) * NOISE[(3 * rnic + 5 * memory + 2 * round) % NOISE.len()];
    let rows = (0..RNICS).map(|rnic| format!("mlx5_{rnic}")).collect();
    let cells = (0..RNICS).map(|rnic| (0..2).map(|memory| Some(value(rnic, memory))).collect()).collect();
    Matrix {
        kelpie: "matrix/1".to_owned(),
        rows,
        columns: vec!["mem0".to_owned(), "mem1".to_owned()],
        bandwidth_gbps: Some(cells),
        latency_us: None,
        completion_us: None,
        busy: Vec::new(),
        measured_by: None,
        measured_at: None,
    }
}

fn judged(host: &HostTopology, matrices: &[Matrix], busy: bool) -> HostDiagnosis {
    let (matrix, repeats) = matrices.split_first().expect("one at least");
    diagnose(HostQuestion { host, matrix, repeats, baseline: None, busy }).expect("they fit")
}

#[test]
fn a_quiet_host_that_was_said_to_be_busy_is_healthy_from_three_matrices_on() {
    let host = host(504.0);
    let matrices: Vec<Matrix> = (0..3).map(|round| matrix(round, |_| 388.0)).collect();
    let found = judged(&host, &matrices, true);
    assert_eq!(found.verdict, HostVerdict::Healthy, "{found:?}");
    assert!(found.notes[0].contains("no other traffic"), "{found:?}");
    assert_eq!(judged(&host, &matrices[..1], true).verdict, HostVerdict::Undecided, "one matrix may be a lucky moment");
    let loaded: Vec<Matrix> =
        (0..3).map(|round| matrix(round, |rnic| 388.0 * [0.9, 0.5, 0.7][(rnic + round) % 3])).collect();
    assert_ne!(judged(&host, &loaded, true).verdict, HostVerdict::Healthy, "load is no health");
}

#[test]
fn a_path_that_carries_more_than_its_links_have_is_a_contradiction() {
    let contradicts = |found: &HostDiagnosis| found.notes.iter().any(|note| note.starts_with("contradiction: mlx5_"));
    for (host, gbps) in [(host(504.0), 900.0), (host(126.0), 388.0)] {
        let found = judged(&host, &[matrix(0, |_| gbps)], false);
        assert!(found.verdict == HostVerdict::Undecided && contradicts(&found), "{found:?}");
    }
    let found = judged(&host(504.0), &[matrix(0, |_| 388.0)], false);
    assert!(found.verdict == HostVerdict::Healthy && !contradicts(&found), "{found:?}");
}

#[test]
fn an_rnic_that_is_a_tenth_slow_is_named_and_is_no_alarm() {
    let named = |found: &HostDiagnosis| found.notes.iter().any(|note| note.starts_with("mlx5_3 carries 9"));
    let host = host(504.0);
    let slow = judged(&host, &[matrix(0, |rnic| if rnic == 3 { 349.0 } else { 388.0 })], false);
    assert!(slow.verdict == HostVerdict::Healthy && named(&slow), "{slow:?}");
    let even = judged(&host, &[matrix(0, |_| 388.0)], false);
    assert!(!named(&even), "{even:?}");
}
