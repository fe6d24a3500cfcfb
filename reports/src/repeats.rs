//! What measurements beside the experiments say: how often a finding's workload is anomalous, and whether the machine
//! has changed. Pure.

use std::fmt;

use kelpie_monitor::Verdict;
use kelpie_search::wilson;
use kelpie_spaces::units::percent;
use kelpie_store::MeasuredAgain;
use serde::Serialize;

/// Quantile of the normal distribution of the intervals: 95 %.
const NORMAL: f64 = 1.96;
/// Median of the absolute value of a standard normal variable.
const NORMAL_MEDIAN: f64 = 0.6745;
/// Relative change of the control workload's rate from which on the machine has drifted. Source: our choice, half of
/// what makes a rate low.
const DRIFT: f64 = 0.1;
/// Standard deviations that a change has to have as well. Source: our choice, one false alarm in 370 measurements.
const CLEAR: f64 = 3.0;

/// How often a workload was anomalous when it was measured again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Repeats {
    /// Measurements.
    pub runs: u64,
    /// Those of them that were anomalous.
    pub anomalous: u64,
    /// Those of them that were inconclusive.
    pub inconclusive: u64,
    /// Where the rate of anomalous ones lies, with 95 % certainty, whatever the inconclusive ones hide. Units: 0 to 1.
    pub rate: [f64; 2],
}

impl Repeats {
    /// Of the workload of a finding, which the experiment `since` measured first; none if it was not measured again.
    pub fn of(rows: &[MeasuredAgain], finding: u64, since: Option<u64>) -> Option<Self> {
        let own = of_finding(rows, finding, since);
        let of = |verdict: Verdict| own.clone().filter(|row| row.verdict == verdict).count() as u64;
        let (runs, anomalous) = (own.clone().count() as u64, of(Verdict::Anomalous));
        let inconclusive = of(Verdict::Inconclusive);
        let rate = |anomalous: u64| wilson(anomalous as f64, runs as f64, NORMAL);
        let rate = [rate(anomalous)[0], rate(anomalous + inconclusive)[1]];
        (runs > 0).then_some(Self { runs, anomalous, inconclusive, rate })
    }

    /// Whether it was healthy in some run.
    pub fn is_flaky(&self) -> bool {
        self.anomalous + self.inconclusive < self.runs
    }
}

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, anomalous, inconclusive, rate: [least, most] } = *self;
        match runs {
            _ if anomalous < runs => {
                let [least, most] = [least, most].map(|share| share * 100.0);
                write!(f, "anomalous in {anomalous} of {runs} further runs")?;
                if inconclusive > 0 {
                    write!(f, " and inconclusive in {inconclusive}")?;
                }
                let flaky = if self.is_flaky() { "flaky, " } else { "" };
                write!(f, ": {flaky}at a rate of {least:.0} to {most:.0} %")
            }
            1 => f.write_str("anomalous in a further run, too"),
            _ => write!(f, "anomalous in all {runs} further runs"),
        }
    }
}

/// The measurements of a finding's workload. Those from before its first experiment are of the workload that the
/// finding had then: a search that goes on may simplify it.
pub fn of_finding(
    rows: &[MeasuredAgain],
    finding: u64,
    since: Option<u64>,
) -> impl Iterator<Item = &MeasuredAgain> + Clone {
    let since = since.unwrap_or(0);
    rows.iter().filter(move |row| row.finding == Some(finding) && row.after >= since)
}

/// What the control workload says of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlReport {
    /// How often it was measured.
    pub measurements: usize,
    /// When its rate was another than at first.
    pub moved: Vec<RateChange>,
}

/// A rate that was not as at first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateChange {
    /// Experiments that were over by then.
    pub after: u64,
    /// Relative change; below 0 is slower.
    pub change: f64,
}

impl ControlReport {
    /// Of a campaign; none if nothing was measured.
    pub fn of(rows: &[MeasuredAgain]) -> Option<Self> {
        let controls: Vec<&MeasuredAgain> = rows.iter().filter(|row| row.finding.is_none()).collect();
        let first = **controls.first()?;
        let varies = run_to_run(&controls);
        let moved = |row: &&MeasuredAgain| {
            let change = if first.bps > 0.0 { row.bps / first.bps - 1.0 } else { 0.0 };
            let squares: f64 = [row.deviation, first.deviation, varies].map(|one| one * one).iter().sum();
            let clear = CLEAR * squares.sqrt();
            let has_moved = change.abs() > DRIFT && (row.bps - first.bps).abs() > clear;
            has_moved.then_some(RateChange { after: row.after, change })
        };
        Some(Self { measurements: controls.len(), moved: controls.iter().filter_map(moved).collect() })
    }
}

