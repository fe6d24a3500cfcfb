//! `kelpie job watch`: follows what a job writes, and says what changes. What is kept and judged lives in
//! `kelpie_diagnosis`; files, events and state are beside this file.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use kelpie_diagnosis::job::{Diagnosis, Follower, News, Record, Seen, Skipped, State, Window, accused, placement};
use kelpie_examine::program::run;
use kelpie_examine::tail::{Change, Tail};
use kelpie_text::clean_json;
use kelpie_topology::Cluster;

use super::event::{Event, drain, shell_line};
use super::state::Stored;
use crate::args::Common;
use crate::cli::WatchJobArgs;
use crate::exit;
use crate::inputs::read_cluster;
use crate::notify::Outbox;
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
/// How long `scontrol` may take. Source: our choice.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// Longest pause after judgements that took long; events are due within 10 s. Source: our choice.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Records that cannot be read of which each is said, and then every so many. Source: our choice.
const SAID_SKIPS: u64 = 5;
const SKIPS_BETWEEN: u64 = 10_000;

/// Runs `kelpie job watch`.
pub fn watch(args: &WatchJobArgs, common: Common) -> anyhow::Result<ExitCode> {
    let cluster = args.topology.as_deref().map(read_cluster).transpose()?;
    if args.slurm && cluster.as_ref().is_none_or(|cluster| cluster.host_names.is_empty()) {
        anyhow::bail!("--slurm needs names of hosts: write `host_names` in the topology and give it with --topology");
    }
    let stop = stop::on_signals("stopping; interrupt again to stop now")?;
    let mut watcher = Watcher::new(args, common, cluster)?;
    watcher.follow(&stop)?;
    watcher.save()?;
    Ok(match watcher.jobs.values().map(|job| job.news.said().state).max().unwrap_or(State::Well) {
        State::Hang | State::Slow => exit::anomalous(),
        State::Well if watcher.jobs.values().any(|job| job.is_judged) => exit::HEALTHY,
        State::Well | State::Undecided | State::Silent => exit::failed(),
    })
}

/// A file, and what is known of its form.
struct Source {
    tail: Tail,
    follower: Follower,
    /// Whether the next record is the first of a new file.
    is_new: bool,
    name: String,
}

/// A communicator's job.
#[derive(Default)]
struct Followed {
    window: Window,
    news: News,
    last_record: Option<Instant>,
    is_changed: bool,
    is_silent: bool,
    /// Whether an answer was found that rests on enough.
    is_judged: bool,
}

struct Watcher<'a> {
    args: &'a WatchJobArgs,
    common: Common,
    cluster: Option<Cluster>,
    sources: Vec<Source>,
    jobs: HashMap<String, Followed>,
    events: u64,
    outbox: Outbox,
    drained: BTreeSet<String>,
    skipped: u64,
    saved: Instant,
}

