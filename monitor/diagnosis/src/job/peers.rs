//! What is slow against its peers at the end of a job: by the published rule (a message is hot if it takes more than
//! 1.5 times what the others take; lines of hot cells are ranks, sources or destinations), and by likelihood.
//!
//! Source: C4 (Dong et al., HPCA 2025), the syndromes of C4D's matrix. The share of a line is ours.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kelpie_monitor::statistics::median;

use super::between::{Between, between};
use super::explain::{Shift, Terms, explain};
use super::noise::{CHANCE, PeerNoise};
use super::pair_times::PairTimes;
use super::places::Fault;

/// A cell above this many times the median of its peers is hot. Source: published by users of C4D; the paper has none.
const HOT: f64 = 1.5;
/// A line is hot if this share of its cells is. Source: our choice, because noise may hide one cell in five.
const LINE: f64 = 0.8;
/// Iterations at the end over which each cell's median counts. Source: our choice.
const WINDOW: usize = 50;
/// Least factor by which a place has to be slower than its peers. Source: our choice, because peers may differ.
const SLOWER: f64 = 1.3;
/// Least peers that a cell is compared with, itself included. Source: our choice: of two, none is the slow one.
const LEAST_PEERS: usize = 3;

/// What the published rule says of the end of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Peers {
    /// What is slow, as published.
    pub faults: Vec<Fault>,
    /// What stands out by more than noise makes, with its factor.
    pub confirmed: Vec<(Fault, f64)>,
    /// The groups between which messages are slow, if no place stands out, and the factor.
    pub between: Option<(Between, f64)>,
    /// Hot cells that no fault says.
    pub hot: usize,
    /// First iteration from which it was so.
    pub since: Option<u64>,
    /// Cells with enough peers to be judged.
    pub judged: usize,
    /// The largest ratio to the median of its peers.
    pub worst_ratio: Option<f64>,
}

/// Applies the rule to the last iterations.
pub fn peers(cells: &PairTimes) -> Peers {
    let from = cells.times.len().saturating_sub(WINDOW);
    // A change within the window must not hide behind the time before it, so the last half decides.
    let from = from + (cells.times.len() - from) / 2;
    let recent = Recent::new(cells, from);
    let typical: Vec<(u32, f64)> = recent.medians().collect();
    let mut medians: HashMap<Kind, Vec<f64>> = HashMap::new();
    for (cell, time) in &typical {
        medians.entry(kind(cells, *cell)).or_default().push(*time);
    }
    let medians: HashMap<Kind, f64> = medians
        .into_iter()
        .filter(|(_, times)| times.len() >= LEAST_PEERS)
        .filter_map(|(kind, times)| Some((kind, median(&times)?)))
        .collect();
    let ratios: Vec<(u32, f64)> =
        typical.iter().filter_map(|(cell, time)| Some((*cell, time / medians.get(&kind(cells, *cell))?))).collect();
    let hot: BTreeSet<u32> = ratios.iter().filter(|(_, ratio)| *ratio > HOT).map(|(cell, _)| *cell).collect();
    let faults = if hot.is_empty() { Vec::new() } else { lines(cells, &ratios, &hot) };
    let since = if hot.is_empty() { None } else { since(cells, &hot, &medians) };
    let confirmed = if ratios.is_empty() { Vec::new() } else { stand_out(cells, &recent, &ratios, &medians) };
    let between = if confirmed.is_empty() && !ratios.is_empty() { groups(cells, &ratios) } else { None };
    Peers {
        faults,
        between,
        confirmed,
        hot: hot.len(),
        since,
        judged: ratios.len(),
        worst_ratio: ratios.iter().map(|(_, ratio)| *ratio).max_by(f64::total_cmp),
    }
}

/// What makes cells comparable: the size of their messages, and whether these stay within a host.
type Kind = (u64, bool);

fn kind(cells: &PairTimes, cell: u32) -> Kind {
    (cells.bytes[cell as usize], cells.is_inside(cell))
}

/// What each cell took in the iterations that count.
struct Recent {
    times: Vec<f64>,
    /// Where the times of each cell begin; one more than there are cells.
    begins: Vec<usize>,
}

impl Recent {
    fn new(cells: &PairTimes, from: usize) -> Self {
        let mut begins = vec![0; cells.pairs.len() + 1];
        for (cell, _) in cells.times[from..].iter().flatten() {
            begins[*cell as usize + 1] += 1;
        }
        for cell in 0..cells.pairs.len() {
            begins[cell + 1] += begins[cell];
        }
        let mut next = begins.clone();
        let mut times = vec![0.0; begins[cells.pairs.len()]];
        for (cell, time) in cells.times[from..].iter().flatten() {
            times[next[*cell as usize]] = *time;
            next[*cell as usize] += 1;
        }
        Self { times, begins }
    }

    fn of(&self, cell: u32) -> &[f64] {
        &self.times[self.begins[cell as usize]..self.begins[cell as usize + 1]]
    }

    /// Each measured cell's median.
    fn medians(&self) -> impl Iterator<Item = (u32, f64)> {
        (0..self.begins.len() as u32 - 1).filter_map(|cell| Some((cell, median(self.of(cell))?)))
    }
}

