//! What runs beside traffic between the guests, and what its path does: QPs and MRs that come and go, loss and delay.

use kelpie_monitor::counters::MADE;

use super::shapes::{FlowShape, RC, yaml};
use super::{Lab, in_lab, workload};

/// A workload with these keys in its only flow.
fn with(text: &str, keys: &[&str]) -> String {
    let (head, rest) = text.split_once("qp_type:").expect("a flow has a transport");
    format!("{head}{}\n    qp_type:{rest}", keys.join("\n    "))
}

#[test]
#[ignore = "needs the lab"]
fn qps_and_mrs_come_and_go_while_traffic_runs() {
    in_lab(|lab| {
        let report =
            lab.measure(&with(&workload("WRITE"), &["qps_made_per_sec: 20", "mrs_made_per_sec: 30"]), lab.pair(3000));
        assert!(report["directions"][0]["goodput_bps"].as_f64() > Some(0.0), "{report}");
        for host in ["a", "b"] {
            for (name, rate) in MADE.iter().zip([20.0, 30.0]) {
                let made = report["counters"][host][*name].as_f64().unwrap_or_else(|| panic!("no {name}: {report}"));
                assert!((rate / 3.0..rate * 1.5).contains(&made), "host {host}: {made} {name} a second");
            }
        }
        lab.is_clean();
    });
}

#[test]
#[ignore = "needs the lab"]
fn agents_make_the_path_longer_and_lossy_and_leave_it_as_it_was() {
    in_lab(|lab| {
        let pair = lab.pair_with("{warm_up_ms: 500, sample_ms: 3000, samples: 1, latency: true}");
        let single = yaml(&[FlowShape { pattern: "WRITE 64", depth: [1, 8], ..RC }]);
        let report = lab.measure(&with(&single, &["path_delay_ns: 20000000"]), pair);
        let median = report["directions"][0]["latency_ns"]["p50"].as_u64().expect("a median");
        assert!(median >= 40_000_000, "{median} ns over a path with 20 ms each way");
        let lossy = lab.measure(&with(&workload("WRITE"), &["loss_ppm: 20000"]), pair);
        assert!(lossy["directions"][0]["goodput_bps"].as_f64() > Some(0.0), "{lossy}");
        assert!(lossy["counters"]["a"]["engine_ack_timeout_seconds"].as_f64() > Some(0.0), "{lossy}");
        let shown = |lab: &Lab, guest| lab.in_guest(guest, "tc qdisc show dev eth0");
        assert!(["a", "b"].iter().all(|guest| !shown(lab, guest).contains("netem")), "{}", shown(lab, "a"));
        lab.is_clean();
    });
}
