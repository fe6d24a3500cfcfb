//! The state of a run: QPs, the parts of both hosts, the switch. How it changes is in the modules named after the parts.

use std::collections::VecDeque;

use kelpie_monitor::PerHost;
use kelpie_spaces::Host;

use crate::counters::{Diagnostics, Spell, Traffic};
use crate::explain::Blame;
use crate::model::{Model, Ordering};
use crate::plan::{FlowPlan, Plan};
use crate::servers::{FifoCache, Pool, Server};
use crate::time::{Event, Events, Ps, ns};

/// What a burst carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// SEND or WRITE packets from the requester.
    Request,
    /// READ requests.
    ReadRequest,
    /// READ response packets from the responder.
    ReadResponse,
    /// Acknowledgements.
    Ack,
}

/// Consecutive packets of one QP, the unit that moves between parts; packets are processed one by one inside.
#[derive(Debug, Clone, Copy)]
pub struct Burst {
    pub carries: Carries,
    pub qp: u32,
    /// Host that emits it.
    pub from: Host,
    /// Host that receives it.
    pub to: Host,
    /// First work request and the offset in its message.
    pub wr: u64,
    pub offset: u64,
    /// Payload bytes, packets, bytes on the wire.
    pub payload: u64,
    pub packets: u64,
    pub wire: u64,
    /// Messages that end in it; for an acknowledgement those acknowledged; for READ requests the requests.
    pub messages: u64,
    /// When its data are at the NIC; then, in the receive buffer, when its first packet arrives.
    pub ready: Ps,
    /// When the responder's context is on the NIC.
    pub context: Ps,
    /// Whether it holds a transmit turn.
    pub turn: bool,
}

/// A queue pair, both ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Qp {
    pub flow: u32,
    /// Work requests posted, next to start with the offset in its message, completed, seen by the application.
    pub posted: u64,
    /// Where it began.
    pub first: u64,
    pub next: u64,
    pub offset: u64,
    pub done: u64,
    pub seen: u64,
    /// Batches that the application is about to post.
    pub posts_left: u64,
    /// Work requests that the NIC may start, and when the rest is there at the earliest.
    pub available: u64,
    pub fetched: Ps,
    /// Whether it waits for a turn as requester, and as responder of READs.
    pub queued: bool,
    pub answering: bool,
    pub reads_in_flight: u32,
    /// READ requests received and not answered; next READ to answer with its offset.
    pub reads_owed: u32,
    pub answer: u64,
    pub answer_offset: u64,
    /// WQEs locked in the caches. Units: 64-byte blocks.
    pub locked: u64,
    /// Receives posted and used; up to where a demand fetch brought them, when it is there, how many came before it.
    pub recv_posted: u64,
    pub recv_used: u64,
    pub fetched_to: u64,
    pub fetched_at: Ps,
    pub fetch_number: u64,
    /// Receives locked in the run-ahead room. Units: 16-byte blocks.
    pub recv_locked: u64,
    /// Of the message being received: whether it was dropped.
    pub dropping: bool,
}

/// What the receive engine leaves to be done when a burst is through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    pub acknowledge: u64,
    pub acknowledge_at: Ps,
    pub complete: u64,
    pub reads: u32,
}

