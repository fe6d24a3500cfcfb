//! One RNIC of a host at work: loopback out of an endpoint and into it, and what applications receive meanwhile. The
//! NIC is that of `kelpie-nic`; here are its driver and its neighbour.

use std::ops::Range;

use kelpie_events::{Events, Picos, Rate};
use kelpie_nic::config::Config;
use kelpie_nic::nic::{self, Nic, Outside};
use kelpie_nic::packet::{Burst, Headers, PacketKind, PacketPorts, Piece, WrOperation};
use kelpie_nic::qp::{Connection, Region, Segment, TransportService, Wqe};
use kelpie_nic::waits::{Cause, Side};
use kelpie_switch::Signal;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

/// Pages of registered memory. Units: bits of an address. Source: huge pages of Linux on x86-64.
pub(super) const PAGE_BITS: u32 = 21;
/// From the base of a region to that of the next. Units: bits of an address.
pub(super) const REGION_BITS: u32 = 40;
/// Path MTU. Units: bytes. Source: the largest of RoCE.
pub(super) const MTU: u64 = 4096;
/// What applications send in one burst. Units: bytes.
const SERVICE_BURST: u32 = 4096;
/// Keys of the regions: where loopback comes from, where it goes, where applications receive.
pub(super) const FROM: u32 = 0;
pub(super) const TO: u32 = 1;
const SERVICE: u32 = 2;
/// Most events of one run. Source: our choice; a run of the slowest link takes a tenth.
pub(super) const MOST_EVENTS: u64 = 2_000_000;

/// The loopback traffic of a run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// A message. Units: bytes.
    pub message: u64,
    /// Messages posted and not seen.
    pub depth: u64,
    /// Messages that are seen before counting begins, and that are counted then.
    pub messages: [u64; 2],
}

/// What an RNIC and its surroundings are.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The NIC, with its places and ways.
    pub config: Config,
    /// The place of the endpoint among them.
    pub endpoint: usize,
    /// From the CPU to the NIC.
    pub mmio: Picos,
    /// Ringing a doorbell, and filling a WQE.
    pub post: Picos,
    /// Until a completion in memory is seen.
    pub poll: Picos,
    /// Time of a pause frame to its neighbour and of what is on the cable then.
    pub cable: Picos,
    /// What applications receive. Units: Gbit/s; nothing if 0.
    pub service_gbps: f64,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOutcome {
    /// Loopback payload a second. Units: Gbit/s.
    pub gbps: f64,
    /// From the post of a message until its completion was seen, in the mean. Units: microseconds.
    pub latency_us: f64,
    /// How long it took in all.
    pub took: Picos,
    /// Payload that applications received. Units: Gbit/s.
    pub service_gbps: f64,
    /// Share of the time for which the NIC paused its neighbour.
    pub pause_ratio: f64,
    /// Packets that its buffer had no room for.
    pub lost: u64,
}

#[derive(Debug, Clone, Copy)]
enum HostEvent {
    Nic(nic::Event),
    /// The application sees that a message is complete.
    Seen,
    /// The neighbour sends a burst for an application.
    Service,
    /// A pause frame reaches the neighbour, or one that ends the pause.
    Neighbour(Signal),
}

/// All around the NIC.
struct NicEnvironment<'s> {
    scene: &'s Scene,
    load: Option<Load>,
    events: Events<HostEvent>,
    posted: u64,
    seen: u64,
    posted_at: Picos,
    latency: Picos,
    delivered: u64,
    received: u64,
    /// The neighbour's: whether it may send, and whether it would.
    is_silent: bool,
    has_more: bool,
    sequence: u64,
}

impl Outside for NicEnvironment<'_> {
    fn at(&mut self, time: Picos, event: nic::Event) {
        self.events.at(time, HostEvent::Nic(event));
    }

    fn wqe(&self, _: u32, index: u64) -> Wqe {
        let bytes = self.load.map_or(1, |load| load.message);
        Wqe {
            operation: WrOperation::Write,
            bytes,
            segments: 1,
            lines: 1,
            key: TO,
            address: place(TO, index, bytes),
            is_signaled: true,
        }
    }

    fn portions(&self, _: u32, index: u64, part: Range<u64>, mut each: impl FnMut(Segment)) {
        let bytes = self.load.map_or(1, |load| load.message);
        each(Segment { key: FROM, address: place(FROM, index, bytes) + part.start, bytes: part.end - part.start });
    }

    fn receive_portions(&self, _: u32, _: u64, _: Range<u64>, _: impl FnMut(Segment)) {}

    fn sent(&mut self, _: Picos, _: Burst) {}

    fn pause(&mut self, now: Picos, _: u8, signal: Signal) {
        self.events.at(now + self.scene.cable, HostEvent::Neighbour(signal));
    }

    fn completed(&mut self, time: Picos, _: u32, _: u64) {
        self.events.at(time + self.scene.poll, HostEvent::Seen);
    }

    fn received(&mut self, _: Picos, _: u32, _: u64) {}

    fn delivered(&mut self, burst: &Burst) {
        if burst.is_loopback {
            self.delivered += burst.payload;
        } else {
            self.received += burst.payload;
        }
    }

    fn waited(&mut self, _: Side, _: Cause, _: u32, _: Picos) {}
}

