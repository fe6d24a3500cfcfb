//! A NIC made of the parts: what it holds, what can happen to it, what it reads. Sending is in `send`, receiving in
//! `receive`, both ends of the wire in `wire`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use kelpie_events::{Picos, Server};
use kelpie_switch::Signal;
use rand::SeedableRng;
use rand_pcg::Pcg32;

use crate::cache::{Cache, Cached, Key, LINE, Lookup};
use crate::command::Command;
use crate::config::Config;
use crate::held::{Held, Purpose, Waiter, Write, class, kind};
use crate::memory::Memory;
use crate::packet::Burst;
use crate::path::Path;
use crate::pcie::Link;
use crate::pipeline::Pipeline;
use crate::port::{Answer, Port};
use crate::qp::{Connection, Qp, Region, Segment, Wqe};
use crate::reads::{ReadEngine, Request};
use crate::units::Units;
use crate::waits::{Cause, Side};

/// What happens to a NIC.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The driver rang the doorbell of a QP: so many work requests were posted in all. Counts of events are of 32 bits,
    /// because the queue moves events all the time.
    Doorbell(u32, u32),
    /// The driver posted receives: so many in all.
    Receives(u32, u32),
    /// An answer from memory begins.
    Answered(Request),
    /// An answer from memory is here.
    Received(Request),
    /// A send unit is done with what a QP planned.
    Worked(u32),
    /// Memory has what an atomic request changed, under a lock of this number.
    Changed(u32),
    /// A QP may send again.
    Wake(u32),
    /// The wire of a port may take something.
    Egress(u8),
    /// The way back into the own receive buffer may take something.
    Loopback,
    /// A receive unit is done with a burst.
    Processed(u32),
    /// The pipeline may take what waits for it.
    Pipeline,
    /// The root complex has room for the next write.
    Write,
    /// The driver rang the doorbell of the command queue.
    Command(Command),
    /// The firmware is done with a command.
    Commanded,
    /// The acknowledgement timer of a QP may have run out.
    Timeout(u32),
}

/// What lies outside of a NIC: its driver with the rings, the network, the queue of events.
pub trait Outside {
    /// Lets something happen to the NIC.
    fn at(&mut self, time: Picos, event: Event);
    /// A WQE of a send ring.
    fn wqe(&self, qp: u32, index: u64) -> Wqe;
    /// What a part of a message lies in, by the list of its send WQE.
    fn portions(&self, qp: u32, index: u64, part: Range<u64>, each: impl FnMut(Segment));
    /// The same by the list of a receive WQE.
    fn receive_portions(&self, qp: u32, index: u64, part: Range<u64>, each: impl FnMut(Segment));
    /// A burst begins to leave on the wire.
    fn sent(&mut self, now: Picos, burst: Burst);
    /// Asks the neighbour at a port to be silent, or to go on.
    fn pause(&mut self, now: Picos, port: u8, signal: Signal);
    /// The CQE of a send WQE is in memory at this time.
    fn completed(&mut self, time: Picos, qp: u32, index: u64);
    /// The CQE of a receive WQE is in memory at this time.
    fn received(&mut self, time: Picos, qp: u32, index: u64);
    /// A command was carried out.
    fn commanded(&mut self, _time: Picos) {}
    /// The root complex has taken a burst's payload.
    fn delivered(&mut self, burst: &Burst);
    /// Work of a QP waited so long.
    fn waited(&mut self, side: Side, cause: Cause, qp: u32, span: Picos);
}

/// Events that were counted. Units: events, unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Contexts that had to be read: lines.
    pub context_misses: u64,
    /// Regions and translations that had to be read: lines.
    pub translation_misses: u64,
    /// Send WQEs that had been fetched and had to be read again: lines.
    pub wqe_refetches: u64,
    /// Bursts that had to wait for receive WQEs, or for the page in which these are.
    pub receive_wqe_misses: u64,
    /// Messages without reliability that found no receive WQE.
    pub no_receive: u64,
    /// Lists of READs on their way that had to be read again: lines.
    pub scatter_misses: u64,
    /// Messages that were refused because their receive WQE was missing and could not be fetched at once.
    pub refused: u64,
    /// NAKs that the receiver was not ready, sent.
    pub not_ready: u64,
    /// NAKs for a gap, sent.
    pub naks: u64,
    /// Requests that were not answered in time.
    pub timeouts: u64,
    /// Writes that waited for credits.
    pub write_waits: u64,
    /// Packets sent, in all.
    pub packets: u64,
    /// Packets that arrived and found no room in the receive buffer.
    pub lost: u64,
    /// Packets that arrived and were not used: behind a gap, seen before, or without a receive.
    pub unused: u64,
}

