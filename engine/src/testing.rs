//! Small workloads for the tests of this crate.

use kelpie_spaces::{Flow, Workload};

/// Two QPs with a vector of 4 KiB and 64 B, batch 8.
pub fn flow(from: &str, to: &str, op: &str) -> Flow {
    let text = format!(
        "from: {from}\nto: {to}\nqp_type: RC\nqps: 2\nmtu: 1024\nwq_depth: {{send: 32, recv: 64}}\n\
         batch: {{send: 8, recv: 8}}\npattern: [{{op: {op}, sge: [2KiB, 2KiB]}}, {{op: {op}, sge: [64B]}}]\n\
         memory:\n  from: {{device: \"dram:0\", mrs: 2, mr_size: 16KiB}}\n  \
         to: {{device: \"dram:0\", mrs: 3, mr_size: 16KiB}}\n"
    );
    serde_yaml::from_str(&text).expect("the text above is a flow")
}

/// A workload of these flows.
pub fn workload(flows: Vec<Flow>) -> Workload {
    let workload = Workload::new(flows);
    kelpie_spaces::check(&workload).expect("tests measure valid workloads");
    workload
}
