//! What is news of a job that is watched: an alarm at once, its end and other places once they hold for a second look.

use serde::{Deserialize, Serialize};

use super::diagnose::{FaultClass, JobDiagnosis, JobVerdict};

/// What state a job is in, as far as events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
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
    pub state: JobState,
    class: Option<String>,
    places: SlowPlaces,
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
        let (places, since) = (SlowPlaces::default(), None);
        Self { state: JobState::Well, class: None, places, since, is_alarmed: false, is_doubted: false }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SlowPlaces {
    #[serde(default)]
    job: bool,
    #[serde(default)]
    host: Vec<String>,
    rank: Vec<u32>,
    source: Vec<u32>,
    destination: Vec<u32>,
    connection: Vec<(u32, u32)>,
    ambiguous: Vec<(u32, u32)>,
}

impl Said {
    /// What there is to say of a diagnosis.
    fn of(found: &JobDiagnosis, is_silent: bool) -> Self {
        let state = match found.verdict {
            JobVerdict::Slow | JobVerdict::Mismatch => JobState::Slow,
            JobVerdict::Hang => JobState::Hang,
            JobVerdict::Undecided if is_silent => JobState::Silent,
            JobVerdict::Undecided if found.evidence.is_doubtful => JobState::Undecided,
            JobVerdict::Healthy | JobVerdict::Undecided => JobState::Well,
        };
        let class = found.class.map(|class| match class {
            FaultClass::Communication => "communication".to_owned(),
            FaultClass::NonCommunication => "non_communication".to_owned(),
        });
        let places = SlowPlaces {
            job: found.job,
            host: found.host.clone(),
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
    fn after(self, before: &Self) -> (Self, bool) {
        let (is_alarmed, is_doubted, is_news) = match self.state {
            JobState::Well => (false, before.is_doubted, before.is_alarmed),
            JobState::Undecided => (before.is_alarmed, true, !before.is_doubted),
            JobState::Silent | JobState::Slow | JobState::Hang => (true, false, true),
        };
        (Self { is_alarmed, is_doubted, ..self }, is_news)
    }

    /// Another job may be doubted as well.
    fn forget_doubt(&mut self) {
        self.is_doubted = false;
    }

    /// Whether this is the same as `other`, whenever it began.
    fn is_same(&self, other: &Self) -> bool {
        (self.state, &self.class, &self.places) == (other.state, &other.class, &other.places)
    }
}

/// What was said of a job, and what may be said of it next.
#[derive(Debug, Default)]
pub struct JobNews {
    said: Said,
    /// What was found and not said yet, because it may be passing.
    doubt: Option<Said>,
}

impl JobNews {
    /// The news of a job of which this was said before.
    pub fn after(said: Said) -> Self {
        Self { said, doubt: None }
    }

    /// What was said last.
    pub fn said(&self) -> &Said {
        &self.said
    }

    /// Whether the job has to be judged again although it wrote nothing: a doubt is said if it outlasts what came after
    /// it.
    pub fn is_to_see_again(&self) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| doubt.state != JobState::Undecided)
    }

    /// Another job begins, which may be doubted as well.
    pub fn forget_doubt(&mut self) {
        self.said.forget_doubt();
    }

    /// Takes a diagnosis, and returns what is to be said of it, if that is news.
    pub fn hear(&mut self, found: &JobDiagnosis, is_silent: bool) -> Option<Said> {
        let mut now = Said::of(found, is_silent);
        if now.state == self.said.state {
            // The window moves on, and the begin of what lasts does not.
            now.since = [now.since, self.said.since].into_iter().flatten().min();
        }
        if now.is_same(&self.said) || (now.state == JobState::Well && self.said.state == JobState::Well) {
            self.doubt = None;
            return None;
        }
        // A turn for the worse is said at once; other places, a recovery or a doubt have to hold for a second look.
        let is_worse = now.state > JobState::Undecided && now.state > self.said.state;
        if !is_worse && !self.doubt.as_ref().is_some_and(|doubt| doubt.is_same(&now)) {
            self.doubt = Some(now);
            return None;
        }
        self.doubt = None;
        let (now, is_news) = now.after(&self.said);
        self.said = now.clone();
        is_news.then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_is_said_once_between_two_alarms_and_never_ends_one() {
        use JobState::{Hang, Slow, Undecided, Well};
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
