//! The same host measured several times: what its paths carry, by how much that varies, and whose load it is. What is
//! abnormal is decided elsewhere.

use std::collections::BTreeMap;

use super::paths::LoopbackPath;
use crate::matrix::Matrix;
use kelpie_monitor::statistics::{ln_choose, median, standard_normal};

/// Fewest matrices whose differences say how much a path varies. Source: our choice.
pub const LEAST: usize = 3;
/// One standard deviation by the median of distances from a median, of three values and of many; and by the lower
/// quartile of distances between two. Source: quantiles of the normal distribution, 1/0.6745 and 1/(0.3186 sqrt 2); of
/// three values, 20,000 draws.
const BY_MEDIAN: f64 = 1.4826;
const BY_MEDIAN_OF_THREE: f64 = 3.16;
const BY_QUARTILE: f64 = 2.2194;
/// Standard deviation of a median of `k` values in those of their mean. Source: sqrt(pi / 2).
const OF_MEDIAN: f64 = 1.2533;
/// Share of the values that a robust spread is worth. Source: efficiency of the median's distances, 0.37.
const WORTH: f64 = 0.37;
/// Noise that is assumed before a matrix is seen, as a share, and how many values that is worth.
/// Source: our choice: Hostping's slide repeats within 1 to 7 % in a class; so a host of four paths is judged as well.
const NOISE_BEFORE: (f64, f64) = (0.03, 10.0);
/// The same beside the traffic of others. Source: our choice: load varies, so more is assumed and sooner given up.
const LOAD_BEFORE: (f64, f64) = (0.05, 4.0);
/// How much more a row varies than its paths do by themselves if others load it, and at least, as a share.
/// Source: our choice.
const VARIES: (f64, f64) = (3.0, 0.1);
/// A row that carries the first share of what is expected in the second share of its matrices is not loaded for long.
/// Source: our choice: a fault that comes and goes leaves a row free at times, load of many sizes hardly does.
const FREE: (f64, f64) = (0.9, 0.3);
/// Spread from one matrix to the next, of half of the paths, from which on all is taken for loaded.
/// Source: our choice: idle hosts have 1 to 7 %.
const UNSTEADY: f64 = 0.17;
/// Spread of all levels of a row but one, up to which the row is steady: a fault that was away once. Source: our
/// choice, twice what noise of 5 % leaves of a row of three paths.
const STEADY: f64 = 0.06;
/// Times of load that are assumed before any was seen. Source: our choice.
const SEEN_BEFORE: f64 = 0.05;
/// What the place before all others is worth, in values. Source: Jeffreys' prior of a share.
const HALF_A_VALUE: f64 = 0.5;
/// By how many standard deviations one matrix is below the others if that is an event. Source: our choice.
const EVENT: f64 = -3.0;

/// One standard deviation, as a share, and how many values it was estimated from.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// As a share of what is expected.
    pub share: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

impl Noise {
    /// A ratio as a value of the normal distribution.
    pub fn normal(self, ratio: f64) -> f64 {
        standard_normal((ratio - 1.0) / self.share, self.freedom)
    }

    /// With what was assumed before.
    fn after(self, (before, worth): (f64, f64)) -> Self {
        let freedom = worth + self.freedom;
        Self { share: ((worth * before.powi(2) + self.freedom * self.share.powi(2)) / freedom).sqrt(), freedom }
    }
}

/// What was measured in each matrix.
pub struct Rounds {
    /// Per path and matrix, the share of what is expected.
    shares: Vec<Vec<Option<f64>>>,
    /// Per row, the paths that the RNIC alone limits.
    affinitive: BTreeMap<usize, Vec<usize>>,
    count: usize,
}

