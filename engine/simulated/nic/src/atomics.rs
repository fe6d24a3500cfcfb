//! Atomic requests at a responder: each reads 8 bytes, changes them, and writes them back, and no other of the same
//! lock comes between. What else the answer needs is in `send`, because it is sent as that of a READ.

use std::collections::VecDeque;

use kelpie_events::Picos;

use crate::nic::{Event, Nic, Outside};
use crate::qp::Segment;
use crate::waits::{Cause, Side};

/// Locks of a NIC, by the low bits of an address. Units: bits, beside the three within 8 bytes. Source: our choice, a
/// table of 4 KiB of addresses, because a NIC has no room for a lock of each address.
const LOCK_BITS: u32 = 9;

/// The lock of an address.
fn lock_of(address: u64) -> u32 {
    ((address >> 3) & ((1 << LOCK_BITS) - 1)) as u32
}

impl Nic {
    /// Whether a planned burst may read its payload now. The answer to an atomic request may not while its lock is
    /// taken; its QP then waits in its slot.
    pub(crate) fn may_change(&mut self, id: u32, qp: u32) -> bool {
        let held = &self.held[id as usize];
        if !held.burst.is_atomic_answer() {
            return true;
        }
        let lock = lock_of(held.segments[0].address);
        if let Some(waiting) = self.locks.get_mut(&lock) {
            waiting.push_back(qp);
            return false;
        }
        self.locks.insert(lock, VecDeque::new());
        true
    }

    /// Writes back what an atomic request changed; its lock is free once memory has it.
    pub(crate) fn write_atomic(
        &mut self,
        now: Picos,
        segment: Segment,
        out: &mut impl Outside,
    ) -> Result<Picos, Picos> {
        let place = self.regions[segment.key as usize].place;
        let done = self.path.write(now, place, segment.address, segment.bytes, self.config.order)?;
        out.at(done, Event::Changed(lock_of(segment.address)));
        Ok(done)
    }

    /// A lock is free: who has waited longest gets it.
    pub(crate) fn has_changed(&mut self, now: Picos, lock: u32, out: &mut impl Outside) {
        let Some(qp) = self.locks.get_mut(&lock).and_then(VecDeque::pop_front) else {
            self.locks.remove(&lock);
            return;
        };
        let id = self.qps[qp as usize].planned;
        out.waited(Side::Send, Cause::Atomic, qp, now - self.held[id as usize].since);
        self.gather(now, qp, out);
    }
}
