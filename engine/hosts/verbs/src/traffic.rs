//! The threads that keep queues full and count completions, each for some lanes, near the NIC.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{iter, thread};

use kelpie_engine::plan::GroupId;
use kelpie_spaces::Opcode;

use crate::affinity::pin;
use crate::cq::Completions;
use crate::device::Context;
use crate::error::VerbsError;
use crate::lane::Lane;
use crate::traffic_state::{ThreadState, TrafficState};

/// Passes without a completion after which a polling thread lets others run.
/// Source: our choice, because a NIC completes within microseconds.
const SPINS: u32 = 64;

/// Sleep on a host with one CPU, whose kernel needs it to move packets.
/// Source: our choice; in the lab neither 16 yields before it nor sleeps up to eight times as long moved more messages.
const NAP: Duration = Duration::from_micros(50);

/// Sleep if nothing can complete. Source: our choice, because whoever reads counts waits for it.
const SLEEP: Duration = Duration::from_millis(1);

/// How often asynchronous events are looked for.
const EVENT_INTERVAL: Duration = Duration::from_millis(50);

/// Passes after which the clock is looked at whether or not there is a need.
const PASSES: u32 = 64;

/// Asynchronous events taken at a time.
const MOST_EVENTS: usize = 32;

/// Running traffic. Dropping it ends the threads and destroys what they had.
pub struct RunningTraffic {
    state: Arc<TrafficState>,
    threads: Vec<JoinHandle<Vec<Lane>>>,
    started: Instant,
}

impl RunningTraffic {
    /// Starts a thread on each of `cpus` for these connected lanes, or fewer if there are fewer lanes.
    pub fn start(
        context: &Arc<Context>,
        lanes: Vec<Lane>,
        ops: &BTreeMap<GroupId, Vec<Opcode>>,
        cpus: &[usize],
    ) -> Result<Self, VerbsError> {
        let count = cpus.len().min(lanes.len()).max(1);
        let mut by_thread: Vec<Vec<Lane>> = iter::repeat_with(Vec::new).take(count).collect();
        for (index, lane) in lanes.into_iter().enumerate() {
            by_thread[index % count].push(lane);
        }
        let state = Arc::new(TrafficState::new(by_thread.iter().map(|lanes| ThreadState::new(lanes, ops)).collect()));
        let mut traffic = Self { state, threads: Vec::with_capacity(count), started: Instant::now() };
        for (index, lanes) in by_thread.into_iter().enumerate() {
            let (state, cpu) = (Arc::clone(&traffic.state), cpus.get(index).copied());
            // One of them looks after the device.
            let context = (index == 0).then(|| Arc::clone(context));
            let run = move || {
                if let Some(Err(error)) = cpu.map(pin) {
                    tracing::warn!(%error, "a traffic thread is not pinned");
                }
                Poller { state: &state, own: &state.threads[index], lanes, context }.run()
            };
            let thread = thread::Builder::new().name(format!("traffic-{index}")).spawn(run);
            // On an error what has started ends with `traffic`.
            traffic.threads.push(thread.map_err(VerbsError::Thread)?);
        }
        Ok(traffic)
    }

    /// What the threads share.
    pub fn state(&self) -> &TrafficState {
        &self.state
    }

    /// Since when it runs.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Whether a thread has ended though nobody asked it to.
    pub fn has_lost_a_thread(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the threads; the lanes, unless a thread panicked and took its own with it.
    pub fn finish(mut self) -> Vec<Lane> {
        self.end()
    }

    fn end(&mut self) -> Vec<Lane> {
        self.state.quit();
        let mut lanes = Vec::new();
        for thread in self.threads.drain(..) {
            if let Ok(own) = thread.join() {
                lanes.extend(own);
            } else {
                tracing::error!("a traffic thread panicked");
            }
        }
        lanes
    }
}

impl Drop for RunningTraffic {
    fn drop(&mut self) {
        self.end();
    }
}

/// One thread's work.
struct Poller<'a> {
    state: &'a TrafficState,
    own: &'a ThreadState,
    lanes: Vec<Lane>,
    context: Option<Arc<Context>>,
}

impl Poller<'_> {
    fn run(mut self) -> Vec<Lane> {
        let mut room = Completions::new();
        let idling = Idling::of(&self.lanes);
        let state = self.state;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            lane.start(|text| state.event(text));
            self.own.publish(index, lane);
        }
        let queues = self.own.queues().max(1) as f64;
        let (mut last_done, mut last_events, mut full_nanos) = (Instant::now(), Instant::now(), 0.0);
        let (mut passes, mut idle) = (0_u32, 0_u32);
        while state.goes_on() {
            let ticket = state.ticket();
            let post = state.may_post();
            let (mut done, mut ran_low) = (0, 0);
            for (index, lane) in self.lanes.iter_mut().enumerate() {
                let (of_lane, low) = lane.progress(&mut room, post, |text| state.event(text));
                if of_lane > 0 {
                    self.own.publish(index, lane);
                }
                done += of_lane;
                ran_low += low;
            }
            // A clock may cost more than a pass. Who only receives does not need it.
            let is_timed = done > 0 && self.own.queues() > 0;
            passes = passes.wrapping_add(1);
            if is_timed || passes.is_multiple_of(PASSES) || self.own.is_behind(ticket) {
                let now = Instant::now();
                full_nanos += (now - last_done).as_nanos() as f64 * (1.0 - f64::from(ran_low) / queues);
                last_done = now;
                self.own.queue_full(full_nanos as u64);
                if self.own.is_behind(ticket) {
                    for (index, lane) in self.lanes.iter_mut().enumerate() {
                        self.own.hand_over(index, lane);
                    }
                }
                self.own.answer(ticket);
                if now - last_events >= EVENT_INTERVAL {
                    last_events = now;
                    self.take_events();
                }
            }
            if done > 0 {
                idle = 0;
            } else {
                idle = idle.saturating_add(1);
                idling.wait(idle);
            }
        }
        self.lanes
    }

    fn take_events(&self) {
        if let Some(context) = &self.context {
            iter::from_fn(|| context.event()).take(MOST_EVENTS).for_each(|text| self.state.event(text));
        }
    }
}

/// What a thread does between passes that find nothing.
#[derive(Clone, Copy)]
enum Idling {
    /// It polls on: a receiver that slept would make its peer wait for receive requests.
    Spin,
    /// It leaves the only CPU to the kernel.
    Nap,
    /// Nothing it holds ever completes: it is the target of one-sided operations.
    Sleep,
}

impl Idling {
    fn of(lanes: &[Lane]) -> Self {
        // Of the whole machine: a pinned thread has one CPU, and others for the kernel all the same.
        // SAFETY: a plain query.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        match (lanes.iter().any(Lane::awaits_completions), cpus) {
            (false, _) => Self::Sleep,
            (true, 1) => Self::Nap,
            (true, _) => Self::Spin,
        }
    }

    /// After this many passes without a completion.
    fn wait(self, idle: u32) {
        match self {
            Self::Spin if idle < SPINS => std::hint::spin_loop(),
            Self::Spin => thread::yield_now(),
            Self::Nap => thread::sleep(NAP),
            Self::Sleep => thread::sleep(SLEEP),
        }
    }
}
