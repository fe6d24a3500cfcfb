//! What both ends of a QP keep of packets that arrived out of order.

use std::collections::BTreeMap;

use crate::bitmap::Bitmap;

/// What a sender knows of packets beyond the first missing one.
#[derive(Debug, Clone, Default)]
pub struct Resend {
    /// Packets beyond that arrived.
    pub arrived: Bitmap,
    /// Missing ones from here to `until` are sent again.
    pub next: u32,
    /// End of those.
    pub until: u32,
    /// When it last heard of a packet that had not been known to have arrived, or began to wait. Units: ns.
    pub news: u64,
    /// Timeouts since then.
    pub timeouts: u8,
    /// When the last of all that was. Units: ns.
    pub since: u64,
}

/// What a receiver keeps of packets beyond the first missing one.
#[derive(Debug, Clone, Default)]
pub struct Early {
    arrived: Bitmap,
    /// Last packets of messages among them, with their messages.
    lasts: BTreeMap<u32, u32>,
}

impl Early {
    /// A packet arrived out of order, the last one of a message or not. Says whether it was not there.
    pub fn put(&mut self, number: u32, last_of: Option<u32>) -> bool {
        self.lasts.extend(last_of.map(|message| (number, message)));
        self.arrived.put(number)
    }

    /// The packet before this number arrived: the first one that is missing.
    pub fn first_missing(&mut self, from: u32) -> u32 {
        let missing = if self.arrived.count() == 0 { from } else { self.arrived.first_missing(from) };
        self.arrived.forget_before(missing);
        missing
    }

    /// A message whose last packet lies before a number.
    pub fn ended_before(&mut self, number: u32) -> Option<u32> {
        let first = self.lasts.first_entry()?;
        (*first.key() < number).then(|| first.remove())
    }
}
