//! A run: what is simulated is laid out, cut into parts, simulated, and put together again.

use kelpie_switch::{BufferForm, SharedBuffer, Threshold};

use crate::congestion::{Algorithm, CongestionControl, Line, NEVER};
use crate::congestion::{MOST_HOPS, NoControl};
use crate::error::RunError;
use crate::layout::{Layout, NONE};
use crate::network::{Network, NodeKind, QpForm, Traffic, Trigger};
use crate::nic::{Message, Nic, Sender, Turns};
use crate::outcome::{Outcome, outcome};
use crate::packet::MOST_CLASSES;
use crate::port::{HOST, Port, REMOTE, SWITCH};
use crate::routes::{Routes, largest};
use crate::series::{Sampler, Watch};
use crate::settings::{Recovery, Settings, WindowRule};
use crate::shard::{Followers, POST, Plan, Shard};
use crate::threads::run_all;

/// Something that happens to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEvent {
    /// When. Units: ns.
    pub at_ns: u64,
    /// Its number.
    pub link: u32,
    /// Whether it works from then on.
    pub works: bool,
    /// How long it takes until ways are chosen anew. Units: ns.
    pub detected_after_ns: u64,
}

/// Simulates traffic on a network, on so many threads; the outcome does not depend on how many.
///
/// # Errors
/// If a link, a QP or a message cannot be, or if buffers are too small for their headroom.
pub fn run(
    network: &Network,
    settings: &Settings,
    traffic: &Traffic,
    events: &[LinkEvent],
    threads: usize,
) -> Result<Outcome, RunError> {
    run_watched(network, settings, traffic, events, threads, &Watch::default())
}

/// Simulates the same, and samples some of it.
///
/// # Errors
/// As [`run`], and if what is to be sampled is not there.
pub fn run_watched(
    network: &Network,
    settings: &Settings,
    traffic: &Traffic,
    events: &[LinkEvent],
    threads: usize,
    watch: &Watch,
) -> Result<Outcome, RunError> {
    let run = Run { network, settings, traffic, events, threads: threads.clamp(1, 64), watch };
    match &settings.algorithm {
        Algorithm::None => run.simulate::<_, 0>(&NoControl),
        Algorithm::Dcqcn(form) => run.simulate::<_, 0>(form),
        Algorithm::Timely(form) => run.simulate::<_, 0>(form),
        Algorithm::Dctcp(form) => run.simulate::<_, 0>(form),
        Algorithm::Pint(form) => run.simulate::<_, 0>(form),
        Algorithm::Swift(form) => run.simulate::<_, 0>(form),
        Algorithm::Hpcc(form) => run.simulate::<_, MOST_HOPS>(form),
    }
}

struct Run<'a> {
    network: &'a Network,
    settings: &'a Settings,
    traffic: &'a Traffic,
    events: &'a [LinkEvent],
    threads: usize,
    watch: &'a Watch,
}

