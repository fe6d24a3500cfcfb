//! The posting side of a group: chains of work requests from the request vector, and what their completions mean.

use std::ptr::null_mut;

use kelpie_engine::host::Count;
use kelpie_engine::plan::SendPlan;
use kelpie_spaces::{Mtu, Opcode};
use rdma_sys::{
    bind_mw_t, bind_mw_tso_union_t, ibv_mw_bind_info, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode,
    imm_data_invalidated_rkey_union_t, qp_type_t, rdma_t, wr_t, xrc_t,
};

use crate::qp::Qp;
use crate::rotation::{Region, Rotation};

/// Payload that may complete at a time where small messages share a completion.
/// Units: bytes. Source: our choice, because samples count completions and more would make slow devices look unsteady.
const SHARED_BYTES: u64 = 64 << 10;

/// Share of a send queue that may complete at a time: one in this many, so that it never runs low for that.
const SHARED_DEPTH: u32 = 4;

/// Bits of `wr_id` that hold the QP's index; those above hold how many batches the completion stands for.
const INDEX_BITS: u32 = 32;

/// An element of the request vector, ready to be posted.
struct Prepared {
    op: Opcode,
    code: ibv_wr_opcode::Type,
    elements: Vec<u32>,
    bytes: u64,
    packets: u64,
}

/// One QP's progress.
#[derive(Clone, Default)]
struct Queue {
    /// Posted and not completed. Units: work requests.
    outstanding: u32,
    /// Batches posted since the last that asks for a completion.
    unsignalled: u32,
    /// Next element of the vector to be posted.
    next: usize,
    /// Next element to complete.
    done: usize,
    local: Rotation,
    remote: Rotation,
    /// Completed since the last refill. Units: work requests.
    harvested: u32,
    /// An error ended it.
    is_dead: bool,
}

/// Posting for all QPs of a group.
pub struct Requester {
    requests: Vec<Prepared>,
    batch: u32,
    depth: u32,
    /// Batches that share a completion.
    shared: u32,
    local: Memories,
    remote: Memories,
    queues: Vec<Queue>,
    /// QPs with completions since the last refill.
    touched: Vec<u32>,
    outstanding: u64,
    /// By operation, in the order of `OPCODES`.
    counts: [Count; 3],
    chain: Vec<ibv_send_wr>,
    elements: Vec<ibv_sge>,
    widest: usize,
}

// SAFETY: the raw pointers are those of the chain into its own vectors; they move with it.
unsafe impl Send for Requester {}

/// The MRs of all QPs of one side, equally many each.
pub struct Memories {
    /// QP after QP.
    pub regions: Vec<Region>,
    /// Per QP.
    pub per_qp: usize,
    /// Units: bytes.
    pub size: u64,
}

impl Memories {
    /// Those of one QP.
    pub fn of(&self, qp: u32) -> &[Region] {
        &self.regions[qp as usize * self.per_qp..][..self.per_qp]
    }
}

/// The order of `Requester::counts`.
pub const OPCODES: [Opcode; 3] = [Opcode::Send, Opcode::Write, Opcode::Read];

impl Requester {
    /// For `qps` QPs whose send queues have room for `depth`.
    pub fn new(plan: &SendPlan, mtu: Mtu, qps: u32, depth: u32, local: Memories, remote: Memories) -> Self {
        let requests: Vec<Prepared> = plan
            .requests
            .iter()
            .map(|request| Prepared {
                op: request.op,
                code: match request.op {
                    Opcode::Send => ibv_wr_opcode::IBV_WR_SEND,
                    Opcode::Write => ibv_wr_opcode::IBV_WR_RDMA_WRITE,
                    Opcode::Read => ibv_wr_opcode::IBV_WR_RDMA_READ,
                },
                elements: request.sge.iter().map(|size| size.0 as u32).collect(),
                bytes: request.message().0,
                packets: request.message().0.div_ceil(mtu.bytes()).max(1),
            })
            .collect();
        let widest = requests.iter().map(|request| request.elements.len()).max().unwrap_or(1);
        let batch = plan.batch as usize;
        let mean = requests.iter().map(|request| request.bytes).sum::<u64>() / requests.len().max(1) as u64;
        let by_bytes = SHARED_BYTES / mean.saturating_mul(plan.batch.into()).max(1);
        let by_depth = u64::from(depth / SHARED_DEPTH / plan.batch);
        Self {
            requests,
            batch: plan.batch,
            depth,
            shared: by_bytes.min(by_depth).max(1) as u32,
            local,
            remote,
            queues: vec![Queue::default(); qps as usize],
            touched: Vec::with_capacity(qps as usize),
            outstanding: 0,
            counts: [Count::default(); 3],
            chain: (0..batch).map(|_| empty_request()).collect(),
            elements: vec![ibv_sge { addr: 0, length: 0, lkey: 0 }; batch * widest],
            widest,
        }
    }

