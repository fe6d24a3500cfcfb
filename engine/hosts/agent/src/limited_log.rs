//! What strangers can bring about as often as they like is logged a few times a minute, and then counted.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::lease::locked;

/// Lines within a [`PERIOD`]. Source: our choice, because a flood would fill a disk.
const MOST: u64 = 10;

const PERIOD: Duration = Duration::from_mins(1);

/// A log for strangers.
#[derive(Debug, Default)]
pub struct LimitedLog(Mutex<Option<(Instant, u64)>>);

impl LimitedLog {
    /// Whether to log one more line; says how many were left out before.
    pub fn wants(&self) -> bool {
        let mut since = locked(&self.0);
        let (begun, count) = match *since {
            Some((begun, count)) if begun.elapsed() < PERIOD => (begun, count + 1),
            Some((_, count)) => {
                if let Some(more @ 1..) = count.checked_sub(MOST) {
                    warn!(more, "connections that ended before they said who they are, not logged");
                }
                (Instant::now(), 1)
            }
            None => (Instant::now(), 1),
        };
        *since = Some((begun, count));
        count <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines() {
        let log = LimitedLog::default();
        assert_eq!((0..10_000).filter(|_| log.wants()).count() as u64, MOST);
    }
}
