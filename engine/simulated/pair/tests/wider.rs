//! Control-path load, loss and delay in the simulated subsystem: what they change, and what they leave alone.

use kelpie_engine::Subsystem as _;
use kelpie_monitor::counters::{MADE, TIMEOUTS};
use kelpie_monitor::{Assessment, Sample, Symptom, Verdict, assess};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Bytes, Flow, Host, Mtu, Opcode, QpType, Request, Workload};

fn flow(op: Opcode, message: u64) -> Flow {
    let mut flow = Flow::plain(Host::A, Host::B);
    flow.pattern = vec![Request { op, sge: vec![Bytes(message)] }];
    flow
}

/// The mean sample and the verdict on F with these parameters.
fn measured(parameters: &[(&str, &str)], flows: &[Flow]) -> (Sample, Assessment) {
    let groups = parameters.iter().map(|(path, value)| {
        let (group, key) = path.split_once('.').expect("a parameter lies in a group");
        format!("{group}: {{{key}: {value}}}\n")
    });
    let groups: String = groups.collect();
    let text = format!("kelpie: model/2\nname: mine\ndescription: F and more\nbase: F\n{groups}");
    let mut subsystem = SimSubsystem::from_yaml("sim:mine", &text).expect("a model");
    let workload = Workload::new(flows.to_vec());
    let measurement = subsystem.measure(&workload).expect("F has this memory");
    let assessment = assess(&workload, &subsystem.bounds(), &measurement);
    (measurement.mean().expect("there are samples"), assessment)
}

fn gbps(sample: &Sample) -> f64 {
    sample.directions[0].goodput_bps / 1e9
}

#[test]
fn qps_and_mrs_are_made_at_the_rate_that_was_asked_for_or_as_fast_as_the_firmware_can() {
    let mut making = flow(Opcode::Write, 64 << 10);
    (making.qps_made_per_sec, making.mrs_made_per_sec) = (4000, 8000);
    let (sample, assessment) = measured(&[], &[making.clone()]);
    for host in Host::BOTH {
        let counters = sample.counters.get(host);
        for (name, rate) in MADE.iter().zip([4000.0, 8000.0]) {
            assert!((counters[*name] / rate - 1.0).abs() < 0.3, "{host} {name}: {}/s", counters[*name]);
        }
    }
    assert_eq!(assessment.verdict, Verdict::Healthy, "commands alone do not hold packets on F: {assessment:?}");
    let (sample, _) = measured(&[("control.firmware_us", "100")], &[making]);
    let all: f64 = MADE.iter().map(|name| sample.counters.a[*name]).sum();
    assert!((3000.0..6000.0).contains(&all), "two commands of 100 us for each: {all}/s");
    assert!(!measured(&[], &[flow(Opcode::Write, 64 << 10)]).0.counters.a.contains_key(MADE[0]), "nobody asked");
}

#[test]
fn contexts_that_commands_make_push_out_those_of_traffic() {
    // Half of the contexts that fit.
    let mut traffic = Flow { qps: 128, ..flow(Opcode::Write, 512) };
    traffic.wq_depth.send = 16;
    let misses = |flow: &Flow| measured(&[("control.firmware_us", "1")], std::slice::from_ref(flow)).0.counters.a["icm_cache_miss"];
    let (quiet, busy) = (misses(&traffic), misses(&Flow { qps_made_per_sec: 200_000, ..traffic.clone() }));
    assert!(busy > quiet + 1e5, "{busy}/s beside commands, {quiet}/s without");
}

#[test]
fn a_command_that_holds_the_pipeline_makes_a_receiver_pause_its_senders() {
    let traffic = flow(Opcode::Write, 64 << 10);
    let hold = [("control.hold_us", "25")];
    assert_eq!(measured(&hold, std::slice::from_ref(&traffic)).1.verdict, Verdict::Healthy, "nothing is destroyed");
    for making in
        [Flow { qps_made_per_sec: 8000, ..traffic.clone() }, Flow { mrs_made_per_sec: 8000, ..traffic.clone() }]
    {
        let (_, assessment) = measured(&hold, &[making]);
        assert!(assessment.symptoms.contains(&Symptom::Pause), "{assessment:?}");
    }
}

#[test]
fn a_link_that_sleeps_makes_traffic_with_pauses_anomalous_and_other_traffic_not() {
    let sleep = [("pcie.sleep", "{after_us: 20, wake_us: 32}")];
    let mut bursts = Flow { qps: 1, ..flow(Opcode::Write, 16 << 10) };
    (bursts.batch.send, bursts.wq_depth.send) = (32, 128);
    let paced = Flow { interarrival_ns: 100_000, ..bursts.clone() };
    let verdicts =
        [&sleep[..], &[]].map(|model| [&bursts, &paced].map(|flow| measured(model, std::slice::from_ref(flow)).1));
    let [[full, with_pauses], [awake, awake_with_pauses]] = verdicts;
    assert!(with_pauses.symptoms.contains(&Symptom::Pause), "{with_pauses:?}");
    for healthy in [full, awake, awake_with_pauses] {
        assert_eq!(healthy.verdict, Verdict::Healthy, "{healthy:?}");
    }
}

