//! C4P's checks of dual-port NICs, from readings of both ends: links, pairing, balance, diversity, collision, loss,
//! failover; and what the ports themselves are. Who takes the readings is elsewhere.
//!
//! Source: C4 (HPCA 2025), section III-B, names pairing and balance; the thresholds are ours.

mod contradictions;
mod hardware;
mod readings;

pub use contradictions::contradictions;
use kelpie_monitor::check::{Check, CheckState};
use kelpie_monitor::checks::{CheckKind, Gauge, Repair};
use kelpie_topology::PortSide;
use kelpie_topology::ecmp::FAULTY_LOSS;
use readings::graded;
pub use readings::{EndReading, Failover, Mode, PortReading, QpReading, Readings};

/// Share of a port's fair half that bytes may be off before a warning, and before a failure. Source: our choice: five
/// QPs of eight on one port are off by a quarter, six by a half.
const UNEVEN: [f64; 2] = [0.15, 0.40];
/// Both ports together should carry this many times one alone; below the second it is a failure. Source: our choice: 2
/// is ideal, 1 is a collision.
const TOGETHER: [f64; 2] = [1.8, 1.5];
/// Fewest QPs that all cross, by both ports, because cables are swapped. Source: our choice; the evidence says how
/// often chance does the same.
const SWAPPED: usize = 2;
/// Share of what PCIe carries that is all of it, with the headers of its packets. Source: our choice.
const ALL_OF_PCIE: f64 = 0.85;
/// Longest gap of a failover. Units: milliseconds. Source: our choice, ten times the usual `miimon`.
const GAP_MS: u64 = 1000;

/// One check of one direction, of its readings.
type PortCheck = fn(&Readings) -> Check;

/// All checks of one direction.
pub fn checks(readings: &Readings) -> Vec<Check> {
    let nothing = match (readings.mode, &readings.lag_refused) {
        (Mode::SinglePort, _) => Some("there is one port".to_owned()),
        (Mode::ActiveBackup, _) => Some("active-backup uses one port at a time".to_owned()),
        (Mode::QueueAffinity, Some(reason)) => {
            Some(format!("the device deals QPs out to its ports, and none can be put on a LAG port: {reason}"))
        }
        (Mode::Hash | Mode::QueueAffinity, _) => None,
    };
    let all: [(CheckKind, PortCheck); 13] = [
        (CheckKind::Links, links),
        (CheckKind::Speed, hardware::speed),
        (CheckKind::PortPcie, hardware::pcie),
        (CheckKind::PortErrors, hardware::errors),
        (CheckKind::PortPause, hardware::pause),
        (CheckKind::PortMtu, hardware::mtu),
        (CheckKind::Lacp, hardware::lacp),
        (CheckKind::Pairing, pairing),
        (CheckKind::Balance, balance),
        (CheckKind::Diversity, diversity),
        (CheckKind::Collision, collision),
        (CheckKind::Loss, loss),
        (CheckKind::Failover, failover),
    ];
    let steered = [CheckKind::Pairing, CheckKind::Balance, CheckKind::Diversity, CheckKind::Collision];
    let check = |(kind, check): (CheckKind, PortCheck)| match &nothing {
        // Ports are what they are in any mode, and a path can lose packets.
        Some(reason)
            if steered.contains(&kind) || (kind == CheckKind::Failover && readings.mode == Mode::SinglePort) =>
        {
            Check::new(kind, CheckState::NotApplicable, reason.as_str())
        }
        _ => check(readings),
    };
    let mut checks: Vec<Check> = all.into_iter().map(check).collect();
    follow(readings, &mut checks);
    checks.into_iter().map(|check| check.about(readings.about.as_str())).collect()
}

