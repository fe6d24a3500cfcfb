//! Places of a cache that are searched at once, by a byte of each key. Which places a set has is in `cache`.

use super::Key;

/// Set in the highest byte of a key whose line is on its way.
pub(super) const COMING: u8 = 1 << 7;

/// The highest byte of no key: kinds are below 7.
pub(super) const EMPTY: u8 = !COMING;

/// Places whose tags, a byte each, are searched at once, as bytes of a word.
pub(super) const BLOCK: usize = 8;

/// The lowest and the highest bit of each byte of a word.
const LOW: u64 = u64::MAX / 255;
const HIGH: u64 = LOW << 7;

/// The tag of a free place, and of one that no way of the set has. Tags of keys are from 1 to 254.
pub(super) const FREE: u8 = 0;
pub(super) const ABSENT: u8 = 255;

/// Places of a word in which a byte is this tag, the first always and others perhaps.
///
/// Source: Warren, Hacker's Delight, section 6-1: of a word that holds a zero byte, this finds the first.
#[inline]
pub(super) fn tagged(word: u64, tag: u8) -> impl Iterator<Item = usize> {
    let other = word ^ (u64::from(tag) * LOW);
    let mut found = other.wrapping_sub(LOW) & !other & HIGH;
    std::iter::from_fn(move || {
        let first = (found != 0).then(|| found.trailing_zeros() as usize / 8);
        found &= found.wrapping_sub(1);
        first
    })
}

/// Places of a set that are searched at once. It fills one line of the processor's cache, so that a lookup that finds
/// what it looks for takes one.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Block {
    /// Their tags, the first in the lowest byte.
    pub tags: u64,
    /// Their keys, as [`Key::parts`].
    pub low: [u32; BLOCK],
    pub middle: [u16; BLOCK],
    pub high: [u8; BLOCK],
}

impl Block {
    #[inline]
    pub fn holds(&self, at: usize, (low, middle, high): (u32, u16, u8)) -> bool {
        self.low[at] == low && self.middle[at] == middle && self.high[at] & !COMING == high
    }

    #[inline]
    pub fn put(&mut self, at: usize, key: Key, is_coming: bool) {
        let (low, middle, high) = key.parts();
        self.low[at] = low;
        self.middle[at] = middle;
        self.high[at] = if is_coming { high | COMING } else { high };
    }

    #[inline]
    pub fn tag(&mut self, at: usize, tag: u8) {
        self.tags = self.tags & !(0xff << (8 * at)) | u64::from(tag) << (8 * at);
    }
}
