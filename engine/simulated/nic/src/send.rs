//! The send side: turns of QPs on the units, what they need, what they plan, and the gathering of payload.

use kelpie_events::Picos;

use crate::cache::{Cached, Key, Lookup};
use crate::held::{Purpose, Waiter, Write, class, kind};
use crate::nic::{Nic, Outside};
use crate::packet::{BURST_BYTES, BURST_PACKETS, Burst, PacketKind, Piece, WrOperation};
use crate::pcie::ReadAmount;
use crate::pipeline::Claim;
use crate::qp::{Stage, Wqe};
use crate::waits::{Cause, Side, Wait};

/// Work requests whose translations are looked up together at most. Source: our choice, those of a fetch of 512 B.
const TRANSLATED_AHEAD: u64 = 8;

impl Nic {
    /// A QP may have something to do.
    pub(crate) fn has_work(&mut self, qp: u32) {
        self.units.ready(qp);
        self.ready_units.push(self.units.of(qp));
    }

    /// A QP got a slot.
    pub(crate) fn begin_turn(&mut self, now: Picos, qp: u32, out: &mut impl Outside) {
        let state = &mut self.qps[qp as usize];
        let quantum = state.begun.take().unwrap_or(self.config.quantum);
        (state.stage, state.quantum) = (Stage::Context, quantum);
        if let Some(rest) = state.rest.take() {
            out.waited(Side::Send, rest.cause, qp, now - rest.since);
        }
    }

    /// A QP gives its slot back because it may send nothing.
    fn end_turn(&mut self, now: Picos, qp: u32) {
        self.units.give_back(qp, false);
        let state = &mut self.qps[qp as usize];
        let cause = if state.next >= state.producer {
            Cause::SendQueue
        } else if state.silent_until > now {
            Cause::NotReady
        } else {
            Cause::ReadWindow
        };
        // A QP that only answers waits for nothing of its own.
        state.rest = (state.producer > 0).then_some(Wait { since: now, cause });
    }

    /// Takes a QP in a slot as far as it goes; says whether it gave the slot back.
    pub(crate) fn advance(&mut self, now: Picos, qp: u32, out: &mut impl Outside) -> bool {
        loop {
            let waits = match self.qps[qp as usize].stage {
                Stage::Context => {
                    if !self.can_go_on(now, qp, out) {
                        self.end_turn(now, qp);
                        return true;
                    }
                    self.qps[qp as usize].stage = Stage::Rest;
                    let is_responder = !self.qps[qp as usize].owed.is_empty();
                    self.need_context(qp, !is_responder, false, Waiter::Turn(qp))
                }
                Stage::Rest => {
                    self.qps[qp as usize].stage = Stage::Wqe;
                    let is_responder = !self.qps[qp as usize].owed.is_empty();
                    self.need_context(qp, !is_responder, true, Waiter::Turn(qp))
                }
                Stage::Wqe => {
                    self.qps[qp as usize].stage = Stage::Plan;
                    if self.qps[qp as usize].owed.is_empty() { self.need_wqe(qp) } else { 0 }
                }
                Stage::Plan => {
                    if !self.can_go_on(now, qp, out) {
                        self.end_turn(now, qp);
                        return true;
                    }
                    self.qps[qp as usize].stage = Stage::Entries;
                    self.plan(qp, out);
                    0
                }
                Stage::Entries => self.translate(qp, false, out),
                Stage::Pages => self.translate(qp, true, out),
                Stage::Room => {
                    if !self.takes_room(now, qp) {
                        return false;
                    }
                    self.qps[qp as usize].stage = Stage::Issue;
                    0
                }
                Stage::Issue => {
                    let planned = self.qps[qp as usize].planned;
                    let payload = self.held[planned as usize].burst.payload;
                    let packets = self.held[planned as usize].burst.packets;
                    let ready = self.units.work(self.units.of(qp), now, self.time_for(planned));
                    let packets = if payload > 0 { packets } else { 0 };
                    let span = self.config.pipeline.of(packets, payload);
                    let claim = Claim { id: qp, qp, packets, span, since: now, ready, cause: Cause::Unit };
                    self.pass_pipeline(now, Side::Send, claim, out);
                    return false;
                }
            };
            let state = &mut self.qps[qp as usize];
            state.waits += waits;
            if state.waits > 0 {
                state.wait.since = now;
                return false;
            }
        }
    }

