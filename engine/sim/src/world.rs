//! The state of a run: QPs, the parts of both hosts, the switch. The modules named after the parts change it.

use std::collections::VecDeque;

use kelpie_events::{Events, Picos, Pool, Server};
use kelpie_monitor::PerHost;
use kelpie_spaces::Host;

use crate::blame::Blame;
use crate::caches::FifoCache;
use crate::costs::Costs;
use crate::counters::{Diagnostics, Spell, Traffic};
use crate::event::Event;
use crate::model::Model;
use crate::resolved::{ResolvedFlow, ResolvedWorkload};

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
    pub ready: Picos,
    /// When the responder's context is on the NIC.
    pub context: Picos,
}

impl Burst {
    /// An empty burst of a turn, which begins at this work request and offset.
    pub fn of_turn(carries: Carries, qp: u32, [from, to]: [Host; 2], wr: u64, offset: u64) -> Self {
        Self {
            carries,
            qp,
            from,
            to,
            wr,
            offset,
            payload: 0,
            packets: 0,
            wire: 0,
            messages: 0,
            ready: Picos::ZERO,
            context: Picos::ZERO,
        }
    }
}

/// A queue pair, both ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Qp {
    pub flow: u32,
    /// Work request with which it began.
    pub first: u64,
    /// Work requests posted, next to start with the offset in its message, completed, seen by the application.
    pub posted: u64,
    pub next: u64,
    pub offset: u64,
    pub done: u64,
    pub seen: u64,
    /// Batches that the application is about to post, and when the next may be at the earliest.
    pub posts_left: u64,
    pub posts_from: Picos,
    /// Work requests that the NIC may start, and when the rest is there at the earliest.
    pub available: u64,
    pub fetched: Picos,
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
    pub fetched_at: Picos,
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
    pub acknowledge_at: Picos,
    pub complete: u64,
    pub reads: u32,
}

/// The parts of one host.
#[derive(Debug, Default)]
pub struct HostState {
    pub cores: Vec<Picos>,
    pub core_wait: Picos,
    /// QPs that wait for a turn as requester, and as responder of READs; the two alternate.
    pub requesters: VecDeque<u32>,
    pub responders: VecDeque<u32>,
    pub responder_next: bool,
    pub turns: u32,
    pub staged: u64,
    pub out_wire: VecDeque<Burst>,
    pub out_loop: VecDeque<Burst>,
    pub out_acks: VecDeque<Burst>,
    pub last_ready: Picos,
    pub wire: Server,
    pub packet_rate: Server,
    pub egress_at: Picos,
    pub loopback: Server,
    pub loopback_at: Picos,
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
    pub receive_busy: Picos,
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
    /// Demand fetches of receive WQEs, by transport.
    pub fetches: [Pool; 3],
    pub fetch_count: u64,
    pub contexts: FifoCache,
    pub retransmit_states: FifoCache,
    pub translations: FifoCache,
    pub retransmit_keys: FifoCache,
    pub icm: Pool,
    pub icm_contexts: Picos,
    pub receive_lookups: Pool,
    pub retained: FifoCache,
    pub pcie_read: Server,
    pub restaged: Picos,
    pub pcie_write: Server,
    pub barriers_pending: u64,
    pub barriers: Picos,
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

/// Everything that changes during a run.
#[derive(Debug)]
pub struct World<'m> {
    pub model: &'m Model,
    pub workload: ResolvedWorkload,
    pub costs: Costs,
    pub now: Picos,
    pub events: Events<Event>,
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
    pub fn new(model: &'m Model, workload: ResolvedWorkload) -> Self {
        let mut qps = Vec::with_capacity(workload.qps as usize);
        for (index, flow) in workload.flows.iter().enumerate() {
            qps.extend((0..flow.qps).map(|qp| {
                let (wr, offset) = flow.start_of(qp);
                Qp {
                    flow: index as u32,
                    first: wr,
                    posted: wr,
                    next: wr,
                    offset,
                    done: wr,
                    seen: wr,
                    available: wr,
                    answer: wr,
                    recv_posted: flow.recv_depth,
                    ..Qp::default()
                }
            }));
        }
        let mut world = Self {
            model,
            costs: Costs::new(model),
            now: Picos::ZERO,
            events: Events::default(),
            hosts: PerHost { a: HostState::new(model, &workload), b: HostState::new(model, &workload) },
            ports: PerHost::default(),
            traffic: Default::default(),
            packets: 0,
            qps,
            workload,
        };
        world.warm_caches();
        for qp in world.workload.in_turn() {
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
        for flow in &self.workload.flows {
            for qp in (flow.first_qp..flow.first_qp + flow.qps).map(|qp| qp as usize) {
                let from = self.hosts.get_mut(flow.from);
                from.contexts.touch(2 * qp, 1);
                if flow.keeps_remote_state {
                    from.retransmit_states.touch(qp, 1);
                }
                if flow.retains_list {
                    from.retained.touch(2 * qp, flow.mtu);
                }
                let to = self.hosts.get_mut(flow.to);
                to.contexts.touch(2 * qp + 1, 1);
                if flow.retains_message {
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
                        if flow.keeps_remote_state {
                            from.retransmit_keys.touch(flow.target(index, mr), 1);
                        }
                        self.hosts.get_mut(flow.to).translations.touch(flow.target(index, mr), 1);
                    }
                }
            }
        }
    }

