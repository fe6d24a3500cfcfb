//! What is said of the nodes of a fleet by units: who is out, unknown or in, and what is asked next.

use kelpie_criteria::{
    Better, Criteria, Criterion, Direction, FleetJudge, FleetState, HostFailure, LearnOptions, Norm, Outcome, Unit,
    UnitKey, UnitValue,
};

fn hosts(count: usize) -> Vec<String> {
    (1..=count).map(|host| format!("n{host}")).collect()
}

fn unit(check: &str, hosts: &[&str], values: &[(&str, Option<&str>, f64)]) -> Unit {
    let value = |(from, to, value): &(&str, Option<&str>, f64)| UnitValue {
        metric: check.to_owned(),
        unit: "Gb/s".to_owned(),
        better: Better::Higher,
        from: (*from).to_owned(),
        to: to.map(str::to_owned),
        samples: vec![*value],
    };
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    let key = UnitKey { check: check.to_owned(), hosts, component: String::new() };
    Unit { key, outcome: Outcome::Values(values.iter().map(value).collect()), seconds: 1.0 }
}

fn pair(one: &str, other: &str, there: f64, back: f64) -> Unit {
    unit("pair", &[one, other], &[(one, Some(other), there), (other, Some(one), back)])
}

fn failed(host: &str, with: &str) -> Unit {
    let outcome = Outcome::Failed(HostFailure { host: host.to_owned(), reason: "no answer".to_owned() });
    Unit { outcome, ..pair(host, with, 0.0, 0.0) }
}

fn judge<'u>(hosts: &'u [String], units: &'u [Unit]) -> FleetJudge<'u> {
    FleetJudge::new(hosts, units, &Criteria::default(), &LearnOptions::default()).expect("sound options")
}

#[test]
fn a_slow_host_is_out_when_it_was_slow_twice_and_its_partners_are_in() {
    let hosts = hosts(6);
    let mut units = vec![pair("n1", "n2", 50.0, 98.0), pair("n3", "n4", 98.0, 97.0), pair("n5", "n6", 98.0, 98.0)];
    for _ in 0..3 {
        let questions = judge(&hosts, &units).questions();
        for UnitKey { hosts, .. } in questions {
            let sends = |host: &str| if host == "n1" { 50.0 } else { 98.0 };
            units.push(pair(&hosts[0], &hosts[1], sends(&hosts[0]), sends(&hosts[1])));
        }
    }
    let verdict = judge(&hosts, &units).verdict();
    let fault = &verdict.nodes["n1"].faults[0];
    assert_eq!(fault.measured.as_ref().map(|measured| (measured.got, measured.want)), Some((50.0, 98.0)));
    assert!(fault.detail.starts_with("when it sends, with "), "{}", fault.detail);
    assert_eq!((verdict.count(FleetState::Out), verdict.count(FleetState::In)), (1, 5), "{verdict:#?}");
    assert!(units.len() < 10, "{}", units.len());
}

#[test]
fn what_is_slow_once_and_well_the_second_time_is_no_fault() {
    let hosts = hosts(4);
    let slow = [unit("m", &["n1"], &[("n1", None, 5.0)])];
    let well: Vec<Unit> = hosts.iter().map(|host| unit("m", &[host], &[(host, None, 10.0)])).collect();
    let units: Vec<Unit> = slow.into_iter().chain(well).collect();
    assert!(judge(&hosts, &units).questions().is_empty());
    assert_eq!(judge(&hosts, &units).verdict().count(FleetState::In), 4);
}

#[test]
fn who_does_not_answer_is_out_who_answered_again_is_unknown_and_who_was_not_measured_too() {
    let hosts = hosts(6);
    let units = [
        failed("n1", "n2"),
        failed("n3", "n4"),
        pair("n3", "n4", 9.0, 9.0),
        pair("n2", "n4", 9.0, 9.0),
        pair("n2", "n5", 9.0, 9.0),
        pair("n4", "n5", 9.0, 9.0),
        pair("n3", "n5", 9.0, 9.0),
        pair("n2", "n3", 9.0, 9.0),
    ];
    let verdict = judge(&hosts, &units).verdict();
    let states: Vec<FleetState> = verdict.nodes.values().map(|node| node.state).collect();
    let [inside, out, unknown] = [FleetState::In, FleetState::Out, FleetState::Unknown];
    assert_eq!(states, [out, inside, unknown, inside, inside, unknown]);
    assert_eq!(verdict.nodes["n1"].faults[0].detail, "no answer");
}

