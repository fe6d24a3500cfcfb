//! The whole diagnosis of a job: hang, late ranks, the published rule, each connection's own past.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::between::Between;
use super::bursts::{Burst, bursts, bursts_of_all};
use super::clocks::Clocks;
use super::hang::{Hang, PATIENCE_US, hang};
use super::history::{JobHistory, history};
use super::mismatch::{Differs, Mismatch, mismatch, mismatch_at_times, mismatch_of_a_hang};
use super::operation::{JobOperations, Operation};
use super::pace::pace;
use super::pair_times::PairTimes;
use super::peers::{Peers, peers};
use super::places::Fault;
use super::record::MAX_RANK;
use super::waiting::{LateAtTimes, LateRank, late, late_at_times, lateness};

/// Iterations from which a job is called healthy by its own past. Source: our choice, because the charts need eight
/// values before they judge, and some to judge.
const ENOUGH: usize = 20;

/// Iterations in a row that a rank has to miss, having come to all before. Source: our choice.
const ABSENT: usize = 5;
/// Most ranks that a note names.
const MOST_NAMED: usize = 8;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct JobQuestion<'q> {
    /// The job.
    pub job: &'q JobOperations,
    /// When somebody looked, on the job's clock; without it the job counts as given up. Units: microseconds.
    pub now: Option<f64>,
    /// With `now`, an operation that is open for this long hangs. Units: microseconds.
    pub patience_us: f64,
}

impl<'q> JobQuestion<'q> {
    /// About a job that is over, or was given up.
    pub fn at_the_end(job: &'q JobOperations) -> Self {
        Self { job, now: None, patience_us: PATIENCE_US }
    }
}

/// The verdict on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobVerdict {
    /// All is as it should be, as far as was measured.
    Healthy,
    /// Something is slower than it should be.
    Slow,
    /// Something does not go on.
    Hang,
    /// Ranks call a collective with different sizes, or different collectives: the program is wrong.
    Mismatch,
    /// Not known.
    Undecided,
}

/// What is behind a slow or hanging job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
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
    /// The function, where the file names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Which rule found it: `hang`, `mismatch`, `waiting`, `history`, `peers`, `bursts` or `pace`.
    pub rule: Option<&'static str>,
    /// What the published rule says by itself.
    pub published: Vec<Fault>,
    /// The largest ratio of a message to its peers.
    pub worst_ratio: Option<f64>,
    /// What each connection's own past says by itself, with the factor of the slowdown.
    pub history: Vec<(Fault, f64)>,
    /// What differs from its peers by more than noise makes, with the factor.
    pub peers: Vec<(Fault, f64)>,
    /// Share of the iterations in which it is slow, if that is not all of them.
    pub in_share: Option<f64>,
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
    /// The size of a collective at most ranks, and another one, where they differ. Units: bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<(u64, u64)>,
    /// The collective that most ranks call, and another one, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<(String, String)>,
    /// Whether something looks slow or late, and may be noise: an undecided answer that more iterations decide.
    pub is_doubtful: bool,
    /// What the answer does not cover, in words.
    pub notes: Vec<String>,
}

/// Where a rank runs, as far as the records say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Whereabouts {
    /// Name of its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

/// What is known of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobDiagnosis {
    /// The verdict.
    pub verdict: JobVerdict,
    /// What is behind it; `null` if it is healthy or not known.
    pub class: Option<FaultClass>,
    /// Whether the whole job is slow, and no part of it stands out.
    pub job: bool,
    /// Hosts all of whose ranks are slow, where the records name hosts.
    pub host: Vec<String>,
    /// Ranks that are slow, late or stuck, or that differ.
    pub rank: Vec<u32>,
    /// Ranks that send slowly.
    pub source: Vec<u32>,
    /// Ranks that receive slowly.
    pub destination: Vec<u32>,
    /// Connections that are slow, or on which nothing moves.
    pub connection: Vec<(u32, u32)>,
    /// Slow connections of which the source, the destination or the connection may be it.
    pub ambiguous: Vec<(u32, u32)>,
    /// Two groups of ranks between which messages are slow, or a host within which they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
    /// Ranks that have no record, though the records say that there are so many.
    pub missing: Vec<u32>,
    /// Where the ranks named run, as far as the records say.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub whereabouts: BTreeMap<u32, Whereabouts>,
    /// The iteration from which it was so.
    pub since_iteration: Option<u64>,
    /// How many times slower the worst part is.
    pub times_slower: Option<f64>,
    /// What the answer rests on.
    pub evidence: Evidence,
}

