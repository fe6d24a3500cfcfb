//! Where events go besides stdout: to a command, to a webhook, each at least once. What an event says is elsewhere.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::files::{read_file_up_to, replace};
use crate::program::run;

/// How long a command may take. Source: our choice, because an event is to be out within 10 s.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// How long a webhook may take, all together. Source: as above.
const WEBHOOK_LIMIT: Duration = Duration::from_secs(5);
/// The pause after a try that failed, which doubles with each further one up to the longest. Source: our choice.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long the first event may keep others waiting. Source: our choice; an hour of a receiver that is down.
const PATIENCE: Duration = Duration::from_hours(1);
/// How long whoever delivers may keep its caller. Source: our choice, because files are to be read meanwhile.
const TURN: Duration = Duration::from_secs(2);
/// Events that wait at most. Source: our choice; an event has a few kilobytes.
const WAITING: usize = 4096;
/// Longest queue on disk. Units: bytes. Source: our choice, above what the events that may wait need.
const MAX_QUEUE: u64 = 1 << 28;
/// Lines of the queue that say that something was delivered, before it is written anew. Source: our choice.
const DELIVERED: usize = 1024;

/// Who is to hear of events.
#[derive(Debug, Clone, Default)]
pub struct Hearers {
    /// What `sh -c` runs for each event, which is its stdin.
    pub command: Option<String>,
    /// Where each event is posted, `http://host:port/path`.
    pub webhook: Option<String>,
}

/// An event that did not get everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingEvent {
    /// Its number; 0 in states of earlier versions.
    #[serde(default)]
    number: u64,
    event: String,
    for_command: bool,
    for_webhook: bool,
}

/// A line of the queue on disk.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Waits(PendingEvent),
    Delivered(u64, Way),
    /// The latest number that was given, whether its event still waits or not.
    Latest(u64),
}

/// Who hears of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Command,
    Webhook,
}

impl Way {
    const ALL: [Self; 2] = [Self::Command, Self::Webhook];

    fn option(self) -> &'static str {
        match self {
            Self::Command => "--exec",
            Self::Webhook => "--webhook",
        }
    }
}

impl PendingEvent {
    fn flag(&mut self, way: Way) -> &mut bool {
        match way {
            Way::Command => &mut self.for_command,
            Way::Webhook => &mut self.for_webhook,
        }
    }

    fn is_for(&self, way: Way) -> bool {
        match way {
            Way::Command => self.for_command,
            Way::Webhook => self.for_webhook,
        }
    }
}

/// When a way is tried again.
#[derive(Debug)]
struct Tries {
    next: Instant,
    pause: Duration,
    /// Since when the first event fails.
    since: Option<Instant>,
}

/// Delivers events, each way in their order, and again while nobody takes them. A way that fails holds up the other
/// one not.
#[derive(Debug)]
pub struct Outbox {
    to: Hearers,
    waiting: VecDeque<PendingEvent>,
    tries: [Tries; 2],
    client: ureq::Agent,
    queue: Option<Queue>,
    /// Events that found no place.
    dropped: u64,
    /// The latest number that was given.
    latest: u64,
    /// Events of an earlier run, by their numbers: its state may be older than they are.
    earlier: BTreeMap<u64, String>,
}

/// The queue on disk.
#[derive(Debug)]
struct Queue {
    path: PathBuf,
    /// The file, if it has all that waits.
    file: Option<File>,
    delivered: usize,
    /// Whether it was said that it cannot be written.
    is_said: bool,
}

impl Outbox {
    /// An outbox that keeps what waits in memory alone.
    pub fn new(to: Hearers) -> Self {
        let client = ureq::Agent::config_builder().timeout_global(Some(WEBHOOK_LIMIT)).max_redirects(0).build();
        let tries = Way::ALL.map(|_| Tries { next: Instant::now(), pause: FIRST_PAUSE, since: None });
        Self {
            to,
            waiting: VecDeque::new(),
            tries,
            client: client.into(),
            queue: None,
            dropped: 0,
            latest: 0,
            earlier: BTreeMap::new(),
        }
    }