impl Rounds {
    /// Of these matrices; paths and expectations are those of the rows and columns of `matrix`.
    pub fn new(matrix: &Matrix, rounds: &[&Matrix], paths: &[LoopbackPath], expected: &[Option<f64>]) -> Self {
        let share = |path: &LoopbackPath, usual: Option<f64>, round: &Matrix| {
            let seen =
                round.find(round.bandwidth_gbps.as_ref(), &matrix.rows[path.row], &matrix.columns[path.column])?;
            Some(seen / usual.filter(|usual| *usual > 0.0)?)
        };
        let each = paths.iter().zip(expected);
        let shares =
            each.map(|(path, usual)| rounds.iter().map(|round| share(path, *usual, round)).collect()).collect();
        let mut affinitive: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, path) in paths.iter().enumerate().filter(|(_, path)| path.is_affinitive()) {
            affinitive.entry(path.row).or_default().push(index);
        }
        Self { shares, affinitive, count: rounds.len() }
    }

    /// How many matrices there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The share of a path in one of them.
    pub fn share(&self, path: usize, round: usize) -> Option<f64> {
        self.shares[path][round]
    }

    /// What a row carries in a matrix, as a share.
    fn level(&self, row: usize, round: usize) -> Option<f64> {
        let paths = self.affinitive.get(&row)?;
        median(&paths.iter().filter_map(|path| self.shares[*path][round]).collect::<Vec<_>>())
    }

    /// Rows whose paths vary together, by much more than each does by itself: others load them. A row that is often
    /// free is not among them.
    pub fn loaded(&self) -> Vec<usize> {
        if self.count < LEAST {
            return Vec::new();
        }
        let rows = self.affinitive.iter().filter(|(_, paths)| paths.len() > 1);
        let all: Vec<f64> = self
            .affinitive
            .iter()
            .flat_map(|(row, paths)| paths.iter().flat_map(|path| self.away(*path, *row, false)))
            .collect();
        if median(&all).is_some_and(|away| self.by_median() * away > UNSTEADY) {
            return rows.map(|(row, _)| *row).collect();
        }
        let is_loaded = |row: usize, paths: &[usize], beside_loaded: bool| {
            let levels: Vec<f64> = (0..self.count).filter_map(|round| self.level(row, round)).collect();
            let (level, share) = FREE;
            let free = levels.iter().filter(|seen| **seen >= level).count() as f64;
            let (Some(together), Some(alone)) = (spread(&levels), self.alone(row, paths)) else { return false };
            let (times, least) = VARIES;
            let noise = times * alone / (paths.len() as f64).sqrt();
            let but_one = spread(&without_farthest(levels.clone())).unwrap_or(0.0);
            free < share * levels.len() as f64
                && together > least.max(noise)
                && (beside_loaded || but_one > STEADY.max(noise))
        };
        let of = |beside_loaded: bool| -> Vec<usize> {
            rows.clone().filter(|(row, paths)| is_loaded(**row, paths, beside_loaded)).map(|(row, _)| *row).collect()
        };
        let alone = of(false);
        // Where most rows are loaded, one that was steady but once is loaded too, sooner than at fault.
        if 2 * alone.len() > self.affinitive.len() { of(true) } else { alone }
    }

    /// By how much the paths of a row vary beside each other.
    fn alone(&self, row: usize, paths: &[usize]) -> Option<f64> {
        let away: Vec<f64> = paths.iter().flat_map(|path| self.away(*path, row, true)).collect();
        Some(self.by_median() * median(&away)?)
    }

    /// One standard deviation of values by the median of their distances from their median, of so many matrices.
    fn by_median(&self) -> f64 {
        let count = self.count as f64;
        // Source: fitted to 20,000 draws each of 4 to 20 values, within a tenth.
        if self.count <= LEAST { BY_MEDIAN_OF_THREE } else { BY_MEDIAN * count / (count - 1.36) }
    }

    /// How far a path is from its own median in each matrix, as a share; with `beside` after its row's level is taken
    /// out.
    fn away(&self, path: usize, row: usize, beside: bool) -> Vec<f64> {
        let level = |round| if beside { self.level(row, round).filter(|level| *level > 0.0) } else { Some(1.0) };
        let values: Vec<f64> =
            (0..self.count).filter_map(|round| Some(self.shares[path][round]? / level(round)?)).collect();
        let middle = median(&values).filter(|middle| *middle > 0.0);
        middle.map_or_else(Vec::new, |middle| values.iter().map(|value| (value / middle - 1.0).abs()).collect())
    }

    /// What a path of a row with other traffic carries beside the others of its row: load that takes from all of them
    /// alike does not count, although it differs from matrix to matrix.
    pub fn beside_its_row(&self, path: usize, row: usize) -> Option<f64> {
        let level = |round| self.level(row, round).filter(|level| *level > 0.0);
        median(&(0..self.count).filter_map(|round| Some(self.shares[path][round]? / level(round)?)).collect::<Vec<_>>())
    }

    /// By how much one matrix varies: from the differences of several.
    pub fn between(&self, paths: &[LoopbackPath], is_wanted: impl Fn(usize) -> bool, beside: bool) -> Option<Noise> {
        if self.count < LEAST {
            return None;
        }
        let wanted = paths.iter().enumerate().filter(|(index, _)| is_wanted(*index));
        let away: Vec<f64> = wanted.flat_map(|(index, path)| self.away(index, path.row, beside)).collect();
        let rounds = self.count as f64;
        let share = self.by_median() * median(&away)?;
        let freedom = WORTH * away.len() as f64 * (rounds - 1.0) / rounds;
        Some(Noise { share, freedom })
    }

    /// The noise of the median of all matrices, of paths without other traffic. No fault makes a path faster, so of
    /// one matrix what lies above the expected is noise alone.
    pub fn idle(&self, above: &[f64], between: Option<Noise>) -> Noise {
        let (before, worth) = NOISE_BEFORE;
        let repeated = self.count as f64;
        let freedom = above.len() as f64;
        let square = above.iter().map(|above| above * above).sum::<f64>() / freedom.max(1.0);
        let by_one = Noise { share: square.sqrt(), freedom }.after((before / repeated.sqrt(), worth));
        match between {
            Some(between) if OF_MEDIAN * between.share / repeated.sqrt() > by_one.share => {
                Noise { share: OF_MEDIAN * between.share / repeated.sqrt(), freedom: between.freedom }
            }
            _ => by_one,
        }
    }

    /// The same of one matrix alone, for faults that come and go.
    pub fn of_one(between: Option<Noise>) -> Option<Noise> {
        between.map(|between| between.after(NOISE_BEFORE))
    }

    /// The same of paths beside other traffic, whose load may vary from one to the next: from several matrices, else
    /// from the paths of a row, of which a quarter at least are alike.
    pub fn beside_load(&self, paths: &[LoopbackPath], busy: &[bool], shares: &[Option<f64>]) -> Noise {
        let is_wanted = |path: usize| busy[path] && paths[path].is_affinitive();
        let repeated = self.count as f64;
        let (before, worth) = LOAD_BEFORE;
        if let Some(between) = self.between(paths, is_wanted, true) {
            let scale = OF_MEDIAN / repeated.sqrt();
            return Noise { share: scale * between.share, ..between }.after((before * scale, worth));
        }
        let (mut apart, mut freedom) = (Vec::new(), 0.0);
        for paths in self.affinitive.values().filter(|paths| paths.iter().any(|path| busy[*path])) {
            let values: Vec<f64> = paths.iter().filter_map(|path| shares[*path]).collect();
            for (index, one) in values.iter().enumerate() {
                apart.extend(values[..index].iter().map(|other| (one - other).abs()));
            }
            freedom += WORTH * values.len().saturating_sub(1) as f64;
        }
        apart.sort_by(f64::total_cmp);
        let quartile = apart.get(apart.len() / 4).copied().unwrap_or(0.0);
        Noise { share: BY_QUARTILE * quartile, freedom }.after((before, worth))
    }

    /// Of a path of a row with other traffic, per matrix, what it carries as a share of the row's best.
    pub fn standings(&self, path: usize, row: usize) -> Vec<Option<f64>> {
        let best = |round: usize| {
            let row = self.affinitive.get(&row)?.iter().filter_map(|path| self.shares[*path][round]);
            row.max_by(f64::total_cmp).filter(|best| *best > 0.0)
        };
        (0..self.count).map(|round| Some(self.shares[path][round]? / best(round)?)).collect()
    }

    /// The natural logarithm of how likely each path is slow in as many matrices as it was, if others load the host as
    /// often as the paths show that are not slow. Of few matrices nothing is known, and no path is unlikely.
    pub fn ln_by_load(
        &self,
        is_judged: &dyn Fn(usize) -> bool,
        is_slow: &dyn Fn(usize) -> bool,
        of_one: Noise,
        below: f64,
    ) -> Vec<f64> {
        let paths = self.shares.len();
        if self.count < LEAST {
            return vec![f64::NEG_INFINITY; paths];
        }
        let (mut events, mut seen) = (SEEN_BEFORE, 1.0);
        let mut slow_in = vec![(0, 0); paths];
        for path in (0..paths).filter(|path| is_judged(*path)) {
            for share in self.shares[path].iter().flatten() {
                slow_in[path].1 += 1;
                slow_in[path].0 += usize::from(*share < below);
                if !is_slow(path) {
                    seen += 1.0;
                    events += f64::from(*share < below && of_one.normal(*share) < EVENT);
                }
            }
        }
        let chance: f64 = (events / seen).min(1.0);
        slow_in.into_iter().map(|(slow, all)| ln_at_least(slow, all, chance)).collect()
    }
}

