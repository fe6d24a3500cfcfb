//! What the engine counts against what the devices of both hosts count, over seconds of steady traffic.

use serde_json::{Value, json};

use kelpie_agent::PairSubsystem;
use kelpie_engine::Subsystem;
use kelpie_spaces::Host;

use super::{Lab, in_lab, moved, workload};

/// Differences up to this between the engine's counts and those of the device are what is on the way meanwhile.
const AGREEMENT: f64 = 0.02;

/// What a counter of a host added up to over all samples.
fn total(report: &Value, host: &str, counter: &str) -> f64 {
    let samples = report["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 4, "{report}");
    let of = |sample: &Value| {
        let rate = sample["counters"][host][counter].as_f64();
        rate.unwrap_or_else(|| panic!("no {counter} on {host}: {sample}"))
            * sample["seconds"].as_f64().expect("seconds")
    };
    samples.iter().map(of).sum()
}

/// The samples of one measurement. `kelpie measure` would repeat it if they differ, but they need not be alike here.
fn measured(lab: &Lab, text: &str, session: &str) -> Value {
    let workload = kelpie_spaces::workload_from_yaml("a workload", text).expect("a workload");
    let mut pair = PairSubsystem::open(&lab.bench.path(lab.pair_with(session))).expect("the lab");
    json!({"samples": pair.measure(&workload).expect("a measurement").samples})
}

fn agree(what: &str, seen: f64, expected: f64) {
    let difference = (seen - expected).abs() / expected;
    assert!(difference <= AGREEMENT, "{what}: {seen:.0}, expected {expected:.0}: {:.1} % apart", difference * 100.0);
}

fn agrees_with_the_device(op: &str) {
    in_lab(|lab| {
        let report = measured(lab, &workload(op), "{warm_up_ms: 2000, sample_ms: 2000, samples: 4}");
        let messages = moved(&report, "messages_per_sec");
        assert!(messages > 1000.0, "eight seconds of traffic: {messages}");
        agree("bytes of two messages", moved(&report, "goodput_bps") / 8.0, messages / 2.0 * (4096.0 + 256.0));
        let packets = messages / 2.0 * 5.0;
        agree("packets by the engine", moved(&report, "packets_per_sec"), packets);
        agree("requested on a", total(&report, "a", "engine_requested_messages"), messages);
        agree("packets sent by a", total(&report, "a", "sent_pkts"), packets);
        agree("packets received by b", total(&report, "b", "rcvd_pkts"), packets);
        agree("acknowledgements sent by b", total(&report, "b", "sent_pkts"), messages);
        agree("acknowledgements received by a", total(&report, "a", "rcvd_pkts"), messages);
        if op == "SEND" {
            agree("received on b", total(&report, "b", "engine_received_messages"), messages);
            agree("received on b by the device", total(&report, "b", "rdma_recvs"), messages);
        }
        lab.is_clean();
    });
}

#[test]
#[ignore = "needs the lab"]
fn writes_agree_with_the_counters_of_both_devices() {
    agrees_with_the_device("WRITE");
}

#[test]
#[ignore = "needs the lab"]
fn sends_agree_with_the_counters_of_both_devices() {
    agrees_with_the_device("SEND");
}

#[test]
#[ignore = "needs the lab"]
fn both_directions_and_a_loopback_run_at_once() {
    in_lab(|lab| {
        let one_way = workload("SEND");
        let (head, flow) = one_way.split_once("  - ").expect("one flow");
        let (back, loopback) =
            (flow.replace("from: a", "from: b").replacen("to: b", "to: a", 1), flow.replacen("to: b", "to: a", 1));
        let report = lab.measure(&format!("{head}  - {flow}  - {back}  - {loopback}"), lab.pair(2000));
        let directions = report["directions"].as_array().expect("directions");
        let ways: Vec<(&str, &str)> =
            directions.iter().map(|way| (way["from"].as_str().expect("a"), way["to"].as_str().expect("b"))).collect();
        assert_eq!(ways, [("a", "a"), ("a", "b"), ("b", "a")], "{report}");
        assert!(directions.iter().all(|way| way["messages_per_sec"].as_f64() > Some(10.0)), "{directions:?}");
        lab.is_clean();
    });
}

#[test]
#[ignore = "needs the lab"]
fn qps_that_were_a_loopback_reach_the_other_host_next_time() {
    in_lab(|lab| {
        let one_way = workload("SEND");
        let (head, flow) = one_way.split_once("  - ").expect("one flow");
        let text = format!("{head}  - {flow}  - {}", flow.replacen("to: b", "to: a", 1));
        let workload = kelpie_spaces::workload_from_yaml("a loopback beside it", &text).expect("a workload");
        let mut pair = PairSubsystem::open(&lab.bench.path(lab.pair(1000))).expect("the lab");
        for round in 0..3 {
            let mean = pair.measure(&workload).expect("a measurement").mean().expect("samples");
            let across = mean.direction(Host::A, Host::B).expect("a direction").messages_per_sec;
            assert!(across > 10.0, "round {round}: {across} messages/s");
        }
        drop(pair);
        lab.is_clean();
    });
}
