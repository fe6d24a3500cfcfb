//! Receive WQEs: which are on the NIC when a message needs one, and what a missing one costs.

use kelpie_events::Picos;
use kelpie_spaces::{Host, QpType};

use crate::caches::pressure;
use crate::model::Overload;
use crate::world::World;

/// What the receive engine gets for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// A WQE, at this time; the engine waits for it.
    At(Picos),
    /// A WQE at this time; the packet waits aside.
    Aside(Picos),
    /// None in time, and no way to wait.
    Dropped,
}

/// WQEs that a fetch behind doorbell prefetches brings at least: the queue is read in order. Source: our choice.
const SEQUENTIAL_WQES: u32 = 8;

impl World<'_> {
    /// Keeps account of the receives of `qp` that are kept on the NIC ahead of use.
    pub fn lock_receives(&mut self, qp: u32) {
        let flow = &self.workload.flows[self.qps[qp as usize].flow as usize];
        let state = &mut self.qps[qp as usize];
        let locked = (state.recv_posted - state.recv_used).min(flow.recv_ahead.unwrap_or(0)) * flow.recv_blocks;
        let host = self.hosts.get_mut(flow.to);
        host.recv_locked = host.recv_locked + locked - state.recv_locked;
        state.recv_locked = locked;
    }

    /// Takes the next receive WQE of `qp` for a message of one or `several` packets.
    pub fn take_receive(&mut self, at: Host, qp: u32, now: Picos, several: bool) -> Supply {
        let flow = &self.workload.flows[self.qps[qp as usize].flow as usize];
        let (at_doorbell, blocks, batch, depth) =
            (flow.recv_ahead.is_none(), flow.recv_blocks, flow.recv_batch, flow.recv_depth);
        let state = &mut self.qps[qp as usize];
        let index = state.recv_used;
        state.recv_used += 1;
        // The application posts a batch when one has been used.
        state.recv_posted = depth + state.recv_used / batch * batch;
        let posted = (state.recv_posted - state.recv_used).min(depth);
        self.lock_receives(qp);
        let locked = self.qps[qp as usize].recv_locked;

        let supply = &self.model.receive_wqe;
        let host = self.hosts.get_mut(at);
        let (used, room) =
            if at_doorbell { (posted * blocks, supply.ring_blocks) } else { (host.recv_locked, supply.shared_blocks) };
        host.counts.receive_wqe_cache_miss += pressure(used, room);
        if used > room && at_doorbell {
            self.behind_doorbells(at, qp, index, now, several)
        } else if used > room && locked > 0 {
            self.on_demand(at, qp, index, now)
        } else {
            Supply::At(now)
        }
    }

    /// The chains prefetched at doorbells overwrote this WQE: it is fetched behind them.
    fn behind_doorbells(&mut self, at: Host, qp: u32, index: u64, now: Picos, several: bool) -> Supply {
        let qp_type = self.flow_of(qp).qp_type;
        let supply = &self.model.receive_wqe;
        let reads = u64::from(supply.blocking_reads.of(qp_type));
        if reads == 0 || !(several || supply.blocking_single_packet.of(qp_type) > 0) {
            // A lone packet waits aside while a sequential fetch streams the queue in: never the limit.
            return Supply::At(now);
        }
        let state = &mut self.qps[qp as usize];
        if index >= state.fetched_to {
            state.fetched_to = index + u64::from(supply.fetch_wqes.of(qp_type).max(SEQUENTIAL_WQES));
            state.fetched_at = now + self.costs.pcie_read * reads;
            self.hosts.get_mut(at).counts.receive_wqe_cache_miss += 1.0;
        }
        Supply::At(state.fetched_at)
    }

    /// Other QPs' receives pushed this one out before use: it is fetched alone, beside other fetches.
    fn on_demand(&mut self, at: Host, qp: u32, index: u64, now: Picos) -> Supply {
        let qp_type = self.flow_of(qp).qp_type;
        let supply = &self.model.receive_wqe;
        let span = self.costs.pcie_read;
        let state = &mut self.qps[qp as usize];
        let host = self.hosts.get_mut(at);
        let fetches = &mut host.fetches[qp_type as usize];
        let in_flight = fetches.servers();
        let when = |ready| match supply.overload {
            Overload::Park => Supply::Aside(ready),
            Overload::Stall => Supply::At(ready),
        };
        // What a fetch brought is gone when as many fetches as there are buffers came after it.
        if index < state.fetched_to && host.fetch_count - state.fetch_number < in_flight {
            return when(state.fetched_at);
        }
        host.counts.receive_wqe_cache_miss += 1.0;
        let ready = match (supply.overload, qp_type) {
            (Overload::Stall, _) => {
                // The engine is in order: it goes on when a fetch slot is free again.
                fetches.busy += span;
                now + span / in_flight
            }
            (Overload::Park, QpType::Uc | QpType::Ud) if !fetches.is_idle(now) => {
                host.counts.rx_discards += 1.0;
                // A dropped datagram uses no receive.
                state.recv_used = index;
                return Supply::Dropped;
            }
            (Overload::Park, _) => fetches.serve(now, span),
        };
        host.fetch_count += 1;
        state.fetch_number = host.fetch_count;
        state.fetched_to = index + u64::from(supply.fetch_wqes.of(qp_type));
        state.fetched_at = ready;
        when(ready)
    }
}