    /// Completed work by operation.
    pub fn counts(&self) -> &[Count; 3] {
        &self.counts
    }

    /// Posted and not completed, on all QPs. Units: work requests.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Fills every send queue. An error is the hardware's and ends its QP.
    pub fn fill_all(&mut self, qps: &[Qp], mut failed: impl FnMut(u32, &std::io::Error)) {
        for index in 0..self.queues.len() as u32 {
            self.fill(index, &qps[index as usize], &mut failed);
        }
    }

    /// Takes a completion, which its QP and the number of its batches are read from.
    pub fn completed(&mut self, wr_id: u64) {
        let (index, batches) = (index_of(wr_id), (wr_id >> INDEX_BITS) as u32);
        let batch = self.batch * batches;
        let queue = &mut self.queues[index as usize];
        if queue.harvested == 0 {
            self.touched.push(index);
        }
        queue.harvested += batch;
        queue.outstanding = queue.outstanding.saturating_sub(batch);
        self.outstanding = self.outstanding.saturating_sub(batch.into());
        for _ in 0..batch {
            let request = &self.requests[queue.done];
            let count = &mut self.counts[slot(request.op)];
            count.messages += 1;
            count.bytes += request.bytes;
            count.packets += request.packets;
            queue.done = (queue.done + 1) % self.requests.len();
        }
    }

    /// Takes an error completion; whether it is the QP's first.
    pub fn failed(&mut self, index: u32) -> bool {
        let queue = &mut self.queues[index as usize];
        self.outstanding = self.outstanding.saturating_sub(queue.outstanding.into());
        queue.outstanding = 0;
        !std::mem::replace(&mut queue.is_dead, true)
    }

    /// Fills the queues that had completions again; how many had been left to run low.
    ///
    /// A queue ran low when more than half of it, and more than one batch, had completed unnoticed.
    pub fn refill(&mut self, qps: &[Qp], post: bool, mut failed: impl FnMut(u32, &std::io::Error)) -> u32 {
        let mut ran_low = 0;
        while let Some(index) = self.touched.pop() {
            let queue = &mut self.queues[index as usize];
            ran_low += u32::from(queue.harvested > self.batch.max(self.depth / 2));
            queue.harvested = 0;
            if post {
                self.fill(index, &qps[index as usize], &mut failed);
            }
        }
        ran_low
    }

    /// Posts until there is no room for a batch; the last batch always asks for a completion, so that nothing stays
    /// behind unseen when posting stops.
    fn fill(&mut self, index: u32, qp: &Qp, failed: &mut impl FnMut(u32, &std::io::Error)) {
        while !self.queues[index as usize].is_dead && self.queues[index as usize].outstanding + self.batch <= self.depth
        {
            self.prepare(index);
            // SAFETY: `prepare` ended the chain and pointed it at elements of this requester, which outlive the call.
            if let Err(error) = unsafe { qp.post_send(self.chain.as_mut_ptr()) } {
                self.queues[index as usize].is_dead = true;
                failed(index, &error);
                return;
            }
            self.queues[index as usize].outstanding += self.batch;
            self.outstanding += u64::from(self.batch);
        }
    }

