//! Moving about a space: mutation, one feature set. First points live in `sampling`, points inside a region in
//! `inside`.

use rand::{Rng, RngExt};

use crate::dimensions::{Dimension, Scope, Special};
use crate::domains::TransportChoice;
use crate::edit::{
    recut, resize, set, set_memory_written, set_message_max, set_message_min, set_mix, set_sge_min, set_total_qps,
    split_evenly,
};
use crate::features::{Feature, FeatureValue};
use crate::repair::{Keep, fit};
use crate::sampling::pick;
use crate::space::Space;
use crate::workload::{Flow, Request, Workload};

/// How often a mutation steps to a neighbouring value instead of any. Source: our choice, because annealing needs both.
const STEP: f64 = 0.5;
/// How often the other side of a queue follows, if both were equal. Source: our choice, because applications mostly
/// size both alike.
const FOLLOW: f64 = 0.75;
/// Mutations tried before every neighbour is looked at. Source: our choice, because one try succeeds nearly always.
const MUTATIONS: usize = 32;
impl Space {
    /// A point that differs in one dimension, and in what must follow it; `w` itself only if nothing else was found.
    pub fn mutate<R: Rng + ?Sized>(&self, w: &Workload, rng: &mut R) -> Workload {
        self.mutate_one(w, rng).map_or_else(|| w.clone(), |(workload, _)| workload)
    }

    /// As [`Space::mutate`], with the dimension that moved.
    pub(crate) fn mutate_one<R: Rng + ?Sized>(&self, w: &Workload, rng: &mut R) -> Option<(Workload, Dimension)> {
        if !has_substance(w) {
            return None;
        }
        for _ in 0..MUTATIONS {
            let dimension = pick(self.mutable(), rng);
            let mut moved = w.clone();
            if let Some(keep) = self.perturb(&mut moved, dimension, rng)
                && fit(self.domains(), &mut moved, keep).is_some()
                && moved != *w
                && self.contains(&moved)
            {
                return Some((moved, dimension));
            }
        }
        // Narrow spaces: whatever single step exists, and failing that any other point.
        let steps: Vec<(Workload, Dimension)> = self.steps_from(w).collect();
        if !steps.is_empty() {
            return Some(steps[rng.random_range(0..steps.len() as u64) as usize].clone());
        }
        let other = (0..MUTATIONS).map(|_| self.sample(rng)).find(|other| other != w)?;
        Some((other, Dimension::QpType))
    }

    /// Changes one dimension, unrepaired.
    fn perturb<R: Rng + ?Sized>(&self, w: &mut Workload, dimension: Dimension, rng: &mut R) -> Option<Keep> {
        let keep = Keep::NOTHING.with(dimension);
        match dimension.row().scope {
            Scope::Special(Special::TotalQps | Special::TotalMrs | Special::PinnedPerHost) => None,
            Scope::Special(Special::MixedOpcodes) => {
                if !self.admits(dimension, true) {
                    return None;
                }
                let index = rng.random_range(0..w.flows[0].pattern.len() as u64) as usize;
                let op = pick(self.transports(), rng).op;
                repattern(w, |pattern| pattern[index].op = op);
                Some(keep.with(Dimension::QpType))
            }
            Scope::Special(Special::Message) => {
                self.perturb_messages(w, rng);
                Some(keep)
            }
            Scope::Special(Special::Requests) => {
                let len = self.other_step(dimension, w.flows[0].pattern.len() as u64, rng)? as usize;
                let elements = w.flows[0].pattern[0].sge.len();
                let fresh = self.requests(transport_of(&w.flows[0]), len, elements, rng);
                repattern(w, |pattern| {
                    pattern.truncate(len);
                    pattern.extend_from_slice(&fresh[pattern.len()..]);
                });
                Some(keep)
            }
            Scope::Flow { .. }
            | Scope::Memory { .. }
            | Scope::Request { .. }
            | Scope::Whole { .. }
            | Scope::Special(Special::Memory(_) | Special::SgeCount) => self.perturb_value(w, dimension, rng),
        }
    }

    /// Another value of one dimension, often with the other side of its queue.
    fn perturb_value<R: Rng + ?Sized>(&self, w: &mut Workload, dimension: Dimension, rng: &mut R) -> Option<Keep> {
        let keep = Keep::NOTHING.with(dimension);
        let now = current(w, dimension)?;
        let value = self.other_step(dimension, now, rng)?;
        set(w, dimension, value);
        if let Some(twin) = dimension.row().twin
            && current(w, twin) == Some(now)
            && self.domain(twin).contains(value)
            && rng.random_bool(FOLLOW)
        {
            set(w, twin, value);
            return Some(keep.with(twin));
        }
        Some(keep)
    }

    /// Another value of a dimension: the step below or above, or any.
    fn other_step<R: Rng + ?Sized>(&self, dimension: Dimension, now: u64, rng: &mut R) -> Option<u64> {
        let domain = self.domain(dimension);
        let ordered = dimension.row().features.first().is_none_or(|feature| feature.is_ordered());
        let value = if ordered && rng.random_bool(STEP) {
            if rng.random_bool(0.5) { domain.floor(now.checked_sub(1)?) } else { domain.ceil(now + 1) }
        } else {
            Some(pick(domain.steps(), rng))
        };
        value.filter(|value| *value != now)
    }

