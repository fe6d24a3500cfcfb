//! What the four ports of a direction are: their speed, the PCIe links behind them, errors, pause, MTU, LACP.

use kelpie_monitor::check::{Check, CheckState};
use kelpie_monitor::checks::{CheckKind, Gauge, Repair};
use kelpie_topology::PortSide;

use super::readings::{EndReading, PortReading, Readings, graded};

/// Share of its speed that one port alone should carry; below the second it is a failure. Source: our choice: the first
/// is the verdict's rule of low throughput.
const ALONE: [f64; 2] = [0.8, 0.6];
/// What PCIe takes for the headers of its own packets, as a share of the data. Source: our choice, as in the doctor.
const PCIE_NEED: f64 = 1.1;
/// Errors while the traffic ran: at the first it is a warning. Source: our choice: forward error correction leaves less
/// than one in so short a time.
const ERRORS: [f64; 2] = [1.0, 10.0];
/// Share of the time that a port is paused. Source: the verdict's rule of pause; a tenth is our choice.
const PAUSED: [f64; 2] = [0.001, 0.1];
/// An address that nobody has: no switch answers.
const NOBODY: &str = "00:00:00:00:00:00";

/// Each port that was looked at, with what to call it.
fn ports(readings: &Readings) -> Vec<(String, &PortReading)> {
    let mut all = Vec::new();
    for (end, reading) in [("sender", &readings.sender), ("receiver", &readings.receiver)] {
        let ports = reading.as_ref().map_or(&[][..], |reading: &EndReading| &reading.ports);
        for (place, port) in ports.iter().enumerate() {
            // An only port has no side.
            let side = if ports.len() == 1 { "" } else { [" left", " right"][place.min(1)] };
            let name = port.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            all.push((format!("{end}{side}{name}"), port));
        }
    }
    all
}

/// What the left and the right ports of both ends let through: bits/s, or with `paused` the share of the time.
pub fn sides(readings: &Readings, paused: bool) -> Option<[f64; 2]> {
    let of = |port: &PortReading| if paused { Some(1.0 - port.paused.unwrap_or(0.0)) } else { port.speed_bps };
    let side = |place: usize| {
        let ends = [&readings.sender, &readings.receiver].into_iter().flatten();
        ends.filter_map(|end| of(end.ports.get(place)?)).min_by(f64::total_cmp)
    };
    Some([side(0)?, side(1)?])
}

/// A port that is called by its side alone, with which ports that may be.
pub fn named(readings: &Readings, port: &str) -> String {
    let all = ports(readings);
    let side = format!(" {port}");
    let may_be: Vec<&str> = all
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|_| ["left", "right"].contains(&port))
        .filter(|name| name.contains(&side))
        .collect();
    if may_be.is_empty() { port.to_owned() } else { format!("{port}: {}", may_be.join(" or ")) }
}

/// How many ports there are to look at.
fn expected(readings: &Readings) -> usize {
    if readings.mode == super::readings::Mode::SinglePort { 2 } else { 4 }
}

/// Bits/s for people.
pub fn gbps(bps: f64) -> String {
    format!("{} Gbit/s", (bps / 1e8).round() / 10.0)
}

/// The speed of the slowest port that is looked at.
pub fn slowest_bps(readings: &Readings) -> Option<f64> {
    ports(readings).iter().filter_map(|(_, port)| port.speed_bps).min_by(f64::total_cmp)
}

/// The end whose PCIe carries least, and what it carries.
pub fn narrowest_pcie(readings: &Readings) -> Option<(&'static str, f64)> {
    let of = |end, reading: &Option<EndReading>| Some((end, reading.as_ref()?.pcie_bps?));
    let ends = [of("sender", &readings.sender), of("receiver", &readings.receiver)];
    ends.into_iter().flatten().min_by(|one, other| one.1.total_cmp(&other.1))
}

