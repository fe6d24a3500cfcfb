//! Two RNICs of a host at work: WRITEs from the memory that is nearest to one, over cables and switches, to the memory
//! that is nearest to the other. What an RNIC does alone is in `world`.

use std::collections::VecDeque;
use std::ops::Range;

use kelpie_events::{Events, Picos, Rate, Server};
use kelpie_nic::nic::{self, Nic, Outside};
use kelpie_nic::packet::{Burst, Operation, Ports};
use kelpie_nic::qp::{Connection, Region, Segment, Transport, Wqe};
use kelpie_nic::waits::{Cause, Side};

use super::world::{FROM, Load, MOST_EVENTS, MTU, Outcome, PAGE_BITS, REGION_BITS, Scene, TO, place};

/// What lies between two ports.
#[derive(Debug, Clone, Copy)]
pub struct Cables {
    /// The slowest cable behind the sender's own, each way.
    pub rate: Rate,
    /// Of all cables and switches, one way.
    pub latency: Picos,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Nic(usize, nic::Event),
    /// The application sees that a message is complete.
    Seen,
    /// A burst is at the port that leads to this RNIC.
    Near(usize),
    /// That port may send.
    Leave(usize),
    /// A burst reaches this RNIC.
    Arrive(usize),
    /// A pause frame of this RNIC, or one that ends the pause, reaches that port.
    Hold(usize, bool),
}

/// The way to one RNIC. Switches have room for all that the sender may have on its way.
#[derive(Debug, Default)]
struct Way {
    coming: VecDeque<Burst>,
    queue: VecDeque<Burst>,
    arriving: VecDeque<Burst>,
    wire: Server,
    is_held: bool,
}

struct Around<'s> {
    scenes: &'s [Scene; 2],
    cables: Cables,
    load: Load,
    events: Events<Event>,
    ways: [Way; 2],
    posted: u64,
    seen: u64,
    posted_at: Picos,
    latency: Picos,
    delivered: u64,
}

/// What one of the RNICs has around it.
struct View<'a, 's> {
    rnic: usize,
    around: &'a mut Around<'s>,
}

impl Outside for View<'_, '_> {
    fn at(&mut self, time: Picos, event: nic::Event) {
        self.around.events.at(time, Event::Nic(self.rnic, event));
    }

    fn wqe(&self, _: u32, index: u64) -> Wqe {
        let bytes = self.around.load.message;
        let address = place(TO, index, bytes);
        Wqe { operation: Operation::Write, bytes, segments: 1, lines: 1, key: TO, address, is_signaled: true }
    }

    fn portions(&self, _: u32, index: u64, part: Range<u64>, mut each: impl FnMut(Segment)) {
        let address = place(FROM, index, self.around.load.message) + part.start;
        each(Segment { key: FROM, address, bytes: part.end - part.start });
    }

    fn receive_portions(&self, _: u32, _: u64, _: Range<u64>, _: impl FnMut(Segment)) {}

    fn sent(&mut self, now: Picos, burst: Burst) {
        let to = 1 - self.rnic;
        self.around.ways[to].coming.push_back(burst);
        self.around.events.at(now + self.around.cables.latency, Event::Near(to));
    }

    fn pause(&mut self, now: Picos, _: u8, is_on: bool) {
        let cable = self.around.scenes[self.rnic].cable;
        self.around.events.at(now + cable, Event::Hold(self.rnic, is_on));
    }

    fn completed(&mut self, time: Picos, _: u32, _: u64) {
        self.around.events.at(time + self.around.scenes[self.rnic].poll, Event::Seen);
    }

    fn received(&mut self, _: Picos, _: u32, _: u64) {}

    fn delivered(&mut self, burst: &Burst) {
        self.around.delivered += burst.payload;
    }

    fn waited(&mut self, _: Side, _: Cause, _: u32, _: Picos) {}
}

