//! What a watcher says of a job that changed: one event, as JSON and in words.

use std::fmt::Write as _;

use kelpie_diagnosis::job::{JobDiagnosis, JobState, Placement};
use serde::Serialize;

/// Longest list of an event. Source: our choice, because an event of thousands of pairs helps nobody.
const LONGEST: usize = 256;

/// An event.
#[derive(Debug, Serialize)]
pub struct WatchEvent {
    /// Number of the event; the same after a restart, if it is sent again.
    #[serde(rename = "event")]
    pub number: u64,
    /// When, as RFC 3339.
    pub at: String,
    /// The state that began.
    pub state: JobState,
    /// What is known.
    #[serde(flatten)]
    pub diagnosis: JobDiagnosis,
    /// Where it is, if a topology is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Commands by which Slurm drains its hosts, or resumes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slurm: Vec<String>,
    /// Commands by which Kubernetes cordons its nodes, or takes them again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubernetes: Vec<String>,
}

impl WatchEvent {
    /// Cuts lists that are too long, and says so.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let found = &mut self.diagnosis;
        let counts = [found.rank.len(), found.source.len(), found.destination.len()];
        let longest = counts.into_iter().chain([found.connection.len(), found.ambiguous.len()]).max().unwrap_or(0);
        if longest > LONGEST {
            found.evidence.notes.push(format!("lists of up to {longest} places are cut after {LONGEST}"));
        }
        for list in [&mut found.rank, &mut found.source, &mut found.destination] {
            list.truncate(LONGEST);
        }
        found.host.truncate(LONGEST);
        found.connection.truncate(LONGEST);
        found.ambiguous.truncate(LONGEST);
        found.evidence.published.truncate(LONGEST);
        found.evidence.history.truncate(LONGEST);
        if let Some(placement) = &mut self.placement {
            placement.unknown.truncate(LONGEST);
            while placement.ranks.len() > LONGEST {
                placement.ranks.pop_last();
            }
        }
        self
    }

    /// The event in words.
    pub fn text(&self) -> String {
        let mut text = format!("{} event {}: ", self.at, self.number);
        if self.state == JobState::Silent {
            text.push_str("silent: ");
        }
        text.push_str(&super::job::text(&self.diagnosis, self.placement.as_ref()).replace('\n', "\n  "));
        let what = if self.state == JobState::Well { "to take it back" } else { "to drain it" };
        for command in self.slurm.iter().chain(&self.kubernetes) {
            let _ = write!(text, "{what}: {command}\n  ");
        }
        text.trim_end().to_owned() + "\n"
    }
}
