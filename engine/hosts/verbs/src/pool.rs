//! Objects that outlive an experiment, so that the next one need not create them: QPs with their CQ, and MRs.
//!
//! What is taken is as good as new: QPs are in reset, and a CQ is empty. Only QPs of equal type and capabilities and
//! MRs of equal size and place are the same to a device; everything else about a workload is set anew each time.

use std::sync::Arc;

use kelpie_engine::plan::Caps;
use kelpie_spaces::{Device, QpType};

use crate::cq::{Completions, Cq};
use crate::error::VerbsError;
use crate::memory::{self, Arena};
use crate::mr::Mr;
use crate::parallel;
use crate::pd::Pd;
use crate::qp::Qp;

/// Idle QPs that are kept. Source: our choice, because they take about 100 MB of a host at a depth of 128.
const MOST_IDLE_QPS: usize = 4096;

/// Idle MRs that are kept. Source: our choice, a third of the most that a workload of the paper has.
const MOST_IDLE_MRS: usize = 65_536;

/// Share of the available memory that idle MRs may pin: one in this many.
/// Source: our choice, because the host has to live on beside it.
const IDLE_SHARE: u64 = 4;

/// From one MR of a mapping to the next they are aligned to this. Units: bytes.
const ALIGNMENT: usize = 64;

/// What makes two QPs equal to a device, and to a driver: Soft-RoCE keeps the route of an RC QP through a reset
/// (`rxe_find_route`), so that one of a loopback would go on sending to its own host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpKind {
    /// Transport.
    pub qp_type: QpType,
    /// Capabilities.
    pub caps: Caps,
    /// Whether the other end is on this host, too.
    pub is_loopback: bool,
}

impl QpKind {
    /// Completions that one QP can have at a time: when it fails, every posted request completes.
    pub fn completions(&self) -> u32 {
        self.caps.send_wr.saturating_add(self.caps.recv_wr)
    }
}

/// QPs that share a CQ.
pub struct QpSet {
    kind: QpKind,
    /// QPs, some of which may be idle.
    pub qps: Vec<Qp>,
    /// Their CQ.
    pub cq: Arc<Cq>,
    /// Completions that the CQ holds.
    capacity: u32,
}

/// What makes two MRs equal to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MrKind {
    /// Where it lives.
    pub device: Device,
    /// Units: bytes.
    pub size: u64,
    /// Whether it is made of huge pages.
    pub huge_pages: bool,
    /// Whether the device may reorder its PCIe writes to it.
    pub is_relaxed: bool,
}

/// What had to be made since it was last asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Made {
    /// QPs.
    pub qps: usize,
    /// MRs.
    pub mrs: usize,
}

/// The idle objects of a device.
pub struct Pool {
    pd: Arc<Pd>,
    /// The longest unused first.
    sets: Vec<QpSet>,
    /// As above.
    mrs: Vec<(MrKind, Vec<Mr>)>,
    made: Made,
    /// Whether the device's QPs work after a reset, once that was tried.
    can_reuse: Option<bool>,
}

impl Pool {
    /// Nothing yet.
    pub fn new(pd: Arc<Pd>) -> Self {
        Self { pd, sets: Vec::new(), mrs: Vec::new(), made: Made::default(), can_reuse: None }
    }

    /// The domain of all its objects.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// What had to be made since the last call.
    pub fn made(&mut self) -> Made {
        std::mem::take(&mut self.made)
    }

    /// At least `count` QPs, all in reset, on a CQ with room for all completions of that many, and for less than twice
    /// as many: a device writes round the whole of a CQ, so that a much larger one is another thing to its caches.
    pub fn take_qps(&mut self, kind: QpKind, count: u32) -> Result<QpSet, VerbsError> {
        let wanted = kind.completions().saturating_mul(count);
        let fits = |set: &QpSet| set.kind == kind && (wanted..wanted.saturating_mul(2)).contains(&set.capacity);
        let mut set = match self.sets.iter().rposition(fits) {
            Some(index) => self.sets.remove(index),
            None => QpSet { kind, qps: Vec::new(), cq: Cq::new(self.pd.context(), wanted)?, capacity: wanted },
        };
        let missing = (count as usize).saturating_sub(set.qps.len());
        self.made.qps += missing;
        set.qps.extend(parallel::collect(missing, |_| Qp::new(&self.pd, &set.cq, kind.qp_type, &kind.caps))?);
        Ok(set)
    }

    /// Exactly `count` MRs.
    pub fn take_mrs(&mut self, kind: MrKind, count: usize) -> Result<Vec<Mr>, VerbsError> {
        let mut taken = Vec::with_capacity(count);
        for (_, idle) in self.mrs.iter_mut().rev().filter(|(idle, _)| *idle == kind) {
            let missing = count - taken.len();
            taken.extend(idle.drain(idle.len().saturating_sub(missing)..));
        }
        self.mrs.retain(|(_, idle)| !idle.is_empty());
        let missing = count - taken.len();
        self.made.mrs += missing;
        taken.extend(self.register(kind, missing)?);
        Ok(taken)
    }

