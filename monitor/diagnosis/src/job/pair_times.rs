//! The matrix of an iteration: what each message took. Judging is elsewhere.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::operation::{JobOperations, Operation};

/// A connection, or a rank's share of a collective.
pub type RankPair = (u32, Option<u32>);

/// Every pair of a job and size of its messages, numbered in the order of its first operation, and what it took in each
/// iteration.
#[derive(Default)]
pub struct PairTimes {
    /// The pairs.
    pub pairs: Vec<RankPair>,
    /// Size of each one's messages; cells of equal size are comparable.
    pub bytes: Vec<u64>,
    /// The numbers of the iterations.
    pub iterations: Vec<u64>,
    /// Per iteration `(cell, microseconds)`.
    pub times: Vec<Vec<(u32, f64)>>,
    /// Whether each time is held against what its size usually takes, because sizes vary.
    pub are_by_size: bool,
    /// The number of each rank's host, where the file names it.
    hosts: HashMap<u32, u32>,
    /// The hosts by these numbers.
    pub host_names: Vec<String>,
}

impl PairTimes {
    /// The cells of a job. Several messages of a pair and of one size in an iteration count by their mean. If sizes
    /// vary, a cell is a pair.
    pub fn new(job: &JobOperations) -> Self {
        let mut cells = Self::default();
        for (rank, host) in &job.hosts {
            let known = cells.host_names.iter().position(|name| name == host);
            let number = known.unwrap_or(cells.host_names.len());
            if known.is_none() {
                cells.host_names.push(host.clone());
            }
            cells.hosts.insert(*rank, number as u32);
        }
        let mut numbers = Numbers::default();
        // Per cell, where it stands in the iteration at hand, and of how many messages.
        let mut at: Vec<(u32, u32)> = Vec::new();
        for operations in job.iterations() {
            let entered = entries(operations);
            let mut times: Vec<(u32, f64)> = Vec::with_capacity(operations.len());
            for operation in operations {
                let Some(duration) = transfer(operation, &entered) else { continue };
                let number = numbers.of(&mut cells, (operation.source, operation.destination), operation.bytes);
                if number as usize == at.len() {
                    at.push((u32::MAX, 0));
                }
                let (index, count) = &mut at[number as usize];
                if let Some((_, time)) = times.get_mut(*index as usize).filter(|(cell, _)| *cell == number) {
                    *count += 1;
                    *time += (duration - *time) / f64::from(*count);
                } else {
                    (*index, *count) = (times.len() as u32, 1);
                    times.push((number, duration));
                }
            }
            cells.iterations.push(operations[0].iteration);
            cells.times.push(times);
        }
        cells.by_pair_if_sizes_vary()
    }

    /// The number of a rank's host, where the file names it.
    pub fn host_of(&self, rank: u32) -> Option<u32> {
        self.hosts.get(&rank).copied()
    }

    /// Whether a cell stays within a host.
    pub fn is_inside(&self, cell: u32) -> bool {
        let (source, destination) = self.pairs[cell as usize];
        self.host_of(source).is_some() && self.host_of(source) == destination.and_then(|rank| self.host_of(rank))
    }

    /// The hosts of a cell that crosses from one to another.
    pub fn crossed(&self, cell: u32) -> Option<[u32; 2]> {
        let (source, destination) = self.pairs[cell as usize];
        let hosts = [self.host_of(source)?, self.host_of(destination?)?];
        (hosts[0] != hosts[1]).then_some(hosts)
    }

    /// Pairs of hosts that exchange messages with each other only: which of them is slow cannot be told.
    pub fn twins(&self) -> Vec<[u32; 2]> {
        if self.host_names.len() < 2 {
            return Vec::new();
        }
        let mut partners: HashMap<u32, BTreeSet<u32>> = HashMap::new();
        for [one, other] in (0..self.pairs.len() as u32).filter_map(|cell| self.crossed(cell)) {
            partners.entry(one).or_default().insert(other);
            partners.entry(other).or_default().insert(one);
        }
        let only = |host: &u32| partners.get(host).filter(|all| all.len() == 1)?.first().copied();
        let mut twins: Vec<[u32; 2]> = partners.keys().filter_map(|one| Some([*one, only(one)?])).collect();
        twins.retain(|[one, other]| one < other && only(other) == Some(*one));
        twins.sort_unstable();
        twins
    }

    /// Cells that nobody has measured yet.
    #[cfg(test)]
    pub fn of_pairs(pairs: &[(u32, u32)]) -> Self {
        let pairs: Vec<RankPair> = pairs.iter().map(|(source, destination)| (*source, Some(*destination))).collect();
        Self { bytes: vec![0; pairs.len()], pairs, ..Self::default() }
    }
}

/// The number of each pair and size: a small table per source, because a file often has a source's operations one after
/// the other, and one table of a million pairs misses the processor's caches each time.
#[derive(Default)]
struct Numbers {
    hasher: DefaultHashBuilder,
    sources: HashMap<u32, HashTable<u32>>,
}

impl Numbers {
    fn of(&mut self, cells: &mut PairTimes, pair: RankPair, bytes: u64) -> u32 {
        let Self { hasher, sources } = self;
        let key = |number: u32| (cells.pairs[number as usize], cells.bytes[number as usize]);
        let hash = |key: (RankPair, u64)| hasher.hash_one((key.0.1, key.1));
        let found = sources.entry(pair.0).or_default().entry(
            hash((pair, bytes)),
            |number| key(*number) == (pair, bytes),
            |number| hash(key(*number)),
        );
        let next = cells.pairs.len() as u32;
        let number = *found.or_insert(next).get();
        if number == next {
            cells.pairs.push(pair);
            cells.bytes.push(bytes);
        }
        number
    }
}

/// When each rank came to the operations of an iteration.
pub fn entries(operations: &[Operation]) -> HashMap<u32, f64> {
    let mut entered: HashMap<u32, f64> = HashMap::new();
    for operation in operations {
        if let Some(time) = operation.entered {
            let first = entered.entry(operation.source).or_insert(time);
            *first = first.min(time);
        }
    }
    entered
}

/// The time on the wire: from when both ends were there. A receiver that comes late is no slow connection.
fn transfer(operation: &Operation, entered: &HashMap<u32, f64>) -> Option<f64> {
    let duration = operation.duration()?;
    let begin = operation.begin.or(operation.entered)?;
    let receiver = operation.destination.filter(|_| !entered.is_empty()).and_then(|rank| entered.get(&rank));
    let late = receiver.map_or(0.0, |receiver| (receiver - begin).max(0.0));
    // Clocks of two hosts differ; a time on the wire is never nothing.
    Some(if late < duration { duration - late } else { duration })
}
