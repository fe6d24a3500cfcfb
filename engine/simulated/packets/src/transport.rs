//! Reliable connections: what hosts send, acknowledge and send again.
//!
//! Source: InfiniBand Architecture Specification Volume 1, sections 9.7.5 (acknowledgements, NAK) and 9.9.2.1.2
//! (timeouts).

use std::cmp::Reverse;

use crate::congestion::{CongestionControl, Echo, NEVER};
use crate::layout::NONE;
use crate::marks::MarkEcho;
use crate::nic::{QpState, Sender};
use crate::packet::{CLASS_SHIFT, LAST, MARKED, Packet, PacketKind};
use crate::shard::{POST, Plan, Shard, TIMER, is_control};

/// What a packet has to wait less, so that a rate that rose is worth an event. Source: our choice. Units: ps.
const LEAST_HURRY: u64 = 1_000_000;
/// A CNP. Source: IBTA Architecture Specification Volume 1, Annex A17.9, with Ethernet's framing. Units: bytes.
const CNP_BYTES: u16 = 74;

impl<C: CongestionControl, const HOPS: usize> Shard<C, HOPS> {
    /// A message is posted to its QP.
    pub fn post(&mut self, plan: &Plan<'_>, number: u32) {
        let message = &mut self.messages[number as usize];
        let qp = message.qp;
        message.posted = self.now;
        self.last = self.now;
        if self.senders[qp as usize].port == NONE {
            // From a host to itself: something that takes time and no network.
            (message.received, message.done) = (self.now, self.now);
            self.done += 1;
            self.release(plan, plan.after_received.of(number));
            return self.release(plan, plan.after_sent.of(number));
        }
        let sender = &mut self.senders[qp as usize];
        if sender.acked == sender.posted {
            let (flow, line) = (&mut self.flows[qp as usize], &plan.lines[qp as usize]);
            self.control.resumes(flow, &mut sender.rate, line, self.now);
        }
        sender.posted += message.packets;
        message.end = sender.posted;
        if sender.oldest == NONE {
            (sender.oldest, sender.current) = (number, number);
        } else {
            self.messages[sender.newest as usize].next = number;
            if sender.current == NONE {
                sender.current = number;
            }
        }
        sender.newest = number;
        self.may_send(plan, qp);
    }

    /// A QP may be able to send: it is put where its time is, and its port looks.
    pub fn may_send(&mut self, plan: &Plan<'_>, qp: u32) {
        if self.senders[qp as usize].state == QpState::Idle && self.has_work(plan, qp) {
            let Sender { port, free, .. } = self.senders[qp as usize];
            if free <= self.now * 1000 {
                self.is_ready(qp);
                self.kick(plan, port);
            } else {
                self.is_paced(qp, free);
                self.look_at(port, free.div_ceil(1000));
            }
        }
    }

    /// Whether a QP has something to send that its window lets through.
    #[inline]
    fn has_work(&mut self, plan: &Plan<'_>, qp: u32) -> bool {
        let sender = &self.senders[qp as usize];
        (sender.next < sender.posted && !self.is_full(plan, qp)) || self.next_missing(qp).is_some()
    }

    #[inline]
    fn is_ready(&mut self, qp: u32) {
        let sender = &mut self.senders[qp as usize];
        sender.state = QpState::Ready;
        let nic = self.ports[sender.port as usize].owner;
        self.nics[nic as usize].ready[usize::from(sender.class)].put(sender.place);
    }

    #[inline]
    fn is_paced(&mut self, qp: u32, until: u64) {
        let sender = &mut self.senders[qp as usize];
        sender.state = QpState::Paced(until);
        let nic = self.ports[sender.port as usize].owner;
        self.nics[nic as usize].paced.push(Reverse((until, qp)));
    }

    /// Whether a QP's window is full.
    #[inline]
    fn is_full(&self, plan: &Plan<'_>, qp: u32) -> bool {
        let (sender, line) = (&self.senders[qp as usize], &plan.lines[qp as usize]);
        if line.window == 0.0 {
            return false;
        }
        let share = if plan.settings.window_follows_rate { sender.rate / line.bps } else { 1.0 };
        let window = (line.window * share).floor().max(1.0);
        f64::from(sender.next - sender.acked) * f64::from(plan.settings.payload) >= window
    }

