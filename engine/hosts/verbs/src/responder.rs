//! The receiving side of a lane: chains of receive requests, reposted a batch at a time, and what arrived.

use std::ptr::null_mut;

use kelpie_engine::plan::{GRH_SIZE, RecvPlan};
use kelpie_engine::verbs_host::CompletedWork;
use kelpie_spaces::{Mtu, Opcode, QpType};
use rdma_sys::{ibv_recv_wr, ibv_sge, ibv_wc, ibv_wc_flags, ibv_wc_opcode};

use crate::qp::Qp;
use crate::requester::{OPCODES, index_of};
use crate::rotation::{Rotation, RotationPosition};

/// One QP's progress.
#[derive(Clone, Default)]
struct ReceiveProgress {
    /// Room in the receive queue. Units: work requests.
    free: u32,
    place: RotationPosition,
    is_dead: bool,
}

/// Receiving for all QPs of a lane.
pub struct Responder {
    batch: u32,
    depth: u32,
    mtu: Mtu,
    /// What arrives before the payload. Units: bytes.
    header: u32,
    memory: Rotation,
    queues: Vec<ReceiveProgress>,
    touched: Vec<u32>,
    /// Received since the last refill. Units: messages.
    harvested: u64,
    /// Received since the CQ was last seen to hold less than a poll takes. Units: messages.
    backlog: u64,
    /// Received while its queues were left to run low. Units: messages.
    late: u64,
    counts: [CompletedWork; OPCODES],
    chain: Vec<ibv_recv_wr>,
    elements: Vec<ibv_sge>,
    width: usize,
}

// SAFETY: the raw pointers are those of the chain into its own vectors; they move with it.
unsafe impl Send for Responder {}

