//! The receive side: what a burst needs before its payload is written, what it leaves behind, and the writes.

use kelpie_events::Picos;

use crate::cache::{Cached, LINE, Lookup};
use crate::held::{ReceiveStep, Waiter, Write};
use crate::nic::{Event, Nic, Outside};
use crate::packet::{BURST_BYTES, Burst, PacketKind};
use crate::path::Order;
use crate::pipeline::Claim;
use crate::port::Answer;
use crate::qp::{Owed, Segment};
use crate::sequence::{self, SequenceCheck};
use crate::waits::{Cause, Side};

/// A completion queue entry. Units: bytes. Source: mlx5, `struct mlx5_cqe64`.
const CQE: u64 = 64;

impl Nic {
    /// Gives slots to bursts that arrived; those of a QP that has one wait behind it.
    pub(crate) fn dispatch(&mut self) {
        while let Some(id) = self.arrivals.front().copied() {
            let qp = self.held[id as usize].burst.to as usize;
            match self.qps[qp].arrived {
                Some((first, last)) => {
                    self.held[last as usize].next = Some(id);
                    self.qps[qp].arrived = Some((first, id));
                }
                None if self.jobs < self.config.receive_slots => {
                    self.jobs += 1;
                    self.qps[qp].arrived = Some((id, id));
                    self.ready_jobs.push_back(id);
                }
                None => return,
            }
            self.arrivals.pop_front();
        }
    }

    /// A burst is through: the next of its QP goes on in its slot, or the slot is free.
    fn next_job(&mut self, id: u32) {
        let next = self.held[id as usize].next.take();
        let qp = self.held[id as usize].burst.to as usize;
        let last = self.qps[qp].arrived.map_or(id, |(_, last)| last);
        self.qps[qp].arrived = next.map(|next| (next, last));
        if let Some(next) = next {
            self.ready_jobs.push_back(next);
        } else {
            self.jobs -= 1;
            self.dispatch();
        }
    }

    /// Takes a burst in a slot as far as it goes.
    pub(crate) fn job(&mut self, now: Picos, id: u32, out: &mut impl Outside) {
        loop {
            let Burst { kind, to: qp, .. } = self.held[id as usize].burst;
            let waits = match self.held[id as usize].step {
                ReceiveStep::Context => {
                    self.held[id as usize].step = ReceiveStep::Rest;
                    self.need_context(qp, kind.is_answer(), false, Waiter::Job(id))
                }
                ReceiveStep::Rest => {
                    self.held[id as usize].step = ReceiveStep::Check;
                    self.need_context(qp, kind.is_answer(), true, Waiter::Job(id))
                }
                ReceiveStep::Check => {
                    self.held[id as usize].step = ReceiveStep::Receives;
                    if !self.check(now, id, out) {
                        self.tally.unused += self.held[id as usize].burst.packets;
                        self.next_job(id);
                        self.leave_buffer(now, id, out);
                        return;
                    }
                    0
                }
                ReceiveStep::Receives => {
                    self.held[id as usize].step = ReceiveStep::Entries;
                    match kind {
                        PacketKind::Send => self.need_receives(id),
                        PacketKind::ReadResponse => self.need_scatter_list(id, out),
                        _ => 0,
                    }
                }
                ReceiveStep::Entries => {
                    self.held[id as usize].step = ReceiveStep::Pages;
                    self.find_targets(id, out);
                    self.translate_targets(id, false)
                }
                ReceiveStep::Pages => {
                    self.held[id as usize].step = ReceiveStep::Work;
                    self.translate_targets(id, true)
                }
                ReceiveStep::Work => {
                    let burst = self.held[id as usize].burst;
                    let times = self.config.receive_times;
                    let begun = burst.pieces().iter().filter(|piece| piece.is_first).count() as u64;
                    let (packets, is_response) = (burst.packets, kind == PacketKind::ReadResponse);
                    let span = times.packet * packets + times.message * begun;
                    let worked = self.units.work(self.units.of(qp), now, span);
                    let answered = if is_response && packets > begun {
                        let bytes = burst.payload / packets * (packets - begun);
                        self.responses.serve(now, times.response.of(packets - begun, bytes))
                    } else {
                        now
                    };
                    let cause = if worked >= answered { Cause::Unit } else { Cause::Response };
                    let packets = if burst.payload > 0 { packets } else { 0 };
                    let span = self.config.pipeline.of(packets, burst.payload);
                    let claim = Claim { id, qp, packets, span, since: now, ready: worked.max(answered), cause };
                    self.pass_pipeline(now, Side::Receive, claim, out);
                    return;
                }
            };
            let held = &mut self.held[id as usize];
            held.waits += waits;
            if held.waits > 0 {
                held.since = now;
                return;
            }
        }
    }

