//! Two leaves between hosts whose NICs have two ports: each leaf has one port of each host, and a trunk to the other
//! leaf. Lossless: a sender that fills a leaf is paused at the port by which it comes in.

use std::collections::VecDeque;

use kelpie_events::{Picos, Rate, Server};
use kelpie_nic::packet::Burst;
use kelpie_spaces::Host;

/// Ends that a leaf has cables to: both hosts and the other leaf.
const ENDS: usize = 3;
/// The other leaf among them.
const TRUNK: usize = 2;

/// One way of a cable of a leaf: the leaf, and the end.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    leaf: u8,
    end: u8,
}

impl Place {
    fn of(leaf: usize, end: usize) -> Self {
        Self { leaf: leaf as u8, end: end as u8 }
    }

    fn index(self) -> usize {
        usize::from(self.leaf) * ENDS + usize::from(self.end)
    }
}

/// What happens next, and where.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A burst comes in.
    Enter(Place),
    /// A port may send.
    Leave(Place),
    /// What a port leads to asks it to be silent, or to go on.
    Hold(Place, bool),
    /// A burst reaches a port of a host.
    Arrive(Host, u8),
    /// A pause frame reaches a port of a host, or one that ends the pause.
    Pause(Host, u8, bool),
}

/// What the cables and buffers are.
#[derive(Debug, Clone, Copy)]
pub struct Cables {
    pub port: Rate,
    pub trunk: Rate,
    pub link: Picos,
    /// What one way in may have queued before it is paused, and below which it goes on. Units: bytes.
    pub xoff: u64,
    pub xon: u64,
}

/// A way into a leaf.
#[derive(Debug, Default)]
struct In {
    coming: VecDeque<(Burst, Host)>,
    queued: u64,
    is_held: bool,
}

/// A way out of a leaf.
#[derive(Debug, Default)]
struct Out {
    queue: VecDeque<(Burst, Host, Place)>,
    wire: Server,
    is_held: bool,
    is_scheduled: bool,
}

/// Both leaves.
#[derive(Debug)]
pub struct Leaves {
    cables: Cables,
    ins: [In; 2 * ENDS],
    outs: [Out; 2 * ENDS],
    to_hosts: [[VecDeque<Burst>; 2]; 2],
    /// What each host sent by its ports, and what it received. Units: bytes.
    pub sent_bytes: [[u64; 2]; 2],
    pub received_bytes: [[u64; 2]; 2],
}

impl Leaves {
    /// Leaves at rest.
    pub fn new(cables: Cables) -> Self {
        Self {
            cables,
            ins: Default::default(),
            outs: Default::default(),
            to_hosts: Default::default(),
            sent_bytes: Default::default(),
            received_bytes: Default::default(),
        }
    }

    /// A host sends a burst, which says by which port.
    pub fn sent(&mut self, now: Picos, from: Host, burst: Burst, at: &mut impl FnMut(Picos, Step)) {
        self.sent_bytes[from.index()][usize::from(burst.ports.leave)] += burst.wire;
        let place = Place::of(burst.ports.leave.into(), from.index());
        self.ins[place.index()].coming.push_back((burst, from.peer()));
        at(now + self.cables.link, Step::Enter(place));
    }

    /// A host asks its leaf at a port to be silent, or to go on.
    pub fn pause(&mut self, now: Picos, host: Host, port: u8, is_on: bool, at: &mut impl FnMut(Picos, Step)) {
        at(now + self.cables.link, Step::Hold(Place::of(port.into(), host.index()), is_on));
    }

    /// The burst that reaches a port of a host.
    pub fn arrived(&mut self, host: Host, port: u8) -> Option<Burst> {
        let burst = self.to_hosts[host.index()][usize::from(port)].pop_front()?;
        self.received_bytes[host.index()][usize::from(port)] += burst.wire;
        Some(burst)
    }

    /// A burst comes in, and waits at the port that leads to where it arrives.
    pub fn enter(&mut self, now: Picos, place: Place, at: &mut impl FnMut(Picos, Step)) {
        let way = &mut self.ins[place.index()];
        let Some((burst, to)) = way.coming.pop_front() else { return };
        way.queued += burst.wire;
        if way.queued > self.cables.xoff && !way.is_held {
            way.is_held = true;
            self.upstream(now, place, true, at);
        }
        let is_here = burst.ports.arrive == place.leaf;
        let out = Place::of(place.leaf.into(), if is_here { to.index() } else { TRUNK });
        self.outs[out.index()].queue.push_back((burst, to, place));
        self.kick(now, out, at);
    }

    /// What a port leads to asks for silence, or lets it go on.
    pub fn hold(&mut self, now: Picos, place: Place, is_on: bool, at: &mut impl FnMut(Picos, Step)) {
        self.outs[place.index()].is_held = is_on;
        self.kick(now, place, at);
    }

    /// The wire of a port is free.
    pub fn leave(&mut self, now: Picos, place: Place, at: &mut impl FnMut(Picos, Step)) {
        self.outs[place.index()].is_scheduled = false;
        self.kick(now, place, at);
    }

