//! A part of a fabric that one thread simulates: some nodes with all that happens at them.

use kelpie_events::{Picos, Wheel};
use kelpie_switch::{Arrival, SharedBuffer, Signal};

use crate::congestion::{CongestionControl, Hop, Line, NEVER, PortLoad};
use crate::early::{Early, Resend};
use crate::hash::uniform;
use crate::layout::{Layout, NONE};
use crate::nic::{Counted, Message, Nic, Receiver, Sender};
use crate::packet::{MARKED, Packet, PacketKind, Packets};
use crate::port::{ClassQueue, Port, REMOTE, SWITCH};
use crate::settings::{Recovery, Settings};

/// Bits of an event below its kind.
const KIND: u32 = 29;
/// A packet arrives at a port: before anything leaves at the same time.
pub(crate) const ARRIVE: u32 = 0;
/// A port looks whether something can leave.
pub(crate) const LOOK: u32 = 1 << KIND;
/// The timer of a QP is due.
pub(crate) const TIMER: u32 = 2 << KIND;
/// A message is posted.
pub(crate) const POST: u32 = 3 << KIND;

/// What does not change between two failures of links.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub layout: &'a Layout,
    pub settings: &'a Settings,
    /// Ports of all ways, one way after the other.
    pub ways: Vec<u32>,
    /// Where the ways of each QP begin, there and back; [`NONE`] if there is none.
    pub qp_ways: Vec<[u32; 2]>,
    /// What each QP's way is like.
    pub lines: Vec<Line>,
    /// The longest empty round trip. Units: ns.
    pub longest_rtt: f64,
    /// Messages that wait for a message to arrive, and to be acknowledged.
    pub after_received: Followers,
    /// Acknowledged.
    pub after_sent: Followers,
    /// How long after the last of what it waits for a message is posted. Units: ns.
    pub delays: Vec<u64>,
    /// Which part each node belongs to.
    pub parts: Vec<u8>,
    /// Whether each link works.
    pub works: Vec<bool>,
    /// Whether all of them do.
    pub all_work: bool,
    /// Classes of data.
    pub classes: usize,
}

impl Plan<'_> {
    /// The ports of a way, by where it begins; nothing if there is none.
    pub fn ports_of_way(&self, begin: u32) -> &[u32] {
        let rest = self.ways.get(begin as usize..).unwrap_or_default();
        &rest[..rest.iter().position(|port| *port == NONE).unwrap_or(rest.len())]
    }
}

/// Messages that wait for others.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    first: Vec<u32>,
    followers: Vec<u32>,
}

impl Followers {
    /// From pairs of a message and one that waits for it.
    pub fn new(messages: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut first = vec![0; messages + 1];
        pairs.clone().for_each(|(cause, _)| first[cause as usize + 1] += 1);
        (0..messages).for_each(|message| first[message + 1] += first[message]);
        let mut next = first.clone();
        let mut followers = vec![0; first[messages] as usize];
        for (cause, effect) in pairs {
            followers[next[cause as usize] as usize] = effect;
            next[cause as usize] += 1;
        }
        Self { first, followers }
    }

    /// Those of a message.
    pub fn of(&self, message: u32) -> &[u32] {
        let message = message as usize;
        &self.followers[self.first[message] as usize..self.first[message + 1] as usize]
    }
}

/// A packet that goes to another part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing<const HOPS: usize> {
    pub port: u32,
    pub at: u64,
    pub packet: Packet,
    pub hops: [Hop; HOPS],
}

/// What happened in a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets times the links that they crossed, pauses included.
    pub hop_packets: u64,
    /// Events.
    pub events: u64,
    /// Marks by switches.
    pub ecn_marks: u64,
    /// Frames that pause, by switches.
    pub pfc_pauses: u64,
    /// Most that waited at one port in one class. Units: bytes.
    pub max_queue_bytes: u64,
    /// Packets that found no room in a switch.
    pub drops: u64,
    /// Packets that links lost.
    pub losses: u64,
    /// Data packets that were sent again.
    pub retransmissions: u64,
    /// CNPs.
    pub cnps: u64,
    /// Packets that hosts sent: data, acknowledgements and CNPs.
    pub sent_packets: u64,
    /// Those that came to hosts.
    pub received_packets: u64,
    /// Timeouts of QPs.
    pub timeouts: u64,
}

