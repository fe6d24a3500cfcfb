//! What a campaign without findings says about its space: how much was measured, and how rare anomalies must be.

use std::fmt;

use kelpie_monitor::Verdict;
use kelpie_search::Config;
use kelpie_store::Ended;
use serde::Serialize;

use crate::coverage::Coverage;
use crate::stored_campaign::StoredCampaign;
use crate::wording::percent;

/// How sure the bound is. Source: our choice, as of the confidence of findings.
const CONFIDENCE: f64 = 0.95;

/// The evidence behind "nothing was found".
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Absence {
    /// Share of the pairs of feature values that were measured. Units: 0 to 1.
    pub pair_share: f64,
    /// Experiments that were anomalous.
    pub anomalous: u64,
    /// Independent random points of the space with a verdict.
    pub random_points: u64,
    /// Upper bound on the share of anomalous workloads of the space, with 95 % confidence; absent if one of the random
    /// points was anomalous, or there were none. Units: 0 to 1.
    pub anomalous_below: Option<f64>,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the pairs of feature values were measured", percent(self.pair_share))?;
        if self.anomalous > 0 {
            let plural = if self.anomalous == 1 { "" } else { "s" };
            write!(f, "; {} anomalous experiment{plural}, none reduced to a region yet", self.anomalous)?;
        }
        match self.anomalous_below {
            Some(share) => write!(
                f,
                "; less than {} of random workloads of the space are anomalous (95 % confidence, {} random points)",
                percent(share),
                self.random_points
            ),
            None => Ok(()),
        }
    }
}

/// What the campaign with this coverage says; `None` if it has findings or was no search.
pub fn absence(stored: &StoredCampaign, coverage: &Coverage) -> Option<Absence> {
    let config: Config = serde_json::from_str(&stored.campaign.definition.config).ok()?;
    if !stored.findings.is_empty() {
        return None;
    }
    let random = stored.points.iter().filter(|point| point.number <= config.random_points() && point.is_conclusive());
    let random_points = random.clone().count() as u64;
    let is_anomalous = |ended: Ended| ended == Ended::Judged(Verdict::Anomalous);
    let is_clean = random_points > 0 && !random.clone().any(|point| is_anomalous(point.ended));
    Some(Absence {
        pair_share: coverage.pair_share(),
        anomalous: stored.count(Ended::Judged(Verdict::Anomalous)) as u64,
        random_points,
        anomalous_below: is_clean.then(|| bound(random_points)),
    })
}

/// The share that would leave `points` independent points without one, once in twenty times.
///
/// Source: Clopper and Pearson 1934, the one-sided bound for no success.
fn bound(points: u64) -> f64 {
    1.0 - (1.0 - CONFIDENCE).powf(1.0 / points as f64)
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::Symptom;
    use kelpie_search::{Algorithm, SignalSet};

    use super::*;
    use crate::testing;

    fn of(stored: &StoredCampaign) -> Option<Absence> {
        absence(stored, &stored.coverage())
    }

    fn stored_campaign(algorithm: Algorithm, ended: &[Verdict]) -> StoredCampaign {
        let experiment = |(number, verdict): (u64, &Verdict)| {
            let measured =
                |symptoms| testing::measured(number, testing::workload(2, 1024), testing::sample(0.9, None), symptoms);
            match verdict {
                Verdict::Healthy => measured(Vec::new()),
                Verdict::Anomalous => measured(vec![Symptom::Pause]),
                Verdict::Inconclusive => testing::inconclusive(number),
            }
        };
        let mut stored = testing::stored_campaign((1..).zip(ended).map(experiment).collect(), Vec::new());
        let config = Config::new(algorithm, SignalSet::Perf, 1);
        stored.campaign.definition.config = serde_json::to_string(&config).expect("plain data");
        stored
    }

    #[test]
    fn the_bound_is_the_rule_of_three() {
        for (points, expected) in [(1, 0.95), (59, 0.0495), (300, 0.00994)] {
            assert!((bound(points) - expected).abs() < 1e-4, "{points}: {}", bound(points));
        }
    }

    #[test]
    fn only_random_points_count() {
        use Verdict::{Anomalous, Healthy, Inconclusive};
        let healthy = [Healthy; 12];
        // Where annealing starts.
        let collie = of(&stored_campaign(Algorithm::Collie, &healthy)).expect("nothing was found");
        assert_eq!((collie.random_points, collie.anomalous_below), (1, Some(bound(1))));
        assert!(collie.pair_share > 0.0);
        let random = of(&stored_campaign(Algorithm::Random, &healthy)).expect("nothing was found");
        assert_eq!((random.random_points, random.anomalous_below), (12, Some(bound(12))));
        let unclear = of(&stored_campaign(Algorithm::Random, &[Healthy, Inconclusive])).expect("nothing was found");
        assert_eq!((unclear.random_points, unclear.anomalous), (1, 0));
        let seen = of(&stored_campaign(Algorithm::Random, &[Healthy, Anomalous])).expect("no region was validated");
        assert_eq!((seen.anomalous, seen.anomalous_below), (1, None));
        let later = of(&stored_campaign(Algorithm::Collie, &[Healthy, Healthy, Healthy, Healthy, Anomalous]));
        assert_eq!(later.map(|absence| (absence.anomalous, absence.anomalous_below)), Some((1, Some(bound(1)))));
        assert_eq!(of(&stored_campaign(Algorithm::Random, &[])).and_then(|absence| absence.anomalous_below), None);
    }
}
