//! A list that needs no memory of the heap while it is short, and fails instead of ending the process if there is none.

use std::mem::MaybeUninit;

/// A list of values that need no drop.
pub struct Copies<T: Copy, const N: usize> {
    few: [MaybeUninit<T>; N],
    /// All of them, once they are more than `N`.
    many: Vec<T>,
    length: usize,
}

impl<T: Copy, const N: usize> Copies<T, N> {
    /// Empty.
    pub fn new() -> Self {
        Self { few: [const { MaybeUninit::uninit() }; N], many: Vec::new(), length: 0 }
    }

    /// Adds a value; `false` if there is no memory for it.
    pub fn push(&mut self, value: T) -> bool {
        if self.length < N {
            self.few[self.length].write(value);
        } else {
            if self.many.try_reserve(if self.length == N { 2 * N } else { 1 }).is_err() {
                return false;
            }
            if self.length == N {
                // SAFETY: all of them were written above.
                self.many.extend(self.few.iter().map(|value| unsafe { value.assume_init() }));
            }
            self.many.push(value);
        }
        self.length += 1;
        true
    }

    /// All of them, in order.
    pub fn as_slice(&self) -> &[T] {
        if self.length > N {
            return &self.many;
        }
        // SAFETY: so many were written, and a `MaybeUninit` lies in memory as what it holds.
        unsafe { std::slice::from_raw_parts(self.few.as_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_come_back_in_order() {
        for count in [0, 3, 4, 5, 100] {
            let mut copies = Copies::<usize, 4>::new();
            assert!((0..count).all(|value| copies.push(value)));
            assert_eq!(copies.as_slice(), (0..count).collect::<Vec<_>>());
        }
    }
}
