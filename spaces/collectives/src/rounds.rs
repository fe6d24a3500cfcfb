//! A job as rounds of transfers between ranks, what became of each transfer, and the seam behind which they are carried
//! out: a simulated fabric, or real hosts.

/// Most ranks. Source: our choice, six times the largest job that was published.
pub const MAX_RANKS: u32 = 65_536;
/// Most rounds of all iterations. Source: our choice.
pub const MAX_ROUNDS: u64 = 1 << 20;

/// What the ranks of a job do in each iteration: in round `r`, each rank sends to the one `shifts[r]` after it. It goes
/// on to the next round when its message has arrived and when it has received one itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    /// Ranks.
    pub ranks: u32,
    /// Size of each message. Units: bytes.
    pub bytes: u64,
    /// One per round, each from 1 to `ranks - 1`.
    pub shifts: Vec<u32>,
    /// How often.
    pub iterations: u32,
}

impl Rounds {
    /// An all-reduce of `bytes` per rank along a ring: every share goes round twice, once to be added up.
    pub fn ring_all_reduce(ranks: u32, bytes: u64, iterations: u32) -> Self {
        let shifts = vec![1; 2 * ranks.saturating_sub(1) as usize];
        Self { ranks, bytes: bytes.div_ceil(u64::from(ranks.max(1))).max(1), shifts, iterations }
    }

    /// Each rank sends `bytes` to each other one, to one at a time.
    pub fn all_pairs(ranks: u32, bytes: u64, iterations: u32) -> Self {
        Self { ranks, bytes: bytes.max(1), shifts: (1..ranks).collect(), iterations }
    }

    /// Which rule a job breaks.
    pub fn broken_rule(&self) -> Option<String> {
        if !(2..=MAX_RANKS).contains(&self.ranks) {
            return Some(format!("{} ranks; a job has 2 to {MAX_RANKS}", self.ranks));
        }
        let rounds = self.shifts.len() as u64 * u64::from(self.iterations);
        if rounds == 0 || rounds > MAX_ROUNDS {
            return Some(format!("{rounds} rounds in all; a job has 1 to {MAX_ROUNDS}"));
        }
        let is_shift = |shift: &u32| (1..self.ranks).contains(shift);
        (!self.shifts.iter().all(is_shift)).then(|| "a rank sends to itself".to_owned())
    }

    /// Where a rank sends in a round.
    pub fn to(&self, from: u32, round: usize) -> u32 {
        (from + self.shifts[round]) % self.ranks
    }
}

/// What became of a transfer. Units of times: microseconds on the job's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Iteration, from 0.
    pub iteration: u32,
    /// Round, from 0.
    pub round: u32,
    /// Rank that sends.
    pub from: u32,
    /// Rank that receives.
    pub to: u32,
    /// Size.
    pub bytes: u64,
    /// When the sender came to the iteration; nothing if it did not.
    pub entered: Option<f64>,
    /// When both ends were ready and it began.
    pub begin: Option<f64>,
    /// When it was complete.
    pub end: Option<f64>,
}

/// Where jobs run: a simulated fabric, or real hosts.
pub trait RankCluster {
    /// Why a job could not run.
    type Error;

    /// Runs a job to its end, or until nothing goes on, and gives each transfer when it is complete. What is open then
    /// is given last: of each rank the transfer at which it stands.
    ///
    /// # Errors
    /// If the job could not run. A rank that stops or a message that never arrives is no error.
    fn run(&mut self, job: &Rounds, give: &mut dyn FnMut(Transfer)) -> Result<(), Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_goes_round_twice_and_all_pairs_meet_once() {
        let ring = Rounds::ring_all_reduce(4, 4096, 3);
        assert_eq!((ring.shifts.as_slice(), ring.bytes), ([1; 6].as_slice(), 1024));
        let pairs = Rounds::all_pairs(5, 64, 1);
        let mut met: Vec<(u32, u32)> =
            (0..4).flat_map(|round| (0..5).map(move |from| (from, round))).map(|(f, r)| (f, pairs.to(f, r))).collect();
        met.sort_unstable();
        met.dedup();
        assert!(met.len() == 20 && met.iter().all(|(from, to)| from != to));
        assert_eq!(pairs.broken_rule().or(ring.broken_rule()), None);
        assert!(Rounds::all_pairs(1, 64, 1).broken_rule().is_some());
        assert!(Rounds { shifts: vec![5], ..pairs }.broken_rule().is_some());
    }
}