    /// Ways were chosen anew: QPs that now leave by another port of their host wait there.
    #[cold]
    pub fn ways_changed(&mut self, plan: &Plan<'_>, now: u64, before: &[[u32; 2]]) {
        self.now = now;
        for qp in 0..self.senders.len() as u32 {
            let sender = &mut self.senders[qp as usize];
            let (old, new) = (before[qp as usize], plan.qp_ways[qp as usize]);
            let Some(port) = plan.ways.get(new[0] as usize) else { continue };
            if (0..2).any(|way| plan.ports_of_way(old[way]) != plan.ports_of_way(new[way])) {
                self.control.rerouted(&mut self.flows[qp as usize]);
            }
            if sender.port == *port || *port == NONE {
                continue;
            }
            let nic = self.ports[*port as usize].owner;
            sender.port = *port;
            sender.place = self.nics[nic as usize].ready[usize::from(sender.class)].add(qp);
            let is_here = plan.parts[plan.layout.ports[*port as usize].node as usize] == self.part;
            if is_here && sender.state != QpState::Error {
                sender.state = QpState::Idle;
                self.may_send(plan, qp);
            }
        }
    }

    /// The port of a host is free: the QP whose turn it is sends a packet. Says whether there was one.
    pub fn next_of_qps(&mut self, plan: &Plan<'_>, port: u32) -> bool {
        let now = self.now * 1000;
        let nic = self.ports[port as usize].owner as usize;
        while let Some(Reverse((until, qp))) = self.nics[nic].paced.peek().copied().filter(|first| first.0.0 <= now) {
            self.nics[nic].paced.pop();
            // A QP whose time has moved stands here twice.
            if self.senders[qp as usize].state == QpState::Paced(until) {
                self.is_ready(qp);
            }
        }
        let state = &self.ports[port as usize];
        let (paused, mut class) = (state.paused, usize::from(state.class));
        for _ in 0..plan.classes {
            class = if class + 1 < plan.classes { class + 1 } else { 0 };
            if paused >> class & 1 != 0 {
                continue;
            }
            while let Some(qp) = self.nics[nic].ready[class].pop() {
                let sender = &mut self.senders[qp as usize];
                if sender.state != QpState::Ready || sender.port != port {
                    continue;
                }
                sender.state = QpState::Idle;
                if !self.has_work(plan, qp) {
                    continue;
                }
                self.ports[port as usize].class = class as u8;
                self.send_data(plan, port, qp);
                return true;
            }
        }
        if let Some(first) = self.nics[nic].paced.peek() {
            let time = first.0.0.div_ceil(1000);
            self.look_at(port, time);
        }
        false
    }

