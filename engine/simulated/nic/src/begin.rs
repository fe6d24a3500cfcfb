//! What a NIC has behind it when an experiment begins: the lines that its caches hold, and how far its QPs are.

use kelpie_events::Picos;
use rand::RngExt;

use crate::cache::{Cached, Key};
use crate::held::kind;
use crate::nic::{Nic, Outside, page_lines};
use crate::packet::{Burst, PacketKind, Piece, WrOperation};
use crate::qp::{Owed, Segment};
use crate::sequence::ReceiverResponse;
use crate::waits::Side;

/// Room of a cache. Units: lines.
#[derive(Debug, Clone, Copy)]
pub struct CacheRoom {
    /// Of contexts.
    pub contexts: usize,
    /// Of regions and translations.
    pub translations: usize,
}

/// READs that were asked for before all began, and of which nothing was answered but packets of the first.
#[derive(Debug, Default)]
pub struct Reads(Vec<(Piece, u64)>);

impl Nic {
    /// What the caches have room for.
    pub fn room(&self) -> CacheRoom {
        let lines = |cached: Cached| self.caches[cached as usize].lines();
        CacheRoom { contexts: lines(Cached::Context), translations: lines(Cached::Translation) }
    }

    /// Lines of the context of one end of a QP.
    pub fn context_lines(&self) -> u32 {
        self.config.context_tables * self.config.context_lines
    }

    /// The unit of a QP.
    pub fn unit(&self, qp: u32) -> usize {
        self.units.of(qp)
    }

    /// The context of one end of a QP was used.
    pub fn recall_context(&mut self, qp: u32, of_requester: bool) {
        let kind = if of_requester { kind::REQUESTER } else { kind::RESPONDER };
        let lines = self.context_lines();
        let cache = &mut self.caches[Cached::Context as usize];
        let seen = &mut self.qps[qp as usize].contexts_seen[usize::from(of_requester)];
        let evicted = cache.evicted().map(|evicted| evicted as u32);
        if evicted.is_some() && *seen == [evicted; 2] {
            return;
        }
        cache.keep_all(Key::new(kind, qp, 0), lines);
        if cache.evicted().map(|evicted| evicted as u32) == evicted {
            *seen = [evicted; 2];
        }
    }

    /// A segment was translated. Says how many lines that took.
    pub fn recall_segment(&mut self, segment: Segment) -> u32 {
        let [first, lines] = page_lines(&self.regions[segment.key as usize], segment);
        let cache = &mut self.caches[Cached::Translation as usize];
        let seen = &mut self.translated[segment.key as usize];
        let evicted = cache.evicted().map(|evicted| (evicted as u32, first, lines));
        if evicted.is_none() || *seen != evicted {
            cache.keep(Key::new(kind::REGION, segment.key, 0));
            cache.keep_all(Key::new(kind::PAGES, segment.key, first), lines);
            if cache.evicted().map(|evicted| (evicted as u32, first, lines)) == evicted {
                *seen = evicted;
            }
        }
        1 + lines
    }

    /// Translations of a line of eight pages were used long ago: they are still here if nothing needed their room.
    pub fn remember_translation(&mut self, region: u32, line: u32) {
        self.caches[Cached::Translation as usize].keep_if_free(Key::new(kind::PAGES, region, line));
    }

    /// A requester is at a message, of whose `packets` it has sent some, and so many work requests are posted in all,
    /// `batch` at a time.
    /// WQEs were fetched in the turn before this, if that did not end because all were used. Turns end after packets,
    /// so that the more of them a message has, the more WQEs were fetched for nothing.
    pub fn begin_requester(
        &mut self,
        qp: u32,
        message: u64,
        [sent, packets]: [u64; 2],
        posted: u64,
        turns_end_empty: bool,
        batch: u64,
    ) {
        let stride = self.qps[qp as usize].connection.send_stride;
        self.hold_room(qp, Side::Send, sent > 0 && stride > 1);
        let wqes = |lines: u32| u64::from((lines / stride).max(1));
        let most = wqes(self.config.fetch_lines) + wqes(self.config.send_ahead).min(packets) - 1;
        let least = u64::from(sent > 0);
        let most = if turns_end_empty { least } else { most.max(least) };
        let fetched = self.random.random_range(least..=most).min(posted - message);
        let state = &mut self.qps[qp as usize];
        (state.next, state.completed, state.response) = (message, message, message);
        (state.producer, state.fetched) = (posted, message + fetched);
        state.announced = batch;
        if sent > 0 {
            state.offset = sent * state.connection.mtu;
            state.sender.add(packets);
            state.sender.send_many(sent);
            state.sender.answered(ReceiverResponse::Ack(sent));
        }
        for index in message..message + fetched {
            let key = self.wqe_key(qp, index);
            self.caches[Cached::Send as usize].keep_all(key, stride);
        }
        if posted > message {
            self.has_work(qp);
        }
    }

