//! Two RNICs of a host at work: WRITEs from the memory that is nearest to one, over cables and switches, to the memory
//! that is nearest to the other. What an RNIC does alone is in `world`.

use std::ops::Range;

use kelpie_events::{Events, Picos, Rate};
use kelpie_nic::nic::{self, Nic, Outside};
use kelpie_nic::packet::{Burst, PacketPorts, WrOperation};
use kelpie_nic::qp::{Connection, Region, Segment, TransportService, Wqe};
use kelpie_nic::waits::{Cause, Side};
use kelpie_switch::{BufferForm, Link, Neighbours, Signal, Switch, Threshold};

use super::world::{FROM, Load, LoadOutcome, MOST_EVENTS, MTU, PAGE_BITS, REGION_BITS, Scene, TO, place};

/// What lies between two ports.
#[derive(Debug, Clone, Copy)]
pub struct LoopbackCables {
    /// The slowest cable behind the sender's own, each way.
    pub rate: Rate,
    /// Of all cables and switches, one way.
    pub latency: Picos,
}

#[derive(Debug, Clone, Copy)]
enum RnicsEvent {
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
    Hold(usize, Signal),
}

/// Room for all that a sender may have on its way.
const ENDLESS: BufferForm =
    BufferForm { capacity: u64::MAX, threshold: Threshold::Fixed { xoff: u64::MAX, xon: u64::MAX } };

/// What leads to the RNICs, each by its own port.
#[derive(Debug)]
struct Ways {
    /// All cables and switches up to the port.
    coming: [Link<Burst>; 2],
    /// From the port to the RNIC, which takes no time: all is counted before.
    arriving: [Link<Burst>; 2],
    switch: Switch<Burst>,
}

impl Ways {
    fn new(cables: LoopbackCables) -> Self {
        let links = |delay: Picos| [(); 2].map(|()| Link::new(delay));
        let switch = Switch::new(ENDLESS, &[cables.rate; 2]);
        Self { coming: links(cables.latency), arriving: links(Picos::ZERO), switch }
    }
}

/// What lies behind the switch.
struct Behind<'a> {
    arriving: &'a mut [Link<Burst>; 2],
    events: &'a mut Events<RnicsEvent>,
}

impl Neighbours<Burst> for Behind<'_> {
    fn sent(&mut self, now: Picos, port: usize, burst: Burst, _: u64) {
        self.events.at(self.arriving[port].send(now, burst), RnicsEvent::Arrive(port));
    }

    fn signal(&mut self, _: Picos, _: usize, _: usize, _: Signal) {}

    fn due(&mut self, time: Picos, port: usize) {
        self.events.at(time, RnicsEvent::Leave(port));
    }
}

struct RnicsEnvironment<'s> {
    scenes: &'s [Scene; 2],
    load: Load,
    events: Events<RnicsEvent>,
    ways: Ways,
    posted: u64,
    seen: u64,
    posted_at: Picos,
    latency: Picos,
    delivered: u64,
}

/// What one of the RNICs has around it.
struct RnicView<'a, 's> {
    rnic: usize,
    around: &'a mut RnicsEnvironment<'s>,
}

impl Outside for RnicView<'_, '_> {
    fn at(&mut self, time: Picos, event: nic::Event) {
        self.around.events.at(time, RnicsEvent::Nic(self.rnic, event));
    }

    fn wqe(&self, _: u32, index: u64) -> Wqe {
        let bytes = self.around.load.message;
        let address = place(TO, index, bytes);
        Wqe { operation: WrOperation::Write, bytes, segments: 1, lines: 1, key: TO, address, is_signaled: true }
    }

    fn portions(&self, _: u32, index: u64, part: Range<u64>, mut each: impl FnMut(Segment)) {
        let address = place(FROM, index, self.around.load.message) + part.start;
        each(Segment { key: FROM, address, bytes: part.end - part.start });
    }

    fn receive_portions(&self, _: u32, _: u64, _: Range<u64>, _: impl FnMut(Segment)) {}

    fn sent(&mut self, now: Picos, burst: Burst) {
        let to = 1 - self.rnic;
        let there = self.around.ways.coming[to].send(now, burst);
        self.around.events.at(there, RnicsEvent::Near(to));
    }

