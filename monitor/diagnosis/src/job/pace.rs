//! The pace of a whole job: how long an iteration takes, from the first arrival to the next one. It shows what no
//! message does: computing, storage, a barrier.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use kelpie_monitor::statistics::median;

use super::history::{Autocorrelation, Chart, divide, threshold};
use super::operation::{JobOperations, Operation};
use super::pair_times::entries;

/// Least factor that is said. Source: our choice, because jobs have phases.
const LEAST: f64 = 1.3;
/// Iterations on each side of a change. Source: our choice, as in `history`.
const EACH: usize = 8;

/// A job that became slower as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slower {
    /// By which factor an iteration takes longer.
    pub factor: f64,
    /// The iteration from which it is so.
    pub since: u64,
}

/// Whether iterations take longer at the end of a job than before.
pub fn pace(job: &JobOperations) -> Option<Slower> {
    let mut before: (u64, BTreeMap<u32, f64>) = Default::default();
    let mut series: Vec<(u64, f64)> = Vec::new();
    for operations in job.iterations() {
        let iteration = operations[0].iteration;
        let now: BTreeMap<u32, f64> = entries(operations).into_iter().collect();
        let steps: Vec<f64> = now.iter().filter_map(|(rank, time)| Some(time - before.1.get(rank)?)).collect();
        // Iterations between may have been given up.
        let count = (iteration - before.0).max(1) as f64;
        if let Some(step) = median(&steps).filter(|step| *step > 0.0) {
            series.push((iteration, (step / count).ln()));
        }
        before = (iteration, now);
    }
    let limit = threshold(1);
    let mut chart = Chart::default();
    for (at, (_, value)) in series.iter().enumerate() {
        chart.push(*value, at as u32, limit);
    }
    if chart.sum <= limit {
        return None;
    }
    // A chart may rise by chance before the change.
    let since = divide(&series.iter().map(|(_, value)| Some(*value)).collect::<Vec<_>>())?;
    if since < EACH || series.len() < since + EACH {
        return None;
    }
    let parts = [&series[..since], &series[since..]];
    let means = parts.map(|part| part.iter().map(|(_, value)| value).sum::<f64>() / part.len() as f64);
    let (mut squares, mut likeness) = (0.0, Autocorrelation::new(2));
    for (nth, part) in parts.iter().enumerate() {
        for (_, value) in *part {
            squares += (value - means[nth]).powi(2);
            likeness.push(nth, value - means[nth]);
        }
    }
    let variance = squares / (series.len() - 2) as f64 * likeness.inflation(since.min(series.len() - since), 1);
    let [n, m] = parts.map(|part| part.len() as f64);
    let step = means[1] - means[0];
    // Load that lasts is no change, so values that are alike count for fewer.
    let gain = step * step / (2.0 * variance.max(1e-8) * (1.0 / n + 1.0 / m));
    (gain >= limit && step - by_bytes(job, series[since].0) >= LEAST.ln())
        .then_some(Slower { factor: step.exp(), since: series[since].0 })
}

/// By how much more bytes from an iteration on let iterations take longer without being slower, as a logarithm.
fn by_bytes(job: &JobOperations, since: u64) -> f64 {
    let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
    for operations in job.iterations() {
        let part = usize::from(operations[0].iteration >= since);
        sums[part] += busiest(operations);
        counts[part] += 1.0;
    }
    let [fewer, more] = [0, 1].map(|part| sums[part] / f64::max(counts[part], 1.0));
    if fewer > 0.0 { (more / fewer).ln().max(0.0) } else { 0.0 }
}

/// Most bytes that a rank sends or receives in an iteration.
fn busiest(operations: &[Operation]) -> f64 {
    let mut ends: HashMap<(bool, u32), f64> = HashMap::new();
    for operation in operations {
        let received = operation.destination.map(|rank| (false, rank));
        for end in [Some((true, operation.source)), received].into_iter().flatten() {
            *ends.entry(end).or_default() += operation.bytes as f64;
        }
    }
    ends.into_values().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_that_becomes_slow_is_seen_and_its_begin() {
        let mut operations = Vec::new();
        let mut now = 0.0;
        for iteration in 0..60_u64 {
            now += 4000.0 + (iteration * 37 % 11) as f64 * 20.0 + if iteration >= 40 { 8000.0 } else { 0.0 };
            for source in 0..4 {
                operations.push(Operation {
                    iteration,
                    source,
                    destination: Some((source + 1) % 4),
                    bytes: 1024,
                    entered: Some(now),
                    begin: Some(now),
                    end: Some(now + 1000.0),
                });
            }
        }
        let found = pace(&JobOperations { operations, ..JobOperations::default() }).expect("it is slower");
        assert_eq!(found.since, 40);
        assert!((2.5..3.5).contains(&found.factor), "{found:?}");
    }
}