impl Around<'_> {
    fn post(&mut self, now: Picos) {
        self.posted += 1;
        self.posted_at = now;
        let rung = now + self.scenes[0].post + self.scenes[0].mmio;
        self.events.at(rung, Event::Nic(0, nic::Event::Doorbell(0, self.posted as u32)));
    }

    fn leave(&mut self, now: Picos, to: usize) {
        let way = &mut self.ways[to];
        if way.is_held || way.wire.free() > now {
            return;
        }
        let Some(burst) = way.queue.pop_front() else { return };
        way.wire.serve(now, self.cables.rate.time(burst.wire));
        let free = way.wire.free();
        way.arriving.push_back(burst);
        self.events.at(now, Event::Arrive(to));
        self.events.at(free, Event::Leave(to));
    }
}

/// Runs WRITEs from the first RNIC to the second.
pub fn run(scenes: &[Scene; 2], cables: Cables, load: Load, seed: u64) -> Outcome {
    let region = |key: u32, scene: &Scene| Region {
        base: u64::from(key) << REGION_BITS,
        page_bits: PAGE_BITS,
        place: scene.config.home,
    };
    let connection = Connection {
        transport: Transport::Reliable,
        peer: 0,
        is_loopback: false,
        mtu: MTU,
        max_reads: 1,
        send_stride: 1,
        receive_entry: 16,
        send_slots: load.depth.next_power_of_two() as u32,
        receive_slots: 1,
        ports: Ports::default(),
    };
    let nic = |place: usize| {
        let scene = &scenes[place];
        let regions = vec![region(FROM, scene), region(TO, scene)];
        Nic::new(scene.config.clone(), regions, std::slice::from_ref(&connection), seed.wrapping_add(place as u64))
    };
    let mut nics = [nic(0), nic(1)];
    let mut around = Around {
        scenes,
        cables,
        load,
        events: Events::default(),
        ways: Default::default(),
        posted: 0,
        seen: 0,
        posted_at: Picos::ZERO,
        latency: Picos::ZERO,
        delivered: 0,
    };
    (0..load.depth).for_each(|_| around.post(Picos::ZERO));
    let [warm, counted] = load.messages;
    let mut begin: Option<(Picos, u64, Picos)> = None;
    let mut now = Picos::ZERO;
    for _ in 0..MOST_EVENTS {
        let Some((time, event)) = around.events.next_before(Picos::MAX) else { break };
        now = time;
        match event {
            Event::Nic(rnic, event) => nics[rnic].handle(now, event, &mut View { rnic, around: &mut around }),
            Event::Seen => {
                around.seen += 1;
                around.latency += now - around.posted_at;
                if around.seen == warm + counted {
                    break;
                }
                around.post(now);
            }
            Event::Near(to) => {
                let way = &mut around.ways[to];
                way.queue.extend(way.coming.pop_front());
                around.leave(now, to);
            }
            Event::Leave(to) => around.leave(now, to),
            Event::Arrive(rnic) => {
                if let Some(burst) = around.ways[rnic].arriving.pop_front() {
                    nics[rnic].arrive(now, burst, &mut View { rnic, around: &mut around });
                }
            }
            Event::Hold(to, is_held) => {
                around.ways[to].is_held = is_held;
                around.leave(now, to);
            }
        }
        if begin.is_none() && around.seen >= warm {
            begin = Some((now, around.delivered, around.latency));
        }
    }
    let Some((at, delivered, latency)) = begin.filter(|(at, ..)| *at < now) else { return Outcome::default() };
    let counted = around.seen.saturating_sub(warm).max(1);
    Outcome {
        gbps: (around.delivered - delivered) as f64 * 8.0 / (now - at).as_seconds() / 1e9,
        latency_us: (around.latency - latency).as_micros() / counted as f64,
        took: now,
        lost: nics.iter().map(|nic| nic.tally().lost).sum(),
        ..Outcome::default()
    }
}