/// Takes back what only follows from a cause that another check names: whoever mends the cause mends it as well, and a
/// second repair would be the wrong one.
fn follow(readings: &Readings, checks: &mut [Check]) {
    use CheckKind::{Balance, Collision, Diversity, Links, Pairing, PortPause, Speed};
    let fails = |checks: &[Check], kind: CheckKind| {
        checks.iter().any(|check| check.name == kind.name() && check.state == CheckState::Fail)
    };
    let take_back = |checks: &mut [Check], kinds: &[CheckKind], cause: CheckKind| {
        let is_consequence = |check: &Check| {
            kinds.iter().any(|kind| kind.name() == check.name)
                && matches!(check.state, CheckState::Warn | CheckState::Fail)
        };
        for check in checks.iter_mut().filter(|check| is_consequence(check)) {
            check.state = CheckState::Unknown;
            check.summary = format!("follows from `{}`: look again when that is mended", cause.name());
            check.fix = None;
        }
    };
    if fails(checks, Links) {
        return take_back(checks, &[Pairing, Balance, Diversity, Collision], Links);
    }
    let slower = if fails(checks, Speed) { Some(hardware::sides(readings, false)) } else { None };
    let paused = if fails(checks, PortPause) { Some(hardware::sides(readings, true)) } else { None };
    for (cause, sides) in [(Speed, slower.flatten()), (PortPause, paused.flatten())] {
        let Some([left, right]) = sides.filter(|[left, right]| left.max(*right) > 0.0) else { continue };
        // What both ports carry beside the faster one alone, if each carries all that it has.
        let most = (left + right) / left.max(right);
        let times = readings.alone_bps.filter(|alone| *alone > 0.0).zip(readings.together_bps);
        if most < TOGETHER[0] && times.is_some_and(|(alone, both)| both / alone >= most * TOGETHER[0] / 2.0) {
            take_back(checks, &[Collision], cause);
        }
        let is_fair = |[of_left, of_right]: [u64; 2]| {
            let [one, other] =
                [of_left as f64 / left.max(f64::MIN_POSITIVE), of_right as f64 / right.max(f64::MIN_POSITIVE)];
            (one - other).abs() / (one + other) < UNEVEN[0]
        };
        let bytes: Vec<[u64; 2]> = [readings.sent_bytes, readings.received_bytes].into_iter().flatten().collect();
        if !bytes.is_empty() && bytes.into_iter().all(is_fair) {
            take_back(checks, &[Balance], cause);
        }
    }
}

/// Whether checks without a failure rest on what was read: links, speed, pairing, balance and collision are known, or
/// there is nothing of the kind.
pub fn is_known(checks: &[Check]) -> bool {
    use CheckKind::{Balance, Collision, Links, Pairing, Speed};
    let decides =
        |check: &Check| [Links, Speed, Pairing, Balance, Collision].iter().any(|kind| kind.name() == check.name);
    !checks.iter().any(|check| check.state == CheckState::Unknown && decides(check))
}

/// What sets QPs apart.
fn steer(check: Check, readings: &Readings) -> Check {
    let repair = if readings.mode == Mode::QueueAffinity { Repair::Deal } else { Repair::Steer };
    check.repair(repair, &[])
}

fn links(readings: &Readings) -> Check {
    let check = match readings.down.as_deref() {
        None => Check::new(CheckKind::Links, CheckState::Unknown, "whether all ports are up was not read"),
        Some([]) => {
            Check::new(CheckKind::Links, CheckState::Pass, "all ports are up").seen("ports that are down", "none")
        }
        Some(down) => Check::new(CheckKind::Links, CheckState::Fail, "a port is down, and the other has all traffic")
            .seen(
                "ports that are down",
                down.iter().map(|port| hardware::named(readings, port)).collect::<Vec<_>>().join(", "),
            )
            .repair(Repair::LookAtPort, &[]),
    };
    let down = readings.down.as_ref().map(|down| down.len() as f64);
    down.into_iter().fold(check, |check, down| check.measured(Gauge::PortsDown, down, 0.0))
}

