//! The whole diagnosis of a job: hang, late ranks, the published rule, each connection's own past.

use serde::Serialize;

use super::cells::Cells;
use super::hang::{Hang, PATIENCE_US, hang};
use super::history::{History, history};
use super::operation::Job;
use super::peers::{Peers, peers};
use super::places::Fault;
use super::waiting::{Late, late};

/// Iterations from which a job is called healthy by its own past. Source: our choice, because the charts need eight
/// values before they judge, and some to judge.
const ENOUGH: usize = 20;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// The job.
    pub job: &'q Job,
    /// When somebody looked, on the job's clock; without it the job counts as given up. Units: microseconds.
    pub now: Option<f64>,
    /// With `now`, an operation that is open for this long hangs. Units: microseconds.
    pub patience_us: f64,
}

impl<'q> Question<'q> {
    /// About a job that is over, or was given up.
    pub fn at_the_end(job: &'q Job) -> Self {
        Self { job, now: None, patience_us: PATIENCE_US }
    }
}

/// The verdict on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is as it should be, as far as was measured.
    Healthy,
    /// Something is slower than it should be.
    Slow,
    /// Something does not go on.
    Hang,
    /// Not known.
    Undecided,
}

/// What is behind a slow or hanging job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Messages.
    Communication,
    /// What ranks do besides: computing, loading data.
    NonCommunication,
}

/// What the answer rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Iterations that were seen.
    pub iterations: usize,
    /// Pairs of ranks that were measured.
    pub cells: usize,
    /// The communicator, where the file names several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communicator: Option<String>,
    /// Which rule found it: `hang`, `waiting`, `peers` or `history`.
    pub rule: Option<&'static str>,
    /// What the published rule says by itself.
    pub published: Vec<Fault>,
    /// The largest ratio of a message to its peers.
    pub worst_ratio: Option<f64>,
    /// What each connection's own past says by itself, with the factor of the slowdown.
    pub history: Vec<(Fault, f64)>,
    /// Series that were watched; all together alarm falsely once in 100,000 iterations.
    pub series: usize,
    /// Alarms of series that are over.
    pub past_alarms: usize,
    /// The ranks that wait for a late one, from it on.
    pub waiting_chain: Vec<u32>,
    /// How late it comes. Units: microseconds.
    pub late_us: Option<f64>,
    /// How long the oldest operation is open. Units: microseconds.
    pub open_us: Option<f64>,
    /// Whether something looks slow or late, and may be noise: an undecided answer that more iterations decide.
    pub is_doubtful: bool,
    /// What the answer does not cover, in words.
    pub notes: Vec<String>,
}

/// What is known of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// What is behind it; `null` if it is healthy or not known.
    pub class: Option<Class>,
    /// Ranks that are slow, late or stuck.
    pub rank: Vec<u32>,
    /// Ranks that send slowly.
    pub source: Vec<u32>,
    /// Ranks that receive slowly.
    pub destination: Vec<u32>,
    /// Connections that are slow, or on which nothing moves.
    pub connection: Vec<(u32, u32)>,
    /// Slow connections of which the source, the destination or the connection may be it.
    pub ambiguous: Vec<(u32, u32)>,
    /// The iteration from which it was so.
    pub since_iteration: Option<u64>,
    /// What the answer rests on.
    pub evidence: Evidence,
}

