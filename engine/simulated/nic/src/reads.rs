//! The read engine: all that a NIC reads from its host goes through it, payload as well as WQEs, contexts and
//! translations, so that they share the tags of the link.

use std::collections::VecDeque;

use kelpie_events::Picos;

use crate::path::{Path, ReadSpan};
use crate::pcie::ReadAmount;

/// Names a part of a read that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request(u32);

/// What was not asked for yet.
#[derive(Debug, Clone, Copy)]
struct WaitingRead {
    read: u32,
    place: usize,
    amount: ReadAmount,
    is_begun: bool,
}

/// Reads that share a bound on how many are on their way.
#[derive(Debug, Clone)]
struct ReadClass {
    waiting: VecDeque<WaitingRead>,
    on_their_way: u32,
    most: u32,
}

/// A read that was not answered in whole yet.
#[derive(Debug, Clone)]
struct OpenRead<T, W> {
    purpose: Option<T>,
    /// What has not come yet. Units: bytes.
    left: u64,
    class: usize,
    has_begun: bool,
    waiters: Vec<W>,
}

/// Reads, those of a class in the order in which they were asked for; `T` says what each is for, and `W` who waits for
/// it.
#[derive(Debug, Clone)]
pub struct ReadEngine<T, W> {
    classes: Vec<ReadClass>,
    /// The class that is asked first.
    turn: usize,
    /// A bit for each class of which a read waits that may go.
    ready: u32,
    reads: Vec<OpenRead<T, W>>,
    free: Vec<u32>,
    /// What was asked for, and for which read.
    requests: Vec<(u32, ReadSpan)>,
    free_requests: Vec<u32>,
}

impl<T, W> ReadEngine<T, W> {
    /// Classes, each with so many reads on their way at most.
    pub fn new(classes: &[u32]) -> Self {
        let class = |most: &u32| ReadClass { waiting: VecDeque::new(), on_their_way: 0, most: (*most).max(1) };
        Self {
            classes: classes.iter().map(class).collect(),
            turn: 0,
            ready: 0,
            reads: Vec::new(),
            free: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
        }
    }

    /// Wants data of a memory; says the number of the read.
    pub fn want(&mut self, class: usize, purpose: T, place: usize, amount: ReadAmount) -> u32 {
        let read = self.free.pop().unwrap_or_else(|| {
            self.reads.push(OpenRead { purpose: None, left: 0, class, has_begun: false, waiters: Vec::new() });
            self.reads.len() as u32 - 1
        });
        let slot = &mut self.reads[read as usize];
        (slot.purpose, slot.left, slot.class, slot.has_begun) = (Some(purpose), amount.bytes, class, false);
        self.classes[class].waiting.push_back(WaitingRead { read, place, amount, is_begun: false });
        self.note(class);
        read
    }

    /// Notes whether a read of a class may go.
    #[inline]
    fn note(&mut self, class: usize) {
        let ReadClass { waiting, on_their_way, most } = &self.classes[class];
        let may_go = waiting.front().is_some_and(|waiting| waiting.is_begun || on_their_way < most);
        self.ready = self.ready & !(1 << class) | u32::from(may_go) << class;
    }

    /// Somebody waits for a read, too.
    pub fn wait(&mut self, read: u32, waiter: W) {
        debug_assert!(self.reads[read as usize].purpose.is_some(), "the read is on its way");
        self.reads[read as usize].waiters.push(waiter);
    }

    /// Asks for the next piece, if something waits and a tag is free; says when [`ReadEngine::answered`] is due.
    /// Classes take turns.
    #[inline]
    pub fn send(&mut self, now: Picos, path: &mut Path) -> Option<(Picos, Request)> {
        if self.ready == 0 { None } else { self.send_next(now, path) }
    }

    fn send_next(&mut self, now: Picos, path: &mut Path) -> Option<(Picos, Request)> {
        // The first from `turn` on, or the first of all.
        let later = self.ready & (u32::MAX << self.turn);
        let next = if later == 0 { self.ready } else { later }.trailing_zeros() as usize;
        let class = &mut self.classes[next];
        let waiting = class.waiting.front_mut()?;
        let asked = path.read(now, waiting.place, waiting.amount)?;
        class.on_their_way += u32::from(!waiting.is_begun);
        waiting.is_begun = true;
        self.reads[waiting.read as usize].has_begun = true;
        waiting.amount.bytes -= asked.amount.bytes;
        waiting.amount.requests -= asked.amount.requests;
        let part = (waiting.read, asked);
        if waiting.amount.bytes == 0 {
            class.waiting.pop_front();
        }
        self.note(next);
        self.turn = if next + 1 == self.classes.len() { 0 } else { next + 1 };
        let request = if let Some(request) = self.free_requests.pop() {
            self.requests[request as usize] = part;
            request
        } else {
            self.requests.push(part);
            self.requests.len() as u32 - 1
        };
        Some((asked.first, Request(request)))
    }

