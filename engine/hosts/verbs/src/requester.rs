//! The posting side of a lane: chains of work requests from the request vector, and what their completions mean.

use std::io;
use std::ops::Range;
use std::ptr::null_mut;
use std::time::Instant;

use kelpie_engine::plan::SendPlan;
use kelpie_engine::verbs_host::CompletedWork;
use kelpie_spaces::{Mtu, Opcode};
use rdma_sys::{
    atomic_t, bind_mw_t, bind_mw_tso_union_t, ibv_mw_bind_info, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode,
    imm_data_invalidated_rkey_union_t, qp_type_t, rdma_t, ud_t, wr_t, xrc_t,
};

use crate::ah::DatagramTarget;
use crate::latency::{ByOp, LatencyTimer};
use crate::pace::Pace;
use crate::qp::Qp;
use crate::rotation::{Rotation, RotationPosition};

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
struct PreparedRequest {
    op: Opcode,
    code: ibv_wr_opcode::Type,
    flags: u32,
    elements: Vec<u32>,
    bytes: u64,
    packets: u64,
}

/// One QP's progress.
#[derive(Clone, Default)]
struct SendProgress {
    /// Posted and not completed. Units: work requests.
    outstanding: u32,
    /// Batches posted since the last that asks for a completion.
    unsignalled: u32,
    /// Next element of the vector to be posted.
    next: usize,
    /// Next element to complete.
    done: usize,
    local: RotationPosition,
    remote: RotationPosition,
    /// Completed since the last refill. Units: work requests.
    harvested: u32,
    /// An error ended it.
    is_dead: bool,
}

/// Posting for all QPs of a lane.
pub struct Requester {
    /// First of its QPs in the flow.
    first: u32,
    requests: Vec<PreparedRequest>,
    batch: u32,
    depth: u32,
    /// Batches that share a completion.
    shared: u32,
    local: Rotation,
    remote: Rotation,
    /// Where datagrams go, by QP; empty otherwise.
    targets: Vec<DatagramTarget>,
    queues: Vec<SendProgress>,
    /// QPs with completions since the last refill.
    touched: Vec<u32>,
    /// Completed since the CQ was last seen to hold less than a poll takes. Units: work requests.
    backlog: u64,
    outstanding: u64,
    counts: [CompletedWork; OPCODES],
    chain: Vec<ibv_send_wr>,
    /// Elements of the chain, `widest` for each request.
    elements: Vec<ibv_sge>,
    widest: usize,
    /// Place in the vector that the chain's form was last written for; addresses are written each time.
    formed_for: usize,
    /// If requests are timed.
    timer: Option<LatencyTimer>,
    /// If QPs pause between their posts.
    pace: Option<Pace>,
}

// SAFETY: the raw pointers are those of the chain into its own vectors, and of address handles; they move with it.
unsafe impl Send for Requester {}

impl Requester {
    /// For these QPs of a flow, whose send queues have room for `depth`.
    pub fn new(
        plan: &SendPlan,
        mtu: Mtu,
        qps: Range<u32>,
        depth: u32,
        memory: [Rotation; 2],
        targets: Vec<DatagramTarget>,
    ) -> Self {
        let (first, qps) = (qps.start, qps.end - qps.start);
        let requests: Vec<PreparedRequest> =
            plan.requests.iter().map(|request| prepared(request, mtu, plan.inline)).collect();
        let widest = requests.iter().map(|request| request.elements.len()).max().unwrap_or(1);
        let batch = plan.batch as usize;
        let mean = requests.iter().map(|request| request.bytes).sum::<u64>() / requests.len().max(1) as u64;
        let by_bytes = SHARED_BYTES / mean.saturating_mul(plan.batch.into()).max(1);
        let by_depth = u64::from(depth / SHARED_DEPTH / plan.batch);
        let [local, remote] = memory;
        let ops = plan.requests.iter().map(|request| request.op);
        // A pause holds back what a shared completion waits for, and traffic may end meanwhile.
        let shared = if plan.pause.is_zero() { by_bytes.min(by_depth).max(1) as u32 } else { 1 };
        let timer = plan.latency.then(|| LatencyTimer::new(ops, qps, depth / plan.batch, Instant::now()));
        let mut requester = Self {
            first,
            requests,
            batch: plan.batch,
            depth,
            shared,
            local,
            remote,
            targets,
            queues: vec![SendProgress::default(); qps as usize],
            touched: Vec::with_capacity(qps as usize),
            backlog: 0,
            outstanding: 0,
            counts: [CompletedWork::default(); OPCODES],
            chain: (0..batch).map(|_| empty_request()).collect(),
            elements: vec![ibv_sge { addr: 0, length: 0, lkey: 0 }; batch * widest],
            widest,
            formed_for: 0,
            timer,
            pace: (!plan.pause.is_zero()).then(|| Pace::new(plan.pause, qps)),
        };
        requester.link();
        requester.form(0);
        requester
    }

    /// Completed work by operation, `Opcode as usize`.
    pub fn counts(&self) -> &[CompletedWork; OPCODES] {
        &self.counts
    }

    /// Posted and not completed, on all QPs. Units: work requests.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Fills every send queue. An error is the hardware's and ends its QP.
    pub fn fill_all(&mut self, qps: &[Qp], mut failed: impl FnMut(u32, &io::Error)) {
        for index in 0..self.queues.len() as u32 {
            self.fill(index, &qps[index as usize], &mut failed);
        }
    }