    /// An outbox that keeps what waits in a file too, with what waited there and in `more` before.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn with_queue(to: Hearers, path: PathBuf, more: Vec<PendingEvent>) -> anyhow::Result<Self> {
        let mut outbox = Self::new(to);
        if path.exists() {
            let text = read_file_up_to(&path, MAX_QUEUE)?;
            for line in text.split(|byte| *byte == b'\n') {
                // A line that breaks off was being written when the process ended: its event is judged again.
                match serde_json::from_slice(line) {
                    Ok(Line::Waits(waiting)) => {
                        outbox.latest = outbox.latest.max(waiting.number);
                        outbox.earlier.insert(waiting.number, waiting.event.clone());
                        outbox.waiting.push_back(waiting);
                    }
                    Ok(Line::Latest(number)) => outbox.latest = outbox.latest.max(number),
                    Ok(Line::Delivered(number, way)) => outbox.mark(number, way),
                    Err(_) => {}
                }
            }
        }
        outbox.latest = more.iter().map(|waiting| waiting.number).fold(outbox.latest, u64::max);
        outbox.waiting.extend(more);
        outbox.queue = Some(Queue { path, file: None, delivered: 0, is_said: false });
        Ok(outbox)
    }

    /// How many events wait for `--exec` or `--webhook` although this is not given, in words.
    pub fn unheard(&self) -> Option<String> {
        let unheard = Way::ALL.into_iter().filter(|way| !self.is_given(*way)).filter_map(|way| {
            let count = self.waiting.iter().filter(|waiting| waiting.is_for(way)).count();
            (count > 0).then(|| format!("{count} events wait for {}, which is not given", way.option()))
        });
        let all: Vec<String> = unheard.collect();
        (!all.is_empty()).then(|| all.join("; ") + ": they are kept until it is")
    }

    /// How many events are not delivered yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of an event that would get `next` by the state. A state that could not be written is older than the
    /// queue: the same event keeps the number that it had, and another one gets one that nobody had.
    pub fn number(&self, next: u64, event: &str) -> u64 {
        let is_known = self.earlier.get(&next).is_some_and(|earlier| is_same(earlier, event));
        if next > self.latest || is_known { next } else { self.latest + 1 }
    }

    fn is_given(&self, way: Way) -> bool {
        match way {
            Way::Command => self.to.command.is_some(),
            Way::Webhook => self.to.webhook.is_some(),
        }
    }

    fn mark(&mut self, number: u64, way: Way) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.number == number && waiting.is_for(way)) {
            *self.waiting[at].flag(way) = false;
            if !(self.waiting[at].for_command || self.waiting[at].for_webhook) {
                self.waiting.remove(at);
            }
        }
    }

    /// Takes an event, as JSON. Returns what is given up for it.
    pub fn push(&mut self, number: u64, event: String) -> Option<String> {
        self.latest = self.latest.max(number);
        self.keep_number();
        let (for_command, for_webhook) = (self.to.command.is_some(), self.to.webhook.is_some());
        // After a kill an event may come again that is in the queue already.
        let is_known = |waiting: &PendingEvent| waiting.number == number && is_same(&waiting.event, &event);
        if !(for_command || for_webhook) || self.waiting.iter().any(is_known) {
            return None;
        }
        if self.waiting.len() >= WAITING {
            // The oldest are kept: they say how it began.
            let is_unheard =
                |waiting: &PendingEvent| Way::ALL.iter().all(|way| !waiting.is_for(*way) || !self.is_given(*way));
            let unheard = self.waiting.iter().position(is_unheard);
            self.dropped += 1;
            let problem = format!("{WAITING} events wait for whoever is to hear of them");
            let Some(place) = unheard else {
                return Some(format!("{problem}: event {number} is given up ({} so far)", self.dropped));
            };
            self.waiting.remove(place);
            self.rewrite_later();
        }
        let waiting = PendingEvent { number, event, for_command, for_webhook };
        self.append(&Line::Waits(waiting.clone()));
        self.waiting.push_back(waiting);
        None
    }

    /// Delivers what can be delivered now. Returns what went wrong.
    pub fn flush(&mut self) -> Vec<String> {
        let begin = Instant::now();
        let mut problems = Vec::new();
        problems.extend(self.write_queue());
        for (way, at) in Way::ALL.into_iter().zip(0..) {
            while self.is_given(way) && Instant::now() >= self.tries[at].next && begin.elapsed() < TURN {
                let Some(first) = self.waiting.iter().position(|waiting| waiting.is_for(way)) else { break };
                match self.deliver(way, &self.waiting[first].event) {
                    Ok(()) => {
                        let number = self.waiting[first].number;
                        self.mark(number, way);
                        self.append(&Line::Delivered(number, way));
                        (self.tries[at].pause, self.tries[at].since) = (FIRST_PAUSE, None);
                    }
                    Err(error) => {
                        problems.push(format!("{}: {error:#}", way.option()));
                        let Tries { next, pause, since } = &mut self.tries[at];
                        *next = Instant::now() + *pause;
                        *pause = LONGEST_PAUSE.min(*pause * 2);
                        if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                            // It may be this one that nobody can take.
                            *since = None;
                            let last = self.waiting.remove(first);
                            self.waiting.extend(last);
                        }
                    }
                }
            }
        }
        problems.extend(self.write_queue());
        problems
    }

    fn deliver(&self, way: Way, event: &str) -> anyhow::Result<()> {
        match way {
            Way::Command => {
                self.to.command.as_deref().map_or(Ok(()), |command| run(shell(command), event, COMMAND_LIMIT))
            }
            Way::Webhook => self.to.webhook.as_deref().map_or(Ok(()), |url| post(&self.client, url, event)),
        }
    }

    fn append(&mut self, line: &Line) {
        let Some(queue) = &mut self.queue else { return };
        queue.delivered += usize::from(matches!(line, Line::Delivered(..)));
        if queue.delivered > DELIVERED {
            queue.file = None;
        }
        let Some(file) = &mut queue.file else { return };
        let written = serde_json::to_vec(line).map_err(Into::into).and_then(|mut text| {
            text.push(b'\n');
            file.write_all(&text).and_then(|()| file.sync_data())
        });
        if written.is_err() {
            queue.file = None;
        }
    }

    /// Writes the latest number in place: a disk that is full has room for that, and for nothing more.
    fn keep_number(&self) {
        let Some(queue) = &self.queue else { return };
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&queue.path) else { return };
        let mut head = [0; HEAD];
        let is_head = file.read_exact(&mut head).is_ok()
            && head.ends_with(b"\n")
            && matches!(serde_json::from_slice(&head), Ok(Line::Latest(_)));
        if is_head && file.rewind().is_ok() && file.write_all(&latest_line(self.latest)).is_ok() {
            let _ = file.sync_data();
        }
    }

    fn rewrite_later(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.file = None;
        }
    }

    /// Writes all that waits, if the file has not all of it. Returns what went wrong, once.
    fn write_queue(&mut self) -> Option<String> {
        let queue = self.queue.as_mut().filter(|queue| queue.file.is_none())?;
        if self.waiting.is_empty() && !queue.path.exists() {
            return None;
        }
        match replaced(&queue.path, self.latest, &self.waiting) {
            Ok(file) => {
                (queue.file, queue.delivered, queue.is_said) = (Some(file), 0, false);
                None
            }
            Err(error) => {
                let is_said = std::mem::replace(&mut queue.is_said, true);
                let problem = || {
                    format!("{}: {error:#}: events are kept in memory until it can be written", queue.path.display())
                };
                (!is_said).then(problem)
            }
        }
    }
}