impl Counters {
    /// Takes in those of another part.
    pub(crate) fn add(&mut self, other: &Self) {
        self.hop_packets += other.hop_packets;
        self.events += other.events;
        self.ecn_marks += other.ecn_marks;
        self.pfc_pauses += other.pfc_pauses;
        self.max_queue_bytes = self.max_queue_bytes.max(other.max_queue_bytes);
        self.drops += other.drops;
        self.losses += other.losses;
        self.retransmissions += other.retransmissions;
        self.cnps += other.cnps;
        self.sent_packets += other.sent_packets;
        self.received_packets += other.received_packets;
        self.timeouts += other.timeouts;
    }
}

/// A part.
pub(crate) struct Shard<C: CongestionControl, const HOPS: usize> {
    /// Its number.
    pub part: u8,
    pub control: C,
    pub now: u64,
    /// Messages of its hosts whose senders know that they arrived.
    pub done: usize,
    /// When a message was posted, a packet came to a host or a QP timed out, the last time.
    pub last: u64,
    pub wheel: Wheel,
    pub packets: Packets<HOPS>,
    pub ports: Vec<Port>,
    /// Of each port, its classes.
    pub queues: Vec<ClassQueue>,
    /// Of switches.
    pub buffers: Vec<SharedBuffer>,
    pub nics: Vec<Nic>,
    pub senders: Vec<Sender>,
    pub flows: Vec<C::Flow>,
    pub receivers: Vec<Receiver>,
    pub counted: Vec<Counted>,
    /// What senders and receivers keep if they repeat selectively.
    pub resends: Vec<Resend>,
    pub early: Vec<Early>,
    pub messages: Vec<Message>,
    pub outbox: Vec<Crossing<HOPS>>,
    pub counters: Counters,
    /// Of ports whose load goes into packets.
    pub loads: Vec<PortLoad>,
    /// Frames that pause, by the port that sent them.
    pub pauses: Vec<u32>,
    due: Vec<u32>,
}

impl<C: CongestionControl, const HOPS: usize> Shard<C, HOPS> {
    #[expect(clippy::too_many_arguments, reason = "the parts of a part")]
    pub fn new(
        part: u8,
        control: C,
        plan: &Plan<'_>,
        buffers: Vec<SharedBuffer>,
        nics: Vec<Nic>,
        ports: Vec<Port>,
        senders: Vec<Sender>,
        messages: Vec<Message>,
    ) -> Self {
        let is_selective = matches!(plan.settings.recovery, Recovery::Selective { .. });
        let selective = if is_selective { senders.len() } else { 0 };
        let flows = plan.lines.iter().map(|line| control.start(line)).collect();
        Self {
            part,
            control,
            now: 0,
            done: 0,
            last: 0,
            wheel: Wheel::default(),
            packets: Packets::default(),
            queues: vec![ClassQueue::default(); ports.len() * plan.classes],
            pauses: vec![0; ports.len()],
            loads: vec![PortLoad::default(); if C::READS_LOAD { ports.len() } else { 0 }],
            ports,
            buffers,
            nics,
            receivers: vec![Receiver::default(); senders.len()],
            counted: vec![Counted::default(); senders.len()],
            resends: vec![Resend::default(); selective],
            early: vec![Early::default(); selective],
            senders,
            flows,
            messages,
            outbox: Vec::new(),
            counters: Counters::default(),
            due: Vec::new(),
        }
    }

    /// Simulates until a time. Units: ns.
    pub fn run_until(&mut self, plan: &Plan<'_>, end: u64) {
        let mut due = std::mem::take(&mut self.due);
        while let Some(now) = self.wheel.next_before(end, &mut due) {
            self.now = now;
            self.counters.events += due.len() as u64;
            for event in &due {
                let id = event & ((1 << KIND) - 1);
                match event & (7 << KIND) {
                    LOOK => self.look(plan, id),
                    ARRIVE => self.arrive(plan, id),
                    TIMER => self.timer(plan, id),
                    _ => self.post(plan, id),
                }
            }
        }
        self.due = due;
    }

    /// What of a QP arrived here in order. Units: bytes.
    pub fn received_bytes(&self, plan: &Plan<'_>, qp: usize) -> u64 {
        let packets = u64::from(self.receivers[qp].expected);
        packets * u64::from(plan.settings.payload) - self.counted[qp].short
    }

