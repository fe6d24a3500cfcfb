//! Which places explain best what cells take more than is expected: those that gain most in likelihood, one after the
//! other. Where the expectation comes from, the peers or the own past, is elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::pair_times::PairTimes;
use super::places::Fault;

/// Most faults that are named at once. Source: our choice.
const MOST_FAULTS: usize = 16;
/// A place explains its cells if this share of them is slower by half of what it says. Source: our choice, because
/// noise may hide one cell in five.
const LINE: f64 = 0.8;
/// What is left of a large fault, because its cells are not slowed alike, is no fault of its own: below this share of
/// the first one's gain. Source: our choice.
const REST: f64 = 0.05;
/// Quantiles of all cells that may be what is usual: the median, and lower ones for jobs of which most is slow.
/// Source: our choice.
const USUAL: [f64; 4] = [0.5, 0.35, 0.25, 0.1];

/// By how much the logarithm of a cell's time is above what was expected.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shift {
    /// The difference of logarithms.
    pub value: f64,
    /// One over twice its variance; 0 if the cell was not measured.
    pub weight: f64,
}

/// What is asked of an explanation.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Least gain in log-likelihood of a place, so that chance makes none.
    pub gain: f64,
    /// Least difference of logarithms that is named.
    pub least: f64,
    /// Variance of what all cells have in common without being slower.
    pub level: f64,
}

/// The places that are slow, and by how much all cells are.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// Each place with the difference of logarithms and its cells.
    pub faults: Vec<(Fault, f64, Vec<u32>)>,
    /// What all cells have in common.
    pub level: f64,
    /// What it leaves unexplained and what it takes to say, in log-likelihood.
    cost: f64,
}

/// The best explanation of these shifts, one for each cell.
pub fn explain(cells: &PairTimes, shifts: &[Shift], terms: Terms) -> Explanation {
    let lines = Lines::new(cells, shifts);
    let mut measured: Vec<f64> = shifts.iter().filter(|shift| shift.weight > 0.0).map(|shift| shift.value).collect();
    if measured.is_empty() {
        return Explanation::default();
    }
    measured.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| measured[((measured.len() - 1) as f64 * share).round() as usize];
    let mut levels: Vec<f64> = std::iter::once(0.0).chain(USUAL.map(quantile)).collect();
    levels.dedup();
    let all = levels.into_iter().map(|level| {
        let prior = level * level / (2.0 * terms.level.max(f64::MIN_POSITIVE));
        let mut found = lines.pursue(shifts, level, terms);
        found.cost += prior.min(terms.gain);
        found
    });
    let mut found = all.min_by(|one, other| one.cost.total_cmp(&other.cost)).unwrap_or_default();
    for [one, other] in cells.twins() {
        let twin = found.faults.iter().find(|(fault, ..)| *fault == Fault::Host(one)).cloned();
        found.faults.extend(twin.map(|(_, shift, line)| (Fault::Host(other), shift, line)));
    }
    found
}

/// The cells of each place of more than one, and the cells themselves.
struct Lines {
    places: Vec<(Fault, Vec<u32>)>,
    cells: Vec<(Fault, u32)>,
}

