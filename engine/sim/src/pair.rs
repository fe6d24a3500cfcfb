//! Two hosts with their NICs and applications, and the switch between them. What a NIC does is in `kelpie-nic`.

use std::collections::VecDeque;

use kelpie_events::{Events, Picos, Server};
use kelpie_nic::nic::{self, Nic, Outside};
use kelpie_nic::packet::{Burst, Kind};
use kelpie_nic::qp::{Segment, Wqe};
use kelpie_nic::waits::{Cause, Side};
use kelpie_spaces::Host;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use crate::config::Reach;
use crate::counters::{Spell, Traffic};
use crate::model::Model;
use crate::rings::Rings;
use crate::waits::Waits;

/// Applications start within this time of each other. Source: our choice, some round trips.
const START: Picos = Picos::new(10_000_000);

/// What happens, and to whom.
#[derive(Debug, Clone, Copy)]
enum Event {
    Nic(Host, nic::Event),
    /// The application of a requester rings the doorbell.
    Post(Host, u32),
    /// The application sees a completion of this work request.
    Seen(Host, u32, u64),
    /// The application sees that this receive was used.
    Used(Host, u32, u64),
    /// A burst from this host reaches the switch.
    AtSwitch(Host),
    /// The switch port towards this host may take the next burst.
    SwitchPort(Host),
    /// A burst reaches this host.
    Arrive(Host),
    /// A pause frame of this host reaches the switch, or one that ends the pause.
    SwitchPause(Host, bool),
    /// The same of the switch, at this host.
    HostPause(Host, bool),
}

/// The application of a QP.
#[derive(Debug, Clone, Copy, Default)]
struct App {
    posted: u64,
    seen: u64,
    /// Batches that it is about to post, and when the next may be at the earliest.
    posts_left: u64,
    posts_from: Picos,
    /// Receives.
    receives: u64,
    used: u64,
}

/// The switch port towards a host.
#[derive(Debug, Default)]
struct Port {
    queue: VecDeque<Burst>,
    queued: u64,
    is_paused: bool,
    wire: Server,
    is_scheduled: bool,
    holds_sender: bool,
}

/// What the applications and the switch take.
#[derive(Debug, Clone, Copy)]
struct Costs {
    doorbell: Picos,
    wqe: Picos,
    poll: Picos,
    /// From a CPU to its NIC.
    mmio: Picos,
    link: Picos,
    switch_xoff: u64,
    switch_xon: u64,
}

impl Costs {
    fn new(model: &Model) -> Self {
        let ns = Picos::from_nanos;
        Self {
            doorbell: ns(model.posting.doorbell_ns),
            wqe: ns(model.posting.wqe_ns),
            poll: ns(model.posting.poll_ns),
            mmio: ns(model.pcie.link_latency_ns),
            link: ns(model.port.link_delay_ns),
            switch_xoff: (model.switch.xoff_kib * 1024.0) as u64,
            switch_xon: (model.switch.xon_kib * 1024.0) as u64,
        }
    }
}

/// All that is outside of the NICs.
#[derive(Debug)]
pub struct Around {
    pub rings: Rings,
    costs: Costs,
    /// How the NICs reach each memory.
    pub reaches: Vec<Reach>,
    events: Events<Event>,
    apps: [Vec<App>; 2],
    cores: [Vec<Picos>; 2],
    ports: [Port; 2],
    wire: kelpie_events::Rate,
    to_switch: [VecDeque<Burst>; 2],
    from_switch: [VecDeque<Burst>; 2],
    pub traffic: [[Traffic; 2]; 2],
    /// A NIC holds its switch port; the switch holds a NIC.
    pub holding: [Spell; 2],
    pub held: [Spell; 2],
    /// Time that applications of each host wait for their core while they have room to post.
    pub core_wait: [Picos; 2],
    /// What work waits for, at each host.
    pub waits: [Waits; 2],
}

/// Two hosts at work.
#[derive(Debug)]
pub struct Pair {
    pub nics: [Nic; 2],
    pub around: Around,
    pub now: Picos,
}