    /// A QP sends its next packet.
    fn send_data(&mut self, plan: &Plan<'_>, port: u32, qp: u32) {
        let settings = plan.settings;
        let (number, message_number) = if let Some(number) = self.next_missing(qp) {
            (number, self.resent(qp, number))
        } else {
            let sender = &mut self.senders[qp as usize];
            while self.messages[sender.current as usize].end <= sender.next {
                sender.current = self.messages[sender.current as usize].next;
            }
            sender.next += 1;
            (sender.next - 1, sender.current)
        };
        let sender = &mut self.senders[qp as usize];
        let message = &self.messages[message_number as usize];
        let is_last = number + 1 == message.end;
        let payload = if is_last { message.last } else { settings.payload };
        let bytes = payload + settings.overhead;
        let way = plan.qp_ways[qp as usize][0];
        let packet = Packet {
            next: NONE,
            message: message_number,
            number,
            stamp: self.now as u32,
            place: 0,
            way: way.wrapping_add(1),
            more: 0,
            bytes: bytes as u16,
            kind: PacketKind::Data,
            flags: (u8::from(is_last) * LAST) | (sender.class << CLASS_SHIFT),
        };
        sender.last = bytes;
        self.counters.sent_packets += 1;
        if number < sender.most {
            self.counters.retransmissions += 1;
            self.counted[qp as usize].resent += 1;
        }
        sender.most = sender.most.max(sender.next);
        self.control.sent(&mut self.flows[qp as usize], &mut sender.rate, &plan.lines[qp as usize], bytes);
        let mut picos = (f64::from(bytes) * 8e12 / sender.rate) as u64;
        if settings.whole_ns {
            picos = picos / 1000 * 1000;
        }
        let wire = self.ports[port as usize].free;
        let now = self.now * 1000;
        sender.free = if now - wire < 1000 { wire } else { now } + picos;
        if sender.timeout == NEVER {
            sender.timeout = self.now.saturating_add(settings.timeout_ns);
            if self.is_selective() {
                self.wait_begins(plan, qp);
            }
        }
        let sender = &mut self.senders[qp as usize];
        let free = sender.free;
        self.arm(qp);
        let packet = self.packets.put(packet);
        // The QP stands behind the others before its packet leaves, so that the port knows that something waits.
        let wire = u64::from(bytes) * plan.layout.class(port).femtos_per_byte / 1000 + now;
        if self.has_work(plan, qp) {
            if free <= wire { self.is_ready(qp) } else { self.is_paced(qp, free) }
        }
        if way == NONE {
            // The port takes its time all the same.
            self.ports[port as usize].free = wire;
            self.counters.losses += 1;
            return self.packets.free(packet);
        }
        self.send(plan, port, packet);
    }

    /// A packet came to a host.
    pub fn received(&mut self, plan: &Plan<'_>, packet: u32) {
        let Packet { kind, message, number, stamp, more, flags, .. } = *self.packets.at(packet);
        self.counters.received_packets += 1;
        self.last = self.now;
        let qp = self.messages[message as usize].qp;
        match kind {
            PacketKind::Data => self.data(plan, qp, packet),
            PacketKind::Cnp => {
                self.packets.free(packet);
                let sender = &mut self.senders[qp as usize];
                self.control.notified(&mut self.flows[qp as usize], &mut sender.rate, self.now);
                self.arm(qp);
            }
            _ => {
                let echo = Echo {
                    now: self.now,
                    acked: number,
                    sent: self.senders[qp as usize].next.max(number),
                    marked: flags & MARKED != 0,
                    rtt_ns: u64::from((self.now as u32).wrapping_sub(stamp)),
                    load: more as u8,
                    hops: self.packets.hops(packet),
                };
                let sender = &mut self.senders[qp as usize];
                if sender.state == QpState::Error {
                    return self.packets.free(packet);
                }
                let is_news = number > sender.acked;
                if is_news {
                    sender.acked = number;
                    sender.next = sender.next.max(number);
                    sender.timeouts = 0;
                    let is_open = sender.acked < sender.most;
                    sender.timeout = if is_open { self.now.saturating_add(plan.settings.timeout_ns) } else { NEVER };
                }
                let before = sender.rate;
                let (flow, line) = (&mut self.flows[qp as usize], &plan.lines[qp as usize]);
                if echo.marked && plan.settings.echo == MarkEcho::Acknowledgement {
                    self.control.notified(flow, &mut sender.rate, self.now);
                }
                self.control.acknowledged(flow, &mut sender.rate, line, &echo);
                if kind == PacketKind::Nack {
                    self.control.lost(flow, &mut sender.rate, line, self.now, false);
                }
                if C::MOVES_NEXT && sender.rate.to_bits() != before.to_bits() {
                    let bytes = f64::from(sender.last) * 8e12;
                    let moved = sender.free as f64 + bytes / sender.rate - bytes / before;
                    sender.free = moved.max(0.0) as u64;
                    if let QpState::Paced(until) = sender.state
                        && sender.free != until
                    {
                        sender.state = QpState::Idle;
                    }
                }
                let is_nack = kind == PacketKind::Nack;
                if self.is_selective() {
                    self.heard(plan, qp, is_news, is_nack.then_some(number + (more >> 8)));
                } else if is_nack {
                    self.go_back(qp);
                }
                self.packets.free(packet);
                self.acknowledged(plan, qp);
                self.arm(qp);
                self.may_send(plan, qp);
            }
        }
    }