impl<'a> Watcher<'a> {
    fn new(args: &'a WatchJobArgs, common: Common, cluster: Option<Cluster>) -> anyhow::Result<Self> {
        if args.files.iter().any(|file| file == Path::new("-")) {
            anyhow::bail!("stdin cannot be followed: write to a file, and name that");
        }
        let stored = args.state.as_deref().map(Stored::read).transpose()?.flatten().unwrap_or_default();
        if let Some((place, _)) = stored.files.iter().find(|(place, _)| !args.files.contains(&place.path)) {
            let state = args.state.as_deref().unwrap_or(Path::new("")).display();
            anyhow::bail!("{state}: it is of {}; name that as well, or another state", place.path.display());
        }
        let mut sources = Vec::new();
        for path in &args.files {
            let name = path.display().to_string();
            let at = stored.files.iter().find(|(place, _)| place.path == *path);
            let (tail, change) = match at {
                Some((place, _)) => Tail::resume(place)?,
                None => (Tail::new(path), None),
            };
            if change.is_some() {
                note(&format!("{name}: another file than when the state was written; it is read from its begin"));
            }
            let heading = at.and_then(|(_, heading)| heading.as_deref());
            let follower = heading.filter(|_| change.is_none()).map_or_else(Follower::default, Follower::after);
            sources.push(Source { tail, follower, is_new: change.is_some(), name });
        }
        let jobs = stored.jobs.into_iter().map(|(window, said)| {
            let key = window.communicator().unwrap_or_default().to_owned();
            (key, Followed { window, news: News::after(said), is_changed: true, ..Followed::default() })
        });
        Ok(Self {
            args,
            common,
            cluster,
            sources,
            jobs: jobs.collect(),
            events: stored.events,
            outbox: Outbox::new(args.notify.clone(), stored.waiting),
            drained: stored.drained,
            skipped: 0,
            saved: Instant::now(),
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
            let keys: Vec<String> = self.jobs.keys().cloned().collect();
            let mut has_news = false;
            for key in keys {
                // What was written long ago is no event: only its end is judged.
                has_news |= !is_more && self.judge(&key)?;
            }
            self.outbox.flush().iter().for_each(|problem| note(&format!("warning: {problem}")));
            if has_news || self.saved.elapsed() >= SAVE {
                self.save()?;
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
        let Self { sources, jobs, skipped, .. } = self;
        let Source { tail, follower, is_new, name } = &mut sources[index];
        let mut refused = None;
        let (count, change) = tail.read(TURN, |piece| {
            if refused.is_none() {
                let give = |one| match one {
                    Ok(record) => push(jobs, record, std::mem::take(is_new)),
                    Err(one) => say_skipped(skipped, name, &one),
                };
                refused = follower.take(piece, give).err();
            }
        })?;
        if let Some(Skipped { line, problem }) = refused {
            anyhow::bail!("{name}:{line}: {problem}");
        }
        if let Some(change) = change {
            let what = if change == Change::Replaced { "another file is there now" } else { "it was cut" };
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
    fn judge(&mut self, key: &str) -> anyhow::Result<bool> {
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
        job.is_judged |= found.verdict != kelpie_diagnosis::job::Verdict::Undecided;
        let Some(now) = job.news.hear(&found, is_silent) else { return Ok(false) };
        let placement = self.cluster.as_ref().map(|cluster| placement(&found, &job.window.latest(), cluster));
        self.say(Diagnosis { since_iteration: now.since, ..found }, now.state, placement)?;
        Ok(true)
    }

    fn say(
        &mut self,
        diagnosis: Diagnosis,
        state: State,
        placement: Option<kelpie_diagnosis::job::Placement>,
    ) -> anyhow::Result<()> {
        self.events += 1;
        let is_to_drain = self.args.slurm && state > State::Undecided;
        let hosts = placement.as_ref().filter(|_| is_to_drain).map(|placement| accused(&diagnosis, placement));
        let drains: Vec<(String, Vec<String>)> =
            hosts.into_iter().flatten().map(|host| (host.clone(), drain(&host, &diagnosis))).collect();
        let event = Event {
            number: self.events,
            at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            state,
            diagnosis,
            placement,
            slurm: drains.iter().map(|(_, arguments)| shell_line(arguments)).collect(),
        }
        .bounded();
        let json = clean_json(serde_json::to_string(&event)?);
        if self.common.json { print(&(json.clone() + "\n")) } else { print(&event.text()) }?;
        if let Some(given_up) = self.outbox.push(json) {
            note(&format!("warning: {given_up}"));
        }
        for (host, arguments) in drains.into_iter().filter(|_| self.args.act) {
            self.drain(host, &arguments);
        }
        Ok(())
    }

    fn drain(&mut self, host: String, arguments: &[String]) {
        if self.drained.contains(&host) {
            return;
        }
        if self.drained.len() >= self.args.drain_at_most {
            note(&format!(
                "warning: {host} is not drained: {} hosts are already (--drain-at-most)",
                self.drained.len()
            ));
            return;
        }
        let mut scontrol = Command::new("scontrol");
        scontrol.args(arguments);
        match run(scontrol, "", DRAIN_LIMIT) {
            Ok(()) => {
                note(&format!("drained {host}"));
                self.drained.insert(host);
            }
            Err(error) => note(&format!("warning: {host} is not drained: scontrol: {error:#}")),
        }
    }

    /// Writes the state, if it is to be kept.
    fn save(&mut self) -> anyhow::Result<()> {
        self.saved = Instant::now();
        let Some(path) = &self.args.state else { return Ok(()) };
        let mut files = Vec::new();
        for source in &mut self.sources {
            if let Some(place) = source.tail.place(source.follower.pending())? {
                files.push((place, source.follower.heading()));
            }
        }
        let jobs = self.jobs.values().map(|job| (job.window.clone(), job.news.said().clone())).collect();
        let (waiting, drained) = (self.outbox.waiting(), self.drained.clone());
        let mut stored = Stored::default();
        (stored.files, stored.jobs, stored.events) = (files, jobs, self.events);
        (stored.waiting, stored.drained) = (waiting, drained);
        stored.write(path).with_context(|| path.display().to_string())
    }
}

fn push(jobs: &mut HashMap<String, Followed>, record: Record, is_new_file: bool) {
    let key = record.communicator.clone().unwrap_or_default();
    if jobs.len() >= MAX_COMMUNICATORS && !jobs.contains_key(&key) {
        // Whoever was silent for longest is over.
        if let Some(oldest) = jobs.iter().min_by_key(|(_, job)| job.last_record).map(|(key, _)| key.clone()) {
            jobs.remove(&oldest);
        }
    }
    let job = jobs.entry(key).or_default();
    if job.window.push(record, is_new_file) == Seen::NewJob {
        note("iterations begin anew: another job is watched from here on");
        job.news.forget_doubt();
    }
    job.last_record = Some(Instant::now());
    job.is_changed = true;
}

fn say_skipped(count: &mut u64, name: &str, skipped: &Skipped) {
    *count += 1;
    if *count <= SAID_SKIPS || (*count).is_multiple_of(SKIPS_BETWEEN) {
        note(&format!("warning: {name}:{}: left out ({count} so far): {}", skipped.line, skipped.problem));
    }
}
