//! Medians, spreads and tails. What is judged by them is elsewhere.

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| !is_odd);
    Some(lower.map_or(upper, |lower| f64::midpoint(lower, upper)))
}

/// The natural logarithm of the normal distribution's lower tail, also where the tail itself is 0 in floating point.
pub fn ln_tail(z: f64) -> f64 {
    if z > -30.0 {
        (0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)).ln()
    } else {
        // Source: Abramowitz and Stegun, 26.2.12, the first term.
        -0.5 * z * z - (-z * (2.0 * std::f64::consts::PI).sqrt()).ln()
    }
}

/// A value of Student's distribution with `freedom` degrees of freedom, as one of the normal distribution.
///
/// Source: Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", 1959.
pub fn standard_normal(t: f64, freedom: f64) -> f64 {
    let scale = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0);
    t.signum() * scale * (freedom * (t * t / freedom).ln_1p()).sqrt()
}

/// The quantile of Student's t that belongs to `z` of the normal distribution.
///
/// Source: Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 26.7.5.
pub fn student_quantile(z: f64, freedom: f64) -> f64 {
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// The natural logarithm of the number of ways to choose `k` of `n`.
pub fn ln_choose(n: usize, k: usize) -> f64 {
    let gamma = |x: usize| libm::lgamma(x as f64 + 1.0);
    if k > n { f64::NEG_INFINITY } else { gamma(n) - gamma(k) - gamma(n - k) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_values_become_normal_ones() {
        // Quantiles of 0.999 for 7, 30 and 1000 degrees of freedom; the normal one is 3.0902.
        for (t, freedom) in [(4.785_3, 7.0), (3.385_2, 30.0), (3.098_4, 1000.0)] {
            assert!((standard_normal(t, freedom) - 3.0902).abs() < 0.02, "{freedom}: {}", standard_normal(t, freedom));
        }
    }

    #[test]
    fn medians_tails_and_choices() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (None, Some(2.0), Some(2.5)));
        assert!((ln_tail(0.0) - 0.5f64.ln()).abs() < 1e-12);
        assert!((ln_tail(-3.0).exp() - 0.001_349_9).abs() < 1e-6);
        assert!((ln_tail(-29.999) - ln_tail(-30.001)).abs() < 0.1, "both branches meet");
        assert!((ln_choose(40, 2).exp() - 780.0).abs() < 1e-6);
        assert!(ln_choose(1, 2) < f64::MIN);
    }
}