    /// The WQE of the message of which a requester has sent a part was used last.
    pub fn recall_message(&mut self, qp: u32) {
        let state = &self.qps[qp as usize];
        if state.offset > 0 {
            let (key, stride) = (self.wqe_key(qp, state.next), state.connection.send_stride);
            self.caches[Cached::Send as usize].keep_all(key, stride);
        }
    }

    /// A responder has used so many receives and some bytes of the next, of so many that were posted, `batch` at a
    /// time; so many packets of a message have arrived. A NIC that is behind has read little ahead of use.
    pub fn begin_responder(
        &mut self,
        qp: u32,
        [used, posted, batch]: [u64; 3],
        offset: u64,
        packets: u64,
        is_behind: bool,
    ) {
        let state = &mut self.qps[qp as usize];
        (state.receive_next, state.receives, state.receive_offset) = (used, posted, offset);
        state.receiver.skip_to(packets);
        self.note_ahead(qp, -used.cast_signed());
        self.hold_room(qp, Side::Receive, packets > 0);
        if batch > 0 {
            self.recall_receives(qp, batch, used, is_behind);
        }
    }

    /// A requester asks for as many READs as it may, but some, beginning with its next message; of the first it `has`
    /// so many packets.
    pub fn begin_reads(&mut self, qp: u32, [has, but]: [u64; 2], out: &impl Outside) -> Reads {
        let most = self.qps[qp as usize].connection.max_reads.saturating_sub(but as u32);
        let mut reads = Reads::default();
        loop {
            let state = &self.qps[qp as usize];
            if state.next >= state.producer || state.reads_open >= most {
                break;
            }
            let wqe = out.wqe(qp, state.next);
            if wqe.operation != WrOperation::Read {
                break;
            }
            let mut burst = Burst::new(PacketKind::ReadRequest, 0, false, true, 0);
            let Some(piece) = self.take_piece(qp, &wqe, &mut burst) else { break };
            reads.0.push((piece, burst.number));
        }
        if !reads.0.is_empty() && has > 0 {
            let state = &mut self.qps[qp as usize];
            state.response_offset = has * state.connection.mtu;
            state.sender.answered(ReceiverResponse::Ack(has));
        }
        reads
    }

    /// A responder owes these, but so many packets of the first.
    pub fn begin_owing(&mut self, qp: u32, reads: &Reads, has: u64) {
        let state = &mut self.qps[qp as usize];
        for (at, (piece, number)) in reads.0.iter().enumerate() {
            state.receiver.skip_to(number + u64::from(piece.packets));
            state.owed.push_back(Owed { piece: *piece, number: *number, sent: if at == 0 { has } else { 0 } });
        }
        if !reads.0.is_empty() {
            self.has_work(qp);
        }
    }

    /// Work requests of a QP that are complete.
    pub fn completed(&self, qp: u32) -> u64 {
        self.qps[qp as usize].completed
    }

    /// A QP is in a turn of which so many packets are left, when its unit gives it a slot.
    pub fn begin_turn_with(&mut self, qp: u32, packets: u32) {
        self.qps[qp as usize].begun = Some(packets.max(1));
    }

    /// All that is behind this NIC is said: it goes on.
    pub fn begin(&mut self, out: &mut impl Outside) {
        self.settle(Picos::ZERO, out);
    }
}