/// One NIC's view of what is outside.
struct View<'a> {
    host: Host,
    around: &'a mut Around,
}

impl Outside for View<'_> {
    fn at(&mut self, time: Picos, event: nic::Event) {
        self.around.events.at(time, Event::Nic(self.host, event));
    }

    fn wqe(&self, qp: u32, index: u64) -> Wqe {
        let (flow, number, _) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.rings.flows[flow as usize].wqe(number, index)
    }

    fn segment(&self, qp: u32, index: u64, segment: u32) -> Segment {
        let (flow, number, _) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.rings.flows[flow as usize].segment(number, index, segment)
    }

    fn receive_segment(&self, qp: u32, index: u64, segment: u32) -> Option<Segment> {
        let (flow, number, _) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.rings.flows[flow as usize].receive_segment(number, index, segment)
    }

    fn sent(&mut self, now: Picos, burst: Burst) {
        self.around.to_switch[self.host.index()].push_back(burst);
        self.around.events.at(now + self.around.costs.link, Event::AtSwitch(self.host));
    }

    fn pause(&mut self, now: Picos, is_on: bool) {
        let holding = &mut self.around.holding[self.host.index()];
        if is_on {
            holding.on(now);
        } else {
            holding.off(now);
        }
        self.around.events.at(now + self.around.costs.link, Event::SwitchPause(self.host, is_on));
    }

    fn completed(&mut self, time: Picos, qp: u32, index: u64) {
        self.around.events.at(time + self.around.costs.poll, Event::Seen(self.host, qp, index));
    }

    fn received(&mut self, time: Picos, qp: u32, index: u64) {
        self.around.events.at(time + self.around.costs.poll, Event::Used(self.host, qp, index));
    }

    fn delivered(&mut self, burst: &Burst) {
        let from = if burst.is_loopback { self.host } else { self.host.peer() };
        let traffic = &mut self.around.traffic[from.index()][self.host.index()];
        if burst.kind != Kind::ReadRequest {
            traffic.payload_bytes += burst.payload;
            traffic.messages += burst.pieces().iter().filter(|piece| piece.is_last).count() as u64;
        }
        traffic.packets += burst.packets;
        traffic.wire_bytes += burst.wire;
    }

    fn waited(&mut self, side: Side, cause: Cause, qp: u32, span: Picos) {
        let (flow, ..) = self.around.rings.qps[self.host.index()][qp as usize];
        self.around.waits[self.host.index()].add(flow, side, cause, span);
    }
}

impl Around {
    /// Lets an application post all batches for which there is room, one after the other.
    fn post_when_room(&mut self, now: Picos, host: Host, qp: u32) {
        let (flow, ..) = self.rings.qps[host.index()][qp as usize];
        let flow = &self.rings.flows[flow as usize];
        let app = &mut self.apps[host.index()][qp as usize];
        let batches = (flow.depth - (app.posted - app.seen)) / flow.batch;
        if app.posts_left > 0 || batches == 0 {
            return;
        }
        app.posts_left = batches;
        let span = self.costs.doorbell + self.costs.wqe * flow.batch;
        let from = app.posts_from;
        let begin = self.on_core(now, host, qp, span * batches);
        self.core_wait[host.index()] += begin + span * batches - now;
        self.events.at((begin + span).max(from), Event::Post(host, qp));
    }

    /// Takes the core of a QP for a while; says when that begins.
    fn on_core(&mut self, now: Picos, host: Host, qp: u32, span: Picos) -> Picos {
        let cores = &mut self.cores[host.index()];
        let count = cores.len();
        let core = &mut cores[qp as usize % count];
        let begin = (*core).max(now);
        *core = begin + span;
        begin
    }