    /// Posts for the QPs whose pause is over. An error is the hardware's and ends its QP.
    pub fn post_due(&mut self, qps: &[Qp], mut failed: impl FnMut(u32, &io::Error)) {
        if self.pace.is_none() {
            return;
        }
        let now = Instant::now();
        while let Some(index) = self.pace.as_mut().and_then(|pace| pace.due(now)) {
            self.fill(index, &qps[index as usize], &mut failed);
        }
    }

    /// The completions that come next were polled just now.
    pub fn polled(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.polled(Instant::now());
        }
    }

    /// Takes a completion, which its QP and the number of its batches are read from.
    pub fn completed(&mut self, wr_id: u64) {
        let (index, batches) = (index_of(wr_id), (wr_id >> INDEX_BITS) as u32);
        let queue = &mut self.queues[index as usize];
        let requests = self.batch.saturating_mul(batches).min(self.depth);
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
        if let Some(timer) = &mut self.timer {
            let last = queue.done.checked_sub(1).unwrap_or(self.requests.len() - 1);
            timer.completed(index, self.requests[last].op);
        }
    }

    /// Takes an error completion; whether it is the QP's first.
    pub fn failed(&mut self, index: u32) -> bool {
        let queue = &mut self.queues[index as usize];
        self.outstanding = self.outstanding.saturating_sub(queue.outstanding.into());
        queue.outstanding = 0;
        if let Some(timer) = &mut self.timer {
            timer.forget(index);
        }
        !std::mem::replace(&mut queue.is_dead, true)
    }

    /// Fills the queues that had completions again; how many had been left to run low. `is_behind`: the CQ held as much
    /// as a poll takes, so there may be more.
    ///
    /// A queue ran low when more than half of it, and more than one batch, had completed unnoticed. Of many QPs a poll
    /// sees a few completions each; there all ran low when half of what they hold together has come without the CQ
    /// being empty in between. Of QPs that pause between posts all that wait have run low.
    pub fn refill(&mut self, qps: &[Qp], post: bool, is_behind: bool, mut failed: impl FnMut(u32, &io::Error)) -> u32 {
        let mut ran_low = 0;
        while let Some(index) = self.touched.pop() {
            let queue = &mut self.queues[index as usize];
            ran_low += u32::from(queue.harvested > self.batch.max(self.depth / 2));
            self.backlog += u64::from(queue.harvested);
            queue.harvested = 0;
            if post {
                self.fill(index, &qps[index as usize], &mut failed);
            }
        }
        if let Some(pace) = &self.pace {
            return pace.waiting();
        }
        let all = self.queues.len() as u64;
        if !is_behind {
            self.backlog = 0;
        } else if self.backlog > all * u64::from(self.depth) / 2 {
            return all as u32;
        }
        ran_low
    }

    /// Room for latencies, for `exchange_latencies`; none where requests are not timed.
    pub fn room_for_latencies(&self) -> ByOp {
        self.timer.as_ref().map(LatencyTimer::room).unwrap_or_default()
    }

    /// Gives the latencies since the last exchange in return for room.
    pub fn exchange_latencies(&mut self, room: &mut ByOp) {
        if let Some(timer) = &mut self.timer {
            timer.exchange(room);
        }
    }

    /// Posts until there is no room for a batch.
    fn fill(&mut self, index: u32, qp: &Qp, failed: &mut impl FnMut(u32, &io::Error)) {
        // SAFETY: `link` ended the chain, `form` pointed it at elements of this requester, which outlive the call.
        self.fill_by(index, |chain| unsafe { qp.post_send(chain) }, failed);
    }

    /// Posts by `post` until there is no room for a batch; the last batch always asks for a completion, so that nothing
    /// stays behind unseen when posting stops.
    fn fill_by(
        &mut self,
        index: u32,
        mut post: impl FnMut(*mut ibv_send_wr) -> io::Result<()>,
        failed: &mut impl FnMut(u32, &io::Error),
    ) {
        while self.may_post(index) {
            let unseen = self.queues[index as usize].unsignalled * self.batch;
            let signal = self.prepare(index);
            // A clock costs as much as a post: only who asked for latency pays.
            let posted = (signal && self.timer.is_some()).then(Instant::now);
            if let Err(error) = post(self.chain.as_mut_ptr()) {
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
            if let (Some(timer), Some(posted)) = (&mut self.timer, posted) {
                timer.posted(index, posted);
            }
            if let Some(pace) = &mut self.pace {
                pace.posted(index, Instant::now());
            }
        }
    }

    /// Whether a QP lives, has room for a batch and does not pause.
    fn may_post(&self, index: u32) -> bool {
        let queue = &self.queues[index as usize];
        let has_room = !queue.is_dead && queue.outstanding + self.batch <= self.depth;
        has_room && self.pace.as_ref().is_none_or(|pace| !pace.waits(index))
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

    /// Writes the next batch of a QP into the chain; whether its last request asks for a completion, others never do.
    fn prepare(&mut self, index: u32) -> bool {
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
            request.imm_data_invalidated_rkey_union =
                imm_data_invalidated_rkey_union_t { imm_data: (self.first + index).to_be() };
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
        signal
    }
}

/// The QP that a completion belongs to.
pub fn index_of(wr_id: u64) -> u32 {
    wr_id as u32
}

fn after(index: usize, len: usize) -> usize {
    if index + 1 == len { 0 } else { index + 1 }
}

fn prepared(request: &kelpie_spaces::Request, mtu: Mtu, inline: u64) -> PreparedRequest {
    let bytes = request.message().0;
    let is_inline = bytes <= inline && !request.op.brings_back();
    PreparedRequest {
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
mod tests;