#[test]
fn a_host_whose_partner_died_is_measured_with_others() {
    let hosts = hosts(5);
    let mut units = vec![failed("n1", "n2"), pair("n3", "n4", 9.0, 9.0), pair("n3", "n5", 9.0, 9.0)];
    units.push(pair("n4", "n5", 9.0, 9.0));
    let partners: Vec<Vec<String>> = judge(&hosts, &units).questions().into_iter().map(|key| key.hosts).collect();
    assert_eq!(partners, [["n2", "n3"], ["n2", "n4"]]);
    assert_eq!(judge(&hosts, &units).verdict().nodes["n2"].state, FleetState::Unknown);
    units.extend(["n3", "n4", "n5"].map(|partner| pair("n2", partner, 9.0, 9.0)));
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!((verdict.count(FleetState::In), verdict.count(FleetState::Out)), (4, 1), "{verdict:#?}");
}

#[test]
fn a_slow_pair_of_two_fast_hosts_is_a_slow_path_and_nobody_is_out() {
    let hosts = hosts(4);
    let all = [("n1", "n2"), ("n1", "n3"), ("n1", "n4"), ("n2", "n3"), ("n2", "n4"), ("n3", "n4")];
    let slow = |one: &str, other: &str| if (one, other) == ("n1", "n2") { 5.0 } else { 9.0 };
    let units: Vec<Unit> =
        all.iter().chain(&all[..1]).map(|(one, other)| pair(one, other, slow(one, other), 9.0)).collect();
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!((verdict.between[0].hosts[0].as_str(), verdict.between.len()), ("n1", 1));
    assert_eq!((verdict.count(FleetState::Out), verdict.count(FleetState::Unknown)), (0, 2));
}

#[test]
fn what_varies_by_itself_has_to_be_slower_to_be_slow() {
    let hosts = hosts(9);
    let of = |speed: &dyn Fn(usize) -> f64| -> Vec<Unit> {
        let unit = |(nth, host): (usize, &String)| unit("m", &[host], &[(host, None, speed(nth))]);
        hosts.iter().enumerate().map(unit).collect()
    };
    let out = |units: &[Unit]| judge(&hosts, units).verdict().count(FleetState::Out);
    let (steady, noisy) = (|nth: usize| 100.0 + nth as f64 / 4.0, |nth: usize| 100.0 + 5.0 * (nth % 5) as f64);
    let with = |speed: fn(usize) -> f64, slow: f64| of(&move |nth| if nth == 8 { slow } else { speed(nth) });
    assert_eq!((out(&with(steady, 90.0)), out(&with(noisy, 90.0)), out(&with(noisy, 50.0))), (1, 0, 1));
    let verdict = judge(&hosts, &of(&noisy)).verdict();
    assert!(verdict.noisy["m"] > 0.1 && judge(&hosts, &of(&steady)).verdict().noisy.is_empty(), "{verdict:?}");
}

#[test]
fn two_hosts_are_too_few_to_learn_from_and_criteria_of_others_serve() {
    let hosts = hosts(2);
    let units = [pair("n1", "n2", 5.0, 9.0)];
    let verdict = judge(&hosts, &units).verdict();
    assert!(verdict.without["pair"].contains("too few"), "{verdict:?}");
    let criterion = Criterion {
        criterion: vec![9.0],
        defects: Vec::new(),
        repeatability: 1.0,
        alpha: 0.95,
        norm: Norm::Xmax,
        floor: None,
        direction: Direction::default(),
    };
    let given = Criteria { metrics: [("pair".to_owned(), criterion)].into() };
    let judge = FleetJudge::new(&hosts, &units, &given, &LearnOptions::default()).expect("sound");
    assert_eq!(judge.questions().len(), 1, "once more");
    assert_eq!(judge.verdict().count(FleetState::Unknown), 2, "nobody says which of the two");
}

#[test]
fn a_check_that_no_host_can_do_says_nothing_of_hosts() {
    let hosts = hosts(3);
    let cannot = |host: &str| {
        let outcome = Outcome::Unsupported(HostFailure { host: host.to_owned(), reason: "no ranks".to_owned() });
        Unit { outcome, ..unit("incast_2", &hosts.iter().map(String::as_str).collect::<Vec<_>>(), &[]) }
    };
    let mut units: Vec<Unit> = hosts.iter().map(|host| unit("m", &[host], &[(host, None, 9.0)])).collect();
    units.extend(hosts.iter().map(|host| cannot(host)));
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!(verdict.count(FleetState::In), 3, "{verdict:?}");
    assert_eq!(verdict.without["incast_2"], "no host can do it: no ranks");
    units.push(unit("incast_2", &["n1", "n2", "n3"], &[("n3", None, 9.0)]));
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!(verdict.count(FleetState::Unknown), 3, "some can: {verdict:?}");
}

