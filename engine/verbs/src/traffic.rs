//! The thread that keeps queues full and counts completions, and what it shares with whoever reads them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{iter, thread};

use kelpie_engine::host::{Count, GroupCount};
use kelpie_engine::plan::GroupId;
use kelpie_spaces::Opcode;

use crate::cq::Completions;
use crate::device::Context;
use crate::error::VerbsError;
use crate::group::Group;
use crate::requester::OPCODES;

/// Different events that are kept. Source: our choice, because one cause shows up as a handful.
const MOST_EVENTS: usize = 32;

/// Passes without a completion after which the thread gives way, and then sleeps, on a host with CPUs to spare.
/// Source: our choice, because a NIC completes within microseconds and a sleep takes tens of them.
const PATIENT: Patience = Patience { yield_after: 64, sleep_after: 4096 };

/// The same on a host with one CPU, whose kernel needs it to move packets: a busy poller would starve it.
const MODEST: Patience = Patience { yield_after: 0, sleep_after: 1 };

/// A sleep. Units: microseconds.
const SLEEP: Duration = Duration::from_micros(50);

/// How often asynchronous events are looked for.
const EVENT_INTERVAL: Duration = Duration::from_millis(50);

/// Longest wait for the thread to count what has completed; a slow pass is some milliseconds.
const CATCH_UP_LIMIT: Duration = Duration::from_millis(200);

/// Completed work of one group, written by the thread after each pass.
struct GroupShare {
    id: GroupId,
    /// Messages, bytes, packets; by operation at a requester, for SEND alone at a responder.
    values: Vec<(Opcode, [AtomicU64; 3])>,
}

/// What thread and readers share.
pub struct Share {
    groups: Vec<GroupShare>,
    queue_full_nanos: AtomicU64,
    outstanding: AtomicU64,
    stop_posting: AtomicBool,
    quit: AtomicBool,
    /// Passes that readers asked to be waited for, and those of them that are done.
    asked: AtomicU64,
    answered: AtomicU64,
    events: Mutex<Vec<String>>,
}

impl Share {
    fn new(groups: &[Group]) -> Self {
        let of = |group: &Group| {
            let plan = group.plan();
            let posts = |op: &Opcode| {
                plan.send.as_ref().is_some_and(|send| send.requests.iter().any(|request| request.op == *op))
            };
            let receives = plan.recv.is_some().then_some(Opcode::Send);
            let ops = OPCODES.into_iter().filter(posts).chain(receives);
            GroupShare { id: plan.id, values: ops.map(|op| (op, [const { AtomicU64::new(0) }; 3])).collect() }
        };
        Self {
            groups: groups.iter().map(of).collect(),
            queue_full_nanos: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            stop_posting: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            events: Mutex::new(Vec::new()),
        }
    }

    fn publish(&self, groups: &[Group]) {
        let mut outstanding = 0;
        for (group, share) in groups.iter().zip(&self.groups) {
            for (op, values) in &share.values {
                let count = match (&group.requester, &group.responder) {
                    (Some(requester), _) => {
                        OPCODES.iter().position(|known| known == op).map(|slot| requester.counts()[slot])
                    }
                    (None, Some(responder)) => Some(responder.count()),
                    (None, None) => None,
                };
                let Count { messages, bytes, packets } = count.unwrap_or_default();
                for (value, new) in values.iter().zip([messages, bytes, packets]) {
                    value.store(new, Ordering::Relaxed);
                }
            }
            outstanding += group.requester.as_ref().map_or(0, crate::requester::Requester::outstanding);
        }
        self.outstanding.store(outstanding, Ordering::Release);
    }

