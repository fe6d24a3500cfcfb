//! What lies between the hosts: cables, and one switch or, if hosts have two ports, two leaves. Each leaf has one port
//! of each host, and a trunk to the other leaf. All is lossless: a sender that fills a switch is paused at the port by
//! which it comes in.

use kelpie_events::{Picos, Rate};
use kelpie_nic::packet::Burst;
use kelpie_spaces::Host;
use kelpie_switch::{BufferForm, Link, Neighbours, Packet, Signal, Switch, Threshold};

/// Ends that a leaf has cables to: both hosts and the other leaf.
const ENDS: usize = 3;
/// The other leaf among them.
const TRUNK: usize = 2;

/// A port of a switch: which switch, and what is at the other end of its cable.
#[derive(Debug, Clone, Copy)]
pub struct SwitchPort {
    switch: u8,
    end: u8,
}

impl SwitchPort {
    fn of(switch: usize, end: usize) -> Self {
        Self { switch: switch as u8, end: end as u8 }
    }

    fn index(self) -> usize {
        usize::from(self.switch) * ENDS + usize::from(self.end)
    }
}

/// What happens next, and where.
#[derive(Debug, Clone, Copy)]
pub enum NetworkEvent {
    /// A burst comes in.
    Enter(SwitchPort),
    /// A port may send.
    Leave(SwitchPort),
    /// What a port leads to asks it to be silent, or to go on.
    Hold(SwitchPort, Signal),
    /// A burst reaches a port of a host.
    Arrive(Host, u8),
    /// A pause frame reaches a port of a host, or one that ends the pause.
    Pause(Host, u8, Signal),
}

/// What the cables and switches are.
#[derive(Debug, Clone, Copy)]
pub struct Cables {
    /// Of the ports of each host, both ways.
    pub ports: [Rate; 2],
    /// Of the trunk between leaves, if there are two.
    pub trunk: Option<Rate>,
    /// From one end of a cable to the other.
    pub link: Picos,
    /// What one way in may have queued before it is paused, and below which it goes on. Units: bytes.
    pub xoff: u64,
    pub xon: u64,
}

/// A burst, and the host that it goes to.
#[derive(Debug, Clone, Copy)]
struct Frame {
    burst: Burst,
    to: Host,
}

impl Packet for Frame {
    #[inline]
    fn bytes(&self) -> u64 {
        self.burst.wire
    }
}

/// All cables. Shape of what comes into switches: by place; of what comes to hosts: by host and port.
#[derive(Debug)]
struct Cabling {
    to_switches: [Link<Frame>; 2 * ENDS],
    to_hosts: [[Link<Burst>; 2]; 2],
    link: Picos,
    /// How far switches are ahead of the hosts.
    ahead: Picos,
}

/// What lies around one switch.
struct SwitchEnvironment<'a, F> {
    switch: usize,
    cabling: &'a mut Cabling,
    at: &'a mut F,
}

impl<F: FnMut(Picos, NetworkEvent)> Neighbours<Frame> for SwitchEnvironment<'_, F> {
    #[inline]
    fn sent(&mut self, now: Picos, port: usize, Frame { burst, to }: Frame, _: u64) {
        if port == TRUNK {
            let place = SwitchPort::of(1 - self.switch, TRUNK);
            let there = self.cabling.to_switches[place.index()].send(now, Frame { burst, to });
            (self.at)(there, NetworkEvent::Enter(place));
        } else {
            let there = self.cabling.to_hosts[to.index()][self.switch].send(now, burst);
            (self.at)(there, NetworkEvent::Arrive(to, self.switch as u8));
        }
    }

    fn signal(&mut self, now: Picos, port: usize, _: usize, signal: Signal) {
        let step = match port {
            TRUNK => NetworkEvent::Hold(SwitchPort::of(1 - self.switch, TRUNK), signal),
            host => NetworkEvent::Pause(Host::BOTH[host], self.switch as u8, signal),
        };
        (self.at)(now + self.cabling.link, step);
    }

    fn due(&mut self, time: Picos, port: usize) {
        (self.at)(time - self.cabling.ahead, NetworkEvent::Leave(SwitchPort::of(self.switch, port)));
    }
}

/// What each port moved, by host and port. Units: bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByPort {
    /// By which they left.
    pub sent_bytes: [[u64; 2]; 2],
    /// At which they arrived.
    pub received_bytes: [[u64; 2]; 2],
}

/// Switches and cables.
#[derive(Debug)]
pub struct Network {
    switches: Vec<Switch<Frame>>,
    cabling: Cabling,
    moved: ByPort,
}

