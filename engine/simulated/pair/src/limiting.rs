//! Which resource limits a run, and whose traffic: that for which most work waits, by Little's law the occupancy of its
//! queue.

use kelpie_events::Picos;
use kelpie_monitor::verdict::PAUSE_RATIO;
use kelpie_nic::nic::{Nic, Pauses, Tally};
use kelpie_nic::waits::{Cause, Side};
use kelpie_spaces::Host;

use crate::config::MemoryReach;
use crate::pair::SimulatedPair;
use crate::waits::Waits;

/// Part of its time that a wire is busy if it is the limit. Source: our choice.
const WIRE_BUSY: f64 = 0.9;
/// Part of the messages that are refused or dropped if that is the limit. Source: our choice.
const REFUSED: f64 = 0.01;

/// What had waited at one moment.
#[derive(Debug)]
pub struct Snapshot {
    time: Picos,
    waits: [Waits; 2],
    tallies: [Tally; 2],
    wires: [Picos; 2],
    pauses: [[Pauses; 2]; 2],
    messages: u64,
}

impl Snapshot {
    /// All of a pair.
    pub fn of(pair: &SimulatedPair) -> Self {
        Self {
            time: pair.now,
            waits: pair.around.waits.clone(),
            tallies: pair.nics.each_ref().map(Nic::tally),
            wires: pair.nics.each_ref().map(Nic::wire_busy),
            pauses: pair.nics.each_ref().map(|nic| nic.pauses(pair.now)),
            messages: pair.around.traffic.iter().flatten().map(|traffic| traffic.messages).sum(),
        }
    }
}

/// The resource that limits, and whose traffic, such as `receive_wqe_cache:UD_SEND`.
pub fn limiting(pair: &SimulatedPair, before: &Snapshot) -> String {
    let now = Snapshot::of(pair);
    let span = (now.time - before.time).max(Picos::new(1));
    let share = |now: Picos, then: Picos| (now - then).ratio_to(span);
    // A receiver that cannot keep up holds its senders, so that what they wait for says nothing.
    let longer = |host: usize, of: fn(&Pauses) -> Picos| {
        let [now, then] = [&now, before].map(|moment| moment.pauses[host].each_ref().map(of));
        share(now[0], then[0]).max(share(now[1], then[1]))
    };
    let [a, b] = [0, 1].map(|host| longer(host, |pauses| pauses.sent));
    if a.max(b) > PAUSE_RATIO {
        let host = if a >= b { Host::A } else { Host::B };
        return longest(pair, host, before, &now, |side, _| side == Side::Receive);
    }
    // What leaves hold while no receiver does meets on a port or on the trunk.
    let [a, b] = [0, 1].map(|host| longer(host, |pauses| pauses.received));
    if pair.around.network.has_leaves() && a.max(b) > PAUSE_RATIO {
        let host = if a >= b { Host::A } else { Host::B };
        let flow = pair.around.rings.flows.iter().find(|flow| flow.from == host);
        return format!("leaves:{}", flow.map_or("", |flow| flow.name.as_str()));
    }
    let lost = |tally: fn(&Tally) -> u64| (0..2).map(|at| tally(&now.tallies[at]) - tally(&before.tallies[at])).sum();
    let (refused, absent): (u64, u64) = (lost(|tally| tally.refused), lost(|tally| tally.no_receive));
    let messages = (now.messages - before.messages) as f64;
    let traffic = |host: Host| {
        let flow = pair.around.rings.flows.iter().find(|flow| flow.to == host);
        flow.map_or("", |flow| flow.name.as_str())
    };
    if (refused + absent) as f64 > REFUSED * messages {
        let misses = |host: Host| now.tallies[host.index()].no_receive + now.tallies[host.index()].refused;
        let host = if misses(Host::A) > misses(Host::B) { Host::A } else { Host::B };
        let part = if refused as f64 > REFUSED * messages { "receive_wqe_fetch" } else { "receive_queue" };
        return format!("{part}:{}", traffic(host));
    }
    let busiest = |host: &Host| share(now.wires[host.index()], before.wires[host.index()]);
    let busy = if busiest(&Host::A) >= busiest(&Host::B) { Host::A } else { Host::B };
    if busiest(&busy) > WIRE_BUSY {
        return longest(pair, busy, before, &now, |side, cause| side == Side::Send && cause == Cause::Wire);
    }
    // What waits for the wire alone waits for others to leave, not for room on it.
    let of_sender = |side: Side, cause: Cause| side == Side::Send && cause != Cause::Wire;
    let waits = Host::BOTH.map(|host| total(host, before, &now, of_sender));
    let host = if waits[0] >= waits[1] { Host::A } else { Host::B };
    longest(pair, host, before, &now, of_sender)
}