    /// All sizes anew, one size by a step or anew, or one request's elements cut differently.
    fn perturb_messages<R: Rng + ?Sized>(&self, w: &mut Workload, rng: &mut R) {
        let transport = transport_of(&w.flows[0]);
        let domain = self.domain(Dimension::Message);
        let style = rng.random_range(0..4u32);
        let len = w.flows[0].pattern.len();
        let index = rng.random_range(0..len as u64) as usize;
        let elements = w.flows[0].pattern[index].sge.len();
        let fresh = self.requests(transport, len, elements, rng);
        let up = rng.random_bool(0.5);
        repattern(w, |pattern| match style {
            0 => {
                for (request, fresh) in pattern.iter_mut().zip(fresh) {
                    *request = recounted(fresh, request);
                }
            }
            1 => pattern[index] = recounted(fresh[index].clone(), &pattern[index]),
            2 => {
                let now = pattern[index].message().0;
                let next = if up { domain.ceil(now + 1) } else { domain.floor(now.saturating_sub(1)) };
                resize(&mut pattern[index], next.unwrap_or(now));
            }
            _ => {
                let message = pattern[index].message().0;
                let mut other = recounted(fresh[index].clone(), &pattern[index]);
                resize(&mut other, message);
                if other == pattern[index] {
                    split_evenly(&mut other, message);
                }
                pattern[index] = other;
            }
        });
    }

    /// Every point one step away in one dimension, repaired where other limits depend on it.
    pub fn neighbours(&self, w: &Workload) -> Vec<Workload> {
        let mut found: Vec<Workload> = Vec::new();
        for (workload, _) in self.steps_from(w) {
            if !found.contains(&workload) {
                found.push(workload);
            }
        }
        found
    }

    fn steps_from<'w>(&'w self, w: &'w Workload) -> impl Iterator<Item = (Workload, Dimension)> + 'w {
        let features = Feature::ALL.into_iter().filter(move |_| has_substance(w)).flat_map(move |feature| {
            let now = w.feature(feature);
            let values: Vec<FeatureValue> = match now.number() {
                Some(now) => self.steps_around(feature, now).into_iter().flatten().map(FeatureValue::Number).collect(),
                None => self.feature_values(feature),
            };
            values
                .into_iter()
                .filter(move |value| *value != now)
                .filter_map(move |value| self.with_feature(w, feature, &value))
                .map(move |workload| (workload, Dimension::of(feature)))
        });
        let lengths = self.domain(Dimension::Requests);
        let now = w.flows.first().map_or(0, |flow| flow.pattern.len() as u64);
        let lengths = [lengths.floor(now.saturating_sub(1)), lengths.ceil(now + 1)].into_iter().flatten();
        let lengths = lengths.filter(move |_| has_substance(w)).filter_map(move |len| {
            let mut moved = w.clone();
            set(&mut moved, Dimension::Requests, len);
            fit(self.domains(), &mut moved, Keep::NOTHING.with(Dimension::Requests))?;
            self.contains(&moved).then_some((moved, Dimension::Requests))
        });
        features.chain(lengths).filter(move |(workload, _)| workload != w)
    }

    fn steps_around(&self, feature: Feature, now: u64) -> [Option<u64>; 2] {
        let domain = self.domain_of(feature);
        [now.checked_sub(1).and_then(|below| domain.floor(below)), domain.ceil(now + 1)]
    }

    /// The values of a feature: the alternatives of a category, the ascending steps of an ordered one.
    ///
    /// Not each of them can be reached from each point: see [`Space::with_feature`].
    pub fn feature_values(&self, feature: Feature) -> Vec<FeatureValue> {
        let dimension = Dimension::of(feature);
        let steps = self.domain_of(feature).steps().iter();
        match feature {
            Feature::MessageMix => [false, true]
                .into_iter()
                .filter(|mix| {
                    self.transports().iter().any(|transport| self.mixed(&self.least(*transport), *mix).is_some())
                })
                .map(|mix| FeatureValue::Category(mix.to_string()))
                .collect(),
            // Only what some legal combination has: WRITE is no value where the transport is UD.
            Feature::QpType => self.words(steps, dimension, |transport| transport.qp_type as u64),
            Feature::Opcode => self.words(steps, dimension, |transport| transport.op as u64),
            Feature::Mtu => steps
                .filter(|step| self.transports().iter().any(|transport| transport.mtu.bytes() == **step))
                .map(|step| FeatureValue::Number(*step))
                .collect(),
            Feature::MemoryWritten => {
                let mut codes: Vec<u64> =
                    steps.chain(self.domain(Dimension::MemoryRequester).steps()).copied().collect();
                codes.sort_unstable();
                codes.dedup();
                codes.into_iter().map(|code| FeatureValue::Category(dimension.word(code))).collect()
            }
            _ if feature.is_ordered() => steps.map(|step| FeatureValue::Number(*step)).collect(),
            _ => steps.map(|step| FeatureValue::Category(dimension.word(*step))).collect(),
        }
    }

