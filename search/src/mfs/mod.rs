//! From an anomalous workload to its region, the conditions that trigger it. `docs/search.md` has the method.

mod categorical;
mod conditions;
mod cures;
mod fallback;
mod ordered;
mod path;
mod refine;
mod simplify;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Feature, FeatureValue, Workload};

use crate::finding::{Finding, FindingEvidence, wilson_lower_bound};
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};
use crate::search_state::SearchState;
use crate::sightings::Sighting;
use crate::signals::Observation;
use crate::tuning::Reduction;

use conditions::Conditions;
use refine::Reach;

/// `ConstructMFS`: simplifies an anomaly, finds its region, validates it and stores the finding.
///
/// An anomaly that simplifies into a known region belongs to that; it costs no region. One whose region could not be
/// validated even when pinned around it is no finding, and what looks like it is left alone from then on. When the
/// budget is nearly spent, what is unlike every finding is stored with every feature pinned. When the oracle stops in
/// the middle, nothing is stored.
pub(crate) fn construct<O: Oracle>(search: &mut SearchState<'_, O>, sighting: &Sighting) -> Result<(), O::Error> {
    search.sightings.explain(&sighting.workload);
    let Outcome::Anomalous(symptom) = Outcome::from(&sighting.seen.assessment) else { return Ok(()) };
    let started = search.experiments();
    let anchor = simplify::simplify(search, &sighting.workload, symptom)?;
    let is_closing = search.is_closing();
    if is_closing && search.is_like_known(&anchor) {
        search.sightings.explain(&anchor);
    } else if !search.is_known(&anchor) {
        let seen = search.sightings.of(&anchor).unwrap_or(&sighting.seen).clone();
        let mut builder = Builder::new(search, &anchor, symptom, started);
        if is_closing {
            builder.pin(Reach::Exact);
        }
        builder.refine()?;
        let finding = builder.finding(&seen, sighting.number)?;
        let neighbourhood = builder.neighbourhood();
        if finding.confidence < search.config.tuning.reduction.least_confidence {
            if !finding.mfs.conditions.is_empty() {
                search.avoid(finding.mfs);
            }
            search.sightings.explain_alike(sighting.number);
        } else {
            search.found(&finding)?;
            search.avoid(neighbourhood);
        }
    }
    search.spent_on_regions += search.experiments() - started;
    Ok(())
}

/// A region under construction around one anomalous workload, the anchor.
struct Builder<'s, 'a, O: Oracle> {
    search: &'s mut SearchState<'a, O>,
    anchor: &'s Workload,
    symptom: Symptom,
    conditions: Conditions,
    /// Random points inside the region that were anomalous.
    inside: Vec<Workload>,
    /// How many of them since the region last changed.
    fresh: u32,
    /// Healthy points that no feature separates from the anchor.
    inseparable: Vec<Workload>,
    /// Random points that had been measured before.
    remembered: u32,
    /// Words that did not matter on the anchor when they were first blamed.
    forgiven: BTreeSet<(Feature, FeatureValue)>,
    /// Features whose condition was dropped once.
    pruned: BTreeSet<Feature>,
    /// Features whose condition was dropped and came back.
    needed: BTreeSet<Feature>,
    /// Anomalies seen on the way, with their symptoms.
    met: Vec<(Workload, Symptom)>,
    reach: Reach,
    /// The conditions before the region was first narrowed.
    wide: Option<Conditions>,
    /// Healthy points that validation found since it was last narrowed.
    failures: u32,
    /// Whether the corner of the region was measured since it last changed.
    cornered: bool,
    started: u64,
}

impl<'s, 'a, O: Oracle> Builder<'s, 'a, O> {
    fn new(search: &'s mut SearchState<'a, O>, anchor: &'s Workload, symptom: Symptom, started: u64) -> Self {
        Self {
            search,
            anchor,
            symptom,
            conditions: Conditions::default(),
            inside: Vec::new(),
            fresh: 0,
            inseparable: Vec::new(),
            remembered: 0,
            forgiven: BTreeSet::new(),
            pruned: BTreeSet::new(),
            needed: BTreeSet::new(),
            met: Vec::new(),
            reach: Reach::Wide,
            wide: None,
            failures: 0,
            cornered: false,
            started,
        }
    }

    /// The region as a finding, with what breaking each condition does.
    fn finding(&mut self, seen: &Observation, found_at: u64) -> Result<Finding, O::Error> {
        let cures = self.cures()?;
        let (validated, healthy_inside) = (u64::from(self.fresh), self.inseparable.len() as u64);
        Ok(Finding {
            symptom: self.symptom,
            workload: self.anchor.clone(),
            mfs: self.conditions.region(),
            found_at,
            experiments_for_mfs: self.search.experiments() - self.started,
            confidence: wilson_lower_bound(validated, validated + healthy_inside),
            evidence: FindingEvidence {
                symptoms: seen.assessment.symptoms.clone(),
                signals: seen.signals.clone(),
                validated,
                healthy_inside,
                narrowed: self.reach != Reach::Wide,
                cures,
            },
        })
    }

    /// Whether the workload shows the anchor's symptom; another symptom is another weakness.
    fn shows(&mut self, workload: &Workload) -> Result<bool, O::Error> {
        Ok(self.ask(workload, Purpose::Mfs)? == Outcome::Anomalous(self.symptom))
    }

    fn tuning(&self) -> &'a Reduction {
        &self.search.config.tuning.reduction
    }

    /// What the workload shows; an anomaly is remembered for the neighbourhood.
    fn ask(&mut self, workload: &Workload, purpose: Purpose) -> Result<Outcome, O::Error> {
        let outcome = self.search.outcome(workload, purpose)?;
        if let Outcome::Anomalous(symptom) = outcome {
            self.met.push((workload.clone(), symptom));
        }
        Ok(outcome)
    }
}
