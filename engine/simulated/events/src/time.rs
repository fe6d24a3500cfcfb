//! Simulated time, and rates that turn bytes into it.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A moment of simulated time, counted from the start of a run, or a span of it. Units: picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Picos(u64);

impl Picos {
    /// The start of a run, and a span of no length.
    pub const ZERO: Self = Self(0);

    /// Later than every event.
    pub const MAX: Self = Self(u64::MAX);

    /// So many picoseconds.
    #[inline]
    pub const fn new(picos: u64) -> Self {
        Self(picos)
    }

    /// A span given in nanoseconds, to the nearest picosecond.
    #[inline]
    pub fn from_nanos(nanos: f64) -> Self {
        Self((nanos * 1e3).round() as u64)
    }

    /// Units: picoseconds.
    #[inline]
    pub const fn count(self) -> u64 {
        self.0
    }

    /// Units: microseconds.
    #[inline]
    pub fn as_micros(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Units: seconds.
    #[inline]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// How large a part of `whole` this is; `whole` must not be zero. Units: 1 is all of it.
    #[inline]
    pub fn ratio_to(self, whole: Self) -> f64 {
        self.0 as f64 / whole.0 as f64
    }

    /// The time between, or none if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Picos {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Picos {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Picos {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u64> for Picos {
    type Output = Self;
    #[inline]
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Div<u64> for Picos {
    type Output = Self;
    #[inline]
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Sum for Picos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

/// Time that a byte takes.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    picos_per_byte: f64,
}

impl Rate {
    /// A rate given in Gbit/s.
    #[inline]
    pub fn gbps(value: f64) -> Self {
        Self { picos_per_byte: 8e3 / value }
    }

    /// So much of it.
    #[must_use]
    pub fn share(self, part: f64) -> Self {
        Self { picos_per_byte: self.picos_per_byte / part }
    }

    /// What `bytes` take.
    #[inline]
    pub fn time(self, bytes: u64) -> Picos {
        Picos((bytes as f64 * self.picos_per_byte) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_at_the_edges() {
        assert_eq!(Picos::from_nanos(1.0004), Picos::new(1_000));
        assert_eq!(Picos::from_nanos(0.0006), Picos::new(1));
        let span = Picos::new(2_500_000);
        for (seen, expected) in [(span.as_micros(), 2.5), (span.as_seconds(), 2.5e-6), (span.ratio_to(span * 4), 0.25)]
        {
            assert!((seen - expected).abs() < 1e-15, "{seen}");
        }
        assert_eq!(Rate::gbps(100.0).time(1_000), Picos::new(80_000));
        assert_eq!(Rate::gbps(100.0).share(0.5).time(1_000), Picos::new(160_000));
    }

    #[test]
    fn spans_add_up_and_never_fall_below_zero_where_that_is_asked_for() {
        let (short, long) = (Picos::new(3), Picos::new(10));
        assert_eq!([short, long].into_iter().sum::<Picos>(), Picos::new(13));
        assert_eq!((long - short, long / 3, short.saturating_sub(long)), (Picos::new(7), short, Picos::ZERO));
    }
}
