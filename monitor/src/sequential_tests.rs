//! Scripts of measurements with the verdict that each must get, and how often noise turns one.

use kelpie_spaces::{Bytes, Depths, Flow, Host, Mtu, Opcode, Request};

use super::*;
use crate::measurement::{DirectionRates, PauseRatios, PerHost, Sample};
use crate::severity::Severity;

fn workload() -> Workload {
    let flow = Flow {
        qps: 8,
        mtu: Mtu::ALL[2],
        wq_depth: Depths { send: 128, recv: 128 },
        pattern: vec![Request { op: Opcode::Write, sge: vec![Bytes(65536)] }],
        ..Flow::plain(Host::A, Host::B)
    };
    Workload::new(vec![flow])
}

/// 200 Gbit/s and 100 million packets a second.
fn bounds() -> Bounds {
    Bounds::new(200e9, 100e6)
}

/// Samples that use these shares of the line, with these pause ratios.
fn of(shares: &[f64], pauses: &[f64]) -> Measurement {
    let sample = |(at, share): (usize, &f64)| {
        let ratios = PauseRatios { tx: pauses.get(at).copied().unwrap_or(0.0), rx: 0.0 };
        Sample {
            seconds: 1.0,
            directions: vec![DirectionRates {
                from: Host::A,
                to: Host::B,
                goodput_bps: share * 190e9,
                wire_bps: share * 200e9,
                packets_per_sec: 1e6,
                messages_per_sec: 1e6,
            }],
            pause: Some(PerHost { a: ratios, b: PauseRatios::default() }),
            counters: PerHost::default(),
        }
    };
    Measurement { samples: shares.iter().enumerate().map(sample).collect(), ..Measurement::default() }
}

/// The same of packets/s.
fn of_packets(shares: &[f64]) -> Measurement {
    let mut measurement = of(shares, &[]);
    for (sample, share) in measurement.samples.iter_mut().zip(shares) {
        let rates = &mut sample.directions[0];
        (rates.packets_per_sec, rates.wire_bps) = (share * 100e6, 1e6);
    }
    measurement
}

fn judged(script: &[Measurement]) -> JudgedMeasurement {
    let measure = |_: &Workload, attempt: u32| script.get(attempt as usize).cloned().map(Some).ok_or("asked too often");
    measure_judged(&workload(), &bounds(), measure).expect("the script is long enough")
}

#[test]
fn what_is_clear_is_measured_once() {
    for (shares, verdict) in [
        ([0.99, 0.98, 0.99, 0.98], Verdict::Healthy),
        ([0.4, 0.41, 0.39, 0.4], Verdict::Anomalous),
        ([0.8, 0.8, 0.8, 0.8], Verdict::Healthy),
    ] {
        let judged = judged(&[of(&shares, &[])]);
        assert_eq!((judged.attempts, judged.assessment.verdict), (1, verdict), "{shares:?}");
    }
}

#[test]
fn samples_near_a_threshold_are_judged_together() {
    let near = of(&[0.78, 0.86, 0.74, 0.84], &[]);
    let low = of(&[0.72, 0.74, 0.71, 0.73], &[]);
    let high = of(&[0.95, 0.96, 0.94, 0.95], &[]);
    let first = judged(&[near.clone(), low.clone(), low]);
    assert_eq!(
        (first.attempts, first.assessment.verdict, first.measurement.samples.len()),
        (3, Verdict::Anomalous, 12)
    );
    let second = judged(&[near.clone(), high.clone(), high]);
    assert_eq!(second.assessment.verdict, Verdict::Healthy);
    let never = judged(&[near.clone(), near.clone(), near]);
    assert_eq!((never.attempts, never.assessment.inconclusive), (3, Some(Inconclusive::Marginal)));
}

#[test]
fn what_would_show_the_same_again_is_judged_by_its_mean() {
    let near = of(&[0.78, 0.86, 0.74, 0.84], &[]);
    let measure = |_: &Workload, attempt: u32| Ok::<_, &str>((attempt == 0).then(|| near.clone()));
    let judged = measure_judged(&workload(), &bounds(), measure).expect("it never fails");
    assert_eq!((judged.attempts, judged.assessment.verdict), (1, Verdict::Healthy));
}

