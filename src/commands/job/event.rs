//! What a watcher says of a job that changed: one event, as JSON and in words, and which hosts it would drain.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kelpie_diagnosis::job::{Class, Diagnosis, Placement, Verdict};
use serde::{Deserialize, Serialize};

use super::text;

/// Longest list of an event. Source: our choice, because an event of thousands of pairs helps nobody.
const LONGEST: usize = 256;

/// What state a job is in, as far as events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing is wrong, as far as is known.
    Well,
    /// Something looks slow or late, and noise may be all of it: said once, and no alarm.
    Undecided,
    /// Nothing comes any more.
    Silent,
    /// Slow.
    Slow,
    /// It hangs.
    Hang,
}

/// What was said of a job last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Its state.
    pub state: State,
    class: Option<String>,
    places: Places,
    /// The iteration from which it was so.
    pub since: Option<u64>,
    /// Whether an alarm was said since it was said to be well, so that the end of it is news.
    #[serde(default)]
    is_alarmed: bool,
    /// Whether it was said to be undecided since the last alarm.
    #[serde(default)]
    is_doubted: bool,
}

impl Default for Said {
    fn default() -> Self {
        let (places, since) = (Places::default(), None);
        Self { state: State::Well, class: None, places, since, is_alarmed: false, is_doubted: false }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Places {
    rank: Vec<u32>,
    source: Vec<u32>,
    destination: Vec<u32>,
    connection: Vec<(u32, u32)>,
    ambiguous: Vec<(u32, u32)>,
}

impl Said {
    /// What there is to say of a diagnosis.
    pub fn of(found: &Diagnosis, is_silent: bool) -> Self {
        let state = match found.verdict {
            Verdict::Slow => State::Slow,
            Verdict::Hang => State::Hang,
            Verdict::Undecided if is_silent => State::Silent,
            Verdict::Undecided if found.evidence.is_doubtful => State::Undecided,
            Verdict::Healthy | Verdict::Undecided => State::Well,
        };
        let class = found.class.map(|class| match class {
            Class::Communication => "communication".to_owned(),
            Class::NonCommunication => "non_communication".to_owned(),
        });
        let places = Places {
            rank: found.rank.clone(),
            source: found.source.clone(),
            destination: found.destination.clone(),
            connection: found.connection.clone(),
            ambiguous: found.ambiguous.clone(),
        };
        Self { state, class, places, since: found.since_iteration, ..Self::default() }
    }

    /// This after `before` was said, and whether it is news: an alarm and its end always are, doubt once between two
    /// alarms.
    pub fn after(self, before: &Self) -> (Self, bool) {
        let (is_alarmed, is_doubted, is_news) = match self.state {
            State::Well => (false, before.is_doubted, before.is_alarmed),
            State::Undecided => (before.is_alarmed, true, !before.is_doubted),
            State::Silent | State::Slow | State::Hang => (true, false, true),
        };
        (Self { is_alarmed, is_doubted, ..self }, is_news)
    }

    /// Another job may be doubted as well.
    pub fn forget_doubt(&mut self) {
        self.is_doubted = false;
    }

    /// Whether this is the same as `other`, whenever it began.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.state, &self.class, &self.places) == (other.state, &other.class, &other.places)
    }
}

/// An event.
#[derive(Debug, Serialize)]
pub struct Event {
    /// Number of the event; the same after a restart, if it is sent again.
    #[serde(rename = "event")]
    pub number: u64,
    /// When, as RFC 3339.
    pub at: String,
    /// The state that began.
    pub state: State,
    /// What is known.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// Where it is, if a topology is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// What would drain its hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slurm: Vec<String>,
}

impl Event {
    /// Cuts lists that are too long, and says so.
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
        if self.state == State::Silent {
            text.push_str("silent: ");
        }
        text.push_str(&super::text(&self.diagnosis, self.placement.as_ref()).replace('\n', "\n  "));
        for command in &self.slurm {
            let _ = write!(text, "to drain it: {command}\n  ");
        }
        text.trim_end().to_owned() + "\n"
    }
}

/// The hosts of a verdict that names ranks: those hosts alone on which something is known to be slow or stuck. A leaf
/// or a connection accuses no host.
pub fn accused(found: &Diagnosis, placement: &Placement) -> BTreeSet<String> {
    if !placement.leaf.is_empty() {
        return BTreeSet::new();
    }
    let ranks = found.rank.iter().chain(&found.source).chain(&found.destination);
    ranks.filter_map(|rank| placement.ranks.get(rank)).map(|place| place.host.clone()).collect()
}

/// Arguments of `scontrol` that drain a host.
pub fn drain(host: &str, found: &Diagnosis) -> Vec<String> {
    let words = text::brief(found);
    ["update".to_owned(), format!("NodeName={host}"), "State=DRAIN".to_owned(), format!("Reason=kelpie: {words}")]
        .into()
}

/// The same as a line for a shell.
pub fn shell_line(arguments: &[String]) -> String {
    let quoted = arguments.iter().map(|argument| match argument.split_once('=') {
        Some((key, value)) if value.contains([' ', ':']) => format!("{key}=\"{value}\""),
        _ => argument.clone(),
    });
    std::iter::once("scontrol".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_is_said_once_between_two_alarms_and_never_ends_one() {
        use State::{Hang, Slow, Undecided, Well};
        let mut said = Said::default();
        for (state, is_news) in [
            (Undecided, true),
            (Well, false),
            (Undecided, false),
            (Slow, true),
            (Undecided, true),
            (Hang, true),
            (Undecided, true),
            (Well, true),
            (Undecided, false),
            (Well, false),
        ] {
            let (next, news) = Said { state, ..Said::default() }.after(&said);
            assert_eq!(news, is_news, "{:?} to {state:?}", said.state);
            said = next;
        }
        said.forget_doubt();
        assert!(Said { state: Undecided, ..Said::default() }.after(&said).1, "of another job");
    }
}