    /// A sender sends again all that has not been acknowledged.
    fn go_back(&mut self, qp: u32) {
        let sender = &mut self.senders[qp as usize];
        sender.next = sender.acked;
        sender.current = sender.oldest;
    }

    /// What of a QP has been acknowledged as a whole is done.
    fn acknowledged(&mut self, plan: &Plan<'_>, qp: u32) {
        loop {
            let sender = &mut self.senders[qp as usize];
            let number = sender.oldest;
            let Some(message) = self.messages.get_mut(number as usize) else { return };
            if message.end > sender.acked {
                return;
            }
            message.done = self.now;
            self.done += 1;
            if sender.current == number {
                sender.current = message.next;
            }
            sender.oldest = message.next;
            self.release(plan, plan.after_sent.of(number));
        }
    }

    /// Something that messages wait for has happened.
    fn release(&mut self, plan: &Plan<'_>, followers: &[u32]) {
        for follower in followers {
            let message = &mut self.messages[*follower as usize];
            message.waits -= 1;
            if message.waits == 0 {
                let crosses = self.senders[message.qp as usize].port != NONE;
                match plan.delays[*follower as usize] {
                    0 if crosses => self.post(plan, *follower),
                    // What crosses no network takes a nanosecond, so that chains of it do not call each other.
                    delay => self.wheel.at(self.now + delay.max(1), POST | follower),
                }
            }
        }
    }

    /// Data came to a host.
    fn data(&mut self, plan: &Plan<'_>, qp: u32, packet: u32) {
        let settings = plan.settings;
        let Packet { message, number, flags, .. } = *self.packets.at(packet);
        let receiver = &mut self.receivers[qp as usize];
        let is_marked = flags & MARKED != 0;
        let mut is_new_cnp = false;
        if is_marked
            && let MarkEcho::Cnp(interval) = settings.echo
            && receiver.cnp_from <= self.now
        {
            receiver.cnp_from = self.now + interval;
            is_new_cnp = true;
        }
        receiver.is_marked |= is_marked;
        let mut is_received = false;
        let early = self.early.get_mut(qp as usize);
        let answer = if number == receiver.expected {
            receiver.expected += 1;
            receiver.unacked += 1;
            is_received = flags & LAST != 0;
            let mut is_due = is_received || receiver.unacked >= settings.packets_per_ack;
            if let Some(early) = early {
                let missing = early.first_missing(receiver.expected);
                is_due |= missing > receiver.expected;
                receiver.expected = missing;
            }
            is_due.then_some(PacketKind::Ack)
        } else if number < receiver.expected {
            // It was there already: its acknowledgement was lost.
            Some(PacketKind::Ack)
        } else if let Some(early) = early {
            let is_new = early.put(number, (flags & LAST != 0).then_some(message));
            Some(if is_new { PacketKind::Nack } else { PacketKind::Ack })
        } else {
            let is_new = self.now >= receiver.nack_until || receiver.missing != receiver.expected;
            if is_new {
                receiver.nack_until = self.now + settings.nack_interval_ns;
                receiver.missing = receiver.expected;
            }
            is_new.then_some(PacketKind::Nack)
        };
        let at = self.packets.at(packet);
        if let Some(kind) = answer {
            at.kind = kind;
            at.came_behind(number.saturating_sub(receiver.expected));
            at.number = receiver.expected;
            at.bytes = settings.ack_bytes as u16;
            at.flags = (at.flags & !(MARKED | LAST)) | (u8::from(receiver.is_marked) * MARKED);
            (receiver.unacked, receiver.is_marked) = (0, false);
            self.answer(plan, qp, packet);
        } else {
            self.packets.free(packet);
        }
        if is_new_cnp {
            self.counters.cnps += 1;
            self.counted[qp as usize].cnps += 1;
            let flags = flags & !(MARKED | LAST);
            let cnp = Packet {
                next: NONE,
                message,
                number: 0,
                stamp: 0,
                place: 0,
                way: 0,
                more: 0,
                bytes: CNP_BYTES,
                kind: PacketKind::Cnp,
                flags,
            };
            let cnp = self.packets.put(cnp);
            self.answer(plan, qp, cnp);
        }
        if is_received {
            self.message_arrived(plan, qp, message);
        }
        if self.is_selective() {
            let expected = self.receivers[qp as usize].expected;
            self.ended_early(plan, qp, expected);
        }
    }