#[test]
fn what_says_nothing_is_replaced_three_times_at_most() {
    let (gap, full) = (of(&[], &[]), of(&[0.99; 4], &[]));
    for (script, attempts, verdict) in [
        (vec![&gap, &full], 2, Verdict::Healthy),
        (vec![&gap, &gap, &full], 3, Verdict::Healthy),
        (vec![&gap, &gap, &gap], 3, Verdict::Inconclusive),
    ] {
        let script: Vec<Measurement> = script.into_iter().cloned().collect();
        let judged = judged(&script);
        assert_eq!((judged.attempts, judged.assessment.verdict), (attempts, verdict));
        assert_eq!(&judged.measurement, &script[script.len() - 1]);
    }
    let failed = measure_judged(&workload(), &bounds(), |_, _| Err::<Option<Measurement>, _>("agent gone"));
    assert_eq!(failed, Err("agent gone"));
}

#[test]
fn a_pause_that_comes_and_goes_is_measured_again() {
    let (none, some) = (of(&[0.99; 4], &[]), of(&[0.99; 4], &[0.0, 0.2, 0.0, 0.0]));
    let all = of(&[0.99; 4], &[0.2; 4]);
    assert_eq!(judged(std::slice::from_ref(&all)).assessment.verdict, Verdict::Anomalous);
    assert_eq!(judged(std::slice::from_ref(&none)).attempts, 1);
    assert_eq!(judged(&[some.clone(), none.clone(), none]).attempts, 3);
    let low = of(&[0.1; 4], &[0.0, 0.2, 0.0, 0.0]);
    let low = judged(&[low.clone(), low.clone(), low]);
    assert_eq!((low.attempts, low.assessment.symptoms), (3, vec![Symptom::LowThroughput]), "whether or not it pauses");
}

#[test]
fn noise_turns_at_most_one_verdict_in_twenty() {
    use rand::SeedableRng;
    use rand_distr::{Distribution, Normal};
    let mut random = rand_pcg::Pcg64::seed_from_u64(1);
    for truth in [0.74, 0.78, 0.79, 0.81, 0.82, 0.86] {
        let noise = Normal::new(1.0, 0.05).expect("it is finite");
        let mut turned = 0;
        for _ in 0..400 {
            let measure = |_: &Workload, _: u32| {
                let shares: Vec<f64> = (0..4).map(|_| truth * noise.sample(&mut random)).collect();
                Ok::<_, &str>(Some(of(&shares, &[])))
            };
            let verdict = measure_judged(&workload(), &bounds(), measure).expect("it never fails").assessment.verdict;
            let wrong = if truth < LOW_SHARE { Verdict::Healthy } else { Verdict::Anomalous };
            turned += u32::from(verdict == wrong);
        }
        assert!(turned <= 20, "{truth}: {turned} of 400");
    }
}

#[test]
fn a_steady_run_is_no_clear_one_if_runs_differ() {
    let bounds = Bounds { run_to_run: Some(0.15), ..bounds() };
    let judged = |script: &[Measurement]| {
        let measure = |_: &Workload, attempt: u32| Ok::<_, &str>(script.get(attempt as usize).cloned());
        measure_judged(&workload(), &bounds, measure).expect("it never fails")
    };
    let steady = |share: f64| of(&[share; 4], &[]);
    let attempts = |share: f64| judged(&[steady(share), steady(share), steady(share)]).attempts;
    assert_eq!([0.2, 0.3, 0.4, 0.5, 1.0].map(attempts), [1, 1, 3, 3, 3], "up to 0.323 it surely shows again");
    let [low, high] = clear_shares(0.15);
    assert!((low - 0.605).abs() < 1e-3 && (high - 0.995).abs() < 1e-3, "{low} {high}");
    assert_eq!(judged(&[steady(1.0), steady(1.0), steady(1.0)]).assessment.verdict, Verdict::Healthy);
    let later_high = judged(&[steady(0.65), steady(0.95), steady(1.3)]);
    assert_eq!((later_high.attempts, later_high.assessment.verdict), (3, Verdict::Inconclusive));
    let low = judged(&[steady(0.62), steady(0.58), steady(0.6)]);
    assert_eq!((low.attempts, low.assessment.verdict), (3, Verdict::Anomalous));
    // What looks worst of many is measured as often as there are runs, unless that cannot matter.
    let by_chance = judged(&[steady(0.35), steady(0.65), steady(0.7)]);
    assert_eq!((by_chance.attempts, by_chance.assessment.verdict), (3, Verdict::Anomalous));
    assert!(!shows_again(&workload(), &bounds, &by_chance.measurement));
}

