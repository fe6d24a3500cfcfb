//! The pace of a whole job: how long an iteration takes, from the first arrival to the next one. It shows what no
//! message does: computing, storage, a barrier.

use std::collections::BTreeMap;

use kelpie_monitor::statistics::median;

use super::cells::entries;
use super::history::{Chart, threshold};
use super::operation::Job;

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
pub fn pace(job: &Job) -> Option<Slower> {
    let mut before: BTreeMap<u32, f64> = BTreeMap::new();
    let mut series: Vec<(u64, f64)> = Vec::new();
    for operations in job.iterations() {
        let now: BTreeMap<u32, f64> = entries(operations).into_iter().collect();
        let steps: Vec<f64> = now.iter().filter_map(|(rank, time)| Some(time - before.get(rank)?)).collect();
        if let Some(step) = median(&steps).filter(|step| *step > 0.0) {
            series.push((operations[0].iteration, step.ln()));
        }
        before = now;
    }
    let limit = threshold(1);
    let mut chart = Chart::default();
    for (at, (_, value)) in series.iter().enumerate() {
        chart.push(*value, at as u32, limit);
    }
    let since = chart.since as usize;
    if chart.sum <= limit || since < EACH || series.len() < since + EACH {
        return None;
    }
    let middle = |part: &[(u64, f64)]| median(&part.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    let (earlier, later) = (middle(&series[..since])?, middle(&series[since..])?);
    // Load that lasts is no change: what is slower has to be above all but a few of what was before.
    let above = series[since..].iter().filter(|(_, value)| *value > (earlier + later) / 2.0).count();
    let below = series[..since].iter().filter(|(_, value)| *value < (earlier + later) / 2.0).count();
    let is_clear = above as f64 >= 0.9 * (series.len() - since) as f64 && below as f64 >= 0.9 * since as f64;
    let factor = (later - earlier).exp();
    (is_clear && factor >= LEAST).then_some(Slower { factor, since: series[since].0 })
}