/// The parts of one host.
#[derive(Debug)]
pub struct HostState {
    pub cores: Vec<Ps>,
    pub core_wait: Ps,
    /// QPs that wait for a turn as requester, and as responder of READs; the two alternate.
    pub requesters: VecDeque<u32>,
    pub responders: VecDeque<u32>,
    pub responder_next: bool,
    pub turns: u32,
    pub staged: u64,
    pub out_wire: VecDeque<Burst>,
    pub out_loop: VecDeque<Burst>,
    pub out_acks: VecDeque<Burst>,
    pub last_ready: Ps,
    pub wire: Server,
    pub packet_rate: Server,
    pub egress_at: Ps,
    pub loopback: Server,
    pub loopback_at: Ps,
    /// Held by the switch.
    pub held: Spell,
    pub to_switch: VecDeque<Burst>,
    // Receive side.
    pub from_switch: VecDeque<Burst>,
    pub buffer: VecDeque<Burst>,
    /// Fill of the receive buffer by traffic from the wire, and by loopback traffic. Units: bytes.
    pub filled: u64,
    pub looped: u64,
    pub receiving: Option<(Burst, Outcome)>,
    pub receive_busy: Ps,
    /// This NIC holds its switch port.
    pub holding: Spell,
    pub shared: Server,
    pub streaming: bool,
    pub sends_in_flight: u32,
    pub credit_waiters: VecDeque<u32>,
    /// WQEs locked: all, and those of READs. Units: 64-byte blocks.
    pub locked: u64,
    pub locked_reads: u64,
    pub recv_locked: u64,
    pub fetches: [Pool; 3],
    pub fetch_count: u64,
    pub contexts: FifoCache,
    pub retransmit_states: FifoCache,
    pub translations: FifoCache,
    pub retransmit_keys: FifoCache,
    pub icm: Pool,
    pub icm_contexts: Ps,
    pub receive_lookups: Pool,
    pub retained: FifoCache,
    pub pcie_read: Server,
    pub restaged: Ps,
    pub pcie_write: Server,
    pub barriers_pending: u64,
    pub barriers: Ps,
    pub interconnect: Server,
    pub redirect_read: Server,
    pub redirect_write: Server,
    pub counts: Diagnostics,
    pub blame: Blame,
}

/// The switch port towards one host.
#[derive(Debug, Default)]
pub struct SwitchPort {
    pub queue: VecDeque<Burst>,
    pub queued: u64,
    pub paused: bool,
    pub wire: Server,
    pub scheduled: bool,
    pub holding_sender: bool,
}

/// Model constants in the simulation's units.
#[derive(Debug)]
pub struct Costs {
    pub wire_ps_per_byte: f64,
    pub pcie_ps_per_byte: f64,
    pub interconnect_ps_per_byte: f64,
    pub redirect_read_ps_per_byte: f64,
    pub redirect_write_ps_per_byte: f64,
    pub link: Ps,
    pub packet: Ps,
    /// A packet at the specified rate of one direction.
    pub transmit_packet: Ps,
    pub pcie_read: Ps,
    pub interconnect: Ps,
    pub write_credit: Ps,
    pub barrier: Ps,
    pub strict: bool,
    pub reload: Ps,
    pub read_stream: Ps,
    pub read_page: Ps,
    pub read_refetch: Ps,
    pub restage: Ps,
    pub doorbell: Ps,
    pub wqe: Ps,
    pub poll: Ps,
    pub staging: u64,
    pub turns: u32,
    pub loopback_fill: u64,
    pub xoff: u64,
    pub xon: u64,
    pub switch_xoff: u64,
    pub switch_xon: u64,
}

impl Costs {
    fn new(model: &Model) -> Self {
        let per_byte = |gbps: f64| 8e3 / gbps;
        let bytes = |kib: f64| (kib * 1024.0) as u64;
        let read = ns(model.pcie.read_latency_ns);
        let pcie_ps_per_byte = per_byte(model.pcie.gbps);
        Self {
            wire_ps_per_byte: per_byte(model.port.line_rate_gbps),
            pcie_ps_per_byte,
            interconnect_ps_per_byte: per_byte(model.host.interconnect_gbps),
            redirect_read_ps_per_byte: per_byte(model.host.redirect_read_gbps),
            redirect_write_ps_per_byte: per_byte(model.host.redirect_write_gbps),
            link: ns(model.port.link_delay_ns),
            packet: ns(model.shared_pipeline.packet_ns),
            transmit_packet: ns(1e3 / model.port.max_mpps),
            pcie_read: read,
            interconnect: ns(model.host.interconnect_latency_ns),
            write_credit: (model.pcie.write_credit_kib * 1024.0 * pcie_ps_per_byte) as Ps,
            barrier: ns(model.pcie.barrier_ns),
            strict: model.pcie.ordering == Ordering::Strict,
            reload: read * u64::from(model.shared_pipeline.reload_reads),
            read_stream: ns(model.receive.read_stream_ns),
            read_page: ns(model.receive.read_page_ns),
            read_refetch: read / u64::from(model.receive.read_scatter_fetches),
            restage: ns(model.transmit.restage_ns),
            doorbell: ns(model.posting.doorbell_ns),
            wqe: ns(model.posting.wqe_ns),
            poll: ns(model.posting.poll_ns),
            staging: bytes(model.transmit.staging_kib),
            turns: model.transmit.processing_units * model.transmit.stages,
            loopback_fill: bytes(model.receive.loopback_kib),
            xoff: bytes(model.receive.xoff_kib),
            xon: bytes(model.receive.xon_kib),
            switch_xoff: bytes(model.switch.xoff_kib),
            switch_xon: bytes(model.switch.xon_kib),
        }
    }

