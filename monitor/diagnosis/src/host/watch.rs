//! Watching a host: when to measure it again, its history, and what is news. Nothing is measured and no clock is read
//! here.
//!
//! Source: Hostping (Liu et al., NSDI 2023), "Framework": idle hosts periodically, busy ones when counters are
//! abnormal.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::diagnose::{HostDiagnosis, HostVerdict};
use crate::matrix::{Matrix, MatrixError, shown};

/// Rounds that a history keeps. Source: our choice, a week of hourly rounds.
pub const MOST_ROUNDS: usize = 168;
/// Healthy rounds whose median is the baseline, at most. Source: our choice; twenty bring noise of 5 % down to 1.4 %.
const BASELINE: usize = 20;
/// Fewest healthy rounds that are a baseline. Source: our choice; fewer than that, siblings know better.
const LEAST_BASELINE: usize = 3;

/// What an RNIC does besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signs {
    /// Others use it.
    pub is_busy: bool,
    /// It pauses its neighbour, or drops packets.
    pub is_abnormal: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStep {
    /// Look again later.
    Wait,
    /// Measure all paths: the host is idle, and its period is over.
    Idle,
    /// Measure what an RNIC alone limits: the host is busy, and a counter says that it does not keep up.
    Busy,
}

/// When a host is measured.
#[derive(Debug, Clone)]
pub struct WatchSchedule {
    /// Between two rounds of an idle host.
    pub period: Duration,
    /// Between two rounds of a busy one, at least.
    pub pause: Duration,
    idle_at: Option<Duration>,
    busy_at: Option<Duration>,
}

impl WatchSchedule {
    /// One that begins at once.
    pub fn new(period: Duration, pause: Duration) -> Self {
        Self { period, pause, idle_at: None, busy_at: None }
    }

    /// What is due at `now`, a time since the beginning. Whatever is due counts as done.
    pub fn next(&mut self, now: Duration, signs: &[Signs]) -> WatchStep {
        let is_due = |last: Option<Duration>, span| last.is_none_or(|last| now.saturating_sub(last) >= span);
        if !signs.iter().any(|signs| signs.is_busy) {
            if is_due(self.idle_at, self.period) {
                self.idle_at = Some(now);
                return WatchStep::Idle;
            }
        } else if signs.iter().any(|signs| signs.is_busy && signs.is_abnormal) && is_due(self.busy_at, self.pause) {
            self.busy_at = Some(now);
            return WatchStep::Busy;
        }
        WatchStep::Wait
    }

    /// The host got busy during a round: the next idle look measures it again.
    pub fn interrupted(&mut self) {
        self.idle_at = None;
    }
}

/// A round that was measured and judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRound {
    /// When, as its writer wrote it.
    pub at: String,
    /// What came of it.
    pub verdict: HostVerdict,
    /// Whether others used the host.
    pub busy: bool,
    /// Whether nothing was slow, although what its paths should carry was not known.
    #[serde(default)]
    pub steady: bool,
    /// What was measured; the median of all repeats.
    pub matrix: Matrix,
}

/// The last rounds of a host; a line of JSON each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundHistory {
    rounds: VecDeque<HostRound>,
}

impl RoundHistory {
    /// Reads what [`RoundHistory::lines`] wrote.
    ///
    /// # Errors
    /// Names file, line and mistake.
    pub fn read(file: &str, text: &str) -> Result<Self, MatrixError> {
        let mut history = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("{file}:{}", index + 1);
            let round: HostRound = serde_json::from_str(line).map_err(|error| MatrixError::Key {
                file: place.clone(),
                key: "round".to_owned(),
                rule: shown(&error.to_string()),
            })?;
            // The matrix has rules of its own.
            let bytes = serde_json::to_vec(&round.matrix).unwrap_or_default();
            Matrix::from_bytes(&place, &bytes)?;
            history.push(round);
        }
        Ok(history)
    }

    /// All rounds, the oldest first.
    pub fn lines(&self) -> String {
        let line = |round: &HostRound| serde_json::to_string(round).expect("numbers and words") + "\n";
        self.rounds.iter().map(line).collect()
    }

    /// Adds a round; the oldest goes when there are too many.
    pub fn push(&mut self, round: HostRound) {
        self.rounds.push_back(round);
        while self.rounds.len() > MOST_ROUNDS {
            self.rounds.pop_front();
        }
    }

    /// How many rounds there are.
    pub fn len(&self) -> usize {
        self.rounds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// The median of the last healthy rounds of the idle host with the same rows and columns, if there are enough.
    pub fn baseline(&self, rows: &[String], columns: &[String]) -> Option<Matrix> {
        let is_like = |round: &&HostRound| {
            (round.verdict == HostVerdict::Healthy || round.steady && round.verdict == HostVerdict::Undecided)
                && !round.busy
                && round.matrix.rows == rows
                && round.matrix.columns == columns
        };
        let mut healthy: Vec<Matrix> =
            self.rounds.iter().rev().filter(is_like).take(BASELINE).map(|round| round.matrix.clone()).collect();
        if healthy.len() < LEAST_BASELINE {
            return None;
        }
        let first = healthy.pop()?;
        Some(first.median_with(&healthy))
    }
}

/// What a round says that the one before did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HostNews {
    /// Something became abnormal, or something else did.
    Abnormal,
    /// Nothing is abnormal any more.
    Recovered,
    /// Not known, and it was before.
    Undecided,
    /// The first round, and all is as it should be.
    Healthy,
}

/// What was said last, so that it is said once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastWord {
    said: Option<(HostVerdict, Vec<String>)>,
}

