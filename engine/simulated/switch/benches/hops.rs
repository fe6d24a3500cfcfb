//! What a hop costs in a switch, without the events that a simulation makes of it: packets of 1 KiB from all ports of a
//! switch to all others, under PFC with a dynamic threshold.

use std::collections::VecDeque;

use divan::Bencher;
use divan::counter::ItemsCount;
use kelpie_events::{Picos, Rate};
use kelpie_switch::{BufferForm, Neighbours, Packet, Signal, Switch, Threshold};

fn main() {
    divan::main();
}

const PORTS: usize = 32;
const HOPS: usize = 100_000;

/// The index of a packet that lies elsewhere, and what a switch has to know of it.
#[derive(Clone, Copy)]
struct PacketIndex {
    _packet: u32,
    bytes: u32,
}

impl Packet for PacketIndex {
    fn bytes(&self) -> u64 {
        self.bytes.into()
    }
}

/// Takes what leaves, and keeps what is due: ports of one rate are due in the order in which they said so.
#[derive(Default)]
struct Sink {
    due: VecDeque<(Picos, u32)>,
    queued: u64,
}

impl Neighbours<PacketIndex> for Sink {
    fn sent(&mut self, _: Picos, _: usize, _: PacketIndex, queued: u64) {
        self.queued += queued;
    }

    fn signal(&mut self, _: Picos, _: usize, _: usize, _: Signal) {}

    fn due(&mut self, time: Picos, port: usize) {
        self.due.push_back((time, port as u32));
    }
}

/// A packet comes in by each port in turn, so that each is the sender of one port after the other.
#[divan::bench]
fn hops(bencher: Bencher) {
    let threshold = Threshold::Dynamic { reserve: 4096, headroom: 37_500, shift: 3, resume: 3072 };
    let form = BufferForm { capacity: 12 << 20, threshold };
    let mut switch: Switch<PacketIndex> = Switch::new(form, &[Rate::gbps(100.0); PORTS]);
    let (mut sink, mut now, mut number) = (Sink::default(), Picos::ZERO, 0);
    bencher.counter(ItemsCount::new(HOPS)).bench_local(|| {
        for _ in 0..HOPS {
            // All ports together carry a packet in 2.62 ns.
            now += Picos::new(2620);
            while let Some((time, port)) = sink.due.pop_front_if(|(time, _)| *time <= now) {
                switch.leave(time, port as usize, &mut sink);
            }
            let (from, turn) = (number % PORTS, number / PORTS);
            let to = (from + 1 + turn % (PORTS - 1)) % PORTS;
            switch.enter(now, [from, to], PacketIndex { _packet: number as u32, bytes: 1048 }, &mut sink);
            number += 1;
        }
        sink.queued
    });
    assert_eq!(switch.lost(), 0, "nothing is lost below the headroom");
}