fn pairing(readings: &Readings) -> Check {
    let seen: Vec<(PortSide, PortSide)> =
        readings.qps.iter().filter_map(|qp| Some((qp.leaves?, qp.arrives?))).collect();
    let crossed = seen.iter().filter(|(leaves, arrives)| leaves != arrives).count();
    let evidence = format!("{crossed} of {} QPs whose two ports were seen", seen.len());
    let leave_by_both = PortSide::BOTH.iter().all(|side| seen.iter().any(|(leaves, _)| leaves == side));
    let are_swapped = crossed == seen.len() && leave_by_both && crossed >= SWAPPED;
    let check = match (seen.len(), crossed) {
        (0, _) => Check::new(CheckKind::Pairing, CheckState::Unknown, "no QP was seen at both ends"),
        (_, 0) if seen.len() < readings.qps.len() => Check::new(
            CheckKind::Pairing,
            CheckState::Unknown,
            "what was seen is paired; some QPs were not seen at both ends",
        ),
        (_, 0) => Check::new(CheckKind::Pairing, CheckState::Pass, "QPs arrive on the side by which they left"),
        _ if are_swapped => Check::new(
            CheckKind::Pairing,
            CheckState::Fail,
            "each QP arrives on the other side, as if the two cables of a host were swapped",
        )
        .repair(Repair::SwapCables, &[]),
        _ => steer(
            Check::new(
                CheckKind::Pairing,
                CheckState::Fail,
                "QPs arrive on the other side, where they meet those that belong there",
            ),
            readings,
        ),
    };
    let check = if seen.is_empty() { check } else { check.measured(Gauge::CrossedQps, crossed as f64, 0.0) };
    let check = check.seen("QPs that cross", evidence);
    match i32::try_from(crossed) {
        Ok(crossed) if are_swapped => {
            check.seen("the same by chance", format!("once in {:.0} pairs", 2_f64.powi(crossed)))
        }
        _ => check,
    }
}

/// Bytes for people.
fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    match [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)].into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

fn balance(readings: &Readings) -> Check {
    let ends = [("sent", readings.sent_bytes), ("received", readings.received_bytes)];
    let off = |bytes: [u64; 2]| {
        let [left, right] = bytes.map(|bytes| bytes as f64);
        (left + right > 0.0).then(|| (left - right).abs() / (left + right))
    };
    let known: Vec<(&str, [u64; 2], f64)> =
        ends.iter().filter_map(|(end, bytes)| Some((*end, (*bytes)?, off((*bytes)?)?))).collect();
    let worst = known.iter().map(|(.., off)| *off).fold(0.0, f64::max);
    let state = graded(worst, UNEVEN);
    let mut check = match (known.len(), state) {
        (_, CheckState::Fail | CheckState::Warn) => {
            steer(Check::new(CheckKind::Balance, state, "one port carries more than the other"), readings)
        }
        (2, _) => Check::new(CheckKind::Balance, CheckState::Pass, "both ports carry the same at both ends"),
        _ => {
            Check::new(CheckKind::Balance, CheckState::Unknown, "bytes of both ports are known of fewer than both ends")
        }
    };
    for (end, [left, right], off) in known {
        let gauge = if end == "sent" { Gauge::SentUneven } else { Gauge::ReceivedUneven };
        check = check.measured(gauge, off, UNEVEN[0]);
        check = check.seen(
            format!("bytes {end}, left and right"),
            format!("{}, {}: {:.0} % off", bytes(left), bytes(right), off * 100.0),
        );
    }
    check
}

fn diversity(readings: &Readings) -> Check {
    let mut ports: Vec<u16> = readings.qps.iter().filter_map(|qp| qp.source_port).collect();
    let known = ports.len();
    ports.sort_unstable();
    ports.dedup();
    let mut ways: Vec<(PortSide, PortSide)> =
        readings.qps.iter().filter_map(|qp| Some((qp.leaves?, qp.arrives?))).collect();
    ways.sort_unstable();
    ways.dedup();
    let check = match (readings.qps.len(), known, ports.len()) {
        (0, ..) => Check::new(CheckKind::Diversity, CheckState::Unknown, "no QPs"),
        (1, ..) => {
            Check::new(CheckKind::Diversity, CheckState::Fail, "one QP uses one port").repair(Repair::UseTwoQps, &[])
        }
        (all, known, _) if known < all => {
            Check::new(CheckKind::Diversity, CheckState::Unknown, "not all source ports are known")
        }
        (_, _, 1) => steer(
            Check::new(CheckKind::Diversity, CheckState::Fail, "all QPs have one source port, so one path"),
            readings,
        ),
        (all, _, distinct) if distinct < all => steer(
            Check::new(CheckKind::Diversity, CheckState::Warn, "some QPs share a source port, so a path"),
            readings,
        ),
        _ if ways.len() == 1 => steer(
            Check::new(CheckKind::Diversity, CheckState::Warn, "all QPs that were seen take one pair of ports"),
            readings,
        ),
        _ => Check::new(CheckKind::Diversity, CheckState::Pass, "each QP has a source port of its own"),
    };
    let evidence = format!("{} among {} QPs, {} pairs of ports seen", ports.len(), readings.qps.len(), ways.len());
    let check = check.measured(Gauge::SourcePorts, ports.len() as f64, readings.qps.len() as f64);
    check.seen("distinct source ports", evidence)
}