/// How long a port was in a pause since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pauses {
    /// It asked its neighbour for silence.
    pub sent: Picos,
    /// Its neighbour asked it for silence.
    pub received: Picos,
}

/// A NIC.
#[derive(Debug)]
pub struct Nic {
    pub(crate) config: Config,
    pub(crate) path: Path,
    pub(crate) reads: ReadEngine<Purpose, Waiter>,
    pub(crate) caches: [Cache; 7],
    /// Queues whose chains of receives are kept aside.
    pub(crate) chains: u32,
    /// READs of all QPs.
    pub(crate) reads_on_their_way: u64,
    /// Receives that are read ahead of use, less those that are used before they are read, of all queues whose pages
    /// are looked up.
    pub(crate) receives_ahead: i64,
    pub(crate) regions: Vec<Region>,
    /// What was last seen in the cache of the translations of each region: how many lines had left it, the first line,
    /// and how many.
    pub(crate) translated: Vec<Option<(u32, u32, u32)>>,
    pub(crate) qps: Vec<Qp>,
    pub(crate) held: Vec<Held>,
    pub(crate) free: Vec<u32>,
    // Send side.
    pub(crate) units: Units,
    pub(crate) random: Pcg32,
    pub(crate) out_loop: VecDeque<u32>,
    pub(crate) loop_answers: VecDeque<Answer>,
    pub(crate) packet_rate: Server,
    /// Both ways of each port.
    pub(crate) ports: Vec<Port>,
    // Receive side.
    pub(crate) looped: u64,
    pub(crate) loopback_is_due: bool,
    pub(crate) arrivals: VecDeque<u32>,
    pub(crate) pipeline: Pipeline,
    pub(crate) responses: Server,
    pub(crate) jobs: u32,
    /// Locks of atomic changes at work, and the QPs that wait for each.
    pub(crate) locks: BTreeMap<u32, VecDeque<u32>>,
    /// Room for packets that QPs hold in messages of several. Units: bytes.
    pub(crate) room_held: u64,
    pub(crate) writes: VecDeque<Write>,
    pub(crate) write_is_due: bool,
    /// Commands, the one at work in front.
    pub(crate) commands: VecDeque<Command>,
    // Work that an event leaves behind.
    /// Segments that are looked up ahead; empty between two such lookups.
    pub(crate) ahead: Vec<Segment>,
    pub(crate) turns: Vec<u32>,
    pub(crate) ready_units: Vec<usize>,
    pub(crate) ready_jobs: VecDeque<u32>,
    pub(crate) tally: Tally,
}

impl Nic {
    /// A NIC at rest, with these regions, by key, and QPs, by number. Equal seeds give equal runs.
    pub fn new(config: Config, regions: Vec<Region>, connections: &[Connection], seed: u64) -> Self {
        let qps = connections.iter().map(|connection| Qp::new(*connection)).collect();
        let mut cache_seed = seed.wrapping_mul(3);
        let mut used = regions.iter().map(|region| region.place).chain([config.home]);
        let mut path = Path::new(Link::new(config.link), Memory::new(&config.places, &config.ways));
        path.is_in_order = used.all(|place| config.places[place].way.is_none());
        Self {
            path,
            reads: ReadEngine::new(&[
                u32::MAX,
                config.misses.send,
                config.misses.receive,
                config.misses.receive_wqe,
                config.misses.scatter,
                u32::MAX,
                config.misses.ring_page,
                config.misses.chain,
                config.misses.translation,
            ]),
            chains: 0,
            caches: config.caches.map(|geometry| {
                cache_seed += 1;
                Cache::new(geometry, cache_seed)
            }),
            reads_on_their_way: 0,
            receives_ahead: 0,
            translated: vec![None; regions.len()],
            regions,
            units: Units::new(config.units, connections.len() as u32),
            random: Pcg32::seed_from_u64(seed),
            out_loop: VecDeque::new(),
            loop_answers: VecDeque::new(),
            packet_rate: Server::default(),
            ports: (0..config.ports).map(|_| Port::new(config.wire, config.buffer)).collect(),
            looped: 0,
            loopback_is_due: false,
            arrivals: VecDeque::new(),
            pipeline: Pipeline::new(config.pipeline.of(1, 1024), config.pipeline_states, seed),
            responses: Server::default(),
            jobs: 0,
            locks: BTreeMap::new(),
            room_held: 0,
            writes: VecDeque::new(),
            write_is_due: false,
            commands: VecDeque::new(),
            ahead: Vec::new(),
            turns: Vec::new(),
            ready_units: Vec::new(),
            ready_jobs: VecDeque::new(),
            tally: Tally::default(),
            held: Vec::new(),
            free: Vec::new(),
            qps,
            config,
        }
    }