    fn post(&mut self, now: Picos, host: Host, qp: u32) {
        let (flow, ..) = self.rings.qps[host.index()][qp as usize];
        let flow = &self.rings.flows[flow as usize];
        let interarrival = Picos::from_nanos(flow.interarrival_ns.into());
        let span = self.costs.doorbell + self.costs.wqe * flow.batch;
        let app = &mut self.apps[host.index()][qp as usize];
        app.posted += flow.batch;
        app.posts_from = now + interarrival;
        app.posts_left -= 1;
        let posted = app.posted;
        if app.posts_left > 0 {
            self.events.at(now + span.max(interarrival), Event::Post(host, qp));
        }
        self.events.at(now + self.costs.mmio, Event::Nic(host, nic::Event::Doorbell(qp, posted)));
        self.post_when_room(now, host, qp);
    }

    fn used(&mut self, now: Picos, host: Host, qp: u32, index: u64) {
        let (flow, ..) = self.rings.qps[host.index()][qp as usize];
        let flow = &self.rings.flows[flow as usize];
        let (depth, batch) = (flow.receive_depth, flow.receive_batch);
        let app = &mut self.apps[host.index()][qp as usize];
        app.used = index + 1;
        let posted = depth + app.used / batch * batch;
        if posted > app.receives {
            let batches = posted - app.receives;
            app.receives = posted;
            let span = self.costs.wqe * batches;
            let done = self.on_core(now, host, qp, span) + span;
            self.events.at(done + self.costs.mmio, Event::Nic(host, nic::Event::Receives(qp, posted)));
        }
    }

    fn at_switch(&mut self, now: Picos, from: Host) {
        let to = from.peer();
        let Some(burst) = self.to_switch[from.index()].pop_front() else { return };
        let port = &mut self.ports[to.index()];
        port.queued += burst.wire;
        port.queue.push_back(burst);
        if port.queued > self.costs.switch_xoff && !port.holds_sender {
            port.holds_sender = true;
            self.events.at(now + self.costs.link, Event::HostPause(from, true));
        }
        self.kick_port(now, to);
    }

    fn kick_port(&mut self, now: Picos, to: Host) {
        let port = &mut self.ports[to.index()];
        if port.is_scheduled || port.is_paused || port.queue.is_empty() {
            return;
        }
        if port.wire.free() <= now {
            self.switch_port(now, to);
        } else {
            port.is_scheduled = true;
            self.events.at(port.wire.free(), Event::SwitchPort(to));
        }
    }

    /// The switch port towards a host sends a burst, cut-through.
    fn switch_port(&mut self, now: Picos, to: Host) {
        let port = &mut self.ports[to.index()];
        if port.is_paused {
            return;
        }
        let Some(burst) = port.queue.pop_front() else { return };
        port.queued -= burst.wire;
        port.wire.serve(now, self.wire.time(burst.wire));
        if port.holds_sender && port.queued < self.costs.switch_xon {
            port.holds_sender = false;
            self.events.at(now + self.costs.link, Event::HostPause(to.peer(), false));
        }
        self.from_switch[to.index()].push_back(burst);
        self.events.at(now + self.costs.link, Event::Arrive(to));
        self.kick_port(now, to);
    }
}

impl Pair {
    /// Hosts at rest, whose applications are about to post, each at a moment that the seed decides.
    pub fn new(model: &Model, rings: Rings) -> Self {
        let seed = model.sampling.seed;
        let mut random = Pcg32::seed_from_u64(seed);
        let config = model.nic();
        let nics = Host::BOTH.map(|host| {
            let (regions, connections) = (&rings.regions[host.index()], &rings.connections[host.index()]);
            Nic::new(config.clone(), regions.clone(), connections, seed ^ host.index() as u64)
        });
        let mut around = Around {
            apps: Host::BOTH.map(|host| vec![App::default(); rings.qps[host.index()].len()]),
            cores: Host::BOTH.map(|_| vec![Picos::ZERO; model.posting.cores as usize]),
            ports: Default::default(),
            wire: config.wire,
            to_switch: Default::default(),
            from_switch: Default::default(),
            traffic: Default::default(),
            holding: Default::default(),
            held: Default::default(),
            core_wait: Default::default(),
            waits: Default::default(),
            events: Events::default(),
            costs: Costs::new(model),
            reaches: model.reaches(),
            rings,
        };
        for host in Host::BOTH {
            for qp in 0..around.rings.qps[host.index()].len() as u32 {
                let (flow, _, is_requester) = around.rings.qps[host.index()][qp as usize];
                let flow = &around.rings.flows[flow as usize];
                if is_requester {
                    let phase = Picos::new(random.random_range(0..START.count()));
                    around.events.at(phase, Event::Seen(host, qp, u64::MAX));
                } else if flow.sends {
                    let depth = flow.receive_depth;
                    around.apps[host.index()][qp as usize].receives = depth;
                    around.events.at(Picos::ZERO, Event::Nic(host, nic::Event::Receives(qp, depth)));
                }
            }
        }
        let mut pair = Self { nics, around, now: Picos::ZERO };
        pair.warm(&mut random);
        pair
    }

