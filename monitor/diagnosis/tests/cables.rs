//! Paths from one RNIC of a host to another: cables that are slow are named, and nothing else is blamed for them.

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{HostDiagnosis, HostQuestion, HostVerdict, PathState, diagnose};
use kelpie_topology::HostTopology;

const HOST: &str = "{kelpie: topology/1, host: {nodes: {r0: rnic, r1: rnic, r2: rnic, c0: socket, c1: socket, m0: memory, \
    m1: memory, leaf: network_switch}, links: [{a: r0, b: c0, gbps: 252}, {a: r1, b: c0, gbps: 252}, \
    {a: r2, b: c1, gbps: 252}, {a: c0, b: c1}, {a: m0, b: c0}, {a: m1, b: c1}, {a: r0, b: leaf, gbps: 100}, \
    {a: r1, b: leaf, gbps: 100}, {a: r2, b: leaf, gbps: 100}]}}";
const COLUMNS: [&str; 5] = ["m0", "m1", "r0", "r1", "r2"];

/// The matrix of a host some of whose paths carry something else than 230 to memory and 98 to another RNIC.
fn matrix(but: impl Fn(usize, &str) -> Option<f64>) -> Matrix {
    let cell = |row: usize, column: &str| {
        let usual = if column.starts_with('m') { 230.0 } else { 98.0 };
        (column != format!("r{row}")).then(|| but(row, column).unwrap_or(usual))
    };
    let cells: Vec<Vec<Option<f64>>> =
        (0..3).map(|row| COLUMNS.iter().map(|column| cell(row, column)).collect()).collect();
    Matrix {
        kelpie: "matrix/1".to_owned(),
        rows: ["r0", "r1", "r2"].map(str::to_owned).to_vec(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        bandwidth_gbps: Some(cells),
        latency_us: None,
        completion_us: None,
        busy: Vec::new(),
        measured_by: None,
        measured_at: None,
    }
}

fn judged(but: impl Fn(usize, &str) -> Option<f64>, is_with_baseline: bool) -> HostDiagnosis {
    let host = HostTopology::from_yaml("host", HOST).expect("it keeps the rules");
    let baseline = matrix(|_, _| None);
    let baseline = is_with_baseline.then_some(&baseline);
    diagnose(HostQuestion { host: &host, matrix: &matrix(but), repeats: &[], baseline, busy: false }).expect("they fit")
}

#[test]
fn cables_links_and_memories_are_told_apart_with_and_without_a_baseline() {
    let touches = |row: usize, column: &str, rnic: &str| format!("r{row}") == rnic || column == rnic;
    let is_between = |column: &str| column.starts_with('r');
    for with_baseline in [true, false] {
        let healthy = judged(|_, _| None, with_baseline);
        assert_eq!(
            (healthy.verdict, healthy.links["r1|leaf"]),
            (HostVerdict::Healthy, PathState::Normal),
            "{healthy:?}"
        );
        // Ports of 100 Gbit/s are no slow paths to memory, though loopback carries more.
        assert_eq!(healthy.paths["r0"]["r2"], PathState::Normal);
        let cable =
            judged(|row, column| (is_between(column) && touches(row, column, "r1")).then_some(25.0), with_baseline);
        assert_eq!(cable.explanations, [["r1|leaf"]], "{cable:?}");
        assert_eq!((cable.causes[0].cause.as_str(), cable.links["r1|c0"]), ("port_or_cable", PathState::Normal));
        // The RNIC's own link makes its loopback slow as well, and hides its cable.
        let own = judged(|row, column| touches(row, column, "r1").then_some(63.0), with_baseline);
        assert_eq!(own.explanations, [["r1|c0"]], "{own:?}");
        assert!(own.cannot_be_excluded.contains(&vec!["r1|c0".to_owned(), "r1|leaf".to_owned()]), "{own:?}");
        // A memory: loopback reads and writes it, what goes to another RNIC only reads or writes it, twice as fast.
        let memory = judged(
            |row, column| match (row, column) {
                (_, "m0") | (0, "r1") | (1, "r0") => Some(30.0),
                (0 | 1, "r2") | (2, "r0" | "r1") => Some(60.0),
                _ => None,
            },
            with_baseline,
        );
        assert_eq!(memory.explanations, [["m0|c0"]], "{memory:?}");
    }
}

#[test]
fn paths_that_nobody_measured_keep_no_host_from_being_healthy_and_rnics_do() {
    for with_baseline in [true, false] {
        for (is_null, expected) in [
            (
                &(|row: usize, column: &str| (row, column) == (1, "m1")) as &dyn Fn(usize, &str) -> bool,
                HostVerdict::Healthy,
            ),
            (&|_, column| column.starts_with('r'), HostVerdict::Healthy),
            (&|_, column| column == "m1", HostVerdict::Healthy),
            (&|row, _| row == 2, HostVerdict::Undecided),
            (&|_, column| column.starts_with('m'), HostVerdict::Undecided),
        ] {
            let mut cells = matrix(|_, _| None);
            for (row, values) in cells.bandwidth_gbps.iter_mut().flatten().enumerate() {
                for (value, column) in values.iter_mut().zip(COLUMNS) {
                    *value = value.filter(|_| !is_null(row, column));
                }
            }
            let host = HostTopology::from_yaml("host", HOST).expect("it keeps the rules");
            let healthy = matrix(|_, _| None);
            let baseline = with_baseline.then_some(&healthy);
            let question = HostQuestion { host: &host, matrix: &cells, repeats: &[], baseline, busy: false };
            let found = diagnose(question).expect("they fit");
            assert_eq!(found.verdict, expected, "{found:?}");
            assert!(found.notes.iter().any(|note| note.contains("were not measured")), "{:?}", found.notes);
        }
    }
}

#[test]
fn a_host_without_cables_has_no_way_between_its_rnics() {
    let text = HOST.replace(", {a: r2, b: leaf, gbps: 100}", "");
    let host = HostTopology::from_yaml("host", &text).expect("it keeps the rules");
    let question =
        HostQuestion { host: &host, matrix: &matrix(|_, _| None), repeats: &[], baseline: None, busy: false };
    let error = diagnose(question).expect_err("no cable").to_string();
    assert!(error.contains("no way from `r0` to `r2`"), "{error}");
}