    /// Something happens.
    pub fn handle(&mut self, now: Picos, event: Event, out: &mut impl Outside) {
        match event {
            Event::Doorbell(qp, posted) => {
                let posted = posted.into();
                self.take_pushed_wqe(qp, posted);
                let state = &mut self.qps[qp as usize];
                state.announced = posted - state.producer;
                state.producer = posted;
                if let Some(rest) = state.rest.take_if(|rest| rest.cause == Cause::SendQueue) {
                    out.waited(Side::Send, rest.cause, qp, now - rest.since);
                }
                self.has_work(qp);
            }
            Event::Receives(qp, posted) => self.receives(qp, posted.into()),
            Event::Answered(request) => {
                let here = self.reads.answered(now, request, &mut self.path);
                out.at(here, Event::Received(request));
            }
            Event::Received(request) => self.read_is_here(now, request, out),
            Event::Worked(qp) => self.worked(now, qp, out),
            Event::Changed(lock) => self.has_changed(now, lock, out),
            Event::Wake(qp) => self.has_work(qp),
            Event::Egress(port) => {
                self.ports[usize::from(port)].wire.looks();
                self.kick_egress(now, port, out);
            }
            Event::Loopback => self.loopback(now, out),
            Event::Processed(job) => self.processed(now, job, out),
            Event::Pipeline => self.go_through(now, out),
            Event::Write => {
                self.write_is_due = false;
                self.write(now, out);
            }
            Event::Command(command) => self.take_command(command),
            Event::Commanded => self.commanded(now, out),
            Event::Timeout(qp) => self.may_time_out(now, qp, out),
        }
        self.settle(now, out);
    }

    /// Does what the last event made possible.
    pub(crate) fn settle(&mut self, now: Picos, out: &mut impl Outside) {
        loop {
            if let Some(job) = self.ready_jobs.pop_front() {
                self.job(now, job, out);
            } else if let Some(qp) = self.turns.pop() {
                if self.advance(now, qp, out) {
                    self.ready_units.push(self.units.of(qp));
                }
            } else if let Some(unit) = self.ready_units.pop() {
                while let Some(qp) = self.units.take(unit) {
                    self.begin_turn(now, qp, out);
                    self.advance(now, qp, out);
                }
            } else {
                break;
            }
        }
        while let Some((first, request)) = self.reads.send(now, &mut self.path) {
            if self.path.is_in_order {
                let here = self.reads.answered(first, request, &mut self.path);
                out.at(here, Event::Received(request));
            } else {
                out.at(first, Event::Answered(request));
            }
        }
    }

    /// A read has come: its lines are there, or its burst has more of its payload.
    fn read_is_here(&mut self, now: Picos, request: Request, out: &mut impl Outside) {
        let Some((number, purpose)) = self.reads.received(request, &mut self.path) else { return };
        match purpose {
            Purpose::Lines { cached, key, lines } => {
                let cache = &mut self.caches[cached as usize];
                cache.approach(key, ones(lines));
                ones(lines).for_each(|line| cache.arrived(key.plus(line), number));
            }
            Purpose::Command => self.has_command(now, out),
            Purpose::Payload(burst) => {
                self.held[burst as usize].reads -= 1;
                if self.held[burst as usize].reads == 0 {
                    self.is_gathered(now, burst, out);
                }
            }
        }
        while let Some(waiter) = self.reads.next_waiter(number) {
            match waiter {
                Waiter::Turn(qp) => {
                    let state = &mut self.qps[qp as usize];
                    state.waits -= 1;
                    if state.waits == 0 {
                        out.waited(Side::Send, state.wait.cause, qp, now - state.wait.since);
                        self.turns.push(qp);
                    }
                }
                Waiter::Ring(qp) => self.has_ring_page(qp),
                Waiter::Job(job) => {
                    let held = &mut self.held[job as usize];
                    held.waits -= 1;
                    if held.waits == 0 {
                        out.waited(Side::Receive, held.cause, held.burst.to, now - held.since);
                        self.ready_jobs.push_back(job);
                    }
                }
            }
        }
    }