/// Says what a job suffers from at its end.
pub fn diagnose(question: JobQuestion<'_>) -> JobDiagnosis {
    let clocks = Clocks::of(question.job);
    let corrected = clocks.furthest().map(|_| clocks.corrected(question.job));
    let job = corrected.as_ref().unwrap_or(question.job);
    let cells = PairTimes::new(job);
    let mut found = JobDiagnosis::of(job, &cells);
    let by_peers = peers(&cells);
    let by_history = history(&cells);
    let evidence = &mut found.evidence;
    evidence.published.clone_from(&by_peers.faults);
    evidence.worst_ratio = by_peers.worst_ratio;
    evidence.peers.clone_from(&by_peers.confirmed);
    evidence.history.clone_from(&by_history.faults);
    (evidence.series, evidence.past_alarms) = (by_history.series, by_history.past);
    evidence.notes = notes(job, &cells, &clocks, &by_peers, &by_history);
    let stopped = stopped(job);
    found.tells_who_is_absent(job, &stopped);
    let lateness = lateness(job, &cells);
    let (mut late_ranks, mut maybe_late) = late(job, &lateness, None);
    let slower = pace(job);
    // Soon after its begin a late rank is not late for long enough, but all that waits for it is already slow.
    let slow_since = by_history.all.and(by_history.since).or(slower.map(|slower| slower.since));
    let is_waiting = slow_since.is_some() && late_ranks.is_empty() && {
        (late_ranks, maybe_late) = late(job, &lateness, slow_since);
        late_ranks.is_empty() && maybe_late > 0
    };
    if let Some(stuck) = hang(job, question.now, question.patience_us) {
        let differs = mismatch_of_a_hang(job, stuck.iteration);
        found.hangs(stuck);
        if let Some(differs) = differs {
            found.names(&differs);
        } else if found.class == Some(FaultClass::Communication) && found.connection.is_empty() {
            found.waits_for_the_missing();
        }
    } else if let Some(differs) = mismatch(job).or_else(|| mismatch_at_times(job)) {
        found.verdict = JobVerdict::Mismatch;
        found.since_iteration = Some(differs.since);
        found.evidence.rule = Some("mismatch");
        found.names(&differs);
    } else if clocks.are_too_far_apart() {
        found.evidence.is_doubtful = true;
    } else if !late_ranks.is_empty() {
        found.waits(&late_ranks, job);
    } else if is_waiting {
        found.evidence.is_doubtful = true;
        found.evidence.notes.push("a rank seems to come late, and all others wait: more iterations decide".to_owned());
    } else if let Some((groups, factor)) = &by_history.between {
        found.is_slow("history", &[], by_history.since, &cells);
        (found.between, found.times_slower) = (Some(groups.clone()), Some(*factor));
    } else if !by_history.faults.is_empty() || by_history.all.is_some() {
        found.became_slow(&by_history, &by_peers, &cells);
    } else if !by_peers.confirmed.is_empty() {
        found.is_slow("peers", &by_peers.confirmed, by_peers.since, &cells);
    } else if let Some((groups, factor)) = &by_peers.between {
        found.is_slow("peers", &[], None, &cells);
        (found.between, found.times_slower) = (Some(groups.clone()), Some(*factor));
    } else if let Some(late) = Some(late_at_times(&lateness)).filter(|late| !late.is_empty() && !cells.are_by_size) {
        found.waits_at_times(&late);
    } else if let Some(slow) = Some(bursts(&cells)).filter(|slow| !slow.is_empty()) {
        found.is_slow_at_times(&slow, &cells);
    } else if let Some((share, factor)) = bursts_of_all(&cells) {
        found.verdict = JobVerdict::Slow;
        found.class = Some(FaultClass::Communication);
        (found.job, found.times_slower, found.evidence.rule) = (true, Some(factor), Some("bursts"));
        found.is_at_times(share, "all messages are slow");
    } else if let Some(slower) = slower {
        found.verdict = JobVerdict::Slow;
        found.class = Some(FaultClass::NonCommunication);
        (found.job, found.times_slower, found.since_iteration) = (true, Some(slower.factor), Some(slower.since));
        found.evidence.rule = Some("pace");
        found.evidence.notes.push(
            "iterations take longer, and messages do not: computing, storage, or a barrier that is not in your file"
                .to_owned(),
        );
    } else if maybe_late > 0 || !by_peers.faults.is_empty() || by_history.since.is_some() {
        found.evidence.is_doubtful = true;
        found.evidence.notes.push(
            "something looks slow or late, and noise may be all of it: more iterations decide, or a quieter machine"
                .to_owned(),
        );
    } else if cells.times.iter().all(Vec::is_empty) {
        found.evidence.notes.push(
            "nothing was measured: no operation has both its begin (or when it was entered) and its end".to_owned(),
        );
    } else if found.missing.is_empty()
        && stopped.is_empty()
        && !clocks.hide_much()
        && (by_peers.judged > 0 || cells.times.iter().filter(|times| !times.is_empty()).count() >= ENOUGH)
    {
        found.verdict = JobVerdict::Healthy;
    }
    found.place(job);
    found
}

