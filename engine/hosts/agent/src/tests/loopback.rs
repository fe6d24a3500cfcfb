//! Loopback of one host of a pair over fake hosts.

use kelpie_engine::MeasureError;
use kelpie_engine::loopback::{LoopbackRounds, measure};
use kelpie_engine::verbs_host::HostError;
use kelpie_spaces::Host;

use super::pair_file;
use crate::fake::{FakeAgent, RATE, Trouble};
use crate::loopback::AgentHost;

fn host(a: &FakeAgent, b: &FakeAgent, endpoints: &[&str]) -> Result<AgentHost, crate::PairError> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    AgentHost::of(pair_file(a, b), Host::B, names(&["fake0", "fake1"]), names(endpoints))
}

#[test]
fn one_agent_measures_all_its_rnics_and_is_left_clean_and_the_other_is_not_asked() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let mut host = host(&a, &b, &["mem0", "gpu0"]).expect("the agent is there");
    let rounds = LoopbackRounds { share: 1.0, cells: vec![(0, 0), (1, 1)], beside_others: false };
    let measured = measure(&mut host, &rounds, &mut |_, _, _| true).expect("runs");
    assert_eq!((measured.stopped, measured.bandwidth_gbps[0][1]), (None, None));
    for (row, column) in [(0, 0), (1, 1)] {
        // The fake's messages count as 100 bytes.
        let bandwidth = measured.bandwidth_gbps[row][column].expect("measured");
        let latency = measured.latency_us[row][column].expect("measured");
        assert!((bandwidth / (RATE * 800.0 / 1e9) - 1.0).abs() < 0.1, "{bandwidth}");
        assert!((latency * RATE / 1e6 - 1.0).abs() < 0.1, "{latency}");
    }
    let count = |agent: &FakeAgent, step: &str| agent.log().iter().filter(|name| *name == step).count();
    assert!(count(&b, "set_up") >= 2 * 2 * 3 && count(&b, "set_up") == count(&b, "recycle"), "{:?}", b.log());
    assert_eq!(a.log(), [""; 0]);
}

#[test]
fn what_goes_to_another_rnic_takes_both_agents_and_only_if_they_share_a_host() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let mut apart = host(&a, &b, &["mem0", "fake0", "fake1"]).expect("the agent is there");
    let rounds = LoopbackRounds { share: 1.0, cells: vec![(0, 2)], beside_others: true };
    let measured = measure(&mut apart, &rounds, &mut |_, _, _| true).expect("runs");
    assert_eq!(measured.bandwidth_gbps[0][2], None);
    assert!(measured.notes[0].contains("RNIC to RNIC needs a second agent on this host"), "{:?}", measured.notes);
    drop(apart);
    let mut together = host(&a, &b, &["mem0", "fake0", "fake1"]).expect("the agent is there").with_second();
    let measured = measure(&mut together, &rounds, &mut |_, _, _| true).expect("runs");
    let bandwidth = measured.bandwidth_gbps[0][2].expect("measured");
    assert!((bandwidth / (RATE * 800.0 / 1e9) - 1.0).abs() < 0.1, "{bandwidth}");
    let count = |agent: &FakeAgent, step: &str| agent.log().iter().filter(|name| *name == step).count();
    assert!(count(&a, "set_up") >= 2 * 3 && count(&a, "set_up") == count(&a, "recycle"), "{:?}", a.log());
    assert_eq!(count(&b, "set_up"), count(&b, "recycle"), "{:?}", b.log());
}

#[test]
fn what_a_device_lacks_is_said_and_a_device_that_fails_is_an_error() {
    let (a, b) = (FakeAgent::anywhere(), FakeAgent::anywhere());
    let mut lacking = host(&a, &b, &["mem0", "gpu0"]).expect("the agent is there");
    let rounds = LoopbackRounds { share: 1.0, cells: vec![(0, 0)], beside_others: true };
    b.trouble("set_up", Trouble::Fails(HostError::Unsupported("no dma-buf".to_owned())));
    // The look before the first probe meets it.
    let error = measure(&mut lacking, &rounds, &mut |_, _, _| true).expect_err("nothing can be said of the RNIC");
    assert!(matches!(&error, MeasureError::Unsupported { reason } if reason == "host b: no dma-buf"), "{error:?}");
    let measured = measure(&mut lacking, &rounds, &mut |_, _, _| true).expect("and then it runs");
    assert!(measured.bandwidth_gbps[0][0].is_some());
    assert!(matches!(host(&a, &b, &["cpu0"]), Err(crate::PairError::Host(_))), "no endpoint");
    b.trouble("start", Trouble::Fails(HostError::Failed("the device is gone".to_owned())));
    assert!(matches!(
        measure(&mut lacking, &rounds, &mut |_, _, _| true),
        Err(MeasureError::Host { host: Host::B, .. })
    ));
}