    /// A link failed or works again: pauses do not outlive a failure, and what still has to be silent hears so again.
    #[cold]
    pub fn link_changed(&mut self, plan: &Plan<'_>, now: u64, link: u32) {
        self.now = now;
        for port in plan.layout.ports_of_link(link) {
            if plan.parts[plan.layout.ports[port as usize].node as usize] != self.part {
                continue;
            }
            let Port { owner, ingress, .. } = self.ports[port as usize];
            if !plan.works[link as usize] {
                self.ports[port as usize].paused = 0;
                self.kick(plan, port);
            } else if !self.ports[port as usize].is_host() && plan.settings.buffer.pfc {
                for class in 0..plan.classes {
                    let is_on = |buffer: &SharedBuffer| buffer.pauses(usize::from(ingress) + class).is_on();
                    if self.buffers.get(owner as usize).is_some_and(is_on) {
                        self.signal(plan, port, class, PacketKind::Pause);
                    }
                }
            }
        }
    }

    /// Takes packets from other parts.
    pub fn take(&mut self, crossings: &[Crossing<HOPS>]) {
        for crossing in crossings {
            let packet = self.packets.put(crossing.packet);
            if let Some(hops) = self.packets.all_hops(packet) {
                *hops = crossing.hops;
            }
            self.on_the_way(crossing.port, crossing.at, packet);
        }
    }

    /// A packet will arrive at a port.
    #[inline]
    fn on_the_way(&mut self, port: u32, at: u64, packet: u32) {
        self.packets.at(packet).place = at as u32;
        let arriving = &mut self.ports[port as usize].arriving;
        let is_first = arriving.is_empty();
        self.packets.push(arriving, packet);
        if is_first {
            self.wheel.at(at, ARRIVE | port);
        }
    }

    /// The first packet on its way to a port has arrived.
    #[inline]
    fn arrive(&mut self, plan: &Plan<'_>, port: u32) {
        loop {
            let arriving = &mut self.ports[port as usize].arriving;
            let Some(packet) = self.packets.pop(arriving) else { return };
            let next = arriving.first();
            let wait = if next == NONE { 0 } else { self.packets.at(next).place.wrapping_sub(self.now as u32) };
            if wait > 0 {
                self.wheel.at(self.now + u64::from(wait), ARRIVE | port);
            }
            self.arrived(plan, port, packet);
            if next == NONE || wait > 0 {
                return;
            }
        }
    }

    #[inline]
    fn arrived(&mut self, plan: &Plan<'_>, port: u32, packet: u32) {
        if self.is_lost(plan, port, packet) {
            self.counters.losses += u64::from(!is_pause(self.packets.at(packet).kind));
            return self.packets.free(packet);
        }
        let Packet { kind, message, .. } = *self.packets.at(packet);
        match kind {
            PacketKind::Pause | PacketKind::Resume => {
                self.packets.free(packet);
                let bit = 1 << message;
                let paused = &mut self.ports[port as usize].paused;
                *paused = if kind == PacketKind::Pause { *paused | bit } else { *paused & !bit };
                self.kick(plan, port);
            }
            _ if self.is_at_its_end(plan, port, packet) => self.received(plan, packet),
            _ => self.forward(plan, port, packet),
        }
    }

    /// Whether a link loses the packet that arrives by it. Pauses are lost only with the whole link: real ones are said
    /// again before they end, here each is said once.
    #[inline]
    fn is_lost(&mut self, plan: &Plan<'_>, port: u32, packet: u32) -> bool {
        let state = &mut self.ports[port as usize];
        let loss = plan.layout.classes[usize::from(state.kind)].loss;
        if loss > 0.0 && !is_pause(self.packets.at(packet).kind) {
            state.count += 1;
            if uniform(plan.settings.seed ^ LOSSES, port, u64::from(state.count)) < loss {
                return true;
            }
        }
        !plan.all_work && !plan.works[plan.layout.ports[port as usize].link as usize]
    }

    /// Whether a packet has come to where it goes.
    #[inline]
    fn is_at_its_end(&mut self, plan: &Plan<'_>, port: u32, packet: u32) -> bool {
        self.ports[port as usize].is_host() && plan.ways[self.packets.at(packet).way as usize] == NONE
    }