impl JobDiagnosis {
    /// How bad it is beside others: what hangs is worse than what is slow, and of these the slowest. What looks slow
    /// and may be noise comes before what is well, and that before what is too short to be judged.
    pub fn severity(&self) -> f64 {
        let slower = self.times_slower.unwrap_or(1.0).max(1.0);
        let by = 1.0 - 1.0 / (slower + self.evidence.late_us.unwrap_or(0.0).max(0.0) / 1e6);
        match self.verdict {
            JobVerdict::Hang => 4.0,
            JobVerdict::Mismatch => 3.0,
            JobVerdict::Slow => 2.0 + by,
            JobVerdict::Undecided if self.evidence.is_doubtful || !self.missing.is_empty() => 1.0,
            JobVerdict::Healthy => 0.5,
            JobVerdict::Undecided => 0.0,
        }
    }

    /// Ranks whose records end early, with their last iteration, and ranks without any.
    fn tells_who_is_absent(&mut self, job: &JobOperations, stopped: &[(u32, u64)]) {
        if !stopped.is_empty() {
            let names: Vec<String> =
                stopped.iter().take(MOST_NAMED).map(|(rank, at)| format!("{rank} (after iteration {at})")).collect();
            let more = if stopped.len() > MOST_NAMED { ", …" } else { "" };
            self.evidence.notes.push(format!(
                "ranks without records of the end of the job: {}{more}; their process stopped, or their file ends early",
                names.join(", ")
            ));
        }
        if !self.missing.is_empty() {
            let of = if job.members.is_empty() { job.ranks.unwrap_or(0) as usize } else { job.members.len() };
            let missing = self.missing.len();
            let note = format!("{missing} of {of} ranks have no record: their files are missing, or they never came");
            self.evidence.notes.push(note);
        }
    }

    /// Of a job of which nothing is known yet.
    fn of(job: &JobOperations, cells: &PairTimes) -> Self {
        let evidence = Evidence {
            iterations: cells.times.len(),
            cells: cells.pairs.len(),
            communicator: job.communicator.clone(),
            function: job.function.clone(),
            rule: None,
            published: Vec::new(),
            worst_ratio: None,
            history: Vec::new(),
            peers: Vec::new(),
            in_share: None,
            series: 0,
            past_alarms: 0,
            waiting_chain: Vec::new(),
            late_us: None,
            open_us: None,
            sizes: None,
            functions: None,
            is_doubtful: false,
            notes: Vec::new(),
        };
        Self {
            verdict: JobVerdict::Undecided,
            class: None,
            job: false,
            host: Vec::new(),
            rank: Vec::new(),
            source: Vec::new(),
            destination: Vec::new(),
            connection: Vec::new(),
            ambiguous: Vec::new(),
            between: None,
            missing: missing(job),
            whereabouts: BTreeMap::new(),
            since_iteration: None,
            times_slower: None,
            evidence,
        }
    }

    /// Adds where the ranks run that are named.
    fn place(&mut self, job: &JobOperations) {
        let ends =
            self.connection.iter().chain(&self.ambiguous).flat_map(|(source, destination)| [source, destination]);
        let ranks = self.rank.iter().chain(&self.source).chain(&self.destination).chain(ends);
        let at = |rank: &u32| {
            let (host, process) = (job.hosts.get(rank).cloned(), job.processes.get(rank).copied());
            (host.is_some() || process.is_some()).then_some((*rank, Whereabouts { host, process }))
        };
        self.whereabouts = ranks.filter_map(at).collect();
    }

    /// Ranks whose sizes differ.
    fn names(&mut self, differs: &Mismatch) {
        self.class = Some(FaultClass::NonCommunication);
        self.rank.clone_from(&differs.ranks);
        self.connection.clear();
        match &differs.what {
            Differs::Bytes(most, other) => {
                self.evidence.sizes = Some((*most, *other));
                if differs.share < 1.0 {
                    self.is_at_times(differs.share, "sizes differ");
                }
                self.evidence.notes.push(if differs.is_split {
                    format!("sizes differ: {most} B and {other} B, and no size is that of most ranks")
                } else {
                    format!("sizes differ: {other} B at the ranks named, {most} B at the others")
                });
            }
            Differs::Functions(most, other) => {
                self.evidence.functions = Some((most.clone(), other.clone()));
                let number = differs.since;
                self.evidence
                    .notes
                    .push(format!("collective {number} is {other} at the ranks named, and {most} at the others"));
            }
        }
    }

