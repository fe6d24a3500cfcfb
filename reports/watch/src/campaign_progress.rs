//! How a campaign stands, gathered from what the store had new each time. Pure: no reading, no clock, no drawing.

use std::collections::{BTreeSet, VecDeque};

use kelpie_monitor::Verdict;
use kelpie_reports::explained::Explained;
use kelpie_search::{Purpose as Asked, UTILISATION};
use kelpie_store::follow::RECENT;
use kelpie_store::{
    Anomaly, Brief, Campaign, CampaignNews, CampaignState, Ended, ExperimentClock, FindingRecord, StoredPurpose,
};

/// What experiments are for, with words for people. Source: `kelpie_search::Purpose`.
pub const PURPOSES: [(Asked, &str); 7] = [
    (Asked::Rank, "measuring random points, to rank the counters"),
    (Asked::Search, "searching"),
    (Asked::Relieve, "looking behind what is known"),
    (Asked::Explain, "asking whether a finding explains an anomaly"),
    (Asked::Mfs, "reducing an anomaly to its conditions"),
    (Asked::Survey, "measuring random points, to draw conditions"),
    (Asked::Validate, "validating the conditions of an anomaly"),
];

/// The row of [`PURPOSES`]; `None` of what was no question of a search, or of another version of Kelpie.
fn index_of(purpose: &StoredPurpose) -> Option<usize> {
    PURPOSES.iter().position(|(asked, _)| purpose.asked() == Some(*asked))
}

/// A time without experiments after which the ones before say nothing about the rate: the campaign was stopped.
///
/// Units: milliseconds. Source: our choice, because the search itself takes milliseconds between two experiments.
const BREAK_MS: f64 = 10_000.0;

/// How far back the rate looks, and how old the last experiment may be.
///
/// Units: milliseconds. Source: our choice, because an experiment on real hosts takes half a minute.
const RATE_MS: f64 = 600_000.0;

/// How a campaign stands, as far as it was read.
#[derive(Debug)]
pub struct CampaignProgress {
    /// What decides it, and its state and budget as they were when last read.
    pub campaign: Campaign,
    /// Experiments stored, read or not.
    pub stored: u64,
    /// How many experiments ended healthy, anomalous, inconclusive, unsupported.
    pub ended: [u64; 4],
    /// How many experiments were for each of [`PURPOSES`].
    pub purposes: [u64; PURPOSES.len()],
    /// The latest experiments, at most [`RECENT`].
    pub recent: VecDeque<Brief>,
    /// All findings.
    pub findings: Vec<FindingRecord>,
    /// Every anomalous experiment.
    pub anomalies: Vec<Anomaly>,
    skipped_before: u64,
    skipped_at_end: u64,
    is_read: bool,
}

/// A signal over the latest experiments.
#[derive(Debug, PartialEq)]
pub struct SignalSeries {
    /// Its name, as counters have it.
    pub name: String,
    /// One value per experiment, oldest first; `None` if it was not measured.
    pub values: Vec<Option<f64>>,
}

impl SignalSeries {
    /// The last value that was measured.
    pub fn latest(&self) -> Option<f64> {
        self.values.iter().rev().find_map(|value| *value)
    }
}

impl CampaignProgress {
    /// A campaign of which no experiment was read yet.
    pub fn new(campaign: Campaign) -> Self {
        Self {
            stored: campaign.experiments,
            campaign: Campaign { experiments: 0, skipped: 0, findings: 0, ..campaign },
            ended: [0; 4],
            purposes: [0; PURPOSES.len()],
            recent: VecDeque::new(),
            findings: Vec::new(),
            anomalies: Vec::new(),
            skipped_before: 0,
            skipped_at_end: 0,
            is_read: false,
        }
    }

    /// Takes what is new.
    pub fn take(&mut self, news: CampaignNews) {
        self.campaign.state = news.state;
        self.campaign.definition.budget = news.budget;
        self.stored = news.stored;
        self.skipped_at_end = news.skipped_at_end;
        self.is_read = news.is_all;
        for mut brief in news.experiments {
            self.anomalies.extend(brief.anomaly.take());
            self.campaign.experiments += 1;
            self.skipped_before += brief.skipped_before;
            self.ended[slot(brief.ended)] += 1;
            if let Some(index) = index_of(&brief.purpose) {
                self.purposes[index] += 1;
            }
            self.recent.push_back(brief);
            if self.recent.len() as u64 > RECENT {
                self.recent.pop_front();
            }
        }
        self.findings.extend(news.findings);
        self.campaign.findings = self.findings.len() as u64;
        self.campaign.skipped = self.skipped_before + self.skipped_at_end;
    }

