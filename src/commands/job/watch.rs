//! `kelpie job watch`: follows what a job writes, and says what changes. What is kept and judged lives in
//! `kelpie_diagnosis`; files, state and schedulers in `kelpie_examine::job`, events in the reports crate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use kelpie_diagnosis::job::{
    JobDiagnosis, JobKey, JobNews, JobState, OperationRecord, Placement, RecordEffect, RecordFollower, Skipped, Window,
    accused, placement,
};
use kelpie_examine::job::scheduler::{Scheduler, Step};
use kelpie_examine::job::state::{WatchState, beside, lock};
use kelpie_examine::outbox::Outbox;
use kelpie_examine::tail::{FileChange, Tail};
use kelpie_reports::for_operators::job::brief;
use kelpie_reports::for_operators::job_event::WatchEvent;
use kelpie_text::clean_json;
use kelpie_topology::Cluster;

use crate::args::Common;
use crate::cli::WatchJobArgs;
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::{note, print};
use crate::stop;

/// What is read of a file before somebody may interrupt. Units: bytes. Source: our choice.
const TURN: usize = 16 << 20;
/// Operations that are kept of all communicators together. Source: our choice: two iterations of all pairs of 1,024
/// ranks; with judging them, a watcher takes 0.7 GB.
const MOST: usize = 2 << 20;
/// Most communicators. Source: our choice.
const MAX_COMMUNICATORS: usize = 4096;
/// How often the state is written while nothing happens. Source: our choice.
const SAVE: Duration = Duration::from_mins(1);
/// How soon a state is written again that could not be. Source: our choice.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is said that the state cannot be written. Source: our choice.
const SAY_UNSAVED: Duration = Duration::from_mins(10);
/// Longest pause after judgements that took long; events are due within 10 s. Source: our choice.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Records that cannot be read of which each is said, and then every so many. Source: our choice.
const SAID_SKIPS: u64 = 5;
/// How soon a scheduler is asked again that failed, which doubles with each try, and how often it is tried. Source: our
/// choice; all together half an hour, longer than a controller needs to restart.
const DRAIN_AGAIN: Duration = Duration::from_secs(2);
const DRAIN_TRIES: u32 = 10;
const SKIPS_BETWEEN: u64 = 10_000;

/// Runs `kelpie job watch`.
pub fn watch(args: &WatchJobArgs, common: Common) -> anyhow::Result<ExitCode> {
    let cluster = args.topology.as_deref().map(read_cluster).transpose()?;
    if (args.slurm || args.kubernetes) && cluster.as_ref().is_some_and(|cluster| cluster.host_names.is_empty()) {
        anyhow::bail!("a scheduler needs names of hosts: write `host_names` in the topology");
    }
    let stop = stop::on_signals("stopping; interrupt again to stop now")?;
    let mut watcher = JobWatcher::new(args, common, cluster)?;
    watcher.follow(&stop)?;
    watcher.save();
    if watcher.outbox.waiting() > 0 {
        let count = watcher.outbox.waiting();
        let kept = args.state.as_deref().map(|state| beside(state, QUEUE).display().to_string());
        note(&kept.map_or_else(
            || format!("warning: {count} events were not delivered; with --state they would be after a restart"),
            |kept| format!("{count} events wait in {kept} for the next start"),
        ));
    }
    Ok(match watcher.jobs.values().map(|job| job.news.said().state).max().unwrap_or(JobState::Well) {
        JobState::Hang | JobState::Slow => exit::anomalous(),
        JobState::Well if watcher.jobs.values().any(|job| job.is_judged) => exit::HEALTHY,
        JobState::Well | JobState::Undecided | JobState::Silent => exit::failed(),
    })
}

/// What the name of the queue adds to the name of the state.
const QUEUE: &str = ".queue";

/// A file, and what is known of its form.
struct Source {
    tail: Tail,
    follower: RecordFollower,
    /// Whether the next record is the first of a new file.
    is_new: bool,
    name: String,
}

