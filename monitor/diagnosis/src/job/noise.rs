//! Whether somebody stands out of its peers by more than noise makes. Values are logarithms of times, or shares of a
//! time.
//!
//! Two things spread values: members differ (longer cables, nearer memories), and each varies from one iteration to the
//! next. On a loaded machine the second is large and lasts for some iterations, so that neighbouring values are alike.
//! Medians of blocks of iterations show it with that.

use kelpie_monitor::statistics::{ln_tail, median, standard_normal};

/// How much members differ before any is seen, and how many members that is worth. Source: our choice: connections of
/// the figures' jobs differ by 10 %; so a job of three ranks is judged as well.
const BEFORE: (f64, f64) = (0.1, 10.0);
/// From the median distance of those below the middle to one standard deviation. Source: the normal distribution.
const ROBUST: f64 = 1.4826;
/// Blocks of iterations. Source: our choice: Student's distribution of four degrees of freedom has tails that can be
/// used, and load that lasts for a fifth of the iterations still counts as one value.
const BLOCKS: usize = 5;
/// Values further from the middle than this many times the usual distance count as that far. Source: our choice,
/// because a few members that are much faster, inside of one host, say nothing of how the others differ.
const FAR: f64 = 3.0;
/// A member whose error is this much larger, as a square, than that of others is known by its own few blocks alone; and
/// so are members that differ by this much more than was expected. Source: our choice.
const ODD: f64 = 4.0;
/// How often chance alone may make somebody stand out, of all together. Source: our choice, once in 1,000 answers.
pub const CHANCE: f64 = 1e-3;

/// What is known of one member.
#[derive(Debug, Clone, Copy, Default)]
struct MemberNoise {
    /// Its median above that of all.
    above: f64,
    /// The square of one standard error of its median, by its blocks.
    error: f64,
}

/// Peers, who are alike if nothing is wrong.
#[derive(Debug, Clone, Default)]
pub struct PeerNoise {
    members: Vec<MemberNoise>,
    /// The square of one standard deviation of what members differ by, and how many values this rests on.
    between: (f64, f64),
    /// What a usual member's error is at least taken for.
    usual: f64,
}

/// The median; but if one half is far above all of the other, the slowest of the faster half, because then the slower
/// half may be at fault.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let (Some(least), Some(lower)) = (values.first(), values.get(values.len().saturating_sub(1) / 2)) else {
        return 0.0;
    };
    let gap = values[values.len() / 2] - lower;
    if gap > FAR * (lower - least).max(BEFORE.0) { *lower } else { lower + gap / 2.0 }
}

impl PeerNoise {
    /// Looks at members by their values, iteration by iteration.
    pub fn new<'v>(values: impl Iterator<Item = &'v [f64]>) -> Self {
        let of = |values: &[f64]| Some(MemberNoise { above: median(values)?, error: error(values) });
        let mut members: Vec<MemberNoise> = values.map(|values| of(values).unwrap_or_default()).collect();
        // Faults only add time, so what lies below the middle is noise alone.
        let middle = middle(members.iter().map(|member| member.above).collect());
        for member in &mut members {
            member.above -= middle;
        }
        let below: Vec<f64> = members.iter().map(|member| -member.above).filter(|below| *below >= 0.0).collect();
        let (before, worth) = BEFORE;
        let usual = median(&below).unwrap_or(0.0);
        let far = FAR * (usual + before);
        let squares: f64 = below.iter().map(|below| below.min(far).powi(2)).sum();
        let count = below.len() as f64;
        let expected = ((worth * before * before + squares) / (worth + count), worth + count);
        // If they differ by much more than was expected, they alone say by how much.
        let seen = ((ROBUST * usual).powi(2).max(squares / count.max(1.0)), count.max(1.0));
        let freedom = if seen.0 > ODD * before * before { seen.1 } else { expected.1 };
        let between = (if seen.0 > before * before { seen.0.max(expected.0) } else { expected.0 }, freedom);
        let usual = median(&members.iter().map(|member| member.error).collect::<Vec<_>>()).unwrap_or(0.0);
        Self { members, between, usual }
    }

    /// How far each member is above the middle, and the variance of that.
    pub fn members(&self) -> impl Iterator<Item = (f64, f64)> {
        self.members.iter().map(|member| (member.above, self.between.0 + member.error.max(self.usual)))
    }

    /// Whether these members together stand out of `level`, which is 0 for the middle, if `of_all` such groups could.
    pub fn stand_out(&self, who: impl Iterator<Item = usize>, level: f64, of_all: usize) -> bool {
        let (mut count, mut above, mut error) = (0.0, 0.0, 0.0);
        for member in who.filter_map(|member| self.members.get(member)) {
            count += 1.0;
            above += member.above - level;
            error += member.error.max(self.usual);
        }
        if count == 0.0 {
            return false;
        }
        // What varies in time is common to the cells of a line as often as not, so more cells make it no smaller.
        let (between, error) = (self.between.0 / count, error / count);
        // Source: Welch, "The generalization of Student's problem when several different population variances are
        // involved", 1947: how many values two estimates together rest on.
        let is_odd = error > ODD * self.usual;
        let blocks = (BLOCKS - 1) as f64 * if is_odd { 1.0 } else { self.members.len().clamp(1, BLOCKS) as f64 };
        let freedom = (between + error).powi(2) / (between.powi(2) / self.between.1 + error.powi(2) / blocks);
        let spread = (between + error).sqrt();
        let chance = ln_tail(-standard_normal(above / count / spread, freedom));
        chance + (of_all.max(1) as f64).ln() < CHANCE.ln()
    }
}

/// The square of one standard error of the median, from the medians of blocks; of a few values, from these, as if they
/// were one: they may all be of one load.
fn error(values: &[f64]) -> f64 {
    let blocks = values.len().min(BLOCKS);
    if blocks < 2 {
        return 0.0;
    }
    let bound = |block: usize| block * values.len() / blocks;
    let medians: Vec<f64> = (0..blocks).filter_map(|block| median(&values[bound(block)..bound(block + 1)])).collect();
    let mean = medians.iter().sum::<f64>() / blocks as f64;
    let squares: f64 = medians.iter().map(|median| (median - mean).powi(2)).sum();
    squares / ((blocks - 1) * if blocks < BLOCKS { 1 } else { BLOCKS }) as f64
}
