//! C4P's checks of dual-port NICs, from readings of both ends: links, pairing, balance, diversity, collision, loss,
//! failover.
//! Who takes the readings is elsewhere.
//!
//! Source: C4 (HPCA 2025), section III-B, names pairing and balance; the thresholds are ours.

use kelpie_monitor::check::{Check, State};
use kelpie_monitor::checks::{CheckKind, Gauge, Repair};
use kelpie_topology::Side;
use kelpie_topology::ecmp::FAULTY_LOSS;
use serde::{Deserialize, Serialize};

/// Share of a port's fair half that bytes may be off before a warning, and before a failure. Source: our choice: five
/// QPs of eight on one port are off by a quarter, six by a half.
const UNEVEN: [f64; 2] = [0.15, 0.40];
/// Both ports together should carry this many times one alone; below the second it is a failure. Source: our choice: 2
/// is ideal, 1 is a collision.
const TOGETHER: [f64; 2] = [1.8, 1.5];
/// Longest gap of a failover without a warning. Units: milliseconds. Source: our choice, ten times the usual `miimon`.
const GAP_MS: u64 = 1000;

/// How the bond chooses the port by which a QP leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// There is one port.
    SinglePort,
    /// By a hash of addresses and ports.
    Hash,
    /// By the QP's affinity.
    QueueAffinity,
    /// One port at a time.
    ActiveBackup,
}

/// A QP or a probed source port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QpReading {
    /// UDP source port, if it is known.
    #[serde(default)]
    pub source_port: Option<u16>,
    /// Port by which it leaves, if it was seen.
    #[serde(default)]
    pub leaves: Option<Side>,
    /// Port at which it arrives, if it was seen.
    #[serde(default)]
    pub arrives: Option<Side>,
    /// Share of its packets that were lost, if it was measured.
    #[serde(default)]
    pub loss: Option<f64>,
}

/// A port that went down during traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failover {
    /// How long no traffic moved; none if it never went on. Units: milliseconds.
    pub gap_ms: Option<u64>,
    /// Whether the port had traffic again after it came back; unknown if it was not waited for.
    #[serde(default)]
    pub came_back: Option<bool>,
}

/// What was read of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readings {
    /// Whose traffic, such as `a to b`.
    pub about: String,
    /// How the sender's bond chooses.
    pub mode: Mode,
    /// Its QPs.
    #[serde(default)]
    pub qps: Vec<QpReading>,
    /// Bytes of the sender's ports, left and right.
    #[serde(default)]
    pub sent_bytes: Option<[u64; 2]>,
    /// Bytes of the receiver's ports.
    #[serde(default)]
    pub received_bytes: Option<[u64; 2]>,
    /// Goodput of one port alone. Units: bits/s.
    #[serde(default)]
    pub alone_bps: Option<f64>,
    /// Goodput of both together. Units: bits/s.
    #[serde(default)]
    pub together_bps: Option<f64>,
    /// What came of a port that went down.
    #[serde(default)]
    pub failover: Option<Failover>,
    /// Ports that were down while all this was read; none is an empty list.
    #[serde(default)]
    pub down: Option<Vec<String>>,
    /// If the mode is queue affinity: why no QP can be put on a LAG port; none if it can, or if nobody tried.
    #[serde(default)]
    pub lag_refused: Option<String>,
}

/// One check of one direction, of its readings.
type Judge = fn(&Readings) -> Check;

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
    let all: [(CheckKind, Judge); 7] = [
        (CheckKind::Links, links),
        (CheckKind::Pairing, pairing),
        (CheckKind::Balance, balance),
        (CheckKind::Diversity, diversity),
        (CheckKind::Collision, collision),
        (CheckKind::Loss, loss),
        (CheckKind::Failover, failover),
    ];
    let check = |(kind, check): (CheckKind, Judge)| match &nothing {
        // A path can lose packets, and a port fail, in any mode with a path or two ports.
        Some(reason)
            if !matches!(kind, CheckKind::Loss | CheckKind::Links)
                && (kind != CheckKind::Failover || readings.mode == Mode::SinglePort) =>
        {
            Check::new(kind, State::NotApplicable, reason.as_str())
        }
        _ => check(readings),
    };
    all.into_iter().map(check).map(|check| check.about(readings.about.as_str())).collect()
}

