//! What tests of the store and of reports are made of: a tiny space, workloads, experiments, findings. No assertions.

use std::collections::BTreeMap;

use kelpie_monitor::{
    Assessment, Bounds, DirectionRates, Inconclusive, Measurement, PauseRatios, PerHost, Sample, Symptom, Verdict,
};
use kelpie_search::Purpose as Asked;
use kelpie_spaces::{Condition, Feature, Host, Region, Test, Workload, workload_from_yaml};
use kelpie_store::{CampaignDefinition, Experiment, ExperimentOutcome, FindingRecord};

/// Two MTUs, four counts of QPs, two operations.
pub const TINY_SPACE: &str = "\
kelpie: space/1
qp_type: [RC]
opcode: [WRITE, READ]
mtu: [1024, 4096]
qps: {min: 1, max: 4}
mrs: [1]
requests: [1]
sge_count: [1]
message: [2KiB]
memory_requester: [\"dram:0\"]
memory_responder: [\"dram:0\"]
bidirectional: [false]
loopback: [false]
";

/// Text that must stay text.
pub const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&|`]]>\u{1}";

/// One flow of RC WRITE.
pub fn workload(qps: u32, mtu: u64) -> Workload {
    let text = format!(
        "kelpie: workload/1\nflows:\n  - from: a\n    to: b\n    qp_type: RC\n    qps: {qps}\n    mtu: {mtu}\n    \
         wq_depth: {{send: 16, recv: 16}}\n    batch: {{send: 1, recv: 1}}\n    \
         pattern: [{{op: WRITE, sge: [2KiB]}}]\n    memory:\n      \
         from: {{device: \"dram:0\", mrs: 1, mr_size: 4MiB}}\n      to: {{device: \"dram:0\", mrs: 1, mr_size: 4MiB}}\n"
    );
    workload_from_yaml("test", &text).expect("a workload")
}

/// A sample with one direction at `share` of 200 Gbit/s and, if asked for, `a` pausing its peer.
pub fn sample(share: f64, pause: Option<f64>) -> Sample {
    let rates = DirectionRates {
        from: Host::A,
        to: Host::B,
        goodput_bps: share * 1.9e11,
        wire_bps: share * 2e11,
        packets_per_sec: share * 1e7,
        messages_per_sec: share * 1e6,
    };
    let mut counters = PerHost::<BTreeMap<String, f64>>::default();
    counters.b.insert("cache_miss".to_owned(), 1000.0 * (1.0 - share));
    let pause = pause.map(|tx| PerHost { a: PauseRatios { tx, rx: 0.0 }, b: PauseRatios { tx: 0.0, rx: tx } });
    Sample { seconds: 0.1, directions: vec![rates], pause, counters }
}

/// An experiment that was measured and judged.
pub fn measured(number: u64, workload: Workload, sample: Sample, symptoms: Vec<Symptom>) -> Experiment {
    let outcome = ExperimentOutcome::Measured {
        measurement: Measurement { samples: vec![sample], ..Measurement::default() },
        assessment: Assessment::of_symptoms(symptoms),
        attempts: 1,
    };
    Experiment { number, purpose: Asked::Search.into(), skipped_before: 0, workload, outcome }
}

/// An experiment without a verdict and without samples.
pub fn inconclusive(number: u64) -> Experiment {
    let outcome = ExperimentOutcome::Measured {
        measurement: Measurement { hardware_events: vec![HOSTILE.to_owned()], ..Measurement::default() },
        assessment: Assessment {
            verdict: Verdict::Inconclusive,
            symptoms: Vec::new(),
            inconclusive: Some(Inconclusive::NoSamples),
        },
        attempts: 3,
    };
    Experiment { number, purpose: Asked::Search.into(), skipped_before: 0, workload: workload(2, 1024), outcome }
}

/// An experiment that the subsystem cannot express.
pub fn unsupported(number: u64) -> Experiment {
    let outcome = ExperimentOutcome::Unsupported { reason: HOSTILE.to_owned() };
    Experiment { number, purpose: Asked::Search.into(), skipped_before: 0, workload: workload(3, 1024), outcome }
}

/// A finding at many QPs.
pub fn finding(number: u64, found_at: u64, workload: Workload) -> FindingRecord {
    let condition = Condition { feature: Feature::Qps, test: Test::Range { min: Some(3), max: None } };
    FindingRecord {
        number,
        symptom: Symptom::LowThroughput,
        found_at,
        experiments_for_mfs: 3,
        confidence: 0.93,
        mfs: Region { conditions: vec![condition.clone()] },
        workload,
        evidence: serde_json::json!({
            "symptoms": ["low_throughput"], "signals": {}, "validated": 36, "healthy_inside": 0, "narrowed": true,
            "cures": [{"condition": condition, "cured": true}],
        }),
    }
}

/// A campaign over the tiny space.
pub fn definition() -> CampaignDefinition {
    CampaignDefinition {
        kelpie_version: "0.0.0".to_owned(),
        subsystem: "sim:F".to_owned(),
        subsystem_source: String::new(),
        bounds: Bounds::new(2e11, 2.15e8).with_base_rtt(3e-6),
        space: "tiny".to_owned(),
        space_source: TINY_SPACE.to_owned(),
        algorithm: "collie".to_owned(),
        signal: "both".to_owned(),
        seed: 7,
        config: "{}".to_owned(),
        budget: Some(100),
    }
}
