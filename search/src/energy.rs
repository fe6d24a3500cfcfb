//! Energy: how two observations compare under one signal, and in which order signals are optimised.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::SignalSet;
use crate::signals::{Observation, UTILISATION, is_diagnostic};

/// Smallest value by which a change is divided.
///
/// Units: the signal's. Source: our choice, because the paper divides by the counter itself, which is often 0;
/// far below any rate that a counter can show, so that leaving 0 counts as a change without limit.
pub const SMALLEST: f64 = 1e-9;

/// What the search drives to an extreme.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A performance signal, driven down.
    Performance(String),
    /// A diagnostic counter, driven up.
    Diagnostic(String),
}

impl Target {
    /// Change of energy from `old` to `new`; below 0 is better. `None` if `new` lacks the signal.
    ///
    /// Source: Collie, section 5.1: (B - A) / A for performance counters, (A - B) / B for diagnostic counters.
    pub fn delta(&self, old: &Observation, new: &Observation) -> Option<f64> {
        let (Target::Performance(name) | Target::Diagnostic(name)) = self;
        let after = *new.signals.get(name)?;
        let Some(before) = old.signals.get(name).copied() else { return Some(-1.0) };
        Some(match self {
            Target::Performance(_) => (after - before) / before.abs().max(SMALLEST),
            Target::Diagnostic(_) => (before - after) / after.abs().max(SMALLEST),
        })
    }

    /// The signal on a scale on which lower is better; `None` if it is missing. Counters are logarithmic.
    pub fn level(&self, seen: &Observation) -> Option<f64> {
        let (Target::Performance(name) | Target::Diagnostic(name)) = self;
        let value = *seen.signals.get(name)?;
        Some(match self {
            Target::Performance(_) => value,
            Target::Diagnostic(_) => -value.max(0.0).ln_1p(),
        })
    }
}

/// The targets in the order in which they are optimised, from the random points that came first.
///
/// The performance signal comes first, then diagnostic counters by falling standard deviation over mean. A
/// counter that was always 0 varies in no known way and comes last. Where diagnostic counters are asked for and
/// there are none, the performance signal stands in.
/// Source: Collie, section 7.2.
pub fn targets(signals: SignalSet, points: &[Observation]) -> Vec<Target> {
    let performance = Target::Performance(UTILISATION.to_owned());
    let mut diagnostic = ranked(points).into_iter().map(Target::Diagnostic).collect::<Vec<_>>();
    match signals {
        SignalSet::Perf => vec![performance],
        SignalSet::Diag if diagnostic.is_empty() => vec![performance],
        SignalSet::Diag => diagnostic,
        SignalSet::Both => {
            diagnostic.insert(0, performance);
            diagnostic
        }
    }
}

fn ranked(points: &[Observation]) -> Vec<String> {
    let names: BTreeSet<&String> =
        points.iter().flat_map(|point| point.signals.keys()).filter(|name| is_diagnostic(name)).collect();
    let spread: BTreeMap<&String, f64> = names.into_iter().map(|name| (name, relative_spread(points, name))).collect();
    let mut order: Vec<(&String, f64)> = spread.into_iter().collect();
    // The sort is stable and the map is ordered, so equal spreads stay in the order of their names.
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    order.into_iter().map(|(name, _)| name.clone()).collect()
}

fn relative_spread(points: &[Observation], name: &str) -> f64 {
    let values: Vec<f64> = points.iter().filter_map(|point| point.signals.get(name).copied()).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    if mean.abs() < SMALLEST {
        return 0.0;
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    variance.sqrt() / mean.abs()
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::Assessment;

    use super::*;

    fn seen(pairs: &[(&str, f64)]) -> Observation {
        let signals = pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Observation {
            assessment: Assessment::of_symptoms(Vec::new()),
            signals,
            lost: 0.0,
            pause: 0.0,
            shows_again: true,
        }
    }

    #[test]
    fn energy_is_the_papers_relative_change() {
        let performance = Target::Performance("signal".into());
        let diagnostic = Target::Diagnostic("signal".into());
        let table = [
            (&performance, 0.8, 0.4, -0.5),
            (&performance, 0.4, 0.8, 1.0),
            (&performance, 0.4, 0.4, 0.0),
            (&performance, 0.0, 0.0, 0.0),
            (&diagnostic, 100.0, 200.0, -0.5),
            (&diagnostic, 200.0, 100.0, 1.0),
            (&diagnostic, 0.0, 50.0, -1.0),
            (&diagnostic, 0.0, 0.0, 0.0),
            (&diagnostic, 1.0, 0.0, 1e9),
        ];
        for (target, before, after, expected) in table {
            let delta = target.delta(&seen(&[("signal", before)]), &seen(&[("signal", after)])).expect("present");
            assert!(
                (delta - expected).abs() <= 1e-9 * expected.abs().max(1.0),
                "{target:?} {before} to {after}: {delta}"
            );
        }
        assert_eq!(diagnostic.delta(&seen(&[("signal", 1.0)]), &seen(&[])), None);
        assert_eq!(diagnostic.delta(&seen(&[]), &seen(&[("signal", 1.0)])), Some(-1.0));
    }

    #[test]
    fn counters_are_ranked_by_spread_and_zeros_come_last() {
        let points = [
            seen(&[("flat", 5.0), ("zero", 0.0), ("wild", 0.0), ("mild", 8.0), (UTILISATION, 0.1)]),
            seen(&[("flat", 5.0), ("zero", 0.0), ("wild", 90.0), ("mild", 4.0), (UTILISATION, 0.9)]),
        ];
        let diagnostic: Vec<Target> =
            ["wild", "mild", "flat", "zero"].iter().map(|name| Target::Diagnostic((*name).to_owned())).collect();
        let performance = Target::Performance(UTILISATION.to_owned());
        assert_eq!(targets(SignalSet::Diag, &points), diagnostic);
        assert_eq!(targets(SignalSet::Perf, &points), std::slice::from_ref(&performance));
        assert_eq!(targets(SignalSet::Both, &points)[0], performance);
        assert_eq!(targets(SignalSet::Both, &points)[1..], diagnostic);
        assert_eq!(targets(SignalSet::Diag, &[seen(&[(UTILISATION, 0.5)])]), [performance]);
    }
}