/// All pairs of hosts of these speeds, each by its slower end.
fn all_pairs(hosts: &[String], speed: &dyn Fn(&str) -> f64) -> Vec<Unit> {
    let ends = hosts.iter().enumerate().flat_map(|(nth, one)| hosts[nth + 1..].iter().map(move |other| (one, other)));
    let slower = ends.map(|(one, other)| (one, other, speed(one).min(speed(other))));
    slower.map(|(one, other, slower)| pair(one, other, slower, slower)).collect()
}

/// All questions are answered by hosts of these speeds, a pair by its slower end.
fn ask_all(hosts: &[String], mut units: Vec<Unit>, speed: &dyn Fn(&str) -> f64) -> Vec<Unit> {
    for _ in 0..4 {
        for UnitKey { hosts, .. } in judge(hosts, &units).questions() {
            let slower = speed(&hosts[0]).min(speed(&hosts[1]));
            units.push(pair(&hosts[0], &hosts[1], slower, slower));
        }
    }
    units
}

#[test]
fn two_slow_hosts_of_six_are_out_though_two_thirds_of_the_first_pairs_are_slow() {
    let hosts = hosts(6);
    let speed = |host: &str| if ["n1", "n2"].contains(&host) { 50.0 } else { 98.0 };
    let first = vec![pair("n1", "n4", 50.0, 50.0), pair("n2", "n5", 50.0, 50.0), pair("n3", "n6", 98.0, 98.0)];
    assert_eq!(judge(&hosts, &first).verdict().count(FleetState::In), 0, "the middle is a slow pair");
    let verdict = judge(&hosts, &ask_all(&hosts, first, &speed)).verdict();
    let out: Vec<&str> =
        verdict.nodes.iter().filter(|(_, node)| node.state == FleetState::Out).map(|(n, _)| &**n).collect();
    assert_eq!((out, verdict.count(FleetState::In)), (vec!["n1", "n2"], 4), "{verdict:#?}");
}

#[test]
fn one_slow_host_of_three_is_out() {
    let hosts = hosts(3);
    let speed = |host: &str| if host == "n3" { 50.0 } else { 98.0 };
    let first = vec![pair("n1", "n2", 98.0, 98.0), pair("n2", "n3", 50.0, 50.0)];
    let verdict = judge(&hosts, &ask_all(&hosts, first, &speed)).verdict();
    assert_eq!(verdict.nodes["n3"].state, FleetState::Out, "{verdict:#?}");
    assert_eq!(verdict.count(FleetState::In), 2);
}

#[test]
fn nobody_is_in_by_a_metric_of_which_half_would_not_show() {
    let hosts = hosts(4);
    let speeds = [100.0, 60.0, 45.0, 30.0];
    let unit = |(host, speed): (&String, f64)| unit("m", &[host], &[(host, None, speed)]);
    let units: Vec<Unit> = hosts.iter().zip(speeds).map(unit).collect();
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!(verdict.count(FleetState::In), 0, "{verdict:#?}");
    assert!(verdict.nodes["n2"].unsure[0].starts_with("m: hosts differ so much"), "{verdict:#?}");
}

#[test]
fn a_metric_that_is_missing_or_in_another_unit_leaves_its_host_unknown() {
    let hosts = hosts(5);
    let all = |host: &str| {
        let mut both = unit("c", &[host], &[(host, None, 9.0), (host, None, 9.0)]);
        let Outcome::Values(values) = &mut both.outcome else { panic!("values") };
        ["c.a", "c.b"].into_iter().zip(&mut *values).for_each(|(name, value)| name.clone_into(&mut value.metric));
        match host {
            "n1" => drop(values.pop()),
            "n2" => "MB/s".clone_into(&mut values[1].unit),
            _ => {}
        }
        both
    };
    let units: Vec<Unit> = hosts.iter().map(|host| all(host)).collect();
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!(verdict.nodes["n1"].unsure, ["c.b is missing, which most others have"]);
    assert_eq!(verdict.nodes["n2"].unsure[0], "c.b is in `MB/s` and not in `Gb/s` as of others");
    assert_eq!((verdict.count(FleetState::In), verdict.count(FleetState::Unknown)), (3, 2), "{verdict:#?}");
}