/// Where the messages of a region lie: one behind the other, in 16 MiB that are used again.
pub(super) fn place(key: u32, index: u64, bytes: u64) -> u64 {
    let room = (16 << 20) / bytes.next_multiple_of(64).max(64);
    (u64::from(key) << REGION_BITS) + index % room.max(1) * bytes.next_multiple_of(64)
}

impl NicEnvironment<'_> {
    fn post(&mut self, now: Picos) {
        self.posted += 1;
        self.posted_at = now;
        let rung = now + self.scene.post + self.scene.mmio;
        self.events.at(rung, HostEvent::Nic(nic::Event::Doorbell(0, self.posted as u32)));
    }

    /// The neighbour's next burst, if it may.
    fn service(&mut self, now: Picos, headers: &Headers) -> Option<Burst> {
        self.has_more = self.is_silent;
        if self.is_silent {
            return None;
        }
        let address = place(SERVICE, self.sequence, SERVICE_BURST.into());
        let mut burst = Burst::new(PacketKind::Write, 2, false, false, self.sequence);
        let piece = Piece {
            key: SERVICE,
            address,
            bytes: SERVICE_BURST,
            packets: 1,
            is_first: true,
            is_last: true,
            is_atomic: false,
        };
        burst.add(piece, headers);
        self.sequence += 1;
        self.events.at(now + Rate::gbps(self.scene.service_gbps).time(SERVICE_BURST.into()), HostEvent::Service);
        Some(burst)
    }
}

/// Runs loopback, or for `span` without it, beside what applications receive.
pub fn run(scene: &Scene, load: Option<Load>, span: Picos, seed: u64) -> LoadOutcome {
    let region = |key: u32, place: usize| Region { base: u64::from(key) << REGION_BITS, page_bits: PAGE_BITS, place };
    let home = scene.config.home;
    let regions = vec![region(FROM, scene.endpoint), region(TO, scene.endpoint), region(SERVICE, home)];
    let slots = load.map_or(1, |load| load.depth.next_power_of_two() as u32);
    let connection = |peer: u32, is_loopback: bool, transport: TransportService| Connection {
        transport,
        peer,
        is_loopback,
        mtu: MTU,
        max_reads: 1,
        send_stride: 1,
        receive_entry: 16,
        send_slots: slots,
        receive_slots: 1,
        ports: PacketPorts::default(),
    };
    let connections = [
        connection(1, true, TransportService::Reliable),
        connection(0, true, TransportService::Reliable),
        connection(0, false, TransportService::Unreliable),
    ];
    let mut nic = Nic::new(scene.config.clone(), regions, &connections, seed);
    let mut around = NicEnvironment {
        scene,
        load,
        events: Events::default(),
        posted: 0,
        seen: 0,
        posted_at: Picos::ZERO,
        latency: Picos::ZERO,
        delivered: 0,
        received: 0,
        is_silent: false,
        has_more: false,
        sequence: 0,
    };
    let mut random = Pcg32::seed_from_u64(seed);
    let mut phase = || Picos::new(random.random_range(0..1_000_000));
    if scene.service_gbps > 0.0 {
        around.events.at(phase(), HostEvent::Service);
    }
    let begin = phase();
    (0..load.map_or(0, |load| load.depth)).for_each(|_| around.post(begin));
    around.run(&mut nic, span)
}

/// What had happened when counting began.
struct Begin {
    at: Picos,
    delivered: u64,
    received: u64,
    paused: Picos,
    latency: Picos,
}

impl NicEnvironment<'_> {
    fn run(mut self, nic: &mut Nic, span: Picos) -> LoadOutcome {
        let headers = self.scene.config.headers;
        let [warm, counted] = self.load.map_or([0, u64::MAX], |load| load.messages);
        let end = if self.load.is_some() { Picos::MAX } else { span };
        let mut begin: Option<Begin> = None;
        let mut now = Picos::ZERO;
        for _ in 0..MOST_EVENTS {
            let Some((time, event)) = self.events.next_before(end) else {
                now = span;
                break;
            };
            now = time;
            match event {
                HostEvent::Nic(event) => nic.handle(now, event, &mut self),
                HostEvent::Seen => {
                    self.seen += 1;
                    self.latency += now - self.posted_at;
                    if self.seen == warm + counted {
                        break;
                    }
                    self.post(now);
                }
                HostEvent::Service => {
                    if let Some(burst) = self.service(now, &headers) {
                        nic.arrive(now, burst, &mut self);
                    }
                }
                HostEvent::Neighbour(signal) => {
                    self.is_silent = signal == Signal::Pause;
                    if !self.is_silent && self.has_more {
                        self.events.at(now, HostEvent::Service);
                    }
                }
            }
            if begin.is_none() && self.seen >= warm {
                let (delivered, received, paused) = (self.delivered, self.received, nic.pauses(now)[0].sent);
                begin = Some(Begin { at: now, delivered, received, paused, latency: self.latency });
            }
        }
        let Some(begin) = begin.filter(|begin| begin.at < now) else { return LoadOutcome::default() };
        let seconds = (now - begin.at).as_seconds();
        let gbps = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e9;
        let seen = self.seen.saturating_sub(warm).max(1);
        LoadOutcome {
            gbps: gbps(self.delivered - begin.delivered),
            latency_us: (self.latency - begin.latency).as_micros() / seen as f64,
            took: now,
            service_gbps: gbps(self.received - begin.received),
            pause_ratio: (nic.pauses(now)[0].sent - begin.paused).ratio_to(now - begin.at),
            lost: nic.tally().lost,
        }
    }
}