    pub fn wire_time(&self, bytes: u64) -> Ps {
        (bytes as f64 * self.wire_ps_per_byte) as Ps
    }
}

/// Time for which the packet rate may exceed the specified one, as long as its mean does not.
///
/// Source: our choice, a queue of some dozens of descriptors before the packet scheduler.
pub const PACKET_RATE_SLACK: Ps = 2_000_000;

/// Everything that changes during a run.
#[derive(Debug)]
pub struct World<'m> {
    pub model: &'m Model,
    pub plan: Plan,
    pub costs: Costs,
    pub now: Ps,
    pub events: Events,
    pub qps: Vec<Qp>,
    pub hosts: PerHost<HostState>,
    pub ports: PerHost<SwitchPort>,
    /// By emitting and receiving host.
    pub traffic: [[Traffic; 2]; 2],
    /// Packets moved over the whole run, for benchmarks.
    pub packets: u64,
}

impl<'m> World<'m> {
    /// Hosts at rest, with all applications about to post.
    pub fn new(model: &'m Model, plan: Plan) -> Self {
        let mut qps = Vec::with_capacity(plan.qps as usize);
        for (index, flow) in plan.flows.iter().enumerate() {
            qps.extend((0..flow.qps).map(|qp| {
                let (wr, offset) = flow.start_of(qp);
                let started = Qp {
                    posted: wr,
                    available: wr,
                    next: wr,
                    done: wr,
                    seen: wr,
                    first: wr,
                    answer: wr,
                    offset,
                    ..Qp::default()
                };
                Qp { flow: index as u32, recv_posted: flow.recv_depth, ..started }
            }));
        }
        let mut world = Self {
            model,
            costs: Costs::new(model),
            now: 0,
            events: Events::default(),
            hosts: PerHost { a: HostState::new(model, &plan), b: HostState::new(model, &plan) },
            ports: PerHost::default(),
            traffic: Default::default(),
            packets: 0,
            qps,
            plan,
        };
        world.warm_caches();
        for qp in 0..world.qps.len() as u32 {
            world.lock_receives(qp);
            world.fill_send_queue(qp);
        }
        for host in Host::BOTH {
            world.start_turns(host);
        }
        world
    }

    /// Brings the caches to where long-running applications leave them: everything was used once, in order.
    fn warm_caches(&mut self) {
        for flow in &self.plan.flows {
            let remote = flow.pattern.iter().any(|request| flow.keeps_remote_state(request.op));
            for qp in (flow.first_qp..flow.first_qp + flow.qps).map(|qp| qp as usize) {
                let from = self.hosts.get_mut(flow.from);
                from.contexts.touch(2 * qp, 1);
                if remote {
                    from.retransmit_states.touch(qp, 1);
                }
                if flow.retains_list() {
                    from.retained.touch(2 * qp, flow.mtu);
                }
                let to = self.hosts.get_mut(flow.to);
                to.contexts.touch(2 * qp + 1, 1);
                if flow.retains_message() {
                    to.retained.touch(2 * qp + 1, flow.mtu);
                }
            }
            // QPs take turns and each goes on to its next MR, so that is the order in which translations were used.
            for mr in 0..flow.mrs_from.max(flow.mrs_to) {
                for index in 0..flow.qps {
                    let from = self.hosts.get_mut(flow.from);
                    if mr < flow.mrs_from {
                        from.translations.touch(flow.local(index, mr), 1);
                    }
                    if mr < flow.mrs_to {
                        if remote {
                            from.retransmit_keys.touch(flow.target(index, mr), 1);
                        }
                        self.hosts.get_mut(flow.to).translations.touch(flow.target(index, mr), 1);
                    }
                }
            }
        }
    }

