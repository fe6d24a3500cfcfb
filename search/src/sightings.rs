//! Anomalies seen so far, and which of those outside all regions is least like the ones inside. `mfs` builds regions.

use std::collections::BTreeMap;

use kelpie_spaces::{Feature, Region, Workload};

use crate::history::Outcome;
use crate::signals::{Observation, is_diagnostic};
use crate::tuning::Likeness;

/// An anomalous experiment.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    pub(crate) workload: Workload,
    pub(crate) seen: Observation,
    /// Number of the experiment, from 1.
    pub(crate) number: u64,
    /// Whether it needs no region: one was tried for it or for one like it, or it simplifies into a known one.
    pub(crate) is_explained: bool,
}

/// Every anomalous experiment, whatever it was for.
#[derive(Debug)]
pub(crate) struct Sightings {
    likeness: Likeness,
    /// Sightings that are remembered; every other one is forgotten beyond that.
    capacity: usize,
    all: Vec<Sighting>,
    /// The largest value of each diagnostic counter.
    largest: BTreeMap<String, f64>,
}

/// A sighting outside every region, and how it compares with the known ones.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) sighting: Sighting,
    /// Whether nothing like it is known.
    pub(crate) is_new: bool,
}

impl Sightings {
    /// Nothing yet, and room for this many.
    pub(crate) fn new(likeness: Likeness, capacity: usize) -> Self {
        Self { likeness, capacity, all: Vec::new(), largest: BTreeMap::new() }
    }

    /// Takes note of what an experiment showed.
    pub(crate) fn remember(&mut self, workload: &Workload, seen: &Observation, number: u64) {
        for (name, value) in seen.signals.iter().filter(|(name, _)| is_diagnostic(name)) {
            let largest = self.largest.entry(name.clone()).or_default();
            *largest = largest.max(*value);
        }
        if seen.assessment.symptoms.is_empty() {
            return;
        }
        self.all.push(Sighting { workload: workload.clone(), seen: seen.clone(), number, is_explained: false });
        if self.all.len() > self.capacity {
            let mut number = 0_usize;
            self.all.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// The sighting that deserves the next region: not in a known one, unlike all that are, and seen more than once if
    /// possible.
    ///
    /// What is beside a known region counts as like it.
    pub(crate) fn choose(
        &self,
        is_known: impl Fn(&Workload) -> bool,
        is_beside_known: impl Fn(&Sighting) -> bool,
    ) -> Option<Candidate> {
        let (known, unknown): (Vec<&Sighting>, Vec<&Sighting>) =
            self.all.iter().partition(|sighting| sighting.is_explained || is_known(&sighting.workload));
        let known: Vec<Signature> = known.into_iter().map(|sighting| self.signature(sighting)).collect();
        let signatures: Vec<Signature> = unknown.iter().map(|sighting| self.signature(sighting)).collect();
        let Likeness { alike: limit, witnesses, .. } = self.likeness;
        let rank = |(signature, sighting): (&Signature, &&Sighting)| {
            let nearest = known.iter().map(|other| signature.distance(other)).fold(f64::INFINITY, f64::min);
            let alike = signatures.iter().filter(|other| signature.distance(other) < limit).count();
            // Every sighting is like itself.
            (nearest >= limit && !is_beside_known(sighting), alike.saturating_sub(1).min(witnesses), nearest)
        };
        let ranks = signatures.iter().zip(&unknown).map(rank).enumerate();
        // Of equals the oldest.
        let (best, (is_new, _, _)) = ranks.rev().max_by(|(_, left), (_, right)| {
            (left.0, left.1).cmp(&(right.0, right.1)).then(left.2.total_cmp(&right.2))
        })?;
        Some(Candidate { sighting: unknown[best].clone(), is_new })
    }

    /// The anomalies with this workload belong to a known region, or one was tried for them.
    pub(crate) fn explain(&mut self, workload: &Workload) {
        for sighting in self.all.iter_mut().filter(|sighting| sighting.workload == *workload) {
            sighting.is_explained = true;
        }
    }

    /// Nothing distinguishes anomalies like the one of this number from healthy workloads either.
    pub(crate) fn explain_alike(&mut self, number: u64) {
        let Some(hopeless) = self.all.iter().find(|sighting| sighting.number == number).map(|one| self.signature(one))
        else {
            return;
        };
        let alike: Vec<bool> = self
            .all
            .iter()
            .map(|sighting| self.signature(sighting).distance(&hopeless) < self.likeness.alike)
            .collect();
        for (sighting, is_alike) in self.all.iter_mut().zip(alike) {
            sighting.is_explained |= is_alike;
        }
    }

    /// What this anomalous workload showed.
    pub(crate) fn of(&self, workload: &Workload) -> Option<&Observation> {
        self.find(workload).map(|sighting| &sighting.seen)
    }

    fn find(&self, workload: &Workload) -> Option<&Sighting> {
        self.all.iter().find(|sighting| sighting.workload == *workload)
    }

    /// Anomalies inside a region, of the first `before` experiments.
    pub(crate) fn within<'a>(&'a self, region: &'a Region, before: u64) -> impl Iterator<Item = &'a Workload> {
        let inside = move |sighting: &&Sighting| sighting.number <= before && region.contains(&sighting.workload);
        self.all.iter().filter(inside).map(|sighting| &sighting.workload)
    }

    /// Whether two anomalous workloads show the same symptom and look alike.
    pub(crate) fn are_alike(&self, left: &Workload, right: &Workload) -> bool {
        let (Some(left), Some(right)) = (self.find(left), self.find(right)) else { return false };
        let symptom = |sighting: &Sighting| Outcome::from(&sighting.seen.assessment);
        symptom(left) == symptom(right) && self.signature(left).distance(&self.signature(right)) < self.likeness.alike
    }

    fn signature(&self, sighting: &Sighting) -> Signature {
        let Likeness { decades, path_word, word: other_word, .. } = self.likeness;
        let level = |(name, largest): (&String, &f64)| {
            let value = sighting.seen.signals.get(name).copied().unwrap_or(0.0);
            if value > 0.0 && *largest > 0.0 { (1.0 + (value / largest).log10() / decades).max(0.0) } else { 0.0 }
        };
        let word = |feature: &Feature| {
            let path = matches!(feature, Feature::QpType | Feature::Opcode | Feature::Loopback);
            (sighting.workload.feature(*feature).to_string(), if path { path_word } else { other_word })
        };
        let mut words: Vec<(String, f64)> =
            Feature::ALL.iter().filter(|feature| !feature.is_ordered()).map(word).collect();
        words.push((format!("{:?}", sighting.seen.assessment.symptoms), other_word));
        Signature { levels: self.largest.iter().map(level).collect(), words }
    }
}

/// What separates weaknesses without knowing what any counter means: how high each counter is, and the words.
#[derive(Debug)]
struct Signature {
    /// Each diagnostic counter, from 0 (a thousandth of its largest value or less) to 1.
    levels: Vec<f64>,
    /// Features without an order, and the symptoms, each with what a difference weighs.
    words: Vec<(String, f64)>,
}

impl Signature {
    /// Squared distance.
    fn distance(&self, other: &Signature) -> f64 {
        let levels: f64 = self.levels.iter().zip(&other.levels).map(|(left, right)| (left - right).powi(2)).sum();
        let words: f64 = self
            .words
            .iter()
            .zip(&other.words)
            .filter(|(left, right)| left != right)
            .map(|((_, weight), _)| weight)
            .sum();
        levels + words
    }
}