    fn words<'s>(
        &self,
        steps: impl Iterator<Item = &'s u64>,
        dimension: Dimension,
        code: fn(&TransportChoice) -> u64,
    ) -> Vec<FeatureValue> {
        steps
            .filter(|step| self.transports().iter().any(|transport| code(transport) == **step))
            .map(|step| FeatureValue::Category(dimension.word(*step)))
            .collect()
    }

    fn mixed(&self, w: &Workload, on: bool) -> Option<Workload> {
        let value = FeatureValue::Category(on.to_string());
        self.with_feature(w, Feature::MessageMix, &value)
    }

    /// `w` with this feature at `value` and everything else as near as the rules allow; `None` if the space has no such
    /// point.
    ///
    /// `total_mrs` is a product and comes out as the nearest value at or below; all others exactly.
    pub fn with_feature(&self, w: &Workload, feature: Feature, value: &FeatureValue) -> Option<Workload> {
        if !has_substance(w) {
            return None;
        }
        let dimension = Dimension::of(feature);
        let domain = self.domain_of(feature);
        let mut moved = w.clone();
        let mut keep = Keep::NOTHING.with(dimension);
        match (feature, value) {
            (Feature::MessageMix, FeatureValue::Category(word)) => {
                if !set_mix(self.domains(), &mut moved, word.parse().ok()?) {
                    return None;
                }
            }
            (Feature::MemoryWritten, FeatureValue::Category(word)) => {
                set_memory_written(&mut moved, word.parse().ok()?);
            }
            (_, FeatureValue::Category(word)) => {
                let code = dimension.code(word).ok().filter(|code| domain.contains(*code))?;
                set(&mut moved, dimension, code);
            }
            (_, FeatureValue::Number(number)) => {
                if !domain.contains(*number) {
                    return None;
                }
                match feature {
                    Feature::MessageMax => set_message_max(&mut moved, *number),
                    Feature::MessageMin => set_message_min(&mut moved, *number),
                    Feature::SgeMin => set_sge_min(&mut moved, *number).then_some(())?,
                    Feature::TotalQps => {
                        set_total_qps(&mut moved, *number).then_some(())?;
                        keep = keep.with(Dimension::Qps);
                    }
                    Feature::TotalMrs => {
                        self.set_total_mrs(&mut moved, *number)?;
                        keep = keep.with(Dimension::Mrs).with(Dimension::Qps);
                    }
                    _ => set(&mut moved, dimension, *number),
                }
            }
        }
        fit(self.domains(), &mut moved, keep)?;
        let reached = feature == Feature::TotalMrs || moved.feature(feature) == *value;
        (reached && self.contains(&moved)).then_some(moved)
    }

    /// MRs per QP for this total; where there are more QPs than MRs, fewer QPs with as few MRs as the space allows.
    fn set_total_mrs(&self, w: &mut Workload, total: u64) -> Option<()> {
        let domain = self.domain(Dimension::Mrs);
        let qps: u64 = w.flows.iter().map(|flow| u64::from(flow.qps)).sum();
        let mrs = (total / qps.max(1)).clamp(domain.min(), domain.max());
        let mrs = if domain.contains(mrs) { mrs } else { domain.floor(mrs)? };
        set(w, Dimension::Mrs, mrs);
        if mrs * qps > total || mrs == domain.max() {
            return set_total_qps(w, total / mrs).then_some(());
        }
        Some(())
    }
}

/// Whether there is something to move: flows with requests with elements.
fn has_substance(w: &Workload) -> bool {
    let is_whole = |flow: &Flow| !flow.pattern.is_empty() && flow.pattern.iter().all(|request| !request.sge.is_empty());
    !w.flows.is_empty() && w.flows.iter().all(is_whole)
}

/// The value of a dimension that its first feature shows.
fn current(w: &Workload, dimension: Dimension) -> Option<u64> {
    Some(match w.feature(*dimension.row().features.first()?) {
        FeatureValue::Number(number) => number,
        FeatureValue::Category(word) => dimension.code(&word).unwrap_or(u64::MAX),
    })
}

fn transport_of(flow: &Flow) -> TransportChoice {
    TransportChoice { qp_type: flow.qp_type, op: flow.pattern[0].op, mtu: flow.mtu }
}

/// Changes the request vector of the first flow, and of all flows that have the same.
fn repattern(w: &mut Workload, change: impl FnOnce(&mut Vec<Request>)) {
    let old = w.flows[0].pattern.clone();
    let mut new = old.clone();
    change(&mut new);
    for flow in w.flows.iter_mut().filter(|flow| flow.pattern == old) {
        flow.pattern.clone_from(&new);
    }
}

/// A fresh request with the operation and the number of elements of an old one.
fn recounted(mut fresh: Request, old: &Request) -> Request {
    fresh.op = old.op;
    if fresh.sge.len() != old.sge.len() {
        recut(&mut fresh, old.sge.len());
    }
    fresh
}