    /// Needs so many lines, at most 64, of a cache; what is missing is read. Says for how many reads `waiter` waits.
    pub(crate) fn need(&mut self, cached: Cached, key: Key, lines: u32, waiter: Option<Waiter>) -> u32 {
        let cache = &mut self.caches[cached as usize];
        let (mut missing, mut waits) = (0u64, 0);
        for line in 0..lines {
            match cache.look_up(key.plus(line)) {
                Lookup::Held => {}
                Lookup::Coming(read) => {
                    if let Some(waiter) = waiter {
                        self.reads.wait(read, waiter);
                        waits += 1;
                    }
                }
                Lookup::Missing => missing |= 1 << line,
            }
        }
        if missing != 0 {
            let read = self.fetch(cached, key, missing, waiter);
            if let Some(waiter) = waiter {
                self.reads.wait(read, waiter);
                waits += 1;
            }
        }
        self.wait_for(cached, waits, waiter);
        waits
    }

    /// Reads lines of WQEs anew that the driver has written, whatever is here of them; says for how many reads `waiter`
    /// waits.
    pub(crate) fn need_anew(&mut self, cached: Cached, key: Key, lines: u32, waiter: Option<Waiter>) -> u32 {
        let amount = self.path.link.amount(u64::from(lines) * LINE);
        let purpose = Purpose::Lines { cached, key, lines: u64::MAX >> (64 - lines) };
        let read = self.reads.want(class::WQE, purpose, self.config.home, amount);
        self.caches[cached as usize].bring_anew(key, lines, read);
        let Some(who) = waiter else { return 0 };
        self.reads.wait(read, who);
        self.wait_for(cached, 1, waiter);
        1
    }

    /// Reads missing lines, a bit for each.
    pub(crate) fn fetch(&mut self, cached: Cached, key: Key, missing: u64, waiter: Option<Waiter>) -> u32 {
        let amount = self.path.link.amount(u64::from(missing.count_ones()) * LINE);
        let class = match (cached, waiter) {
            (Cached::RingPage, _) | (_, Some(Waiter::Ring(_))) => class::RING_PAGE,
            // What a QP looks for while it waits for something else.
            (Cached::Translation, None | Some(Waiter::Turn(_))) => class::TRANSLATION,
            (Cached::Scatter, _) => class::SCATTER,
            (_, None) | (Cached::Send, _) => class::WQE,
            (_, Some(Waiter::Turn(_))) => class::SEND,
            (Cached::Receive, Some(Waiter::Job(_))) => class::RECEIVE_WQE,
            (Cached::Chain, Some(Waiter::Job(_))) => class::CHAIN,
            (_, Some(Waiter::Job(_))) => class::RECEIVE,
        };
        let purpose = Purpose::Lines { cached, key, lines: missing };
        let read = self.reads.want(class, purpose, self.config.home, amount);
        let cache = &mut self.caches[cached as usize];
        ones(missing).for_each(|line| cache.bring(key.plus(line), read));
        read
    }

    /// Notes what somebody waits for who has to wait for so many reads.
    fn wait_for(&mut self, cached: Cached, waits: u32, waiter: Option<Waiter>) {
        match waiter {
            Some(Waiter::Turn(qp)) if waits > 0 => self.qps[qp as usize].wait.cause = cached.cause(),
            Some(Waiter::Job(job)) if waits > 0 => self.held[job as usize].cause = cached.cause(),
            _ => {}
        }
    }

    /// Needs the context of one end of a QP: its entry in the first table, or the rest.
    pub(crate) fn need_context(&mut self, qp: u32, of_requester: bool, is_rest: bool, waiter: Waiter) -> u32 {
        let kind = if of_requester { kind::REQUESTER } else { kind::RESPONDER };
        let lines = self.config.context_lines;
        let tables = if is_rest { 1..self.config.context_tables } else { 0..1 };
        // Contexts are never forgotten, so that one which was there is there until another line goes.
        let evicted = self.caches[Cached::Context as usize].evicted().map(|evicted| evicted as u32);
        let seen = self.qps[qp as usize].contexts_seen[usize::from(of_requester)][usize::from(is_rest)];
        if evicted.is_some() && seen == evicted {
            self.caches[Cached::Context as usize].hit(tables.len() as u32 * lines);
            return 0;
        }
        let key = |table: u32| Key::new(kind, qp, table * lines);
        let cache = &self.caches[Cached::Context as usize];
        cache.approach(key(0), tables.start * lines..tables.end * lines);
        let before = cache.counts().misses;
        let waits = tables.map(|table| self.need(Cached::Context, key(table), lines, Some(waiter))).sum();
        self.tally.context_misses += self.caches[Cached::Context as usize].counts().misses - before;
        if waits == 0 {
            self.qps[qp as usize].contexts_seen[usize::from(of_requester)][usize::from(is_rest)] = evicted;
        }
        waits
    }

