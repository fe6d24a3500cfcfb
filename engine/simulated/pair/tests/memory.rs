//! Memory of a large experiment. A binary of its own, so that the peak is that of this experiment alone.
#![cfg(target_os = "linux")]

use kelpie_engine::Subsystem as _;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::workload_from_yaml;

/// The paper's most QPs, with MRs as many as its bound allows.
const WORKLOAD: &str = "
kelpie: workload/1
flows:
  - from: a
    to: b
    qp_type: RC
    qps: 20000
    mtu: 1024
    wq_depth: {send: 128, recv: 128}
    batch: {send: 16, recv: 16}
    pattern: [{op: SEND, sge: [512, 512]}, {op: WRITE, sge: [64KiB]}]
    memory:
      from: {device: 'dram:0', mrs: 10, mr_size: 64KiB}
      to: {device: 'dram:0', mrs: 10, mr_size: 64KiB}
";

/// Peak resident memory of this process. Units: bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells a process about itself");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak is among it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib << 10
}

#[test]
fn twenty_thousand_qps_fit_into_200_mb() {
    let workload = workload_from_yaml("20,000 QPs", WORKLOAD).expect("a valid workload");
    let mut subsystem = SimSubsystem::load("F").expect("an embedded model");
    let measurement = subsystem.measure(&workload).expect("F has this memory");
    assert!(measurement.mean().is_some_and(|sample| sample.directions[0].goodput_bps > 0.0));
    let peak = peak();
    println!("peak: {} MB", peak / 1_000_000);
    assert!(peak < 200_000_000, "{} MB", peak / 1_000_000);
}
