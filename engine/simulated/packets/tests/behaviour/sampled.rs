//! What is sampled while a fabric runs.

use kelpie_packets::congestion::{Algorithm, Swift};
use kelpie_packets::{PortName, RunError, Series, Settings, Watch, run, run_watched};

use crate::common::*;

fn series(settings: &Settings, watch: &Watch, threads: usize) -> Series {
    let (network, traffic) = (star(5, 100.0), incast(4, 1_000_000));
    let outcome = run_watched(&network, settings, &traffic, &[], threads, watch).expect("the run begins");
    assert_ended(&traffic, &outcome);
    outcome.series.expect("it is sampled")
}

#[test]
fn samples_add_up_and_change_nothing() {
    let (network, traffic) = (star(5, 100.0), incast(4, 1_000_000));
    let mut settings = settings(Algorithm::Dcqcn(dcqcn()));
    settings.buffer.capacity = 400 << 10;
    settings.echo = kelpie_packets::MarkEcho::Cnp(4_000);
    let watch = Watch::all(&network, &traffic, 5_000);
    let mut watched = run_watched(&network, &settings, &traffic, &[], 1, &watch).expect("the run begins");
    let sampled = watched.series.take().expect("it is sampled");
    assert_eq!(Ok(&watched), run(&network, &settings, &traffic, &[], 1).as_ref());
    assert_eq!(sampled, series(&settings, &watch, 2));
    assert_eq!(sampled.interval_ns, 5_000);
    let last = sampled.samples - 1;
    assert!((watched.end_ns..watched.end_ns + 5_000).contains(&(last as u64 * 5_000 - 1)), "{last} {}", watched.end_ns);
    for (qp, end) in sampled.qps.iter().zip(&watched.qps) {
        assert_eq!((qp.received_bytes[0], qp.received_bytes[last], qp.cnps[last]), (0, 1_000_000, end.cnps));
        assert!(qp.received_bytes.is_sorted() && qp.cnps.is_sorted() && end.cnps > 0);
        assert!(qp.rate_bps[0] == 100_000_000_000 && qp.rate_bps.iter().min() < Some(&60_000_000_000));
    }
    for (port, end) in sampled.ports.iter().zip(watched.links.iter().flatten()) {
        assert_eq!((port.sent_bytes[last], port.pauses[last]), (end.bytes, end.pauses));
    }
    // The port towards the crowded host, and that of one of those who send.
    let (crowded, sender) = (&sampled.ports[1], &sampled.ports[2]);
    assert_eq!((crowded.port, sender.port), (PortName { node: 5, link: 0 }, PortName { node: 1, link: 1 }));
    let queue = crowded.queued_bytes.iter().max().copied().map_or(0, u64::from);
    assert!(queue > 50_000 && queue <= watched.counters.max_queue_bytes && crowded.queued_bytes[last] == 0);
    assert!(sender.is_paused.contains(&true) && !sender.is_paused[last]);
    // All of the link is used until notifications come, and never more.
    let used: Vec<f64> = crowded.sent_bytes.windows(2).map(|two| (two[1] - two[0]) as f64 * 8.0 / 5_000.0).collect();
    assert!(used.iter().all(|gbps| *gbps < 101.0) && used[1..5].iter().all(|gbps| *gbps > 98.0), "{used:?}");
    let arrived: f64 = (0..4).map(|qp| sampled.goodput_gbps(qp).sum::<f64>()).sum();
    assert!((arrived * 5_000.0 / 8.0 - 4e6).abs() < 1.0, "{arrived}");
}

#[test]
fn many_samples_become_fewer() {
    let settings = settings(Algorithm::None);
    let all = Watch { interval_ns: 100, qps: vec![2, 0], ..Watch::default() };
    let (many, few) = (series(&settings, &all, 1), series(&settings, &Watch { most: 64, ..all }, 1));
    assert!(many.samples > 3000 && (32..64).contains(&few.samples), "{} {}", many.samples, few.samples);
    let step = (few.interval_ns / 100) as usize;
    assert!(step.is_power_of_two() && step >= 64);
    for (few, many) in few.qps.iter().zip(&many.qps) {
        let thinned: Vec<u64> = many.received_bytes.iter().copied().step_by(step).collect();
        assert_eq!(few.received_bytes[..few.received_bytes.len() - 1], thinned[..few.received_bytes.len() - 1]);
    }
}

#[test]
fn what_is_not_there_cannot_be_sampled() {
    let (network, traffic) = (star(5, 100.0), incast(4, 1000));
    let good = Watch { interval_ns: 1000, ..Watch::default() };
    let port = |node, link| Watch { ports: vec![PortName { node, link }], ..good.clone() };
    for watch in [Watch { qps: vec![4], ..good.clone() }, port(0, 1), port(0, 9), Watch { most: 1, ..good.clone() }] {
        let wrong = run_watched(&network, &settings(Algorithm::None), &traffic, &[], 1, &watch);
        assert_eq!(wrong, Err(RunError::Watch));
    }
}

#[test]
fn swift_keeps_a_queue_near_its_target_even_of_windows_below_a_packet() {
    // 256 QPs share what 50 packets fill.
    let pairs: Vec<(u32, u32)> = (0..256).map(|qp| (1 + qp % 32, 0)).collect();
    let (network, traffic) = (star(33, 100.0), flows(&pairs, 400_000));
    let mut settings = of_paper(Algorithm::Swift(Swift::of_round_trip(4000.0)), 100.0);
    settings.buffer.capacity = 32 << 20;
    let watch = Watch { interval_ns: 50_000, ports: vec![PortName { node: 33, link: 0 }], ..Watch::default() };
    let outcome = run_watched(&network, &settings, &traffic, &[], 1, &watch).expect("the run begins");
    assert_ended(&traffic, &outcome);
    let port = &outcome.series.as_ref().expect("it is sampled").ports[0];
    let late = &port.queued_bytes[port.queued_bytes.len() / 2..port.queued_bytes.len() * 3 / 4];
    let mean = late.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / late.len() as f64;
    // Targets of windows below a packet are 2 x 4 µs, 2 x 1.2 µs for links and up to 40 µs for windows, less the empty
    // trip.
    assert!((20e3..600e3).contains(&mean), "{mean}");
    let ideal = 256.0 * 400.0 * 1049.0 * 8.0 / 100.0;
    assert!((outcome.end_ns as f64) < 1.15 * ideal, "{} {ideal}", outcome.end_ns);
}