    /// Writes the next batch of a QP into the chain; at most its last request asks for a completion.
    fn prepare(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        let (local, remote) = (self.local.of(index), self.remote.of(index));
        let is_full = queue.outstanding + 2 * self.batch > self.depth;
        let signal = is_full || queue.unsignalled + 1 == self.shared;
        let batches = queue.unsignalled + 1;
        queue.unsignalled = if signal { 0 } else { batches };
        let last = self.chain.len() - 1;
        let first = self.chain.as_mut_ptr();
        for (position, request) in self.chain.iter_mut().enumerate() {
            let prepared = &self.requests[queue.next];
            queue.next = (queue.next + 1) % self.requests.len();
            let elements = &mut self.elements[position * self.widest..][..prepared.elements.len()];
            for (element, &length) in elements.iter_mut().zip(&prepared.elements) {
                let (addr, lkey) = queue.local.next(local, self.local.size, length.into());
                *element = ibv_sge { addr, length, lkey };
            }
            request.wr_id = u64::from(batches) << INDEX_BITS | u64::from(index);
            request.sg_list = elements.as_mut_ptr();
            request.num_sge = elements.len() as i32;
            request.opcode = prepared.code;
            if prepared.op != Opcode::Send {
                let (remote_addr, rkey) = queue.remote.next(remote, self.remote.size, prepared.bytes);
                request.wr.rdma = rdma_t { remote_addr, rkey };
            }
            let is_last = position == last;
            request.send_flags = if is_last && signal { ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
            request.next = if is_last { null_mut() } else { first.wrapping_add(position + 1) };
        }
    }
}

/// The QP that a completion belongs to.
pub fn index_of(wr_id: u64) -> u32 {
    wr_id as u32
}

fn slot(op: Opcode) -> usize {
    match op {
        Opcode::Send => 0,
        Opcode::Write => 1,
        Opcode::Read => 2,
    }
}

fn empty_request() -> ibv_send_wr {
    let bind_info = ibv_mw_bind_info { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 };
    ibv_send_wr {
        wr_id: 0,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
        opcode: ibv_wr_opcode::IBV_WR_SEND,
        send_flags: 0,
        imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t { imm_data: 0 },
        wr: wr_t { rdma: rdma_t { remote_addr: 0, rkey: 0 } },
        qp_type: qp_type_t { xrc: xrc_t { remote_srqn: 0 } },
        bind_mw_tso_union: bind_mw_tso_union_t { bind_mw: bind_mw_t { mw: null_mut(), rkey: 0, bind_info } },
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Bytes, Request};

    use super::*;

    fn memories(first: u64, key: u32, per_qp: usize) -> Memories {
        let region = |index: usize| Region { address: first + index as u64 * 0x10_000, key: key + index as u32 };
        Memories { regions: (0..2 * per_qp).map(region).collect(), per_qp, size: 8192 }
    }

    /// Two QPs; a vector of a WRITE in two elements, a SEND and a READ; batches of four at depth eight.
    fn requester() -> Requester {
        let request = |op, sizes: &[u64]| Request { op, sge: sizes.iter().map(|size| Bytes(*size)).collect() };
        let requests =
            vec![request(Opcode::Write, &[4096, 100]), request(Opcode::Send, &[64]), request(Opcode::Read, &[2048])];
        let plan = SendPlan { batch: 4, requests };
        let mtu = Mtu::try_from(1024).expect("an MTU");
        Requester::new(&plan, mtu, 2, 8, memories(0x100_0000, 10, 2), memories(0x900_0000, 50, 1))
    }

    /// Opcode, whether a completion is asked for, and address, length and key of each element.
    type Seen = (ibv_wr_opcode::Type, bool, Vec<(u64, u32, u32)>);

    /// Follows the chain as a device does.
    fn walk(requester: &Requester) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut next: *const ibv_send_wr = requester.chain.as_ptr();
        while !next.is_null() {
            // SAFETY: the chain was prepared and lives in `requester`.
            let request = unsafe { &*next };
            // SAFETY: as above, for its elements.
            let elements = unsafe { std::slice::from_raw_parts(request.sg_list, request.num_sge as usize) };
            let elements = elements.iter().map(|element| (element.addr, element.length, element.lkey)).collect();
            seen.push((request.opcode, request.send_flags == ibv_send_flags::IBV_SEND_SIGNALED.0, elements));
            next = request.next;
        }
        seen
    }