    /// Runs until `end`, or for `max_events`.
    pub fn run_until(&mut self, end: Picos, max_events: u64) {
        for _ in 0..max_events {
            let Some((time, event)) = self.events.next_before(end) else {
                self.now = end;
                return;
            };
            self.now = time;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Doorbell(qp) => self.doorbell(qp),
            Event::Fetched(qp) => self.fetched(qp),
            Event::Egress(host) => self.egress(host),
            Event::Loopback(host) => self.loopback(host),
            Event::AtSwitch(host) => self.at_switch(host),
            Event::SwitchPort(host) => self.switch_port(host),
            Event::Arrive(host) => self.arrive(host),
            Event::Received(host) => self.received(host),
            Event::SwitchPause(host) => self.ports.get_mut(host).paused = true,
            Event::SwitchResume(host) => {
                self.ports.get_mut(host).paused = false;
                self.kick_switch_port(host);
            }
            Event::HostPause(host) => self.hosts.get_mut(host).held.on(self.now),
            Event::HostResume(host) => {
                self.hosts.get_mut(host).held.off(self.now);
                self.kick_egress(host);
            }
        }
    }

    pub fn flow_of(&self, qp: u32) -> &ResolvedFlow {
        &self.workload.flows[self.qps[qp as usize].flow as usize]
    }
}

impl HostState {
    fn new(model: &Model, workload: &ResolvedWorkload) -> Self {
        let fetches = &model.receive_wqe.fetches;
        let retained = (model.transmit.retained_kib * 1024.0) as u64;
        // Each QP has an entry as requester and one as responder.
        let ends = 2 * workload.qps as usize;
        Self {
            cores: vec![Picos::ZERO; model.posting.cores as usize],
            egress_at: Picos::MAX,
            loopback_at: Picos::MAX,
            fetches: [Pool::new(fetches.rc), Pool::new(fetches.uc), Pool::new(fetches.ud)],
            contexts: FifoCache::new(model.icm.context_lines, ends),
            retransmit_states: FifoCache::new(model.icm.retransmit_states, workload.qps as usize),
            translations: FifoCache::new(model.icm.translations, workload.mrs),
            retransmit_keys: FifoCache::new(model.icm.retransmit_keys, workload.mrs),
            icm: Pool::new(model.icm.misses),
            receive_lookups: Pool::new(model.icm.receive_misses),
            retained: FifoCache::new(retained, ends),
            blame: Blame::new(workload.flows.len()),
            ..Self::default()
        }
    }
}