pub fn speed(readings: &Readings) -> Check {
    let kind = CheckKind::Speed;
    let all = ports(readings);
    if !all.is_empty() && all.iter().all(|(_, port)| port.is_virtual) {
        return Check::new(kind, CheckState::NotApplicable, "the ports are virtual, and have no speed");
    }
    // A port is no faster than what it is plugged into, so its own speed alone says little.
    let could = |port: &PortReading| port.agreed_bps.or(port.capable_bps);
    let known: Vec<(&str, f64, Option<f64>)> =
        all.iter().filter_map(|(name, port)| Some((&name[..], port.speed_bps?, could(port)))).collect();
    let agreed: Vec<&str> =
        all.iter().filter(|(_, port)| port.agreed_bps.is_some()).map(|(name, _)| &name[..]).collect();
    let seen: Vec<String> = (known.iter())
        .map(|(name, speed, capable)| match capable {
            Some(capable) => format!("{name} {} of {}", gbps(*speed), gbps(*capable)),
            None => format!("{name} {}", gbps(*speed)),
        })
        .collect();
    let (below, perhaps): (Vec<_>, Vec<_>) = known
        .iter()
        .filter(|(_, speed, capable)| capable.is_some_and(|capable| *speed < capable))
        .partition(|(name, ..)| agreed.contains(name));
    let trained = |below: &[&(&str, f64, Option<f64>)], could: &str| {
        let worst = below.iter().map(|one| one.1 / one.2.unwrap_or(one.1)).fold(1.0, f64::min);
        let names: Vec<&str> = below.iter().map(|one| one.0).collect();
        let names = if below.len() == expected(readings) { "all ports".to_owned() } else { names.join(", ") };
        format!("{names} trained to {:.0} % of the speed that {could}", worst * 100.0)
    };
    let fastest = known.iter().map(|one| one.1).fold(0.0, f64::max);
    let uneven: Vec<&str> = known.iter().filter(|one| one.1 < fastest).map(|one| one.0).collect();
    let share = known.iter().filter_map(|(_, speed, capable)| Some(speed / (*capable)?)).min_by(f64::total_cmp);
    let alone = readings.alone_bps.filter(|_| readings.fills_ports).zip(slowest_bps(readings));
    let alone = alone.map(|(alone, speed)| (alone / speed, alone, speed));
    let pcie = narrowest_pcie(readings).filter(|(_, bps)| slowest_bps(readings).is_some_and(|speed| *bps < speed));
    let whole = known.len() >= expected(readings) && known.iter().all(|one| one.2.is_some());
    let check = if !below.is_empty() {
        Check::new(kind, CheckState::Fail, trained(&below, "both ends could have")).repair(Repair::LookAtSpeed, &[])
    } else if let ([_, ..], false) = (&uneven[..], fastest == 0.0) {
        let summary = format!("slower than the fastest port: {}", uneven.join(", "));
        Check::new(kind, CheckState::Fail, summary).repair(Repair::LookAtSpeed, &[])
    } else if let Some((share, alone, speed)) = alone.filter(|(share, ..)| *share < ALONE[0]) {
        let state = if share < ALONE[1] { CheckState::Fail } else { CheckState::Warn };
        let summary = format!("one port alone carries {} of its {}", gbps(alone), gbps(speed));
        match pcie {
            Some((end, bps)) => Check::new(kind, state, format!("{summary}: the {end}'s PCIe carries {}", gbps(bps)))
                .repair(Repair::MoveNic, &[]),
            None => Check::new(kind, state, summary).repair(Repair::LookAtShared, &[]),
        }
    } else if !perhaps.is_empty() {
        let summary = trained(&perhaps, "the port could have: a fault, unless the switch's ports are no faster");
        Check::new(kind, CheckState::Warn, summary).repair(Repair::LookAtSpeed, &[])
    } else if whole {
        let summary = if agreed.is_empty() {
            "all ports run at the speed that they could have"
        } else {
            "all ports run as fast as both ends could"
        };
        Check::new(kind, CheckState::Pass, summary)
    } else {
        let hint = readings.alone_bps.filter(|_| known.is_empty());
        let hint = hint.map(|alone| format!("; {} alone may be all of a port, or half of a faster one", gbps(alone)));
        let what = if known.is_empty() { "the speed of the ports was" } else { "the speed that ports could have was" };
        Check::new(kind, CheckState::Unknown, format!("{what} not read{}", hint.unwrap_or_default()))
            .repair(Repair::ReadSpeed, &[])
    };
    let check = share.into_iter().fold(check, |check, share| check.measured(Gauge::TrainedShare, share, 1.0));
    let check = alone.iter().fold(check, |check, (share, ..)| check.measured(Gauge::AloneShare, *share, ALONE[0]));
    check.seen("speed of the ports", if seen.is_empty() { "not read".to_owned() } else { seen.join(", ") })
}

pub fn pcie(readings: &Readings) -> Check {
    let kind = CheckKind::PortPcie;
    let (Some((end, carries)), Some(speed)) = (narrowest_pcie(readings), slowest_bps(readings)) else {
        return Check::new(
            kind,
            CheckState::Unknown,
            "what PCIe carries, and the speed of the ports, were not both read",
        );
    };
    let both = speed * expected(readings) as f64 / 2.0;
    let check = if carries < speed * PCIE_NEED {
        let summary = format!("the {end}'s PCIe carries less than one port: {} of {}", gbps(carries), gbps(speed));
        Check::new(kind, CheckState::Fail, summary).repair(Repair::MoveNic, &[])
    } else if carries < both * PCIE_NEED {
        let summary = format!("the {end}'s PCIe carries less than both ports: {} of {}", gbps(carries), gbps(both));
        Check::new(kind, CheckState::Warn, summary).repair(Repair::MoveNic, &[])
    } else {
        Check::new(kind, CheckState::Pass, "PCIe carries both ports at both ends")
    };
    check.measured(Gauge::PortPcieCarries, carries, both * PCIE_NEED).seen("PCIe", format!("{end} {}", gbps(carries)))
}