    /// What the findings explain.
    pub fn explained(&self) -> Explained<'_> {
        Explained::new(&self.findings, &self.anomalies)
    }

    /// How many findings and unexplained anomalies there are to look at.
    pub fn rows(&self) -> usize {
        self.findings.len() + self.explained().unexplained.len()
    }

    /// Whether all that is stored was read, when it was last looked.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// How many experiments ended in this way.
    pub fn count(&self, ended: Ended) -> u64 {
        self.ended[slot(ended)]
    }

    /// What the last experiment was for, as an index of [`PURPOSES`].
    pub fn phase(&self) -> Option<usize> {
        let last = self.recent.back()?;
        index_of(&last.purpose)
    }

    /// How much of its budget is used, 0 to 1; `None` without one.
    pub fn budget_ratio(&self) -> Option<f64> {
        let budget = self.campaign.definition.budget?;
        Some(if budget == 0 { 1.0 } else { (self.campaign.experiments as f64 / budget as f64).min(1.0) })
    }

    /// Experiments per minute, lately; `None` if nothing says. While it runs, waiting counts.
    pub fn per_minute(&self, now_unix_ms: i64) -> Option<f64> {
        let mut clocks = self.recent.iter().rev().map_while(|brief| brief.clock);
        let newest = clocks.next()?;
        let newest_end = end(&newest);
        let until = match self.campaign.state {
            CampaignState::Running => newest_end.max(now_unix_ms as f64),
            CampaignState::Stopped | CampaignState::Finished => newest_end,
        };
        let (mut first, mut count) = (newest.started_unix_ms as f64, 1.0);
        for clock in clocks {
            let start = clock.started_unix_ms as f64;
            if first - end(&clock) > BREAK_MS || until - start > RATE_MS {
                break;
            }
            first = start;
            count += 1.0;
        }
        let minutes = (until - first) / 60_000.0;
        (until - newest_end <= RATE_MS && minutes > 0.0).then(|| count / minutes)
    }

    /// How long a running campaign will take to use up its budget at the present rate. Units: seconds.
    pub fn seconds_left(&self, now_unix_ms: i64) -> Option<f64> {
        if self.campaign.state != CampaignState::Running {
            return None;
        }
        let left = self.campaign.definition.budget?.saturating_sub(self.campaign.experiments);
        Some(left as f64 / self.per_minute(now_unix_ms)? * 60.0)
    }

    /// The signals of the latest experiments: utilisation, then counters by name; and how many were 0 throughout.
    pub fn signals(&self) -> (Vec<SignalSeries>, usize) {
        let names: BTreeSet<&String> = self.recent.iter().flat_map(|brief| brief.signals.keys()).collect();
        let all = names.len();
        let mut signals: Vec<SignalSeries> = names
            .into_iter()
            .map(|name| SignalSeries {
                name: name.clone(),
                values: self.recent.iter().map(|brief| brief.signals.get(name).copied()).collect(),
            })
            .filter(|signal| {
                signal.name == UTILISATION || signal.values.iter().flatten().any(|value| value.abs() > 0.0)
            })
            .collect();
        // The sort is stable and the names were ordered.
        signals.sort_by_key(|signal| signal.name != UTILISATION);
        let silent = all - signals.len();
        (signals, silent)
    }
}

fn slot(ended: Ended) -> usize {
    match ended {
        Ended::Judged(Verdict::Healthy) => 0,
        Ended::Judged(Verdict::Anomalous) => 1,
        Ended::Judged(Verdict::Inconclusive) => 2,
        Ended::Unsupported => 3,
    }
}

/// When an experiment ended. Units: milliseconds since 1970.
fn end(clock: &ExperimentClock) -> f64 {
    clock.started_unix_ms as f64 + clock.duration_seconds * 1000.0
}

#[cfg(test)]
mod tests;
