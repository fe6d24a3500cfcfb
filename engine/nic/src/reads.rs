//! The read engine: all that a NIC reads from its host goes through it, payload as well as WQEs, contexts and
//! translations, so that they share the tags of the link.

use std::collections::VecDeque;

use kelpie_events::Picos;

use crate::pcie::Link;

/// A part of a read that one tag asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which read it belongs to.
    slot: u32,
    /// The memory.
    pub place: usize,
    /// What it asks for.
    pub bytes: u64,
}

/// A read that was not asked for in whole yet.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    slot: u32,
    place: usize,
    bytes: u64,
}

/// A read on its way.
#[derive(Debug, Clone, Copy)]
struct Read<T> {
    purpose: T,
    /// What has not come yet. Units: bytes.
    left: u64,
}

/// Reads, in the order in which they were asked for; `T` says what each is for.
#[derive(Debug, Clone)]
pub struct ReadEngine<T> {
    max_request: u64,
    waiting: VecDeque<Waiting>,
    reads: Vec<Read<T>>,
    free: Vec<u32>,
}

impl<T: Copy> ReadEngine<T> {
    /// An engine whose tags ask for at most `max_request` bytes each.
    pub fn new(max_request: u64) -> Self {
        Self { max_request, waiting: VecDeque::new(), reads: Vec::new(), free: Vec::new() }
    }

    /// Wants `bytes`, at least 1, of a memory.
    pub fn want(&mut self, purpose: T, place: usize, bytes: u64) {
        debug_assert!(bytes > 0, "a read of nothing has no answer");
        let read = Read { purpose, left: bytes };
        let slot = if let Some(slot) = self.free.pop() {
            self.reads[slot as usize] = read;
            slot
        } else {
            self.reads.push(read);
            self.reads.len() as u32 - 1
        };
        self.waiting.push_back(Waiting { slot, place, bytes });
    }

    /// Sends the next request, if one waits and a tag is free; says when it is at the root complex.
    pub fn send(&mut self, now: Picos, link: &mut Link) -> Option<(Picos, Request)> {
        let waiting = self.waiting.front_mut()?;
        let bytes = waiting.bytes.min(self.max_request);
        let at_root = link.read(now, bytes)?;
        let request = Request { slot: waiting.slot, place: waiting.place, bytes };
        waiting.bytes -= bytes;
        if waiting.bytes == 0 {
            self.waiting.pop_front();
        }
        Some((at_root, request))
    }

    /// The answer of a request is on the NIC; what its read was for, if nothing of that is left.
    pub fn received(&mut self, request: Request, link: &mut Link) -> Option<T> {
        link.finish_read();
        let read = &mut self.reads[request.slot as usize];
        read.left -= request.bytes;
        (read.left == 0).then(|| {
            self.free.push(request.slot);
            read.purpose
        })
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
    use crate::memory::{Memory, Place};
    use crate::pcie::Config;

    enum Event {
        AtMemory(Request),
        Answered(Request),
        Received(Request),
    }

    /// Reads these many bytes each, all wanted at once; in which order they came, when the last did, and the most tags
    /// that were in use.
    fn read(sizes: &[u64], tags: u32) -> (Vec<usize>, Picos, u32) {
        let mut link = Link::new(Config {
            rate: Rate::gbps(252.0),
            latency: Picos::new(100_000),
            overhead: 20,
            max_payload: 512,
            max_read_request: 512,
            tags,
            write_credits: 1 << 14,
        });
        let place = Place { rate: Rate::gbps(800.0), latency: Picos::new(90_000), way: None };
        let mut memory = Memory::new(&[place], &[]);
        let (mut engine, mut events) = (ReadEngine::new(512), Events::default());
        sizes.iter().enumerate().for_each(|(index, bytes)| engine.want(index, 0, *bytes));
        let (mut order, mut now, mut most) = (Vec::new(), Picos::ZERO, 0);
        loop {
            while let Some((at, request)) = engine.send(now, &mut link) {
                events.at(at, Event::AtMemory(request));
            }
            most = most.max(link.reads());
            let Some((time, event)) = events.next_before(Picos::MAX) else { break };
            now = time;
            match event {
                Event::AtMemory(request) => {
                    events.at(memory.read(now, request.place, request.bytes), Event::Answered(request));
                }
                Event::Answered(request) => events.at(link.answer(now, request.bytes), Event::Received(request)),
                Event::Received(request) => order.extend(engine.received(request, &mut link)),
            }
        }
        assert_eq!((engine.open(), link.reads()), (0, 0), "nothing is left");
        assert_eq!(link.counts().read_bytes, sizes.iter().sum::<u64>());
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
            prop_assert!(read(&sizes, tags + 1).1 <= took);
        }
    }
}