    /// Needs the entries of the regions of segments, or, when they are there, the translations of their pages, to which
    /// the entries lead.
    pub(crate) fn need_translations(&mut self, segments: &[Segment], is_rest: bool, waiter: Option<Waiter>) -> u32 {
        segments.iter().map(|segment| self.need_translation(*segment, is_rest, waiter)).sum()
    }

    fn need_translation(&mut self, segment: Segment, is_rest: bool, waiter: Option<Waiter>) -> u32 {
        let [first, lines] = page_lines(&self.regions[segment.key as usize], segment);
        // As with contexts.
        let evicted = self.caches[Cached::Translation as usize].evicted().map(|evicted| evicted as u32);
        let seen = evicted.map(|evicted| (evicted, first, lines));
        if seen.is_some() && self.translated[segment.key as usize] == seen {
            self.caches[Cached::Translation as usize].hit(if is_rest { lines } else { 1 });
            return 0;
        }
        let before = self.caches[Cached::Translation as usize].counts().misses;
        let entry = Key::new(kind::REGION, segment.key, 0);
        let waits = if is_rest {
            self.need(Cached::Translation, Key::new(kind::PAGES, segment.key, first), lines, waiter)
        } else {
            self.need(Cached::Translation, entry, 1, waiter)
        };
        let cache = &mut self.caches[Cached::Translation as usize];
        self.tally.translation_misses += cache.counts().misses - before;
        if is_rest && waits == 0 && waiter.is_some() && cache.look_up(entry) == Lookup::Held {
            self.translated[segment.key as usize] = seen;
        }
        waits
    }

    /// Keeps a burst on the NIC.
    pub(crate) fn hold(&mut self, burst: Burst, from: u32) -> u32 {
        let Some(id) = self.free.pop() else {
            self.held.push(Held::new(burst, from, Vec::new()));
            return self.held.len() as u32 - 1;
        };
        let held = &mut self.held[id as usize];
        let mut segments = std::mem::take(&mut held.segments);
        segments.clear();
        *held = Held::new(burst, from, segments);
        id
    }

    /// A burst is gone.
    pub(crate) fn let_go(&mut self, burst: u32) {
        self.free.push(burst);
    }

    /// Counted events.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How long it waits for an answer before it sends again; none if nothing can be lost.
    pub fn ack_timeout(&self) -> Option<Picos> {
        self.config.ack_timeout
    }

    /// Time that the busiest wire was busy.
    pub fn wire_busy(&self) -> Picos {
        self.ports.iter().map(|port| port.wire.busy()).max().unwrap_or(Picos::ZERO)
    }

    /// How long each port was in a pause; nothing of a port that is not there.
    pub fn pauses(&self, now: Picos) -> [Pauses; 2] {
        let of = |port: &Port| Pauses { sent: port.buffer.pauses(0).total(now), received: port.silence.total(now) };
        [0, 1].map(|number| self.ports.get(number).map_or_else(Pauses::default, of))
    }

    /// What has arrived and was not dealt with, also from the NIC itself. Units: bytes.
    pub fn backlog(&self) -> u64 {
        self.ports.iter().map(|port| port.buffer.filled()).sum::<u64>() + self.looped
    }

    /// What waits now for reads or for the other end, at each of which it is: QPs and bursts.
    pub fn waiting(&self) -> impl Iterator<Item = (Side, Cause)> {
        let turns = self.qps.iter().filter(|qp| qp.waits > 0).map(|qp| (Side::Send, qp.wait.cause));
        let rests = self.qps.iter().filter_map(|qp| Some((Side::Send, qp.rest?.cause)));
        let jobs = self.held.iter().filter(|held| held.waits > 0).map(|held| (Side::Receive, held.cause));
        turns.chain(rests).chain(jobs)
    }

    /// READs of all QPs that are on their way.
    pub fn reads_open(&self) -> u64 {
        self.reads_on_their_way
    }

    /// Receives that are read ahead of use, less those that are used before they are read, of all queues whose pages
    /// are looked up.
    pub fn receives_ahead(&self) -> i64 {
        self.receives_ahead
    }
}

/// Lines of a region's translations that a segment needs: the first, and how many, at most 64. A line holds those of
/// eight pages.
pub(crate) fn page_lines(region: &Region, segment: Segment) -> [u32; 2] {
    let line = |address: u64| (((address - region.base) >> region.page_bits) / 8) as u32;
    let (first, last) = (line(segment.address), line(segment.address + segment.bytes.max(1) - 1));
    [first, (last - first + 1).min(64)]
}

/// Places of the ones of a word.
fn ones(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let first = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        first
    })
}
