//! What the plots of a campaign's course show: utilisation, and the counters that stood out at findings. No drawing.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_monitor::counters::shown;
use kelpie_monitor::verdict::LOW_SHARE;
use kelpie_search::{Purpose as Asked, UTILISATION};

use super::plot::{Plot, Series, Titled};
use crate::stored_campaign::StoredCampaign;

/// Diagnostic counters that are plotted. Source: our choice, because more of them fill a screen and say little.
const COUNTERS: usize = 4;

/// The plots of a campaign: utilisation first, then the counters that were highest where findings were made.
pub(super) fn timeline(stored: &StoredCampaign) -> Vec<Titled> {
    let mut plots = Vec::new();
    if let Some(values) = signal(stored, UTILISATION).filter(|values| !values.is_empty()) {
        plots.push(Titled {
            slug: "timeline-utilisation".to_owned(),
            title: "Utilisation".to_owned(),
            caption: format!(
                "Each dot is an experiment. Its height is the use of the port by the slowest direction: the larger of \
                 its shares of bits/s and packets/s. Dots of experiments that reduce a finding are faint. Crosses show \
                 where the {} findings were first seen. Below the line throughput is low, except for workloads that \
                 cannot fill the port.",
                stored.findings.len()
            ),
            plot: Plot::Series(Series {
                y_label: "share of the port".to_owned(),
                experiments: stored.points.len() as u64,
                marks: marks(stored, &values),
                searching: of_purpose(stored, &values, false),
                reducing: of_purpose(stored, &values, true),
                is_line: false,
                limit: Some((LOW_SHARE, format!("{:.0} %", LOW_SHARE * 100.0))),
            }),
        });
    }
    for (index, (name, highest)) in leading_counters(stored).into_iter().enumerate() {
        let scaled = signal(stored, &name).unwrap_or_default();
        let scaled: Vec<(u64, f64)> = scaled.into_iter().map(|(number, value)| (number, value / highest)).collect();
        plots.push(Titled {
            slug: format!("timeline-counter-{}", index + 1),
            caption: format!(
                "The counter {name} of each experiment, the larger of both hosts, as a share of its highest value \
                 ({}). Experiments that reduce a finding are faint dots. Crosses are findings, at the \
                 value that the counter had when each was first seen.",
                shown(&name, highest)
            ),
            title: name,
            plot: Plot::Series(Series {
                y_label: "share of the highest".to_owned(),
                experiments: stored.points.len() as u64,
                marks: marks(stored, &scaled),
                searching: of_purpose(stored, &scaled, false),
                reducing: of_purpose(stored, &scaled, true),
                is_line: true,
                limit: None,
            }),
        });
    }
    plots
}

/// A signal of every experiment that has it; `None` if none has.
fn signal(stored: &StoredCampaign, name: &str) -> Option<Vec<(u64, f64)>> {
    let values = stored.points.iter().filter_map(|point| Some((point.number, *point.signals.get(name)?)));
    let values: Vec<(u64, f64)> = values.collect();
    (!values.is_empty()).then_some(values)
}

/// Finding, experiment and value where each finding was first seen.
fn marks(stored: &StoredCampaign, values: &[(u64, f64)]) -> Vec<(u64, u64, f64)> {
    let values: BTreeMap<u64, f64> = values.iter().copied().collect();
    let mark = |finding: &kelpie_store::FindingRecord| {
        Some((finding.number, finding.found_at, *values.get(&finding.found_at)?))
    };
    stored.findings.iter().filter_map(mark).collect()
}

/// The values of experiments that reduce a finding, or of all others.
fn of_purpose(stored: &StoredCampaign, values: &[(u64, f64)], reducing: bool) -> Vec<(u64, f64)> {
    let is_reducing =
        |number: u64| stored.point(number).and_then(|point| point.purpose.asked()).is_some_and(Asked::is_reducing);
    values.iter().copied().filter(|(number, _)| is_reducing(*number) == reducing).collect()
}

/// The counters that stood out most at some finding, with their highest values.
///
/// A counter stands out by what it was where the finding was first seen, less its mean over the campaign, both as
/// shares of its highest value; without findings by its highest value less its mean.
fn leading_counters(stored: &StoredCampaign) -> Vec<(String, f64)> {
    let names: BTreeSet<&String> = stored.points.iter().flat_map(|point| point.signals.keys()).collect();
    let score = |name: &String| {
        let values = signal(stored, name)?;
        let highest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let mean = values.iter().map(|(_, value)| *value).sum::<f64>() / values.len() as f64;
        let at_findings = marks(stored, &values).into_iter().map(|(.., value)| value).reduce(f64::max);
        (highest > 0.0).then(|| ((at_findings.unwrap_or(highest) - mean) / highest, name.clone(), highest))
    };
    let mut by_score: Vec<(f64, String, f64)> =
        names.into_iter().filter(|name| *name != UTILISATION).filter_map(score).collect();
    by_score.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    by_score.into_iter().take(COUNTERS).map(|(_, name, highest)| (name, highest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{inconclusive, one_finding, stored_campaign, unsupported};

    #[test]
    fn a_finding_is_marked_where_it_was_first_seen() {
        let plots = timeline(&one_finding());
        assert_eq!(plots.iter().map(|plot| plot.title.as_str()).collect::<Vec<_>>(), ["Utilisation", "cache_miss"]);
        let Plot::Series(series) = &plots[1].plot else { panic!("a series") };
        assert_eq!(series.marks, [(1, 2, 1.0)]);
        assert_eq!(series.searching.len(), 3, "experiments without samples have no counters");
    }

    #[test]
    fn experiments_that_reduce_are_told_from_those_that_search() {
        let mut stored = one_finding();
        stored.points[4].purpose = Asked::Mfs.into();
        let values = [(1, 0.1), (2, 1.0), (5, 0.4)];
        assert_eq!(of_purpose(&stored, &values, true), [(5, 0.4)]);
        assert_eq!(of_purpose(&stored, &values, false), [(1, 0.1), (2, 1.0)]);
    }

    #[test]
    fn nothing_measured_is_no_plot() {
        assert!(timeline(&stored_campaign(Vec::new(), Vec::new())).is_empty());
        assert!(timeline(&stored_campaign(vec![inconclusive(1), unsupported(2)], Vec::new())).is_empty());
    }
}
