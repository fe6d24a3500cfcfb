//! A Gaussian process with a Matérn kernel, and the improvement to expect from it. What its numbers mean lives outside.

use std::f64::consts::{PI, SQRT_2};

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

/// Distances over which the process may vary, from which the likeliest is taken. Units: a feature's whole range is 1.
const LENGTHS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Variance of what a measurement shows beyond the smooth function. Units: the variance of all levels.
///
/// Source: our choice, because the signals have steps, which a smooth process can only take for noise.
const NOISE: f64 = 0.05;

/// The process after it has seen some points.
pub(super) struct GaussianProcess<'a> {
    points: &'a [&'a [f64]],
    mean: f64,
    deviation: f64,
    length: f64,
    factor: Cholesky<f64, Dyn>,
    /// The inverse of the covariance times the levels.
    weights: DVector<f64>,
}

impl<'a> GaussianProcess<'a> {
    /// The process of the likeliest length; `None` if there are fewer than two different levels.
    pub(super) fn fit(points: &'a [&'a [f64]], levels: &[f64]) -> Option<Self> {
        let n = levels.len() as f64;
        let mean = levels.iter().sum::<f64>() / n;
        let deviation = (levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / n).sqrt();
        if deviation.is_nan() || deviation <= f64::EPSILON * mean.abs() {
            return None;
        }
        let levels = DVector::from_iterator(levels.len(), levels.iter().map(|level| (level - mean) / deviation));
        let fitted = LENGTHS.into_iter().filter_map(|length| {
            let noise = |row, column| if row == column { NOISE } else { 0.0 };
            let size = points.len();
            let covariance = DMatrix::from_fn(size, size, |row, column| {
                kernel(points[row], points[column], length) + noise(row, column)
            });
            let factor = covariance.cholesky()?;
            let weights = factor.solve(&levels);
            let likelihood = -0.5 * (levels.dot(&weights) + factor.ln_determinant());
            Some((likelihood, Self { points, mean, deviation, length, factor, weights }))
        });
        fitted.max_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, process)| process)
    }

    /// Mean and standard deviation of the level at a point.
    fn predict(&self, point: &[f64]) -> (f64, f64) {
        let known = self.points.iter().map(|known| kernel(known, point, self.length));
        let known = DVector::from_iterator(self.points.len(), known);
        let explained = self.factor.l_dirty().solve_lower_triangular(&known).map_or(0.0, |part| part.norm_squared());
        let deviation = (1.0 - explained).max(0.0).sqrt();
        (self.mean + self.deviation * known.dot(&self.weights), self.deviation * deviation)
    }

    /// How far below `best` the level at a point is to be expected, where levels above count as nothing.
    ///
    /// Source: Jones, Schonlau and Welch 1998, "Efficient global optimization of expensive black-box functions".
    pub(super) fn expected_improvement(&self, point: &[f64], best: f64) -> f64 {
        let (mean, deviation) = self.predict(point);
        if deviation <= 0.0 {
            return (best - mean).max(0.0);
        }
        let z = (best - mean) / deviation;
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        let below = 0.5 * libm::erfc(-z / SQRT_2);
        (best - mean) * below + deviation * density
    }
}

/// Matérn with a smoothness of 5/2. Source: Rasmussen and Williams, "Gaussian processes for machine learning", 4.17.
fn kernel(left: &[f64], right: &[f64], length: f64) -> f64 {
    let squared: f64 = left.iter().zip(right).map(|(left, right)| (left - right).powi(2)).sum();
    let r = (5.0 * squared).sqrt() / length;
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn improvement_is_expected_where_the_function_falls() {
        let grid: Vec<[f64; 1]> =
            (0..20).filter(|step| !(12..16).contains(step)).map(|step| [f64::from(step) / 20.0]).collect();
        let points: Vec<&[f64]> = grid.iter().map(|point| &point[..]).collect();
        let wave = |x: f64| (x * 8.0).cos();
        let levels: Vec<f64> = grid.iter().map(|point| wave(point[0])).collect();
        let process = GaussianProcess::fit(&points, &levels).expect("they differ");
        let (mean, deviation) = process.predict(&[0.31]);
        assert!((mean - wave(0.31)).abs() < 0.2 && deviation < 0.2, "{mean} {deviation}");
        assert!(process.predict(&[0.7]).1 > deviation, "less is known inside the gap");
        let gains = [0.0, 0.4, 0.8].map(|x| process.expected_improvement(&[x], 0.0));
        assert!(gains[1] > 10.0 * gains[0] && gains[1] > 10.0 * gains[2], "{gains:?}");
        assert!(GaussianProcess::fit(&points, &vec![3.0; points.len()]).is_none());
        assert!(GaussianProcess::fit(&[], &[]).is_none());
    }
}