/// A communicator's job.
#[derive(Default)]
struct Followed {
    window: Window,
    news: JobNews,
    last_record: Option<Instant>,
    is_changed: bool,
    is_silent: bool,
    /// Whether an answer was found that rests on enough.
    is_judged: bool,
}

struct JobWatcher<'a> {
    args: &'a WatchJobArgs,
    common: Common,
    cluster: Option<Cluster>,
    sources: Vec<Source>,
    jobs: HashMap<JobKey, Followed>,
    events: u64,
    outbox: Outbox,
    drained: BTreeSet<String>,
    /// What a scheduler did not do yet.
    pending: Vec<PendingDrain>,
    accused: BTreeMap<String, JobKey>,
    skipped: Skips,
    saved: Instant,
    /// When it was said that the state cannot be written, if it cannot.
    unsaved: Option<Instant>,
    /// Held for as long as the state is this watcher's.
    _lock: Option<File>,
}

/// A host that is to be drained, which failed so far.
struct PendingDrain {
    scheduler: Scheduler,
    host: String,
    reason: String,
    tries: u32,
    next: Instant,
}

/// What was left out of all files.
#[derive(Default)]
struct Skips {
    broken: u64,
    foreign: u64,
}

impl<'a> JobWatcher<'a> {
    fn new(args: &'a WatchJobArgs, common: Common, cluster: Option<Cluster>) -> anyhow::Result<Self> {
        if args.files.iter().any(|file| file == Path::new("-")) {
            anyhow::bail!("stdin cannot be followed: write to a file, and name that");
        }
        let lock = args.state.as_deref().map(lock).transpose()?;
        let stored = args.state.as_deref().map(WatchState::read).transpose()?.flatten();
        let stored = stored.unwrap_or_default();
        if let Some((place, _)) = stored.files.iter().find(|(place, _)| !args.files.contains(&place.path)) {
            let state = args.state.as_deref().unwrap_or(Path::new("")).display();
            anyhow::bail!("{state}: it is of {}; name that as well, or another state", place.path.display());
        }
        let mut sources = Vec::new();
        for path in &args.files {
            let name = path.display().to_string();
            refuse_unfollowable(path)?;
            let at = stored.files.iter().find(|(place, _)| place.path == *path);
            let (tail, change) = match at {
                Some((place, _)) => Tail::resume(place)?,
                None => (Tail::new(path), None),
            };
            if change.is_some() {
                note(&format!("{name}: another file than when the state was written; it is read from its begin"));
            }
            let heading = at.and_then(|(_, heading)| heading.as_deref());
            let follower =
                heading.filter(|_| change.is_none()).map_or_else(RecordFollower::default, RecordFollower::after);
            sources.push(Source { tail, follower, is_new: change.is_some(), name });
        }
        let jobs = stored.jobs.into_iter().map(|(window, said)| {
            (window.key(), Followed { window, news: JobNews::after(said), is_changed: true, ..Followed::default() })
        });
        let outbox = match &args.state {
            Some(state) => Outbox::with_queue(args.notify.hearers(), beside(state, QUEUE), stored.waiting)?,
            None => Outbox::new(args.notify.hearers()),
        };
        outbox.unheard().iter().for_each(|unheard| note(&format!("warning: {unheard}")));
        Ok(Self {
            args,
            common,
            cluster,
            sources,
            jobs: jobs.collect(),
            events: stored.events,
            outbox,
            drained: stored.drained,
            pending: Vec::new(),
            accused: stored.accused,
            skipped: Skips::default(),
            saved: Instant::now(),
            unsaved: None,
            _lock: lock,
        })
    }

