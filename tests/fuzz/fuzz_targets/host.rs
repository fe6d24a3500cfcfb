//! The readers of `matrix/1` and `topology/1` over arbitrary bytes, and the diagnosis of whatever they accept.

#![no_main]

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::{HostQuestion, diagnose};
use kelpie_topology::HostTopology;
use libfuzzer_sys::fuzz_target;

const HOST: &str = "{kelpie: topology/1, host: {nodes: {r: rnic, s: rnic, p: pcie_switch, c: socket, m: memory, g: gpu}, \
    links: [{a: r, b: p}, {a: s, b: p}, {a: g, b: p}, {a: p, b: c}, {a: m, b: c}]}}";
const MATRIX: &str = r#"{"kelpie": "matrix/1", "rows": ["r", "s"], "columns": ["m", "g"],
    "bandwidth_gbps": [[100.0, 9.0], [null, 90.0]]}"#;

fuzz_target!(|bytes: &[u8]| {
    let host = read(HostTopology::from_bytes("host", bytes), || HostTopology::from_yaml("host", HOST));
    let matrix = read(Matrix::from_bytes("matrix", bytes), || Matrix::from_bytes("matrix", MATRIX.as_bytes()));
    if let (Some(host), Some(matrix)) = (host, matrix) {
        for busy in [false, true] {
            let _ = diagnose(HostQuestion { host: &host, matrix: &matrix, repeats: &[], baseline: None, busy });
        }
    }
});

/// What was read, else a good one; an error can be shown on a terminal.
fn read<T, E: std::fmt::Display>(outcome: Result<T, E>, good: impl Fn() -> Result<T, E>) -> Option<T> {
    match outcome {
        Ok(read) => Some(read),
        Err(error) => {
            assert!(!error.to_string().chars().any(|letter| letter.is_control() && letter != '\n'), "{error}");
            good().ok()
        }
    }
}
