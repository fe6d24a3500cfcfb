//! Cox's model of proportional hazards: a hazard of the fleet, times a factor that the status of a node makes.
//!
//! Source: Cox 1972; ties and the hazard of the fleet after Breslow 1974.

use std::cmp::Ordering;

use nalgebra::{Cholesky, DMatrix, DVector};

use crate::hazard::{CumulativeHazard, probability};

/// How much large factors are held against a model. Covariates are standardised, so this is a normal distribution of
/// spread 0.3 that is believed before. Source: our choice; 1 and 100 do as well, docs/measured/fleet-simulation.md.
const RIDGE: f64 = 10.0;
/// Steps of Newton's method, and halvings of one. Source: our choice; 4 to 8 steps are usual.
const MOST_STEPS: usize = 50;
/// The gain of a step at which it ends, as a share of the incidents. Source: our choice.
const SETTLED: f64 = 1e-10;

/// The status of a node at some time, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The covariates of the status.
    pub status: Vec<f64>,
    /// How long after it. Units: hours.
    pub hours: f64,
    /// Whether an incident came then, and not the end of looking.
    pub incident: bool,
}

/// A model that was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Cox {
    means: Vec<f64>,
    spreads: Vec<f64>,
    /// By how much the logarithm of the hazard rises for each spread of a covariate.
    factors: Vec<f64>,
    fleet: CumulativeHazard,
}

impl Cox {
    /// Fits a model by the largest partial likelihood. `None` without an incident.
    pub fn fit(samples: &[Sample]) -> Option<Self> {
        Self::fit_with(samples, RIDGE)
    }

    fn fit_with(samples: &[Sample], ridge: f64) -> Option<Self> {
        if !samples.iter().any(|sample| sample.incident) {
            return None;
        }
        let width = samples[0].status.len();
        let column = |nth: usize| samples.iter().map(move |sample| sample.status[nth]);
        let count = samples.len() as f64;
        let means: Vec<f64> = (0..width).map(|nth| column(nth).sum::<f64>() / count).collect();
        let spread = |nth: usize| (column(nth).map(|value| (value - means[nth]).powi(2)).sum::<f64>() / count).sqrt();
        // What never varies is told nothing by.
        let spreads: Vec<f64> = (0..width).map(|nth| Some(spread(nth)).filter(|s| *s > 1e-9).unwrap_or(1.0)).collect();
        // Those who stayed longest are first, so that all before one are at risk with it.
        let mut order: Vec<&Sample> = samples.iter().collect();
        order.sort_by(|one, other| other.hours.total_cmp(&one.hours));
        let rows =
            DMatrix::from_fn(width, order.len(), |nth, row| (order[row].status[nth] - means[nth]) / spreads[nth]);
        let risk = AtRisk { order, rows, ridge };
        let factors = risk.newton();
        let fleet = risk.fleet(&factors);
        Some(Self { means, spreads, factors: factors.as_slice().to_vec(), fleet })
    }

    /// How much more likely incidents are than in a typical status.
    pub fn factor(&self, status: &[f64]) -> f64 {
        let standard =
            status.iter().zip(&self.means).zip(&self.spreads).map(|((value, mean), spread)| (value - mean) / spread);
        standard.zip(&self.factors).map(|(value, factor)| value * factor).sum::<f64>().exp()
    }

    /// How likely an incident is within some hours of a status.
    pub fn incident_within(&self, status: &[f64], hours: f64) -> f64 {
        probability(self.factor(status) * self.fleet.at(hours))
    }
}

/// Samples in descending order of time, and their standardised covariates, a column for each.
struct AtRisk<'s> {
    order: Vec<&'s Sample>,
    rows: DMatrix<f64>,
    ridge: f64,
}

/// How likely the incidents are, how that rises by each factor, and how that bends.
struct Likelihood {
    value: f64,
    slope: DVector<f64>,
    bend: DMatrix<f64>,
}

