//! Messages whose sizes vary from one iteration to the next, as those to experts do: hardly any recurs, so times of one
//! size say nothing. Each time is held against what all messages of about that size took.

use hashbrown::HashMap;
use kelpie_monitor::statistics::median;

use super::pair_times::{PairTimes, RankPair};

/// Fewest sizes that vary; with fewer, each is a series of its own. Source: our choice.
const SIZES: usize = 3;
/// Sizes for each pair from which on they vary, and the share of the iterations below which each is seen.
/// Source: our choice.
const EACH: usize = 2;
const SEEN: f64 = 0.5;
/// Points of the curve of times over sizes, fewest messages behind each, and how far sizes of one are apart, as a
/// logarithm. Source: our choice.
const POINTS: usize = 32;
const BEHIND: usize = 8;
const WIDE: f64 = 0.1;

/// Sizes and times as logarithms, of messages within hosts and between them.
type Curves = [Vec<(f64, f64)>; 2];

impl PairTimes {
    /// Whether sizes vary, so that pairs and not their sizes are what recurs.
    fn vary(&self) -> bool {
        let mut sizes = self.bytes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() < SIZES || sizes.first() == Some(&0) {
            return false;
        }
        let mut pairs = self.pairs.clone();
        pairs.sort_unstable();
        pairs.dedup();
        let values = self.times.iter().map(Vec::len).sum::<usize>() as f64;
        self.pairs.len() >= EACH * pairs.len() && values < SEEN * (self.pairs.len() * self.times.len()) as f64
    }

    /// One cell for each pair, if sizes vary: its times as if each message had the usual size.
    pub(super) fn by_pair_if_sizes_vary(mut self) -> Self {
        if !self.vary() {
            return self;
        }
        // A message waits for others at its ends if these carry no more, and then what they carry is its size.
        let [own, busiest] = [Self::own_sizes, Self::sizes_of_ends].map(|sizes| self.residuals(&sizes(&self)));
        let off = |all: &[Vec<(u32, f64)>]| {
            let all: Vec<f64> = all.iter().flatten().map(|(_, off)| off.abs()).collect();
            median(&all).unwrap_or(0.0)
        };
        let off = if off(&busiest) < off(&own) { busiest } else { own };
        let logarithms: Vec<f64> = self.times.iter().flatten().map(|(_, time)| time.ln()).collect();
        let usual = median(&logarithms).unwrap_or(0.0);
        let (pairs, bytes) = (std::mem::take(&mut self.pairs), std::mem::take(&mut self.bytes));
        let mut numbers: HashMap<RankPair, u32> = HashMap::new();
        let number: Vec<u32> = pairs
            .iter()
            .map(|pair| {
                *numbers.entry(*pair).or_insert_with(|| {
                    self.pairs.push(*pair);
                    self.pairs.len() as u32 - 1
                })
            })
            .collect();
        let mut sorted = bytes;
        sorted.sort_unstable();
        self.are_by_size = true;
        self.bytes = vec![sorted[sorted.len() / 2]; self.pairs.len()];
        let mut sums = vec![(0.0, 0_u32); self.pairs.len()];
        for (times, off) in self.times.iter_mut().zip(off) {
            let mut order: Vec<u32> = Vec::with_capacity(times.len());
            for (cell, off) in off {
                let (sum, count) = &mut sums[number[cell as usize] as usize];
                if *count == 0 {
                    order.push(number[cell as usize]);
                }
                (*sum, *count) = (*sum + off, *count + 1);
            }
            *times = order
                .into_iter()
                .map(|cell| {
                    let (sum, count) = std::mem::take(&mut sums[cell as usize]);
                    (cell, (usual + sum / f64::from(count)).exp())
                })
                .collect();
        }
        self
    }

    /// Per iteration, the size of each message as a logarithm.
    fn own_sizes(&self) -> Vec<Vec<f64>> {
        let size = |(cell, _): &(u32, f64)| (self.bytes[*cell as usize] as f64).ln();
        self.times.iter().map(|times| times.iter().map(size).collect()).collect()
    }

    /// Per iteration and message, what the busier of its ends sends or receives, as a logarithm.
    fn sizes_of_ends(&self) -> Vec<Vec<f64>> {
        let of_iteration = |times: &Vec<(u32, f64)>| {
            let mut ends: HashMap<(bool, u32), f64> = HashMap::new();
            let of = |cell: u32| {
                let (source, destination) = self.pairs[cell as usize];
                [Some((true, source)), destination.map(|rank| (false, rank))].into_iter().flatten()
            };
            for (cell, _) in times {
                for end in of(*cell) {
                    *ends.entry(end).or_default() += self.bytes[*cell as usize] as f64;
                }
            }
            times.iter().map(|(cell, _)| of(*cell).map(|end| ends[&end]).fold(1.0, f64::max).ln()).collect()
        };
        self.times.iter().map(of_iteration).collect()
    }

    /// Per iteration and message, by how much the logarithm of its time is above what messages of its size take.
    fn residuals(&self, sizes: &[Vec<f64>]) -> Vec<Vec<(u32, f64)>> {
        let all = || self.times.iter().zip(sizes).map(|(times, sizes)| times.iter().zip(sizes));
        let mut curves = Curves::default();
        for ((cell, time), size) in all().flatten() {
            curves[usize::from(self.is_inside(*cell))].push((*size, time.ln()));
        }
        let curves = curves.map(curve);
        let off = |((cell, time), size): (&(u32, f64), &f64)| {
            (*cell, time.ln() - at(&curves[usize::from(self.is_inside(*cell))], *size))
        };
        all().map(|messages| messages.map(off).collect()).collect()
    }
}

/// The medians of parts of the messages, in the order of their sizes. A part ends where the size changes, once enough
/// messages are behind it; so sizes that recur are parts of their own.
fn curve(mut messages: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    messages.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let enough = messages.len() / POINTS;
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    for (size, time) in messages {
        let is_over = |part: &Vec<(f64, f64)>| {
            let (first, last) = (part[0].0, part[part.len() - 1].0);
            part.len() >= BEHIND && size > last && (part.len() >= enough || size - first > WIDE)
        };
        match parts.last_mut().filter(|part| !is_over(part)) {
            Some(part) => part.push((size, time)),
            None => parts.push(vec![(size, time)]),
        }
    }
    // A few that are left over say too little by themselves.
    if parts.len() > 1 && parts.last().is_some_and(|part| part.len() < BEHIND) {
        let rest = parts.pop().unwrap_or_default();
        parts.last_mut().into_iter().for_each(|part| part.extend(&rest));
    }
    let middle = |part: Vec<(f64, f64)>| {
        let (sizes, times): (Vec<f64>, Vec<f64>) = part.into_iter().unzip();
        Some((median(&sizes)?, median(&times)?))
    };
    parts.into_iter().filter_map(middle).collect()
}

/// The time of a size between two points of a curve, or beyond its ends along the nearest two.
fn at(curve: &[(f64, f64)], size: f64) -> f64 {
    let above = curve.partition_point(|point| point.0 < size).clamp(1, curve.len().saturating_sub(1).max(1));
    match (curve.get(above - 1), curve.get(above)) {
        (Some(low), Some(high)) => low.1 + (size - low.0) / (high.0 - low.0) * (high.1 - low.1),
        (Some(only), None) => only.1,
        _ => 0.0,
    }
}