/// Length of the first line of the queue, which is written in place. Units: bytes. Source: the longest number fits.
const HEAD: usize = 48;

fn latest_line(number: u64) -> [u8; HEAD] {
    let mut line = [b' '; HEAD];
    let text = serde_json::to_vec(&Line::Latest(number)).expect("a number");
    line[..text.len()].copy_from_slice(&text);
    line[HEAD - 1] = b'\n';
    line
}

/// Replaces the queue as a whole, and opens it to append.
fn replaced(path: &Path, latest: u64, waiting: &VecDeque<PendingEvent>) -> anyhow::Result<File> {
    replace(path, |writer| {
        writer.write_all(&latest_line(latest))?;
        for one in waiting {
            serde_json::to_writer(&mut *writer, &Line::Waits(one.clone()))?;
            writer.write_all(b"\n")?;
        }
        Ok(())
    })?;
    OpenOptions::new().append(true).open(path).context("it was just written")
}

/// Whether two events are the same but for when they were said.
fn is_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| {
        let mut event: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        event.as_object_mut().map(|event| event.remove("at"));
        event
    });
    one == other
}

fn post(client: &ureq::Agent, url: &str, event: &str) -> anyhow::Result<()> {
    client.post(url).header("content-type", "application/json").send(event)?;
    Ok(())
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hearers(command: Option<&str>, webhook: Option<&str>) -> Hearers {
        Hearers { command: command.map(str::to_owned), webhook: webhook.map(str::to_owned) }
    }

    /// Delivers until nothing waits.
    fn deliver_all(outbox: &mut Outbox) {
        let begin = Instant::now();
        while outbox.waiting() > 0 {
            outbox.flush();
            assert!(begin.elapsed() < Duration::from_mins(2), "{} wait", outbox.waiting());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn events_arrive_although_each_second_try_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let (queue, heard) = (folder.path().join("queue"), folder.path().join("heard"));
        let (place, heard_name) = (folder.path().display(), heard.display());
        // Fails at each second run.
        let command =
            format!("if mkdir {place}/odd 2>/dev/null; then exit 1; fi; rmdir {place}/odd; cat >> {heard_name}");
        let mut outbox = Outbox::with_queue(hearers(Some(&command), None), queue.clone(), Vec::new()).expect("new");
        for number in 1..=20 {
            assert_eq!(outbox.push(number, format!("{number}\n")), None);
        }
        outbox.flush();
        // A kill, and a start that knows only what the disk has.
        drop(outbox);
        let mut outbox = Outbox::with_queue(hearers(Some(&command), None), queue, Vec::new()).expect("read");
        assert_eq!(outbox.push(20, "20\n".to_owned()), None, "it is in the queue");
        deliver_all(&mut outbox);
        let heard = std::fs::read_to_string(heard).expect("heard");
        let numbers: Vec<u64> = heard.lines().map(|line| line.parse().expect("a number")).collect();
        assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    }

    #[test]
    fn a_way_that_is_gone_or_dead_holds_nothing_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let (queue, heard) = (folder.path().join("queue"), folder.path().join("heard"));
        let command = format!("cat >> {}", heard.display());
        // Nobody listens on this port.
        let both = hearers(Some(&command), Some("http://127.0.0.1:9/x"));
        let mut outbox = Outbox::with_queue(both, queue.clone(), Vec::new()).expect("new");
        (1..=3).for_each(|number| drop(outbox.push(number, "x\n".to_owned())));
        let problems = outbox.flush();
        assert!(problems.iter().any(|problem| problem.starts_with("--webhook: ")), "{problems:?}");
        assert_eq!(std::fs::read_to_string(&heard).expect("heard"), "x\nx\nx\n");
        drop(outbox);
        let mut outbox = Outbox::with_queue(hearers(Some(&command), None), queue.clone(), Vec::new()).expect("read");
        assert_eq!(outbox.flush(), Vec::<String>::new());
        let unheard = outbox.unheard().expect("three");
        assert!(unheard.starts_with("3 events wait for --webhook, which is not given"), "{unheard}");
        assert_eq!((outbox.waiting(), std::fs::read_to_string(&heard).expect("heard").len()), (3, 6));
    }

    #[test]
    fn the_oldest_are_kept_and_the_others_counted() {
        let mut outbox = Outbox::new(hearers(Some("false"), None));
        (1..=WAITING as u64).for_each(|number| assert_eq!(outbox.push(number, String::new()), None));
        for (number, count) in [(5000, 1), (5001, 2)] {
            let given_up = outbox.push(number, String::new()).expect("no place");
            assert!(given_up.ends_with(&format!("event {number} is given up ({count} so far)")), "{given_up}");
        }
        assert_eq!((outbox.waiting(), outbox.waiting[0].number), (WAITING, 1));
    }

    #[test]
    fn a_disk_that_is_full_loses_nothing_once_it_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("place");
        let mut outbox =
            Outbox::with_queue(hearers(Some("false"), None), place.join("queue"), Vec::new()).expect("new");
        outbox.push(1, "one".to_owned());
        let problems = outbox.flush();
        assert!(problems[0].contains("kept in memory until it can be written"), "{problems:?}");
        std::fs::create_dir(&place).expect("room");
        outbox.push(2, "two".to_owned());
        outbox.flush();
        let again = Outbox::with_queue(hearers(Some("false"), None), place.join("queue"), Vec::new()).expect("read");
        assert_eq!(again.waiting(), 2);
    }

    #[test]
    fn a_number_is_never_given_to_another_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("queue");
        let open =
            || Outbox::with_queue(hearers(Some("cat > /dev/null"), None), path.clone(), Vec::new()).expect("read");
        let mut outbox = open();
        let event = |number: u64, what: &str| format!("{{\"event\":{number},\"at\":\"{what}\",\"state\":\"{what}\"}}");
        outbox.push(1, event(1, "slow"));
        deliver_all(&mut outbox);
        // No room for more than the number: nothing can be added to the file, and nothing can replace it.
        outbox.queue.as_mut().expect("it has one").file = None;
        outbox.push(2, event(2, "well"));
        drop(outbox);
        let outbox = open();
        assert_eq!(outbox.number(1, &event(1, "well")), 3, "a state from before both, and another event");
        assert_eq!(outbox.number(3, &event(3, "well")), 3);
        let mut outbox = open();
        outbox.push(3, event(3, "hang"));
        outbox.write_queue();
        drop(outbox);
        let outbox = open();
        assert_eq!((outbox.number(3, &event(3, "hang")), outbox.number(3, &event(3, "well"))), (3, 4));
    }
}