    /// Whether a burst is what comes next and can be used; what can not is dropped and answered.
    fn check(&mut self, now: Picos, id: u32, out: &mut impl Outside) -> bool {
        let burst = self.held[id as usize].burst;
        let qp = burst.to;
        if burst.kind.is_answer() {
            return burst.kind != PacketKind::ReadResponse || self.is_next_response(now, &burst, out);
        }
        let state = &mut self.qps[qp as usize];
        if burst.is_reliable {
            match state.receiver.arrive_many(burst.number, burst.numbers) {
                SequenceCheck::Next => {}
                SequenceCheck::Again if burst.kind == PacketKind::ReadRequest => {
                    // What is asked for again is read again.
                    let end = burst.number + burst.numbers;
                    state.receiver.skip_to(state.receiver.expected().max(end));
                }
                SequenceCheck::Again => {
                    self.acknowledge(now, qp, out);
                    return false;
                }
                SequenceCheck::Beyond { nak } => {
                    if nak.is_some() {
                        self.tally.naks += 1;
                        self.refuse(now, qp, PacketKind::Nak, out);
                    }
                    return false;
                }
            }
        } else {
            state.is_dropping |= state.receiver.expected() != burst.number;
            state.receiver.skip_to(burst.number + burst.numbers);
            if state.is_dropping {
                // What is left of a message that lacks a packet is of no use, and its receive WQE is there for the
                // next.
                let Some(begins) = burst.pieces().iter().position(|piece| piece.is_first) else { return false };
                self.tally.unused += self.held[id as usize].burst.behead(begins);
                (state.is_dropping, state.receive_offset) = (false, 0);
            }
        }
        burst.kind != PacketKind::Send || self.take_receives(now, id, out)
    }

    /// Takes receive WQEs for the messages of a burst; what finds none is cut off. Says whether anything is left.
    fn take_receives(&mut self, now: Picos, id: u32, out: &mut impl Outside) -> bool {
        let Burst { to: qp, .. } = self.held[id as usize].burst;
        let state = &self.qps[qp as usize];
        let (mut next, mut offset) = (state.receive_next, state.receive_offset);
        let held = &mut self.held[id as usize];
        (held.receive, held.receive_offset) = (next, offset);
        let (burst, mut used) = (held.burst, 0);
        for piece in burst.pieces() {
            if next >= self.qps[qp as usize].receives {
                break;
            }
            // A message that has begun keeps its receive WQE.
            if offset == 0 && self.refuses_for(qp, next) {
                self.tally.refused += 1;
                break;
            }
            used += 1;
            (next, offset) = if piece.is_last { (next + 1, 0) } else { (next, offset + u64::from(piece.bytes)) };
        }
        let state = &mut self.qps[qp as usize];
        let taken = (next - state.receive_next).cast_signed();
        (state.receive_next, state.receive_offset) = (next, offset);
        self.note_ahead(qp, -taken);
        let state = &mut self.qps[qp as usize];
        let pieces = burst.pieces().len();
        if used < pieces {
            let cut = self.held[id as usize].burst.truncate(used);
            self.tally.unused += cut;
            if state.is_reliable() {
                state.receiver.refuse(cut);
                self.tally.not_ready += 1;
                self.refuse(now, qp, PacketKind::NotReady, out);
            } else {
                state.is_dropping = true;
                self.tally.no_receive += (pieces - used) as u64;
            }
        }
        used > 0
    }