impl Network {
    /// Switches and cables on which nothing moves.
    pub fn new(cables: Cables) -> Self {
        let Cables { ports: [a, b], trunk, link, xoff, xon } = cables;
        let form = BufferForm { capacity: u64::MAX, threshold: Threshold::Fixed { xoff, xon } };
        let switches = match trunk {
            None => vec![Switch::new(form, &[a, b])],
            Some(trunk) => vec![Switch::new(form, &[a, b, trunk]); 2],
        };
        // All that comes to a switch that is alone takes equally long, so that it is dealt with in order when it leaves
        // its host, and the switch is ahead of the hosts by that time: an event less for each burst.
        let ahead = if trunk.is_none() { link } else { Picos::ZERO };
        let cabling = Cabling {
            to_switches: std::array::from_fn(|_| Link::new(link)),
            to_hosts: std::array::from_fn(|_| std::array::from_fn(|_| Link::new(link))),
            link,
            ahead,
        };
        Self { switches, cabling, moved: ByPort::default() }
    }

    /// Whether there are leaves in the place of the switch.
    pub fn has_leaves(&self) -> bool {
        self.switches.len() > 1
    }

    /// What each port of both hosts has sent and received.
    pub fn moved(&self) -> ByPort {
        self.moved
    }

    /// What waits in switches. Units: bytes.
    #[cfg(test)]
    pub fn queued(&self) -> u64 {
        self.switches.iter().map(Switch::filled).sum()
    }

    /// A host sends a burst, which says by which port.
    pub fn sent(&mut self, now: Picos, from: Host, burst: Burst, at: &mut impl FnMut(Picos, NetworkEvent)) {
        self.moved.sent_bytes[from.index()][usize::from(burst.ports.leave)] += burst.wire;
        let (place, frame) = (SwitchPort::of(burst.ports.leave.into(), from.index()), Frame { burst, to: from.peer() });
        if self.has_leaves() {
            let there = self.cabling.to_switches[place.index()].send(now, frame);
            at(there, NetworkEvent::Enter(place));
        } else {
            self.enter(now + self.cabling.ahead, place, frame, at);
        }
    }

    /// A host asks its switch at a port to be silent, or to go on.
    pub fn pause(
        &mut self,
        now: Picos,
        host: Host,
        port: u8,
        signal: Signal,
        at: &mut impl FnMut(Picos, NetworkEvent),
    ) {
        let place = SwitchPort::of(port.into(), host.index());
        if self.has_leaves() {
            at(now + self.cabling.link, NetworkEvent::Hold(place, signal));
        } else {
            self.hold(now, place, signal, at);
        }
    }

    /// The burst that reaches a port of a host.
    pub fn arrived(&mut self, host: Host, port: u8) -> Option<Burst> {
        let burst = self.cabling.to_hosts[host.index()][usize::from(port)].arrive()?;
        self.moved.received_bytes[host.index()][usize::from(port)] += burst.wire;
        Some(burst)
    }

    /// A burst comes to the end of the cable that leads to a place.
    pub fn entered(&mut self, now: Picos, place: SwitchPort, at: &mut impl FnMut(Picos, NetworkEvent)) {
        if let Some(frame) = self.cabling.to_switches[place.index()].arrive() {
            self.enter(now, place, frame, at);
        }
    }

    /// A burst comes in, and waits at the port that leads to where it arrives.
    fn enter(&mut self, now: Picos, place: SwitchPort, frame: Frame, at: &mut impl FnMut(Picos, NetworkEvent)) {
        let is_here = frame.burst.ports.arrive == place.switch;
        let out = if is_here { frame.to.index() } else { TRUNK };
        let (switch, mut around) = self.switch_at(place, at);
        let has_room = switch.enter(now, [place.end.into(), out], frame, &mut around);
        debug_assert!(has_room, "its buffer has no end");
    }

    /// What a port leads to asks for silence, or lets it go on.
    pub fn hold(&mut self, now: Picos, place: SwitchPort, signal: Signal, at: &mut impl FnMut(Picos, NetworkEvent)) {
        let now = now + self.cabling.ahead;
        let (switch, mut around) = self.switch_at(place, at);
        switch.hold(now, place.end.into(), 0, signal, &mut around);
    }

    /// The wire of a port is free.
    pub fn leave(&mut self, now: Picos, place: SwitchPort, at: &mut impl FnMut(Picos, NetworkEvent)) {
        let now = now + self.cabling.ahead;
        let (switch, mut around) = self.switch_at(place, at);
        switch.leave(now, place.end.into(), &mut around);
    }

    /// The switch of a place, and what is around it.
    fn switch_at<'a, F>(
        &'a mut self,
        place: SwitchPort,
        at: &'a mut F,
    ) -> (&'a mut Switch<Frame>, SwitchEnvironment<'a, F>) {
        let switch = usize::from(place.switch);
        (&mut self.switches[switch], SwitchEnvironment { switch, cabling: &mut self.cabling, at })
    }
}

