//! C4P's checks of dual-port NICs, from readings of both ends: links, pairing, balance, diversity, collision, loss,
//! failover.
//! Who takes the readings is elsewhere.
//!
//! Source: C4 (HPCA 2025), section III-B, names pairing and balance; the thresholds are ours.

use kelpie_monitor::check::{Check, State};
use kelpie_topology::Side;
use serde::{Deserialize, Serialize};

/// Share of a port's fair half that bytes may be off before a warning, and before a failure. Source: our choice: five
/// QPs of eight on one port are off by a quarter, six by a half.
const UNEVEN: [f64; 2] = [0.15, 0.40];
/// Both ports together should carry this many times one alone; below the second it is a failure. Source: our choice: 2
/// is ideal, 1 is a collision.
const TOGETHER: [f64; 2] = [1.8, 1.5];
/// Loss of a path that is a failure. Source: our choice: RoCE's go-back-N loses far more than this share of throughput.
const LOSSY: f64 = 0.001;
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

/// All checks of one direction.
pub fn checks(readings: &Readings) -> Vec<Check> {
    let all = [links, pairing, balance, diversity, collision, loss, failover];
    let nothing = match (readings.mode, &readings.lag_refused) {
        (Mode::SinglePort, _) => Some("there is one port".to_owned()),
        (Mode::ActiveBackup, _) => Some("active-backup uses one port at a time".to_owned()),
        (Mode::QueueAffinity, Some(reason)) => {
            Some(format!("the device deals QPs out to its ports, and none can be put on a LAG port: {reason}"))
        }
        (Mode::Hash | Mode::QueueAffinity, _) => None,
    };
    let named = ["links", "pairing", "balance", "diversity", "collision", "loss", "failover"];
    let check = |(check, name): (fn(&Readings) -> Check, &str)| match &nothing {
        // A path can lose packets, and a port fail, in any mode with a path or two ports.
        Some(reason)
            if !matches!(name, "loss" | "links") && (name != "failover" || readings.mode == Mode::SinglePort) =>
        {
            Check::new(name, State::NotApplicable, reason.as_str())
        }
        _ => check(readings),
    };
    all.into_iter().zip(named).map(check).map(|check| check.about(readings.about.as_str())).collect()
}

/// What sets QPs apart, for people.
fn steer(readings: &Readings) -> &'static str {
    match readings.mode {
        Mode::QueueAffinity => {
            "set the LAG port of each QP (mlx5dv_modify_qp_lag_port), and its source port for the arrival"
        }
        _ => "give the QPs other source ports: `kelpie paths probe` finds which, `kelpie paths steer` sets them",
    }
}

fn links(readings: &Readings) -> Check {
    match readings.down.as_deref() {
        None => Check::new("links", State::Unknown, "whether all ports are up was not read"),
        Some([]) => Check::new("links", State::Pass, "all ports are up").seen("ports that are down", "none"),
        Some(down) => Check::new("links", State::Fail, "a port is down, and the other has all traffic")
            .seen("ports that are down", down.join(", "))
            .fix("look at the cable and at the switch's port; `ip link show` on the host says what it sees"),
    }
}

fn pairing(readings: &Readings) -> Check {
    let seen: Vec<(Side, Side)> = readings.qps.iter().filter_map(|qp| Some((qp.leaves?, qp.arrives?))).collect();
    let crossed = seen.iter().filter(|(leaves, arrives)| leaves != arrives).count();
    let evidence = format!("{crossed} of {} QPs whose two ports were seen", seen.len());
    let check = match (seen.len(), crossed) {
        (0, _) => Check::new("pairing", State::Unknown, "no QP was seen at both ends"),
        (_, 0) if seen.len() < readings.qps.len() => {
            Check::new("pairing", State::Unknown, "what was seen is paired; some QPs were not seen at both ends")
        }
        (_, 0) => Check::new("pairing", State::Pass, "QPs arrive on the side by which they left"),
        _ => {
            Check::new("pairing", State::Fail, "QPs arrive on the other side, where they meet those that belong there")
                .fix(steer(readings))
        }
    };
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
            Check::new("balance", state, "one port carries more than the other").fix(steer(readings))
        }
        (2, _) => Check::new("balance", State::Pass, "both ports carry the same at both ends"),
        _ => Check::new("balance", State::Unknown, "bytes of both ports are known of fewer than both ends"),
    };
    for (end, [left, right], off) in known {
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
    let few = || steer(readings);
    let check = match (readings.qps.len(), known, ports.len()) {
        (0, ..) => Check::new("diversity", State::Unknown, "no QPs"),
        (1, ..) => Check::new("diversity", State::Fail, "one QP uses one port").fix("use two QPs or more"),
        (all, known, _) if known < all => Check::new("diversity", State::Unknown, "not all source ports are known"),
        (_, _, 1) => Check::new("diversity", State::Fail, "all QPs have one source port, so one path").fix(few()),
        (all, _, distinct) if distinct < all => {
            Check::new("diversity", State::Warn, "some QPs share a source port, so a path").fix(few())
        }
        _ if ways.len() == 1 => {
            Check::new("diversity", State::Warn, "all QPs that were seen take one pair of ports").fix(few())
        }
        _ => Check::new("diversity", State::Pass, "each QP has a source port of its own"),
    };
    let evidence = format!("{} among {} QPs, {} pairs of ports seen", ports.len(), readings.qps.len(), ways.len());
    check.seen("distinct source ports", evidence)
}