    fn follow(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        for source in &self.sources {
            if !Path::new(&source.name).exists() {
                note(&format!("{}: not there yet; waiting for it", source.name));
            }
        }
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let mut is_more = false;
            for index in 0..self.sources.len() {
                is_more |= self.take(index)? >= TURN;
            }
            let keys: Vec<JobKey> = self.jobs.keys().cloned().collect();
            let mut has_news = false;
            for key in keys {
                // What was written long ago is no event: only its end is judged.
                has_news |= !is_more && self.judge(&key)?;
            }
            self.drain_again();
            self.outbox.flush().iter().for_each(|problem| note(&format!("warning: {problem}")));
            if has_news || self.saved.elapsed() >= SAVE {
                self.save();
            }
            // Whoever judges for long pauses for longer, and leaves the processor to the job.
            let pause = self.args.interval.max((4 * begin.elapsed()).min(LONGEST_PAUSE));
            let until = begin + if is_more { Duration::ZERO } else { pause };
            while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20).min(until.saturating_duration_since(Instant::now())));
            }
        }
        Ok(())
    }

    /// Reads what a file has more, and returns how much that was.
    fn take(&mut self, index: usize) -> anyhow::Result<usize> {
        let Self { sources, jobs, skipped, accused, .. } = self;
        let Source { tail, follower, is_new, name } = &mut sources[index];
        let (count, change) = tail.read(TURN, |piece| {
            follower.take(piece, |one| match one {
                Ok(record) => {
                    let key = record.key();
                    if push(jobs, record, std::mem::take(is_new)) == RecordEffect::NewJob {
                        // What comes next says nothing of the hosts of the job before.
                        accused.retain(|_, of| *of != key);
                    }
                }
                Err(one) => skipped.say(name, &one),
            });
        })?;
        if let Some(change) = change {
            let what = if change == FileChange::Replaced { "another file is there now" } else { "it was cut" };
            note(&format!("{name}: {what}; it is read from its begin"));
            follower.restart();
            *is_new = true;
        }
        let total: usize = jobs.values().map(|job| job.window.count()).sum();
        if total > MOST {
            let largest = jobs.values_mut().max_by_key(|job| job.window.count()).expect("there is one");
            let most = largest.window.count().saturating_sub(total - MOST).max(MOST / MAX_COMMUNICATORS);
            largest.window.shrink(most);
        }
        Ok(count)
    }

    /// Judges a job about which there is something new, and says what changed.
    fn judge(&mut self, key: &JobKey) -> anyhow::Result<bool> {
        let patience = self.args.patience;
        let job = self.jobs.get_mut(key).expect("its key was just read");
        let silent = job.last_record.get_or_insert_with(Instant::now).elapsed();
        let is_silent = silent >= patience;
        if !job.is_changed && is_silent == job.is_silent && !job.news.is_to_see_again() {
            return Ok(false);
        }
        job.is_silent = is_silent;
        let found = job.window.judge(silent.as_secs_f64() * 1e6, patience.as_secs_f64() * 1e6);
        job.is_changed = false;
        job.is_judged |= found.verdict != kelpie_diagnosis::job::JobVerdict::Undecided;
        let Some(now) = job.news.hear(&found, is_silent) else { return Ok(false) };
        let latest = job.window.latest();
        let placement = self.cluster.as_ref().map(|cluster| placement(&found, &latest, cluster));
        let found = JobDiagnosis { since_iteration: now.since, ..found };
        let hosts = hosts(&found, &latest.hosts, placement.as_ref());
        self.say(key, found, now.state, placement, hosts)?;
        Ok(true)
    }

    fn say(
        &mut self,
        key: &JobKey,
        diagnosis: JobDiagnosis,
        state: JobState,
        placement: Option<Placement>,
        hosts: BTreeSet<String>,
    ) -> anyhow::Result<()> {
        let hosts = match state {
            JobState::Well => {
                let is_of_job = |(_, of): &(&String, &JobKey)| *of == key;
                let hosts: BTreeSet<String> =
                    self.accused.iter().filter(is_of_job).map(|(host, _)| host.clone()).collect();
                self.accused.retain(|_, of| of != key);
                self.pending.retain(|pending| !hosts.contains(&pending.host));
                // Who acts knows what was drained: nothing else is to be taken back.
                hosts.into_iter().filter(|host| !self.args.act || self.drained.contains(host)).collect()
            }
            JobState::Undecided => BTreeSet::new(),
            JobState::Silent | JobState::Slow | JobState::Hang => hosts,
        };
        let steps = |scheduler: Scheduler, host: &String| match state {
            JobState::Well => scheduler.resume(host),
            _ => scheduler.drain(host, &brief(&diagnosis)),
        };
        let mut lines = [Vec::new(), Vec::new()];
        let mut acts = Vec::new();
        for (scheduler, lines) in self.schedulers().into_iter().zip(&mut lines) {
            for host in scheduler.is_asked.then_some(&hosts).into_iter().flatten() {
                if let Some(refused) = scheduler.which.refuses(host) {
                    note(&format!("warning: {refused}"));
                    continue;
                }
                lines.extend(steps(scheduler.which, host).iter().map(Step::line));
                acts.push((scheduler.which, host.clone()));
            }
        }
        let [slurm, kubernetes] = lines;
        let at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let found = diagnosis.clone();
        let number = self.events + 1;
        let mut event = WatchEvent { number, at, state, diagnosis, placement, slurm, kubernetes }.bounded();
        let mut json = clean_json(serde_json::to_string(&event)?);
        self.events = self.outbox.number(number, &json);
        if self.events != number {
            event.number = self.events;
            json = clean_json(serde_json::to_string(&event)?);
        }
        if self.common.json { print(&(json.clone() + "\n")) } else { print(&event.text()) }?;
        if let Some(given_up) = self.outbox.push(self.events, json) {
            note(&format!("warning: {given_up}"));
        }
        if state != JobState::Well {
            self.accused.extend(acts.iter().map(|(_, host)| (host.clone(), key.clone())));
        }
        for (scheduler, host) in acts.into_iter().filter(|_| self.args.act) {
            if state == JobState::Well {
                self.resume(scheduler, &host);
            } else if !self.pending.iter().any(|one| one.scheduler == scheduler && one.host == host) {
                let (reason, next) = (brief(&found), Instant::now());
                self.drain(PendingDrain { scheduler, host, reason, tries: 0, next });
            }
        }
        Ok(())
    }

    fn schedulers(&self) -> [Asked; 2] {
        let asked = [(Scheduler::Slurm, self.args.slurm), (Scheduler::Kubernetes, self.args.kubernetes)];
        asked.map(|(which, is_asked)| Asked { which, is_asked })
    }

    /// Drains what failed before and is due.
    fn drain_again(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.next <= now);
        self.pending = later;
        Vec::into_iter(due).for_each(|pending| self.drain(pending));
    }

    fn drain(&mut self, mut pending: PendingDrain) {
        let host = pending.host.clone();
        if self.drained.contains(&host) {
            return;
        }
        if self.drained.len() >= self.args.drain_at_most {
            let count = self.drained.len();
            note(&format!("warning: {host} is not drained: {count} hosts are already (--drain-at-most)"));
            return;
        }
        match pending.scheduler.act_drain(&host, &pending.reason) {
            Ok(()) => {
                note(&format!("drained {host}"));
                self.drained.insert(host);
                // A kill before the next event would forget that it was Kelpie who drained it.
                self.save();
            }
            Err(error) => {
                let pause = DRAIN_AGAIN * 2_u32.pow(pending.tries.min(DRAIN_TRIES));
                (pending.tries, pending.next) = (pending.tries + 1, Instant::now() + pause);
                let (again, pause) = (pending.tries < DRAIN_TRIES, humantime::format_duration(pause));
                let then = if again { format!("tried again in {pause}") } else { "given up".to_owned() };
                note(&format!("warning: {host} is not drained: {error:#}; {then}"));
                self.pending.extend(again.then_some(pending));
            }
        }
    }

    /// Takes a host back only if this is asked for: who drained a host may want to look at it first.
    fn resume(&mut self, scheduler: Scheduler, host: &str) {
        if !self.args.resume || !self.drained.contains(host) {
            return;
        }
        match scheduler.act_resume(host) {
            Ok(()) => {
                note(&format!("took {host} back"));
                self.drained.remove(host);
            }
            Err(error) => note(&format!("warning: {host} is not taken back: {error:#}")),
        }
    }

    /// Writes the state, if it is to be kept. A disk that is full ends no watcher: it is written later.
    fn save(&mut self) {
        self.saved = Instant::now();
        let Some(path) = &self.args.state else { return };
        match self.stored().and_then(|stored| stored.write(path)) {
            Ok(()) if self.unsaved.take().is_some() => note(&format!("{}: it is written again", path.display())),
            Ok(()) => {}
            Err(error) => {
                if self.unsaved.is_none_or(|said| said.elapsed() >= SAY_UNSAVED) {
                    let name = path.display();
                    note(&format!("warning: {name}: {error:#}; watching goes on, and it is written when it can be"));
                    self.unsaved = Some(Instant::now());
                }
                self.saved = self.saved.checked_sub(SAVE.saturating_sub(AGAIN)).unwrap_or(self.saved);
            }
        }
    }

    fn stored(&mut self) -> anyhow::Result<WatchState> {
        let mut stored = WatchState::default();
        for source in &mut self.sources {
            if let Some(place) = source.tail.place(source.follower.pending())? {
                stored.files.push((place, source.follower.begin()));
            }
        }
        stored.jobs = self.jobs.values().map(|job| (job.window.clone(), job.news.said().clone())).collect();
        (stored.events, stored.drained, stored.accused) = (self.events, self.drained.clone(), self.accused.clone());
        Ok(stored)
    }
}