    /// Pauses what is at the other end of a way in, or lets it go on.
    fn upstream(&self, now: Picos, place: Place, is_on: bool, at: &mut impl FnMut(Picos, Step)) {
        let step = match place.end.into() {
            TRUNK => Step::Hold(Place { leaf: 1 - place.leaf, ..place }, is_on),
            host => Step::Pause(Host::BOTH[host], place.leaf, is_on),
        };
        at(now + self.cables.link, step);
    }

    /// Sends what may be sent, cut-through.
    fn kick(&mut self, now: Picos, place: Place, at: &mut impl FnMut(Picos, Step)) {
        let out = &mut self.outs[place.index()];
        if out.is_held || out.is_scheduled || out.queue.is_empty() {
            return;
        }
        if out.wire.free() > now {
            out.is_scheduled = true;
            at(out.wire.free(), Step::Leave(place));
            return;
        }
        let Some((burst, to, from)) = out.queue.pop_front() else { return };
        let is_trunk = usize::from(place.end) == TRUNK;
        let rate = if is_trunk { self.cables.trunk } else { self.cables.port };
        out.wire.serve(now, rate.time(burst.wire));
        let way = &mut self.ins[from.index()];
        way.queued -= burst.wire;
        if way.is_held && way.queued < self.cables.xon {
            way.is_held = false;
            self.upstream(now, from, false, at);
        }
        let there = now + self.cables.link;
        if is_trunk {
            let place = Place { leaf: 1 - place.leaf, ..place };
            self.ins[place.index()].coming.push_back((burst, to));
            at(there, Step::Enter(place));
        } else {
            self.to_hosts[to.index()][usize::from(place.leaf)].push_back(burst);
            at(there, Step::Arrive(to, place.leaf));
        }
        self.kick(now, place, at);
    }
}

#[cfg(test)]
mod tests {
    use kelpie_events::Events;
    use kelpie_nic::packet::{Kind, Ports};

    use super::*;

    fn cables() -> Cables {
        let link = Picos::from_nanos(300.0);
        Cables { port: Rate::gbps(100.0), trunk: Rate::gbps(50.0), link, xoff: 8000, xon: 4000 }
    }

    /// Sends bursts of 1,000 bytes, one each 80 ns and host unless it is silent, and says what each port of `b` got.
    fn run(ports: &[(u8, u8)], until: Picos) -> ([u64; 2], [u64; 2]) {
        let mut leaves = Leaves::new(cables());
        let mut events: Events<Option<Step>> = Events::default();
        let (mut got, mut pauses, mut silent, mut turn) = ([0; 2], [0; 2], [false; 2], 0);
        events.at(Picos::ZERO, None);
        while let Some((now, step)) = events.next_before(until) {
            let at = &mut |time: Picos, step: Step| events.at(time, Some(step));
            match step {
                None => {
                    let (leave, arrive) = ports[turn % ports.len()];
                    turn += 1;
                    if !silent[usize::from(leave)] {
                        let mut burst = Burst::new(Kind::Write, 0, false, true, 0).by(Ports { leave, arrive });
                        (burst.packets, burst.wire) = (1, 1000);
                        leaves.sent(now, Host::A, burst, at);
                    }
                    events.at(now + Picos::from_nanos(80.0 / ports.len().min(2) as f64), None);
                }
                Some(Step::Enter(place)) => leaves.enter(now, place, at),
                Some(Step::Leave(place)) => leaves.leave(now, place, at),
                Some(Step::Hold(place, is_on)) => leaves.hold(now, place, is_on, at),
                Some(Step::Arrive(Host::B, port)) => {
                    let burst = leaves.arrived(Host::B, port).expect("it comes");
                    assert_eq!(burst.ports.arrive, port);
                    got[usize::from(port)] += burst.wire;
                }
                Some(Step::Arrive(Host::A, _) | Step::Pause(Host::B, ..)) => panic!("nobody sends to a"),
                Some(Step::Pause(Host::A, port, is_on)) => {
                    silent[usize::from(port)] = is_on;
                    pauses[usize::from(port)] += u64::from(is_on);
                }
            }
        }
        (got, pauses)
    }

    #[test]
    fn like_to_like_has_both_ports_and_what_crosses_has_the_trunk() {
        let span = Picos::from_nanos(100_000.0);
        let gbps = |bytes: u64| bytes as f64 * 8.0 / 100_000.0;
        let (got, pauses) = run(&[(0, 0), (1, 1)], span);
        assert!(got.iter().all(|bytes| (gbps(*bytes) - 100.0).abs() < 2.0) && pauses == [0, 0], "{got:?} {pauses:?}");
        let (got, pauses) = run(&[(0, 1), (1, 0)], span);
        assert!(got.iter().all(|bytes| (gbps(*bytes) - 50.0).abs() < 2.0), "{got:?}");
        assert!(pauses.iter().all(|count| *count > 3), "{pauses:?}");
        // Two ports that meet at one of the receiver's: the trunk's half of it, and what is left for the other.
        let (got, pauses) = run(&[(0, 0), (1, 0)], span);
        assert!((gbps(got[0]) - 100.0).abs() < 2.0 && got[1] == 0 && pauses[1] > 3, "{got:?} {pauses:?}");
    }
}