impl Responder {
    /// For `qps` QPs of this kind whose receive queues have room for `depth`.
    pub fn new(plan: &RecvPlan, kind: QpType, mtu: Mtu, qps: u32, depth: u32, memory: Rotation) -> Self {
        let (batch, width) = (plan.batch as usize, plan.elements.len());
        let element = |length: &u64| ibv_sge { addr: 0, length: *length as u32, lkey: 0 };
        let mut elements: Vec<ibv_sge> = plan.elements.iter().map(element).cycle().take(batch * width).collect();
        let (first, start) = (elements.as_mut_ptr(), |position: usize| position * width);
        let request = |position: usize| ibv_recv_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: first.wrapping_add(start(position)),
            num_sge: width as i32,
        };
        Self {
            batch: plan.batch,
            depth,
            mtu,
            header: if kind == QpType::Ud { GRH_SIZE as u32 } else { 0 },
            memory,
            queues: vec![ReceiveProgress { free: depth, ..ReceiveProgress::default() }; qps as usize],
            touched: Vec::with_capacity(qps as usize),
            harvested: 0,
            backlog: 0,
            late: 0,
            counts: [CompletedWork::default(); OPCODES],
            chain: (0..batch).map(request).collect(),
            elements,
            width,
        }
    }

    /// Received messages by operation, `Opcode as usize`.
    pub fn counts(&self) -> &[CompletedWork; OPCODES] {
        &self.counts
    }

    /// Messages that arrived while receive queues were left to run low: of each more than half had been used unnoticed,
    /// or of all together.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Posts as much as the queues hold, the last chain shorter if the depth is no multiple of the batch.
    pub fn fill_all(&mut self, qps: &[Qp]) -> Result<(), (u32, std::io::Error)> {
        for index in 0..self.queues.len() as u32 {
            while self.queues[index as usize].free > 0 {
                let length = self.queues[index as usize].free.min(self.batch);
                self.post(index, &qps[index as usize], length).map_err(|error| (index, error))?;
            }
        }
        Ok(())
    }

    /// Takes a received message.
    pub fn completed(&mut self, completion: &ibv_wc) {
        let bytes = u64::from(completion.byte_len.saturating_sub(self.header));
        let count = &mut self.counts[op_of(completion) as usize];
        count.messages += 1;
        count.bytes += bytes;
        count.packets += bytes.div_ceil(self.mtu.bytes()).max(1);
        self.harvested += 1;
        let index = index_of(completion.wr_id);
        let queue = &mut self.queues[index as usize];
        queue.free += 1;
        if queue.free == self.batch {
            self.touched.push(index);
        }
    }

    /// Takes an error completion; whether it is the QP's first.
    pub fn failed(&mut self, index: u32) -> bool {
        !std::mem::replace(&mut self.queues[index as usize].is_dead, true)
    }

    /// Reposts on the queues that have room for a batch. `is_behind`: the CQ held as much as a poll takes, so there may
    /// be more.
    pub fn refill(&mut self, qps: &[Qp], is_behind: bool, mut failed: impl FnMut(u32, &std::io::Error)) {
        self.notice_late(is_behind);
        while let Some(index) = self.touched.pop() {
            while !self.queues[index as usize].is_dead && self.queues[index as usize].free >= self.batch {
                if let Err(error) = self.post(index, &qps[index as usize], self.batch) {
                    self.queues[index as usize].is_dead = true;
                    failed(index, &error);
                }
            }
        }
    }

    fn notice_late(&mut self, is_behind: bool) {
        let half = self.queues.len() as u64 * u64::from(self.depth) / 2;
        let (before, harvested) = (self.backlog, std::mem::take(&mut self.harvested));
        self.backlog += harvested;
        if is_behind && self.backlog > half {
            self.late += if before > half { harvested } else { self.backlog };
        } else {
            let used = self.touched.iter().map(|index| self.queues[*index as usize].free);
            self.late += used.filter(|free| *free > self.batch.max(self.depth / 2)).map(u64::from).sum::<u64>();
        }
        if !is_behind {
            self.backlog = 0;
        }
    }

    fn post(&mut self, index: u32, qp: &Qp, length: u32) -> Result<(), std::io::Error> {
        self.prepare(index, length);
        // SAFETY: `prepare` ended the chain, whose requests point at elements of this responder, which outlive the
        // call.
        unsafe { qp.post_recv(self.chain.as_mut_ptr()) }?;
        self.queues[index as usize].free -= length;
        Ok(())
    }

    /// Writes a chain of the first `length` requests for a QP.
    fn prepare(&mut self, index: u32, length: u32) {
        let queue = &mut self.queues[index as usize];
        let last = length as usize - 1;
        for element in &mut self.elements[..length as usize * self.width] {
            (element.addr, element.lkey) = self.memory.next(index as usize, &mut queue.place);
        }
        let first = self.chain.as_mut_ptr();
        for (position, request) in self.chain[..=last].iter_mut().enumerate() {
            request.wr_id = index.into();
            request.next = if position == last { null_mut() } else { first.wrapping_add(position + 1) };
        }
    }
}