    fn event(&self, text: String) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < MOST_EVENTS && !events.contains(&text) {
            events.push(text);
        }
    }

    /// Waits until everything that has completed by now is counted, so that counters of the port that are read next
    /// speak of the same moment.
    pub fn catch_up(&self) {
        let ticket = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let started = Instant::now();
        while self.answered.load(Ordering::Acquire) < ticket && started.elapsed() < CATCH_UP_LIMIT {
            thread::sleep(SLEEP);
        }
    }

    /// Completed work.
    pub fn counts(&self) -> Vec<GroupCount> {
        let of = |values: &[AtomicU64; 3]| {
            let [messages, bytes, packets] = values.each_ref().map(|value| value.load(Ordering::Relaxed));
            Count { messages, bytes, packets }
        };
        let by_op = |share: &GroupShare| -> BTreeMap<Opcode, Count> {
            share.values.iter().map(|(op, values)| (*op, of(values))).collect()
        };
        self.groups.iter().map(|share| GroupCount { id: share.id, by_op: by_op(share) }).collect()
    }

    /// Time in which the requesters' send queues were kept full. Units: nanoseconds.
    pub fn queue_full_nanos(&self) -> u64 {
        self.queue_full_nanos.load(Ordering::Relaxed)
    }

    /// Posted by requesters and not completed. Units: work requests.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Acquire)
    }

    /// What went wrong so far.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No further requests; those outstanding and all receives go on.
    pub fn stop_posting(&self) {
        self.stop_posting.store(true, Ordering::Release);
    }
}

/// Running traffic. Dropping it ends the thread and destroys the groups.
pub struct Traffic {
    share: Arc<Share>,
    thread: Option<JoinHandle<()>>,
    started: Instant,
}

impl Traffic {
    /// Starts the thread for these connected groups.
    pub fn start(context: Arc<Context>, groups: Vec<Group>) -> Result<Self, VerbsError> {
        let share = Arc::new(Share::new(&groups));
        let of_thread = Arc::clone(&share);
        let thread = thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(move || run(&of_thread, &context, groups))
            .map_err(VerbsError::Thread)?;
        Ok(Self { share, thread: Some(thread), started: Instant::now() })
    }

    /// What the thread shares.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Since when it runs.
    pub fn started(&self) -> Instant {
        self.started
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.share.quit.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the traffic thread panicked");
        }
    }
}

fn run(share: &Share, context: &Context, mut groups: Vec<Group>) {
    let mut room = Completions::new();
    let patience = Patience::of_this_host();
    let queues: u32 = groups.iter().filter(|group| group.plan().send.is_some()).map(|group| group.plan().qps).sum();
    for group in &mut groups {
        group.start(|text| share.event(text));
    }
    share.publish(&groups);
    let (mut last_pass, mut last_events, mut full_nanos, mut idle) = (Instant::now(), Instant::now(), 0.0, 0_u32);
    while !share.quit.load(Ordering::Acquire) {
        let asked = share.asked.load(Ordering::Acquire);
        let post = !share.stop_posting.load(Ordering::Acquire);
        let (mut done, mut ran_low) = (0, 0);
        for group in &mut groups {
            let (of_group, low) = group.progress(&mut room, post, |text| share.event(text));
            done += of_group;
            ran_low += low;
        }
        let now = Instant::now();
        full_nanos += (now - last_pass).as_nanos() as f64 * (1.0 - f64::from(ran_low) / f64::from(queues.max(1)));
        last_pass = now;
        share.queue_full_nanos.store(full_nanos as u64, Ordering::Relaxed);
        if now - last_events >= EVENT_INTERVAL {
            last_events = now;
            iter::from_fn(|| context.event()).take(MOST_EVENTS).for_each(|text| share.event(text));
        }
        if done > 0 {
            idle = 0;
            share.publish(&groups);
        } else {
            idle = idle.saturating_add(1);
        }
        share.answered.store(asked, Ordering::Release);
        if idle > 0 {
            patience.give_way(idle);
        }
    }
}

/// How long an idle thread polls on.
#[derive(Clone, Copy)]
struct Patience {
    yield_after: u32,
    sleep_after: u32,
}

impl Patience {
    fn of_this_host() -> Self {
        if thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) { MODEST } else { PATIENT }
    }

    /// After this many passes without a completion.
    fn give_way(self, idle: u32) {
        if idle >= self.sleep_after {
            thread::sleep(SLEEP);
        } else if idle >= self.yield_after {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