    /// Whether there is room for the payload of what a QP has planned; if not, the QP waits for it, behind those that
    /// do.
    fn takes_room(&mut self, now: Picos, qp: u32) -> bool {
        let room = self.staging_room();
        let state = &mut self.qps[qp as usize];
        let burst = &self.held[state.planned as usize].burst;
        let port = &mut self.ports[usize::from(burst.ports.leave)];
        if port.no_room.is_empty() && port.stages(burst.payload, room) {
            port.staged += burst.payload;
            return true;
        }
        port.no_room.push_back(qp);
        state.wait = Wait { since: now, cause: if room < self.config.staging { Cause::Room } else { Cause::Wire } };
        false
    }

    /// Room for payload on its way, beside what QPs in the midst of messages hold.
    pub(crate) fn staging_room(&self) -> u64 {
        self.config.staging.min(self.config.packet_memory.saturating_sub(self.room_held))
    }

    /// Whether a QP has something that it may send.
    fn can_go_on(&self, now: Picos, qp: u32, out: &impl Outside) -> bool {
        let state = &self.qps[qp as usize];
        if !state.owed.is_empty() {
            return true;
        }
        if state.next >= state.producer || state.silent_until > now {
            return false;
        }
        state.reads_open < state.connection.max_reads || !out.wqe(qp, state.next).operation.brings_back()
    }

    /// Needs the WQE that comes next, and asks for some ahead.
    fn need_wqe(&mut self, qp: u32) -> u32 {
        let stride = self.qps[qp as usize].connection.send_stride;
        let state = &self.qps[qp as usize];
        let fetch = u64::from((self.config.fetch_lines / stride).max(1));
        // No more than the turn can use: what waits for the next turn would push out what others need now.
        let ahead = u64::from((self.config.send_ahead / stride).max(1)).min(state.quantum.into());
        let next = state.next;
        let mut waits = 0;
        if next < state.fetched {
            let before = self.caches[Cached::Send as usize].counts().misses;
            waits += self.need(Cached::Send, self.wqe_key(qp, next), stride, Some(Waiter::Turn(qp)));
            self.tally.wqe_refetches += self.caches[Cached::Send as usize].counts().misses - before;
        } else {
            waits += self.fetch_wqes(qp, next, fetch, Some(Waiter::Turn(qp)));
        }
        let state = &self.qps[qp as usize];
        let (fetched, producer) = (state.fetched, state.producer);
        if fetched < producer && fetched < next + ahead {
            self.fetch_wqes(qp, fetched, fetch, None);
        }
        waits
    }

    /// The WQE of a doorbell that announces just this one to an empty queue comes with it.
    pub(crate) fn take_pushed_wqe(&mut self, qp: u32, posted: u64) {
        let state = &mut self.qps[qp as usize];
        let stride = state.connection.send_stride;
        if state.next == state.producer && posted == state.next + 1 && stride <= self.config.pushed_lines {
            state.fetched = posted;
            let key = self.wqe_key(qp, posted - 1);
            (0..stride).for_each(|line| self.caches[Cached::Send as usize].keep(key.plus(line)));
        }
    }

    /// Fetches WQEs from one on, as far as they are posted and the ring does not begin anew.
    fn fetch_wqes(&mut self, qp: u32, from: u64, most: u64, waiter: Option<Waiter>) -> u32 {
        let state = &mut self.qps[qp as usize];
        let slots = u64::from(state.connection.send_slots);
        let count = most.min(state.producer - from).min(slots - from % slots);
        state.fetched = from + count;
        let lines = (count as u32 * state.connection.send_stride).min(64);
        let key = self.wqe_key(qp, from);
        // What is here of the last round through the ring is not what the driver wrote since.
        self.need_anew(Cached::Send, key, lines, waiter)
    }

    pub(crate) fn wqe_key(&self, qp: u32, index: u64) -> Key {
        let connection = &self.qps[qp as usize].connection;
        let slot = (index % u64::from(connection.send_slots)) as u32;
        Key::new(kind::SEND, qp, slot * connection.send_stride)
    }

    /// Whether a WQE is on the NIC.
    fn has_wqe(&mut self, qp: u32, index: u64) -> bool {
        let state = &self.qps[qp as usize];
        if index >= state.producer || index >= state.fetched {
            return false;
        }
        let (key, stride) = (self.wqe_key(qp, index), state.connection.send_stride);
        (0..stride).all(|line| self.caches[Cached::Send as usize].look_up(key.plus(line)) == Lookup::Held)
    }