fn collision(readings: &Readings) -> Check {
    let (Some(alone), Some(together)) = (readings.alone_bps, readings.together_bps) else {
        return Check::new(
            CheckKind::Collision,
            CheckState::Unknown,
            "one port alone and both together were not both measured",
        );
    };
    if alone <= 0.0 {
        return Check::new(CheckKind::Collision, CheckState::Unknown, "one port alone moved nothing");
    }
    let times = together / alone;
    let evidence = format!("{}, {} alone: {times:.2} times", hardware::gbps(together), hardware::gbps(alone));
    let state = match times {
        _ if times >= TOGETHER[0] => CheckState::Pass,
        _ if times >= TOGETHER[1] => CheckState::Warn,
        _ => CheckState::Fail,
    };
    let pcie = hardware::narrowest_pcie(readings).filter(|(_, carries)| together >= carries * ALL_OF_PCIE);
    let do_meet = [pairing(readings), balance(readings), diversity(readings)]
        .iter()
        .any(|check| check.state > CheckState::Unknown);
    let check = match (state, pcie) {
        (CheckState::Pass, _) => Check::new(CheckKind::Collision, state, "both ports together carry twice one alone"),
        (_, Some((end, carries))) => {
            let carries = hardware::gbps(carries);
            let summary = format!("both ports share the {end}'s PCIe, which carries {carries} and is full");
            Check::new(CheckKind::Collision, state, summary).repair(Repair::MoveNic, &[])
        }
        (CheckState::Fail, None) if do_meet => steer(
            Check::new(CheckKind::Collision, state, "both ports together carry little more than one alone"),
            readings,
        ),
        // QPs that leave and arrive half and half do not meet at a port, whatever their source ports are.
        _ => Check::new(
            CheckKind::Collision,
            state,
            "both ports carry less than twice one alone, though QPs do not meet: something that both share is full",
        )
        .repair(Repair::LookAtShared, &[]),
    };
    check.measured(Gauge::Together, times, TOGETHER[0]).seen("both ports together", evidence)
}

fn loss(readings: &Readings) -> Check {
    let known: Vec<(&QpReading, f64)> = readings.qps.iter().filter_map(|qp| Some((qp, qp.loss?))).collect();
    let lossy: Vec<String> = (known.iter().filter(|(_, loss)| *loss >= FAULTY_LOSS))
        .map(|(qp, loss)| {
            let port = qp.source_port.map_or("unknown".to_owned(), |port| port.to_string());
            let side = |side: Option<PortSide>| side.map_or("?".to_owned(), |side| format!("{side:?}").to_lowercase());
            format!("source port {port} ({} to {}) loses {:.2} %", side(qp.leaves), side(qp.arrives), loss * 100.0)
        })
        .collect();
    let check = match (known.len(), lossy.len()) {
        (_, 1..) => Check::new(CheckKind::Loss, CheckState::Fail, "paths lose packets")
            .seen("paths", lossy.join("; "))
            .repair(Repair::LookAtPaths, &[]),
        (0, _) => Check::new(CheckKind::Loss, CheckState::Unknown, "no loss was measured"),
        (known, _) if known < readings.qps.len() => {
            Check::new(CheckKind::Loss, CheckState::Unknown, "paths that were measured lose nothing; some were not")
        }
        (known, _) => {
            Check::new(CheckKind::Loss, CheckState::Pass, "no path loses packets").seen("paths", known.to_string())
        }
    };
    let worst = known.iter().map(|(_, loss)| *loss).max_by(f64::total_cmp);
    worst.into_iter().fold(check, |check, loss| check.measured(Gauge::WorstLoss, loss, FAULTY_LOSS))
}

