//! Random points inside a region of a space.

use rand::{Rng, RngExt};

use crate::dimensions::Dimension;
use crate::domain::Domain;
use crate::features::{Feature, FeatureValue};
use crate::region::{Condition, Region, Test};
use crate::space::Space;
use crate::workload::Workload;

/// Random points of the space among which one inside is looked for first. Source: our choice, because it bounds the
/// time to some milliseconds.
const OWN: usize = 1000;
/// Draws before a region counts as out of reach. Source: our choice, because it bounds the time to about a millisecond.
const DRAWS: usize = 256;

impl Space {
    /// A random point of the space that lies in `region`; `None` if none was found.
    ///
    /// Inside, it is as random as [`Space::sample`], except in regions that hold less than about a thousandth of the
    /// space: their points come from [`Space::samples_within`].
    pub fn sample_in<R: Rng + ?Sized>(&self, region: &Region, rng: &mut R) -> Option<Workload> {
        let narrow = self.narrowed(region)?;
        let own = (0..OWN).map(|_| self.sample(rng)).find(|point| region.contains(point));
        own.or_else(|| self.sample_narrow(&narrow, region, rng))
    }

    /// Random points inside `region`, drawn from domains that are cut to it; they end if none was found. Each takes
    /// microseconds however small the region is, but what is random by more than its domain (sides that are equal,
    /// counts that are mostly the least) is so within the region, too: of a region with at least four elements, half of
    /// the points have four.
    pub fn samples_within<R: Rng + ?Sized>(&self, region: &Region, rng: &mut R) -> impl Iterator<Item = Workload> {
        let narrow = self.narrowed(region);
        std::iter::from_fn(move || self.sample_narrow(narrow.as_ref()?, region, rng))
    }

    fn sample_narrow<R: Rng + ?Sized>(&self, narrow: &Space, region: &Region, rng: &mut R) -> Option<Workload> {
        (0..DRAWS).find_map(|_| {
            let mut workload = narrow.sample(rng);
            for condition in &region.conditions {
                if condition.holds(&workload) {
                    continue;
                }
                let values = narrow.admitted(condition);
                if values.is_empty() {
                    return None;
                }
                let value = &values[rng.random_range(0..values.len() as u64) as usize];
                workload = narrow.with_feature(&workload, condition.feature, value)?;
            }
            (region.contains(&workload) && self.contains(&workload)).then_some(workload)
        })
    }

    /// The values of a feature that fulfil a condition; both ends of a range are among them.
    fn admitted(&self, condition: &Condition) -> Vec<FeatureValue> {
        if let Test::Range { min, max } = condition.test {
            let range = Domain::range(min.unwrap_or(0), max.unwrap_or(u64::MAX));
            let both = range.and_then(|range| self.domain_of(condition.feature).intersect(&range));
            return both.map_or_else(Vec::new, |both| both.steps().iter().copied().map(FeatureValue::Number).collect());
        }
        let mut values = self.feature_values(condition.feature);
        values.retain(|value| condition.admits(value));
        values
    }

    /// The space with the conditions of a region made part of its domains, as far as domains can say them.
    fn narrowed(&self, region: &Region) -> Option<Space> {
        let mut domains: Vec<Domain> = self.domains().each.clone();
        for condition in &region.conditions {
            let dimension = Dimension::of(condition.feature);
            let own = &mut domains[dimension as usize];
            let (low, high) = (own.min(), own.max());
            let bounds = match (&condition.test, condition.feature) {
                // What several dimensions decide is no domain; it is set on the point that was sampled.
                (
                    _,
                    Feature::MessageMix
                    | Feature::SgeMin
                    | Feature::MemoryWritten
                    | Feature::TotalQps
                    | Feature::TotalMrs,
                ) => continue,
                (Test::In(words), _) => {
                    let codes = words.iter().filter_map(|word| dimension.code(word).ok()).collect();
                    match Domain::set(codes).and_then(|codes| own.intersect(&codes)) {
                        Some(narrower) if words.iter().all(|word| !word.contains('+')) => *own = narrower,
                        None if words.iter().all(|word| !word.contains('+')) => return None,
                        _ => {}
                    }
                    continue;
                }
                // The smallest message is at least x if all are; it is at most x if one is, which no domain says.
                (Test::Range { min, .. }, Feature::MessageMin) => (min.unwrap_or(low), high),
                (Test::Range { max, .. }, Feature::MessageMax) => (low, max.unwrap_or(high)),
                (Test::Range { min, max }, _) => (min.unwrap_or(low), max.unwrap_or(high)),
            };
            *own = own.intersect(&Domain::range(bounds.0.max(low), bounds.1.min(high))?)?;
        }
        Space::new(self.name(), String::new(), domains).ok()
    }
}