    /// A packet came into a switch.
    #[inline]
    fn forward(&mut self, plan: &Plan<'_>, port: u32, packet: u32) {
        let at = self.packets.at(packet);
        let (way, bytes, kind, class) = (at.way, u64::from(at.bytes), at.kind, at.class());
        at.way += 1;
        let out = plan.ways[way as usize];
        if is_control(plan, kind) {
            self.packets.push(&mut self.ports[out as usize].control, packet);
            return self.kick(plan, out);
        }
        at.place = port;
        let state = &self.ports[port as usize];
        if state.flags & SWITCH != 0 {
            let buffer = &mut self.buffers[state.owner as usize];
            let ingress = usize::from(state.ingress) + class;
            match buffer.arrive(Picos::new(self.now * 1000), ingress, bytes) {
                Arrival::Lost => {
                    self.counters.drops += 1;
                    return self.packets.free(packet);
                }
                Arrival::Kept(Some(_)) if plan.settings.buffer.pfc => self.signal(plan, port, class, PacketKind::Pause),
                Arrival::Kept(_) => {}
            }
        }
        self.enqueue(plan, out, class, packet, bytes as u32);
        self.kick(plan, out);
    }

    /// A packet waits to leave.
    #[inline]
    pub fn enqueue(&mut self, plan: &Plan<'_>, out: u32, class: usize, packet: u32, bytes: u32) {
        let queue = &mut self.queues[out as usize * plan.classes + class];
        self.packets.push(&mut queue.packets, packet);
        queue.bytes += bytes;
        let state = &mut self.ports[out as usize];
        state.queued += bytes;
        if !state.is_host() {
            self.counters.max_queue_bytes = self.counters.max_queue_bytes.max(u64::from(queue.bytes));
        }
    }

    /// A switch pauses what sends to a port, or lets it go on.
    fn signal(&mut self, plan: &Plan<'_>, port: u32, class: usize, kind: PacketKind) {
        self.counters.pfc_pauses += u64::from(kind == PacketKind::Pause);
        self.pauses[port as usize] += u32::from(kind == PacketKind::Pause);
        let frame = Packet {
            next: NONE,
            message: class as u32,
            number: 0,
            stamp: 0,
            place: 0,
            way: NONE,
            more: 0,
            bytes: PAUSE_BYTES,
            kind,
            flags: 0,
        };
        let frame = self.packets.put(frame);
        self.packets.push(&mut self.ports[port as usize].control, frame);
        self.kick(plan, port);
    }

    /// Something may be able to leave by a port.
    #[inline]
    pub fn kick(&mut self, plan: &Plan<'_>, port: u32) {
        let mut free = self.ports[port as usize].free.div_ceil(1000);
        if free > self.now {
            return self.look_at(port, free);
        }
        // What takes less than its wire's nanosecond leaves the wire free.
        while self.transmit(plan, port) {
            free = self.ports[port as usize].free.div_ceil(1000);
            if free > self.now {
                return self.look_again(port, free);
            }
        }
    }

    /// A port looks at a time, or earlier.
    #[inline]
    pub fn look_at(&mut self, port: u32, time: u64) {
        let state = &mut self.ports[port as usize];
        if state.look > time {
            state.look = time;
            self.wheel.at(time, LOOK | port);
        }
    }

    #[inline]
    fn look(&mut self, plan: &Plan<'_>, port: u32) {
        let state = &mut self.ports[port as usize];
        if state.look == self.now {
            state.look = NEVER;
            self.kick(plan, port);
        }
    }

    /// The wire of a port is free: what is next leaves. Says whether something did.
    #[inline]
    fn transmit(&mut self, plan: &Plan<'_>, port: u32) -> bool {
        let state = &mut self.ports[port as usize];
        if let Some(packet) = self.packets.pop(&mut state.control) {
            self.send(plan, port, packet);
            return true;
        }
        let mut class = usize::from(state.class);
        for _ in 0..plan.classes {
            class = if class + 1 < plan.classes { class + 1 } else { 0 };
            if state.paused >> class & 1 != 0 {
                continue;
            }
            let queue = &mut self.queues[port as usize * plan.classes + class];
            let Some(packet) = self.packets.pop(&mut queue.packets) else { continue };
            let bytes = u32::from(self.packets.at(packet).bytes);
            queue.bytes -= bytes;
            let behind = queue.bytes;
            state.queued -= bytes;
            state.class = class as u8;
            if state.flags & SWITCH != 0 {
                self.leave(plan, port, class, packet, behind);
            }
            self.send(plan, port, packet);
            return true;
        }
        state.is_host() && self.next_of_qps(plan, port)
    }

