//! Loopback within a host of two NUMA nodes.

use super::DualPortLab;

#[test]
#[ignore = "needs the lab"]
fn loopback_reaches_both_numa_nodes_of_a_host() {
    let lab = DualPortLab::up();
    let inside = "kelpie: topology/1\nhost:\n  nodes: {rxe0: rnic, cpu0: socket, mem0: memory, cpu1: socket, mem1: memory}\n  \
        links: [{a: rxe0, b: cpu0, gbps: 10}, {a: mem0, b: cpu0, gbps: 100}, {a: cpu0, b: cpu1, gbps: 100}, \
        {a: mem1, b: cpu1, gbps: 100}]\n";
    lab.bench.write("host.yaml", inside);
    let args =
        ["host", "matrix", "--subsystem", "dual-lab", "--host", "b", "--topology", "host.yaml", "--share", "100%"];
    let matrix = lab.bench.json(0, &args);
    assert_eq!(matrix["columns"], serde_json::json!(["mem0", "mem1"]));
    for column in 0..2 {
        let cell = |key: &str| matrix[key][0][column].as_f64().unwrap_or_else(|| panic!("{key} {column}: {matrix}"));
        assert!(cell("bandwidth_gbps") >= 0.1 && (1.0..10_000.0).contains(&cell("latency_us")), "{matrix}");
    }
}
