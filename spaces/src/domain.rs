//! The values that one dimension of a space may have: a range or a set, and the steps a search takes through it. Which
//! dimension lives in `dimensions`.

/// A non-empty range or set of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domain {
    /// The values that sampling and searching visit, ascending.
    steps: Vec<u64>,
    /// Whether the values between the first and the last step belong too.
    range: bool,
}

impl Domain {
    /// From `min` to `max`, both inclusive; `None` if empty.
    ///
    /// Its steps are the powers of two, the values half-way between them, and both ends.
    pub(crate) fn range(min: u64, max: u64) -> Option<Self> {
        if min > max {
            return None;
        }
        let mut steps = vec![min, max];
        for power in (0..64).map(|shift| 1u64 << shift) {
            steps.extend([Some(power), power.checked_add(power / 2)].into_iter().flatten());
        }
        steps.retain(|step| (min..=max).contains(step));
        steps.sort_unstable();
        steps.dedup();
        Some(Self { steps, range: true })
    }

    /// Exactly these values; `None` if there are none.
    pub(crate) fn set(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then_some(Self { steps: values, range: false })
    }

    /// With this value; a range reaches to there.
    pub(crate) fn including(&self, value: u64) -> Domain {
        if self.contains(value) {
            return self.clone();
        }
        let with = if self.range {
            Self::range(self.min().min(value), self.max().max(value))
        } else {
            Self::set([&self.steps[..], &[value]].concat())
        };
        with.expect("it has a value")
    }

    pub(crate) fn is_range(&self) -> bool {
        self.range
    }

    pub(crate) fn steps(&self) -> &[u64] {
        &self.steps
    }

    pub(crate) fn min(&self) -> u64 {
        self.steps[0]
    }

    pub(crate) fn max(&self) -> u64 {
        self.steps[self.steps.len() - 1]
    }

    pub(crate) fn contains(&self, value: u64) -> bool {
        if self.range { (self.min()..=self.max()).contains(&value) } else { self.steps.binary_search(&value).is_ok() }
    }

    /// The largest step of at most `value`.
    pub(crate) fn floor(&self, value: u64) -> Option<u64> {
        let above = self.steps.partition_point(|step| *step <= value);
        above.checked_sub(1).map(|index| self.steps[index])
    }

    /// The smallest step of at least `value`.
    pub(crate) fn ceil(&self, value: u64) -> Option<u64> {
        self.steps.get(self.steps.partition_point(|step| *step < value)).copied()
    }

    /// `value` itself if it belongs, else the next step below, else the next above.
    pub(crate) fn nearest(&self, value: u64) -> u64 {
        if self.contains(value) { value } else { self.floor(value).unwrap_or_else(|| self.min()) }
    }

    /// The steps from `min` to `max`, both inclusive.
    pub(crate) fn between(&self, min: u64, max: u64) -> &[u64] {
        let from = self.steps.partition_point(|step| *step < min);
        let to = self.steps.partition_point(|step| *step <= max);
        &self.steps[from..to.max(from)]
    }

    /// What both admit.
    pub(crate) fn intersect(&self, other: &Domain) -> Option<Domain> {
        match (self.range, other.range) {
            (true, true) => Domain::range(self.min().max(other.min()), self.max().min(other.max())),
            (false, _) => Domain::set(self.steps.iter().copied().filter(|value| other.contains(*value)).collect()),
            (true, false) => other.intersect(self),
        }
    }

    /// Whether every value of `self` belongs to `other`.
    pub(crate) fn within(&self, other: &Domain) -> bool {
        if self.range && !other.range {
            return self.min() == self.max() && other.contains(self.min());
        }
        if self.range {
            other.contains(self.min()) && other.contains(self.max())
        } else {
            self.steps.iter().all(|value| other.contains(*value))
        }
    }
}