    /// Makes the next burst of a QP.
    fn plan(&mut self, qp: u32, out: &impl Outside) {
        let is_requester = self.qps[qp as usize].owed.is_empty();
        self.qps[qp as usize].translated = [0; 2];
        self.qps[qp as usize].planned =
            if is_requester { self.plan_requests(qp, out) } else { self.plan_responses(qp) };
    }

    /// Needs translations of the burst that is planned: of the messages together that a doorbell announces together.
    /// First the entries of their regions, then the pages. Says for how many it waits; all are there if none is left.
    fn translate(&mut self, qp: u32, is_rest: bool, out: &impl Outside) -> u32 {
        let state = &self.qps[qp as usize];
        let (planned, announced) = (state.planned, state.announced.max(1) as usize);
        let [from, until] = state.translated;
        let segments = std::mem::take(&mut self.held[planned as usize].segments);
        let burst = &self.held[planned as usize].burst;
        let together = segments.len().div_ceil(burst.pieces().len().max(1)) * announced;
        let is_request = burst.kind != PacketKind::ReadResponse;
        let end = match (is_rest, is_request) {
            (true, _) => until,
            (false, true) => segments.len().min(from + together),
            (false, false) => segments.len(),
        };
        let waits = self.need_translations(&segments[from..end], is_rest, Some(Waiter::Turn(qp)));
        self.qps[qp as usize].translated = if is_rest { [end; 2] } else { [from, end] };
        let is_all = end == segments.len();
        self.held[planned as usize].segments = segments;
        if waits > 0 && is_request && is_all {
            self.translate_ahead(qp, is_rest, out);
        }
        self.qps[qp as usize].stage = match (is_rest, is_all) {
            (false, _) => Stage::Pages,
            (true, false) => Stage::Entries,
            (true, true) => Stage::Room,
        };
        waits
    }

    /// While a QP waits for translations, those of the work requests behind are looked up, as far as they are on the
    /// NIC and no further than a doorbell announces.
    fn translate_ahead(&mut self, qp: u32, is_rest: bool, out: &impl Outside) {
        let state = &self.qps[qp as usize];
        let (next, ahead) = (state.next + u64::from(state.offset > 0), state.announced.min(TRANSLATED_AHEAD));
        let mut segments = std::mem::take(&mut self.ahead);
        for index in next..(next + ahead).saturating_sub(1) {
            if !self.has_wqe(qp, index) {
                break;
            }
            let wqe = out.wqe(qp, index);
            if !wqe.operation.brings_back() {
                out.portions(qp, index, 0..wqe.bytes.min(BURST_BYTES), |portion| segments.push(portion));
            }
        }
        self.need_translations(&segments, is_rest, None);
        segments.clear();
        self.ahead = segments;
    }

    fn plan_requests(&mut self, qp: u32, out: &impl Outside) -> u32 {
        let first = out.wqe(qp, self.qps[qp as usize].next);
        let kind = match first.operation {
            WrOperation::Send => PacketKind::Send,
            WrOperation::Write => PacketKind::Write,
            WrOperation::Read | WrOperation::Atomic => PacketKind::ReadRequest,
        };
        let state = &self.qps[qp as usize];
        let connection = state.connection;
        let most = u64::from(state.quantum.max(1)).min(BURST_PACKETS);
        let burst = Burst::new(kind, connection.peer, connection.is_loopback, state.is_reliable(), 0);
        let burst = burst.by(connection.ports);
        let id = self.hold(burst, qp);
        let mut segments = std::mem::take(&mut self.held[id as usize].segments);
        let (mut burst, mut wqe) = (burst, first);
        loop {
            let (index, offset) = (self.qps[qp as usize].next, self.qps[qp as usize].offset);
            let Some(piece) = self.take_piece(qp, &wqe, &mut burst) else { break };
            if piece.bytes > 0 && kind != PacketKind::ReadRequest {
                let part = offset..offset + u64::from(piece.bytes);
                out.portions(qp, index, part, |portion| segments.push(portion));
            }
            let next = self.qps[qp as usize].next;
            if burst.packets >= most || !piece.is_last || !self.has_wqe(qp, next) {
                break;
            }
            wqe = out.wqe(qp, next);
            let may_read = self.qps[qp as usize].reads_open < connection.max_reads;
            if wqe.operation != first.operation || (kind == PacketKind::ReadRequest && !may_read) {
                break;
            }
        }
        let held = &mut self.held[id as usize];
        (held.burst, held.segments) = (burst, segments);
        id
    }