    fn pause(&mut self, now: Picos, _: u8, signal: Signal) {
        let cable = self.around.scenes[self.rnic].cable;
        self.around.events.at(now + cable, RnicsEvent::Hold(self.rnic, signal));
    }

    fn completed(&mut self, time: Picos, _: u32, _: u64) {
        self.around.events.at(time + self.around.scenes[self.rnic].poll, RnicsEvent::Seen);
    }

    fn received(&mut self, _: Picos, _: u32, _: u64) {}

    fn delivered(&mut self, burst: &Burst) {
        self.around.delivered += burst.payload;
    }

    fn waited(&mut self, _: Side, _: Cause, _: u32, _: Picos) {}
}

impl RnicsEnvironment<'_> {
    fn post(&mut self, now: Picos) {
        self.posted += 1;
        self.posted_at = now;
        let rung = now + self.scenes[0].post + self.scenes[0].mmio;
        self.events.at(rung, RnicsEvent::Nic(0, nic::Event::Doorbell(0, self.posted as u32)));
    }

    /// The switch of the ways, and what lies behind it.
    fn switch(&mut self) -> (&mut Switch<Burst>, Behind<'_>) {
        (&mut self.ways.switch, Behind { arriving: &mut self.ways.arriving, events: &mut self.events })
    }

    /// A burst comes to the port that leads to this RNIC.
    fn near(&mut self, now: Picos, to: usize) {
        let Some(burst) = self.ways.coming[to].arrive() else { return };
        let (switch, mut behind) = self.switch();
        switch.enter(now, [1 - to, to], burst, &mut behind);
    }
}

/// Runs WRITEs from the first RNIC to the second.
pub fn run(scenes: &[Scene; 2], cables: LoopbackCables, load: Load, seed: u64) -> LoadOutcome {
    let region = |key: u32, scene: &Scene| Region {
        base: u64::from(key) << REGION_BITS,
        page_bits: PAGE_BITS,
        place: scene.config.home,
    };
    let connection = Connection {
        transport: TransportService::Reliable,
        peer: 0,
        is_loopback: false,
        mtu: MTU,
        max_reads: 1,
        send_stride: 1,
        receive_entry: 16,
        send_slots: load.depth.next_power_of_two() as u32,
        receive_slots: 1,
        ports: PacketPorts::default(),
    };
    let nic = |place: usize| {
        let scene = &scenes[place];
        let regions = vec![region(FROM, scene), region(TO, scene)];
        Nic::new(scene.config.clone(), regions, std::slice::from_ref(&connection), seed.wrapping_add(place as u64))
    };
    let mut nics = [nic(0), nic(1)];
    let mut around = RnicsEnvironment {
        scenes,
        load,
        events: Events::default(),
        ways: Ways::new(cables),
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
            RnicsEvent::Nic(rnic, event) => nics[rnic].handle(now, event, &mut RnicView { rnic, around: &mut around }),
            RnicsEvent::Seen => {
                around.seen += 1;
                around.latency += now - around.posted_at;
                if around.seen == warm + counted {
                    break;
                }
                around.post(now);
            }
            RnicsEvent::Near(to) => around.near(now, to),
            RnicsEvent::Leave(to) => {
                let (switch, mut behind) = around.switch();
                switch.leave(now, to, &mut behind);
            }
            RnicsEvent::Arrive(rnic) => {
                if let Some(burst) = around.ways.arriving[rnic].arrive() {
                    nics[rnic].arrive(now, burst, &mut RnicView { rnic, around: &mut around });
                }
            }
            RnicsEvent::Hold(to, signal) => {
                let (switch, mut behind) = around.switch();
                switch.hold(now, to, 0, signal, &mut behind);
            }
        }
        if begin.is_none() && around.seen >= warm {
            begin = Some((now, around.delivered, around.latency));
        }
    }
    let Some((at, delivered, latency)) = begin.filter(|(at, ..)| *at < now) else { return LoadOutcome::default() };
    let counted = around.seen.saturating_sub(warm).max(1);
    LoadOutcome {
        gbps: (around.delivered - delivered) as f64 * 8.0 / (now - at).as_seconds() / 1e9,
        latency_us: (around.latency - latency).as_micros() / counted as f64,
        took: now,
        lost: nics.iter().map(|nic| nic.tally().lost).sum(),
        ..LoadOutcome::default()
    }
}
