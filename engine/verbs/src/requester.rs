//! The posting side of a lane: chains of work requests from the request vector, and what their completions mean.

use std::ptr::null_mut;

use kelpie_engine::host::Count;
use kelpie_engine::plan::SendPlan;
use kelpie_spaces::{Mtu, Opcode};
use rdma_sys::{
    atomic_t, bind_mw_t, bind_mw_tso_union_t, ibv_mw_bind_info, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode,
    imm_data_invalidated_rkey_union_t, qp_type_t, rdma_t, ud_t, wr_t, xrc_t,
};

use crate::ah::Target;
use crate::qp::Qp;
use crate::rotation::{Place, Rotation};

/// Payload that may complete at a time where small messages share a completion.
/// Units: bytes. Source: our choice, because samples count completions and more would make slow devices look unsteady.
const SHARED_BYTES: u64 = 64 << 10;

/// Share of a send queue that may complete at a time: one in this many, so that it never runs low for that.
const SHARED_DEPTH: u32 = 4;

/// Bits of `wr_id` that hold the QP's index; those above hold how many batches the completion stands for.
const INDEX_BITS: u32 = 32;

/// Number of operations, for counts by `Opcode as usize`.
pub const OPCODES: usize = Opcode::ALL.len();

/// An element of the request vector, ready to be posted.
struct Prepared {
    op: Opcode,
    code: ibv_wr_opcode::Type,
    flags: u32,
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
    local: Place,
    remote: Place,
    /// Completed since the last refill. Units: work requests.
    harvested: u32,
    /// An error ended it.
    is_dead: bool,
}

/// Posting for all QPs of a lane.
pub struct Requester {
    requests: Vec<Prepared>,
    batch: u32,
    depth: u32,
    /// Batches that share a completion.
    shared: u32,
    local: Rotation,
    remote: Rotation,
    /// Where datagrams go, by QP; empty otherwise.
    targets: Vec<Target>,
    queues: Vec<Queue>,
    /// QPs with completions since the last refill.
    touched: Vec<u32>,
    outstanding: u64,
    counts: [Count; OPCODES],
    chain: Vec<ibv_send_wr>,
    /// Elements of the chain, `widest` for each request.
    elements: Vec<ibv_sge>,
    widest: usize,
    /// Place in the vector that the chain's form was last written for; addresses are written each time.
    formed_for: usize,
}

// SAFETY: the raw pointers are those of the chain into its own vectors, and of address handles; they move with it.
unsafe impl Send for Requester {}

impl Requester {
    /// For `qps` QPs whose send queues have room for `depth`.
    pub fn new(plan: &SendPlan, mtu: Mtu, qps: u32, depth: u32, memory: [Rotation; 2], targets: Vec<Target>) -> Self {
        let requests: Vec<Prepared> = plan.requests.iter().map(|request| prepared(request, mtu, plan.inline)).collect();
        let widest = requests.iter().map(|request| request.elements.len()).max().unwrap_or(1);
        let batch = plan.batch as usize;
        let mean = requests.iter().map(|request| request.bytes).sum::<u64>() / requests.len().max(1) as u64;
        let by_bytes = SHARED_BYTES / mean.saturating_mul(plan.batch.into()).max(1);
        let by_depth = u64::from(depth / SHARED_DEPTH / plan.batch);
        let [local, remote] = memory;
        let mut requester = Self {
            requests,
            batch: plan.batch,
            depth,
            shared: by_bytes.min(by_depth).max(1) as u32,
            local,
            remote,
            targets,
            queues: vec![Queue::default(); qps as usize],
            touched: Vec::with_capacity(qps as usize),
            outstanding: 0,
            counts: [Count::default(); OPCODES],
            chain: (0..batch).map(|_| empty_request()).collect(),
            elements: vec![ibv_sge { addr: 0, length: 0, lkey: 0 }; batch * widest],
            widest,
            formed_for: 0,
        };
        requester.link();
        requester.form(0);
        requester
    }