impl LastWord {
    /// Whether a diagnosis, with links that the host itself calls narrow, is news.
    pub fn hear(&mut self, found: &HostDiagnosis, narrow: &[String]) -> Option<HostNews> {
        let mut parts: Vec<String> =
            found.explanations.iter().flatten().chain(&found.misconfiguration).chain(narrow).cloned().collect();
        parts.extend(found.intermittent.iter().flat_map(|fault| fault.links.clone()));
        parts.extend(found.unexplained.iter().map(|[row, column]| format!("{row} to {column}")));
        parts.extend(found.causes.iter().map(|cause| cause.about.clone()));
        parts.sort();
        parts.dedup();
        let verdict = if narrow.is_empty() { found.verdict } else { HostVerdict::Abnormal };
        let now = (verdict, parts);
        if self.said.as_ref() == Some(&now) {
            return None;
        }
        let before = self.said.replace(now).map(|(verdict, _)| verdict);
        match (before, verdict) {
            (_, HostVerdict::Abnormal) => Some(HostNews::Abnormal),
            (Some(before), now) if before == now => None,
            (None, HostVerdict::Healthy) => Some(HostNews::Healthy),
            (Some(_), HostVerdict::Healthy) => Some(HostNews::Recovered),
            (_, HostVerdict::Undecided) => Some(HostNews::Undecided),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: [Signs; 2] = [Signs { is_busy: false, is_abnormal: false }; 2];
    const LOADED: [Signs; 2] =
        [Signs { is_busy: true, is_abnormal: false }, Signs { is_busy: false, is_abnormal: false }];
    const PAUSING: [Signs; 2] =
        [Signs { is_busy: true, is_abnormal: true }, Signs { is_busy: false, is_abnormal: false }];

    #[test]
    fn idle_hosts_are_measured_by_period_and_busy_ones_when_their_counters_rise() {
        let mut schedule = WatchSchedule::new(Duration::from_hours(1), Duration::from_mins(10));
        let at = Duration::from_mins;
        for (minute, signs, expected) in [
            (0, &QUIET, WatchStep::Idle),
            (1, &QUIET, WatchStep::Wait),
            (2, &LOADED, WatchStep::Wait),
            (3, &PAUSING, WatchStep::Busy),
            (4, &PAUSING, WatchStep::Wait),
            (14, &PAUSING, WatchStep::Busy),
            (59, &QUIET, WatchStep::Wait),
            (60, &LOADED, WatchStep::Wait),
            (61, &QUIET, WatchStep::Idle),
        ] {
            assert_eq!(schedule.next(at(minute), signs), expected, "minute {minute}");
        }
        schedule.interrupted();
        assert_eq!(schedule.next(at(62), &QUIET), WatchStep::Idle);
    }

    fn round(bandwidth: f64, verdict: HostVerdict, busy: bool) -> HostRound {
        let text = format!(
            r#"{{"kelpie": "matrix/1", "rows": ["rnic0"], "columns": ["mem0"], "bandwidth_gbps": [[{bandwidth}]]}}"#
        );
        let matrix = Matrix::from_bytes("m", text.as_bytes()).expect("it keeps the rules");
        HostRound { at: "2026-11-24T06:00:00Z".to_owned(), verdict, busy, steady: false, matrix }
    }

    #[test]
    fn the_baseline_is_the_median_of_healthy_rounds_and_the_history_is_bounded() {
        let mut history = RoundHistory::default();
        let names = |name: &str| vec![name.to_owned()];
        let baseline = |history: &RoundHistory| {
            let found = history.baseline(&names("rnic0"), &names("mem0"))?;
            found.find(found.bandwidth_gbps.as_ref(), "rnic0", "mem0")
        };
        for (bandwidth, verdict, busy, expected) in [
            (198.0, HostVerdict::Healthy, false, None),
            (50.0, HostVerdict::Abnormal, false, None),
            (196.0, HostVerdict::Healthy, false, None),
            (90.0, HostVerdict::Healthy, true, None),
            (100.0, HostVerdict::Undecided, false, None),
            (197.0, HostVerdict::Healthy, false, Some(197.0)),
        ] {
            history.push(round(bandwidth, verdict, busy));
            assert_eq!(baseline(&history), expected);
        }
        assert_eq!(history.baseline(&names("rnic1"), &names("mem0")), None, "another host");
        assert_eq!(RoundHistory::read("h", &history.lines()), Ok(history.clone()));
        (0..2 * MOST_ROUNDS).for_each(|_| history.push(round(190.0, HostVerdict::Healthy, false)));
        assert_eq!((history.len(), baseline(&history)), (MOST_ROUNDS, Some(190.0)));
    }

    #[test]
    fn rounds_of_which_nobody_knows_what_is_right_become_a_baseline_when_nothing_was_slow() {
        let names = |name: &str| vec![name.to_owned()];
        for (steady, busy, expected) in [(true, false, true), (false, false, false), (true, true, false)] {
            let mut history = RoundHistory::default();
            (0..3).for_each(|_| history.push(HostRound { steady, ..round(97.0, HostVerdict::Undecided, busy) }));
            assert_eq!(history.baseline(&names("rnic0"), &names("mem0")).is_some(), expected, "{steady} {busy}");
        }
    }

    #[test]
    fn a_history_with_a_mistake_is_refused_by_line() {
        let good = RoundHistory { rounds: [round(198.0, HostVerdict::Healthy, false)].into() }.lines();
        for (text, expected) in [
            (format!("{good}{}", &good[..40]), "h:2: round: EOF"),
            (good.replace("198.0", "-1"), "h:1: bandwidth_gbps[0][0]"),
            (good.replace("healthy", "well"), "h:1: round: unknown variant"),
        ] {
            let error = RoundHistory::read("h", &text).expect_err(expected).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