/// The natural logarithm of how likely load that strikes all paths alike makes these as slow, in every matrix, by their
/// places among all `others`. Paths of one row in one matrix are compared with the same ones: together they are one
/// witness.
///
/// Source: ours. A place among others is uniform whatever the load is, so the greatest of `k` of them is below `u` with
/// `u^k`, and the sum of their logarithms is that of Fisher's method; the better of both counts, at twice its chance.
pub fn ln_by_place(these: &BTreeMap<usize, Vec<&[Option<f64>]>>, mut others: Vec<f64>) -> f64 {
    others.sort_by(f64::total_cmp);
    let place = |value: f64| {
        let below = others.partition_point(|other| *other <= value);
        ((below as f64 + HALF_A_VALUE) / (others.len() as f64 + 1.0)).ln()
    };
    let witness = |paths: &Vec<&[Option<f64>]>, round: usize| {
        let places: Vec<f64> = paths.iter().filter_map(|path| path[round]).map(place).collect();
        (!places.is_empty()).then(|| places.iter().sum::<f64>() / places.len() as f64)
    };
    let rounds = |paths: &Vec<&[Option<f64>]>| 0..paths.first().map_or(0, |path| path.len());
    let witnesses: Vec<f64> =
        these.values().flat_map(|paths| rounds(paths).filter_map(|round| witness(paths, round))).collect();
    let worst = witnesses.iter().copied().fold(f64::NEG_INFINITY, f64::max) * witnesses.len() as f64;
    let all = ln_gamma_tail(witnesses.len(), -witnesses.iter().sum::<f64>());
    if witnesses.is_empty() { 0.0 } else { (std::f64::consts::LN_2 + worst.min(all)).min(0.0) }
}

