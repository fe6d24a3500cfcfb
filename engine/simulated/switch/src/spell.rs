//! A state that goes on and off, such as a pause, and the time spent in it.

use kelpie_events::Picos;

/// Time spent in a state that goes on and off; off at first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spell {
    since: Option<Picos>,
    total: Picos,
}

impl Spell {
    /// It is in the state from now on, or no more.
    pub fn set(&mut self, now: Picos, is_on: bool) {
        if is_on {
            self.since.get_or_insert(now);
        } else if let Some(since) = self.since.take() {
            self.total += now.saturating_sub(since);
        }
    }

    /// Whether it is in the state.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Time in the state until `now`.
    pub fn total(&self, now: Picos) -> Picos {
        self.total + self.since.map_or(Picos::ZERO, |since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_first_on_to_the_first_off() {
        let mut spell = Spell::default();
        for (now, is_on, total) in
            [(5, false, 0), (10, true, 0), (20, true, 10), (25, false, 15), (30, false, 15), (40, true, 15)]
        {
            spell.set(Picos::new(now), is_on);
            assert_eq!((spell.is_on(), spell.total(Picos::new(now))), (is_on, Picos::new(total)), "at {now}");
        }
        assert_eq!(spell.total(Picos::new(47)), Picos::new(22), "a spell that lasts counts too");
    }
}