    #[test]
    fn a_batch_is_one_chain_in_the_order_of_the_vector_with_one_completion() {
        let (write, send, read) =
            (ibv_wr_opcode::IBV_WR_RDMA_WRITE, ibv_wr_opcode::IBV_WR_SEND, ibv_wr_opcode::IBV_WR_RDMA_READ);
        let mut requester = requester();
        requester.prepare(1);
        let first = walk(&requester);
        assert_eq!(first.iter().map(|(code, ..)| *code).collect::<Vec<_>>(), [write, send, read, write]);
        assert_eq!(first.iter().map(|(_, signalled, _)| *signalled).collect::<Vec<_>>(), [false, false, false, true]);
        // The second QP's MRs, in turn.
        assert_eq!(first[0].2, [(0x102_0000, 4096, 12), (0x103_0000, 100, 13)]);
        assert_eq!(first[1].2, [(0x102_0040, 64, 12)]);
        requester.prepare(1);
        let codes: Vec<_> = walk(&requester).into_iter().map(|(code, ..)| code).collect();
        assert_eq!(codes, [send, read, write, send], "the vector goes on where the last batch ended");
        requester.prepare(0);
        assert_eq!(walk(&requester)[0].0, write, "each QP has its own place in the vector");
    }

    #[test]
    fn one_sided_requests_walk_through_the_peers_memory() {
        let mut requester = requester();
        requester.prepare(1);
        // SAFETY: WRITE and READ use this member of the union.
        let remote = |at: usize| unsafe { requester.chain[at].wr.rdma };
        let places: Vec<(u64, u32)> = [0, 2, 3].map(|at| (remote(at).remote_addr, remote(at).rkey)).to_vec();
        // 4,196 bytes leave room for one place in 8 KiB, 2,048 for four.
        assert_eq!(places, [(0x901_0000, 51), (0x901_0800, 51), (0x901_0000, 51)]);
    }

    #[test]
    fn a_completion_stands_for_its_batch() {
        let mut requester = requester();
        requester.completed(1 << INDEX_BITS);
        let count = |messages, bytes, packets| Count { messages, bytes, packets };
        assert_eq!(requester.counts(), &[count(1, 64, 1), count(2, 2 * 4196, 2 * 5), count(1, 2048, 2)]);
        requester.completed(1 << INDEX_BITS);
        assert_eq!(requester.counts()[0], count(3, 3 * 64, 3), "the second batch begins with the SEND");
        assert_eq!(requester.refill(&[], false, |_, _| ()), 1, "both batches of the depth were found at once");
        requester.completed(1 << INDEX_BITS | 1);
        assert_eq!(requester.refill(&[], false, |_, _| ()), 0);
    }

    #[test]
    fn small_messages_share_a_completion_and_the_last_of_a_full_queue_has_one() {
        // Message, depth, batch; batches per completion, from the first to the one that fills the queue.
        let table: [(u64, u32, u32, &[u32]); 5] = [
            (64, 16, 1, &[4, 4, 4, 4]),
            (64, 11, 1, &[2, 2, 2, 2, 2, 1]),
            (64, 32, 8, &[1, 1, 1, 1]),
            (64 << 10, 4, 1, &[1, 1, 1, 1]),
            (16 << 10, 64, 1, &[4; 16]),
        ];
        for (message, depth, batch, expected) in table {
            let plan = SendPlan { batch, requests: vec![Request { op: Opcode::Write, sge: vec![Bytes(message)] }] };
            let mtu = Mtu::try_from(1024).expect("an MTU");
            let (local, remote) = (memories(0, 1, 1), memories(0, 1, 1));
            let mut requester = Requester::new(&plan, mtu, 1, depth, local, remote);
            let mut seen = Vec::new();
            while requester.queues[0].outstanding + batch <= depth {
                requester.prepare(0);
                requester.queues[0].outstanding += batch;
                let last = requester.chain.last().expect("a batch is not empty");
                if last.send_flags != 0 {
                    seen.push((last.wr_id >> INDEX_BITS) as u32);
                }
            }
            assert_eq!(seen, expected, "{message} bytes, depth {depth}, batch {batch}");
            assert_eq!(seen.iter().sum::<u32>() * batch, requester.queues[0].outstanding, "none is left out");
        }
    }

    #[test]
    fn an_error_is_told_once_and_ends_its_queue() {
        let mut requester = requester();
        assert!(requester.failed(1));
        assert!(!requester.failed(1));
        assert_eq!(requester.outstanding(), 0);
    }
}
