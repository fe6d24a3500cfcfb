//! The same host measured several times: what its paths carry, by how much that varies, and whose load it is. What is
//! abnormal is decided elsewhere.

use std::collections::BTreeMap;

use super::paths::Path;
use crate::matrix::Matrix;
use kelpie_monitor::statistics::{median, standard_normal};

/// Fewest matrices whose differences say how much a path varies. Source: our choice.
pub const LEAST: usize = 3;
/// One standard deviation by the median of distances from a median, and of the lower quartile of distances between two.
/// Source: quantiles of the normal distribution, 1/0.6745 and 1/(0.3186 sqrt 2).
const BY_MEDIAN: f64 = 1.4826;
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
const VARIES: (f64, f64) = (2.5, 0.04);
/// A row that carries this share of what is expected in half of its matrices is not loaded for long.
const FREE: f64 = 0.9;

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
    pub fn new(matrix: &Matrix, rounds: &[&Matrix], paths: &[Path], expected: &[Option<f64>]) -> Self {
        let share = |path: &Path, usual: Option<f64>, round: &Matrix| {
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

    /// Rows whose paths vary together, by much more than each does by itself: others load them. A row that is free in
    /// half of the matrices is not among them.
    pub fn loaded(&self) -> Vec<usize> {
        if self.count < LEAST {
            return Vec::new();
        }
        let rows = self.affinitive.iter().filter(|(_, paths)| paths.len() > 1);
        let is_loaded = |row: usize, paths: &[usize]| {
            let levels: Vec<f64> = (0..self.count).filter_map(|round| self.level(row, round)).collect();
            let free = levels.iter().filter(|level| **level >= FREE).count();
            let (Some(together), Some(alone)) = (spread(&levels), self.alone(row, paths)) else { return false };
            let (times, least) = VARIES;
            2 * free < levels.len() && together > least.max(times * alone / (paths.len() as f64).sqrt())
        };
        rows.filter(|(row, paths)| is_loaded(**row, paths)).map(|(row, _)| *row).collect()
    }

    /// By how much the paths of a row vary beside each other.
    fn alone(&self, row: usize, paths: &[usize]) -> Option<f64> {
        let away: Vec<f64> = paths.iter().flat_map(|path| self.away(*path, row, true)).collect();
        Some(BY_MEDIAN * median(&away)?)
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
        median(
            &(0..self.count).filter_map(|round| Some(self.shares[path][round]? / level(round)?)).collect::<Vec<_>>(),
        )
    }

    /// By how much one matrix varies: from the differences of several.
    pub fn between(&self, paths: &[Path], is_wanted: impl Fn(usize) -> bool, beside: bool) -> Option<Noise> {
        if self.count < LEAST {
            return None;
        }
        let wanted = paths.iter().enumerate().filter(|(index, _)| is_wanted(*index));
        let away: Vec<f64> = wanted.flat_map(|(index, path)| self.away(index, path.row, beside)).collect();
        let rounds = self.count as f64;
        let share = BY_MEDIAN * median(&away)? * (rounds / (rounds - 1.0)).sqrt();
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
    pub fn of_one(&self, between: Option<Noise>) -> Option<Noise> {
        between.map(|between| between.after(NOISE_BEFORE))
    }

    /// The same of paths beside other traffic, whose load may vary from one to the next: from several matrices, else
    /// from the paths of a row, of which a quarter at least are alike.
    pub fn beside_load(&self, paths: &[Path], busy: &[bool], shares: &[Option<f64>]) -> Noise {
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
}

/// One standard deviation of values, robustly, as a share of their median.
fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|middle| *middle > 0.0)?;
    let away: Vec<f64> = values.iter().map(|value| (value / middle - 1.0).abs()).collect();
    Some(BY_MEDIAN * median(&away)?)
}