#[test]
fn a_verdict_on_a_machine_that_changes_is_relative_to_simple_traffic() {
    let bounds = Bounds { run_to_run: Some(0.15), reference_pps: Some(1e6), ..bounds() };
    let judged = |script: &[Measurement]| {
        let measure = |_: &Workload, attempt: u32| Ok::<_, &str>(script.get(attempt as usize).cloned());
        measure_judged(&workload(), &bounds, measure).expect("it never fails")
    };
    let steady = |share: f64| of(&[share; 4], &[]);
    let slow = |share: f64| Measurement { capacity: Some(0.5), ..steady(share) };
    // All traffic is slower than when the bounds were calibrated.
    let healthy = judged(&[steady(0.5), slow(0.5), slow(0.5)]);
    assert_eq!((healthy.attempts, healthy.assessment.verdict), (3, Verdict::Healthy));
    let low = judged(&[steady(0.1), slow(0.1)]);
    assert_eq!((low.attempts, low.assessment.verdict), (2, Verdict::Anomalous));
    let severity = Severity::of(&workload(), &bounds, &low.measurement).expect("samples");
    assert!((severity.port_lost - 0.8).abs() < 1e-9, "{severity:?}");
    assert!(!shows_again(&workload(), &bounds, &slow(0.3)) && shows_again(&workload(), &bounds, &slow(0.2)));
    // Nobody knows what the machine can do meanwhile.
    let unknown = judged(&[steady(0.1), steady(0.1), steady(0.1)]);
    assert_eq!((unknown.attempts, unknown.assessment.inconclusive), (3, Some(Inconclusive::Marginal)));
    let then_nothing = judged(&[steady(0.5), Measurement { capacity: Some(0.5), ..of(&[], &[]) }, of(&[], &[])]);
    assert_ne!(then_nothing.assessment.verdict, Verdict::Anomalous);
    let faster = Measurement { capacity: Some(1.5), ..steady(0.9) };
    assert_eq!(bounds.beside(&faster), Bounds { max_pps: 150e6, ..bounds }, "a line is no faster than its rate");
}

/// Samples that use this share of the line, with send queues that were full for these shares of the time.
fn posted(share: f64, full: [f64; 4]) -> Measurement {
    let mut measurement = of(&[share; 4], &[]);
    for (sample, ratio) in measurement.samples.iter_mut().zip(full) {
        sample.counters.a.insert(crate::counters::SEND_QUEUE_FULL.to_owned(), ratio);
    }
    measurement
}

#[test]
fn what_is_clear_today_may_not_show_on_another_day() {
    let shows = |run_to_run, share| shows_again(&workload(), &Bounds { run_to_run, ..bounds() }, &of(&[share; 4], &[]));
    assert!(shows(None, 0.79) && shows(Some(0.22), 0.34) && shows(Some(0.15), 0.46) && shows(Some(0.03), 0.72));
    assert!(!shows(Some(0.22), 0.36) && !shows(Some(0.15), 0.47) && !shows(Some(0.03), 0.73));
    let shows =
        |samples: &[f64]| shows_again(&workload(), &Bounds { run_to_run: Some(0.03), ..bounds() }, &of(samples, &[]));
    assert!(shows(&[0.5, 0.52, 0.48, 0.5, 0.51, 0.49]));
    assert!(!shows(&[0.5, 0.7, 0.3, 0.8, 0.2, 0.5]));
    assert!(shows(&[]), "a host that fails gives no sample");
    let kept_full = |run_to_run, runs: &[[f64; 4]]| {
        let samples = runs.iter().flat_map(|ratios| posted(0.2, *ratios).samples).collect();
        let measurement = Measurement { samples, ..Measurement::default() };
        shows_again(&workload(), &Bounds { run_to_run: Some(run_to_run), ..bounds() }, &measurement)
    };
    let high = [0.85, 0.95, 0.9, 0.8];
    assert!(kept_full(0.15, &[high]));
    assert!(!kept_full(0.15, &[[0.6, 0.75, 0.7, 0.65]]), "a later run may be posted too slowly");
    assert!(kept_full(0.03, &[high; 3]));
    assert!(!kept_full(0.03, &[high, high, [0.83, 0.93, 0.46, 0.81]]), "one sample was posted too slowly");
}

