//! The buffer that the ingresses of a device share: what arrives takes room until it has left, ingresses that hold too
//! much pause their senders, and what still arrives then fills the headroom.
//!
//! An ingress is a class of a port by which packets come in, by its number. Source: IEEE 802.1Qbb for the pauses.

use kelpie_events::Picos;

use crate::spell::Spell;

/// When an ingress pauses its sender. Units: bytes.
#[derive(Debug, Clone, Copy)]
pub enum Threshold {
    /// By what it holds itself. What lies between the threshold and the capacity of the buffer is headroom.
    Fixed {
        /// Above it the sender is paused.
        xoff: u64,
        /// Below it the sender goes on. At most `xoff`.
        xon: u64,
    },
    /// By what is left of the room that all share. Source: Choudhury and Hahne, Dynamic Queue Length Thresholds,
    /// IEEE/ACM Transactions on Networking 6 (1998); in this form the switches of HPCC's simulator.
    Dynamic {
        /// What each ingress has for itself, and what is not counted as shared.
        reserve: u64,
        /// What each ingress has for packets that arrive though it is at its threshold.
        headroom: u64,
        /// The threshold is what is free of the shared room, divided by this power of two.
        shift: u32,
        /// How far below its threshold an ingress has to be before its sender goes on.
        resume: u64,
    },
}

/// The form of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct BufferForm {
    /// What it holds in all, headroom included. Units: bytes.
    pub capacity: u64,
    /// When ingresses pause.
    pub threshold: Threshold,
}

impl BufferForm {
    /// What so many ingresses share beside what each has for itself; none if the buffer is too small for that, and then
    /// no buffer can be made. Units: bytes.
    pub fn shared(&self, ingresses: usize) -> Option<u64> {
        match self.threshold {
            Threshold::Fixed { xoff, xon } => (xon <= xoff && xoff <= self.capacity).then_some(self.capacity),
            Threshold::Dynamic { reserve, headroom, .. } => {
                self.capacity.checked_sub(reserve.checked_add(headroom)?.checked_mul(ingresses as u64)?)
            }
        }
    }
}

/// What an ingress tells its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A frame that pauses it.
    Pause,
    /// A frame that lets it go on.
    Resume,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is in the buffer; the sender may have to be told.
    Kept(Option<Signal>),
    /// There was no room.
    Lost,
}

/// What an ingress has in the buffer. Units: bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Ingress {
    /// In its own room and in what is shared.
    held: u64,
    /// In its headroom; none of it if thresholds are fixed.
    headroom: u64,
    /// What its headroom holds, and its threshold's power of two, if thresholds are dynamic.
    most_headroom: u64,
    shift: u32,
    /// Whether it pauses its sender, and for how long it did.
    pauses: Spell,
}

/// A buffer.
#[derive(Debug, Clone)]
pub struct SharedBuffer {
    threshold: Threshold,
    /// What is left for all. Units: bytes.
    free: u64,
    /// What it holds in all. Units: bytes.
    filled: u64,
    ingresses: Vec<Ingress>,
    lost: u64,
}

impl SharedBuffer {
    /// An empty one of so many ingresses. Panics if these do not fit, as [`BufferForm::shared`] says.
    pub fn new(form: BufferForm, ingresses: usize) -> Self {
        let free = form.shared(ingresses).expect("a buffer has room for what its ingresses have for themselves");
        let mut ingress = Ingress::default();
        if let Threshold::Dynamic { headroom, shift, .. } = form.threshold {
            (ingress.most_headroom, ingress.shift) = (headroom, shift);
        }
        let ingresses = vec![ingress; ingresses];
        Self { threshold: form.threshold, free, filled: 0, ingresses, lost: 0 }
    }

    /// Gives an ingress of an empty buffer with dynamic thresholds more headroom, as a longer or faster link needs, and
    /// a threshold of its own. Says whether there was room for it.
    #[must_use]
    pub fn widen(&mut self, ingress: usize, headroom: u64, shift: u32) -> bool {
        let Some(free) = self.free.checked_sub(headroom) else { return false };
        self.free = free;
        self.ingresses[ingress].most_headroom += headroom;
        self.ingresses[ingress].shift = shift;
        true
    }

    /// A packet of so many bytes arrives at an ingress.
    #[inline]
    pub fn arrive(&mut self, now: Picos, ingress: usize, bytes: u64) -> Arrival {
        let at = &mut self.ingresses[ingress];
        let is_above = match self.threshold {
            Threshold::Fixed { xoff, .. } => {
                if bytes > self.free {
                    self.lost += 1;
                    return Arrival::Lost;
                }
                self.free -= bytes;
                at.held += bytes;
                at.held > xoff
            }
            Threshold::Dynamic { reserve, .. } => {
                let of_shared = (at.held + bytes).saturating_sub(reserve);
                if of_shared == 0 || of_shared <= self.free >> at.shift {
                    self.free -= of_shared.min(bytes);
                    at.held += bytes;
                } else if at.headroom + bytes <= at.most_headroom {
                    at.headroom += bytes;
                } else {
                    self.lost += 1;
                    return Arrival::Lost;
                }
                at.headroom > 0 || at.held.saturating_sub(reserve) >= self.free >> at.shift
            }
        };
        self.filled += bytes;
        if !is_above || at.pauses.is_on() {
            return Arrival::Kept(None);
        }
        at.pauses.set(now, true);
        Arrival::Kept(Some(Signal::Pause))
    }

    /// A packet of so many bytes that had arrived at an ingress has left.
    #[inline]
    pub fn leave(&mut self, now: Picos, ingress: usize, bytes: u64) -> Option<Signal> {
        let at = &mut self.ingresses[ingress];
        debug_assert!(bytes <= at.held + at.headroom, "only what arrived leaves");
        self.filled -= bytes;
        let is_below = match self.threshold {
            Threshold::Fixed { xon, .. } => {
                self.free += bytes;
                at.held -= bytes;
                at.held < xon
            }
            Threshold::Dynamic { reserve, resume, .. } => {
                let of_headroom = at.headroom.min(bytes);
                let of_held = bytes - of_headroom;
                at.headroom -= of_headroom;
                self.free += at.held.saturating_sub(reserve).min(of_held);
                at.held -= of_held;
                let of_shared = at.held.saturating_sub(reserve);
                at.headroom == 0 && (of_shared == 0 || of_shared + resume <= self.free >> at.shift)
            }
        };
        if !is_below || !at.pauses.is_on() {
            return None;
        }
        at.pauses.set(now, false);
        Some(Signal::Resume)
    }

    /// What it holds. Units: bytes.
    #[inline]
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Whether an ingress pauses its sender, and for how long it did.
    pub fn pauses(&self, ingress: usize) -> &Spell {
        &self.ingresses[ingress].pauses
    }

    /// Packets that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