/// The places that explain best what cells take more than their peers, if that is more than noise makes; each with its
/// factor.
fn stand_out(
    cells: &PairTimes,
    recent: &Recent,
    judged: &[(u32, f64)],
    medians: &HashMap<Kind, f64>,
) -> Vec<(Fault, f64)> {
    let logarithms: Vec<Vec<f64>> = judged
        .iter()
        .map(|(cell, _)| {
            let usual = medians[&kind(cells, *cell)];
            recent.of(*cell).iter().map(|time| (time / usual).ln()).collect()
        })
        .collect();
    let noise = PeerNoise::new(logarithms.iter().map(Vec::as_slice));
    let mut shifts = vec![Shift::default(); cells.pairs.len()];
    let mut places = vec![usize::MAX; cells.pairs.len()];
    for (index, ((cell, _), (value, variance))) in judged.iter().zip(noise.members()).enumerate() {
        places[*cell as usize] = index;
        shifts[*cell as usize] = Shift { value, weight: 1.0 / (2.0 * variance.max(1e-8)) };
    }
    let gain = (judged.len() as f64 / CHANCE).ln();
    // Of what all have in common nothing is known here, so it may be anything.
    let found = explain(cells, &shifts, Terms { gain, least: SLOWER.ln(), level: f64::INFINITY });
    let is_more = |(_, _, line): &(Fault, f64, Vec<u32>)| {
        noise.stand_out(line.iter().map(|cell| places[*cell as usize]), found.level, judged.len())
    };
    let faults: Vec<_> = found.faults.into_iter().filter(is_more).collect();
    faults.into_iter().map(|(fault, shift, _)| (fault, shift.exp())).collect()
}

/// The groups between which messages are slow: of which the slower ones are apart from all others.
fn groups(cells: &PairTimes, ratios: &[(u32, f64)]) -> Option<(Between, f64)> {
    let mut all: Vec<f64> = ratios.iter().map(|(_, ratio)| ratio.ln()).collect();
    all.sort_unstable_by(f64::total_cmp);
    let gaps = all.windows(2).map(|two| two[1] - two[0]).enumerate();
    let (at, gap) = gaps.max_by(|one, other| one.1.total_cmp(&other.1))?;
    if gap < SLOWER.ln() {
        return None;
    }
    let mut shifts = vec![Shift::default(); cells.pairs.len()];
    for (cell, ratio) in ratios {
        shifts[*cell as usize] = Shift { value: ratio.ln(), weight: 1.0 };
    }
    let found = between(cells, &shifts, all[at] + gap / 2.0)?;
    Some((found, (median(&all[at + 1..])? - median(&all[..=at])?).exp()))
}

/// The faults that hot cells say, in the published order: rank, source, destination, connection.
fn lines(cells: &PairTimes, measured: &[(u32, f64)], hot: &BTreeSet<u32>) -> Vec<Fault> {
    let mut sent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut received: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &(cell, _) in measured {
        let (source, destination) = cells.pairs[cell as usize];
        sent.entry(source).or_default().push(cell);
        received.entry(destination.unwrap_or(u32::MAX)).or_default().push(cell);
    }
    let is_hot = |line: Option<&Vec<u32>>| {
        line.is_some_and(|line| {
            let count = line.iter().filter(|cell| hot.contains(cell)).count();
            line.len() >= 2 && count as f64 >= LINE * line.len() as f64
        })
    };
    let mut faults = Vec::new();
    let mut open = hot.clone();
    let mut claim = |line: Option<&Vec<u32>>| {
        for cell in line.into_iter().flatten() {
            open.remove(cell);
        }
    };
    let ranks: BTreeSet<u32> = sent.keys().chain(received.keys()).copied().filter(|rank| *rank != u32::MAX).collect();
    for &rank in &ranks {
        if is_hot(sent.get(&rank)) && is_hot(received.get(&rank)) {
            faults.push(Fault::Rank(rank));
            claim(sent.get(&rank));
            claim(received.get(&rank));
        }
    }
    for &rank in ranks.iter().filter(|rank| !faults.contains(&Fault::Rank(**rank))).collect::<Vec<_>>() {
        match (is_hot(sent.get(&rank)), is_hot(received.get(&rank))) {
            (true, _) => {
                faults.push(Fault::Source(rank));
                claim(sent.get(&rank));
            }
            (_, true) => {
                faults.push(Fault::Destination(rank));
                claim(received.get(&rank));
            }
            _ => {}
        }
    }
    faults.sort_unstable();
    for cell in open {
        let (source, destination) = cells.pairs[cell as usize];
        let Some(destination) = destination else {
            // A rank's share of a collective is long for whoever waits, so it says nothing of this rank.
            continue;
        };
        let alone =
            [sent.get(&source), received.get(&destination)].iter().any(|line| line.is_none_or(|line| line.len() < 2));
        faults.push(if alone { Fault::Ambiguous(source, destination) } else { Fault::Connection(source, destination) });
    }
    faults
}

/// The first iteration since when most hot cells were hot most of the time.
fn since(cells: &PairTimes, hot: &BTreeSet<u32>, medians: &HashMap<Kind, f64>) -> Option<u64> {
    let share = |times: &Vec<(u32, f64)>| {
        let judged: Vec<bool> = times
            .iter()
            .filter(|(cell, _)| hot.contains(cell))
            .filter_map(|(cell, time)| Some(*time > HOT * medians.get(&kind(cells, *cell))?))
            .collect();
        !judged.is_empty() && 2 * judged.iter().filter(|is_hot| **is_hot).count() > judged.len()
    };
    let is_hot: Vec<bool> = cells.times.iter().map(share).collect();
    let (mut first, mut count) = (None, 0);
    for (back, index) in (0..is_hot.len()).rev().enumerate() {
        count += usize::from(is_hot[index]);
        if is_hot[index] && count as f64 >= LINE * (back + 1) as f64 {
            first = Some(cells.iterations[index]);
        }
    }
    first
}
