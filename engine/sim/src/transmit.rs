//! The transmit side: turns of QPs, context and translation lookups, WQE fetch, gather. The wire itself is in `wire`.

use kelpie_events::Picos;
use kelpie_spaces::headers::{AETH, DETH, PACKET_OVERHEAD, RETH};
use kelpie_spaces::{Host, Opcode, QpType};

use crate::resolved::{CELL, Path};
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
    pub fn return_credits(&mut self, at: Host, count: u32) {
        let host = self.hosts.get_mut(at);
        host.sends_in_flight = host.sends_in_flight.saturating_sub(count);
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
        credits(flow.qp_type, op, 1) > 0
            && self.hosts.get(flow.from).sends_in_flight >= self.model.transmit.send_credits
    }

    /// READs requested and not answered, on all QPs.
    pub fn reads_in_flight(&self) -> u64 {
        self.qps.iter().map(|qp| u64::from(qp.reads_in_flight)).sum()
    }

    /// A turn of a requester.
    fn request_turn(&mut self, qp: u32) {
        let op = self.flow_of(qp).request(self.qps[qp as usize].next).op;
        if op == Opcode::Read { self.read_turn(qp) } else { self.send_turn(qp, op) }
    }

    /// A turn that requests READs: as many as it has cells and as may be in flight.
    fn read_turn(&mut self, qp: u32) {
        let state = self.qps[qp as usize];
        let flow = self.flow_of(qp);
        let mut burst = Burst::of_turn(Carries::ReadRequest, qp, [flow.from, flow.to], state.next, 0);
        let may_begin = self.model.transmit.max_reads.saturating_sub(state.reads_in_flight);
        let most = flow.turn.min(u64::from(may_begin)).min(state.available - state.next);
        let requests = (state.next..state.next + most).map(|wr| flow.request(wr));
        let mut wqe_blocks = 0;
        for request in requests.take_while(|request| request.op == Opcode::Read) {
            wqe_blocks += request.blocks;
            burst.messages += 1;
        }
        burst.packets = burst.messages;
        burst.wire = burst.packets * (PACKET_OVERHEAD + RETH);
        let state = &mut self.qps[qp as usize];
        state.next += burst.messages;
        state.reads_in_flight += burst.messages as u32;
        self.read_wqes(burst.from, wqe_blocks);
        self.lock_sends(qp);
        self.stage(burst, self.now);
    }

    /// A turn that SENDs or WRITEs: as many cells as it has.
    fn send_turn(&mut self, qp: u32, op: Opcode) {
        let state = self.qps[qp as usize];
        let flow = &self.workload.flows[state.flow as usize];
        let (qp_type, path) = (flow.qp_type, flow.from_path);
        let mut burst = Burst::of_turn(Carries::Request, qp, [flow.from, flow.to], state.next, state.offset);
        let (mut next, mut offset, mut cells_left) = (state.next, state.offset, flow.turn);
        let (mut gathered, mut elements, mut ordered, mut wqe_blocks, mut spilled) = (0, 0, 0, 0, false);
        while next < state.available && cells_left > 0 {
            let request = flow.request(next);
            if request.op == Opcode::Read {
                break;
            }
            let rest = request.bytes - offset;
            let cells = if offset == 0 { request.cells } else { rest.div_ceil(CELL) };
            // A turn ends where the next message does not fit, unless packets of it do.
            if cells > cells_left && next > state.next && cells_left * CELL < flow.mtu.min(request.bytes) {
                break;
            }
            let taken = taken(rest, cells, cells_left, flow.mtu);
            if offset == 0 {
                wqe_blocks += request.blocks;
                ordered += request.ordered_elements;
            }
            spilled |= request.spilled;
            if !request.is_inline {
                gathered += taken;
                elements += (request.elements * taken).div_ceil(request.bytes);
            }
            burst.payload += taken;
            burst.packets += taken.div_ceil(flow.mtu);
            burst.wire += wire_bytes(op, qp_type, taken, flow.mtu, offset == 0);
            if taken < rest {
                offset += taken;
                break;
            }
            burst.messages += 1;
            cells_left = cells_left.saturating_sub(cells);
            (next, offset) = (next + 1, 0);
        }
        self.read_wqes(burst.from, wqe_blocks);
        let ready = self.gather(&burst, gathered, elements, spilled);
        self.ordered_reads(burst.from, path, ordered);
        let state = &mut self.qps[qp as usize];
        (state.next, state.offset) = (next, offset);
        self.hosts.get_mut(burst.from).sends_in_flight += credits(qp_type, op, burst.messages);
        self.lock_sends(qp);
        self.stage(burst, ready);
    }

    /// A turn of a responder that answers READs.
    fn answer_turn(&mut self, qp: u32) {
        let mut state = self.qps[qp as usize];
        let flow = &self.workload.flows[state.flow as usize];
        let path = flow.to_path;
        while flow.request(state.answer).op != Opcode::Read {
            state.answer += 1;
        }
        let ends = [flow.to, flow.from];
        let mut burst = Burst::of_turn(Carries::ReadResponse, qp, ends, state.answer, state.answer_offset);
        let (mut cells_left, mut pieces) = (flow.answer_turn, 0);
        while state.reads_owed > 0 && cells_left > 0 && flow.request(state.answer).op == Opcode::Read {
            let rest = flow.request(state.answer).bytes - state.answer_offset;
            let cells = rest.div_ceil(CELL);
            if cells > cells_left && burst.payload > 0 {
                break;
            }
            let taken = taken(rest, cells, cells_left, flow.mtu);
            pieces += 1;
            burst.payload += taken;
            burst.packets += taken.div_ceil(flow.mtu);
            burst.wire += taken + taken.div_ceil(flow.mtu) * (PACKET_OVERHEAD + AETH);
            if taken < rest {
                state.answer_offset += taken;
                break;
            }
            burst.messages += 1;
            state.reads_owed -= 1;
            cells_left = cells_left.saturating_sub(cells);
            (state.answer, state.answer_offset) = (state.answer + 1, 0);
        }
        self.qps[qp as usize] = state;
        let ready = self.dma_read(burst.from, path, burst.payload, pieces);
        self.stage(burst, ready);
    }

    /// What the WQEs of a turn take of PCIe; they were read ahead, from the doorbell on.
    fn read_wqes(&mut self, at: Host, blocks: u64) {
        if blocks > 0 {
            self.dma_read(at, Path::Local, blocks * 64, blocks.div_ceil(8));
        }
    }

    /// Gathers what a turn does not have in its WQEs; a QP whose half-gathered list was given up has to gather again.
    fn gather(&mut self, burst: &Burst, bytes: u64, elements: u64, spilled: bool) -> Picos {
        if bytes == 0 {
            return self.now;
        }
        let flow = self.flow_of(burst.qp);
        let (path, mtu, reliable) = (flow.from_path, flow.mtu, flow.qp_type == QpType::Rc);
        if spilled && reliable {
            let (restage, now) = (self.costs.restage, self.now);
            let host = self.hosts.get_mut(burst.from);
            if !host.retained.touch(2 * burst.qp as usize, mtu) && restage > Picos::ZERO {
                host.pcie_read.serve(now, restage);
                host.restaged += restage;
                host.counts.tx_staging_miss += 1.0;
            }
        }
        self.dma_read(burst.from, path, bytes, elements.clamp(1, bytes.div_ceil(LINE)))
    }

    /// Hands a turn's packets to the wire, or to the internal loopback path, in the order in which turns began.
    fn stage(&mut self, mut burst: Burst, ready: Picos) {
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

/// Bytes that a turn takes of the `rest` of a message, `cells` long, when it has `cells_left`: all, or whole packets.
fn taken(rest: u64, cells: u64, cells_left: u64, mtu: u64) -> u64 {
    if cells <= cells_left { rest } else { rest.min((cells_left * CELL / mtu).max(1) * mtu) }
}

/// Credits that messages take.
pub fn credits(qp_type: QpType, op: Opcode, messages: u64) -> u32 {
    if qp_type == QpType::Rc && op == Opcode::Send { messages as u32 } else { 0 }
}

/// Bytes on the wire of a piece of a message.
fn wire_bytes(op: Opcode, qp_type: QpType, payload: u64, mtu: u64, first: bool) -> u64 {
    let per_packet = PACKET_OVERHEAD + if qp_type == QpType::Ud { DETH } else { 0 };
    payload + payload.div_ceil(mtu) * per_packet + if op == Opcode::Write && first { RETH } else { 0 }
}