#[test]
fn an_agent_that_is_busy_does_not_make_its_check_impossible() {
    let hosts = hosts(4);
    let mut units: Vec<Unit> = hosts.iter().map(|host| unit("m", &[host], &[(host, None, 9.0)])).collect();
    let reason = format!("{}it serves another controller", kelpie_criteria::NOT_ASKED);
    let busy = Outcome::Unsupported(HostFailure { host: "n1".to_owned(), reason });
    units.push(Unit { outcome: busy, ..pair("n1", "n2", 0.0, 0.0) });
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!((verdict.count(FleetState::In), verdict.without.len()), (2, 0), "{verdict:#?}");
    units.extend(all_pairs(&hosts, &|_| 9.0));
    assert_eq!(judge(&hosts, &units).verdict().count(FleetState::In), 4, "it was asked later");
}

#[test]
fn those_whose_partners_all_died_are_measured_with_each_other() {
    let hosts = hosts(4);
    let units = [failed("n1", "n2"), failed("n3", "n4")];
    let next: Vec<Vec<String>> = judge(&hosts, &units).questions().into_iter().map(|key| key.hosts).collect();
    assert_eq!(next, [["n2", "n4"]]);
}

#[test]
fn a_host_with_none_but_slow_partners_is_unknown_until_others_tell() {
    let hosts = hosts(6);
    let mut units = vec![pair("n3", "n4", 9.0, 9.0), pair("n5", "n6", 9.0, 9.0), pair("n3", "n6", 9.0, 9.0)];
    units.extend([pair("n1", "n2", 4.0, 4.0), pair("n1", "n3", 4.0, 4.0), pair("n1", "n5", 4.0, 4.0)]);
    units.extend([pair("n4", "n5", 9.0, 9.0), pair("n4", "n6", 9.0, 9.0)]);
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!([verdict.nodes["n1"].state, verdict.nodes["n2"].state], [FleetState::Out, FleetState::Unknown]);
    assert!(judge(&hosts, &units).questions().iter().any(|key| key.hosts.contains(&"n2".to_owned())));
}

#[test]
fn a_floor_holds_beside_criteria_and_one_of_an_unknown_metric_is_said() {
    let hosts = hosts(3);
    let units: Vec<Unit> = hosts.iter().map(|host| unit("m", &[host], &[(host, None, 9.0)])).collect();
    let of_run = judge(&hosts, &units).verdict().criteria;
    let options =
        LearnOptions { floors: [("m".to_owned(), 10.0), ("typo".to_owned(), 1.0)].into(), ..LearnOptions::default() };
    let verdict = FleetJudge::new(&hosts, &units, &of_run, &options).expect("sound").verdict();
    assert_eq!(verdict.count(FleetState::Out), 3, "{verdict:#?}");
    assert!(verdict.without["typo"].contains("nothing of this name"), "{verdict:#?}");
}

#[test]
fn a_criterion_in_another_unit_is_not_used() {
    let hosts = hosts(3);
    let units: Vec<Unit> = hosts.iter().map(|host| unit("m", &[host], &[(host, None, 9.0)])).collect();
    let mut given = judge(&hosts, &units).verdict().criteria;
    given.metrics.get_mut("m").expect("learnt").direction.unit = "GB/s".to_owned();
    let verdict = FleetJudge::new(&hosts, &units, &given, &LearnOptions::default()).expect("sound").verdict();
    assert_eq!(verdict.count(FleetState::Unknown), 3, "{verdict:#?}");
}

#[test]
fn when_nobody_answers_the_controller_may_be_cut_off_and_nobody_is_out() {
    let hosts = hosts(4);
    let units = [failed("n1", "n2"), failed("n2", "n1"), failed("n3", "n4"), failed("n4", "n3")];
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!(verdict.count(FleetState::Unknown), 4, "{verdict:#?}");
    assert!(verdict.nodes["n1"].unsure[0].contains("controller's network"), "{verdict:#?}");
}

/// The states of hosts of these rates, all of whose pairs were measured, and that move so much through themselves.
fn states(rates: &[f64], loopback: Option<f64>, options: &LearnOptions) -> Vec<FleetState> {
    let hosts = hosts(rates.len());
    let speed = |host: &str| rates[host[1..].parse::<usize>().expect("a number") - 1];
    let mut units = all_pairs(&hosts, &speed);
    let alone = |host: &String| unit("loopback_write", &[host], &[(host, None, loopback.unwrap_or_default())]);
    units.extend(hosts.iter().filter(|_| loopback.is_some()).map(alone));
    for _ in 0..4 {
        let judge = FleetJudge::new(&hosts, &units, &Criteria::default(), options).expect("sound options");
        for UnitKey { hosts, .. } in judge.questions() {
            let slower = speed(&hosts[0]).min(speed(&hosts[1]));
            units.push(pair(&hosts[0], &hosts[1], slower, slower));
        }
    }
    let judge = FleetJudge::new(&hosts, &units, &Criteria::default(), options).expect("sound options");
    judge.verdict().nodes.into_values().map(|node| node.state).collect()
}