    /// Takes as much of the next message as a burst has room for.
    pub(crate) fn take_piece(&mut self, qp: u32, wqe: &Wqe, burst: &mut Burst) -> Option<Piece> {
        let headers = self.config.headers;
        let state = &mut self.qps[qp as usize];
        let (mtu, offset, index) = (state.connection.mtu, state.offset, state.next);
        let rest = wqe.bytes - offset;
        let bytes = if wqe.operation.brings_back() {
            rest
        } else {
            let room = BURST_BYTES.saturating_sub(burst.payload) / mtu;
            let most = u64::from(state.quantum.max(1)).min(BURST_PACKETS);
            let packets = (most - burst.packets).min(room);
            let fits = rest <= BURST_BYTES.saturating_sub(burst.payload);
            let least = u64::from(burst.packets == 0 || fits);
            rest.min(packets.max(least) * mtu)
        };
        if bytes == 0 {
            return None;
        }
        // What is sent for the first time, and not again after a NAK.
        if offset == 0 && state.next - state.completed >= state.sender.messages() {
            state.sender.add(wqe.bytes.div_ceil(mtu));
        }
        let packets = bytes.div_ceil(mtu);
        let number = state.sender.send_many(packets);
        if burst.packets == 0 {
            burst.number = number;
        }
        let piece = Piece {
            key: wqe.key,
            address: wqe.address + offset,
            bytes: bytes as u32,
            packets: packets as u32,
            is_first: offset == 0,
            is_last: bytes == rest,
            is_atomic: wqe.operation == WrOperation::Atomic,
        };
        burst.add(piece, &headers);
        if piece.is_last {
            (state.next, state.offset) = (state.next + 1, 0);
        } else {
            state.offset += bytes;
        }
        // A list that one line does not hold is gone through again in the next turn.
        self.hold_room(qp, Side::Send, !piece.is_last && wqe.lines > 1);
        let (key, lines) = (self.wqe_key(qp, index), wqe.lines);
        if piece.is_last {
            // Nobody needs it again, so its room is free.
            (0..lines).for_each(|line| self.caches[Cached::Send as usize].forget(key.plus(line)));
        }
        if wqe.operation.brings_back() {
            self.qps[qp as usize].reads_open += 1;
            self.reads_on_their_way += 1;
            // What finds no room is read when its response comes near.
            (0..lines).for_each(|line| self.caches[Cached::Scatter as usize].keep_if_free(key.plus(line)));
        }
        Some(piece)
    }

    /// Notes whether a QP is in a message of several packets, for which it holds room for one.
    pub(crate) fn hold_room(&mut self, qp: u32, side: Side, holds: bool) {
        let state = &mut self.qps[qp as usize];
        if self.config.packet_memory < u64::MAX && state.holds_room[side as usize] != holds {
            state.holds_room[side as usize] = holds;
            let mtu = state.connection.mtu;
            self.room_held = if holds { self.room_held + mtu } else { self.room_held - mtu };
        }
    }

    fn plan_responses(&mut self, qp: u32) -> u32 {
        let headers = self.config.headers;
        let state = &self.qps[qp as usize];
        let (connection, number) = (state.connection, state.owed[0].number + state.owed[0].sent);
        let burst = Burst::new(PacketKind::ReadResponse, connection.peer, connection.is_loopback, true, number);
        let id = self.hold(burst.by(connection.ports), qp);
        let held = &mut self.held[id as usize];
        let state = &mut self.qps[qp as usize];
        state.responses += 1;
        let most = u64::from(state.quantum.max(1)).min(BURST_PACKETS);
        while let Some(owed) = state.owed.front_mut() {
            let done = owed.sent * connection.mtu;
            let rest = u64::from(owed.piece.bytes) - done;
            let room = BURST_BYTES.saturating_sub(held.burst.payload) / connection.mtu;
            let packets = (most - held.burst.packets).min(room);
            let fits = rest <= BURST_BYTES.saturating_sub(held.burst.payload);
            let least = u64::from(held.burst.packets == 0 || (fits && held.burst.packets < most));
            let bytes = rest.min(packets.max(least) * connection.mtu);
            let follows = owed.number + owed.sent == number + held.burst.numbers;
            let is_alone = !owed.piece.is_atomic || held.burst.packets == 0;
            if bytes == 0 || !follows || !is_alone {
                break;
            }
            let piece = Piece {
                bytes: bytes as u32,
                address: owed.piece.address + done,
                packets: bytes.div_ceil(connection.mtu) as u32,
                is_first: done == 0,
                is_last: bytes == rest,
                ..owed.piece
            };
            held.burst.add(piece, &headers);
            held.segments.push(crate::qp::Segment { key: piece.key, address: piece.address, bytes });
            if !piece.is_last {
                owed.sent += u64::from(piece.packets);
                break;
            }
            state.owed.pop_front();
            if piece.is_atomic {
                break;
            }
        }
        id
    }