fn collision(readings: &Readings) -> Check {
    let (Some(alone), Some(together)) = (readings.alone_bps, readings.together_bps) else {
        return Check::new("collision", State::Unknown, "one port alone and both together were not both measured");
    };
    if alone <= 0.0 {
        return Check::new("collision", State::Unknown, "one port alone moved nothing");
    }
    let times = together / alone;
    let evidence = format!("{together:.3e} bits/s, {alone:.3e} alone: {times:.2} times");
    let check = match times {
        _ if times >= TOGETHER[0] => Check::new("collision", State::Pass, "both ports together carry twice one alone"),
        _ if times >= TOGETHER[1] => Check::new("collision", State::Warn, "both ports carry less than twice one alone")
            .fix(
                "look at `balance` and `pairing`, and at what else both ports share: PCIe, memory, the leaf's uplinks",
            ),
        _ => Check::new("collision", State::Fail, "both ports together carry little more than one alone")
            .fix(steer(readings)),
    };
    check.seen("both ports together", evidence)
}

fn loss(readings: &Readings) -> Check {
    let known: Vec<(&QpReading, f64)> = readings.qps.iter().filter_map(|qp| Some((qp, qp.loss?))).collect();
    let lossy: Vec<String> = (known.iter().filter(|(_, loss)| *loss >= LOSSY))
        .map(|(qp, loss)| {
            let port = qp.source_port.map_or("unknown".to_owned(), |port| port.to_string());
            let side = |side: Option<Side>| side.map_or("?".to_owned(), |side| format!("{side:?}").to_lowercase());
            format!("source port {port} ({} to {}) loses {:.2} %", side(qp.leaves), side(qp.arrives), loss * 100.0)
        })
        .collect();
    match (known.len(), lossy.len()) {
        (_, 1..) => Check::new("loss", State::Fail, "paths lose packets")
            .seen("paths", lossy.join("; "))
            .fix("look at cable and optics of the ports that these paths share, and leave the paths out of plans"),
        (0, _) => Check::new("loss", State::Unknown, "no loss was measured"),
        (known, _) if known < readings.qps.len() => {
            Check::new("loss", State::Unknown, "paths that were measured lose nothing; some were not")
        }
        (known, _) => Check::new("loss", State::Pass, "no path loses packets").seen("paths", known.to_string()),
    }
}

fn failover(readings: &Readings) -> Check {
    let Some(failover) = readings.failover else {
        return Check::new("failover", State::Unknown, "no port was taken down");
    };
    let check = match failover {
        Failover { gap_ms: None, .. } => {
            Check::new("failover", State::Fail, "traffic did not go on when a port went down").fix(
                "check `miimon` of the bond, and that QPs retry for longer than the bond takes (timeout, retry count)",
            )
        }
        Failover { came_back: Some(false), .. } => {
            Check::new("failover", State::Fail, "the port had no traffic after it came back")
                .fix("open the QPs again, or set their LAG port again: mlx5 keeps the affinity of the failure")
        }
        Failover { gap_ms: Some(gap), .. } if gap > GAP_MS => {
            Check::new("failover", State::Warn, "traffic went on late").fix("lower `miimon` of the bond; 100 is usual")
        }
        Failover { came_back: None, .. } => {
            Check::new("failover", State::Unknown, "traffic went on; whether the port is used again was not waited for")
        }
        Failover { .. } => Check::new("failover", State::Pass, "traffic went on, and the port is used again"),
    };
    check.seen("gap", failover.gap_ms.map_or("did not end".to_owned(), |gap| format!("{gap} ms")))
}

#[cfg(test)]
mod tests {
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
