//! The applications: they post a batch whenever it fits and see completions. What the NIC does with it is in `transmit`.

use kelpie_spaces::Opcode;

use crate::time::{Event, Ps};
use crate::world::World;

impl World<'_> {
    /// Lets the application of `qp` post its next batch if there is room for it from `since` on.
    pub fn post_when_room(&mut self, qp: u32, since: Ps) {
        let flow = &self.plan.flows[self.qps[qp as usize].flow as usize];
        let state = &mut self.qps[qp as usize];
        if state.posting || flow.depth - (state.posted - state.seen) < flow.batch {
            return;
        }
        state.posting = true;
        let host = self.hosts.get_mut(flow.from);
        let cores = host.cores.len();
        let core = &mut host.cores[qp as usize % cores];
        *core = (*core).max(since) + self.costs.doorbell + self.costs.wqe * flow.batch;
        host.core_wait += *core - since;
        self.events.at(*core, Event::Doorbell(qp));
    }

    /// A batch is posted.
    pub fn doorbell(&mut self, qp: u32) {
        let batch = self.flow_of(qp).batch;
        let state = &mut self.qps[qp as usize];
        state.posting = false;
        state.posted += batch;
        self.lock_sends(qp);
        self.queue_requester(qp);
        self.start_turns(self.flow_of(qp).from);
        self.post_when_room(qp, self.now);
    }

    /// Work requests complete; the application sees them with the next completion that was asked for.
    pub fn complete(&mut self, qp: u32, count: u64) {
        let signal = self.flow_of(qp).signal;
        let state = &mut self.qps[qp as usize];
        state.done += count;
        state.seen = state.done / signal * signal;
        self.lock_sends(qp);
        self.post_when_room(qp, self.now + self.costs.poll);
    }

    /// Keeps account of the WQEs that prefetching locks in the NIC's caches: the next batch of each QP.
    pub fn lock_sends(&mut self, qp: u32) {
        let flow = &self.plan.flows[self.qps[qp as usize].flow as usize];
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