#[test]
fn what_shows_again_is_anomalous_nine_times_of_ten_on_another_day() {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{ChiSquared, Distribution, LogNormal};
    let mut random = rand_pcg::Pcg64::seed_from_u64(1);
    for deviation in [0.03, 0.1, 0.22] {
        let noise = |deviation: f64| LogNormal::new(0.0, deviation).expect("it is finite");
        let (run, bound, sample, machine) = (noise(deviation), noise(BOUND * deviation), noise(0.1), noise(0.3));
        // One day's verdict of a workload that attains `truth` in the mean, and whether it is to be expected again. By
        // how much runs differ is known from one size of messages, three rounds or five; the machine may be another
        // since.
        let day = |truth: f64, random: &mut rand_pcg::Pcg64| {
            let mut estimate = |freedom: f64| {
                let squares: f64 = ChiSquared::new(freedom).expect("it is above 0").sample(random);
                deviation * (squares / freedom).sqrt()
            };
            let three_rounds = estimate(4.0);
            let run_to_run = Some(if three_rounds > 0.1 { estimate(8.0) } else { three_rounds });
            let bounds = Bounds { run_to_run, reference_pps: Some(1.0), ..bounds() };
            let is_unsteady = bounds.unsteady_reference().is_some();
            let machine = if is_unsteady { machine.sample(random) } else { 1.0 };
            let calibrated = bound.sample(random);
            let measure = |_: &Workload, attempt: u32| {
                let mean = truth * machine * run.sample(random) / calibrated;
                let shares: Vec<f64> = (0..4).map(|_| mean * sample.sample(random)).collect();
                let capacity = (is_unsteady && attempt > 0).then(|| machine * bound.sample(random) / calibrated);
                Ok::<_, &str>(Some(Measurement { capacity, ..of_packets(&shares) }))
            };
            let judged = measure_judged(&workload(), &bounds, measure).expect("it never fails");
            let is_anomalous = judged.assessment.verdict == Verdict::Anomalous;
            (is_anomalous, is_anomalous && shows_again(&workload(), &bounds, &judged.measurement))
        };
        let (mut findings, mut anomalous) = (0, 0);
        for _ in 0..1000 {
            let truth = random.random_range(0.15..1.0);
            if day(truth, &mut random).1 {
                findings += 1;
                anomalous += (0..10).filter(|_| day(truth, &mut random).0).count();
            }
        }
        println!("{deviation}: {anomalous} of 10 times {findings}");
        assert!(findings > 150 && anomalous >= findings * 9, "{deviation}: {anomalous} of 10 times {findings}");
    }
}

#[test]
fn who_posts_hardly_enough_is_measured_again() {
    let full = |ratios: [f64; 4]| posted(0.4, ratios);
    assert_eq!(judged(&[full([0.9; 4])]).assessment.verdict, Verdict::Anomalous);
    assert_eq!(judged(&[full([0.1; 4])]).assessment.verdict, Verdict::Healthy);
    let near = full([0.45, 0.6, 0.48, 0.56]);
    let enough = judged(&[near.clone(), full([0.7; 4]), full([0.8; 4])]);
    assert!(enough.attempts > 1 && enough.assessment.verdict == Verdict::Anomalous, "{enough:?}");
    assert_eq!(judged(&[near.clone(), near.clone(), near]).assessment.inconclusive, Some(Inconclusive::Marginal));
}

#[test]
fn unstable_traffic_needs_a_second_run() {
    let (unstable, high) = (of(&[0.3, 0.85, 0.35, 0.3], &[]), of(&[0.7, 1.0, 1.1, 0.75], &[]));
    let low = judged(&[unstable.clone(), of(&[0.3, 0.35, 0.4, 0.3], &[])]);
    assert_eq!((low.attempts, low.assessment.verdict), (2, Verdict::Anomalous));
    let torn = judged(&[unstable.clone(), high.clone(), high]);
    assert_eq!((torn.attempts, torn.assessment.inconclusive), (3, Some(Inconclusive::Marginal)));
    let measure = |_: &Workload, attempt: u32| Ok::<_, &str>((attempt == 0).then(|| unstable.clone()));
    let once = measure_judged(&workload(), &bounds(), measure).expect("it never fails");
    assert!(matches!(once.assessment.inconclusive, Some(Inconclusive::Unstable { .. })), "{once:?}");
}
