//! A lock that a child of a fork can take back from a thread that it does not have.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A lock for what is rare and short.
pub struct Lock(AtomicBool);

/// Held while the functions of a QP are exchanged: half an exchange would leave another thread without the real ones.
pub static EXCHANGING: Lock = Lock(AtomicBool::new(false));

impl Lock {
    /// Does it while no other thread does anything under this lock.
    pub fn alone(&self, work: impl FnOnce()) {
        while self.0.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
        work();
        self.release();
    }

    /// Takes it from whoever holds it, in a child of a fork.
    pub fn release(&self) {
        self.0.store(false, Release);
    }
}
