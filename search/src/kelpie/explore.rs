//! Where to look: plain traffic with one word changed, then random points far from all that was looked at.
//!
//! Source: Mitchell 1991, "Spectrally optimal sampling for distribution ray tracing" (the best of several candidates).
//! On model F, 100 points so chosen show 14 weaknesses in the mean, and 100 random points 12.

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};
use rand::RngExt;
use rand_pcg::Pcg64;

use super::factors::{TRANSPORT, candidates, plain};

/// Random points of which one is looked at. Source: our choice; 60 showed little more than 20.
const CANDIDATES: usize = 20;
/// Points that were looked at last, from which the next one is to be far. Source: our choice, so that the time for each
/// is bounded.
const REMEMBERED: usize = 500;

/// The next workloads to look at.
pub(super) struct Explorer {
    placements: Vec<Workload>,
    looked: Vec<Place>,
    /// How each feature is measured.
    scales: Vec<Scale>,
}

/// A workload as one number for each feature.
type Place = [f32; Feature::COUNT];

enum Scale {
    /// Logarithms from here, over the ladder's length.
    Numbers {
        least: f32,
        span: f32,
    },
    Words(Vec<FeatureValue>),
}

impl Explorer {
    pub(super) fn new(space: &Space, rng: &mut Pcg64) -> Self {
        let scales = Feature::ALL.into_iter().map(|feature| Scale::of(space, feature)).collect();
        Self { placements: placements(space, rng), looked: Vec::new(), scales }
    }

    /// The next workload to look at.
    pub(super) fn next(&mut self, space: &Space, rng: &mut Pcg64) -> Workload {
        // In turn, because what a word alone shows is cheap to explain, and the rest should not wait for it.
        let placement = if self.looked.len().is_multiple_of(2) { self.placements.pop() } else { None };
        let next = placement.unwrap_or_else(|| {
            let far = (0..CANDIDATES).map(|_| {
                let point = space.sample(rng);
                (self.distance(&self.place(&point)), point)
            });
            far.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates").1
        });
        self.looked.push(self.place(&next));
        next
    }

    /// The square of the distance to the nearest workload that was looked at.
    fn distance(&self, place: &Place) -> f32 {
        let latest = self.looked.iter().rev().take(REMEMBERED);
        latest.map(|other| self.apart(place, other)).fold(f32::INFINITY, f32::min)
    }

    /// Another word counts like the whole ladder of a number.
    fn apart(&self, one: &Place, other: &Place) -> f32 {
        let terms = self.scales.iter().zip(one.iter().zip(other)).map(|(scale, (one, other))| match scale {
            Scale::Numbers { .. } => (one - other) * (one - other),
            // Places of words are whole numbers.
            Scale::Words(_) => (one - other).abs().min(1.0),
        });
        terms.sum()
    }

    fn place(&self, workload: &Workload) -> Place {
        std::array::from_fn(|at| {
            let value = workload.feature(Feature::ALL[at]);
            match (&self.scales[at], value.number()) {
                (Scale::Numbers { least, span }, Some(number)) if *span > 0.0 => (log(number) - least) / span,
                (Scale::Words(words), None) => words.iter().position(|word| *word == value).unwrap_or(0) as f32,
                _ => 0.0,
            }
        })
    }
}

impl Scale {
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
    let [qp_type, opcode] = TRANSPORT;
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
