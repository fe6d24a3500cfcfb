//! Congestion control on networks.

use kelpie_packets::congestion::{Algorithm, Dcqcn, Hpcc, Pint};
use kelpie_packets::{MarkEcho, MessageForm, Settings, Trigger};

use crate::common::*;

#[test]
fn every_algorithm_of_a_paper_shares_an_incast_without_losses() {
    let traffic = incast(8, 2_000_000);
    for gbps in [25.0, 100.0, 400.0] {
        for algorithm in algorithms_of_papers(gbps) {
            let outcome = simulate(&star(9, gbps), &of_paper(algorithm, gbps), &traffic);
            assert_ended(&traffic, &outcome);
            let ideal = 16e6 * 8.0 / gbps;
            let end = outcome.messages.iter().filter_map(|message| message.received).max().unwrap_or(0) as f64;
            assert!(end > ideal && end < 4.0 * ideal, "{algorithm:?} at {gbps}: {end}, at best {ideal}");
            assert_eq!(outcome.counters.drops, 0);
        }
    }
}

#[test]
fn notifications_come_at_most_once_in_their_interval() {
    let traffic = incast(4, 5_000_000);
    for (echo, interval) in [(Dcqcn::CNP_OF_PAPER, 50_000), (Dcqcn::CNP_OF_CONNECTX, 4_000)] {
        assert_eq!(echo, MarkEcho::Cnp(interval));
        let settings = Settings { echo, ..of_paper(Algorithm::Dcqcn(Dcqcn::of_paper(40e9)), 40.0) };
        let outcome = simulate(&star(5, 40.0), &settings, &traffic);
        assert_ended(&traffic, &outcome);
        let cnps: u64 = outcome.qps.iter().map(|qp| u64::from(qp.cnps)).sum();
        assert_eq!(cnps, outcome.counters.cnps);
        let most = outcome.end_ns / interval + 1;
        assert!(outcome.qps.iter().all(|qp| qp.cnps > 3 && u64::from(qp.cnps) <= most), "{:?}", outcome.qps);
        assert!(outcome.counters.ecn_marks > cnps);
    }
}

#[test]
fn a_qp_that_paused_sends_at_the_rate_that_its_timers_would_have_reached() {
    let took = |pause: u64| {
        let mut traffic = incast(4, 5_000_000);
        traffic.messages.push(MessageForm { qp: 0, bytes: 5_000_000, start_ns: pause });
        traffic.waits = vec![wait(0, Trigger::Sent, 4)];
        let settings = of_paper(Algorithm::Dcqcn(Dcqcn::of_paper(40e9)), 40.0);
        let outcome = simulate(&star(5, 40.0), &settings, &traffic);
        assert_ended(&traffic, &outcome);
        let message = &outcome.messages[4];
        message.received.zip(message.posted).map_or(0, |(end, begin)| end - begin) as f64
    };
    // From 10 to 40 Gbit/s by 40 Mbit/s each 55 µs, without an event meanwhile.
    let alone = 5_240_000.0 * 8.0 / 40.0;
    let (short, long) = (took(10_000), took(100_000_000));
    assert!(long < 1.01 * alone + 10_000.0 && short > 1.3 * alone, "{short} {long} of {alone}");
}

#[test]
fn one_byte_of_load_does_nearly_as_well_as_all_of_it() {
    let traffic = incast(8, 2_000_000);
    let mean = |algorithm: Algorithm| {
        let outcome = simulate(&star(9, 100.0), &of_paper(algorithm, 100.0), &traffic);
        assert_ended(&traffic, &outcome);
        let times = outcome.messages.iter().filter_map(|message| message.received);
        (times.sum::<u64>() as f64 / 8.0, outcome.counters.max_queue_bytes)
    };
    let (hpcc, _) = mean(Algorithm::Hpcc(Hpcc::of_hpcc_simulator(100e9)));
    for share in [1.0, 1.0 / 16.0] {
        let (pint, queue) = mean(Algorithm::Pint(Pint { share, ..Pint::of_hpcc_simulator(100e9) }));
        assert!((pint / hpcc - 1.0).abs() < 0.1, "{share}: {pint} {hpcc}");
        assert!(queue < 8 * 60_000, "{share}: {queue}");
    }
}