    /// A packet leaves a switch.
    #[inline]
    fn leave(&mut self, plan: &Plan<'_>, port: u32, class: usize, packet: u32, behind: u32) {
        let at = self.packets.at(packet);
        let (bytes, from, is_data) = (u64::from(at.bytes), at.place, at.kind == PacketKind::Data);
        let state = &mut self.ports[port as usize];
        let kind = &plan.layout.classes[usize::from(state.kind)];
        if let Some(curve) = kind.ecn.filter(|curve| is_data && f64::from(behind) > curve.kmin) {
            state.count += 1;
            let filled = f64::from(behind);
            let odds = curve.pmax * (filled - curve.kmin) / (curve.kmax - curve.kmin);
            if filled > curve.kmax || uniform(plan.settings.seed, port, u64::from(state.count)) < odds {
                self.packets.at(packet).flags |= MARKED;
                self.counters.ecn_marks += 1;
            }
        }
        let buffer = &mut self.buffers[state.owner as usize];
        if (C::READS_HOPS || C::READS_LOAD) && is_data {
            let hop = Hop { at: self.now, sent: state.sent, queued: state.queued, bps: kind.bps as f32 };
            if C::READS_LOAD {
                state.count += 1;
                let random = uniform(plan.settings.seed ^ LOADS, port, u64::from(state.count));
                let load = self.control.write_load(&mut self.loads[port as usize], &hop, plan.longest_rtt, random);
                self.packets.at(packet).raise_load(load);
            } else {
                self.packets.write(packet, hop);
            }
        }
        let ingress = usize::from(self.ports[from as usize].ingress) + class;
        let signal = buffer.leave(Picos::new(self.now * 1000), ingress, bytes);
        if signal == Some(Signal::Resume) && plan.settings.buffer.pfc {
            self.signal(plan, from, class, PacketKind::Resume);
        }
    }

    /// A packet goes onto the wire of a port, which is free.
    #[inline]
    pub fn send(&mut self, plan: &Plan<'_>, port: u32, packet: u32) {
        let bytes = self.packets.at(packet).bytes;
        let state = &mut self.ports[port as usize];
        let class = &plan.layout.classes[usize::from(state.kind)];
        let mut picos = u64::from(bytes) * class.femtos_per_byte / 1000;
        if plan.settings.whole_ns {
            picos = picos / 1000 * 1000;
        }
        let now = self.now * 1000;
        // A packet right behind another one begins when that ended, which may lie within the nanosecond.
        let begin = if now - state.free < 1000 { state.free } else { now };
        state.free = begin + picos;
        state.sent += u64::from(bytes);
        let free = state.free.div_ceil(1000);
        let at = (free + u64::from(class.delay)).max(self.now + 1);
        self.counters.hop_packets += 1;
        let (peer, flags) = (state.peer, state.flags);
        if flags & REMOTE == 0 {
            self.on_the_way(peer, at, packet);
        } else {
            let hops = self.packets.all_hops(packet).map_or([Hop::default(); HOPS], |hops| *hops);
            let content = *self.packets.at(packet);
            self.outbox.push(Crossing { port: peer, at, packet: content, hops });
            self.packets.free(packet);
        }
    }

    /// A packet has just left a port: it looks again when the wire is free, if something waits.
    #[inline]
    fn look_again(&mut self, port: u32, free: u64) {
        let state = &self.ports[port as usize];
        if state.queued > 0 || !state.control.is_empty() {
            return self.look_at(port, free);
        }
        if !state.is_host() {
            return;
        }
        let nic = &self.nics[state.owner as usize];
        if nic.ready.iter().any(|ready| !ready.is_empty()) {
            self.look_at(port, free);
        } else if let Some(first) = nic.paced.peek() {
            self.look_at(port, free.max(first.0.0.div_ceil(1000)));
        }
    }
}

/// What keeps losses apart from marks.
const LOSSES: u64 = 0x1055;
/// What keeps the rounding of loads apart.
const LOADS: u64 = 0x10ad;
/// A pause frame. Source: IEEE 802.1Qbb. Units: bytes.
const PAUSE_BYTES: u16 = 64;

/// Whether a packet goes before all data, outside of PFC.
#[inline]
pub(crate) fn is_control(plan: &Plan<'_>, kind: PacketKind) -> bool {
    match kind {
        PacketKind::Data => false,
        PacketKind::Ack | PacketKind::Nack => plan.settings.acks_first,
        PacketKind::Cnp | PacketKind::Pause | PacketKind::Resume => true,
    }
}

#[inline]
fn is_pause(kind: PacketKind) -> bool {
    matches!(kind, PacketKind::Pause | PacketKind::Resume)
}