    /// Completed work by operation, `Opcode as usize`.
    pub fn counts(&self) -> &[Count; OPCODES] {
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
        let requests = self.batch * batches;
        let queue = &mut self.queues[index as usize];
        if queue.harvested == 0 {
            self.touched.push(index);
        }
        queue.harvested += requests;
        queue.outstanding = queue.outstanding.saturating_sub(requests);
        self.outstanding = self.outstanding.saturating_sub(requests.into());
        for _ in 0..requests {
            let request = &self.requests[queue.done];
            let count = &mut self.counts[request.op as usize];
            count.messages += 1;
            count.bytes += request.bytes;
            count.packets += request.packets;
            queue.done = after(queue.done, self.requests.len());
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
            let unseen = self.queues[index as usize].unsignalled * self.batch;
            self.prepare(index);
            // SAFETY: `link` ended the chain, `form` pointed it at elements of this requester, which outlive the call.
            if let Err(error) = unsafe { qp.post_send(self.chain.as_mut_ptr()) } {
                // Nothing will complete the batches that waited for this one's completion.
                let queue = &mut self.queues[index as usize];
                queue.is_dead = true;
                queue.outstanding = queue.outstanding.saturating_sub(unseen);
                self.outstanding = self.outstanding.saturating_sub(unseen.into());
                failed(index, &error);
                return;
            }
            self.queues[index as usize].outstanding += self.batch;
            self.outstanding += u64::from(self.batch);
        }
    }

    /// Strings the requests together and gives each its elements.
    fn link(&mut self) {
        let (first, last) = (self.chain.as_mut_ptr(), self.chain.len() - 1);
        let elements = self.elements.as_mut_ptr();
        for (position, request) in self.chain.iter_mut().enumerate() {
            request.sg_list = elements.wrapping_add(position * self.widest);
            request.next = if position == last { null_mut() } else { first.wrapping_add(position + 1) };
        }
    }

    /// Writes what a batch that begins at `next` in the vector has in common for all QPs.
    fn form(&mut self, mut next: usize) {
        self.formed_for = next;
        for (request, elements) in self.chain.iter_mut().zip(self.elements.chunks_mut(self.widest)) {
            let prepared = &self.requests[next];
            next = after(next, self.requests.len());
            request.num_sge = prepared.elements.len() as i32;
            request.opcode = prepared.code;
            request.send_flags = prepared.flags;
            for (element, length) in elements.iter_mut().zip(&prepared.elements) {
                element.length = *length;
            }
        }
    }

    /// Writes the next batch of a QP into the chain; at most its last request asks for a completion.
    fn prepare(&mut self, index: u32) {
        let qp = index as usize;
        if self.queues[qp].next != self.formed_for {
            self.form(self.queues[qp].next);
        }
        let queue = &mut self.queues[qp];
        let is_full = queue.outstanding + 2 * self.batch > self.depth;
        let signal = is_full || queue.unsignalled + 1 == self.shared;
        let batches = queue.unsignalled + 1;
        queue.unsignalled = if signal { 0 } else { batches };
        let wr_id = u64::from(batches) << INDEX_BITS | u64::from(index);
        let target = self.targets.get(qp);
        for (request, elements) in self.chain.iter_mut().zip(self.elements.chunks_mut(self.widest)) {
            let prepared = &self.requests[queue.next];
            queue.next = after(queue.next, self.requests.len());
            for element in &mut elements[..prepared.elements.len()] {
                (element.addr, element.lkey) = self.local.next(qp, &mut queue.local);
            }
            request.wr_id = wr_id;
            request.imm_data_invalidated_rkey_union = imm_data_invalidated_rkey_union_t { imm_data: index.to_be() };
            if let Some(target) = target {
                request.wr = wr_t { ud: target.named() };
            } else if !prepared.op.is_send() {
                let (remote_addr, rkey) = self.remote.next(qp, &mut queue.remote);
                request.wr = if prepared.op.is_atomic() {
                    // FETCH_ADD adds one; CMP_SWAP finds a zero once and then only compares.
                    wr_t {
                        atomic: atomic_t {
                            remote_addr,
                            compare_add: u64::from(prepared.op == Opcode::FetchAdd),
                            swap: 1,
                            rkey,
                        },
                    }
                } else {
                    wr_t { rdma: rdma_t { remote_addr, rkey } }
                };
            }
        }
        let last = self.chain.last_mut().expect("a batch is not empty");
        let signalled = ibv_send_flags::IBV_SEND_SIGNALED.0;
        last.send_flags = if signal { last.send_flags | signalled } else { last.send_flags & !signalled };
    }
}

