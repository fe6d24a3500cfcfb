//! Receive WQEs: which are on the NIC when a message needs one, and what a missing one costs.

use kelpie_spaces::{Host, QpType};

use crate::model::{Overload, PerTransport};
use crate::time::Ps;
use crate::transmit::pressure;
use crate::world::World;

/// What the receive engine gets for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// A WQE, at this time; the engine waits for it.
    At(Ps),
    /// A WQE at this time; the packet waits aside.
    Aside(Ps),
    /// None in time, and no way to wait.
    Dropped,
}

/// The value for a transport.
pub fn per(values: PerTransport, qp_type: QpType) -> u32 {
    match qp_type {
        QpType::Rc => values.rc,
        QpType::Uc => values.uc,
        QpType::Ud => values.ud,
    }
}

impl World<'_> {
    /// Keeps account of the receives of `qp` that are kept on the NIC ahead of use.
    pub fn lock_receives(&mut self, qp: u32) {
        let flow = &self.plan.flows[self.qps[qp as usize].flow as usize];
        let supply = &self.model.receive_wqe;
        if !flow.pattern.iter().any(|request| request.op == kelpie_spaces::Opcode::Send) {
            return;
        }
        let deep = flow.recv_depth >= u64::from(per(supply.deep_queue, flow.qp_type));
        let ahead = if deep { u64::from(per(supply.run_ahead, flow.qp_type)) } else { 0 };
        let state = &mut self.qps[qp as usize];
        let locked = (state.recv_posted - state.recv_used).min(ahead) * u64::from(per(supply.blocks, flow.qp_type));
        let at_doorbell = supply.doorbell_prefetch_batch.is_some_and(|batch| flow.recv_batch >= u64::from(batch));
        let locked = if at_doorbell { 0 } else { locked };
        let host = self.hosts.get_mut(flow.to);
        host.recv_locked = host.recv_locked + locked - state.recv_locked;
        state.recv_locked = locked;
    }

    /// Takes the next receive WQE of `qp` for a message of one or `several` packets.
    pub fn take_receive(&mut self, at: Host, qp: u32, now: Ps, several: bool) -> Supply {
        let flow = &self.plan.flows[self.qps[qp as usize].flow as usize];
        let (qp_type, batch, depth) = (flow.qp_type, flow.recv_batch, flow.recv_depth);
        let state = &mut self.qps[qp as usize];
        let index = state.recv_used;
        state.recv_used += 1;
        // The application posts a batch when one has been used.
        state.recv_posted = depth + state.recv_used / batch * batch;
        let posted = (state.recv_posted - state.recv_used).min(depth);
        self.lock_receives(qp);
        let locked = self.qps[qp as usize].recv_locked;

        let supply = &self.model.receive_wqe;
        let blocks = u64::from(per(supply.blocks, qp_type));
        let at_doorbell = supply.doorbell_prefetch_batch.is_some_and(|least| batch >= u64::from(least));
        let host = self.hosts.get_mut(at);
        let (used, room) =
            if at_doorbell { (posted * blocks, supply.ring_blocks) } else { (host.recv_locked, supply.shared_blocks) };
        host.counts.receive_wqe_cache_miss += pressure(used, room);
        if used <= room || (!at_doorbell && locked == 0) {
            return Supply::At(now);
        }
        if at_doorbell {
            self.behind_doorbells(at, qp, index, now, several)
        } else {
            self.on_demand(at, qp, index, now)
        }
    }

    /// The chains prefetched at doorbells overwrote this WQE: it is fetched behind them.
    fn behind_doorbells(&mut self, at: Host, qp: u32, index: u64, now: Ps, several: bool) -> Supply {
        let qp_type = self.flow_of(qp).qp_type;
        let supply = &self.model.receive_wqe;
        let reads = Ps::from(per(supply.blocking_reads, qp_type));
        if reads == 0 || !(several || per(supply.blocking_single_packet, qp_type) > 0) {
            // A lone packet waits aside while a sequential fetch streams the queue in: never the limit.
            return Supply::At(now);
        }
        let state = &mut self.qps[qp as usize];
        if index < state.fetched_to {
            return Supply::At(now.max(state.fetched_at));
        }
        // Twice the reach of a fetch on demand: the queue is read in order.
        state.fetched_to = index + doorbell_reach(per(supply.fetch_wqes, qp_type));
        state.fetched_at = now + self.costs.pcie_read * reads;
        self.hosts.get_mut(at).counts.receive_wqe_cache_miss += 1.0;
        Supply::At(self.qps[qp as usize].fetched_at)
    }

    /// Other QPs' receives pushed this one out before use: it is fetched alone, beside other fetches.
    fn on_demand(&mut self, at: Host, qp: u32, index: u64, now: Ps) -> Supply {
        let qp_type = self.flow_of(qp).qp_type;
        let supply = &self.model.receive_wqe;
        let reach = u64::from(per(supply.fetch_wqes, qp_type));
        let pool = qp_type as usize;
        let span = self.costs.pcie_read;
        let state = &mut self.qps[qp as usize];
        let host = self.hosts.get_mut(at);
        let fetches = host.fetches[pool].len() as u64;
        // What a fetch brought is gone when as many fetches as there are buffers came after it.
        if index < state.fetched_to && host.fetch_count - state.fetch_number < fetches {
            return match supply.overload {
                Overload::Park => Supply::Aside(state.fetched_at),
                Overload::Stall => Supply::At(now),
            };
        }
        host.counts.receive_wqe_cache_miss += 1.0;
        let mut take = |done: Ps, host: &mut crate::world::HostState| {
            host.fetch_count += 1;
            state.fetch_number = host.fetch_count;
            state.fetched_to = index + reach;
            state.fetched_at = done;
        };
        match (supply.overload, qp_type) {
            (Overload::Stall, _) => {
                // The engine is in order: it goes on when a fetch slot is free again.
                let done = now + span / fetches;
                host.fetches[pool].busy += span;
                take(done, host);
                Supply::At(done)
            }
            (Overload::Park, QpType::Rc) => {
                let done = host.fetches[pool].serve(now, span);
                take(done, host);
                Supply::Aside(done)
            }
            (Overload::Park, _) if host.fetches[pool].idle(now) => {
                let done = host.fetches[pool].serve(now, span);
                take(done, host);
                Supply::Aside(done)
            }
            (Overload::Park, _) => {
                host.counts.rx_discards += 1.0;
                // A dropped datagram uses no receive.
                state.recv_used = index;
                Supply::Dropped
            }
        }
    }
}

/// WQEs that a fetch behind doorbell prefetches brings.
fn doorbell_reach(fetch_wqes: u32) -> u64 {
    u64::from(fetch_wqes.max(8))
}
