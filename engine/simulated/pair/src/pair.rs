//! Two hosts with their NICs and applications, and the switch between them. What a NIC does is in `kelpie-nic`.

mod applications;
mod start;

use std::ops::Range;

use kelpie_events::{Events, Picos};
use kelpie_nic::command::Object;
use kelpie_nic::nic::{self, Nic, Outside};
use kelpie_nic::packet::{Burst, PacketKind};
use kelpie_nic::qp::{Segment, Wqe};
use kelpie_nic::waits::{Cause, Side};
use kelpie_spaces::Host;
use kelpie_switch::Signal;

use crate::config::MemoryReach;
use crate::control_thread::ControlThread;
use crate::counters::TrafficCounters;
use crate::model::{Model, Posting};
use crate::network::{Network, NetworkEvent};
use crate::pair_models::PairModels;
use crate::path_part::{Passed, PathPart};
use crate::rings::Rings;
use crate::waits::Waits;

pub use start::Queues;

/// What happens, and to whom.
#[derive(Debug, Clone, Copy)]
enum PairEvent {
    Nic(Host, nic::Event),
    /// The application of a requester rings the doorbell.
    Post(Host, u32),
    /// The application sees a completion of this work request.
    Seen(Host, u32, u32),
    /// The application sees that this receive was used.
    Used(Host, u32, u32),
    /// A host is to make and destroy an object beside its traffic.
    Due(Host, Object),
    /// Its thread sees that a command is carried out.
    Commanded(Host),
    /// A burst comes to the end of what the path of its flow adds, the first of it.
    Delayed(Host, u32),
    /// Something happens between the hosts.
    Network(NetworkEvent),
}

/// The application of a QP.
#[derive(Debug, Clone, Copy, Default)]
struct App {
    posted: u64,
    seen: u64,
    /// Batches that it is about to post, and when the next may be at the earliest.
    posts_left: u64,
    posts_from: Picos,
    /// Whether it has filled its queue before: to do so for the first time is no sign that it does not keep up.
    has_filled: bool,
    /// Receives.
    receives: u64,
    used: u64,
}

/// What the applications take.
#[derive(Debug, Clone, Copy)]
struct Costs {
    doorbell: Picos,
    wqe: Picos,
    poll: Picos,
    /// From a CPU to its NIC.
    mmio: Picos,
}

impl Costs {
    fn new(model: &Model) -> Self {
        let ns = Picos::from_nanos;
        let Posting { cores: _, signal_divisor: _, doorbell_ns, wqe_ns, poll_ns } = model.posting;
        Self { doorbell: ns(doorbell_ns), wqe: ns(wqe_ns), poll: ns(poll_ns), mmio: ns(model.pcie.link_latency_ns) }
    }

    /// A call that posts so many work requests.
    fn posting(self, batch: u64) -> Picos {
        self.doorbell + self.wqe * batch
    }
}

/// All that is outside of the NICs.
#[derive(Debug)]
pub struct PairEnvironment {
    pub rings: Rings,
    costs: [Costs; 2],
    /// How the NIC of each host reaches each memory.
    pub reaches: [Vec<MemoryReach>; 2],
    events: Events<PairEvent>,
    apps: [Vec<App>; 2],
    cores: [Vec<Picos>; 2],
    /// What makes and destroys QPs and MRs beside traffic, if something does.
    pub control: [Option<ControlThread>; 2],
    /// What lies between a host and the switch, for each flow, if a path loses packets or is longer than it has to be.
    path: Option<[PathPart; 2]>,
    pub network: Network,
    pub traffic: [[TrafficCounters; 2]; 2],
    /// Payload of each flow that has come to its responder, and to its requester. Units: bytes.
    pub delivered: Vec<[u64; 2]>,
    /// Time that applications of each host wait for their core while they have room again, as soon as it is known.
    core_wait: [Picos; 2],
    /// When those that wait for it, or have it, will have posted what there is room for.
    core_ends: [Vec<Picos>; 2],
    /// What work waits for, at each host.
    pub waits: [Waits; 2],
    /// Time for which the cores of each host have or had work.
    core_time: [Picos; 2],
}

/// Two hosts at work.
#[derive(Debug)]
pub struct SimulatedPair {
    pub nics: [Nic; 2],
    pub around: PairEnvironment,
    pub now: Picos,
}