    fn refuse(&mut self, now: Picos, qp: u32, kind: PacketKind, out: &mut impl Outside) {
        let state = &self.qps[qp as usize];
        let (connection, number) = (state.connection, state.receiver.expected());
        let headers = &self.config.headers;
        let burst = Burst::answer(kind, connection.peer, connection.is_loopback, number, headers).by(connection.ports);
        self.reply(now, qp, Answer::Burst(burst), out);
    }

    /// Acknowledges what has arrived, unless an acknowledgement waits already.
    pub(crate) fn acknowledge(&mut self, now: Picos, qp: u32, out: &mut impl Outside) {
        if !std::mem::replace(&mut self.qps[qp as usize].ack_waits, true) {
            self.reply(now, qp, Answer::Ack(qp), out);
        }
    }

    /// Needs the WQE of the READ whose response comes. Responses come in the order of requests, so that the lists of
    /// those behind are read ahead if this one ends soon.
    fn need_scatter_list(&mut self, id: u32, out: &impl Outside) -> u32 {
        let qp = self.held[id as usize].burst.to;
        let state = &mut self.qps[qp as usize];
        while !out.wqe(qp, state.response).operation.brings_back() {
            state.response += 1;
        }
        let (index, lines) = (state.response, out.wqe(qp, state.response).lines);
        let stride = state.connection.send_stride;
        let key = self.wqe_key(qp, index);
        let behind = self.lists_behind(qp, index, out);
        let cache = &mut self.caches[Cached::Scatter as usize];
        if (0..lines).all(|line| cache.look_up(key.plus(line)) == Lookup::Held) {
            // What is missing behind comes meanwhile.
            if behind > 0 {
                self.need(Cached::Scatter, key.plus(stride), behind * stride, None);
            }
            return 0;
        }
        let before = self.caches[Cached::Scatter as usize].counts().misses;
        let all = (behind * stride + lines).min(64);
        let waits = self.need(Cached::Scatter, key, all, Some(Waiter::Job(id)));
        self.tally.scatter_misses += self.caches[Cached::Scatter as usize].counts().misses - before;
        waits
    }

    /// READs behind one whose lists are read with its own: those whose responses come within a burst, as far as a fetch
    /// goes and the ring does not begin anew.
    fn lists_behind(&self, qp: u32, index: u64, out: &impl Outside) -> u32 {
        let state = &self.qps[qp as usize];
        let connection = &state.connection;
        let slots = u64::from(connection.send_slots);
        // On a path that loses packets, a response may belong to a READ that was given up.
        let open = state.next.saturating_sub(index).min(slots - index % slots);
        let most = u64::from(self.config.list_lines / connection.send_stride).min(open);
        let mut bytes = out.wqe(qp, index).bytes.saturating_sub(state.response_offset);
        let mut behind = 0;
        while behind + 1 < most && bytes < BURST_BYTES {
            let wqe = out.wqe(qp, index + behind + 1);
            if !wqe.operation.brings_back() {
                break;
            }
            bytes += wqe.bytes;
            behind += 1;
        }
        behind as u32
    }