impl Run<'_> {
    fn simulate<C: CongestionControl + Clone, const HOPS: usize>(&self, control: &C) -> Result<Outcome, RunError> {
        self.check()?;
        let layout = Layout::new(self.network, self.settings)?;
        let mut plan = self.plan(&layout)?;
        let mut shards = Vec::new();
        for part in 0..self.threads {
            shards.push(self.shard::<C, HOPS>(part as u8, control.clone(), &plan)?);
        }
        let mut sampler = Sampler::new(self.watch, self.traffic, &plan)?;
        let ahead = self.lookahead(&plan);
        for (time, change) in self.changes() {
            self.advance(&mut shards, &plan, time, ahead, sampler.as_mut());
            match change {
                Change::Link(link, works) => {
                    plan.works[link as usize] = works;
                    plan.all_work = plan.works.iter().all(|works| *works);
                    for shard in &mut shards {
                        shard.link_changed(&plan, time, link);
                    }
                }
                Change::Routes => {
                    let before = plan.qp_ways.clone();
                    self.choose_ways(&mut plan);
                    for shard in &mut shards {
                        shard.ways_changed(&plan, time, &before);
                    }
                }
            }
        }
        self.advance(&mut shards, &plan, self.settings.end_ns, ahead, sampler.as_mut());
        Ok(outcome(self.traffic, &plan, &shards, sampler.map(|sampler| sampler.series)))
    }

    /// Simulates until a time, with samples on the way as long as something goes on.
    fn advance<C: CongestionControl, const HOPS: usize>(
        &self,
        shards: &mut [Shard<C, HOPS>],
        plan: &Plan<'_>,
        end: u64,
        ahead: u64,
        sampler: Option<&mut Sampler>,
    ) {
        if let Some(sampler) = sampler {
            let is_over = |shards: &[Shard<C, HOPS>]| {
                let done: usize = shards.iter().map(|shard| shard.done).sum();
                done == self.traffic.messages.len() || shards.iter().all(|shard| shard.wheel.earliest().is_none())
            };
            while sampler.next < end && !is_over(shards) {
                run_all(shards, plan, sampler.next, ahead);
                sampler.sample(self.traffic, plan, shards);
            }
        }
        run_all(shards, plan, end, ahead);
    }

    fn check(&self) -> Result<(), RunError> {
        if let Some((name, rule)) = self.settings.wrong() {
            return Err(RunError::Setting { name, rule });
        }
        if let Some(event) = self.events.iter().position(|event| event.link as usize >= self.network.links.len()) {
            return Err(RunError::Event { event });
        }
        let hosts = |node: u32| self.network.nodes.get(node as usize).is_some_and(|kind| *kind != NodeKind::Switch);
        for (number, qp) in self.traffic.qps.iter().enumerate() {
            if !hosts(qp.from) || !hosts(qp.to) {
                return Err(RunError::Qp { qp: number });
            }
        }
        for (number, message) in self.traffic.messages.iter().enumerate() {
            let qp = self.traffic.qps.get(message.qp as usize);
            let longest = u64::from(self.settings.payload) << 31;
            if qp.is_none() || message.bytes > longest {
                return Err(RunError::Message { message: number });
            }
        }
        let from = |message: u32| self.traffic.qps[self.traffic.messages[message as usize].qp as usize].from;
        let to = |message: u32| self.traffic.qps[self.traffic.messages[message as usize].qp as usize].to;
        let messages = self.traffic.messages.len() as u32;
        for (cause, trigger, effect) in &self.traffic.waits {
            let known = *cause < messages && *effect < messages;
            if !known || from(*effect) != if *trigger == Trigger::Received { to(*cause) } else { from(*cause) } {
                return Err(RunError::Message { message: *effect as usize });
            }
        }
        Ok(())
    }

    fn classes(&self) -> Result<Vec<u8>, RunError> {
        let mut classes: Vec<u8> = self.traffic.qps.iter().map(|qp| qp.class).collect();
        classes.sort_unstable();
        classes.dedup();
        if classes.len() > MOST_CLASSES { Err(RunError::Classes) } else { Ok(classes) }
    }

    fn plan<'l>(&'l self, layout: &'l Layout) -> Result<Plan<'l>, RunError> {
        let of = |wanted: Trigger| {
            let waits = self.traffic.waits.iter();
            waits.filter(move |wait| wait.1 == wanted).map(|(cause, _, effect)| (*cause, *effect))
        };
        let messages = self.traffic.messages.len();
        let mut plan = Plan {
            layout,
            settings: self.settings,
            ways: Vec::new(),
            qp_ways: vec![[NONE; 2]; self.traffic.qps.len()],
            lines: Vec::new(),
            longest_rtt: 0.0,
            after_received: Followers::new(messages, of(Trigger::Received)),
            after_sent: Followers::new(messages, of(Trigger::Sent)),
            delays: self.traffic.messages.iter().map(|message| message.start_ns).collect(),
            parts: self.parts(layout),
            works: vec![true; self.network.links.len()],
            all_work: true,
            classes: self.classes()?.len().max(1),
        };
        self.choose_ways(&mut plan);
        let is_lost = |(qp, ways): (&QpForm, &[u32; 2])| ways[0] == NONE && qp.from != qp.to;
        if let Some(qp) = self.traffic.qps.iter().zip(&plan.qp_ways).position(is_lost) {
            return Err(RunError::NoWay { qp });
        }
        plan.lines = self.lines(&plan);
        plan.longest_rtt = plan.lines.iter().map(|line| line.rtt_ns).fold(1.0, f64::max);
        if self.settings.late_notice {
            self.notice_late(&mut plan);
        }
        Ok(plan)
    }

    /// A message that waits for another one to arrive waits for the acknowledgement's way too.
    fn notice_late(&self, plan: &mut Plan<'_>) {
        let back = |message: u32| {
            let ports = plan.ports_of_way(plan.qp_ways[self.traffic.messages[message as usize].qp as usize][1]);
            let nanos = |port: &u32| {
                let class = plan.layout.class(*port);
                u64::from(class.delay) + u64::from(self.settings.ack_bytes) * class.femtos_per_byte / 1_000_000
            };
            ports.iter().map(nanos).sum::<u64>()
        };
        let mut late = vec![0; self.traffic.messages.len()];
        for (cause, _, effect) in self.traffic.waits.iter().filter(|wait| wait.1 == Trigger::Received) {
            late[*effect as usize] = back(*cause).max(late[*effect as usize]);
        }
        plan.delays.iter_mut().zip(late).for_each(|(delay, late)| *delay += late);
    }

    /// Chooses the ways of all QPs by what works. Packets that are on their way keep theirs.
    fn choose_ways(&self, plan: &mut Plan<'_>) {
        let mut routes = Routes::new(plan.layout, &plan.works, self.settings.hash);
        for (qp, ways) in self.traffic.qps.iter().zip(&mut plan.qp_ways) {
            *ways = [NONE; 2];
            let Some(found) = (qp.from != qp.to).then(|| routes.of_qp(qp)).flatten() else { continue };
            for (way, found) in ways.iter_mut().zip(&found) {
                *way = plan.ways.len() as u32;
                plan.ways.extend(found);
                plan.ways.push(NONE);
            }
        }
    }

    fn lines(&self, plan: &Plan<'_>) -> Vec<Line> {
        let payload = u64::from(self.settings.payload);
        let is_selective = matches!(self.settings.recovery, Recovery::Selective { .. });
        let has_windows = self.settings.window != WindowRule::None || is_selective;
        // What a crossbar reduces has no window: memory has credits of its own.
        let reduces = |node: u32| plan.layout.nodes[node as usize] == NodeKind::Crossbar;
        let mut lines: Vec<Line> = (self.traffic.qps.iter().zip(&plan.qp_ways))
            .map(|(qp, ways)| {
                let ports = plan.ports_of_way(ways[0]);
                let Some(first) = ports.first() else { return NOWHERE };
                let first = plan.layout.class(*first).bps;
                let (mut slowest, mut rtt) = (f64::INFINITY, 0.0);
                for port in ports {
                    let class = plan.layout.class(*port);
                    slowest = slowest.min(class.bps);
                    rtt += f64::from(class.delay) * 2.0 + (payload as f64 * 8e9 / class.bps).floor();
                }
                let is_bound = has_windows && !reduces(qp.from) && !reduces(qp.to);
                let window = if is_bound { (rtt * slowest / 8e9).floor() } else { 0.0 };
                let packet = (payload + u64::from(self.settings.overhead)) as f64;
                Line { bps: first, rtt_ns: rtt, window, hops: ports.len() as u32, packet }
            })
            .collect();
        let of_all = self.settings.largest_rtt || self.settings.window == WindowRule::LargestBdp;
        let [rtt, window] = if of_all { largest(plan.layout, payload) } else { [0.0; 2] };
        for line in &mut lines {
            if self.settings.largest_rtt {
                line.rtt_ns = rtt;
            }
            if self.settings.window == WindowRule::LargestBdp && line.window > 0.0 {
                line.window = window;
            }
        }
        lines
    }

    /// Which part each node belongs to: hosts of a crossbar stay together, and switches stay with their hosts.
    fn parts(&self, layout: &Layout) -> Vec<u8> {
        let nodes = &self.network.nodes;
        let crossbar = |node: u32| {
            layout.ports_of(node).map(|port| layout.neighbour(port)).find(|n| nodes[*n as usize] == NodeKind::Crossbar)
        };
        let hosts = nodes.iter().filter(|kind| **kind == NodeKind::Host).count().max(1);
        let (mut parts, mut seen, mut others) = (vec![u8::MAX; nodes.len()], 0, 0);
        for node in 0..nodes.len() as u32 {
            if nodes[node as usize] != NodeKind::Host {
                continue;
            }
            let part = (seen * self.threads / hosts) as u8;
            seen += 1;
            let part = match crossbar(node) {
                Some(crossbar) if parts[crossbar as usize] != u8::MAX => parts[crossbar as usize],
                Some(crossbar) => {
                    parts[crossbar as usize] = part;
                    part
                }
                None => part,
            };
            parts[node as usize] = part;
        }
        for node in 0..nodes.len() as u32 {
            if parts[node as usize] == u8::MAX {
                let host = layout.ports_of(node).map(|port| layout.neighbour(port)).find(|n| !layout.forwards(*n));
                parts[node as usize] = host.map_or_else(
                    || {
                        others += 1;
                        (others % self.threads) as u8
                    },
                    |host| parts[host as usize],
                );
            }
        }
        parts
    }

    /// How far a part may be ahead of the others: no packet arrives from another one sooner. Units: ns.
    fn lookahead(&self, plan: &Plan<'_>) -> u64 {
        let crossing = self.network.links.iter().filter(|link| {
            let [a, b] = link.ends.map(|end| plan.parts[end as usize]);
            a != b
        });
        crossing.map(|link| u64::from(link.delay_ns).max(1)).min().unwrap_or(NEVER)
    }

    fn shard<C: CongestionControl, const HOPS: usize>(
        &self,
        part: u8,
        control: C,
        plan: &Plan<'_>,
    ) -> Result<Shard<C, HOPS>, RunError> {
        let layout = plan.layout;
        let classes = self.classes()?;
        let (mut ports, mut nics, mut buffers) = (Vec::with_capacity(layout.ports.len()), Vec::new(), Vec::new());
        for (node, kind) in (0..).zip(&layout.nodes) {
            let here = plan.parts[node as usize] == part;
            for port in layout.ports_of(node) {
                let place = layout.ports[port as usize];
                let (owner, flags) = match kind {
                    NodeKind::Switch => (buffers.len() as u32, SWITCH),
                    NodeKind::Host | NodeKind::Crossbar => {
                        nics.push(Nic { ready: vec![Turns::default(); plan.classes], ..Nic::default() });
                        (nics.len() as u32 - 1, HOST)
                    }
                };
                let is_remote = plan.parts[layout.neighbour(port) as usize] != part;
                let flags = if is_remote { flags | REMOTE } else { flags };
                let ingress = layout.place_in_node(port) as usize * plan.classes;
                let ingress = u16::try_from(ingress).map_err(|_| RunError::Link { link: place.link as usize })?;
                ports.push(Port::new(place.peer, owner, place.class, ingress, flags));
            }
            if *kind == NodeKind::Switch && here {
                buffers.push(self.buffer(plan, node)?);
            }
        }
        let mut senders = Vec::with_capacity(self.traffic.qps.len());
        for (number, (qp, line)) in (0..).zip(self.traffic.qps.iter().zip(&plan.lines)) {
            let begin = plan.ways.get(plan.qp_ways[number as usize][0] as usize).copied().unwrap_or(NONE);
            let class = classes.iter().position(|class| *class == qp.class).unwrap_or(0);
            let nic = ports.get(begin as usize).map(|port: &Port| port.owner);
            let place = nic.map_or(NONE, |nic| nics[nic as usize].ready[class].add(number));
            senders.push(Sender::new(begin, place, class as u8, line.bps));
        }
        let mut waits = vec![0; self.traffic.messages.len()];
        self.traffic.waits.iter().for_each(|(.., effect)| waits[*effect as usize] += 1);
        let payload = u64::from(self.settings.payload);
        let messages = self.traffic.messages.iter().zip(&waits).map(|(message, waits)| {
            let packets = message.bytes.div_ceil(payload).max(1);
            Message {
                qp: message.qp,
                end: NONE,
                last: message.bytes.saturating_sub((packets - 1) * payload) as u32,
                packets: packets as u32,
                next: NONE,
                waits: *waits,
                posted: NEVER,
                received: NEVER,
                done: NEVER,
            }
        });
        let messages = messages.collect();
        let mut shard = Shard::new(part, control, plan, buffers, nics, ports, senders, messages);
        for (number, message) in (0..).zip(&self.traffic.messages) {
            let from = self.traffic.qps[message.qp as usize].from;
            if waits[number as usize] == 0 && plan.parts[from as usize] == part {
                shard.wheel.at(message.start_ns, POST | number);
            }
        }
        Ok(shard)
    }

    fn buffer(&self, plan: &Plan<'_>, node: u32) -> Result<SharedBuffer, RunError> {
        let (layout, settings) = (plan.layout, &self.settings.buffer);
        let ingresses = layout.ports_of(node).len() * plan.classes;
        let threshold = Threshold::Dynamic {
            reserve: settings.reserve,
            headroom: 0,
            shift: settings.shift,
            resume: settings.resume,
        };
        let form = BufferForm { capacity: settings.capacity, threshold };
        let host_bps = layout.ports.iter().filter(|port| !layout.forwards(port.node)).map(|port| port.class);
        let host_bps = host_bps.map(|class| layout.classes[usize::from(class)].bps).fold(0.0, f64::max);
        let headroom = |port: u32| {
            let class = layout.class(port);
            let delays = if settings.pfc { settings.headroom_delays } else { 0.0 };
            (class.bps * f64::from(class.delay) / 8e9 * delays) as u64
        };
        let needed: u64 =
            layout.ports_of(node).map(|port| plan.classes as u64 * (settings.reserve + headroom(port))).sum();
        let too_small = RunError::Buffer { switch: node, needed, capacity: settings.capacity };
        if form.shared(ingresses).is_none() {
            return Err(too_small);
        }
        let mut buffer = SharedBuffer::new(form, ingresses);
        for (place, port) in layout.ports_of(node).enumerate() {
            let faster = (layout.class(port).bps / host_bps).log2().ceil().max(0.0) as u32;
            for class in 0..plan.classes {
                let shift = settings.shift.saturating_sub(faster);
                if !buffer.widen(place * plan.classes + class, headroom(port), shift) {
                    return Err(too_small);
                }
            }
        }
        Ok(buffer)
    }

    /// What happens to links, and when ways are chosen anew.
    fn changes(&self) -> Vec<(u64, Change)> {
        let of = |event: &LinkEvent| {
            let detected = event.at_ns.saturating_add(event.detected_after_ns);
            [(event.at_ns, Change::Link(event.link, event.works)), (detected, Change::Routes)]
        };
        let before_the_end = |change: &(u64, Change)| change.0 < self.settings.end_ns;
        let mut changes: Vec<(u64, Change)> = self.events.iter().flat_map(of).filter(before_the_end).collect();
        changes.sort_by_key(|(time, _)| *time);
        changes
    }
}

/// The way of a QP from a host to itself.
const NOWHERE: Line = Line { bps: 1e12, rtt_ns: 1.0, window: 0.0, hops: 0, packet: 1.0 };

/// Something that changes the plan.
enum Change {
    Link(u32, bool),
    Routes,
}
