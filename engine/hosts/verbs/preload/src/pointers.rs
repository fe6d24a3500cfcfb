//! Pointers of the program, as keys: a hash table that is read on the data path, without a lock.

use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Steps after which a pointer counts as absent, so that a full table is not walked.
const STEPS: usize = 32;

/// A map from pointers to numbers. A key stays for ever: if an object ends and another begins at its place, the
/// number is replaced.
pub struct Pointers<const N: usize> {
    keys: [AtomicUsize; N],
    /// Plus one; 0 while the entry is being made, and after `clear`.
    values: [AtomicUsize; N],
}

impl<const N: usize> Pointers<N> {
    /// An empty map.
    pub const fn new() -> Self {
        Self { keys: [const { AtomicUsize::new(0) }; N], values: [const { AtomicUsize::new(0) }; N] }
    }

    /// Puts a number; `false` if there is no room.
    pub fn put<T>(&self, key: *const T, value: usize) -> bool {
        for place in places::<N>(key as usize) {
            let held = match self.keys[place].compare_exchange(0, key as usize, Relaxed, Relaxed) {
                Ok(_) => key as usize,
                Err(held) => held,
            };
            if held == key as usize {
                self.values[place].store(value + 1, Release);
                return true;
            }
        }
        false
    }

    /// The number that was put last.
    pub fn get<T>(&self, key: *const T) -> Option<usize> {
        for place in places::<N>(key as usize) {
            match self.keys[place].load(Relaxed) {
                held if held == key as usize => return self.values[place].load(Acquire).checked_sub(1),
                0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Forgets the number of a key.
    pub fn remove<T>(&self, key: *const T) {
        if let Some(place) = places::<N>(key as usize).find(|place| self.keys[*place].load(Relaxed) == key as usize) {
            self.values[place].store(0, Release);
        }
    }

    /// Forgets every number.
    pub fn clear(&self) {
        for value in &self.values {
            value.store(0, Relaxed);
        }
    }
}

/// Where a key may be. Objects are aligned to 16 bytes at least. Source of the constant: 2^64 over the golden ratio.
fn places<const N: usize>(key: usize) -> impl Iterator<Item = usize> {
    let start = (key >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (0..STEPS).map(move |step| (start + step) % N)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        let map = Pointers::<64>::new();
        let key = |index: usize| (0x1000 + index * 16) as *const u8;
        assert_eq!(map.get(key(0)), None);
        for index in 0..20 {
            assert!(map.put(key(index), index));
        }
        assert!(map.put(key(3), 99));
        assert_eq!((map.get(key(3)), map.get(key(19)), map.get(key(20))), (Some(99), Some(19), None));
        map.remove(key(4));
        map.remove(key(30));
        assert_eq!((map.get(key(4)), map.get(key(5))), (None, Some(5)));
        assert!(map.put(key(4), 7));
        assert_eq!(map.get(key(4)), Some(7));
        map.clear();
        assert_eq!(map.get(key(3)), None);
    }

    #[test]
    fn a_full_table_says_so() {
        let map = Pointers::<16>::new();
        let key = |index: usize| ((index + 1) * 16) as *const u8;
        assert!((0..16).all(|index| map.put(key(index), index)));
        assert!(!map.put(key(16), 16));
        assert_eq!(map.get(key(16)), None);
    }
}