/// Says what a job suffers from at its end.
pub fn diagnose(question: Question<'_>) -> Diagnosis {
    let job = question.job;
    let cells = Cells::new(job);
    let stuck = hang(job, question.now, question.patience_us);
    let (late, maybe_late) = late(job, &cells);
    let by_peers = peers(&cells);
    let by_history = history(&cells);
    let notes = notes(job, &cells, &by_peers, &by_history);
    let mut found = Diagnosis {
        verdict: Verdict::Undecided,
        class: None,
        rank: Vec::new(),
        source: Vec::new(),
        destination: Vec::new(),
        connection: Vec::new(),
        ambiguous: Vec::new(),
        since_iteration: None,
        evidence: Evidence {
            iterations: cells.times.len(),
            cells: cells.pairs.len(),
            communicator: job.communicator.clone(),
            rule: None,
            published: by_peers.faults.clone(),
            worst_ratio: by_peers.worst_ratio,
            history: by_history.faults.clone(),
            series: by_history.series,
            past_alarms: by_history.past,
            waiting_chain: Vec::new(),
            late_us: None,
            open_us: None,
            is_doubtful: false,
            notes,
        },
    };
    if let Some(stuck) = stuck {
        found.hangs(stuck);
    } else if !late.is_empty() {
        found.waits(&late);
    } else if !by_peers.confirmed.is_empty() {
        found.is_slow("peers", &by_peers.confirmed, by_peers.since);
    } else if !by_history.faults.is_empty() {
        let faults: Vec<Fault> = by_history.faults.iter().map(|(fault, _)| *fault).collect();
        found.is_slow("history", &faults, by_history.since);
    } else if by_history.is_common {
        found.verdict = Verdict::Slow;
        found.class = Some(Class::Communication);
        found.since_iteration = by_history.since;
        found.evidence.rule = Some("history");
        found.evidence.notes.push("all became slower together: no rank or connection stands out".to_owned());
    } else if maybe_late > 0 || !by_peers.faults.is_empty() || by_history.since.is_some() {
        found.evidence.is_doubtful = true;
        found.evidence.notes.push(
            "something looks slow or late, and noise may be all of it: more iterations decide, or a quieter machine"
                .to_owned(),
        );
    } else if by_peers.judged > 0 || cells.times.len() >= ENOUGH {
        found.verdict = Verdict::Healthy;
    }
    found
}

impl Diagnosis {
    fn hangs(&mut self, stuck: Hang) {
        self.verdict = Verdict::Hang;
        self.class = stuck.is_communication.map(|is| if is { Class::Communication } else { Class::NonCommunication });
        self.evidence.notes.extend(stuck.note.map(str::to_owned));
        self.rank = stuck.ranks;
        self.connection = stuck.connections;
        self.since_iteration = Some(stuck.iteration);
        self.evidence.rule = Some("hang");
        self.evidence.open_us = stuck.open_us;
    }

    fn waits(&mut self, late: &[Late]) {
        self.verdict = Verdict::Slow;
        self.class = Some(Class::NonCommunication);
        self.rank = late.iter().map(|late| late.rank).collect();
        self.since_iteration = late.iter().map(|late| late.since).min();
        self.evidence.rule = Some("waiting");
        self.evidence.waiting_chain = late.first().map_or_else(Vec::new, |late| late.chain.clone());
        self.evidence.late_us = late.iter().map(|late| late.by_us).max_by(f64::total_cmp);
    }

    fn is_slow(&mut self, rule: &'static str, faults: &[Fault], since: Option<u64>) {
        self.verdict = Verdict::Slow;
        self.class = Some(Class::Communication);
        self.since_iteration = since;
        self.evidence.rule = Some(rule);
        for fault in faults {
            match *fault {
                Fault::Rank(rank) => self.rank.push(rank),
                Fault::Source(rank) => self.source.push(rank),
                Fault::Destination(rank) => self.destination.push(rank),
                Fault::Connection(source, destination) => self.connection.push((source, destination)),
                Fault::Ambiguous(source, destination) => self.ambiguous.push((source, destination)),
            }
        }
    }
}

fn notes(job: &Job, cells: &Cells, by_peers: &Peers, by_history: &History) -> Vec<String> {
    let mut notes = Vec::new();
    if job.is_truncated {
        notes.push("the file ends within a record, which was left out".to_owned());
    }
    if by_peers.judged < cells.pairs.len() {
        notes.push(format!(
            "{} of {} pairs have fewer than two peers of the same size to be compared with",
            cells.pairs.len() - by_peers.judged,
            cells.pairs.len()
        ));
    }
    if !by_history.is_judged {
        notes.push("too few iterations to hold connections against their own past: under 9".to_owned());
    }
    if by_peers.hot > 0 && 2 * by_peers.hot >= by_peers.judged {
        notes.push("about half of all messages are slow: the median no longer is what is normal".to_owned());
    }
    notes
}
