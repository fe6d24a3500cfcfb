//! What a lookup, a read and a write cost, of which a packet of the simulated NIC takes several.

use divan::Bencher;
use divan::counter::ItemsCount;
use kelpie_events::{Events, Picos, Rate};
use kelpie_nic::cache::{Cache, Geometry, Key, Lookup, Replacement};
use kelpie_nic::memory::{Memory, MemoryUnit};
use kelpie_nic::path::{Order, Path};
use kelpie_nic::pcie::{Link, PcieConfig};
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
            if cache.look_up(key) == Lookup::Missing {
                cache.keep(key);
            }
            next = if next + 1 == used { 0 } else { next + 1 };
        }
    });
}

#[derive(Clone, Copy)]
enum ReadEvent {
    Answered(Request),
    Received(Request),
}

/// A packet's worth of reads and writes, 1 KiB each way, through link, ordering and memory.
#[divan::bench]
fn read_and_write(bencher: Bencher) {
    let config = PcieConfig {
        rate: Rate::gbps(252.0),
        latency: Picos::new(100_000),
        overhead: 20,
        max_payload: 512,
        max_read_request: 1024,
        tags: 256,
        write_credits: 32 << 10,
        sleep: None,
    };
    let place =
        MemoryUnit { rate: Rate::gbps(800.0), latency: Picos::new(300_000), partial: Picos::new(300_000), way: None };
    bencher.counter(ItemsCount::new(WORK)).bench_local(|| {
        let mut path = Path::new(Link::new(config), Memory::new(&[place], &[]));
        let (mut engine, mut events) = (ReadEngine::<u32, ()>::new(&[u32::MAX]), Events::default());
        let (mut now, mut wanted) = (Picos::ZERO, 0);
        loop {
            while wanted < WORK && engine.open() < 64 {
                engine.want(0, wanted, 0, path.link.amount(1024));
                wanted += 1;
                now = path.write(now, 0, 0, 1024, Order::Strict).map_or_else(|later| later, |_| now);
            }
            while let Some((first, request)) = engine.send(now, &mut path) {
                events.at(first, ReadEvent::Answered(request));
            }
            let Some((time, event)) = events.next_before(Picos::MAX) else { break };
            now = now.max(time);
            match event {
                ReadEvent::Answered(request) => {
                    events.at(engine.answered(now, request, &mut path), ReadEvent::Received(request));
                }
                ReadEvent::Received(request) => {
                    if let Some((number, _)) = engine.received(request, &mut path) {
                        while engine.next_waiter(number).is_some() {}
                    }
                }
            }
        }
    });
}