#[test]
fn half_of_a_small_fleet_or_more_that_may_be_slow_leaves_nobody_in_and_no_healthy_host_out() {
    let [inside, out, unknown] = [FleetState::In, FleetState::Out, FleetState::Unknown];
    for count in 3..=8_usize {
        for slow in 0..count {
            let rates: Vec<f64> = (0..count).map(|host| if host < slow { 50.0 } else { 100.0 }).collect();
            let expected = |host: usize| match slow {
                // Two slow ones of three would make the same of all pairs as none.
                0 if count == 3 => unknown,
                _ if 2 * slow >= count && slow + 1 < count => unknown,
                // All pairs are slow, as if all hosts were alike.
                _ if slow + 1 == count && count == 3 => unknown,
                _ if slow + 1 == count => inside,
                _ if host < slow => out,
                _ => inside,
            };
            let states = states(&rates, None, &LearnOptions::default());
            assert_eq!(states, (0..count).map(expected).collect::<Vec<_>>(), "{slow} slow ones of {count}");
        }
    }
    // What NICs move through themselves tells the last case from health, and three hosts that are well.
    for count in 3..=8 {
        let mut rates = vec![50.0; count];
        rates[0] = 100.0;
        assert_eq!(states(&rates, Some(200.0), &LearnOptions::default()), vec![unknown; count]);
        assert_eq!(states(&vec![180.0; count], Some(200.0), &LearnOptions::default()), vec![inside; count]);
    }
    assert_eq!(states(&[50.0; 9], Some(200.0), &LearnOptions::default()), vec![inside; 9], "a slower network");
}

#[test]
fn partners_of_a_host_that_is_a_little_slow_are_in() {
    let [inside, out] = [FleetState::In, FleetState::Out];
    assert_eq!(states(&[77.0, 100.0, 100.0], None, &LearnOptions::default()), [out, inside, inside]);
}

#[test]
fn a_floor_tells_what_a_small_fleet_cannot() {
    let [inside, out, unknown] = [FleetState::In, FleetState::Out, FleetState::Unknown];
    let options = |floor: f64| LearnOptions { floors: [("pair".to_owned(), floor)].into(), ..LearnOptions::default() };
    assert_eq!(states(&[50.0, 50.0, 100.0, 100.0], None, &options(90.0)), [out, out, inside, inside]);
    assert_eq!(states(&[100.0; 3], None, &options(90.0)), [inside; 3]);
    assert_eq!(states(&[100.0; 2], None, &options(90.0)), [inside; 2]);
    assert_eq!(states(&[100.0, 50.0], None, &options(90.0)), [unknown; 2], "one of both is slow");
    let hosts = hosts(3);
    let units = all_pairs(&hosts, &|_| 50.0);
    let error = FleetJudge::new(&hosts, &units, &Criteria::default(), &options(90.0)).expect_err("none reaches it");
    assert!(error.to_string().starts_with("pair: 3 of 3 nodes are below"), "{error}");
}

#[test]
fn hosts_that_are_slow_with_each_other_alone_are_not_told_apart() {
    let (all, three) = (hosts(4), hosts(3));
    let of_others = judge(&all, &all_pairs(&all, &|_| 100.0)).verdict().criteria;
    // Nothing says that the first is the one that is well.
    let units = all_pairs(&three, &|host| if host == "n1" { 100.0 } else { 50.0 });
    let judge = FleetJudge::new(&three, &units, &of_others, &LearnOptions::default()).expect("sound");
    let verdict = judge.verdict();
    assert_eq!(verdict.count(FleetState::Unknown), 3, "{verdict:#?}");
}

#[test]
fn hosts_of_several_leaves_that_are_fast_with_those_of_others_make_the_middle_of_a_leaf_doubtful() {
    let hosts = hosts(8);
    // Each leaf has a slow host and another one.
    let number = |host: &str| host[1..].parse::<usize>().expect("a number") - 1;
    let speed = |host: &str| if number(host).is_multiple_of(2) { 50.0 } else { 100.0 };
    let mut units = all_pairs(&hosts, &speed);
    for unit in &mut units {
        let [one, other] = [&unit.key.hosts[0], &unit.key.hosts[1]].map(|host| number(host) / 2);
        let Outcome::Values(values) = &mut unit.outcome else { panic!("values") };
        let distance = if one == other { "leaf" } else { "pod" };
        for value in values {
            value.metric = format!("pair.{distance}");
        }
    }
    let verdict = judge(&hosts, &units).verdict();
    assert_eq!(verdict.count(FleetState::Unknown), 8, "{verdict:#?}");
}
