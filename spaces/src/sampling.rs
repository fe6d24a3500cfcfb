//! Sampling a random point of a space: the prior of every dimension. Moving from a point lives in `moves`.

use rand::{Rng, RngExt};

use crate::dimensions::{Dimension, TABLE, device};
use crate::domains::TransportChoice;
use crate::edit::{recut, set, split_evenly};
use crate::repair::{Keep, fit};
use crate::sides::{set_bidirectional, set_loopback};
use crate::space::Space;
use crate::units::Bytes;
use crate::workload::{Batch, Depths, Flow, Host, Memory, MemoryPair, Opcode, QpType, Request, Workload};

/// How often send and receive side of a queue are sampled equal. Source: our choice, because applications mostly size
/// both alike.
const EQUAL_SIDES: f64 = 0.75;
/// How often a vector has its fewest requests, a request its fewest elements, and an optional dimension its least
/// value. Source: our choice, because simple traffic is common.
const FEWEST: f64 = 0.5;
/// How often the responder also sends to itself. Source: our choice, because traffic within a host is the exception,
/// and its anomaly (Collie, 13) would hide the others behind every second point.
const LOOPBACK: f64 = 0.12;
/// How often memory is near: on the first device of its side, which is the NIC's own NUMA node. Source: our choice,
/// because applications place buffers near, and far memory alone limits nearly all traffic (Collie, 11 and 12).
const NEAR_MEMORY: f64 = 0.95;
/// Tries before the least demanding point is taken. Source: our choice, because one try fits nearly always.
const TRIES: usize = 16;

/// One of a non-empty slice.
pub(crate) fn pick<T: Copy, R: Rng + ?Sized>(items: &[T], rng: &mut R) -> T {
    items[rng.random_range(0..items.len() as u64) as usize]
}

