//! Medians, spreads and tails. What is judged by them is elsewhere.

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A standard deviation that outliers do not move: 1.4826 times the median of the distances from `centre`.
///
/// Source: the factor makes it equal to the standard deviation of a normal distribution (Rousseeuw and Croux, JASA 88,
/// 1993).
pub fn spread(values: &[f64], centre: f64) -> Option<f64> {
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    median(&distances).map(|distance| 1.4826 * distance)
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

/// The natural logarithm of the number of ways to choose `k` of `n`.
pub fn ln_choose(n: usize, k: usize) -> f64 {
    let gamma = |x: usize| libm::lgamma(x as f64 + 1.0);
    if k > n { f64::NEG_INFINITY } else { gamma(n) - gamma(k) - gamma(n - k) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_tails_and_choices() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (None, Some(2.0), Some(2.5)));
        assert_eq!(spread(&[1.0, 2.0, 3.0, 100.0], 2.0), Some(1.4826));
        assert!((ln_tail(0.0) - 0.5f64.ln()).abs() < 1e-12);
        assert!((ln_tail(-3.0).exp() - 0.001_349_9).abs() < 1e-6);
        assert!((ln_tail(-29.999) - ln_tail(-30.001)).abs() < 0.1, "both branches meet");
        assert!((ln_choose(40, 2).exp() - 780.0).abs() < 1e-6);
        assert!(ln_choose(1, 2) < f64::MIN);
    }
}