/// One NIC's view of what is outside.
struct NicView<'a> {
    host: Host,
    around: &'a mut PairEnvironment,
}

impl Outside for NicView<'_> {
    fn at(&mut self, time: Picos, event: nic::Event) {
        self.around.events.at(time, PairEvent::Nic(self.host, event));
    }

    fn wqe(&self, qp: u32, index: u64) -> Wqe {
        let (flow, number, _) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.rings.flows[flow as usize].wqe(number, index)
    }

    fn portions(&self, qp: u32, index: u64, part: Range<u64>, each: impl FnMut(Segment)) {
        let (flow, number, _) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.rings.flows[flow as usize].portions(number, index, part, each);
    }

    fn receive_portions(&self, qp: u32, index: u64, part: Range<u64>, each: impl FnMut(Segment)) {
        let (flow, number, _) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.rings.flows[flow as usize].receive_portions(number, index, part, each);
    }

    fn sent(&mut self, now: Picos, burst: Burst) {
        if self.around.path.is_some() {
            self.around.on_path(now, self.host, burst);
        } else {
            self.around.enter(now, self.host, burst);
        }
    }

    fn pause(&mut self, now: Picos, port: u8, signal: Signal) {
        let PairEnvironment { network, events, .. } = &mut *self.around;
        network.pause(now, self.host, port, signal, &mut |time, step| events.at(time, PairEvent::Network(step)));
    }

    fn completed(&mut self, time: Picos, qp: u32, index: u64) {
        self.around
            .events
            .at(time + self.around.costs[self.host.index()].poll, PairEvent::Seen(self.host, qp, index as u32));
    }

    fn received(&mut self, time: Picos, qp: u32, index: u64) {
        self.around
            .events
            .at(time + self.around.costs[self.host.index()].poll, PairEvent::Used(self.host, qp, index as u32));
    }

    fn commanded(&mut self, time: Picos) {
        self.around.events.at(time + self.around.costs[self.host.index()].poll, PairEvent::Commanded(self.host));
    }

    fn delivered(&mut self, burst: &Burst) {
        let from = if burst.is_loopback { self.host } else { self.host.peer() };
        let traffic = &mut self.around.traffic[from.index()][self.host.index()];
        if burst.kind != PacketKind::ReadRequest {
            traffic.payload_bytes += burst.payload;
            traffic.messages += burst.pieces().iter().filter(|piece| piece.is_last).count() as u64;
            let (flow, _, is_requester) = self.around.rings.qps[self.host.index()][burst.to as usize];
            self.around.delivered[flow as usize][usize::from(is_requester)] += burst.payload;
        }
        traffic.packets += burst.packets;
        traffic.wire_bytes += burst.wire;
    }

    fn waited(&mut self, side: Side, cause: Cause, qp: u32, span: Picos) {
        let (flow, ..) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.waits[self.host.index()].add(flow, side, cause, span);
    }
}