/// What sets QPs apart.
fn steer(check: Check, readings: &Readings) -> Check {
    let repair = if readings.mode == Mode::QueueAffinity { Repair::Deal } else { Repair::Steer };
    check.repair(repair, &[])
}

fn links(readings: &Readings) -> Check {
    let check = match readings.down.as_deref() {
        None => Check::new(CheckKind::Links, State::Unknown, "whether all ports are up was not read"),
        Some([]) => Check::new(CheckKind::Links, State::Pass, "all ports are up").seen("ports that are down", "none"),
        Some(down) => Check::new(CheckKind::Links, State::Fail, "a port is down, and the other has all traffic")
            .seen("ports that are down", down.join(", "))
            .repair(Repair::LookAtPort, &[]),
    };
    let down = readings.down.as_ref().map(|down| down.len() as f64);
    down.into_iter().fold(check, |check, down| check.measured(Gauge::PortsDown, down, 0.0))
}

fn pairing(readings: &Readings) -> Check {
    let seen: Vec<(Side, Side)> = readings.qps.iter().filter_map(|qp| Some((qp.leaves?, qp.arrives?))).collect();
    let crossed = seen.iter().filter(|(leaves, arrives)| leaves != arrives).count();
    let evidence = format!("{crossed} of {} QPs whose two ports were seen", seen.len());
    let check = match (seen.len(), crossed) {
        (0, _) => Check::new(CheckKind::Pairing, State::Unknown, "no QP was seen at both ends"),
        (_, 0) if seen.len() < readings.qps.len() => Check::new(
            CheckKind::Pairing,
            State::Unknown,
            "what was seen is paired; some QPs were not seen at both ends",
        ),
        (_, 0) => Check::new(CheckKind::Pairing, State::Pass, "QPs arrive on the side by which they left"),
        _ => steer(
            Check::new(
                CheckKind::Pairing,
                State::Fail,
                "QPs arrive on the other side, where they meet those that belong there",
            ),
            readings,
        ),
    };
    let check = if seen.is_empty() { check } else { check.measured(Gauge::CrossedQps, crossed as f64, 0.0) };
    check.seen("QPs that cross", evidence)
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
        (_, State::Fail | State::Warn) => {
            steer(Check::new(CheckKind::Balance, state, "one port carries more than the other"), readings)
        }
        (2, _) => Check::new(CheckKind::Balance, State::Pass, "both ports carry the same at both ends"),
        _ => Check::new(CheckKind::Balance, State::Unknown, "bytes of both ports are known of fewer than both ends"),
    };
    for (end, [left, right], off) in known {
        let gauge = if end == "sent" { Gauge::SentUneven } else { Gauge::ReceivedUneven };
        check = check.measured(gauge, off, UNEVEN[0]);
        check =
            check.seen(format!("bytes {end}, left and right"), format!("{left}, {right}: {:.0} % off", off * 100.0));
    }
    check
}

/// Pass, warn or fail for a value that is worse the larger it is.
fn graded(value: f64, [warn, fail]: [f64; 2]) -> State {
    if value >= fail {
        State::Fail
    } else if value >= warn {
        State::Warn
    } else {
        State::Pass
    }
}