    /// All of a message is at its receiver.
    pub fn message_arrived(&mut self, plan: &Plan<'_>, qp: u32, number: u32) {
        let message = &mut self.messages[number as usize];
        message.received = self.now;
        self.counted[qp as usize].short += u64::from(plan.settings.payload - message.last);
        self.release(plan, plan.after_received.of(number));
    }

    /// A receiver answers.
    fn answer(&mut self, plan: &Plan<'_>, qp: u32, packet: u32) {
        self.counters.sent_packets += 1;
        let way = plan.qp_ways[qp as usize][1];
        if way == NONE {
            self.counters.losses += 1;
            return self.packets.free(packet);
        }
        let out = plan.ways[way as usize];
        let at = self.packets.at(packet);
        at.way = way + 1;
        let (bytes, class) = (u32::from(at.bytes), at.class());
        if is_control(plan, at.kind) {
            self.packets.push(&mut self.ports[out as usize].control, packet);
        } else {
            self.enqueue(plan, out, class, packet, bytes);
        }
        self.kick(plan, out);
    }

    /// The timer event of a QP is set to the earliest of what it waits for.
    fn arm(&mut self, qp: u32) {
        let sender = &mut self.senders[qp as usize];
        let due = sender.timeout.min(self.control.due(&self.flows[qp as usize]));
        if due < sender.timer {
            sender.timer = due.max(self.now + 1);
            self.wheel.at(sender.timer, TIMER | qp);
        }
    }

    /// A rate rose: a packet does not wait longer than it would have from now on. Not so in HPCC's and `SimAI`'s
    /// simulators, where marks come with acknowledgements, and gaps that began at a low rate last.
    fn hurry(&mut self, plan: &Plan<'_>, qp: u32) {
        let sender = &mut self.senders[qp as usize];
        let soon = self.now * 1000 + (f64::from(sender.last) * 8e12 / sender.rate) as u64;
        if let QpState::Paced(until) = sender.state
            && soon + LEAST_HURRY < until
        {
            (sender.free, sender.state) = (soon, QpState::Idle);
            self.may_send(plan, qp);
        }
    }

    /// The timer event of a QP is due.
    pub fn timer(&mut self, plan: &Plan<'_>, qp: u32) {
        let sender = &mut self.senders[qp as usize];
        if sender.timer != self.now {
            return;
        }
        sender.timer = NEVER;
        let flow = &mut self.flows[qp as usize];
        if sender.acked < sender.posted && self.control.due(flow) <= self.now {
            let before = sender.rate;
            self.control.timer(flow, &mut sender.rate, &plan.lines[qp as usize], self.now);
            if sender.rate > before && plan.settings.echo != MarkEcho::Acknowledgement {
                self.hurry(plan, qp);
            }
        }
        if self.senders[qp as usize].timeout <= self.now && self.is_selective() {
            self.selective_timeout(plan, qp);
        } else if self.senders[qp as usize].timeout <= self.now {
            let sender = &mut self.senders[qp as usize];
            sender.timeouts = sender.timeouts.saturating_add(1);
            self.counted[qp as usize].timeouts += 1;
            self.counters.timeouts += 1;
            self.last = self.now;
            if sender.timeouts > plan.settings.retries {
                sender.state = QpState::Error;
                sender.timeout = NEVER;
                return;
            }
            // What its rate holds back has not been sent yet.
            sender.timeout = (self.now + sender.held_ns(self.now)).saturating_add(plan.settings.timeout_ns);
            let (flow, line) = (&mut self.flows[qp as usize], &plan.lines[qp as usize]);
            self.control.lost(flow, &mut sender.rate, line, self.now, true);
            self.go_back(qp);
            self.may_send(plan, qp);
        }
        if self.senders[qp as usize].acked < self.senders[qp as usize].posted {
            self.arm(qp);
        }
    }
}