impl Lines {
    fn new(cells: &PairTimes, shifts: &[Shift]) -> Self {
        let measured: Vec<u32> =
            (0..cells.pairs.len() as u32).filter(|cell| shifts[*cell as usize].weight > 0.0).collect();
        let mut sent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut received: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut crossing: BTreeMap<u32, (BTreeSet<u32>, Vec<u32>)> = BTreeMap::new();
        for &cell in &measured {
            let (source, destination) = cells.pairs[cell as usize];
            sent.entry(source).or_default().push(cell);
            let Some(destination) = destination else { continue };
            received.entry(destination).or_default().push(cell);
            if cells.is_inside(cell) {
                continue;
            }
            for rank in [source, destination] {
                let Some(host) = cells.host_of(rank) else { continue };
                let (ranks, line) = crossing.entry(host).or_default();
                ranks.insert(rank);
                line.push(cell);
            }
        }
        let is_part = |line: &[u32]| line.len() > 1 && line.len() < measured.len();
        // Of equal explanations the widest one comes first.
        let twins: BTreeSet<u32> = cells.twins().into_iter().map(|[_, other]| other).collect();
        let is_place = |(host, (ranks, line)): &(u32, (BTreeSet<u32>, Vec<u32>))| {
            ranks.len() > 1 && is_part(line) && !twins.contains(host)
        };
        let hosts = crossing.into_iter().filter(is_place);
        let mut places: Vec<(Fault, Vec<u32>)> = hosts.map(|(host, (_, line))| (Fault::Host(host), line)).collect();
        let both = |(rank, out): (&u32, &Vec<u32>)| {
            let line: Vec<u32> = out.iter().chain(received.get(rank)?).copied().collect();
            // Of a rank with one partner, who is slow cannot be told.
            let ends = line.iter().map(|cell| cells.pairs[*cell as usize]);
            let partners: BTreeSet<Option<u32>> =
                ends.map(|(source, to)| if source == *rank { to } else { Some(source) }).collect();
            (is_part(&line) && partners.len() > 1).then_some((Fault::Rank(*rank), line))
        };
        places.extend(sent.iter().filter_map(both));
        let lines = |of: &BTreeMap<u32, Vec<u32>>, fault: fn(u32) -> Fault| -> Vec<(Fault, Vec<u32>)> {
            of.iter().filter(|(_, line)| is_part(line)).map(|(rank, line)| (fault(*rank), line.clone())).collect()
        };
        places.extend(lines(&sent, Fault::Source));
        places.extend(lines(&received, Fault::Destination));
        // Of two ranks, both ends of a way and the way itself are one.
        let is_pair = sent.len() <= 2 && received.len() <= 2;
        let named = |cell: u32| {
            let (source, Some(destination)) = cells.pairs[cell as usize] else { return None };
            let is_alone = sent[&source].len() < 2 || received[&destination].len() < 2;
            let fault = if is_alone && !is_pair { Fault::Ambiguous } else { Fault::Connection };
            Some((fault(source, destination), cell))
        };
        let cells = measured.iter().filter_map(|cell| named(*cell)).collect();
        Self { places, cells }
    }

    fn fault(&self, index: usize) -> Fault {
        self.places.get(index).map_or_else(|| self.cells[index - self.places.len()].0, |(fault, _)| *fault)
    }

    fn line(&self, index: usize) -> &[u32] {
        let one = || std::slice::from_ref(&self.cells[index - self.places.len()].1);
        self.places.get(index).map_or_else(one, |(_, line)| line)
    }