    /// A collective to which all came of whom there is a record waits for those of whom there is none.
    fn waits_for_the_missing(&mut self) {
        if self.missing.is_empty() {
            return;
        }
        self.class = None;
        self.rank.clone_from(&self.missing);
        let others = "all other ranks came and wait: the ranks named died, did not come, or their files are missing";
        self.evidence.notes.push(others.to_owned());
    }

    fn became_slow(&mut self, by_history: &JobHistory, by_peers: &Peers, cells: &PairTimes) {
        let mut faults = by_history.faults.clone();
        if let Some(factor) = by_history.all {
            self.job = faults.iter().all(|(_, of_one)| *of_one <= factor);
            let all = "all messages became slower together: the fabric, storage, or a barrier that is not in your file";
            self.evidence.notes.push(format!("{all} ({factor:.2} times)"));
            if self.job {
                faults.clear();
                self.times_slower = Some(factor);
            }
        }
        // What was slow from the beginning on has no past that was better.
        let is_new = |(fault, _): &&(Fault, f64)| faults.iter().all(|(other, _)| !other.touches(fault));
        let more: Vec<_> = by_peers.confirmed.iter().filter(is_new).copied().collect();
        if !self.job {
            faults.extend(more);
        }
        self.is_slow("history", &faults, by_history.since, cells);
    }

    fn is_slow_at_times(&mut self, slow: &[Burst], cells: &PairTimes) {
        let faults: Vec<_> = slow.iter().map(|burst| (burst.fault, burst.factor)).collect();
        self.is_slow("bursts", &faults, None, cells);
        self.is_at_times(slow.iter().map(|burst| burst.share).fold(0.0, f64::max), "slow");
    }

    fn is_at_times(&mut self, share: f64, how: &str) {
        self.evidence.in_share = Some(share);
        let note = format!("{how} in {:.0} % of the iterations, and as usual in the others", share * 100.0);
        self.evidence.notes.push(note);
    }

    fn waits_at_times(&mut self, late: &[LateAtTimes]) {
        self.verdict = JobVerdict::Slow;
        self.class = Some(FaultClass::NonCommunication);
        self.rank = late.iter().map(|late| late.rank).collect();
        self.evidence.rule = Some("waiting");
        self.evidence.late_us = late.iter().map(|late| late.by_us).max_by(f64::total_cmp);
        self.is_at_times(late.iter().map(|late| late.share).fold(0.0, f64::max), "late");
    }

    fn hangs(&mut self, stuck: Hang) {
        self.verdict = JobVerdict::Hang;
        self.class =
            stuck.is_communication.map(|is| if is { FaultClass::Communication } else { FaultClass::NonCommunication });
        self.evidence.notes.extend(stuck.note.map(str::to_owned));
        self.rank = stuck.ranks;
        self.connection = stuck.connections;
        self.since_iteration = Some(stuck.iteration);
        self.evidence.rule = Some("hang");
        self.evidence.open_us = stuck.open_us;
    }

    fn waits(&mut self, late: &[LateRank], job: &JobOperations) {
        self.verdict = JobVerdict::Slow;
        self.class = Some(FaultClass::NonCommunication);
        self.rank = late.iter().map(|late| late.rank).collect();
        // A host all of whose ranks are late is one cause, unless the job has no other host.
        let mut of_host: BTreeMap<&String, (usize, usize)> = BTreeMap::new();
        for (rank, host) in &job.hosts {
            let (late, all) = of_host.entry(host).or_default();
            *late += usize::from(self.rank.contains(rank));
            *all += 1;
        }
        let hosts = of_host.iter().filter(|(_, (late, all))| late == all && *all > 1 && of_host.len() > 1);
        self.host = hosts.map(|(host, _)| (*host).clone()).collect();
        self.rank.retain(|rank| job.hosts.get(rank).is_none_or(|host| !self.host.contains(host)));
        self.since_iteration = late.iter().map(|late| late.since).min();
        self.evidence.rule = Some("waiting");
        self.evidence.waiting_chain = late.first().map_or_else(Vec::new, |late| late.chain.clone());
        self.evidence.late_us = late.iter().map(|late| late.by_us).max_by(f64::total_cmp);
    }

