//! The applications: they post a batch whenever it fits and see completions; what a doorbell looks up. Turns are in
//! `transmit`.

use kelpie_events::Picos;
use kelpie_spaces::{Host, Opcode};

use crate::caches::{fetch, pressure};
use crate::event::Event;
use crate::world::World;

impl World<'_> {
    /// Lets a QP begin with what one requested completion covers on the NIC; the application posts the rest at once.
    pub fn fill_send_queue(&mut self, qp: u32) {
        let flow = self.flow_of(qp);
        let filled = flow.signal;
        let state = &mut self.qps[qp as usize];
        state.posted += filled;
        state.available = state.posted;
        self.lock_sends(qp);
        self.queue_requester(qp);
        self.post_when_room(qp, Picos::ZERO);
    }

    /// Whether the applications have caught up with the first filling of their queues.
    pub fn is_posted(&self) -> bool {
        Host::BOTH.iter().all(|host| self.hosts.get(*host).cores.iter().all(|free| *free <= self.now))
    }

    /// Lets the application of `qp` post all batches for which there is room from `since` on, one after the other.
    pub fn post_when_room(&mut self, qp: u32, since: Picos) {
        let flow = &self.workload.flows[self.qps[qp as usize].flow as usize];
        let state = &mut self.qps[qp as usize];
        let batches = (flow.depth - (state.posted - state.seen)) / flow.batch;
        if state.posts_left > 0 || batches == 0 {
            return;
        }
        state.posts_left = batches;
        let span = self.costs.post(flow.batch);
        let host = self.hosts.get_mut(flow.from);
        let cores = host.cores.len();
        let core = &mut host.cores[qp as usize % cores];
        let begin = (*core).max(since);
        *core = begin + span * batches;
        host.core_wait += *core - since;
        self.events.at((begin + span).max(state.posts_from), Event::Doorbell(qp));
    }

    /// A batch is posted.
    pub fn doorbell(&mut self, qp: u32) {
        let ready = self.doorbell_context(qp).max(self.doorbell_translations(qp));
        let flow = self.flow_of(qp);
        let (from, batch, interarrival) = (flow.from, flow.batch, flow.interarrival);
        let state = &mut self.qps[qp as usize];
        state.posts_from = self.now + interarrival;
        state.posts_left -= 1;
        state.posted += batch;
        if ready > self.now || state.available + batch < state.posted {
            state.fetched = state.fetched.max(ready);
            self.events.at(state.fetched, Event::Fetched(qp));
        } else {
            state.available = state.posted;
        }
        if state.posts_left > 0 {
            self.events.at(self.now + self.costs.post(batch).max(interarrival), Event::Doorbell(qp));
        }
        self.lock_sends(qp);
        self.queue_requester(qp);
        self.start_turns(from);
        self.post_when_room(qp, self.now);
    }

    /// What a doorbell announced is on the NIC.
    pub fn fetched(&mut self, qp: u32) {
        let flow = self.flow_of(qp);
        let (from, batch) = (flow.from, flow.batch);
        self.qps[qp as usize].available += batch;
        self.queue_requester(qp);
        self.start_turns(from);
    }

    /// The doorbell needs the QP's context, which then stays with the QP's work, and for RC WRITE what is kept for
    /// retransmission; says when both are on the NIC.
    fn doorbell_context(&mut self, qp: u32) -> Picos {
        let flow = &self.workload.flows[self.qps[qp as usize].flow as usize];
        let remote = flow.keeps_remote_state;
        let (read, icm) = (self.costs.pcie_read, &self.model.icm);
        let host = self.hosts.get_mut(flow.from);
        let qps = u64::from(flow.qps);
        host.counts.icm_cache_miss += pressure(qps, if remote { icm.retransmit_states } else { icm.context_lines });
        let context_held = host.contexts.touch(2 * qp as usize, 1);
        let state_held = !remote || host.retransmit_states.touch(qp as usize, 1);
        let reads = match (context_held && state_held, flow.batch) {
            (true, _) => 0,
            (false, 1) => icm.doorbell_reads,
            (false, _) => icm.chain_reads,
        };
        host.icm_contexts += read * u64::from(reads);
        fetch(&mut host.icm, self.now, read, reads, &mut host.counts.icm_cache_miss)
    }

    /// Looks up the translations of the batch being posted, a group at a time; says when all are on the NIC.
    fn doorbell_translations(&mut self, qp: u32) -> Picos {
        let state = self.qps[qp as usize];
        let flow = &self.workload.flows[state.flow as usize];
        let (icm, now, read, index) = (&self.model.icm, self.now, self.costs.pcie_read, qp - flow.first_qp);
        let host = self.hosts.get_mut(flow.from);
        let group = u64::from(self.model.transmit.lookup_group);
        let mut done = now;
        let (mut wr, end) = (state.posted, state.posted + flow.batch);
        while wr < end {
            let last = (wr + group).min(end);
            let (mut local_missing, mut remote_missing) = (false, false);
            for wr in wr..last {
                local_missing |= !host.translations.touch(flow.local(index, wr), 1);
                if flow.keeps_remote_key(flow.request(wr).op) {
                    remote_missing |= !host.retransmit_keys.touch(flow.target(index, wr), 1);
                }
            }
            let reads = u32::from(local_missing) + u32::from(remote_missing) * icm.key_reads;
            done = done.max(fetch(&mut host.icm, now, read, reads, &mut host.counts.l0_mtt_miss));
            wr = last;
        }
        let remote = flow.keeps_remote_key(flow.request(state.posted).op);
        let (mrs, room) = if remote { (flow.mrs_to, icm.retransmit_keys) } else { (flow.mrs_from, icm.translations) };
        host.counts.l0_mtt_miss += flow.batch as f64 * pressure(u64::from(flow.qps) * mrs, room);
        done
    }

    /// Work requests complete; the application sees them with the next completion that was asked for.
    pub fn complete(&mut self, qp: u32, count: u64) {
        let signal = self.flow_of(qp).signal;
        let state = &mut self.qps[qp as usize];
        state.done += count;
        state.seen = state.first + (state.done - state.first) / signal * signal;
        self.lock_sends(qp);
        self.post_when_room(qp, self.now + self.costs.poll);
    }

    /// Keeps account of the WQEs that prefetching locks in the NIC's caches: the next batch of each QP.
    pub fn lock_sends(&mut self, qp: u32) {
        let flow = &self.workload.flows[self.qps[qp as usize].flow as usize];
        let state = &mut self.qps[qp as usize];
        let reads = flow.pattern[0].op == Opcode::Read;
        // A READ needs its WQE until the response is scattered, other requests until they are sent.
        let open = state.posted - if reads { state.done } else { state.next };
        let locked = open.min(flow.batch) * flow.blocks;
        let host = self.hosts.get_mut(flow.from);
        host.locked = host.locked + locked - state.locked;
        if reads {
            host.locked_reads = host.locked_reads + locked - state.locked;
        }
        state.locked = locked;
    }
}
