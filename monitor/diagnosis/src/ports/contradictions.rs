//! Readings that cannot all be true. Judging them would name a fault, or none, by whichever is wrong.

use std::collections::BTreeMap;

use kelpie_topology::PortSide;

use super::hardware::gbps;
use super::readings::{EndReading, Mode, Readings};

/// How far two measurements of one thing may be apart. Source: our choice, noise of rates that are measured in turn.
const NOISE: f64 = 1.1;
/// How much more or less may arrive than was sent. Source: our choice: ports carry traffic of others too.
const OTHERS: f64 = 1.5;

/// Keys of one direction that contradict others, with the contradiction.
pub fn contradictions(readings: &Readings) -> Vec<(String, String)> {
    let mut found = Vec::new();
    rates(readings, &mut found);
    bytes(readings, &mut found);
    paths(readings, &mut found);
    found
}

type Found = Vec<(String, String)>;

fn rates(readings: &Readings, found: &mut Found) {
    let mut fastest: [Option<f64>; 2] = [None, None];
    let ends = [("sender", &readings.sender), ("receiver", &readings.receiver)];
    for (end, (key, reading)) in ends.into_iter().enumerate() {
        let Some(EndReading { pcie_bps, ports, .. }) = reading else { continue };
        for (place, port) in ports.iter().enumerate() {
            if let (Some(speed), Some(capable)) = (port.speed_bps, port.capable_bps)
                && speed > capable
            {
                let rule = format!("{} is more than the {} that the port could have", gbps(speed), gbps(capable));
                found.push((format!("{key}.ports[{place}].speed_bps"), rule));
            }
            if port.is_virtual && port.speed_bps.is_some() {
                found.push((format!("{key}.ports[{place}].virtual"), "a virtual port has no speed".to_owned()));
            }
        }
        let sum: f64 = ports.iter().filter_map(|port| port.speed_bps).sum();
        let are_all_known = ports.iter().all(|port| port.speed_bps.is_some());
        let expected = if readings.mode == Mode::SinglePort { 1 } else { 2 };
        if are_all_known && ports.len() == expected {
            fastest[end] = ports.iter().filter_map(|port| port.speed_bps).max_by(f64::total_cmp);
            let beyond = readings.together_bps.filter(|together| *together > sum);
            if let Some(together) = beyond {
                let rule = format!("{} is more than the {key}'s ports have: {}", gbps(together), gbps(sum));
                found.push(("together_bps".to_owned(), rule));
            }
        }
        for (name, moved) in [("alone_bps", readings.alone_bps), ("together_bps", readings.together_bps)] {
            if let (Some(pcie), Some(moved)) = (pcie_bps, moved)
                && moved > pcie * NOISE
            {
                let rule = format!("{} is more than the {} of {name}", gbps(moved), gbps(*pcie));
                found.push((format!("{key}.pcie_bps"), format!("{rule} could pass")));
            }
        }
    }
    if let (Some(alone), Some(fastest)) = (readings.alone_bps, fastest.iter().flatten().copied().reduce(f64::min))
        && alone > fastest
    {
        let rule = format!("{} is more than the {} of a port", gbps(alone), gbps(fastest));
        found.push(("alone_bps".to_owned(), rule));
    }
    if let (Some(alone), Some(together)) = (readings.alone_bps, readings.together_bps) {
        // One port of several speeds may be the slower one.
        let speeds: Vec<f64> = [&readings.sender, &readings.receiver]
            .into_iter()
            .flatten()
            .flat_map(|end| &end.ports)
            .filter_map(|port| port.speed_bps)
            .collect();
        let uneven = speeds.iter().copied().fold(0.0, f64::max) > speeds.iter().copied().fold(f64::MAX, f64::min);
        if alone > 0.0 && together > 2.0 * NOISE * alone && (!uneven || speeds.is_empty()) {
            let rule = format!("both ports carry {:.1} times one alone; two carry twice at most", together / alone);
            found.push(("together_bps".to_owned(), rule));
        }
    }
}

