//! Where to look: corners of the space first, in which every stress is on at once; then random points, in turn with
//! neighbours of the healthy workloads that have the most of some counter.

use std::collections::BTreeMap;

use kelpie_spaces::{Feature, FeatureValue, Space, Workload};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::factors::{TRANSPORT, plain};
use super::lab::Seen;

/// Features that stress a NIC the more the farther they are from plain: all of them are on in a corner. Source: our
/// choice, after table 2 of Collie.
const ONE_SIDED: [Feature; 2] = [Feature::Mtu, Feature::SgeCount];
/// Features whose both ends stress a NIC, each with what follows it: they are crossed. Source: as above.
const TWO_SIDED: [&[Feature]; 3] =
    [&[Feature::SendBatch, Feature::RecvBatch], &[Feature::SendWqDepth, Feature::RecvWqDepth], &[Feature::TotalQps]];
/// Changes of a healthy workload at once, at most. Source: our choice.
const MOST_CHANGES: u32 = 3;

/// A third of a ladder of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Third {
    Low,
    Middle,
    High,
}

/// The next workloads to look at.
pub(super) struct Explorer {
    corners: Vec<Workload>,
    /// The healthy workload that has the most of a counter, of each transport, and how often it was varied.
    warmest: BTreeMap<(String, String), Warm>,
    turn: u64,
}

struct Warm {
    workload: Workload,
    value: f64,
    varied: u32,
}

impl Explorer {
    pub(super) fn new(space: &Space, rng: &mut Pcg64) -> Self {
        let plain: Vec<Workload> = transports(space, rng).iter().map(|workload| plain(space, workload)).collect();
        // The transports take turns; the last is looked at first.
        let mut corners: Vec<(usize, Workload)> = Vec::new();
        for plain in &plain {
            let mut of_transport = crossed(space, plain, rng);
            of_transport.shuffle(rng);
            corners.extend(of_transport.into_iter().enumerate());
        }
        corners.shuffle(rng);
        corners.sort_by_key(|(turn, _)| *turn);
        let mut corners: Vec<Workload> = corners.into_iter().map(|(_, corner)| corner).collect();
        corners.extend(placements(space, &plain[rng.random_range(0..plain.len())]));
        Self { corners, warmest: BTreeMap::new(), turn: 0 }
    }

    /// The next workload to look at, and whether it is a random point of the space.
    pub(super) fn next(&mut self, space: &Space, rng: &mut Pcg64) -> (Workload, bool) {
        self.turn += 1;
        if self.turn % 2 == 1
            && let Some(corner) = self.corners.pop()
        {
            return (corner, false);
        }
        let least = self.warmest.values_mut().min_by_key(|warm| warm.varied);
        match least.filter(|_| self.turn.is_multiple_of(4)) {
            Some(warm) => {
                warm.varied += 1;
                let changes = 1 + rng.random_range(0..MOST_CHANGES);
                let varied = (0..changes).fold(warm.workload.clone(), |workload, _| space.mutate(&workload, rng));
                (varied, false)
            }
            None => (space.sample(rng), true),
        }
    }

    /// Learns from a healthy workload.
    pub(super) fn healthy(&mut self, workload: &Workload, seen: &Seen) {
        let transport = TRANSPORT.map(|feature| workload.feature(feature).to_string()).concat();
        for (name, value) in seen.counters().filter(|(_, value)| *value > 0.0) {
            let key = (name.to_owned(), transport.clone());
            match self.warmest.get_mut(&key) {
                Some(warm) if warm.value >= value => {}
                Some(warm) => (warm.workload, warm.value) = (workload.clone(), value),
                None => {
                    self.warmest.insert(key, Warm { workload: workload.clone(), value, varied: 0 });
                }
            }
        }
    }
}

/// One workload of each transport of the space.
fn transports(space: &Space, rng: &mut Pcg64) -> Vec<Workload> {
    let any = space.sample(rng);
    let mut found: Vec<Workload> = Vec::new();
    for qp_type in space.feature_values(Feature::QpType) {
        for opcode in space.feature_values(Feature::Opcode) {
            let workload = space
                .with_feature(&any, Feature::QpType, &qp_type)
                .and_then(|workload| space.with_feature(&workload, Feature::Opcode, &opcode));
            found.extend(workload.filter(|workload| workload.feature(Feature::QpType) == qp_type));
        }
    }
    found
}

/// All combinations of the two-sided stresses of a transport, with the one-sided ones on.
fn crossed(space: &Space, plain: &Workload, rng: &mut Pcg64) -> Vec<Workload> {
    use Third::{High, Low, Middle};
    let mut corners = Vec::new();
    for ends in 0..1 << TWO_SIDED.len() {
        for message in [Some(Low), Some(Middle), Some(High), None] {
            let mut corner = set_word(space, plain.clone(), Feature::Bidirectional, "true");
            for feature in ONE_SIDED {
                let away = if feature == Feature::Mtu { Low } else { High };
                corner = set(space, corner, feature, away, rng);
            }
            if rng.random_bool(0.5) {
                corner = set(space, corner, Feature::Mrs, High, rng);
            }
            corner = match message {
                Some(third) => set(space, corner, Feature::MessageMax, third, rng),
                None => set_word(space, corner, Feature::MessageMix, "true"),
            };
            for (at, features) in TWO_SIDED.iter().enumerate().rev() {
                let third = if ends >> at & 1 == 1 { High } else { Low };
                for feature in *features {
                    corner = set(space, corner, *feature, third, rng);
                }
            }
            corners.push(corner);
        }
    }
    corners
}

/// Plain traffic both ways with one word of another placement each.
fn placements(space: &Space, plain: &Workload) -> Vec<Workload> {
    let both_ways = set_word(space, plain.clone(), Feature::Bidirectional, "true");
    let mut found = Vec::new();
    for feature in [Feature::Loopback, Feature::MemoryRequester, Feature::MemoryResponder] {
        for value in space.feature_values(feature) {
            let placed = space.with_feature(&both_ways, feature, &value);
            found.extend(placed.filter(|placed| *placed != both_ways));
        }
    }
    found
}

fn set_word(space: &Space, workload: Workload, feature: Feature, word: &str) -> Workload {
    space.with_feature(&workload, feature, &FeatureValue::Category(word.to_owned())).unwrap_or(workload)
}

/// The workload with a feature at a random value of a third of its ladder.
fn set(space: &Space, workload: Workload, feature: Feature, third: Third, rng: &mut Pcg64) -> Workload {
    let values = space.feature_values(feature);
    let part = values.len().div_ceil(3);
    let mut values = match third {
        Third::Low => values[..part].to_vec(),
        Third::Middle => values[part.min(values.len() - 1)..(2 * part).min(values.len())].to_vec(),
        Third::High => values[values.len() - part..].to_vec(),
    };
    values.shuffle(rng);
    values.iter().find_map(|value| space.with_feature(&workload, feature, value)).unwrap_or(workload)
}