#[test]
fn a_longer_path_adds_its_delay_both_ways_and_is_no_anomaly() {
    let mut one = flow(Opcode::Write, 64);
    (one.qps, one.wq_depth.send) = (1, 1);
    let trip = |flow: &Flow| 1e9 / measured(&[], std::slice::from_ref(flow)).0.directions[0].messages_per_sec;
    let longer = Flow { path_delay_ns: 10_000, ..one.clone() };
    let added = trip(&longer) - trip(&one);
    assert!((added - 20_000.0).abs() < 200.0, "{added} ns");
    for path_delay_ns in [10_000, 50_000] {
        let (sample, assessment) = measured(&[], &[Flow { path_delay_ns, ..flow(Opcode::Write, 64 << 10) }]);
        assert_eq!(assessment.verdict, Verdict::Healthy, "{path_delay_ns} ns: {} Gbit/s {assessment:?}", gbps(&sample));
    }
}

#[test]
fn a_path_too_long_for_an_experiment_is_refused_and_no_anomaly() {
    for name in ["A", "B", "E", "F"] {
        let mut subsystem = SimSubsystem::load(name).expect("embedded");
        let far = |qps| Flow { qps, path_delay_ns: 30_000_000, ..flow(Opcode::Write, 64 << 10) };
        let refused =
            subsystem.measure(&Workload::new(vec![far(1024)])).expect_err("nothing came back yet").to_string();
        assert!(refused.contains("60000 us there and back") && refused.contains("max_events"), "{name}: {refused}");
        // Few messages take few events, so that some come back.
        let few = Workload::new(vec![far(8)]);
        let measurement = subsystem.measure(&few).expect("some came back");
        let verdict = assess(&few, &subsystem.bounds(), &measurement).verdict;
        assert_eq!(verdict, Verdict::Inconclusive, "{name}");
    }
    let (_, near) = measured(&[], &[Flow { qps: 1024, path_delay_ns: 1_000_000, ..flow(Opcode::Write, 64 << 10) }]);
    assert_eq!(near.verdict, Verdict::Healthy, "{near:?}");
}

/// Traffic of every kind, some of it with little on its way, some with much.
fn kinds() -> Vec<Flow> {
    let mut all = Vec::new();
    for (qp_type, op) in [
        (QpType::Rc, Opcode::Write),
        (QpType::Rc, Opcode::Send),
        (QpType::Rc, Opcode::Read),
        (QpType::Uc, Opcode::Write),
        (QpType::Uc, Opcode::Send),
        (QpType::Ud, Opcode::Send),
        (QpType::Rc, Opcode::FetchAdd),
    ] {
        let message = if op.is_atomic() { 8 } else { 2048 };
        let mtu = Mtu::try_from(2048).expect("an MTU");
        all.push(Flow { qp_type, mtu, ..flow(op, message) });
        if op != Opcode::FetchAdd && qp_type != QpType::Ud {
            all.push(Flow { qp_type, ..flow(op, 64 << 10) });
        }
    }
    let mut mixed = flow(Opcode::Write, 5000);
    for op in [Opcode::Read, Opcode::Send, Opcode::Read] {
        mixed.pattern.push(Request { op, sge: vec![Bytes(3000), Bytes(9000)] });
    }
    all.push(mixed);
    all
}

#[test]
fn traffic_of_every_kind_goes_on_over_a_path_that_loses_packets() {
    for flow in kinds() {
        let name = format!("{} {:?}", flow.qp_type, flow.pattern);
        let (clean, _) = measured(&[], std::slice::from_ref(&flow));
        let (lossy, _) = measured(&[("control.ack_timeout_us", "20")], &[Flow { loss_ppm: 2000, ..flow }]);
        let share = gbps(&lossy) / gbps(&clean);
        assert!((0.02..1.05).contains(&share), "{name}: {share} of what a clean path carries");
    }
}

#[test]
fn a_requester_of_one_message_waits_for_the_timer_if_it_is_lost() {
    let mut one = Flow { loss_ppm: 10_000, ..flow(Opcode::Write, 64) };
    (one.qps, one.wq_depth.send) = (64, 1);
    let (sample, assessment) = measured(&[("control.ack_timeout_us", "100")], &[one.clone()]);
    // A request or its answer is lost once in 50 times.
    let seconds = 64.0 / sample.directions[0].messages_per_sec;
    let clean = 64.0 / measured(&[], &[Flow { loss_ppm: 0, ..one }]).0.directions[0].messages_per_sec;
    let waited = (seconds - clean) * 1e6;
    assert!((1.4..2.6).contains(&waited), "{waited} us more for each message, 2 of 100 x 100 us were expected");
    let timeouts = sample.counters.a[TIMEOUTS] / sample.directions[0].messages_per_sec;
    assert!((0.014..0.026).contains(&timeouts), "{timeouts} for each message");
    assert_eq!(assessment.verdict, Verdict::Healthy, "no NIC can do better: {assessment:?}");
}

#[test]
fn who_has_more_on_the_way_loses_more_of_its_rate_to_the_same_loss() {
    let share = |path_delay_ns| {
        let flow = Flow { qps: 1, path_delay_ns, ..flow(Opcode::Write, 4096) };
        let rate = |loss_ppm| gbps(&measured(&[], &[Flow { loss_ppm, ..flow.clone() }]).0);
        rate(5000) / rate(0)
    };
    let [short, long] = [share(0), share(5000)];
    assert!(long < short - 0.05, "{short} of its rate on a short path, {long} on a long one");
}