/// The natural logarithm of the chance that so many values of the exponential distribution add up to `sum` or more.
fn ln_gamma_tail(values: usize, sum: f64) -> f64 {
    let mut term = 1.0;
    let terms = (1..values).fold(1.0, |terms, count| {
        term *= sum / count as f64;
        terms + term
    });
    terms.ln() - sum
}

/// One standard deviation of values, as a share of their median.
fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|middle| *middle > 0.0)?;
    let squares: f64 = values.iter().map(|value| (value / middle - 1.0).powi(2)).sum();
    Some((squares / (values.len().saturating_sub(1).max(1)) as f64).sqrt())
}

/// Values without the one that is farthest from their median.
fn without_farthest(mut values: Vec<f64>) -> Vec<f64> {
    let middle = median(&values).unwrap_or(0.0);
    let away = |value: &f64| (value - middle).abs();
    if let Some(farthest) = (0..values.len()).max_by(|one, other| away(&values[*one]).total_cmp(&away(&values[*other])))
    {
        values.remove(farthest);
    }
    values
}

/// The natural logarithm of the chance of so many hits at least.
fn ln_at_least(hits: usize, tries: usize, chance: f64) -> f64 {
    if hits == 0 || chance >= 1.0 {
        return 0.0;
    }
    let each =
        |hits: usize| ln_choose(tries, hits) + hits as f64 * chance.ln() + (tries - hits) as f64 * (1.0 - chance).ln();
    (hits..=tries).map(|hits| each(hits).exp()).sum::<f64>().min(1.0).ln()
}
