//! From a finding's factors to its bounds: bisection at the witness first; then random points inside, each healthy one
//! of which moves the bound that it is behind.

use kelpie_spaces::{Condition, Feature, FeatureValue, Test, Workload};

use super::Search;
use super::factors::{TRANSPORT, moved};
use super::known::Known;
use super::reduce::reduce;
use crate::oracle::{Oracle, Purpose};
use crate::outcome::Outcome;

/// Values of a ladder between which a bound may stay undecided at first: anomalies beyond it move it when they are
/// explained. Source: our choice.
const COARSE: usize = 3;
/// Healthy points inside that no bound separates, from which on a region is left as it is. Source: our choice.
const MOST_INSEPARABLE: u64 = 3;

/// Doubt up to which a region is left alone by random points. Source: our choice.
const SURE: f64 = 0.05;

impl<O: Oracle> Search<'_, O> {
    /// One step for the finding whose region is least sure.
    pub(super) fn refine(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        if self.findings[index].is_bounded {
            self.sample_inside(index)?;
        } else if self.is_part_of_another(index) {
            let known = &mut self.findings[index];
            (known.is_general, known.is_bounded, known.is_stuck) = (true, true, true);
        } else if self.findings[index].is_general {
            self.bound(index)?;
            self.findings[index].is_bounded = true;
        } else {
            self.confirm(index)?;
            self.other_transports(index)?;
            self.findings[index].is_general = true;
        }
        self.findings[index].spent += self.lab.experiments() - before;
        self.store(index)
    }

    /// Whether a bounded finding of the same look has this one's witness.
    fn is_part_of_another(&self, index: usize) -> bool {
        let one = &self.findings[index];
        let holds = |other: &Known| {
            other.is_bounded && !other.is_stuck && other.symptom == one.symptom && other.contains(&one.witness)
        };
        self.findings.iter().any(|other| holds(other) && other.seen.is_like(&one.seen))
    }

    /// Looks once more at each removal, because the witness became simpler after most of them.
    fn confirm(&mut self, index: usize) -> Result<(), O::Error> {
        for feature in self.findings[index].factors.clone() {
            let known = &self.findings[index];
            let Some(without) = moved(self.lab.space, &known.witness, &[feature], &known.plain) else { continue };
            let seen = self.lab.look(&without, Purpose::Mfs)?;
            if self.findings[index].shows(&seen) && self.findings[index].seen.is_like(&seen) {
                self.findings[index].simplify(feature, without, seen);
            }
        }
        Ok(())
    }

    /// Looks which other transports show the symptom with the witness's factors.
    fn other_transports(&mut self, index: usize) -> Result<(), O::Error> {
        for feature in TRANSPORT {
            for value in self.lab.space.feature_values(feature) {
                let known = &self.findings[index];
                let Some(other) = self.lab.space.with_feature(&known.witness, feature, &value) else { continue };
                let seen = self.lab.look(&other, Purpose::Mfs)?;
                if self.findings[index].shows(&seen) {
                    self.findings[index].widen_to(feature, &value);
                }
            }
        }
        Ok(())
    }

    /// Moves the bound of each ordered factor towards plain, as far as the witness shows the symptom there.
    fn bound(&mut self, index: usize) -> Result<(), O::Error> {
        for feature in self.findings[index].factors.clone() {
            let known = &self.findings[index];
            let (witness, plain) = (known.witness.clone(), known.plain.feature(feature));
            if let Some(last) = self.last_that_shows(index, &witness, feature, &plain, COARSE)? {
                self.findings[index].widen_to(feature, &FeatureValue::Number(last));
            }
        }
        Ok(())
    }

    /// The last value of an ordered feature, on its way from `here` to another value, that shows the finding's symptom.
    fn last_that_shows(
        &mut self,
        index: usize,
        here: &Workload,
        feature: Feature,
        to: &FeatureValue,
        grain: usize,
    ) -> Result<Option<u64>, O::Error> {
        let (Some(from), Some(to)) = (here.feature(feature).number(), to.number()) else { return Ok(None) };
        let values = self.lab.space.feature_values(feature);
        let mut ladder: Vec<u64> = values.iter().filter_map(FeatureValue::number).collect();
        ladder.retain(|value| (from.min(to)..=from.max(to)).contains(value) && *value != from && *value != to);
        ladder.sort_unstable_by_key(|value| value.abs_diff(from));
        let (mut shown, mut lost) = (0, ladder.len());
        let mut end = from;
        while lost - shown >= grain {
            let middle = usize::midpoint(shown, lost);
            let value = FeatureValue::Number(ladder[middle]);
            let is_shown = match self.lab.space.with_feature(here, feature, &value) {
                Some(moved) => {
                    let seen = self.lab.look(&moved, Purpose::Mfs)?;
                    self.findings[index].shows(&seen)
                }
                None => false,
            };
            if is_shown {
                (shown, end) = (middle + 1, ladder[middle]);
            } else {
                lost = middle;
            }
        }
        Ok(Some(end))
    }

    /// Looks at a random point of the space that lies in regions of which one is in doubt.
    pub(super) fn check(&mut self, point: &Workload) -> Result<(), O::Error> {
        let inside: Vec<usize> =
            (0..self.findings.len()).filter(|index| self.findings[*index].contains(point)).collect();
        let doubt = |index: &&usize| self.findings[**index].doubt();
        let Some(least_sure) = inside.iter().max_by(|a, b| doubt(a).total_cmp(&doubt(b))).copied() else {
            return Ok(());
        };
        if self.findings[least_sure].doubt() <= SURE || self.lab.recall(point).is_some() {
            return Ok(());
        }
        let is_anomalous = match self.lab.look(point, Purpose::Validate)?.outcome {
            Outcome::Inconclusive => return Ok(()),
            Outcome::Anomalous(_) => true,
            Outcome::Healthy => false,
        };
        for index in inside {
            self.findings[index].tried(point.clone(), is_anomalous);
        }
        if !is_anomalous {
            self.tighten(least_sure, point)?;
        }
        self.store(least_sure)
    }

    /// Looks at a random point inside; a healthy one moves a bound.
    fn sample_inside(&mut self, index: usize) -> Result<(), O::Error> {
        let before = self.lab.experiments();
        let point = self.lab.space.sample_in(&self.findings[index].region, &mut self.lab.rng);
        let Some(point) = point else {
            self.findings[index].is_stuck = true;
            return Ok(());
        };
        let seen = self.lab.look(&point, Purpose::Validate)?;
        if self.lab.experiments() == before {
            self.findings[index].repeats += 1;
            self.findings[index].is_stuck |= self.findings[index].repeats > 20;
            return Ok(());
        }
        match seen.outcome {
            Outcome::Inconclusive => {}
            Outcome::Anomalous(_) => self.findings[index].tried(point, true),
            Outcome::Healthy => {
                self.explorer.healthy(&point, &seen);
                self.findings[index].tried(point.clone(), false);
                self.tighten(index, &point)?;
            }
        }
        Ok(())
    }

    /// Shuts a healthy point out.
    fn tighten(&mut self, index: usize, healthy: &Workload) -> Result<(), O::Error> {
        let mut here = self.findings[index].witness.clone();
        for feature in TRANSPORT {
            let value = healthy.feature(feature);
            if here.feature(feature) == value {
                continue;
            }
            let other = self.lab.space.with_feature(&here, feature, &value);
            let is_shown = match &other {
                Some(other) => {
                    let seen = self.lab.look(other, Purpose::Mfs)?;
                    self.findings[index].shows(&seen)
                }
                None => false,
            };
            match other {
                Some(other) if is_shown => here = other,
                _ => {
                    self.shut_out(index, feature, &value);
                    return Ok(());
                }
            }
        }
        let symptom = self.findings[index].symptom;
        let reduced = reduce(&mut self.lab, &mut self.borders, &here, healthy, |lab, workload| {
            Ok(lab.look(workload, Purpose::Mfs)?.outcome == Outcome::Anomalous(symptom))
        })?;
        let cuts: Vec<Condition> =
            reduced.needed.iter().map(|feature| self.cut(index, &reduced.workload, *feature, healthy)).collect();
        let best = cuts.into_iter().max_by_key(|cut| self.kept(index, cut));
        let Some(best) = best else {
            self.findings[index].inseparable += 1;
            self.findings[index].is_stuck |= self.findings[index].inseparable >= MOST_INSEPARABLE;
            return Ok(());
        };
        let to = healthy.feature(best.feature);
        let exact = match self.last_that_shows(index, &reduced.workload, best.feature, &to, 1)? {
            Some(last) => self.bounded(index, best.feature, last, &to),
            None => best,
        };
        self.findings[index].narrow(exact);
        Ok(())
    }

    /// The condition that shuts out the healthy value of a feature and admits the anomalous one.
    fn cut(&self, index: usize, anomalous: &Workload, feature: Feature, healthy: &Workload) -> Condition {
        let value = healthy.feature(feature);
        match anomalous.feature(feature).number() {
            Some(last) => self.bounded(index, feature, last, &value),
            None => self.without(index, feature, &value),
        }
    }

    /// The condition of a feature with one end at `last`, on the side of `beyond`.
    fn bounded(&self, index: usize, feature: Feature, last: u64, beyond: &FeatureValue) -> Condition {
        let (mut min, mut max) = match self.findings[index].condition(feature).map(|condition| &condition.test) {
            Some(Test::Range { min, max }) => (*min, *max),
            _ => (None, None),
        };
        if beyond.number().is_some_and(|beyond| beyond > last) {
            max = Some(last);
        } else {
            min = Some(last);
        }
        Condition { feature, test: Test::Range { min, max } }
    }

    /// The condition of a feature without one of its words.
    fn without(&self, index: usize, feature: Feature, word: &FeatureValue) -> Condition {
        let known = &self.findings[index];
        let mut values = self.lab.space.feature_values(feature);
        values.retain(|value| value != word && known.condition(feature).is_none_or(|old| old.admits(value)));
        let words = values.into_iter().filter_map(FeatureValue::into_word).collect();
        Condition { feature, test: Test::In(words) }
    }

    fn shut_out(&mut self, index: usize, feature: Feature, word: &FeatureValue) {
        let narrower = self.without(index, feature, word);
        self.findings[index].narrow(narrower);
    }

    /// How many measured anomalies of the region stay inside with this condition.
    fn kept(&self, index: usize, cut: &Condition) -> usize {
        let known = &self.findings[index];
        self.lab.anomalies().filter(|anomaly| known.contains(anomaly) && cut.holds(anomaly)).count()
    }
}
