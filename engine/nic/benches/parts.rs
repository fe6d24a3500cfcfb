//! What a lookup, a read and a write cost, of which a packet of the simulated NIC takes several.

use divan::Bencher;
use divan::counter::ItemsCount;
use kelpie_events::{Events, Picos, Rate};
use kelpie_nic::cache::{Cache, Geometry, Key, Lookup, Replacement};
use kelpie_nic::memory::{Memory, Place};
use kelpie_nic::ordering::{Order, Ordering, Ticket};
use kelpie_nic::pcie::{Config, Link};
use kelpie_nic::reads::{ReadEngine, Request};

fn main() {
    divan::main();
}

const LINES: u64 = 16 << 10;
const WORK: u32 = 10_000;

/// Lookups of lines in turn, in a cache of 16 Ki lines; the argument is the lines that are used, in percent of these.
#[divan::bench(args = [50, 100, 200])]
fn look_up(bencher: Bencher, percent: u64) {
    let geometry = Geometry { bytes: LINES * 64, ways: 8, replacement: Replacement::Random };
    let mut cache = Cache::new(geometry, 1);
    let used = (LINES * percent / 100) as u32;
    let mut next = 0;
    bencher.counter(ItemsCount::new(WORK)).bench_local(|| {
        for _ in 0..WORK {
            let key = Key::new(1, next, 0);
            if cache.look_up(key, Picos::ZERO) == Lookup::Missing {
                cache.bring(key, Picos::ZERO);
            }
            next = if next + 1 == used { 0 } else { next + 1 };
        }
    });
}

#[derive(Clone, Copy)]
enum Event {
    ReadAtRoot(Request),
    Answered(Request),
    Received(Request),
    WriteAtRoot,
    Written(Ticket),
}

/// A packet's worth of reads and writes, 1 KiB each way, through link, ordering and memory.
#[divan::bench]
fn read_and_write(bencher: Bencher) {
    let config = Config {
        rate: Rate::gbps(252.0),
        latency: Picos::new(100_000),
        overhead: 20,
        max_payload: 512,
        max_read_request: 1024,
        tags: 256,
        write_credits: 32 << 10,
    };
    let place = Place { rate: Rate::gbps(800.0), latency: Picos::new(300_000), way: None };
    bencher.counter(ItemsCount::new(WORK)).bench_local(|| {
        let (mut link, mut memory) = (Link::new(config), Memory::new(&[place], &[]));
        let (mut engine, mut ordering) = (ReadEngine::new(1024), Ordering::default());
        let mut events = Events::default();
        let (mut now, mut wanted, mut written) = (Picos::ZERO, 0, 0);
        let mut next = None;
        loop {
            match next {
                Some(Event::ReadAtRoot(request)) => {
                    if let Some(request) = ordering.read(request) {
                        events.at(memory.read(now, request.place, request.bytes), Event::Answered(request));
                    }
                }
                Some(Event::Answered(request)) => {
                    events.at(link.answer(now, request.bytes), Event::Received(request));
                }
                Some(Event::Received(request)) => {
                    engine.received(request, &mut link);
                }
                Some(Event::WriteAtRoot) => {
                    let ticket = ordering.write(1024, Order::Strict);
                    events.at(memory.write(now, 0, 0, 1024), Event::Written(ticket));
                }
                Some(Event::Written(ticket)) => {
                    link.finish_write(ordering.in_memory(ticket));
                    while let Some(request) = ordering.next_read() {
                        events.at(memory.read(now, request.place, request.bytes), Event::Answered(request));
                    }
                }
                None => {}
            }
            while wanted < WORK && engine.open() < 64 {
                engine.want((), 0, 1024);
                wanted += 1;
            }
            while let Some((at, request)) = engine.send(now, &mut link) {
                events.at(at, Event::ReadAtRoot(request));
            }
            while written < WORK
                && let Some(at) = link.write(now, 1024)
            {
                events.at(at, Event::WriteAtRoot);
                written += 1;
            }
            let Some((time, event)) = events.next_before(Picos::MAX) else { break };
            (now, next) = (time, Some(event));
        }
        assert_eq!(link.counts().written_bytes, u64::from(WORK) * 1024);
    });
}