    /// Where the payload of a burst goes.
    fn find_targets(&mut self, id: u32, out: &impl Outside) {
        let mut targets = std::mem::take(&mut self.held[id as usize].segments);
        let held = &self.held[id as usize];
        let qp = held.burst.to;
        match held.burst.kind {
            PacketKind::Write => {
                let all = held.burst.pieces().iter();
                targets.extend(all.map(|piece| Segment {
                    key: piece.key,
                    address: piece.address,
                    bytes: piece.bytes.into(),
                }));
            }
            PacketKind::Send => {
                let (mut index, mut offset) = (held.receive, held.receive_offset);
                let first = index;
                for piece in held.burst.pieces() {
                    let part = offset..offset + u64::from(piece.bytes);
                    out.receive_portions(qp, index, part, |portion| targets.push(portion));
                    (index, offset) =
                        if piece.is_last { (index + 1, 0) } else { (index, offset + u64::from(piece.bytes)) };
                }
                self.forget_receives(qp, first, index);
                self.read_receives_ahead(qp);
            }
            PacketKind::ReadResponse => {
                let state = &self.qps[qp as usize];
                let (mut index, mut offset) = (state.response, state.response_offset);
                let burst = held.burst;
                for piece in burst.pieces() {
                    let mut wqe = out.wqe(qp, index);
                    while !wqe.operation.brings_back() {
                        index += 1;
                        wqe = out.wqe(qp, index);
                    }
                    let part = offset..offset + u64::from(piece.bytes);
                    out.portions(qp, index, part, |portion| targets.push(portion));
                    if piece.is_last {
                        let key = self.wqe_key(qp, index);
                        let cache = &mut self.caches[Cached::Scatter as usize];
                        (0..state.connection.send_stride).for_each(|line| cache.forget(key.plus(line)));
                    }
                    (index, offset) =
                        if piece.is_last { (index + 1, 0) } else { (index, offset + u64::from(piece.bytes)) };
                }
                let state = &mut self.qps[qp as usize];
                (state.response, state.response_offset) = (index, offset);
            }
            PacketKind::ReadRequest | PacketKind::Ack | PacketKind::Nak | PacketKind::NotReady => {}
        }
        self.held[id as usize].segments = targets;
    }

    fn translate_targets(&mut self, id: u32, is_rest: bool) -> u32 {
        let segments = std::mem::take(&mut self.held[id as usize].segments);
        let waits = self.need_translations(&segments, is_rest, Some(Waiter::Job(id)));
        self.held[id as usize].segments = segments;
        waits
    }

    /// A unit is done with a burst.
    pub(crate) fn processed(&mut self, now: Picos, id: u32, out: &mut impl Outside) {
        let burst = self.held[id as usize].burst;
        let qp = burst.to;
        self.next_job(id);
        match burst.kind {
            PacketKind::Send | PacketKind::Write | PacketKind::ReadResponse => {
                self.held[id as usize].since = now;
                self.writes.push_back(Write::Burst(id));
                self.write(now, out);
                return;
            }
            PacketKind::ReadRequest => {
                let mut number = burst.number;
                for piece in burst.pieces() {
                    self.qps[qp as usize].owed.push_back(Owed { piece: *piece, number, sent: 0 });
                    number += u64::from(piece.packets);
                }
                out.delivered(&burst);
                self.has_work(qp);
            }
            PacketKind::Ack => self.answered(now, qp, sequence::ReceiverResponse::Ack(burst.number), out),
            PacketKind::Nak => self.answered(now, qp, sequence::ReceiverResponse::Nak(burst.number), out),
            PacketKind::NotReady => {
                let until = now + self.config.not_ready_timer;
                self.qps[qp as usize].silent_until = until;
                self.answered(now, qp, sequence::ReceiverResponse::Nak(burst.number), out);
                out.at(until, Event::Wake(qp));
            }
        }
        self.leave_buffer(now, id, out);
    }