#[cfg(test)]
mod tests {
    use kelpie_events::Events;
    use kelpie_nic::packet::{PacketKind, PacketPorts};

    use super::*;

    fn cables(trunk: Option<Rate>) -> Cables {
        Cables { ports: [Rate::gbps(100.0); 2], trunk, link: Picos::from_nanos(300.0), xoff: 8000, xon: 4000 }
    }

    /// Sends bursts of 1,000 bytes, one each 80 ns and host unless it is silent, and says what each port of `b` got.
    fn run(cables: Cables, ports: &[(u8, u8)], until: Picos) -> ([u64; 2], [u64; 2]) {
        let mut network = Network::new(cables);
        let mut events: Events<Option<NetworkEvent>> = Events::default();
        let (mut got, mut pauses, mut silent, mut turn) = ([0; 2], [0; 2], [false; 2], 0);
        events.at(Picos::ZERO, None);
        while let Some((now, step)) = events.next_before(until) {
            let at = &mut |time: Picos, step: NetworkEvent| events.at(time, Some(step));
            match step {
                None => {
                    let (leave, arrive) = ports[turn % ports.len()];
                    turn += 1;
                    if !silent[usize::from(leave)] {
                        let mut burst =
                            Burst::new(PacketKind::Write, 0, false, true, 0).by(PacketPorts { leave, arrive });
                        (burst.packets, burst.wire) = (1, 1000);
                        network.sent(now, Host::A, burst, at);
                    }
                    events.at(now + Picos::from_nanos(80.0 / ports.len().min(2) as f64), None);
                }
                Some(NetworkEvent::Enter(place)) => network.entered(now, place, at),
                Some(NetworkEvent::Leave(place)) => network.leave(now, place, at),
                Some(NetworkEvent::Hold(place, signal)) => network.hold(now, place, signal, at),
                Some(NetworkEvent::Arrive(Host::B, port)) => {
                    let burst = network.arrived(Host::B, port).expect("it comes");
                    assert_eq!(burst.ports.arrive, port);
                    got[usize::from(port)] += burst.wire;
                }
                Some(NetworkEvent::Arrive(Host::A, _) | NetworkEvent::Pause(Host::B, ..)) => {
                    panic!("nobody sends to a")
                }
                Some(NetworkEvent::Pause(Host::A, port, signal)) => {
                    silent[usize::from(port)] = signal == Signal::Pause;
                    pauses[usize::from(port)] += u64::from(signal == Signal::Pause);
                }
            }
        }
        assert_eq!(network.moved().received_bytes, [[0; 2], got]);
        (got, pauses)
    }

    const SPAN: Picos = Picos::new(100_000_000);

    fn gbps(bytes: u64) -> f64 {
        bytes as f64 * 8.0 / 100_000.0
    }

    #[test]
    fn like_to_like_has_both_ports_and_what_crosses_has_the_trunk() {
        let leaves = cables(Some(Rate::gbps(50.0)));
        let (got, pauses) = run(leaves, &[(0, 0), (1, 1)], SPAN);
        assert!(got.iter().all(|bytes| (gbps(*bytes) - 100.0).abs() < 2.0) && pauses == [0, 0], "{got:?} {pauses:?}");
        let (got, pauses) = run(leaves, &[(0, 1), (1, 0)], SPAN);
        assert!(got.iter().all(|bytes| (gbps(*bytes) - 50.0).abs() < 2.0), "{got:?}");
        assert!(pauses.iter().all(|count| *count > 3), "{pauses:?}");
        // Two ports that meet at one of the receiver's: the trunk's half of it, and what is left for the other.
        let (got, pauses) = run(leaves, &[(0, 0), (1, 0)], SPAN);
        assert!((gbps(got[0]) - 100.0).abs() < 2.0 && got[1] == 0 && pauses[1] > 3, "{got:?} {pauses:?}");
    }

    #[test]
    fn a_switch_that_is_alone_pauses_who_sends_faster_than_its_port() {
        // What is left below XON lasts for as long as it takes the sender to hear that it may go on, and to be here
        // again.
        let alone = Cables { xoff: 16_000, xon: 12_000, ..cables(None) };
        let (got, pauses) = run(alone, &[(0, 0)], SPAN);
        assert!((gbps(got[0]) - 100.0).abs() < 2.0 && pauses == [0, 0], "{got:?} {pauses:?}");
        let (got, pauses) = run(alone, &[(0, 0), (0, 0)], SPAN);
        assert!((gbps(got[0]) - 100.0).abs() < 2.0 && pauses[0] > 3, "{got:?} {pauses:?}");
    }
}