    /// Takes the place that gains most, again and again, if all cells have `level` in common.
    fn pursue(&self, shifts: &[Shift], level: f64, terms: Terms) -> Explanation {
        let mut left: Vec<Shift> =
            shifts.iter().map(|shift| Shift { value: shift.value - level, weight: shift.weight }).collect();
        let mut found = Explanation { level, ..Explanation::default() };
        let mut first = None;
        // The same place may gain once more after others, so rounds are bounded as well.
        for _ in 0..2 * MOST_FAULTS {
            let mut offers: Vec<(f64, f64, usize)> = Vec::new();
            for index in 0..self.places.len() + self.cells.len() {
                let (sum, weight) = self.line(index).iter().fold((0.0, 0.0), |(sum, weight), cell| {
                    let shift = left[*cell as usize];
                    (sum + shift.weight * shift.value, weight + shift.weight)
                });
                let (mean, gain) = (sum / weight, sum * sum / weight);
                if mean > terms.least && gain >= terms.gain && first.is_none_or(|first| gain >= REST * first) {
                    offers.push((gain, mean, index));
                }
            }
            offers.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.2.cmp(&other.2)));
            let agrees = |(_, mean, index): &&(f64, f64, usize)| {
                let line = self.line(*index);
                let is_slow = |cell: &&u32| {
                    let shift = left[**cell as usize];
                    shift.value > mean / 2.0 - (1.0 / (2.0 * shift.weight)).sqrt()
                };
                line.iter().filter(is_slow).count() as f64 >= LINE * line.len() as f64
            };
            let Some(&(gain, mean, index)) = offers.iter().find(agrees) else { break };
            first.get_or_insert(gain);
            let (fault, line) = (self.fault(index), self.line(index));
            for cell in line {
                left[*cell as usize].value -= mean;
            }
            let again = found.faults.iter_mut().find(|(one, ..)| *one == fault);
            if let Some((_, shift, _)) = again {
                *shift += mean;
            } else if found.faults.len() < MOST_FAULTS {
                found.faults.push((fault, mean, line.to_vec()));
            } else {
                break;
            }
        }
        let rest: f64 = left.iter().map(|shift| shift.weight * shift.value * shift.value).sum();
        found.cost = rest + terms.gain * found.faults.len() as f64;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(pairs: &[(u32, u32)]) -> PairTimes {
        PairTimes::of_pairs(pairs)
    }

    fn all_pairs(ranks: u32) -> Vec<(u32, u32)> {
        (0..ranks)
            .flat_map(|one| (0..ranks).filter(move |other| *other != one).map(move |other| (one, other)))
            .collect()
    }

    fn ring(ranks: u32) -> Vec<(u32, u32)> {
        (0..ranks).map(|rank| (rank, (rank + 1) % ranks)).collect()
    }

    type IsSlow = Box<dyn Fn((u32, u32)) -> bool>;
    /// Pairs, which are slow, what is named, and whether all are slow together.
    type Explained = (Vec<(u32, u32)>, IsSlow, Vec<Fault>, bool);

    #[test]
    fn the_place_that_explains_most_is_named_and_what_all_have_in_common_is_the_level() {
        let terms = Terms { gain: 18.0, least: 0.01, level: 1e-4 };
        let rank = |who: u32| move |(source, to): (u32, u32)| source == who || to == who;
        let cases: Vec<Explained> = vec![
            (all_pairs(8), Box::new(rank(3)), vec![Fault::Rank(3)], false),
            (all_pairs(3), Box::new(rank(1)), vec![Fault::Rank(1)], false),
            (all_pairs(8), Box::new(|(source, _)| source == 3), vec![Fault::Source(3)], false),
            (all_pairs(8), Box::new(|(_, to)| to == 3), vec![Fault::Destination(3)], false),
            (all_pairs(8), Box::new(|pair| pair == (3, 5)), vec![Fault::Connection(3, 5)], false),
            (ring(8), Box::new(rank(3)), vec![Fault::Rank(3)], false),
            (ring(8), Box::new(|pair| pair == (3, 4)), vec![Fault::Ambiguous(3, 4)], false),
            (ring(2), Box::new(|pair| pair == (0, 1)), vec![Fault::Connection(0, 1)], false),
            (ring(2), Box::new(|_| true), vec![], true),
            (all_pairs(4), Box::new(|_| true), vec![], true),
            (all_pairs(4), Box::new(|_| false), vec![], false),
        ];
        for (pairs, is_slow, expected, is_level) in cases {
            let shift = |pair: &(u32, u32)| if is_slow(*pair) { 0.18 } else { 0.0 };
            let shifts: Vec<Shift> = pairs.iter().map(|pair| Shift { value: shift(pair), weight: 5000.0 }).collect();
            let found = explain(&cells(&pairs), &shifts, terms);
            let faults: Vec<Fault> = found.faults.iter().map(|(fault, ..)| *fault).collect();
            assert_eq!((faults, found.level > 0.1), (expected, is_level), "{pairs:?}");
        }
    }
}
