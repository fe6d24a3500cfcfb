//! A host whose only path has no siblings: without a baseline nothing is known of it, and with one everything is.

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{Diagnosis, Question, State, Verdict, diagnose};
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

fn judged(gbps: f64, baseline: Option<f64>) -> Diagnosis {
    let host = HostTopology::from_yaml("host", HOST).expect("it keeps the rules");
    let baseline = baseline.map(matrix);
    let question =
        Question { host: &host, matrix: &matrix(gbps), repeats: &[], baseline: baseline.as_ref(), busy: false };
    diagnose(question).expect("they fit")
}

#[test]
fn a_path_is_not_compared_with_itself() {
    for gbps in [10.0, 190.0] {
        let found = judged(gbps, None);
        assert_eq!((found.verdict, found.paths["r0"]["m0"]), (Verdict::Undecided, State::Undecided), "{found:?}");
        assert_eq!(found.links["r0|c0"], State::Undecided);
    }
    let found = judged(190.0, Some(191.0));
    assert_eq!((found.verdict, found.paths["r0"]["m0"]), (Verdict::Healthy, State::Normal));
    assert_eq!(judged(10.0, Some(191.0)).verdict, Verdict::Abnormal);
}