    /// What a unit takes for a burst.
    fn time_for(&self, planned: u32) -> Picos {
        let held = &self.held[planned as usize];
        let times = self.config.send_times;
        let begun = held.burst.pieces().iter().filter(|piece| piece.is_first).count();
        times.wqe * begun as u64 + times.segment * held.segments.len() as u64 + times.packet * held.burst.packets
    }

    /// A unit is done with a burst: its payload is read once nobody else changes it, and the QP goes on.
    pub(crate) fn worked(&mut self, now: Picos, qp: u32, out: &mut impl Outside) {
        let id = self.qps[qp as usize].planned;
        self.held[id as usize].since = now;
        if self.may_change(id, qp) {
            self.gather(now, qp, out);
        }
    }

    /// The payload of what a QP has planned is read, and the QP goes on.
    pub(crate) fn gather(&mut self, now: Picos, qp: u32, out: &mut impl Outside) {
        let id = self.qps[qp as usize].planned;
        let held = &mut self.held[id as usize];
        held.since = now;
        let (is_loopback, packets) = (held.burst.is_loopback, held.burst.packets);
        // Segments of the same memory are one read of several requests.
        let mut run: Option<(usize, ReadAmount)> = None;
        for segment in &held.segments {
            let place = self.regions[segment.key as usize].place;
            let amount = self.path.link.amount(segment.bytes);
            run = Some(match run {
                Some((before, all)) if before == place => (place, all.and(amount)),
                Some((before, all)) => {
                    held.reads += 1;
                    self.reads.want(class::PAYLOAD, Purpose::Payload(id), before, all);
                    (place, amount)
                }
                None => (place, amount),
            });
        }
        if let Some((place, all)) = run {
            held.reads += 1;
            self.reads.want(class::PAYLOAD, Purpose::Payload(id), place, all);
        }
        let waits = held.reads > 0;
        if is_loopback {
            self.out_loop.push_back(id);
        } else {
            let port = self.held[id as usize].burst.ports.leave;
            self.ports[usize::from(port)].out.push_back(id);
        }
        if !waits {
            self.is_gathered(now, id, out);
        }
        let state = &mut self.qps[qp as usize];
        state.quantum = state.quantum.saturating_sub(packets as u32);
        state.stage = Stage::Wqe;
        let quantum = state.quantum;
        if !self.can_go_on(now, qp, out) {
            self.end_turn(now, qp);
            self.ready_units.push(self.units.of(qp));
        } else if quantum == 0 {
            self.units.give_back(qp, true);
            self.ready_units.push(self.units.of(qp));
        } else {
            self.turns.push(qp);
        }
    }

    /// All payload of a burst is on the NIC.
    pub(crate) fn is_gathered(&mut self, now: Picos, burst: u32, out: &mut impl Outside) {
        let held = &mut self.held[burst as usize];
        if let Some(segment) = held.segments.first() {
            let place = self.regions[segment.key as usize].place;
            out.waited(Side::Send, Cause::Gather(place as u8), held.from, now - held.since);
        }
        held.since = now;
        if held.burst.is_atomic_answer() {
            self.writes.push_back(Write::Atomic(held.segments[0]));
            self.write(now, out);
        }
        let sent = &self.held[burst as usize].burst;
        if sent.is_loopback {
            self.kick_loopback(now, out);
        } else {
            self.kick_egress(now, sent.ports.leave, out);
        }
    }
}