impl SimulatedPair {
    /// Hosts that have been at work for long, with the queues of each flow as said; the rest is up to the seed.
    pub fn new<'m>(models: impl Into<PairModels<'m>>, rings: Rings, queues: &[Queues]) -> Self {
        let models = models.into();
        let seed = models.common().sampling.seed;
        let path = PathPart::both(&rings, seed);
        // Where nothing is lost on the way no timer runs out, so that nobody needs to watch one.
        let loses = rings.flows.iter().any(|flow| flow.loss_ppm > 0);
        let hosts = rings.hosts();
        let nics = Host::BOTH.map(|host| {
            let (regions, connections) = (&rings.regions[host.index()], &rings.connections[host.index()]);
            let mut config = models.of(host).nic();
            config.ack_timeout = config.ack_timeout.filter(|_| loses);
            Nic::new(config, regions.clone(), connections, seed ^ u64::from(host != hosts[0]))
        });
        let around = PairEnvironment {
            apps: Host::BOTH.map(|host| vec![App::default(); rings.qps[host.index()].len()]),
            cores: Host::BOTH.map(|host| vec![Picos::ZERO; models.of(host).posting.cores as usize]),
            control: Host::BOTH.map(|host| rings.control_thread(host)),
            path,
            network: Network::new(models.cables()),
            traffic: Default::default(),
            delivered: vec![[0; 2]; rings.flows.len()],
            core_wait: Default::default(),
            core_ends: Default::default(),
            waits: Default::default(),
            core_time: Default::default(),
            events: Events::default(),
            costs: Host::BOTH.map(|host| Costs::new(models.of(host))),
            reaches: Host::BOTH.map(|host| models.of(host).reaches()),
            rings,
        };
        let mut pair = Self { nics, around, now: Picos::ZERO };
        pair.begin(models, queues);
        for (place, host) in hosts.into_iter().enumerate() {
            let periods = [Object::Qp, Object::Region].map(|object| {
                (object, pair.around.control[host.index()].as_ref().and_then(|thread| thread.period(object)))
            });
            for (object, period) in periods {
                // Nothing keeps the threads of two hosts in step: the second begins half a period later.
                let first = period.map(|period| if place == 0 { Picos::ZERO } else { period / 2 });
                if let Some(first) = first {
                    pair.around.events.at(first, PairEvent::Due(host, object));
                }
            }
        }
        pair
    }

    /// Runs until `end`, or until no events are left.
    pub fn run_until(&mut self, end: Picos, events_left: &mut u64) {
        while *events_left > 0 {
            let Some((time, event)) = self.around.events.next_before(end) else {
                self.now = end;
                return;
            };
            *events_left -= 1;
            self.now = time;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: PairEvent) {
        let (now, around) = (self.now, &mut self.around);
        match event {
            PairEvent::Nic(host, event) => {
                self.nics[host.index()].handle(now, event, &mut NicView { host, around });
            }
            PairEvent::Post(host, qp) => around.post(now, host, qp),
            PairEvent::Seen(host, qp, index) => {
                around.apps[host.index()][qp as usize].seen = u64::from(index) + 1;
                around.post_when_room(now, host, qp);
            }
            PairEvent::Used(host, qp, index) => around.used(now, host, qp, index.into()),
            PairEvent::Due(host, object) => around.is_due(now, host, object),
            PairEvent::Commanded(host) => {
                let command = around.control[host.index()].as_mut().and_then(ControlThread::is_done);
                around.command(now, host, command);
            }
            PairEvent::Delayed(host, flow) => {
                let burst = around.path.as_mut().and_then(|path| path[host.index()].is_through(flow));
                if let Some(burst) = burst {
                    around.enter(now, host, burst);
                }
            }
            PairEvent::Network(step) => self.between(step),
        }
    }

    fn arrive(&mut self, host: Host, burst: Burst) {
        let around = &mut self.around;
        if matches!(burst.kind, PacketKind::Ack | PacketKind::Nak | PacketKind::NotReady) {
            let traffic = &mut around.traffic[host.peer().index()][host.index()];
            traffic.packets += burst.packets;
            traffic.wire_bytes += burst.wire;
        }
        self.nics[host.index()].arrive(self.now, burst, &mut NicView { host, around });
    }

    /// Something happens between the hosts.
    fn between(&mut self, step: NetworkEvent) {
        let now = self.now;
        let PairEnvironment { network, events, .. } = &mut self.around;
        let at = &mut |time, step| events.at(time, PairEvent::Network(step));
        match step {
            NetworkEvent::Enter(place) => network.entered(now, place, at),
            NetworkEvent::Leave(place) => network.leave(now, place, at),
            NetworkEvent::Hold(place, signal) => network.hold(now, place, signal, at),
            NetworkEvent::Arrive(host, port) => {
                if let Some(burst) = network.arrived(host, port) {
                    self.arrive(host, burst);
                }
            }
            NetworkEvent::Pause(host, port, signal) => {
                let around = &mut self.around;
                self.nics[host.index()].paused(now, port, signal, &mut NicView { host, around });
            }
        }
    }
}

impl PairEnvironment {
    /// A burst leaves a host, whose path may lose it or take its time.
    fn on_path(&mut self, now: Picos, host: Host, burst: Burst) {
        let (flow, ..) = self.rings.qps[host.peer().index()][burst.to as usize];
        let Some(path) = &mut self.path else { return };
        match path[host.index()].pass(now, flow, burst) {
            Passed::Lost => {}
            Passed::Late(time) => self.events.at(time, PairEvent::Delayed(host, flow)),
            Passed::Through(burst) => self.enter(now, host, burst),
        }
    }

    /// A burst comes to the first switch.
    fn enter(&mut self, now: Picos, host: Host, burst: Burst) {
        let Self { network, events, .. } = self;
        network.sent(now, host, burst, &mut |time, step| events.at(time, PairEvent::Network(step)));
    }
}