    /// An answer says how far a QP's messages are complete, and perhaps from where to begin again.
    pub(crate) fn answered(&mut self, now: Picos, qp: u32, answer: sequence::ReceiverResponse, out: &mut impl Outside) {
        let answer = self.believed(qp, answer, out);
        let state = &mut self.qps[qp as usize];
        let acked = state.sender.acked();
        let complete = state.sender.answered(answer);
        let has_moved = state.sender.acked() > acked || matches!(answer, sequence::ReceiverResponse::Nak(_));
        let first = state.completed;
        state.completed += complete;
        if matches!(answer, sequence::ReceiverResponse::Nak(_)) {
            let (messages, packets) = state.sender.position();
            let before = state.next;
            (state.next, state.offset) = (state.completed + messages, packets * state.connection.mtu);
            let again = (state.next..before).filter(|index| out.wqe(qp, *index).operation.brings_back()).count();
            let state = &mut self.qps[qp as usize];
            debug_assert!(state.reads_open >= again as u32, "what is sent again was on its way");
            state.reads_open -= again as u32;
            self.reads_on_their_way -= again as u64;
            self.has_work(qp);
        }
        if has_moved {
            self.has_progress(now, qp, out);
        }
        for index in first..first + complete {
            if out.wqe(qp, index).is_signaled {
                self.writes.push_back(Write::Completion { qp, index, of_receive: false });
            }
        }
        self.write(now, out);
    }

    /// Writes what waits, as long as the root complex has room.
    pub(crate) fn write(&mut self, now: Picos, out: &mut impl Outside) {
        // What a write sets free may write, too.
        while !self.write_is_due
            && let Some(write) = self.writes.front().copied()
        {
            let done = match write {
                Write::Completion { qp, index, of_receive } => {
                    let written = self.path.write(now, self.config.home, 0, CQE, Order::Strict);
                    written.inspect(|time| {
                        if of_receive { out.received(*time, qp, index) } else { out.completed(*time, qp, index) }
                    })
                }
                Write::Lines(lines) => {
                    self.path.write(now, self.config.home, 0, u64::from(lines) * LINE, Order::Strict)
                }
                Write::Atomic(segment) => self.write_atomic(now, segment, out),
                Write::Burst(id) => self.write_burst(now, id),
            };
            if let Err(later) = done {
                self.tally.write_waits += 1;
                self.write_is_due = true;
                out.at(later, Event::Write);
                return;
            }
            self.writes.pop_front();
            if let Write::Burst(id) = write {
                self.is_written(now, id, out);
            }
        }
    }

    fn write_burst(&mut self, now: Picos, id: u32) -> Result<Picos, Picos> {
        let held = &mut self.held[id as usize];
        let mut done = now;
        while let Some(segment) = held.segments.get(held.written) {
            let place = self.regions[segment.key as usize].place;
            done = self.path.write(now, place, segment.address, segment.bytes, self.config.order)?;
            held.written += 1;
        }
        Ok(done)
    }

    /// The root complex has all of a burst.
    fn is_written(&mut self, now: Picos, id: u32, out: &mut impl Outside) {
        let burst = self.held[id as usize].burst;
        let held = &self.held[id as usize];
        let (qp, receive) = (burst.to, held.receive);
        if let Some(segment) = held.segments.first() {
            let place = self.regions[segment.key as usize].place;
            out.waited(Side::Receive, Cause::Write(place as u8), qp, now - held.since);
        }
        self.hold_room(qp, Side::Receive, burst.pieces().last().is_some_and(|piece| !piece.is_last));
        out.delivered(&burst);
        let ended = burst.pieces().iter().filter(|piece| piece.is_last).count() as u64;
        match burst.kind {
            PacketKind::ReadResponse => {
                let state = &mut self.qps[qp as usize];
                // One that a timer has given up is not among them.
                let open = ended.min(state.reads_open.into());
                state.reads_open -= open as u32;
                self.reads_on_their_way -= open;
                self.answered(now, qp, sequence::ReceiverResponse::Ack(burst.number + burst.numbers), out);
                if ended > 0 {
                    self.has_work(qp);
                }
            }
            PacketKind::Send => {
                for index in receive..receive + ended {
                    self.writes.push_back(Write::Completion { qp, index, of_receive: true });
                }
            }
            _ => {}
        }
        if burst.kind != PacketKind::ReadResponse && burst.is_reliable && ended > 0 {
            self.acknowledge(now, qp, out);
        }
        self.leave_buffer(now, id, out);
    }
}