    /// Runs until `end` or for `max_events`; says how many events were handled.
    pub fn run_until(&mut self, end: Ps, max_events: u64) -> u64 {
        let mut handled = 0;
        while handled < max_events {
            let Some((time, event)) = self.events.next_before(end) else {
                self.now = end;
                return handled;
            };
            self.now = time;
            handled += 1;
            self.handle(event);
        }
        handled
    }

    fn handle(&mut self, event: Event) {
        let host = |index: u32| Host::BOTH[index as usize];
        match event {
            Event::Doorbell(qp) => self.doorbell(qp),
            Event::Fetched(qp) => self.fetched(qp),
            Event::Egress(index) => self.egress(host(index)),
            Event::Loopback(index) => self.loopback(host(index)),
            Event::AtSwitch(index) => self.at_switch(host(index)),
            Event::SwitchPort(index) => self.switch_port(host(index)),
            Event::Arrive(index) => self.arrive(host(index)),
            Event::Received(index) => self.received(host(index)),
            Event::SwitchPause(index) => self.ports.get_mut(host(index)).paused = true,
            Event::SwitchResume(index) => {
                self.ports.get_mut(host(index)).paused = false;
                self.kick_switch_port(host(index));
            }
            Event::HostPause(index) => self.hosts.get_mut(host(index)).held.on(self.now),
            Event::HostResume(index) => {
                let now = self.now;
                self.hosts.get_mut(host(index)).held.off(now);
                self.kick_egress(host(index));
            }
        }
    }

    pub fn flow_of(&self, qp: u32) -> &FlowPlan {
        &self.plan.flows[self.qps[qp as usize].flow as usize]
    }
}

impl HostState {
    fn new(model: &Model, plan: &Plan) -> Self {
        let fetches = &model.receive_wqe.fetches;
        let retained = (model.transmit.retained_kib * 1024.0) as u64;
        // Each QP has an entry as requester and one as responder.
        let ends = 2 * plan.qps as usize;
        Self {
            cores: vec![0; model.posting.cores as usize],
            core_wait: 0,
            requesters: VecDeque::new(),
            responders: VecDeque::new(),
            responder_next: false,
            turns: 0,
            staged: 0,
            out_wire: VecDeque::new(),
            out_loop: VecDeque::new(),
            out_acks: VecDeque::new(),
            last_ready: 0,
            wire: Server::default(),
            packet_rate: Server::default(),
            egress_at: Ps::MAX,
            loopback: Server::default(),
            loopback_at: Ps::MAX,
            held: Spell::default(),
            to_switch: VecDeque::new(),
            from_switch: VecDeque::new(),
            buffer: VecDeque::new(),
            filled: 0,
            looped: 0,
            receiving: None,
            receive_busy: 0,
            holding: Spell::default(),
            shared: Server::default(),
            streaming: false,
            sends_in_flight: 0,
            credit_waiters: VecDeque::new(),
            locked: 0,
            locked_reads: 0,
            recv_locked: 0,
            fetches: [Pool::new(fetches.rc), Pool::new(fetches.uc), Pool::new(fetches.ud)],
            fetch_count: 0,
            contexts: FifoCache::new(model.icm.context_lines, ends),
            retransmit_states: FifoCache::new(model.icm.retransmit_states, plan.qps as usize),
            translations: FifoCache::new(model.icm.translations, plan.mrs),
            retransmit_keys: FifoCache::new(model.icm.retransmit_keys, plan.mrs),
            icm: Pool::new(model.icm.misses),
            icm_contexts: 0,
            receive_lookups: Pool::new(model.icm.receive_misses),
            retained: FifoCache::new(retained, ends),
            pcie_read: Server::default(),
            restaged: 0,
            pcie_write: Server::default(),
            barriers_pending: 0,
            barriers: 0,
            interconnect: Server::default(),
            redirect_read: Server::default(),
            redirect_write: Server::default(),
            counts: Diagnostics::default(),
            blame: Blame::new(plan.flows.len()),
        }
    }
}
