//! What the plots of a campaign's course show: utilisation, and the counters that stood out at findings. No drawing.

use kelpie_monitor::Verdict;
use kelpie_monitor::counters::shown;
use kelpie_monitor::verdict::LOW_SHARE;
use kelpie_search::UTILISATION;
use kelpie_store::{Ended, FindingRecord};

use super::plot::{Growth, Plot, Series, Titled};
use crate::signal_history::{Extremes, SignalHistory};
use crate::stored_campaign::{ExperimentSummary, StoredCampaign};

/// Diagnostic counters that are plotted. Source: our choice, because more of them fill a screen and say little.
const COUNTERS: usize = 4;

/// The plots of a campaign: how findings and anomalies came, utilisation, then the counters that were highest where
/// findings were made.
pub(super) fn timeline(stored: &StoredCampaign) -> Vec<Titled> {
    let mut plots: Vec<Titled> = growth(stored).into_iter().collect();
    if let Some(course) = stored.courses.get(UTILISATION) {
        let caption = "Each dot is an experiment. Its height is the use of the port by the slowest direction: the larger of \
                       its shares of bits/s and packets/s. Dots of experiments that reduce a finding are faint. Crosses \
                       show where findings were first seen. Below the line throughput is low, except for workloads that \
                       cannot fill the port.";
        plots.push(Titled {
            slug: "timeline-utilisation".to_owned(),
            title: "Utilisation".to_owned(),
            caption: caption.to_owned(),
            plot: Plot::Series(Series {
                limit: Some((LOW_SHARE, format!("{:.0} %", LOW_SHARE * 100.0))),
                ..series(stored, course, 1.0, "share of the port")
            }),
        });
    }
    for (index, (name, course)) in leading_counters(stored).into_iter().enumerate() {
        let highest = course.highest;
        plots.push(Titled {
            slug: format!("timeline-counter-{}", index + 1),
            caption: format!(
                "The counter {name} of each experiment, the larger of both hosts, as a share of its highest value \
                 ({}). Experiments that reduce a finding are faint dots. Crosses are findings, at the \
                 value that the counter had when each was first seen.",
                shown(name, highest)
            ),
            title: name.to_owned(),
            plot: Plot::Series(series(stored, course, highest, "share of the highest")),
        });
    }
    plots
}

/// A signal as shares of `whole`, with the findings where they were first seen.
fn series(stored: &StoredCampaign, course: &SignalHistory, whole: f64, y_label: &str) -> Series {
    let shares = |ends: &Extremes| ends.values().into_iter().map(|(number, value)| (number, value / whole)).collect();
    let mark = |finding: &FindingRecord| {
        Some((finding.number, finding.found_at, course.at_findings.get(&finding.found_at)? / whole))
    };
    Series {
        y_label: y_label.to_owned(),
        experiments: stored.points.len() as u64,
        searching: shares(&course.searching),
        reducing: shares(&course.reducing),
        limit: None,
        marks: stored.findings.iter().filter_map(mark).collect(),
    }
}

/// How many anomalous experiments and findings there were after each experiment; `None` if there were none.
fn growth(stored: &StoredCampaign) -> Option<Titled> {
    let is_anomalous = |point: &&ExperimentSummary| point.ended == Ended::Judged(Verdict::Anomalous);
    let anomalies: Vec<u64> = stored.points.iter().filter(is_anomalous).map(|point| point.number).collect();
    let mut found: Vec<u64> = stored.findings.iter().map(|finding| finding.found_at).collect();
    found.sort_unstable();
    let lines = [("findings", found), ("anomalous experiments", anomalies)];
    let lines: Vec<(String, Vec<u64>)> = lines
        .into_iter()
        .filter(|(_, at)| !at.is_empty())
        .map(|(name, at)| (format!("{} {name}", at.len()), at))
        .collect();
    (!lines.is_empty()).then(|| Titled {
        slug: "timeline-growth".to_owned(),
        title: "Findings and anomalies".to_owned(),
        caption: "Which share of the campaign's findings and of its anomalous experiments had been seen after each \
                  experiment. A line of findings that is level for long says that the search had little left to find."
            .to_owned(),
        plot: Plot::Growth(Growth { experiments: stored.points.len() as u64, lines }),
    })
}

/// The counters that stood out most at some finding.
///
/// A counter stands out by what it was where the finding was first seen, less its mean over the campaign, both as
/// shares of its highest value; without findings by its highest value less its mean.
fn leading_counters(stored: &StoredCampaign) -> Vec<(&str, &SignalHistory)> {
    let score = |(name, course): (&'_ str, &'_ SignalHistory)| {
        let at_findings = course.at_findings.values().copied().reduce(f64::max);
        let score = (at_findings.unwrap_or(course.highest) - course.mean()) / course.highest;
        (name != UTILISATION && course.highest > 0.0).then_some(score)
    };
    let mut by_score: Vec<(f64, &str, &SignalHistory)> =
        stored.courses.iter().filter_map(|(name, course)| Some((score((name, course))?, name, course))).collect();
    by_score.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    by_score.into_iter().take(COUNTERS).map(|(_, name, course)| (name, course)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{inconclusive, one_finding, stored_campaign, unsupported};

    #[test]
    fn a_finding_is_marked_where_it_was_first_seen() {
        let plots = timeline(&one_finding());
        let titles: Vec<&str> = plots.iter().map(|plot| plot.title.as_str()).collect();
        assert_eq!(titles, ["Findings and anomalies", "Utilisation", "cache_miss"]);
        let Plot::Series(series) = &plots[2].plot else { panic!("a series") };
        assert_eq!(series.marks, [(1, 2, 1.0)]);
        assert_eq!(series.searching.len(), 3, "experiments without samples have no counters");
        let Plot::Growth(growth) = &plots[0].plot else { panic!("a growth") };
        assert_eq!(growth.lines[0], ("1 findings".to_owned(), vec![2]));
    }

    #[test]
    fn nothing_measured_is_no_plot() {
        assert!(timeline(&stored_campaign(Vec::new(), Vec::new())).is_empty());
        assert!(timeline(&stored_campaign(vec![inconclusive(1), unsupported(2)], Vec::new())).is_empty());
    }
}
