//! Factors that only count as a product, as many QPs with few MRs each and few QPs with many: one condition says both.

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};

use super::Search;
use super::known::Known;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Features that are products, each with its parts.
const PRODUCTS: [(Feature, [Feature; 2]); 1] = [(Feature::TotalMrs, [Feature::Qps, Feature::Mrs])];
/// How many times smaller a part becomes, if that cures, before it goes back to plain. Source: our choice, because a part
/// at its end may show a weakness of its own.
const SMALLER: u64 = 8;

impl<O: Oracle> Search<'_, O> {
    /// Puts a product in the place of its parts if one part, made so small that the symptom is gone, is made good by the
    /// other.
    pub(super) fn combine(&mut self, known: &mut Known) -> Result<(), O::Error> {
        for (product, parts) in PRODUCTS {
            if !parts.iter().all(|part| known.factors.contains(part)) {
                continue;
            }
            let Some(less) = self.with_less(known, parts[0])? else { continue };
            let Some(same) = made_good(self.lab.space, &less, &known.witness, product, parts[1]) else { continue };
            let seen = self.lab.look(&same, Purpose::Mfs)?;
            if known.shows(&seen) && known.seen.accounts_for(&seen) {
                known.replace(&parts, product);
            }
        }
        Ok(())
    }

    /// The witness with so little of a factor that the symptom is gone.
    fn with_less(&mut self, known: &Known, factor: Feature) -> Result<Option<Workload>, O::Error> {
        let number = |workload: &Workload| workload.feature(factor).number();
        let (Some(now), Some(plain)) = (number(&known.witness), number(&known.plain)) else { return Ok(None) };
        for wanted in [now / SMALLER, plain] {
            if !(plain..now).contains(&wanted) {
                continue;
            }
            let Some(less) = self.lab.space.with_feature(&known.witness, factor, &FeatureValue::Number(wanted)) else {
                continue;
            };
            if self.lab.look(&less, Purpose::Mfs)?.outcome == Outcome::Healthy {
                return Ok(Some(less));
            }
        }
        Ok(None)
    }
}

/// A workload with so much of a part that the product is what it is in the witness.
fn made_good(space: &Space, less: &Workload, witness: &Workload, product: Feature, part: Feature) -> Option<Workload> {
    let wanted = witness.feature(product).number()?;
    let mut values: Vec<u64> = space.feature_values(part).iter().filter_map(FeatureValue::number).collect();
    values.sort_unstable();
    values.into_iter().find_map(|value| {
        let more = space.with_feature(less, part, &FeatureValue::Number(value))?;
        (more.feature(product).number()? >= wanted).then_some(more)
    })
}