    /// Registers MRs in one mapping of their own.
    fn register(&self, kind: MrKind, count: usize) -> Result<Vec<Mr>, VerbsError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let too_much = || VerbsError::Unsupported(format!("{count} MRs of {} bytes do not fit", kind.size));
        let size = usize::try_from(kind.size).map_err(|_| too_much())?;
        // A page between regions of odd size would hide what a device does with them; they only start aligned.
        let stride = size.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_much)?;
        let length = stride.checked_mul(count).ok_or_else(too_much)?;
        let arena = Arc::new(Arena::new(kind.device, length, kind.huge_pages)?);
        let pd = &self.pd;
        parallel::collect(count, |index| Mr::new(pd, &arena, index * stride, size, kind.is_relaxed))
    }

    /// Takes QPs of `port` back whatever state they are in; those that cannot be reset are destroyed.
    pub fn put_qps(&mut self, set: QpSet, used: usize, port: u8, room: &mut Completions) {
        let is_reset = parallel::collect(used.min(set.qps.len()), |index| set.qps[index].reset());
        match is_reset.and_then(|_| set.cq.drain(room)) {
            Ok(()) if self.can_reuse(&set, port) => self.sets.push(set),
            Ok(()) => {}
            Err(error) => tracing::warn!(error = kelpie_engine::chain(&error), "QPs are not reused"),
        }
    }

    /// Whether the device's QPs can be used again, which the first of them is tried for.
    fn can_reuse(&mut self, set: &QpSet, port: u8) -> bool {
        *self.can_reuse.get_or_insert_with(|| {
            let can = set.qps.first().is_some_and(|qp| qp.can_begin_anew(port));
            if !can {
                tracing::info!(
                    device = self.pd.context().name(),
                    "its QPs cannot be reused: each experiment makes its own"
                );
            }
            can
        })
    }

    /// Takes MRs back, which nothing posted names any more.
    pub fn put_mrs(&mut self, kind: MrKind, mrs: Vec<Mr>) {
        self.mrs.push((kind, mrs));
    }

    /// Destroys what has been idle the longest, down to what may be kept.
    pub fn trim(&mut self) {
        let most_bytes = memory::available_bytes().map_or(u64::MAX, |available| available / IDLE_SHARE);
        while self.sets.iter().map(|set| set.qps.len()).sum::<usize>() > MOST_IDLE_QPS {
            self.sets.remove(0);
        }
        while self.idle_bytes() > most_bytes
            || self.mrs.iter().map(|(_, idle)| idle.len()).sum::<usize>() > MOST_IDLE_MRS
        {
            self.mrs.remove(0);
        }
    }

    /// Destroys everything that is idle; whether there was something.
    pub fn clear(&mut self) -> bool {
        let had_some = !self.sets.is_empty() || !self.mrs.is_empty();
        self.sets.clear();
        self.mrs.clear();
        had_some
    }

    /// Sees to it that MRs and queues of so many bytes fit into memory beside all else, and with what is idle into
    /// `most`, at the cost of idle ones.
    pub fn make_room(&mut self, mrs: u64, queues: u64, most: u64) -> Result<(), VerbsError> {
        if is_over(self.idle_bytes(), mrs.saturating_add(queues), most) {
            self.clear();
        }
        let fits = || memory::available_bytes().map_or(Ok(()), |free| memory::check_budget(mrs, queues, free));
        fits().or_else(|_| {
            // A mapping stays for as long as one MR in it does, so nothing less is sure to help.
            self.clear();
            fits()
        })
    }

    /// What idle MRs keep of the host's memory.
    fn idle_bytes(&self) -> u64 {
        let of_the_host = self.mrs.iter().filter(|(kind, _)| memory::is_of_the_host(kind.device, kind.huge_pages));
        of_the_host.map(|(kind, idle)| kind.size.saturating_mul(idle.len() as u64)).fold(0, u64::saturating_add)
    }
}

/// Whether idle bytes have to go so that an experiment's fit beside them.
fn is_over(idle: u64, wanted: u64, most: u64) -> bool {
    idle > 0 && idle.saturating_add(wanted) > most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_idle_counts_for_the_limit() {
        for (idle, wanted, most, expected) in
            [(0, 9, 8, false), (1, 7, 8, false), (2, 7, 8, true), (8, 0, 8, false), (u64::MAX, 1, u64::MAX - 1, true)]
        {
            assert_eq!(is_over(idle, wanted, most), expected, "{idle} {wanted} {most}");
        }
    }
}
