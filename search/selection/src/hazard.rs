//! How much hazard has gathered by a time: the estimator of Nelson and Aalen, and a rate that never changes.

/// Those at risk of whom fewer say too little of the hazard at their age. Source: our choice.
const FEW_AT_RISK: usize = 10;

/// How long a node was up before an incident, or without one until nobody looked any more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// How long. Units: hours.
    pub hours: f64,
    /// Whether it ended with an incident.
    pub incident: bool,
}

/// What a hazard sums up to. Between two incidents it is the same at all times.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CumulativeHazard {
    /// Time in ascending order, and the sum until then.
    steps: Vec<(f64, f64)>,
}

impl CumulativeHazard {
    /// A hazard that is always the same.
    pub fn constant(for_each_hour: f64) -> Self {
        Self { steps: vec![(1.0, for_each_hour)] }
    }

    /// The estimator of Nelson and Aalen: at each time, incidents by those at risk. The hazard at ages that few have
    /// reached is that of all ages below.
    pub fn nelson_aalen(gaps: &[Gap]) -> Self {
        let mut gaps = gaps.to_vec();
        gaps.sort_by(|one, other| one.hours.total_cmp(&other.hours));
        let few = FEW_AT_RISK.min(gaps.len().div_ceil(2));
        let events = gaps.chunk_by(|one, other| one.hours.total_cmp(&other.hours).is_eq()).scan(0, |before, same| {
            let at_risk = gaps.len() - *before;
            *before += same.len();
            let incidents = same.iter().filter(|gap| gap.incident).count();
            Some((same[0].hours, at_risk, incidents as f64 / at_risk as f64))
        });
        Self::from_events(events.take_while(|(_, at_risk, _)| *at_risk >= few).map(|(time, _, jump)| (time, jump)))
    }

    /// By how much it rises at times in ascending order; the last time may have no rise.
    pub(crate) fn from_events(events: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut steps: Vec<(f64, f64)> = Vec::new();
        let (mut sum, mut last) = (0.0, 0.0);
        for (time, jump) in events {
            last = time;
            sum += jump;
            if jump > 0.0 {
                steps.push((time, sum));
            }
        }
        // Those who were still at risk without an incident make the hazard less.
        if steps.last().is_some_and(|(time, _)| *time < last) {
            steps.push((last, sum));
        }
        Self { steps }
    }

    /// The sum until a time. After all times it goes on rising as it did on average.
    pub fn at(&self, time: f64) -> f64 {
        let next = self.steps.partition_point(|(step, _)| *step < time);
        let (before, low) = if next == 0 { (0.0, 0.0) } else { self.steps[next - 1] };
        match self.steps.get(next) {
            Some((after, high)) if *after > before => low + (high - low) * (time - before) / (after - before),
            Some((_, high)) => *high,
            None if before > 0.0 => low * time / before,
            None => low,
        }
    }

    /// How likely an incident is within some hours, of those who had none for some hours.
    pub fn incident_within(&self, age: f64, hours: f64) -> f64 {
        probability(self.at(age + hours) - self.at(age))
    }
}

/// How likely an incident is while this much hazard gathers.
pub(crate) fn probability(hazard: f64) -> f64 {
    -(-hazard.max(0.0)).exp_m1()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, Weibull};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn gaps(of: &[(f64, bool)]) -> Vec<Gap> {
        of.iter().map(|(hours, incident)| Gap { hours: *hours, incident: *incident }).collect()
    }

    #[test]
    fn the_hazard_rises_by_incidents_over_those_at_risk() {
        // At 1 h, 1 of 5 are at risk; at 2 h, 2 of 4; the one of 3 h had none; at 4 h nobody is enough.
        let hazard =
            CumulativeHazard::nelson_aalen(&gaps(&[(4.0, true), (2.0, true), (3.0, false), (1.0, true), (2.0, true)]));
        assert!((hazard.at(1.0) - 1.0 / 5.0).abs() < 1e-12);
        assert!((hazard.at(2.0) - (1.0 / 5.0 + 2.0 / 4.0)).abs() < 1e-12);
        assert!((hazard.at(1.5) - (0.2 + 0.25)).abs() < 1e-12);
        // Of those who had none for 1 h, 1 - exp(-(0.7 - 0.2)) have one within another hour.
        assert!((hazard.incident_within(1.0, 1.0) - 0.393_469_340).abs() < 1e-9);
        assert!((hazard.at(4.0) - 1.4).abs() < 1e-12);
    }

    #[test]
    fn hours_without_an_incident_count_and_nothing_at_all_is_no_hazard() {
        // 1 of 4 until 1 h, and those without one until 10 h: afterwards 0.25 in each 10 h.
        let hazard = CumulativeHazard::nelson_aalen(&gaps(&[(1.0, true), (10.0, false), (10.0, false), (10.0, false)]));
        assert!((hazard.at(5.0) - 0.25).abs() < 1e-12);
        assert!((hazard.at(40.0) - 1.0).abs() < 1e-12);
        assert!(CumulativeHazard::nelson_aalen(&[]).at(5.0).abs() < 1e-12);
        assert!((CumulativeHazard::constant(0.5).incident_within(7.0, 2.0) - (1.0 - (-1.0_f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn a_hazard_that_falls_with_age_is_found() {
        // Weibull with shape 0.5 and scale 100 h: the hazard until t is (t / 100)^0.5. Nobody looks after 200 h.
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let weibull = Weibull::new(100.0, 0.5).expect("a distribution");
        let draw = |_| {
            let hours: f64 = weibull.sample(&mut random);
            Gap { hours: hours.min(200.0), incident: hours < 200.0 }
        };
        let hazard = CumulativeHazard::nelson_aalen(&(0..4000).map(draw).collect::<Vec<_>>());
        for time in [4.0_f64, 25.0, 100.0, 196.0] {
            let truth = (time / 100.0).sqrt();
            assert!((hazard.at(time) / truth - 1.0).abs() < 0.06, "{time}: {} {truth}", hazard.at(time));
        }
    }
}
