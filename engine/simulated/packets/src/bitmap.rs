//! Which packets of a QP arrived out of order.

use std::collections::VecDeque;

/// Packets from a number on; as large as what lies between the first and the last of them.
#[derive(Debug, Clone, Default)]
pub struct Bitmap {
    words: VecDeque<u64>,
    /// Number of the first bit, a multiple of 64.
    begin: u32,
    count: u32,
}

impl Bitmap {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Puts one, none of those that were forgotten. Says whether it was not there.
    pub fn put(&mut self, number: u32) -> bool {
        let place = number - self.begin;
        let word = (place / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (place % 64);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u32::from(is_new);
        is_new
    }

    /// Forgets all before a number.
    pub fn forget_before(&mut self, number: u32) {
        while number - self.begin >= 64 {
            let Some(word) = self.words.pop_front() else {
                self.begin = number & !63;
                return;
            };
            self.count -= word.count_ones();
            self.begin += 64;
        }
        if let Some(first) = self.words.front_mut() {
            let kept = *first & (u64::MAX << (number - self.begin));
            self.count -= (*first ^ kept).count_ones();
            *first = kept;
        }
    }

    /// The first from a number on, none of those that were forgotten, that is not there.
    pub fn first_missing(&self, from: u32) -> u32 {
        let place = from - self.begin;
        let mut mask = u64::MAX << (place % 64);
        for (word, bits) in self.words.iter().enumerate().skip((place / 64) as usize) {
            let missing = !bits & mask;
            if missing != 0 {
                return self.begin + word as u32 * 64 + missing.trailing_zeros();
            }
            mask = u64::MAX;
        }
        from.max(self.begin + self.words.len() as u32 * 64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bitmap_is_a_set_of_numbers(steps in prop::collection::vec((0..300u32, 0..3u8), 1..80)) {
            let (mut bitmap, mut set, mut begin) = (Bitmap::default(), BTreeSet::new(), 0);
            for (step, kind) in steps {
                match kind {
                    0 => prop_assert_eq!(bitmap.put(begin + step), set.insert(begin + step)),
                    1 => {
                        begin += step;
                        bitmap.forget_before(begin);
                        set.retain(|number| *number >= begin);
                    }
                    _ => {
                        let missing = (begin + step..=begin + 100_000).find(|number| !set.contains(number));
                        prop_assert_eq!(Some(bitmap.first_missing(begin + step)), missing);
                    }
                }
                prop_assert_eq!(bitmap.count() as usize, set.len());
            }
        }
    }
}