impl AtRisk<'_> {
    fn newton(&self) -> DVector<f64> {
        let mut factors = DVector::zeros(self.rows.nrows());
        let mut here = self.likelihood(&factors);
        let settled = SETTLED * self.order.iter().filter(|sample| sample.incident).count() as f64;
        for _ in 0..MOST_STEPS {
            let Some(bend) = Cholesky::new(here.bend.clone()) else { break };
            let mut step = bend.solve(&here.slope);
            let mut there = self.likelihood(&(&factors + &step));
            let mut halvings = 0;
            while there.value.partial_cmp(&here.value).is_none_or(Ordering::is_lt) && halvings < MOST_STEPS {
                step /= 2.0;
                there = self.likelihood(&(&factors + &step));
                halvings += 1;
            }
            let gain = there.value - here.value;
            if gain.partial_cmp(&settled).is_none_or(Ordering::is_le) {
                break;
            }
            factors += step;
            here = there;
        }
        factors
    }

    /// Runs of samples of the same time, the latest first.
    fn times(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let same = |one: &&Sample, other: &&Sample| one.hours.total_cmp(&other.hours).is_eq();
        self.order.chunk_by(same).scan(0, |begin, run| {
            let range = *begin..*begin + run.len();
            *begin = range.end;
            Some(range)
        })
    }

    fn likelihood(&self, factors: &DVector<f64>) -> Likelihood {
        let width = factors.len();
        let risks = self.rows.tr_mul(factors);
        // Sums of exponentials relative to the largest do not overflow.
        let top = risks.max();
        let (mut sum, mut first, mut second) = (0.0, DVector::zeros(width), DMatrix::zeros(width, width));
        let mut found = Likelihood {
            value: -0.5 * self.ridge * factors.norm_squared(),
            slope: factors * -self.ridge,
            bend: DMatrix::identity(width, width) * self.ridge,
        };
        for run in self.times() {
            let mut incidents = 0.0;
            for nth in run {
                let (row, weight) = (self.rows.column(nth), (risks[nth] - top).exp());
                sum += weight;
                first.axpy(weight, &row, 1.0);
                second.syger(weight, &row, &row, 1.0);
                if self.order[nth].incident {
                    incidents += 1.0;
                    found.value += risks[nth] - top;
                    found.slope += row;
                }
            }
            if incidents > 0.0 {
                let mean = &first / sum;
                found.value -= incidents * sum.ln();
                found.slope.axpy(-incidents, &mean, 1.0);
                found.bend += (&second / sum) * incidents;
                found.bend.syger(-incidents, &mean, &mean, 1.0);
            }
        }
        // Symmetric ones are summed in their lower triangle, which is all that Cholesky reads.
        found
    }

    /// The hazard of a typical status: at each time, incidents by the factors of all at risk.
    fn fleet(&self, factors: &DVector<f64>) -> CumulativeHazard {
        let risks = self.rows.tr_mul(factors);
        let mut sum = 0.0;
        let mut events: Vec<(f64, f64)> = Vec::new();
        for run in self.times() {
            sum += run.clone().map(|nth| risks[nth].exp()).sum::<f64>();
            let incidents = run.clone().filter(|nth| self.order[*nth].incident).count();
            events.push((self.order[run.start].hours, incidents as f64 / sum));
        }
        events.reverse();
        CumulativeHazard::from_events(events)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, Exp1};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn sample(status: f64, hours: f64, incident: bool) -> Sample {
        Sample { status: vec![status], hours, incident }
    }

    #[test]
    fn factors_and_the_hazard_of_the_fleet_are_those_found_by_hand() {
        // Status 1 at 1 h, 0 at 2 h, 1 at 3 h, each with an incident. With r = exp(factor) the partial likelihood is
        // r / (2 r + 1) * 1 / (r + 1) * 1. It is largest where 1 / r = 2 / (2 r + 1) + 1 / (r + 1), which is
        // (2 r + 1) (r + 1) = r (4 r + 3), so 2 r^2 = 1 and r = 1 / sqrt(2).
        let model = Cox::fit_with(&[sample(1.0, 1.0, true), sample(0.0, 2.0, true), sample(1.0, 3.0, true)], 0.0)
            .expect("incidents");
        let r = 0.5_f64.sqrt();
        assert!((model.factor(&[1.0]) / model.factor(&[0.0]) - r).abs() < 1e-6);
        // The hazard of status 0 rises by 1 / (2 r + 1) at 1 h, and by 1 / (r + 1) at 2 h.
        let zero = |hours: f64| -(1.0 - model.incident_within(&[0.0], hours)).ln();
        assert!((zero(1.0) - 1.0 / (2.0 * r + 1.0)).abs() < 1e-6);
        assert!((zero(2.0) - 1.0 / (2.0 * r + 1.0) - 1.0 / (r + 1.0)).abs() < 1e-6);
    }

    #[test]
    fn incidents_at_the_same_time_share_those_at_risk() {
        // Two statuses of 1 and one of 0 at 1 h, one of 0 without an incident until 2 h. Breslow: r^2 / (2 r + 2)^3,
        // which is largest at 2 / r = 6 / (2 r + 2), so r = 2.
        let model = Cox::fit_with(
            &[sample(1.0, 1.0, true), sample(1.0, 1.0, true), sample(0.0, 1.0, true), sample(0.0, 2.0, false)],
            0.0,
        )
        .expect("incidents");
        assert!((model.factor(&[1.0]) / model.factor(&[0.0]) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn drawn_factors_are_found_and_a_covariate_that_does_nothing_has_none() {
        let mut random = Pcg64Mcg::seed_from_u64(2);
        let draw = |_| {
            let status: Vec<f64> = (0..3).map(|_| random.random_range(-1.0..1.0)).collect();
            let time: f64 = Exp1.sample(&mut random);
            let hours = time * 100.0 / (status[0] - 0.5 * status[1]).exp();
            Sample { status, hours: hours.min(150.0), incident: hours < 150.0 }
        };
        let model = Cox::fit(&(0..4000).map(draw).collect::<Vec<_>>()).expect("incidents");
        let factor = |nth: usize| {
            let mut one = vec![0.0; 3];
            one[nth] = 1.0;
            (model.factor(&one) / model.factor(&[0.0; 3])).ln()
        };
        for (nth, truth) in [1.0, -0.5, 0.0].into_iter().enumerate() {
            assert!((factor(nth) - truth).abs() < 0.1, "{nth}: {}", factor(nth));
        }
        // At the status 0 the hazard is a hundredth each hour.
        assert!((model.incident_within(&[0.0; 3], 50.0) - (1.0 - (-0.5_f64).exp())).abs() < 0.03);
    }

    #[test]
    fn a_status_that_tells_incidents_apart_from_none_has_a_finite_factor() {
        let samples: Vec<Sample> = (0..400).map(|nth| sample(f64::from(nth % 2), 1.0, nth % 2 == 1)).collect();
        let model = Cox::fit(&samples).expect("incidents");
        let [low, high] = [0.0, 1.0].map(|status| model.incident_within(&[status], 1.0));
        assert!(low < 0.1 && high > 0.5 && high < 1.0, "{low} {high}");
        assert_eq!(Cox::fit(&[sample(0.0, 1.0, false)]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn neither_the_order_nor_the_unit_of_time_counts(
            drawn in proptest::collection::vec((-2.0..2.0_f64, 1..50_u32, proptest::bool::ANY), 2..40),
            unit in 0.01..100.0_f64,
        ) {
            let fit = |unit: f64, is_turned: bool| {
                let mut samples: Vec<Sample> =
                    drawn.iter().map(|(status, hours, incident)| sample(*status, f64::from(*hours) * unit, *incident)).collect();
                if is_turned {
                    samples.reverse();
                }
                Cox::fit(&samples)
            };
            if let (Some(model), Some(other)) = (fit(1.0, false), fit(unit, true)) {
                for status in [-1.0, 0.0, 1.5] {
                    let (one, other) = (model.incident_within(&[status], 10.0), other.incident_within(&[status], 10.0 * unit));
                    prop_assert!((one - other).abs() < 1e-6, "{one} {other}");
                }
            }
        }
    }
}
