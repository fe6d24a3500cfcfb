//! A host whose only path has no siblings: what its links declare is the reference, else only a baseline is.

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{HostDiagnosis, HostQuestion, HostVerdict, PathState, Reference, diagnose};
use kelpie_topology::HostTopology;

const HOST: &str = "{kelpie: topology/1, host: {nodes: {r0: rnic, c0: socket, m0: memory}, \
    links: [{a: r0, b: c0, gbps: 252}, {a: m0, b: c0}]}}";

fn matrix(gbps: f64) -> Matrix {
    Matrix {
        kelpie: "matrix/1".to_owned(),
        rows: vec!["r0".to_owned()],
        columns: vec!["m0".to_owned()],
        bandwidth_gbps: Some(vec![vec![Some(gbps)]]),
        latency_us: None,
        completion_us: None,
        busy: Vec::new(),
        measured_by: None,
        measured_at: None,
    }
}

fn judged(gbps: f64, baseline: Option<f64>) -> HostDiagnosis {
    let host = HostTopology::from_yaml("host", HOST).expect("it keeps the rules");
    let baseline = baseline.map(matrix);
    let question =
        HostQuestion { host: &host, matrix: &matrix(gbps), repeats: &[], baseline: baseline.as_ref(), busy: false };
    diagnose(question).expect("they fit")
}

#[test]
fn a_path_is_compared_with_what_its_links_declare() {
    for (gbps, expected) in
        [(10.0, HostVerdict::Abnormal), (63.0, HostVerdict::Abnormal), (190.0, HostVerdict::Healthy)]
    {
        let found = judged(gbps, None);
        assert_eq!(found.verdict, expected, "{gbps}: {found:?}");
    }
    let found = judged(10.0, None);
    let slow = &found.slow[0];
    assert_eq!((slow.carried_gbps, slow.expected_gbps, slow.reference), (10.0, 252.0, Reference::Topology));
    // A port of 100 Gbit/s behind links of 252 looks like half the lanes.
    let found = judged(97.0, None);
    assert_eq!((found.verdict, found.is_steady), (HostVerdict::Undecided, true), "{found:?}");
    assert!(found.notes[0].contains("r0 to m0 carries 97 of 252 Gbit/s that the topology declares"), "{found:?}");
    let found = judged(190.0, Some(191.0));
    assert_eq!((found.verdict, found.paths["r0"]["m0"]), (HostVerdict::Healthy, PathState::Normal));
    assert_eq!(judged(10.0, Some(191.0)).verdict, HostVerdict::Abnormal);
}

#[test]
fn a_port_that_is_declared_says_what_its_paths_carry() {
    let with_port = HOST.replace("links:", "ports: {r0: 100}, links:");
    let at = |text: &str, gbps| {
        let host = HostTopology::from_yaml("host", text).expect("it keeps the rules");
        let question = HostQuestion { host: &host, matrix: &matrix(gbps), repeats: &[], baseline: None, busy: false };
        diagnose(question).expect("they fit")
    };
    assert_eq!(at(&with_port, 97.0).verdict, HostVerdict::Healthy);
    let found = at(&with_port, 49.0);
    assert_eq!((found.verdict, found.slow[0].reference), (HostVerdict::Abnormal, Reference::Port), "{found:?}");
    // Of what nothing is declared, nothing is known.
    for gbps in [10.0, 190.0] {
        let found = at(&HOST.replace(", gbps: 252", ""), gbps);
        assert_eq!(
            (found.verdict, found.paths["r0"]["m0"]),
            (HostVerdict::Undecided, PathState::Undecided),
            "{found:?}"
        );
        assert!(found.is_steady, "it may become a baseline");
    }
}