fn bytes(readings: &Readings, found: &mut Found) {
    let total = |bytes: [u64; 2]| bytes[0] as f64 + bytes[1] as f64;
    let lost = readings.qps.iter().filter_map(|qp| qp.loss).fold(0.0, f64::max);
    if let (Some(sent), Some(received)) = (readings.sent_bytes.map(total), readings.received_bytes.map(total)) {
        if received > sent * OTHERS {
            found.push(("received_bytes".to_owned(), format!("{received} arrived of {sent} that were sent")));
        } else if received * OTHERS < sent * (1.0 - lost) && readings.qps.iter().all(|qp| qp.loss.is_some()) {
            let rule = format!("{received} arrived of {sent} that were sent, and no QP lost as much");
            found.push(("received_bytes".to_owned(), rule));
        }
    }
    let ends = [("sent_bytes", readings.sent_bytes), ("received_bytes", readings.received_bytes)];
    for (end, (key, bytes)) in ends.into_iter().enumerate() {
        let Some(bytes) = bytes else { continue };
        if total(bytes) == 0.0 && readings.together_bps.is_some_and(|bps| bps > 0.0) {
            found.push((key.to_owned(), "no byte, but traffic moved".to_owned()));
        }
        for side in PortSide::BOTH {
            let uses =
                |qp: &&super::readings::QpReading| [qp.leaves, qp.arrives][end] == Some(side) && qp.loss != Some(1.0);
            if bytes[side.index()] == 0 && total(bytes) > 0.0 && readings.qps.iter().any(|qp| uses(&qp)) {
                found.push((key.to_owned(), format!("no byte at the {} port, which a QP uses", side.name())));
            }
        }
    }
    let are_paired =
        !readings.qps.is_empty() && readings.qps.iter().all(|qp| qp.leaves.is_some() && qp.leaves == qp.arrives);
    if let (Some(sent), Some(received), true) = (readings.sent_bytes, readings.received_bytes, are_paired) {
        for side in PortSide::BOTH {
            let [sent, received] = [sent, received].map(|bytes| bytes[side.index()] as f64);
            if received > sent * OTHERS && !found.iter().any(|(key, _)| key == "received_bytes") {
                let rule = format!(
                    "{sent} bytes left by the {side} port and {received} arrived at it, and no QP crosses",
                    side = side.name()
                );
                found.push(("sent_bytes".to_owned(), rule));
            }
        }
    }
    if let (Some([_, ..]), Some(sent), Some(received)) =
        (readings.down.as_deref(), readings.sent_bytes, readings.received_bytes)
        && readings.mode != Mode::SinglePort
        && sent.iter().chain(&received).all(|bytes| *bytes as f64 * 100.0 > total(sent))
    {
        found.push(("down".to_owned(), "a port that is down, but all four have traffic".to_owned()));
    }
}

fn paths(readings: &Readings, found: &mut Found) {
    let mut first: BTreeMap<u16, (usize, Option<PortSide>, Option<PortSide>)> = BTreeMap::new();
    for (place, qp) in readings.qps.iter().enumerate() {
        let Some(port) = qp.source_port else { continue };
        let (before, leaves, arrives) = *first.entry(port).or_insert((place, qp.leaves, qp.arrives));
        let differ =
            |one: Option<PortSide>, other: Option<PortSide>| one.zip(other).is_some_and(|(one, other)| one != other);
        // A device that deals QPs out chooses where each leaves, and a switch by the source port where it arrives.
        if readings.mode == Mode::Hash && (differ(leaves, qp.leaves) || differ(arrives, qp.arrives)) {
            let rule = format!("source port {port} takes another way than in qps[{before}]; a hash has one for each");
            found.push((format!("qps[{place}]"), rule));
        }
    }
    let ways = |of: fn(&super::readings::QpReading) -> Option<PortSide>| {
        PortSide::BOTH.into_iter().filter(|side| readings.qps.iter().any(|qp| of(qp) == Some(*side))).count()
    };
    if matches!(readings.mode, Mode::SinglePort | Mode::ActiveBackup) && ways(|qp| qp.leaves) > 1 {
        found.push(("mode".to_owned(), "one port at a time, but QPs leave by both".to_owned()));
    }
    let most = if readings.mode == Mode::SinglePort { 1 } else { 2 };
    for (key, end) in [("sender", &readings.sender), ("receiver", &readings.receiver)] {
        if let Some(end) = end
            && !end.ports.is_empty()
            && end.ports.len() != most
        {
            let rule = format!("{} ports; write {most}, the left one first", end.ports.len());
            found.push((format!("{key}.ports"), rule));
        }
    }
}
