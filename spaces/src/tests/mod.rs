//! Tests of the crate as a whole; tables of single modules stand here too, so that the modules stay readable.

mod anomalies;
mod catalog;
mod files;
mod moves;
mod regions;
mod table;

use std::fmt::Write as _;

use crate::dimensions::{DimensionKind, TABLE};
use crate::{Space, Workload, workload_from_yaml};
use rand_pcg::Pcg64;

/// A generator with this seed.
fn rng(seed: u64) -> Pcg64 {
    rand::SeedableRng::seed_from_u64(seed)
}

fn full() -> Space {
    Space::catalog("full").expect("the catalog has the full space")
}

/// The full space with mixed operations, and with all values of what is optional.
fn widest() -> Space {
    let mut yaml = String::from("kelpie: space/1\nmixed_opcodes: [false, true]\n");
    for row in TABLE.iter().filter(|row| row.optional().is_some()) {
        let dimension = row.dimension;
        let _ = match row.kind {
            DimensionKind::Count | DimensionKind::Size => writeln!(yaml, "{}: {{min: 0}}", row.name),
            _ => {
                let words: Vec<String> = (row.limit.0..=row.limit.1).map(|code| dimension.word(code)).collect();
                writeln!(yaml, "{}: [{}]", row.name, words.join(", "))
            }
        };
    }
    Space::from_yaml("widest", &yaml).expect("a wide space")
}

/// One flow with these parts; the rest is plain.
fn workload(qp_type: &str, depth: u32, batch: u32, pattern: &str, mr_size: &str) -> String {
    format!(
        "kelpie: workload/1
flows:
  - from: a
    to: b
    qp_type: {qp_type}
    qps: 8
    mtu: 1024
    wq_depth: {{send: {depth}, recv: {depth}}}
    batch: {{send: {batch}, recv: {batch}}}
    pattern: {pattern}
    memory:
      from: {{device: \"dram:0\", mrs: 1, mr_size: {mr_size}}}
      to: {{device: \"dram:0\", mrs: 1, mr_size: {mr_size}}}
"
    )
}

/// A plain WRITE workload with this pattern.
fn writes(pattern: &str) -> Workload {
    workload_from_yaml("test", &workload("RC", 128, 8, pattern, "4MiB")).expect("the table holds valid workloads")
}
