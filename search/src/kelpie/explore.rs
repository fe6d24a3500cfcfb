//! Where to look: plain traffic with one word changed, then random points far from all that was looked at.
//!
//! Source: Mitchell 1991, "Spectrally optimal sampling for distribution ray tracing" (the best of several candidates).
//! On model F, 100 points so chosen show 14 weaknesses in the mean, and 100 random points 12.

use std::collections::VecDeque;

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};
use rand::RngExt;
use rand_pcg::Pcg64;

use super::experiments::Past;
use super::factors::{candidates, plain};
use crate::discovery::{Explored, Looked};
use crate::finding::TriedTransport;

/// Random points of which one is looked at. Source: our choice; 60 showed little more than 20.
const CANDIDATES: usize = 20;
/// Points that were looked at last, from which the next one is to be far. Source: our choice, so that the time for each
/// is bounded.
const REMEMBERED: usize = 500;

/// The next workloads to look at.
pub(super) struct Explorer {
    placements: Vec<Workload>,
    /// How often was looked.
    looked: u64,
    /// The last looks, the latest at the end.
    latest: VecDeque<(Workload, FeatureVector)>,
    /// How each feature is measured.
    scales: Vec<NumberScale>,
}

/// A workload as one number for each feature.
type FeatureVector = [f32; Feature::COUNT];

enum NumberScale {
    /// Logarithms from here, over the ladder's length.
    Numbers {
        least: f32,
        span: f32,
    },
    Words(Vec<FeatureValue>),
}

impl Explorer {
    pub(super) fn new(space: &Space, rng: &mut Pcg64) -> Self {
        Self::with(space, placements(space, rng), 0)
    }

    fn with(space: &Space, placements: Vec<Workload>, looked: u64) -> Self {
        let scales = Feature::ALL.into_iter().map(|feature| NumberScale::of(space, feature)).collect();
        Self { placements, looked, latest: VecDeque::new(), scales }
    }

    /// As it was; `number` says of a workload which experiment looked at it.
    pub(super) fn state(&self, number: impl Fn(&Workload) -> Option<u64>) -> Explored {
        let looked = |(workload, _): &(Workload, FeatureVector)| {
            number(workload).map_or_else(|| Looked::Skipped(Box::new(workload.clone())), Looked::Experiment)
        };
        let latest = self.latest.iter().map(looked).collect();
        Explored { placements: self.placements.clone(), looked: self.looked, latest }
    }

    pub(super) fn of(state: &Explored, space: &Space, past: &Past<'_>) -> Self {
        let mut explorer = Self::with(space, state.placements.clone(), state.looked);
        for looked in &state.latest {
            explorer.remember(match looked {
                Looked::Experiment(number) => past.get(*number).0,
                Looked::Skipped(workload) => (**workload).clone(),
            });
        }
        explorer
    }

    /// The next workload to look at.
    pub(super) fn next(&mut self, space: &Space, rng: &mut Pcg64) -> Workload {
        // In turn, because what a word alone shows is cheap to explain, and the rest should not wait for it.
        let placement = if self.looked.is_multiple_of(2) { self.placements.pop() } else { None };
        let next = placement.unwrap_or_else(|| {
            let far = (0..CANDIDATES).map(|_| {
                let point = space.sample(rng);
                (self.distance(&self.place(&point)), point)
            });
            far.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates").1
        });
        self.looked += 1;
        self.remember(next.clone());
        next
    }

    fn remember(&mut self, workload: Workload) {
        let place = self.place(&workload);
        self.latest.push_back((workload, place));
        if self.latest.len() > REMEMBERED {
            self.latest.pop_front();
        }
    }

    /// The square of the distance to the nearest workload that was looked at.
    fn distance(&self, place: &FeatureVector) -> f32 {
        self.latest.iter().map(|(_, other)| self.apart(place, other)).fold(f32::INFINITY, f32::min)
    }

    /// Another word counts like the whole ladder of a number.
    fn apart(&self, one: &FeatureVector, other: &FeatureVector) -> f32 {
        let terms = self.scales.iter().zip(one.iter().zip(other)).map(|(scale, (one, other))| match scale {
            NumberScale::Numbers { .. } => (one - other) * (one - other),
            // Places of words are whole numbers.
            NumberScale::Words(_) => (one - other).abs().min(1.0),
        });
        terms.sum()
    }

    fn place(&self, workload: &Workload) -> FeatureVector {
        std::array::from_fn(|at| {
            let value = workload.feature(Feature::ALL[at]);
            match (&self.scales[at], value.number()) {
                (NumberScale::Numbers { least, span }, Some(number)) if *span > 0.0 => (log(number) - least) / span,
                (NumberScale::Words(words), None) => words.iter().position(|word| *word == value).unwrap_or(0) as f32,
                _ => 0.0,
            }
        })
    }
}

impl NumberScale {
    fn of(space: &Space, feature: Feature) -> Self {
        let values = space.feature_values(feature);
        if !feature.is_ordered() {
            return Self::Words(values);
        }
        let logs = || values.iter().filter_map(FeatureValue::number).map(log);
        let least = logs().fold(f32::INFINITY, f32::min);
        Self::Numbers { least, span: logs().fold(f32::NEG_INFINITY, f32::max) - least }
    }
}

fn log(number: u64) -> f32 {
    (1.0 + number as f32).ln()
}

/// Plain traffic of one transport both ways, with one word changed each.
fn placements(space: &Space, rng: &mut Pcg64) -> Vec<Workload> {
    let transports = transports(space, rng);
    let plain = plain(space, &transports[rng.random_range(0..transports.len())]);
    let both_ways = FeatureValue::Category("true".to_owned());
    let plain = space.with_feature(&plain, Feature::Bidirectional, &both_ways).unwrap_or(plain);
    let mut found = Vec::new();
    for feature in candidates().filter(|feature| !feature.is_ordered()) {
        for value in space.feature_values(feature) {
            let placed = space.with_feature(&plain, feature, &value);
            found.extend(placed.filter(|placed| *placed != plain && !found.contains(placed)));
        }
    }
    found
}

/// One workload of each transport of the space.
fn transports(space: &Space, rng: &mut Pcg64) -> Vec<Workload> {
    let any = space.sample(rng);
    let [qp_type, opcode] = TriedTransport::FEATURES;
    let mut found = vec![any.clone()];
    for of_type in space.feature_values(qp_type) {
        for operation in space.feature_values(opcode) {
            let workload = space
                .with_feature(&any, qp_type, &of_type)
                .and_then(|workload| space.with_feature(&workload, opcode, &operation));
            found.extend(workload.filter(|workload| workload.feature(qp_type) == of_type && *workload != any));
        }
    }
    found
}