/// The operation that a receive completion belongs to.
fn op_of(completion: &ibv_wc) -> Opcode {
    if completion.opcode == ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM {
        Opcode::WriteWithImm
    } else if completion.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0 {
        Opcode::SendWithImm
    } else {
        Opcode::Send
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::rotation::RegisteredRegion;

    fn responder(kind: QpType, elements: Vec<u64>) -> Responder {
        let plan = RecvPlan { batch: 3, elements, ops: vec![Opcode::Send] };
        let regions = (0..2).map(|index| RegisteredRegion { address: index * 0x1_0000, key: index as u32 }).collect();
        let mtu = Mtu::try_from(1024).expect("an MTU");
        Responder::new(&plan, kind, mtu, 1, 4, Rotation::new(regions, 2, 8192, 4096))
    }

    /// Address, length and key of each element.
    type Elements = Vec<(u64, u32, u32)>;

    fn walk(responder: &Responder) -> Vec<Elements> {
        let mut seen = Vec::new();
        let mut next: *const ibv_recv_wr = responder.chain.as_ptr();
        while !next.is_null() {
            // SAFETY: the chain was prepared and lives in `responder`.
            let request = unsafe { &*next };
            let of = |at: usize| {
                // SAFETY: as above, for its elements.
                let element = unsafe { &*request.sg_list.add(at) };
                (element.addr, element.length, element.lkey)
            };
            seen.push((0..request.num_sge as usize).map(of).collect());
            next = request.next;
        }
        seen
    }

    #[test]
    fn every_element_of_the_receive_vector_is_posted_over_mrs_in_turn() {
        let mut responder = responder(QpType::Rc, vec![4096, 100]);
        responder.prepare(0, 3);
        let expected = [0, 4096, 0].map(|at| vec![(at, 4096, 0), (0x1_0000 + at, 100, 1)]);
        assert_eq!(walk(&responder), expected);
        responder.prepare(0, 2);
        assert_eq!(walk(&responder).len(), 2, "a short chain ends where it should");
        responder.prepare(0, 3);
        assert_eq!(walk(&responder).len(), 3, "and the next is whole again");
    }

    #[test]
    fn where_only_immediates_arrive_receives_are_empty() {
        let mut responder = responder(QpType::Rc, Vec::new());
        responder.prepare(0, 3);
        assert_eq!(walk(&responder), vec![Elements::new(); 3]);
    }

    #[test]
    fn what_arrived_is_counted_by_operation_without_the_header() {
        let mut responder = responder(QpType::Ud, vec![1064]);
        responder.queues[0].free = 0;
        let (recv, rdma) = (ibv_wc_opcode::IBV_WC_RECV, ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM);
        let imm = ibv_wc_flags::IBV_WC_WITH_IMM.0;
        for (opcode, flags, byte_len) in [(recv, 0, 1064), (recv, imm, 104), (rdma, imm, 2088)] {
            // SAFETY: all fields are integers and unions of them, for which zero is valid.
            let mut completion: ibv_wc = unsafe { MaybeUninit::zeroed().assume_init() };
            (completion.opcode, completion.wc_flags, completion.byte_len) = (opcode, flags, byte_len);
            responder.completed(&completion);
        }
        let seen = [Opcode::Send, Opcode::SendWithImm, Opcode::WriteWithImm].map(|op| responder.counts()[op as usize]);
        assert_eq!(
            seen.map(|count| (count.messages, count.bytes, count.packets)),
            [(1, 1024, 1), (1, 64, 1), (1, 2048, 2)]
        );
        assert_eq!(responder.touched, [0], "a batch may be posted again");
    }

    fn receive(responder: &mut Responder, qps: u64, messages: u64) {
        for message in 0..messages {
            // SAFETY: all fields are integers and unions of them, for which zero is valid.
            let mut completion: ibv_wc = unsafe { MaybeUninit::zeroed().assume_init() };
            completion.wr_id = message % qps;
            responder.completed(&completion);
        }
    }

    #[test]
    fn messages_are_late_when_more_than_half_of_the_receives_were_used_unnoticed() {
        let plan = RecvPlan { batch: 1, elements: vec![64], ops: vec![Opcode::Send] };
        let regions = || (0..1000).map(|index| RegisteredRegion { address: index * 4096, key: index as u32 }).collect();
        let mtu = Mtu::try_from(1024).expect("an MTU");
        let of = |qps, depth| {
            let mut responder =
                Responder::new(&plan, QpType::Rc, mtu, qps, depth, Rotation::new(regions(), 1, 4096, 64));
            responder.queues.iter_mut().for_each(|queue| queue.free = 0);
            responder
        };
        let mut one = of(1, 8);
        for (messages, late) in [(4, 0), (5, 5), (1, 5)] {
            receive(&mut one, 1, messages);
            one.notice_late(false);
            (one.queues[0].free, one.touched) = (0, Vec::new());
            assert_eq!(one.late(), late, "{messages}");
        }
        let mut many = of(1000, 2);
        for (polls, late) in [(31, 0), (1, 1024), (1, 1056)] {
            for _ in 0..polls {
                receive(&mut many, 1000, 32);
                many.notice_late(true);
                many.queues.iter_mut().for_each(|queue| queue.free = 0);
                many.touched.clear();
            }
            assert_eq!(many.late(), late);
        }
        many.notice_late(false);
        receive(&mut many, 1000, 32);
        many.notice_late(true);
        assert_eq!(many.late(), 1056, "it had caught up");
    }
}