/// Refuses what grows in no way that could be followed.
fn refuse_unfollowable(path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    if path.is_dir() {
        anyhow::bail!("{name}: a folder cannot be followed: name its files, as in {name}/*");
    }
    let mut head = [0; 2];
    let is_read = path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    if is_read && head == [0x1f, 0x8b] {
        anyhow::bail!("{name}: a packed file (gzip) cannot be followed: `kelpie job diagnose` reads it as a whole");
    }
    Ok(())
}

/// A scheduler, and whether it is asked.
struct Asked {
    which: Scheduler,
    is_asked: bool,
}

/// The hosts that a verdict names, and those of the ranks that it names: as records name them, else as the topology
/// does. A rank of a record counts within its communicator, and one of the topology within the job.
fn hosts(found: &JobDiagnosis, named: &BTreeMap<u32, String>, placement: Option<&Placement>) -> BTreeSet<String> {
    if named.is_empty() {
        let placed = placement.map(|placement| accused(found, placement)).unwrap_or_default();
        return placed.into_iter().chain(found.host.iter().cloned()).collect();
    }
    let ranks = found.rank.iter().chain(&found.source).chain(&found.destination);
    ranks.filter_map(|rank| named.get(rank)).chain(&found.host).cloned().collect()
}

fn push(jobs: &mut HashMap<JobKey, Followed>, record: OperationRecord, is_new_file: bool) -> RecordEffect {
    let key = record.key();
    if jobs.len() >= MAX_COMMUNICATORS && !jobs.contains_key(&key) {
        // Whoever was silent for longest is over.
        if let Some(oldest) = jobs.iter().min_by_key(|(_, job)| job.last_record).map(|(key, _)| key.clone()) {
            jobs.remove(&oldest);
        }
    }
    let job = jobs.entry(key).or_default();
    let seen = job.window.push(record, is_new_file);
    if seen == RecordEffect::NewJob {
        note("iterations begin anew: another job is watched from here on");
        job.news.forget_doubt();
    }
    job.last_record = Some(Instant::now());
    job.is_changed = true;
    seen
}

impl Skips {
    /// Says the first ones, and then every so many: lines of other programs are no mistake and are only counted.
    fn say(&mut self, name: &str, skipped: &Skipped) {
        let (count, often, what) = if skipped.is_foreign {
            (&mut self.foreign, 1, "no record, left out")
        } else {
            (&mut self.broken, SAID_SKIPS, "left out")
        };
        *count += 1;
        if *count <= often || (*count).is_multiple_of(SKIPS_BETWEEN) {
            note(&format!("warning: {name}:{}: {what} ({count} so far): {}", skipped.line, skipped.problem));
        }
    }
}