/// Standard deviation of the difference of two runs, by the median of those that follow each other: a machine that
/// drifts does so in few of them. Units: bits/s.
fn run_to_run(controls: &[&MeasuredAgain]) -> f64 {
    let mut steps: Vec<f64> = controls.windows(2).map(|pair| (pair[1].bps - pair[0].bps).abs()).collect();
    steps.sort_by(f64::total_cmp);
    // Of two steps or fewer, one that is a drift would be the median.
    if steps.len() < 3 { 0.0 } else { steps[(steps.len() - 1) / 2] / NORMAL_MEDIAN }
}

impl fmt::Display for ControlReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(last) = self.moved.last() else {
            return write!(f, "the control workload, measured {} times, ran as at first", self.measurements);
        };
        let how = if last.change < 0.0 { "slower" } else { "faster" };
        write!(
            f,
            "the machine drifted: in {} of {} measurements the control workload ran at another rate than at first, last {} \
             {how} after experiment {}; what was measured meanwhile may say nothing of the subsystem",
            self.moved.len(),
            self.measurements,
            percent(last.change.abs()),
            last.after
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(after: u64, finding: Option<u64>, verdict: Verdict, bps: f64) -> MeasuredAgain {
        MeasuredAgain { after, finding, verdict, bps, deviation: 2.0 }
    }

    #[test]
    fn a_finding_that_is_anomalous_now_and_then_has_its_rate_with_an_interval() {
        let verdicts = "AHIHAHIAHA".chars().map(|verdict| match verdict {
            'A' => Verdict::Anomalous,
            'H' => Verdict::Healthy,
            _ => Verdict::Inconclusive,
        });
        let mut rows: Vec<MeasuredAgain> = verdicts.map(|verdict| row(9, Some(2), verdict, 1.0)).collect();
        rows.extend([row(9, Some(1), Verdict::Anomalous, 1.0), row(9, None, Verdict::Anomalous, 1.0)]);
        let repeats = Repeats::of(&rows, 2, Some(9)).expect("measured");
        let said = "anomalous in 4 of 10 further runs and inconclusive in 2: flaky, at a rate of 17 to 83 %";
        assert_eq!((repeats.is_flaky(), repeats.to_string().as_str()), (true, said));
        // Wilson's intervals of 4 and of 6 in 10, as published tables have them.
        assert!((repeats.rate[0] - 0.168).abs() < 1e-3 && (repeats.rate[1] - 0.832).abs() < 1e-3, "{:?}", repeats.rate);
        let undecided = Repeats::of(&[row(9, Some(4), Verdict::Inconclusive, 1.0); 10], 4, None).expect("measured");
        let said = "anomalous in 0 of 10 further runs and inconclusive in 10: at a rate of 0 to 100 %";
        assert_eq!((undecided.is_flaky(), undecided.to_string().as_str()), (false, said));
        assert_eq!(Repeats::of(&rows, 1, None).map(|repeats| repeats.is_flaky()), Some(false));
        assert_eq!(Repeats::of(&rows, 3, None), None);
        assert_eq!(Repeats::of(&rows, 2, Some(10)), None, "another workload");
    }

    #[test]
    fn a_machine_that_got_slower_has_drifted_and_one_that_varies_has_not() {
        let control = |rates: &[f64]| {
            let rows = rates.iter().enumerate();
            let rows = rows.map(|(at, rate)| row(25 * at as u64, None, Verdict::Healthy, *rate));
            ControlReport::of(&rows.collect::<Vec<_>>()).expect("measured").moved
        };
        assert_eq!(control(&[100.0, 95.0, 104.0, 109.0]), []);
        let moved = control(&[100.0, 99.0, 80.0]);
        assert_eq!((moved.len(), moved[0].after), (1, 50));
        assert!((moved[0].change + 0.2).abs() < 1e-9);
        assert_eq!(control(&[100.0, 99.0, 101.0, 80.0, 81.0, 79.0]).len(), 3);
        assert_eq!(control(&[100.0, 121.0, 98.0, 119.0, 100.0, 122.0]), [], "it varies so from run to run");
        // More than a tenth, and within what the samples vary.
        let unclear = [row(0, None, Verdict::Healthy, 10.0), row(25, None, Verdict::Healthy, 15.0)];
        assert_eq!(ControlReport::of(&unclear).map(|control| control.moved), Some(Vec::new()));
        assert_eq!(ControlReport::of(&[]), None);
    }
}
