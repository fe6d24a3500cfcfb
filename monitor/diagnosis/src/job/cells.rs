//! The matrix of an iteration: what each message took. Judging is elsewhere.

use std::collections::HashMap;

use super::operation::{Job, Operation};

/// A connection, or a rank's share of a collective.
pub type Pair = (u32, Option<u32>);

/// Every pair of a job and size of its messages, numbered in the order of its first operation, and what it took in each iteration.
pub struct Cells {
    /// The pairs.
    pub pairs: Vec<Pair>,
    /// Size of each one's messages; cells of equal size are comparable.
    pub bytes: Vec<u64>,
    /// The numbers of the iterations.
    pub iterations: Vec<u64>,
    /// Per iteration `(cell, microseconds)`.
    pub times: Vec<Vec<(u32, f64)>>,
}

impl Cells {
    /// The cells of a job. Several messages of a pair and of one size in an iteration count by their mean.
    pub fn new(job: &Job) -> Self {
        let mut cells = Self { pairs: Vec::new(), bytes: Vec::new(), iterations: Vec::new(), times: Vec::new() };
        let mut numbers: HashMap<(Pair, u64), u32> = HashMap::with_capacity(job.operations.len().min(1 << 20));
        // Per cell, where it stands in the iteration at hand, and of how many messages.
        let mut at: Vec<(usize, u32)> = Vec::new();
        for operations in job.iterations() {
            let entered = entries(operations);
            let mut times: Vec<(u32, f64)> = Vec::with_capacity(operations.len());
            for operation in operations {
                let Some(duration) = transfer(operation, &entered) else { continue };
                let pair = (operation.source, operation.destination);
                let number = *numbers.entry((pair, operation.bytes)).or_insert_with(|| {
                    cells.pairs.push(pair);
                    cells.bytes.push(operation.bytes);
                    at.push((usize::MAX, 0));
                    cells.pairs.len() as u32 - 1
                });
                let (index, count) = &mut at[number as usize];
                if let Some((_, time)) = times.get_mut(*index).filter(|(cell, _)| *cell == number) {
                    *count += 1;
                    *time += (duration - *time) / f64::from(*count);
                } else {
                    (*index, *count) = (times.len(), 1);
                    times.push((number, duration));
                }
            }
            cells.iterations.push(operations[0].iteration);
            cells.times.push(times);
        }
        cells
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