    /// Whether a read is on its way, and does not wait for others.
    pub fn has_begun(&self, read: u32) -> bool {
        self.reads[read as usize].has_begun
    }

    /// Whether a read of a class would wait for others of it.
    pub fn is_busy(&self, class: usize) -> bool {
        let class = &self.classes[class];
        !class.waiting.is_empty() || class.on_their_way >= class.most
    }

    /// An answer begins to arrive at the root complex; says when all of it is on the NIC.
    pub fn answered(&mut self, now: Picos, request: Request, path: &mut Path) -> Picos {
        path.answer(now, self.requests[request.0 as usize].1)
    }

    /// An answer is on the NIC. If nothing of its read is left: its number and what it was for. Who waited for it
    /// is told by [`ReadEngine::next_waiter`].
    pub fn received(&mut self, request: Request, path: &mut Path) -> Option<(u32, T)> {
        let (number, asked) = self.requests[request.0 as usize];
        self.free_requests.push(request.0);
        path.link.finish_read(asked.amount);
        let read = &mut self.reads[number as usize];
        read.left -= asked.amount.bytes;
        if read.left > 0 {
            return None;
        }
        let (class, purpose) = (read.class, read.purpose.take());
        self.classes[class].on_their_way -= 1;
        self.note(class);
        purpose.map(|purpose| (number, purpose))
    }

    /// Who else waited for a read that has come. After the last, its number is free.
    pub fn next_waiter(&mut self, read: u32) -> Option<W> {
        let waiter = self.reads[read as usize].waiters.pop();
        if waiter.is_none() {
            self.free.push(read);
        }
        waiter
    }

    /// Reads that are waiting or on their way.
    pub fn open(&self) -> usize {
        self.reads.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use kelpie_events::{Events, Rate};
    use proptest::prelude::*;

    use super::*;
    use crate::memory::{Memory, MemoryUnit};
    use crate::pcie::{Link, PcieConfig};

    #[derive(Clone, Copy)]
    enum Event {
        Answered(Request),
        Received(Request),
    }

    /// Reads these many bytes each, all wanted at once; in which order they came, when the last did, and the most tags
    /// that were in use.
    fn read(sizes: &[u64], tags: u32) -> (Vec<usize>, Picos, u32) {
        let link = Link::new(PcieConfig {
            rate: Rate::gbps(252.0),
            latency: Picos::new(100_000),
            overhead: 20,
            max_payload: 512,
            max_read_request: 512,
            tags,
            write_credits: 1 << 14,
            sleep: None,
        });
        let place =
            MemoryUnit { rate: Rate::gbps(800.0), latency: Picos::new(90_000), partial: Picos::new(90_000), way: None };
        let mut path = Path::new(link, Memory::new(&[place], &[]));
        let (mut engine, mut events) = (ReadEngine::new(&[u32::MAX]), Events::default());
        for (index, bytes) in sizes.iter().enumerate() {
            let number = engine.want(0, index, 0, path.link.amount(*bytes));
            engine.wait(number, index);
        }
        let (mut order, mut now, mut most) = (Vec::new(), Picos::ZERO, 0);
        loop {
            while let Some((first, request)) = engine.send(now, &mut path) {
                events.at(first, Event::Answered(request));
            }
            most = most.max(path.link.tags());
            let Some((time, event)) = events.next_before(Picos::MAX) else { break };
            now = time;
            match event {
                Event::Answered(request) => {
                    events.at(engine.answered(now, request, &mut path), Event::Received(request));
                }
                Event::Received(request) => {
                    if let Some((number, purpose)) = engine.received(request, &mut path) {
                        order.push(purpose);
                        assert_eq!([engine.next_waiter(number), engine.next_waiter(number)], [Some(purpose), None]);
                    }
                }
            }
        }
        assert_eq!((engine.open(), path.link.tags()), (0, 0), "nothing is left");
        assert_eq!(path.link.counts().read_bytes, sizes.iter().sum::<u64>());
        (order, now, most)
    }

    #[test]
    fn a_long_read_takes_many_tags_and_is_whole_at_its_last_answer() {
        let (order, took, most) = read(&[4096, 64], 64);
        assert_eq!((order, most), (vec![0, 1], 9));
        let (_, one, _) = read(&[64], 64);
        assert!(took > one);
    }

    proptest! {
        #[test]
        fn every_read_comes_once_in_order_and_sooner_with_more_tags(
            sizes in prop::collection::vec(1u64..5000, 1..40), tags in 1u32..20,
        ) {
            let (order, took, most) = read(&sizes, tags);
            prop_assert_eq!(order, (0..sizes.len()).collect::<Vec<_>>());
            prop_assert!(most <= tags);
            // Which requests share an answer changes with the tags, and so when the last comes: by less than one
            // request takes in all.
            prop_assert!(read(&sizes, tags + 1).1 <= took + Picos::new(310_000));
        }
    }
}
