//! The transmit side: turns of QPs, context and translation lookups, WQE fetch, gather. The wire itself is in `wire`.

use kelpie_spaces::{Host, Opcode, QpType};

use crate::plan::{AETH, CELL, DETH, PACKET_OVERHEAD, Path, RETH};
use crate::time::Ps;
use crate::world::{Burst, Carries, World};

/// Elements of a list lie next to each other, and those in one cache line come with one read. Units: bytes.
const LINE: u64 = 64;

impl World<'_> {
    /// Lets a requester wait for a turn if it has work that may go.
    pub fn queue_requester(&mut self, qp: u32) {
        let flow = self.flow_of(qp);
        let (from, next) = (flow.from, flow.request(self.qps[qp as usize].next));
        let op = next.op;
        let state = &mut self.qps[qp as usize];
        if state.queued || state.next == state.available {
            return;
        }
        if op == Opcode::Read && state.reads_in_flight >= self.model.transmit.max_reads {
            return;
        }
        state.queued = true;
        self.hosts.get_mut(from).requesters.push_back(qp);
    }

    /// RC SENDs were acknowledged: their credits let waiting QPs go.
    pub fn return_credits(&mut self, at: Host, count: u64) {
        let host = self.hosts.get_mut(at);
        host.sends_in_flight = host.sends_in_flight.saturating_sub(count as u32);
        for _ in 0..count {
            let Some(qp) = host.credit_waiters.pop_front() else { break };
            host.requesters.push_back(qp);
        }
    }

    /// Lets a responder wait for a turn if it owes READ responses.
    pub fn queue_responder(&mut self, qp: u32) {
        let to = self.flow_of(qp).to;
        let state = &mut self.qps[qp as usize];
        if !state.answering && state.reads_owed > 0 {
            state.answering = true;
            self.hosts.get_mut(to).responders.push_back(qp);
        }
    }

    /// Starts turns while processing units and staging are free.
    pub fn start_turns(&mut self, at: Host) {
        loop {
            let host = self.hosts.get_mut(at);
            if host.turns >= self.costs.turns || host.staged >= self.costs.staging {
                return;
            }
            host.responder_next = !host.responder_next;
            let responder = if host.responder_next { host.responders.pop_front() } else { None };
            if let Some(qp) = responder {
                self.qps[qp as usize].answering = false;
                self.answer_turn(qp);
                self.queue_responder(qp);
                continue;
            }
            let Some(qp) = host.requesters.pop_front() else {
                if host.responders.is_empty() {
                    return;
                }
                continue;
            };
            if self.lacks_credit(qp) {
                self.hosts.get_mut(at).credit_waiters.push_back(qp);
            } else {
                self.qps[qp as usize].queued = false;
                self.request_turn(qp);
                self.queue_requester(qp);
            }
        }
    }

    /// Whether the next request is an RC SEND and the responder's credits are used up.
    fn lacks_credit(&self, qp: u32) -> bool {
        let flow = self.flow_of(qp);
        let op = flow.request(self.qps[qp as usize].next).op;
        flow_sends(flow.qp_type, op, 1) > 0
            && self.hosts.get(flow.from).sends_in_flight >= self.model.transmit.send_credits
    }

    /// A turn of a requester: as many cells as it may send.
    fn request_turn(&mut self, qp: u32) {
        let state = self.qps[qp as usize];
        let flow = &self.plan.flows[state.flow as usize];
        let (at, to, path) = (flow.from, flow.to, flow.from_path);
        let op = flow.request(state.next).op;
        let read = op == Opcode::Read;
        let reads_left =
            u64::from(self.model.transmit.max_reads - state.reads_in_flight.min(self.model.transmit.max_reads));
        let mut burst = Burst {
            carries: if read { Carries::ReadRequest } else { Carries::Request },
            qp,
            from: at,
            to,
            wr: state.next,
            offset: state.offset,
            payload: 0,
            packets: 0,
            wire: 0,
            messages: 0,
            ready: 0,
            context: 0,
            turn: true,
        };
        let (mut next, mut offset, mut cells_left) = (state.next, state.offset, flow.turn);
        let (mut elements, mut ordered, mut wqe_blocks, mut spilled) = (0, 0, 0, false);
        while next < state.available && cells_left > 0 {
            let request = flow.request(next);
            if (request.op == Opcode::Read) != read || (read && burst.messages >= reads_left) {
                break;
            }
            let rest = request.bytes - offset;
            let cells = if read {
                1
            } else if offset == 0 {
                request.cells
            } else {
                rest.div_ceil(CELL)
            };
            // A turn ends where the next message does not fit, unless packets of it do.
            if cells > cells_left && next > state.next && cells_left * CELL < flow.mtu.min(request.bytes) {
                break;
            }
            if offset == 0 {
                wqe_blocks += request.blocks;
            }
            spilled |= request.spilled;
            if read {
                burst.packets += 1;
                burst.messages += 1;
                next += 1;
                cells_left -= 1;
                continue;
            }
            let take =
                if cells <= cells_left { rest } else { rest.min((cells_left * CELL / flow.mtu).max(1) * flow.mtu) };
            elements += (request.elements * take).div_ceil(request.bytes);
            if offset == 0 {
                ordered += request.ordered_elements;
            }
            burst.payload += take;
            burst.packets += take.div_ceil(flow.mtu);
            burst.wire += wire_bytes(op, flow.qp_type, take, flow.mtu, offset == 0);
            cells_left -= cells.min(cells_left);
            if take == rest {
                burst.messages += 1;
                (next, offset) = (next + 1, 0);
            } else {
                offset += take;
                break;
            }
        }
        if read {
            burst.wire = burst.packets * (PACKET_OVERHEAD + RETH);
        }
        let now = self.now;
        if wqe_blocks > 0 {
            // WQEs are read ahead, from the doorbell on; what they take of PCIe is taken here.
            self.dma_read(at, Path::Local, wqe_blocks * 64, wqe_blocks.div_ceil(8));
        }
        let ready = if read {
            now
        } else {
            self.gather(at, burst.payload, elements.clamp(1, burst.payload.div_ceil(LINE)), qp, spilled)
        };
        if !read {
            self.ordered_reads(at, path, ordered);
        }
        let sends = flow_sends(self.flow_of(qp).qp_type, op, burst.messages);
        let state = &mut self.qps[qp as usize];
        (state.next, state.offset) = (next, offset);
        if read {
            state.reads_in_flight += burst.messages as u32;
        }
        self.hosts.get_mut(at).sends_in_flight += sends;
        self.lock_sends(qp);
        self.stage(burst, ready);
    }

    /// A turn of a responder that answers READs.
    fn answer_turn(&mut self, qp: u32) {
        let mut state = self.qps[qp as usize];
        let flow = &self.plan.flows[state.flow as usize];
        let (at, path) = (flow.to, flow.to_path);
        while flow.request(state.answer).op != Opcode::Read {
            state.answer += 1;
        }
        let mut burst = Burst {
            carries: Carries::ReadResponse,
            qp,
            from: at,
            to: flow.from,
            wr: state.answer,
            offset: state.answer_offset,
            payload: 0,
            packets: 0,
            wire: 0,
            messages: 0,
            ready: 0,
            context: 0,
            turn: true,
        };
        let (mut cells_left, mut pieces) = (flow.answer_turn, 0);
        while state.reads_owed > 0 && cells_left > 0 && flow.request(state.answer).op == Opcode::Read {
            let request = flow.request(state.answer);
            let rest = request.bytes - state.answer_offset;
            let cells = rest.div_ceil(CELL);
            if cells > cells_left && burst.payload > 0 {
                break;
            }
            let take =
                if cells <= cells_left { rest } else { rest.min((cells_left * CELL / flow.mtu).max(1) * flow.mtu) };
            pieces += 1;
            burst.payload += take;
            burst.packets += take.div_ceil(flow.mtu);
            burst.wire += take + take.div_ceil(flow.mtu) * (PACKET_OVERHEAD + AETH);
            cells_left -= cells.min(cells_left);
            if take == rest {
                burst.messages += 1;
                state.reads_owed -= 1;
                (state.answer, state.answer_offset) = (state.answer + 1, 0);
            } else {
                state.answer_offset += take;
                break;
            }
        }
        let ready = self.dma_read(at, path, burst.payload, pieces);
        self.qps[qp as usize] = state;
        self.stage(burst, ready);
    }

    /// Gathers the payload of a turn; a QP whose half-gathered list was given up has to gather again.
    fn gather(&mut self, at: Host, payload: u64, elements: u64, qp: u32, spilled: bool) -> Ps {
        let flow = &self.plan.flows[self.qps[qp as usize].flow as usize];
        let (path, mtu, reliable) = (flow.from_path, flow.mtu, flow.qp_type == QpType::Rc);
        if spilled && reliable {
            let (restage, now) = (self.costs.restage, self.now);
            let host = self.hosts.get_mut(at);
            if !host.retained.touch(2 * qp as usize, mtu) && restage > 0 {
                host.pcie_read.serve(now, restage);
                host.restaged += restage;
                host.counts.tx_staging_miss += 1.0;
            }
        }
        self.dma_read(at, path, payload, elements)
    }

    /// Hands a turn's packets to the wire, or to the internal loopback path, in the order in which turns began.
    fn stage(&mut self, mut burst: Burst, ready: Ps) {
        let host = self.hosts.get_mut(burst.from);
        host.turns += 1;
        host.staged += burst.payload;
        host.last_ready = host.last_ready.max(ready);
        burst.ready = host.last_ready;
        let from = burst.from;
        if burst.from == burst.to {
            host.out_loop.push_back(burst);
            self.kick_loopback(from);
        } else {
            host.out_wire.push_back(burst);
            self.kick_egress(from);
        }
    }
}

/// Credits that messages take.
pub fn flow_sends(qp_type: QpType, op: Opcode, messages: u64) -> u32 {
    if qp_type == QpType::Rc && op == Opcode::Send { messages as u32 } else { 0 }
}

/// Bytes on the wire of a piece of a message.
fn wire_bytes(op: Opcode, qp_type: QpType, payload: u64, mtu: u64, first: bool) -> u64 {
    let per_packet = PACKET_OVERHEAD + if qp_type == QpType::Ud { DETH } else { 0 };
    payload + payload.div_ceil(mtu) * per_packet + if op == Opcode::Write && first { RETH } else { 0 }
}

/// Share of accesses that miss for want of associativity while the working set still fits; prefetch hides their cost.
///
/// Source: our choice, the fourth power; real caches of few ways begin to miss before they are full.
pub fn pressure(working_set: u64, capacity: u64) -> f64 {
    (working_set as f64 / capacity.max(1) as f64).min(1.0).powi(4) * 0.1
}