/// Time that all work of a host waited for these.
fn total(host: Host, before: &Snapshot, now: &Snapshot, counts: impl Fn(Side, Cause) -> bool) -> Picos {
    let rows = now.waits[host.index()].since(&before.waits[host.index()]);
    rows.filter(|(_, side, cause, _)| counts(*side, *cause)).map(|row| row.3).sum()
}

/// The cause for which most work waited, and the flow that waited most for it.
fn longest(
    pair: &SimulatedPair,
    host: Host,
    before: &Snapshot,
    now: &Snapshot,
    counts: impl Fn(Side, Cause) -> bool,
) -> String {
    let reaches = &pair.around.reaches[host.index()];
    let rows: Vec<_> = now.waits[host.index()].since(&before.waits[host.index()]).collect();
    let mut by_part: Vec<(&'static str, Picos)> = Vec::new();
    for (_, _, cause, span) in rows.iter().filter(|(_, side, cause, _)| counts(*side, *cause)) {
        let part = part(*cause, reaches);
        match by_part.iter_mut().find(|row| row.0 == part) {
            Some(row) => row.1 += *span,
            None => by_part.push((part, *span)),
        }
    }
    let Some((name, _)) = by_part.into_iter().max_by_key(|(name, span)| (*span, *name)) else {
        return "nothing".to_owned();
    };
    let of_part = rows.iter().filter(|(_, side, cause, _)| counts(*side, *cause) && part(*cause, reaches) == name);
    let flow = of_part.max_by_key(|row| (row.3, row.0)).map_or(0, |row| row.0);
    format!("{name}:{}", pair.around.rings.flows[flow as usize].name)
}

/// What users know a resource by.
fn part(cause: Cause, reaches: &[MemoryReach]) -> &'static str {
    match cause {
        Cause::Context => "qp_context_cache",
        Cause::Translation => "translation_cache",
        Cause::SendWqe => "send_wqe_cache",
        Cause::ReceiveWqe => "receive_wqe_cache",
        Cause::ReceiveChain => "receive_wqe_chain",
        Cause::RingPage => "receive_ring_pages",
        Cause::ReadList => "read_scatter_cache",
        Cause::Unit => "processing_unit",
        Cause::Pipeline => "packet_processing",
        Cause::Command => "command_interface",
        Cause::Response => "read_response_processing",
        Cause::Room => "packet_memory",
        Cause::Wire => "wire",
        Cause::Atomic => "atomic_lock",
        Cause::ReadWindow => "read_window",
        Cause::NotReady => "receiver_not_ready",
        Cause::SendQueue => "send_queue",
        Cause::Gather(place) => match reaches[usize::from(place)] {
            MemoryReach::Local => "pcie_read",
            MemoryReach::Interconnect => "socket_interconnect",
            MemoryReach::Redirected => "peer_to_peer_redirect",
        },
        Cause::Write(place) => match reaches[usize::from(place)] {
            MemoryReach::Local => "pcie_write",
            MemoryReach::Interconnect => "socket_interconnect",
            MemoryReach::Redirected => "peer_to_peer_redirect",
        },
    }
}
