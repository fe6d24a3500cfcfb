//! How far all factors may come towards plain at once: two experiments make a first region of a witness.

use kelpie_spaces::{FeatureValue, Workload};

use super::Search;
use super::known::Known;
use crate::oracle::{Oracle, Purpose};

/// Experiments on the way. Source: our choice.
const STEPS: u32 = 2;

impl<O: Oracle> Search<'_, O> {
    /// Bisects the way from the witness to plain traffic along all ordered factors at once.
    pub(super) fn come_nearer(&mut self, known: &mut Known) -> Result<(), O::Error> {
        let (mut share, mut step) = (0.0, 1.0);
        for _ in 0..STEPS {
            step /= 2.0;
            let next = share + step;
            let Some(nearer) = self.towards_plain(known, next) else { continue };
            let seen = self.lab.look(&nearer, Purpose::Mfs)?;
            if known.shows(&seen) && known.seen.accounts_for(&seen) {
                for feature in known.factors.clone() {
                    known.widen_to(feature, &nearer.feature(feature));
                }
                share = next;
            }
        }
        Ok(())
    }

    /// The witness with each ordered factor this share of the steps nearer to plain.
    fn towards_plain(&self, known: &Known, share: f64) -> Option<Workload> {
        let space = self.lab.space;
        let mut here = known.witness.clone();
        for feature in &known.factors {
            let (Some(from), Some(to)) =
                (known.witness.feature(*feature).number(), known.plain.feature(*feature).number())
            else {
                continue;
            };
            let mut ladder: Vec<u64> = space.feature_values(*feature).iter().filter_map(FeatureValue::number).collect();
            ladder.retain(|value| (from.min(to)..=from.max(to)).contains(value) && *value != from && *value != to);
            ladder.sort_unstable_by_key(|value| value.abs_diff(from));
            let at = (share * (ladder.len() + 1) as f64) as usize;
            if let Some(value) = at.checked_sub(1).and_then(|at| ladder.get(at)) {
                here = space.with_feature(&here, *feature, &FeatureValue::Number(*value))?;
            }
        }
        (here != known.witness).then_some(here)
    }
}