    fn is_slow(&mut self, rule: &'static str, faults: &[(Fault, f64)], since: Option<u64>, cells: &PairTimes) {
        self.verdict = JobVerdict::Slow;
        self.class = Some(FaultClass::Communication);
        self.since_iteration = since;
        self.evidence.rule = Some(rule);
        let worst = faults.iter().map(|(_, factor)| *factor).max_by(f64::total_cmp);
        self.times_slower = worst.or(self.times_slower);
        for (fault, _) in faults {
            match *fault {
                Fault::Host(host) => self.host.push(cells.host_names[host as usize].clone()),
                Fault::Rank(rank) => self.rank.push(rank),
                Fault::Source(rank) => self.source.push(rank),
                Fault::Destination(rank) => self.destination.push(rank),
                Fault::Connection(source, destination) => self.connection.push((source, destination)),
                Fault::Ambiguous(source, destination) => self.ambiguous.push((source, destination)),
            }
        }
        for ranks in [&mut self.rank, &mut self.source, &mut self.destination] {
            ranks.sort_unstable();
        }
        for pairs in [&mut self.connection, &mut self.ambiguous] {
            pairs.sort_unstable();
        }
        self.host.sort_unstable();
        let is_named = |twins: &[u32; 2]| faults.iter().any(|(fault, _)| *fault == Fault::Host(twins[0]));
        for twins in cells.twins().into_iter().filter(is_named) {
            let [one, other] = twins.map(|host| &cells.host_names[host as usize]);
            self.evidence.notes.push(format!(
                "hosts {one} and {other} exchange messages with each other only: one of them or the path between them \
                 is slow"
            ));
        }
    }
}

/// Ranks that send in each iteration of the first half and are absent from several iterations at once since, each with
/// its last iteration before; nobody if most are absent.
fn stopped(job: &JobOperations) -> Vec<(u32, u64)> {
    let iterations: Vec<&[Operation]> = job.iterations().collect();
    let mut seen: BTreeMap<u32, (usize, usize, Option<u64>)> = BTreeMap::new();
    for (at, operations) in iterations.iter().enumerate() {
        let ranks: BTreeSet<u32> = operations.iter().map(|operation| operation.source).collect();
        for rank in ranks {
            // How often it was there, where last, and from where on it was absent for long.
            let (count, last, gone) = seen.entry(rank).or_insert((0, at, None));
            let is_always = *count == *last + 1;
            if at > *last + ABSENT && is_always && *count >= ENOUGH {
                gone.get_or_insert(iterations[*last][0].iteration);
            }
            *count += 1;
            *last = at;
        }
    }
    let end = iterations.len();
    let of = |(rank, (count, last, gone)): (&u32, &(usize, usize, Option<u64>))| {
        let is_over = *count == *last + 1 && *count >= ENOUGH && end > *last + 1 + ABSENT;
        gone.or(is_over.then(|| iterations[*last][0].iteration)).map(|at| (*rank, at))
    };
    let found: Vec<(u32, u64)> = seen.iter().filter_map(of).collect();
    if 2 * found.len() > seen.len() { Vec::new() } else { found }
}

/// Ranks that the records say there are, and that are in none of them.
fn missing(job: &JobOperations) -> Vec<u32> {
    let seen = job.seen_ranks();
    if !job.members.is_empty() {
        return job.members.difference(&seen).copied().collect();
    }
    let Some(ranks) = job.ranks.filter(|ranks| *ranks <= MAX_RANK) else { return Vec::new() };
    (0..ranks).filter(|rank| !seen.contains(rank)).collect()
}

fn notes(
    job: &JobOperations,
    cells: &PairTimes,
    clocks: &Clocks,
    by_peers: &Peers,
    by_history: &JobHistory,
) -> Vec<String> {
    let mut notes = Vec::new();
    if job.is_truncated {
        notes.push("the file ends within a record, which was left out".to_owned());
    }
    if let Some(furthest) = clocks.furthest() {
        notes.push(format!("clocks of ranks are up to {furthest:.0} us apart; times are corrected by that"));
    }
    if clocks.are_too_far_apart() {
        let (wrong, all) = clocks.impossible;
        notes.push(format!(
            "clocks of ranks are too far apart: {wrong} of {all} messages end before they begin; synchronise the clocks"
        ));
    } else if let (wrong @ 1.., all) = clocks.impossible {
        notes.push(format!(
            "{wrong} of {all} recent messages end before they begin and were left out: clocks of ranks are apart, and no \
             messages both ways tell by how much; synchronise the clocks"
        ));
    }
    if by_peers.judged == 0 && !cells.pairs.is_empty() {
        notes.push("too few pairs to compare".to_owned());
    } else if by_peers.judged < cells.pairs.len() {
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