fn failover(readings: &Readings) -> Check {
    let Some(failover) = readings.failover else {
        return Check::new(CheckKind::Failover, CheckState::Unknown, "no port was taken down");
    };
    let check = match failover {
        Failover { gap_ms: None, .. } => {
            Check::new(CheckKind::Failover, CheckState::Fail, "traffic did not go on when a port went down")
                .repair(Repair::RetryLonger, &[])
        }
        Failover { came_back: Some(false), .. } => {
            Check::new(CheckKind::Failover, CheckState::Fail, "the port had no traffic after it came back")
                .repair(Repair::OpenAgain, &[])
        }
        Failover { gap_ms: Some(gap), .. } if gap > GAP_MS => {
            Check::new(CheckKind::Failover, CheckState::Fail, "traffic went on late: jobs may time out before")
                .repair(Repair::LowerMiimon, &[])
        }
        Failover { came_back: None, .. } => Check::new(
            CheckKind::Failover,
            CheckState::Unknown,
            "traffic went on; whether the port is used again was not waited for",
        ),
        Failover { .. } => {
            Check::new(CheckKind::Failover, CheckState::Pass, "traffic went on, and the port is used again")
        }
    };
    let check =
        failover.gap_ms.into_iter().fold(check, |check, gap| check.measured(Gauge::Gap, gap as f64, GAP_MS as f64));
    check.seen("gap", failover.gap_ms.map_or("did not end".to_owned(), |gap| format!("{gap} ms")))
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::checks::{Better, CHECKS, CheckGroup, GAUGES};

    use super::*;

    fn qp(source_port: u16, leaves: PortSide, arrives: PortSide) -> QpReading {
        QpReading { source_port: Some(source_port), leaves: Some(leaves), arrives: Some(arrives), loss: Some(0.0) }
    }

    fn nic() -> EndReading {
        let port = |name: &str| PortReading {
            name: Some(name.to_owned()),
            speed_bps: Some(2e8),
            capable_bps: Some(2e8),
            agreed_bps: None,
            is_virtual: false,
            errors: Some(0),
            paused: Some(0.0),
            mtu: Some(9000),
            lacp_partner: Some("52:54:00:00:00:01".to_owned()),
        };
        EndReading { pcie_bps: Some(5e8), lacp: Some(true), ports: vec![port("eth0"), port("eth1")] }
    }

    fn port(readings: &mut Readings) -> &mut PortReading {
        &mut readings.receiver.as_mut().expect("it was read").ports[1]
    }

    fn planned() -> Readings {
        use PortSide::{Left, Right};
        Readings {
            about: "a to b".to_owned(),
            mode: Mode::Hash,
            qps: vec![qp(50_000, Left, Left), qp(50_001, Right, Right)],
            sender: Some(nic()),
            receiver: Some(nic()),
            fills_ports: true,
            sent_bytes: Some([1000, 1010]),
            received_bytes: Some([1005, 1005]),
            alone_bps: Some(1.98e8),
            together_bps: Some(3.9e8),
            failover: Some(Failover { gap_ms: Some(300), came_back: Some(true) }),
            down: Some(Vec::new()),
            lag_refused: None,
        }
    }

    type ReadingsChange = fn(&mut Readings);

    fn states(readings: &Readings) -> Vec<(String, CheckState)> {
        checks(readings).into_iter().map(|check| (check.name, check.state)).collect()
    }

    #[test]
    fn every_check_of_the_table_is_judged_with_each_of_its_numbers() {
        let checks = checks(&planned());
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        let of_table = CHECKS.iter().filter(|row| row.group == CheckGroup::Ports);
        assert_eq!(names, of_table.map(|row| row.name).collect::<Vec<_>>());
        for row in GAUGES.iter().filter(|row| row.kind.row().group == CheckGroup::Ports) {
            let check = checks.iter().find(|check| check.name == row.kind.name()).expect("each is judged");
            let found = check.measured.iter().find(|one| one.name == row.name);
            let found = found.unwrap_or_else(|| panic!("{} has no {}", check.name, row.name));
            let limit = found.limit.expect("each check of ports has a limit");
            assert!(
                if row.better == Better::Higher { found.value >= limit } else { found.value <= limit },
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_plan_passes_and_each_fault_fails_its_check_alone() {
        assert!(states(&planned()).iter().all(|(_, state)| *state == CheckState::Pass), "{:?}", states(&planned()));
        let cases: [(&str, ReadingsChange); 16] = [
            ("speed", |readings| port(readings).speed_bps = Some(1e8)),
            ("speed", |readings| {
                for end in [&mut readings.sender, &mut readings.receiver] {
                    for port in &mut end.as_mut().expect("it was read").ports {
                        (port.speed_bps, port.agreed_bps) = (Some(1e8), Some(2e8));
                    }
                }
                (readings.alone_bps, readings.together_bps) = (Some(9.8e7), Some(1.95e8));
            }),
            ("speed", |readings| (readings.alone_bps, readings.together_bps) = (Some(9.8e7), Some(1.95e8))),
            ("pcie", |readings| {
                readings.sender.as_mut().expect("it was read").pcie_bps = Some(2.1e8);
                // Larger ports are not full, and nothing else is wrong.
                readings.fills_ports = false;
                (readings.alone_bps, readings.together_bps) = (Some(9e7), Some(1.7e8));
            }),
            ("errors", |readings| port(readings).errors = Some(40)),
            ("pause", |readings| port(readings).paused = Some(0.3)),
            ("mtu", |readings| port(readings).mtu = Some(1500)),
            ("lacp", |readings| port(readings).lacp_partner = Some("00:00:00:00:00:00".to_owned())),
            ("lacp", |readings| port(readings).lacp_partner = Some("52:54:00:00:00:02".to_owned())),
            ("links", |readings| readings.down = Some(vec!["eth1 of host b".to_owned()])),
            ("pairing", |readings| {
                readings.qps[0].arrives = Some(PortSide::Right);
                readings.qps[1].arrives = Some(PortSide::Left);
            }),
            ("balance", |readings| readings.received_bytes = Some([1900, 110])),
            ("diversity", |readings| readings.qps[1].source_port = Some(50_000)),
            ("collision", |readings| readings.together_bps = Some(2.1e8)),
            ("loss", |readings| readings.qps[1].loss = Some(0.02)),
            ("failover", |readings| readings.failover = Some(Failover { gap_ms: None, came_back: None })),
        ];
        for (name, fault) in cases {
            let mut readings = planned();
            fault(&mut readings);
            for check in checks(&readings) {
                let expected = if check.name == name { CheckState::Fail } else { CheckState::Pass };
                assert_eq!(check.state, expected, "{name}: {check:?}");
                assert_eq!(check.fix.is_some(), check.name == name, "{check:?}");
                assert!(!check.evidence.is_empty(), "{check:?}");
            }
        }
    }

    #[test]
    fn what_was_not_seen_is_unknown_and_what_cannot_be_is_not_applicable() {
        let nothing = Readings {
            sender: None,
            receiver: None,
            qps: Vec::new(),
            sent_bytes: None,
            received_bytes: None,
            alone_bps: None,
            together_bps: None,
            failover: None,
            down: None,
            ..planned()
        };
        assert!(states(&nothing).iter().all(|(_, state)| *state == CheckState::Unknown));
        let refused = || Some("no such call".to_owned());
        for (mode, lag_refused, applicable) in [
            (Mode::ActiveBackup, None, 9),
            (Mode::SinglePort, None, 8),
            (Mode::QueueAffinity, refused(), 9),
            (Mode::QueueAffinity, None, 13),
            // A hash needs no LAG port.
            (Mode::Hash, refused(), 13),
        ] {
            let states = states(&Readings { mode, lag_refused, ..planned() });
            let there = states.iter().filter(|(_, state)| *state != CheckState::NotApplicable).count();
            assert_eq!(there, applicable, "{states:?}");
        }
    }

    fn fix(readings: &Readings, name: &str) -> (CheckState, String) {
        let check = checks(readings).into_iter().find(|check| check.name == name).expect("each is judged");
        (check.state, format!("{} {}", check.summary, check.fix.unwrap_or_default()))
    }

    #[test]
    fn what_is_no_matter_of_source_ports_is_not_mended_by_them() {
        use PortSide::{Left, Right};
        // The bytes are even and no QP crosses, so QPs do not meet.
        let mut shared = Readings { together_bps: Some(2.1e8), ..planned() };
        let (state, said) = fix(&shared, "collision");
        assert!(
            state == CheckState::Fail && said.contains("QPs do not meet") && !said.contains("source ports"),
            "{said}"
        );
        shared.receiver.as_mut().expect("it was read").pcie_bps = Some(2.4e8);
        let (state, said) = fix(&shared, "collision");
        assert!(state == CheckState::Fail && said.contains("the receiver's PCIe, which carries 0.2 Gbit/s"), "{said}");
        assert!(said.contains("move the NIC") && !said.contains("source ports"), "{said}");
        // Those that do meet are told to take other ones.
        let met = Readings { sent_bytes: Some([2000, 10]), together_bps: Some(2.1e8), ..planned() };
        assert!(fix(&met, "collision").1.contains("give the QPs other source ports"));
        let swapped = Readings { qps: vec![qp(50_000, Left, Right), qp(50_001, Right, Left)], ..planned() };
        assert!(fix(&swapped, "pairing").1.contains("cables of a host were swapped"));
        let by_chance = Readings { qps: vec![qp(50_000, Left, Right), qp(50_001, Right, Right)], ..planned() };
        assert!(fix(&by_chance, "pairing").1.contains("give the QPs other source ports"));
    }

    #[test]
    fn what_follows_from_a_named_cause_has_no_repair_of_its_own() {
        use PortSide::Left;
        let down = Readings {
            qps: vec![qp(50_000, Left, Left), qp(50_001, Left, Left)],
            sent_bytes: Some([2000, 0]),
            received_bytes: Some([2000, 0]),
            together_bps: Some(1.98e8),
            down: Some(vec!["right".to_owned()]),
            ..planned()
        };
        let failed = |readings: &Readings| -> Vec<String> {
            let worse = checks(readings).into_iter().filter(|check| check.state > CheckState::Unknown);
            worse.map(|check| check.name).collect()
        };
        assert_eq!(failed(&down), ["links"]);
        for name in ["balance", "diversity", "collision"] {
            let (state, said) = fix(&down, name);
            assert!(state == CheckState::Unknown && said.starts_with("follows from `links`"), "{name}: {said}");
        }
        let links = checks(&down).remove(0);
        assert!(links.evidence[0].value.contains("sender right (eth1) or receiver right (eth1)"), "{links:?}");
        let mut slow = Readings { together_bps: Some(2.9e8), ..planned() };
        port(&mut slow).speed_bps = Some(1e8);
        assert_eq!(failed(&slow), ["speed"], "half of a port is missing, and is measured to be");
        slow.together_bps = Some(2.2e8);
        assert_eq!(failed(&slow), ["speed", "collision"], "less than the ports have is a fault of its own");
        let mut paused = Readings { together_bps: Some(3.3e8), ..planned() };
        port(&mut paused).paused = Some(0.35);
        assert_eq!(failed(&paused), ["pause"]);
    }

    #[test]
    fn a_gap_of_more_than_a_second_fails() {
        let gap = |gap| Readings { failover: Some(Failover { gap_ms: Some(gap), came_back: Some(true) }), ..planned() };
        assert_eq!([1000, 1001].map(|ms| fix(&gap(ms), "failover").0), [CheckState::Pass, CheckState::Fail]);
    }

    #[test]
    fn speeds_that_nobody_read_leave_the_question_open_and_virtual_ports_have_none() {
        let mut readings = planned();
        for end in [&mut readings.sender, &mut readings.receiver] {
            end.as_mut().expect("it was read").ports.iter_mut().for_each(|port| port.capable_bps = None);
        }
        assert_eq!(fix(&readings, "speed").0, CheckState::Unknown, "all may run at half of what they could");
        assert!(!is_known(&checks(&readings)) && is_known(&checks(&planned())));
        for end in [&mut readings.sender, &mut readings.receiver] {
            for port in &mut end.as_mut().expect("it was read").ports {
                (port.is_virtual, port.speed_bps) = (true, None);
            }
        }
        assert_eq!(fix(&readings, "speed").0, CheckState::NotApplicable);
        assert!(is_known(&checks(&readings)));
    }

    #[test]
    fn a_port_below_its_own_speed_is_a_fault_only_where_its_partner_or_another_port_is_faster() {
        use CheckState::{Fail, Pass, Warn};
        let speed = |agreed: Option<f64>, slower: Option<usize>| {
            let mut readings = Readings { alone_bps: None, together_bps: None, ..planned() };
            for (end, reading) in [&mut readings.sender, &mut readings.receiver].into_iter().enumerate() {
                for (place, port) in reading.as_mut().expect("it was read").ports.iter_mut().enumerate() {
                    let is_slower = slower.is_some_and(|slower| slower == 2 * end + place);
                    (port.capable_bps, port.agreed_bps) = (Some(4e8), agreed);
                    port.speed_bps = Some(if is_slower { 1e8 } else { 2e8 });
                }
            }
            fix(&readings, "speed")
        };
        for (agreed, slower, state, says) in [
            (None, None, Warn, "unless the switch's ports are no faster"),
            (Some(2e8), None, Pass, "as fast as both ends"),
            (Some(4e8), None, Fail, "all ports trained to 50 %"),
            (Some(2e8), Some(3), Fail, "receiver right (eth1) trained to 50 %"),
            (None, Some(0), Fail, "slower than the fastest port: sender left (eth0)"),
        ] {
            let (found, summary) = speed(agreed, slower);
            assert!(found == state && summary.contains(says), "{agreed:?} {slower:?}: {found:?} {summary}");
        }
    }

    #[test]
    fn readings_that_contradict_each_other_are_found_and_true_ones_are_not() {
        assert_eq!(contradictions(&planned()), []);
        let cases: [(&str, ReadingsChange); 14] = [
            ("sent_bytes", |readings| readings.sent_bytes = Some([1800, 200])),
            ("together_bps", |readings| readings.together_bps = Some(4.1e8)),
            ("together_bps", |readings| {
                (readings.sender, readings.receiver, readings.alone_bps) = (None, None, Some(1e8));
            }),
            ("alone_bps", |readings| readings.alone_bps = Some(2.1e8)),
            ("receiver.ports[1].speed_bps", |readings| port(readings).capable_bps = Some(1e8)),
            ("receiver.ports[1].virtual", |readings| port(readings).is_virtual = true),
            ("receiver.pcie_bps", |readings| readings.receiver.as_mut().expect("read").pcie_bps = Some(3e8)),
            ("received_bytes", |readings| readings.received_bytes = Some([4000, 4000])),
            ("received_bytes", |readings| readings.received_bytes = Some([300, 300])),
            ("sent_bytes", |readings| readings.sent_bytes = Some([2010, 0])),
            ("down", |readings| readings.down = Some(vec!["eth1".to_owned()])),
            ("qps[1]", |readings| readings.qps[1].source_port = Some(50_000)),
            ("mode", |readings| readings.mode = Mode::ActiveBackup),
            ("receiver.ports", |readings| readings.receiver.as_mut().expect("read").ports.truncate(1)),
        ];
        for (key, change) in cases {
            let mut readings = planned();
            change(&mut readings);
            let found = contradictions(&readings);
            assert!(found.iter().any(|(at, rule)| at == key && !rule.is_empty()), "{key}: {found:?}");
        }
    }
}