/// The QP that a completion belongs to.
pub fn index_of(wr_id: u64) -> u32 {
    wr_id as u32
}

fn after(index: usize, len: usize) -> usize {
    if index + 1 == len { 0 } else { index + 1 }
}

fn prepared(request: &kelpie_spaces::Request, mtu: Mtu, inline: u64) -> Prepared {
    let bytes = request.message().0;
    let is_inline = bytes <= inline && !request.op.brings_back();
    Prepared {
        op: request.op,
        code: match request.op {
            Opcode::Send => ibv_wr_opcode::IBV_WR_SEND,
            Opcode::Write => ibv_wr_opcode::IBV_WR_RDMA_WRITE,
            Opcode::Read => ibv_wr_opcode::IBV_WR_RDMA_READ,
            Opcode::WriteWithImm => ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            Opcode::SendWithImm => ibv_wr_opcode::IBV_WR_SEND_WITH_IMM,
            Opcode::FetchAdd => ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
            Opcode::CmpSwap => ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP,
        },
        flags: if is_inline { ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 },
        elements: request.sge.iter().map(|size| size.0 as u32).collect(),
        bytes,
        packets: bytes.div_ceil(mtu.bytes()).max(1),
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
        wr: wr_t { ud: ud_t { ah: null_mut(), remote_qpn: 0, remote_qkey: 0 } },
        qp_type: qp_type_t { xrc: xrc_t { remote_srqn: 0 } },
        bind_mw_tso_union: bind_mw_tso_union_t { bind_mw: bind_mw_t { mw: null_mut(), rkey: 0, bind_info } },
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Bytes, Request};

    use super::*;
    use crate::rotation::Region;

    fn rotation(first: u64, key: u32, per_qp: usize, longest: u64) -> Rotation {
        let region = |index: usize| Region { address: first + index as u64 * 0x10_000, key: key + index as u32 };
        Rotation::new((0..2 * per_qp).map(region).collect(), per_qp, 8192, longest)
    }

    fn request(op: Opcode, sizes: &[u64]) -> Request {
        Request { op, sge: sizes.iter().map(|size| Bytes(*size)).collect() }
    }

    fn mtu() -> Mtu {
        Mtu::try_from(1024).expect("an MTU")
    }

    /// Two QPs; batches of four at depth eight.
    fn requester(requests: Vec<Request>, inline: u64) -> Requester {
        let plan = SendPlan { batch: 4, requests, inline };
        let memory = [rotation(0x100_0000, 10, 2, 4096), rotation(0x900_0000, 50, 1, 4196)];
        Requester::new(&plan, mtu(), 2, 8, memory, Vec::new())
    }

    /// A vector of a WRITE in two elements, a SEND and a READ.
    fn mixed() -> Requester {
        let requests =
            vec![request(Opcode::Write, &[4096, 100]), request(Opcode::Send, &[64]), request(Opcode::Read, &[2048])];
        requester(requests, 0)
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
            seen.push((request.opcode, request.send_flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0, elements));
            next = request.next;
        }
        seen
    }

    #[test]
    fn a_batch_is_one_chain_in_the_order_of_the_vector_with_one_completion() {
        let (write, send, read) =
            (ibv_wr_opcode::IBV_WR_RDMA_WRITE, ibv_wr_opcode::IBV_WR_SEND, ibv_wr_opcode::IBV_WR_RDMA_READ);
        let mut requester = mixed();
        requester.prepare(1);
        let first = walk(&requester);
        assert_eq!(first.iter().map(|(code, ..)| *code).collect::<Vec<_>>(), [write, send, read, write]);
        assert_eq!(first.iter().map(|(_, signalled, _)| *signalled).collect::<Vec<_>>(), [false, false, false, true]);
        // The second QP's MRs, in turn, and a place further with every round.
        assert_eq!(first[0].2, [(0x102_0000, 4096, 12), (0x103_0000, 100, 13)]);
        assert_eq!(first[1].2, [(0x102_1000, 64, 12)]);
        requester.prepare(1);
        let codes: Vec<_> = walk(&requester).into_iter().map(|(code, ..)| code).collect();
        assert_eq!(codes, [send, read, write, send], "the vector goes on where the last batch ended");
        requester.prepare(0);
        assert_eq!(walk(&requester)[0].0, write, "each QP has its own place in the vector");
        assert_eq!(walk(&requester)[0].2[1].1, 100, "and the form of the chain follows it");
    }

    #[test]
    fn one_sided_requests_rotate_over_the_peers_mrs() {
        let plan = SendPlan {
            batch: 4,
            requests: vec![request(Opcode::Write, &[4096]), request(Opcode::Send, &[64])],
            inline: 0,
        };
        let memory = [rotation(0x100_0000, 10, 1, 4096), rotation(0x900_0000, 50, 2, 4096)];
        let mut requester = Requester::new(&plan, mtu(), 2, 32, memory, Vec::new());
        let mut places = Vec::new();
        for _ in 0..3 {
            requester.prepare(1);
            // SAFETY: WRITE uses this member of the union.
            let remote = |at: usize| unsafe { requester.chain[at].wr.rdma };
            places.extend([0, 2].map(|at| (remote(at).remote_addr, remote(at).rkey)));
        }
        let (first, second) = (0x902_0000, 0x903_0000);
        let expected = [(first, 52), (second, 53), (first + 4096, 52), (second + 4096, 53), (first, 52), (second, 53)];
        assert_eq!(places, expected);
    }

    #[test]
    fn atomics_name_remote_memory_and_immediates_their_qp() {
        let mut requester = requester(
            vec![
                request(Opcode::FetchAdd, &[8]),
                request(Opcode::CmpSwap, &[8]),
                request(Opcode::WriteWithImm, &[100]),
            ],
            0,
        );
        requester.prepare(1);
        // SAFETY: atomics use this member of the union.
        let atomic = |at: usize| unsafe { requester.chain[at].wr.atomic };
        assert_eq!((atomic(0).remote_addr, atomic(0).rkey, atomic(0).compare_add), (0x901_0000, 51, 1));
        assert_eq!((atomic(1).remote_addr % 8, atomic(1).compare_add, atomic(1).swap), (0, 0, 1));
        // SAFETY: WRITE_WITH_IMM uses this member of the union.
        assert_eq!(u32::from_be(unsafe { requester.chain[2].imm_data_invalidated_rkey_union.imm_data }), 1);
    }

    #[test]
    fn what_fits_is_posted_inline_but_for_what_brings_data_back() {
        let inline = ibv_send_flags::IBV_SEND_INLINE.0;
        let vector = [(Opcode::Write, 64), (Opcode::Read, 64), (Opcode::Send, 65), (Opcode::SendWithImm, 32)];
        let requests = vector.map(|(op, size)| request(op, &[size])).to_vec();
        let mut requester = requester(requests, 64);
        requester.prepare(0);
        let flags: Vec<bool> = requester.chain.iter().map(|request| request.send_flags & inline != 0).collect();
        assert_eq!(flags, [true, false, false, true]);
    }

    #[test]
    fn a_completion_stands_for_its_batch() {
        let mut requester = mixed();
        requester.completed(1 << INDEX_BITS);
        let count = |messages, bytes, packets| Count { messages, bytes, packets };
        assert_eq!(requester.counts()[..3], [count(1, 64, 1), count(2, 2 * 4196, 2 * 5), count(1, 2048, 2)]);
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
            let plan = SendPlan { batch, requests: vec![request(Opcode::Write, &[message])], inline: 0 };
            let memory = [rotation(0, 1, 1, message), rotation(0, 1, 1, message)];
            let mut requester = Requester::new(&plan, mtu(), 1, depth, memory, Vec::new());
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
        let mut requester = mixed();
        assert!(requester.failed(1));
        assert!(!requester.failed(1));
        assert_eq!(requester.outstanding(), 0);
    }
}
