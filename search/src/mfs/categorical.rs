//! Features without an order: substitution of every other value.

use kelpie_spaces::{Feature, FeatureValue, Workload};

use super::Builder;
use crate::oracle::Oracle;

impl<O: Oracle> Builder<'_, '_, O> {
    /// Tightens a feature whose value `lost` does not show the symptom where `shown` does.
    ///
    /// The first time, every other value is put into the anchor, which is farther from any bound than `shown`; later
    /// only `lost` is shut out.
    pub(super) fn tighten_categorical(
        &mut self,
        feature: Feature,
        shown: &Workload,
        lost: &FeatureValue,
    ) -> Result<(), O::Error> {
        let own = self.anchor.feature(feature);
        let mut words: Vec<FeatureValue> = self.search.space.feature_values(feature);
        if self.conditions.get(feature).is_none() {
            let mut kept = vec![own.clone()];
            if words.len() > self.tuning().most_words {
                words.clear();
            }
            words.retain(|word| *word != own && word != lost);
            for word in words {
                if self.keeps(feature, &word)? {
                    kept.push(word);
                }
            }
            let here = shown.feature(feature);
            if !kept.contains(&here) {
                kept.push(here);
            }
            words = kept;
        }
        if *lost != own {
            words.retain(|word| word != lost);
        }
        self.conditions.only(feature, words.into_iter().chain([own]));
        Ok(())
    }

    fn keeps(&mut self, feature: Feature, word: &FeatureValue) -> Result<bool, O::Error> {
        match self.search.space.with_feature(self.anchor, feature, word) {
            Some(workload) if workload.feature(feature) == *word => self.shows(&workload),
            _ => Ok(false),
        }
    }
}