fn diversity(readings: &Readings) -> Check {
    let mut ports: Vec<u16> = readings.qps.iter().filter_map(|qp| qp.source_port).collect();
    let known = ports.len();
    ports.sort_unstable();
    ports.dedup();
    let mut ways: Vec<(Side, Side)> = readings.qps.iter().filter_map(|qp| Some((qp.leaves?, qp.arrives?))).collect();
    ways.sort_unstable();
    ways.dedup();
    let check = match (readings.qps.len(), known, ports.len()) {
        (0, ..) => Check::new(CheckKind::Diversity, State::Unknown, "no QPs"),
        (1, ..) => Check::new(CheckKind::Diversity, State::Fail, "one QP uses one port").repair(Repair::UseTwoQps, &[]),
        (all, known, _) if known < all => {
            Check::new(CheckKind::Diversity, State::Unknown, "not all source ports are known")
        }
        (_, _, 1) => {
            steer(Check::new(CheckKind::Diversity, State::Fail, "all QPs have one source port, so one path"), readings)
        }
        (all, _, distinct) if distinct < all => {
            steer(Check::new(CheckKind::Diversity, State::Warn, "some QPs share a source port, so a path"), readings)
        }
        _ if ways.len() == 1 => steer(
            Check::new(CheckKind::Diversity, State::Warn, "all QPs that were seen take one pair of ports"),
            readings,
        ),
        _ => Check::new(CheckKind::Diversity, State::Pass, "each QP has a source port of its own"),
    };
    let evidence = format!("{} among {} QPs, {} pairs of ports seen", ports.len(), readings.qps.len(), ways.len());
    let check = check.measured(Gauge::SourcePorts, ports.len() as f64, readings.qps.len() as f64);
    check.seen("distinct source ports", evidence)
}

fn collision(readings: &Readings) -> Check {
    let (Some(alone), Some(together)) = (readings.alone_bps, readings.together_bps) else {
        return Check::new(
            CheckKind::Collision,
            State::Unknown,
            "one port alone and both together were not both measured",
        );
    };
    if alone <= 0.0 {
        return Check::new(CheckKind::Collision, State::Unknown, "one port alone moved nothing");
    }
    let times = together / alone;
    let evidence = format!("{together:.3e} bits/s, {alone:.3e} alone: {times:.2} times");
    let check = match times {
        _ if times >= TOGETHER[0] => {
            Check::new(CheckKind::Collision, State::Pass, "both ports together carry twice one alone")
        }
        _ if times >= TOGETHER[1] => {
            Check::new(CheckKind::Collision, State::Warn, "both ports carry less than twice one alone")
                .repair(Repair::LookAtShared, &[])
        }
        _ => steer(
            Check::new(CheckKind::Collision, State::Fail, "both ports together carry little more than one alone"),
            readings,
        ),
    };
    check.measured(Gauge::Together, times, TOGETHER[0]).seen("both ports together", evidence)
}

fn loss(readings: &Readings) -> Check {
    let known: Vec<(&QpReading, f64)> = readings.qps.iter().filter_map(|qp| Some((qp, qp.loss?))).collect();
    let lossy: Vec<String> = (known.iter().filter(|(_, loss)| *loss >= FAULTY_LOSS))
        .map(|(qp, loss)| {
            let port = qp.source_port.map_or("unknown".to_owned(), |port| port.to_string());
            let side = |side: Option<Side>| side.map_or("?".to_owned(), |side| format!("{side:?}").to_lowercase());
            format!("source port {port} ({} to {}) loses {:.2} %", side(qp.leaves), side(qp.arrives), loss * 100.0)
        })
        .collect();
    let check = match (known.len(), lossy.len()) {
        (_, 1..) => Check::new(CheckKind::Loss, State::Fail, "paths lose packets")
            .seen("paths", lossy.join("; "))
            .repair(Repair::LookAtPaths, &[]),
        (0, _) => Check::new(CheckKind::Loss, State::Unknown, "no loss was measured"),
        (known, _) if known < readings.qps.len() => {
            Check::new(CheckKind::Loss, State::Unknown, "paths that were measured lose nothing; some were not")
        }
        (known, _) => {
            Check::new(CheckKind::Loss, State::Pass, "no path loses packets").seen("paths", known.to_string())
        }
    };
    let worst = known.iter().map(|(_, loss)| *loss).max_by(f64::total_cmp);
    worst.into_iter().fold(check, |check, loss| check.measured(Gauge::WorstLoss, loss, FAULTY_LOSS))
}

