//! The receiving side of a group: chains of receive requests, reposted a batch at a time, and what arrived.

use std::ptr::null_mut;

use kelpie_engine::host::Count;
use kelpie_engine::plan::RecvPlan;
use kelpie_spaces::Mtu;
use rdma_sys::{ibv_recv_wr, ibv_sge};

use crate::qp::Qp;
use crate::requester::Memories;
use crate::rotation::Rotation;

/// One QP's progress.
#[derive(Clone, Default)]
struct Queue {
    /// Room in the receive queue. Units: work requests.
    free: u32,
    memory: Rotation,
    is_dead: bool,
}

/// Receiving for all QPs of a group.
pub struct Responder {
    lengths: Vec<u32>,
    batch: u32,
    mtu: Mtu,
    memories: Memories,
    queues: Vec<Queue>,
    touched: Vec<u32>,
    count: Count,
    chain: Vec<ibv_recv_wr>,
    elements: Vec<ibv_sge>,
}

// SAFETY: the raw pointers are those of the chain into its own vectors; they move with it.
unsafe impl Send for Responder {}

impl Responder {
    /// For `qps` QPs whose receive queues have room for `depth`.
    pub fn new(plan: &RecvPlan, mtu: Mtu, qps: u32, depth: u32, memories: Memories) -> Self {
        let batch = plan.batch as usize;
        let empty = || ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 0 };
        Self {
            lengths: plan.elements.iter().map(|length| *length as u32).collect(),
            batch: plan.batch,
            mtu,
            memories,
            queues: vec![Queue { free: depth, ..Queue::default() }; qps as usize],
            touched: Vec::with_capacity(qps as usize),
            count: Count::default(),
            chain: (0..batch).map(|_| empty()).collect(),
            elements: vec![ibv_sge { addr: 0, length: 0, lkey: 0 }; batch * plan.elements.len()],
        }
    }

    /// Received messages.
    pub fn count(&self) -> Count {
        self.count
    }

    /// Posts as much as the queues hold, the last chain shorter where the depth is no multiple of the batch.
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
    pub fn completed(&mut self, index: u32, bytes: u32) {
        self.count.messages += 1;
        self.count.bytes += u64::from(bytes);
        self.count.packets += u64::from(bytes).div_ceil(self.mtu.bytes()).max(1);
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

    /// Reposts on the queues that have room for a batch.
    pub fn refill(&mut self, qps: &[Qp], mut failed: impl FnMut(u32, &std::io::Error)) {
        while let Some(index) = self.touched.pop() {
            while !self.queues[index as usize].is_dead && self.queues[index as usize].free >= self.batch {
                if let Err(error) = self.post(index, &qps[index as usize], self.batch) {
                    self.queues[index as usize].is_dead = true;
                    failed(index, &error);
                }
            }
        }
    }

    fn post(&mut self, index: u32, qp: &Qp, length: u32) -> Result<(), std::io::Error> {
        let queue = &mut self.queues[index as usize];
        let regions = self.memories.of(index);
        let width = self.lengths.len();
        let last = length as usize - 1;
        let first = self.chain.as_mut_ptr();
        for (position, request) in self.chain[..=last].iter_mut().enumerate() {
            let elements = &mut self.elements[position * width..][..width];
            for (element, &length) in elements.iter_mut().zip(&self.lengths) {
                let (addr, lkey) = queue.memory.next(regions, self.memories.size, length.into());
                *element = ibv_sge { addr, length, lkey };
            }
            request.wr_id = index.into();
            request.sg_list = elements.as_mut_ptr();
            request.num_sge = width as i32;
            request.next = if position == last { null_mut() } else { first.wrapping_add(position + 1) };
        }
        // SAFETY: the chain was ended above and points at elements of this responder, which outlive the call.
        unsafe { qp.post_recv(first) }?;
        queue.free -= length;
        Ok(())
    }
}