impl Space {
    /// A random point: always valid, always inside, the same for the same state of `rng`.
    ///
    /// Counts, depths and sizes are uniform over the steps of their domain, hence about log-uniform.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Workload {
        for _ in 0..TRIES {
            let mut workload = self.try_sample(rng);
            if fit(self.domains(), &mut workload, Keep::NOTHING).is_some() && self.contains(&workload) {
                return workload;
            }
        }
        self.least(pick(self.transports(), rng))
    }

    fn try_sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Workload {
        let transport = pick(self.transports(), rng);
        let (send, recv) = self.pair(Dimension::SendWqDepth, Dimension::RecvWqDepth, rng);
        let wq_depth = Depths { send, recv };
        let (send, recv) = self.pair(Dimension::SendBatch, Dimension::RecvBatch, rng);
        let batch = Batch { send, recv };
        let qps = self.one(Dimension::Qps, rng) as u32;
        let mrs = self.one(Dimension::Mrs, rng) as u32;
        let mr_size = Bytes(self.one(Dimension::MrSize, rng));
        let mut memory = |dimension| {
            let near = rng.random_bool(NEAR_MEMORY);
            let code = if near { self.domain(dimension).min() } else { self.one(dimension, rng) };
            Memory { device: device(code), mrs, mr_size }
        };
        let memory = MemoryPair { from: memory(Dimension::MemoryRequester), to: memory(Dimension::MemoryResponder) };
        let flow = Flow {
            qp_type: transport.qp_type,
            qps,
            mtu: transport.mtu,
            wq_depth,
            batch,
            pattern: self.pattern(transport, rng),
            memory,
            ..Flow::plain(Host::A, Host::B)
        };
        let mut workload = Workload::new(vec![flow]);
        set_bidirectional(&mut workload, self.one(Dimension::Bidirectional, rng) == 1);
        let wanted = rng.random_bool(LOOPBACK);
        set_loopback(&mut workload, self.domain(Dimension::Loopback).nearest(wanted.into()) == 1);
        for row in TABLE.iter().filter(|row| row.optional().is_some()) {
            // No random number for what has no choice, so that a new optional dimension changes no other space.
            let has_choice = self.domain(row.dimension).steps().len() > 1;
            let value = if has_choice { self.few(row.dimension, rng) as u64 } else { self.domain(row.dimension).min() };
            set(&mut workload, row.dimension, value);
        }
        workload
    }

    fn one<R: Rng + ?Sized>(&self, dimension: Dimension, rng: &mut R) -> u64 {
        pick(self.domain(dimension).steps(), rng)
    }

    /// Both sides of a queue.
    fn pair<R: Rng + ?Sized>(&self, send: Dimension, recv: Dimension, rng: &mut R) -> (u32, u32) {
        let first = self.one(send, rng);
        let equal = rng.random_bool(EQUAL_SIDES) && self.domain(recv).contains(first);
        let second = if equal { first } else { self.one(recv, rng) };
        (first as u32, second as u32)
    }

    /// The fewest half of the time, else any.
    pub(crate) fn few<R: Rng + ?Sized>(&self, dimension: Dimension, rng: &mut R) -> usize {
        let domain = self.domain(dimension);
        let value = if rng.random_bool(FEWEST) { domain.min() } else { self.one(dimension, rng) };
        value as usize
    }

    fn pattern<R: Rng + ?Sized>(&self, transport: TransportChoice, rng: &mut R) -> Vec<Request> {
        let len = self.few(Dimension::Requests, rng);
        let elements = self.few(Dimension::SgeCount, rng);
        let mut pattern = self.requests(transport, len, elements, rng);
        if self.admits(Dimension::MixedOpcodes, true) && rng.random_bool(0.5) {
            let ops: Vec<Opcode> = self
                .transports()
                .iter()
                .filter(|other| other.qp_type == transport.qp_type && other.mtu == transport.mtu)
                .map(|other| other.op)
                .collect();
            for request in &mut pattern {
                request.op = pick(&ops, rng);
            }
        }
        pattern
    }

    /// A vector of this many requests with this many elements: one size throughout, a blend of two, or all independent.
    pub(crate) fn requests<R: Rng + ?Sized>(
        &self,
        transport: TransportChoice,
        len: usize,
        elements: usize,
        rng: &mut R,
    ) -> Vec<Request> {
        let style = rng.random_range(0..4u32);
        let (one, other) = (self.request(transport, elements, rng), self.request(transport, elements, rng));
        (0..len)
            .map(|_| match style {
                0 | 1 => one.clone(),
                2 if rng.random_bool(0.5) => one.clone(),
                2 => other.clone(),
                _ => self.request(transport, elements, rng),
            })
            .collect()
    }

    /// A request with this many elements, even or mixed.
    pub(crate) fn request<R: Rng + ?Sized>(&self, transport: TransportChoice, elements: usize, rng: &mut R) -> Request {
        let message = self.message(transport, rng);
        let mut request = Request { op: transport.op, sge: vec![Bytes(0); elements] };
        if elements > 1 && rng.random_bool(0.5) {
            self.mixed_elements(&mut request, transport, message, rng);
        } else {
            split_evenly(&mut request, message);
        }
        request
    }

    /// One element of the whole size and short ones around it; where that passes a bound, the size is cut up instead.
    fn mixed_elements<R: Rng + ?Sized>(
        &self,
        request: &mut Request,
        transport: TransportChoice,
        message: u64,
        rng: &mut R,
    ) {
        let large = rng.random_range(0..request.sge.len() as u64) as usize;
        for (index, size) in request.sge.iter_mut().enumerate() {
            *size = Bytes(if index == large { message } else { 64 << rng.random_range(0..5u32) });
        }
        let total = request.message().0;
        if total > longest(transport) || !self.domain(Dimension::Message).contains(total) {
            let elements = request.sge.len();
            request.sge = vec![Bytes(message - message / 8), Bytes(message / 8)];
            recut(request, elements);
        }
    }

    /// A message size: first a region by MTU and burst, then a step within it.
    ///
    /// Source: Collie, section 4, dimension 4, which discretises sizes by MTU and the NIC's burst size; the borders
    /// (128 B, 1 KiB, 4 MTU, 64 KiB) are our choice, because a header's worth, the paper's short and long messages lie
    /// there.
    pub(crate) fn message<R: Rng + ?Sized>(&self, transport: TransportChoice, rng: &mut R) -> u64 {
        let domain = self.domain(Dimension::Message);
        let most = longest(transport).min(self.domain(Dimension::MrSize).max());
        let borders = [128, 1 << 10, 4 * transport.mtu.bytes(), 64 << 10, u64::MAX];
        let mut regions: [&[u64]; 5] = [&[]; 5];
        let (mut count, mut from) = (0, 0);
        for border in borders.map(|border| border.min(most)) {
            let region = domain.between(from, border);
            if !region.is_empty() && from <= border {
                regions[count] = region;
                count += 1;
            }
            from = from.max(border.saturating_add(1));
        }
        if count == 0 { domain.min() } else { pick(pick(&regions[..count], rng), rng) }
    }
}

/// The longest message of a transport.
fn longest(transport: TransportChoice) -> u64 {
    if transport.qp_type == QpType::Ud { transport.mtu.bytes() } else { u64::MAX }
}