    /// Fills the caches as an application leaves them that has run for long: with any of what it uses.
    fn warm(&mut self, random: &mut Pcg32) {
        for (host, nic) in self.nics.iter_mut().enumerate() {
            let qps = &self.around.rings.qps[host];
            let mut order: Vec<u32> = (0..qps.len() as u32).collect();
            order.shuffle(random);
            for qp in order {
                nic.has_used(qp, qps[qp as usize].2);
            }
            let lines = &self.around.rings.lines[host];
            let (Some(last), room) = (lines.len().checked_sub(1), nic.translation_lines()) else { continue };
            let all: usize = lines.iter().map(|lines| *lines as usize).sum();
            if all <= 4 * room {
                let of_region = |region: u32| (0..lines[region as usize]).map(move |line| (region, line));
                let mut each: Vec<(u32, u32)> = (0..=last as u32).flat_map(of_region).collect();
                each.shuffle(random);
                for (region, line) in each {
                    nic.has_translated(region, line);
                }
            } else {
                for _ in 0..4 * room {
                    let region = random.random_range(0..=last as u32);
                    nic.has_translated(region, random.random_range(0..lines[region as usize]));
                }
            }
        }
    }

    /// Whether the applications have caught up with the first filling of their queues.
    pub fn is_posted(&self) -> bool {
        self.around.cores.iter().flatten().all(|free| *free <= self.now)
    }

    /// Runs until `end`, or for `max_events`.
    pub fn run_until(&mut self, end: Picos, max_events: u64) {
        for _ in 0..max_events {
            let Some((time, event)) = self.around.events.next_before(end) else {
                self.now = end;
                return;
            };
            self.now = time;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        let (now, around) = (self.now, &mut self.around);
        match event {
            Event::Nic(host, event) => {
                self.nics[host.index()].handle(now, event, &mut View { host, around });
            }
            Event::Post(host, qp) => around.post(now, host, qp),
            Event::Seen(host, qp, index) => {
                // The first time there is nothing to see.
                around.apps[host.index()][qp as usize].seen = index.wrapping_add(1);
                around.post_when_room(now, host, qp);
            }
            Event::Used(host, qp, index) => around.used(now, host, qp, index),
            Event::AtSwitch(host) => around.at_switch(now, host),
            Event::SwitchPort(host) => {
                around.ports[host.index()].is_scheduled = false;
                around.switch_port(now, host);
            }
            Event::Arrive(host) => {
                let Some(burst) = around.from_switch[host.index()].pop_front() else { return };
                if matches!(burst.kind, Kind::Ack | Kind::Nak | Kind::NotReady) {
                    let traffic = &mut around.traffic[host.peer().index()][host.index()];
                    traffic.packets += burst.packets;
                    traffic.wire_bytes += burst.wire;
                }
                self.nics[host.index()].arrive(now, burst, &mut View { host, around });
            }
            Event::SwitchPause(host, is_on) => {
                around.ports[host.index()].is_paused = is_on;
                around.kick_port(now, host);
            }
            Event::HostPause(host, is_on) => {
                let held = &mut around.held[host.index()];
                if is_on {
                    held.on(now);
                } else {
                    held.off(now);
                }
                self.nics[host.index()].paused(now, is_on, &mut View { host, around });
            }
        }
    }
}