fn failover(readings: &Readings) -> Check {
    let Some(failover) = readings.failover else {
        return Check::new(CheckKind::Failover, State::Unknown, "no port was taken down");
    };
    let check = match failover {
        Failover { gap_ms: None, .. } => {
            Check::new(CheckKind::Failover, State::Fail, "traffic did not go on when a port went down")
                .repair(Repair::RetryLonger, &[])
        }
        Failover { came_back: Some(false), .. } => {
            Check::new(CheckKind::Failover, State::Fail, "the port had no traffic after it came back")
                .repair(Repair::OpenAgain, &[])
        }
        Failover { gap_ms: Some(gap), .. } if gap > GAP_MS => {
            Check::new(CheckKind::Failover, State::Warn, "traffic went on late").repair(Repair::LowerMiimon, &[])
        }
        Failover { came_back: None, .. } => Check::new(
            CheckKind::Failover,
            State::Unknown,
            "traffic went on; whether the port is used again was not waited for",
        ),
        Failover { .. } => Check::new(CheckKind::Failover, State::Pass, "traffic went on, and the port is used again"),
    };
    let check =
        failover.gap_ms.into_iter().fold(check, |check, gap| check.measured(Gauge::Gap, gap as f64, GAP_MS as f64));
    check.seen("gap", failover.gap_ms.map_or("did not end".to_owned(), |gap| format!("{gap} ms")))
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::checks::{Better, CHECKS, CheckGroup, GAUGES};

    use super::*;

    fn qp(source_port: u16, leaves: Side, arrives: Side) -> QpReading {
        QpReading { source_port: Some(source_port), leaves: Some(leaves), arrives: Some(arrives), loss: Some(0.0) }
    }

    fn planned() -> Readings {
        use Side::{Left, Right};
        Readings {
            about: "a to b".to_owned(),
            mode: Mode::Hash,
            qps: vec![qp(50_000, Left, Left), qp(50_001, Right, Right)],
            sent_bytes: Some([1000, 1010]),
            received_bytes: Some([1005, 1005]),
            alone_bps: Some(2e8),
            together_bps: Some(3.9e8),
            failover: Some(Failover { gap_ms: Some(300), came_back: Some(true) }),
            down: Some(Vec::new()),
            lag_refused: None,
        }
    }

    type Change = fn(&mut Readings);

    fn states(readings: &Readings) -> Vec<(String, State)> {
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
        assert!(states(&planned()).iter().all(|(_, state)| *state == State::Pass), "{:?}", states(&planned()));
        let cases: [(&str, Change); 7] = [
            ("links", |readings| readings.down = Some(vec!["eth1 of host b".to_owned()])),
            ("pairing", |readings| {
                readings.qps[0].arrives = Some(Side::Right);
                readings.qps[1].arrives = Some(Side::Left);
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
                let expected = if check.name == name { State::Fail } else { State::Pass };
                assert_eq!(check.state, expected, "{name}: {check:?}");
                assert_eq!(check.fix.is_some(), check.name == name, "{check:?}");
                assert!(!check.evidence.is_empty(), "{check:?}");
            }
        }
    }

    #[test]
    fn what_was_not_seen_is_unknown_and_what_cannot_be_is_not_applicable() {
        let nothing = Readings {
            qps: Vec::new(),
            sent_bytes: None,
            received_bytes: None,
            alone_bps: None,
            together_bps: None,
            failover: None,
            down: None,
            ..planned()
        };
        assert!(states(&nothing).iter().all(|(_, state)| *state == State::Unknown));
        let refused = || Some("no such call".to_owned());
        for (mode, lag_refused, applicable) in [
            (Mode::ActiveBackup, None, 3),
            (Mode::SinglePort, None, 2),
            (Mode::QueueAffinity, refused(), 3),
            (Mode::QueueAffinity, None, 7),
            // A hash needs no LAG port.
            (Mode::Hash, refused(), 7),
        ] {
            let states = states(&Readings { mode, lag_refused, ..planned() });
            let there = states.iter().filter(|(_, state)| *state != State::NotApplicable).count();
            assert_eq!(there, applicable, "{states:?}");
        }
    }
}