/// A check of one number of each port: the larger, the worse.
fn worst(
    readings: &Readings,
    (kind, gauge, limits): (CheckKind, Gauge, [f64; 2]),
    value: fn(&PortReading) -> Option<f64>,
    words: [&str; 2],
    repair: Repair,
) -> Check {
    let all = ports(readings);
    let known: Vec<(&str, f64)> = all.iter().filter_map(|(name, port)| Some((&name[..], value(port)?))).collect();
    let Some((name, most)) = known.iter().max_by(|one, other| one.1.total_cmp(&other.1)).copied() else {
        return Check::new(kind, CheckState::Unknown, format!("{} of the ports were not read", words[0]));
    };
    let state = graded(most, limits);
    let check = match state {
        CheckState::Pass if known.len() < expected(readings) => {
            Check::new(kind, CheckState::Unknown, format!("{} of some ports were not read", words[0]))
        }
        CheckState::Pass => Check::new(kind, state, format!("no port has {}", words[0])),
        _ => Check::new(kind, state, format!("{name} {}", words[1])).repair(repair, &[]),
    };
    let seen: Vec<String> = known.iter().map(|(name, value)| format!("{name} {value}")).collect();
    check.measured(gauge, most, limits[0]).seen(words[0], seen.join(", "))
}

pub fn errors(readings: &Readings) -> Check {
    worst(
        readings,
        (CheckKind::PortErrors, Gauge::NewErrors, ERRORS),
        |port| Some(port.errors? as f64),
        ["errors", "counts errors: its cable or optics damage packets"],
        Repair::LookAtOptics,
    )
}

pub fn pause(readings: &Readings) -> Check {
    worst(
        readings,
        (CheckKind::PortPause, Gauge::PausedShare, PAUSED),
        |port| port.paused,
        ["pauses", "is paused, or pauses its switch"],
        Repair::LookBehindPause,
    )
}

pub fn mtu(readings: &Readings) -> Check {
    let kind = CheckKind::PortMtu;
    let all = ports(readings);
    let known: Vec<(&str, u64)> = all.iter().filter_map(|(name, port)| Some((&name[..], port.mtu?))).collect();
    let (Some(least), Some(most)) = (known.iter().map(|one| one.1).min(), known.iter().map(|one| one.1).max()) else {
        return Check::new(kind, CheckState::Unknown, "the MTU of the ports was not read");
    };
    let check = if least < most {
        let smaller: Vec<&str> = known.iter().filter(|one| one.1 < most).map(|one| one.0).collect();
        let summary = format!("packets that fit the other ports are lost at {}", smaller.join(", "));
        Check::new(kind, CheckState::Fail, summary).repair(Repair::RaisePortMtu, &[])
    } else if known.len() < expected(readings) {
        Check::new(kind, CheckState::Unknown, "the MTU of some ports was not read")
    } else {
        Check::new(kind, CheckState::Pass, "all ports have one MTU")
    };
    let seen: Vec<String> = known.iter().map(|(name, mtu)| format!("{name} {mtu}")).collect();
    check.measured(Gauge::SmallestPortMtu, least as f64, most as f64).seen("MTU", seen.join(", "))
}

pub fn lacp(readings: &Readings) -> Check {
    let kind = CheckKind::Lacp;
    let ends = [("sender", &readings.sender), ("receiver", &readings.receiver)];
    if ends.iter().all(|(_, end)| end.as_ref().is_some_and(|end| end.lacp == Some(false))) {
        return Check::new(kind, CheckState::NotApplicable, "the bonds do not use LACP");
    }
    let (mut wrong, mut known, mut seen) = (Vec::new(), 0, Vec::new());
    for (end, reading) in ends {
        let partners: Vec<Option<&str>> =
            reading.iter().flat_map(|end| &end.ports).map(|port| port.lacp_partner.as_deref()).collect();
        for (partner, side) in partners.iter().zip(PortSide::BOTH) {
            let Some(partner) = partner else { continue };
            known += 1;
            seen.push(format!("{end} {} {partner}", side.name()));
            if *partner == NOBODY {
                wrong.push(format!("no switch answers the {end}'s {} port", side.name()));
            }
        }
        if let [Some(left), Some(right), ..] = partners[..]
            && left != right
            && ![left, right].contains(&NOBODY)
        {
            wrong.push(format!("the {end}'s ports have two partners, so the bond uses one of them"));
        }
    }
    let off = ends.iter().filter(|(_, end)| end.as_ref().is_some_and(|end| end.lacp == Some(false))).count();
    let check = match (&wrong[..], known + 2 * off) {
        ([_, ..], _) => Check::new(kind, CheckState::Fail, wrong.join("; ")).repair(Repair::LookAtLacp, &[]),
        ([], 4..) => Check::new(kind, CheckState::Pass, "both ports of each bond have one LACP partner"),
        _ => Check::new(kind, CheckState::Unknown, "the LACP partners of the ports were not read"),
    };
    let check = check.seen("LACP partners", if seen.is_empty() { "not read".to_owned() } else { seen.join(", ") });
    if known == 0 { check } else { check.measured(Gauge::LacpFaults, wrong.len() as f64, 0.0) }
}
