//! What polling threads share with whoever reads their counts: atomics that each thread writes for its own lanes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kelpie_engine::latency::Latencies;
use kelpie_engine::plan::GroupId;
use kelpie_engine::verbs_host::{CompletedWork, GroupCount, GroupLatency};
use kelpie_spaces::Opcode;

use crate::lane::Lane;
use crate::latency::ByOp;

/// Different events that are kept. Source: our choice, because one cause shows up as a handful.
const MOST_EVENTS: usize = 32;

/// Pause while waiting for the threads.
const STEP: Duration = Duration::from_micros(50);

/// Longest wait for the threads to count what has completed; a slow pass is some milliseconds.
const CATCH_UP_LIMIT: Duration = Duration::from_millis(200);

/// Completed work of one lane, written by its thread.
struct LaneState {
    id: GroupId,
    /// Messages, bytes, packets, by operation.
    values: Vec<(Opcode, [AtomicU64; 3])>,
    outstanding: AtomicU64,
    /// Messages that arrived while receive queues were left to run low.
    late: AtomicU64,
    /// Latencies that its thread handed over and nobody has taken; emptied, they are room for the next ones.
    latencies: Mutex<ByOp>,
}

/// What one thread writes.
pub struct ThreadState {
    lanes: Vec<LaneState>,
    /// Send queues of its lanes.
    queues: u64,
    queue_full_nanos: AtomicU64,
    /// The newest ticket whose holder need not wait any more.
    answered: AtomicU64,
}

impl ThreadState {
    /// For these lanes, each with the operations that it counts.
    pub fn new(lanes: &[Lane], ops: &BTreeMap<GroupId, Vec<Opcode>>) -> Self {
        let of = |lane: &Lane| {
            let ops = ops.get(&lane.id).into_iter().flatten();
            let values = ops.map(|op| (*op, [const { AtomicU64::new(0) }; 3])).collect();
            let latencies = Mutex::new(lane.room_for_latencies());
            LaneState { id: lane.id, values, outstanding: AtomicU64::new(0), late: AtomicU64::new(0), latencies }
        };
        let queues = lanes.iter().filter(|lane| lane.is_requester()).map(|lane| lane.len() as u64).sum();
        Self {
            lanes: lanes.iter().map(of).collect(),
            queues,
            queue_full_nanos: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }

    /// Shows what lane number `index` has done.
    pub fn publish(&self, index: usize, lane: &Lane) {
        let (state, counts) = (&self.lanes[index], lane.counts());
        for (op, values) in &state.values {
            let CompletedWork { messages, bytes, packets } = counts[*op as usize];
            for (value, new) in values.iter().zip([messages, bytes, packets]) {
                value.store(new, Ordering::Relaxed);
            }
        }
        state.late.store(lane.late(), Ordering::Relaxed);
        state.outstanding.store(lane.outstanding(), Ordering::Release);
    }

    /// Hands over the latencies of lane number `index`; for somebody who waits, since it takes a lock.
    pub fn hand_over(&self, index: usize, lane: &mut Lane) {
        lane.exchange_latencies(&mut locked(&self.lanes[index].latencies));
    }

    /// Send queues of its lanes.
    pub fn queues(&self) -> u64 {
        self.queues
    }

    /// Shows how long its send queues were kept full. Units: nanoseconds.
    pub fn queue_full(&self, nanos: u64) {
        self.queue_full_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Whether somebody waits for this ticket.
    pub fn is_behind(&self, ticket: u64) -> bool {
        self.answered.load(Ordering::Relaxed) < ticket
    }

    /// Whoever has a ticket up to this one need not wait any more.
    pub fn answer(&self, ticket: u64) {
        self.answered.store(ticket, Ordering::Release);
    }
}

/// What all threads share.
pub struct TrafficState {
    /// One for each thread.
    pub threads: Vec<ThreadState>,
    stop_posting: AtomicBool,
    quit: AtomicBool,
    /// The last ticket that a reader took.
    asked: AtomicU64,
    events: Mutex<Vec<String>>,
}

impl TrafficState {
    /// Of these threads.
    pub fn new(threads: Vec<ThreadState>) -> Self {
        Self {
            threads,
            stop_posting: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            events: Mutex::new(Vec::new()),
        }
    }

    /// Keeps an event, once.
    pub fn event(&self, text: String) {
        let mut events = locked(&self.events);
        if events.len() < MOST_EVENTS && !events.contains(&text) {
            events.push(text);
        }
    }

    /// The newest ticket: a pass that begins now answers it.
    pub fn ticket(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits until everything that has completed by now is counted, so that counters of the port that are read next
    /// speak of the same moment.
    pub fn catch_up(&self) {
        let ticket = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let started = Instant::now();
        let is_behind = |thread: &ThreadState| thread.answered.load(Ordering::Acquire) < ticket;
        while self.threads.iter().any(is_behind) && started.elapsed() < CATCH_UP_LIMIT {
            thread::sleep(STEP);
        }
    }

    /// Completed work.
    pub fn counts(&self) -> Vec<GroupCount> {
        let mut groups: BTreeMap<GroupId, BTreeMap<Opcode, CompletedWork>> = BTreeMap::new();
        for lane in self.threads.iter().flat_map(|thread| &thread.lanes) {
            let by_op = groups.entry(lane.id).or_default();
            for (op, values) in &lane.values {
                let [messages, bytes, packets] = values.each_ref().map(|value| value.load(Ordering::Relaxed));
                let sum = by_op.entry(*op).or_default();
                sum.messages += messages;
                sum.bytes += bytes;
                sum.packets += packets;
            }
        }
        groups.into_iter().map(|(id, by_op)| GroupCount { id, by_op }).collect()
    }

    /// How long the requests took that completed up to the last [`TrafficState::catch_up`] and since the one before.
    pub fn take_latencies(&self) -> Vec<GroupLatency> {
        let mut groups: BTreeMap<GroupId, BTreeMap<Opcode, Latencies>> = BTreeMap::new();
        for lane in self.threads.iter().flat_map(|thread| &thread.lanes) {
            for (op, took) in locked(&lane.latencies).iter_mut() {
                groups.entry(lane.id).or_default().entry(*op).or_default().merge(took);
                took.clear();
            }
        }
        let listed = |by_op: BTreeMap<Opcode, Latencies>| by_op.iter().map(|(op, took)| (*op, took.list())).collect();
        groups.into_iter().map(|(id, by_op)| GroupLatency { id, by_op: listed(by_op) }).collect()
    }

    /// Time in which the requesters' send queues were kept full, in the mean of all queues. Units: nanoseconds.
    pub fn queue_full_nanos(&self) -> u64 {
        let queues: u64 = self.threads.iter().map(|thread| thread.queues).sum();
        let of = |thread: &ThreadState| thread.queue_full_nanos.load(Ordering::Relaxed) as f64 * thread.queues as f64;
        (self.threads.iter().map(of).sum::<f64>() / queues.max(1) as f64) as u64
    }

    /// Posted by requesters and not completed. Units: work requests.
    pub fn outstanding(&self) -> u64 {
        let lanes = self.threads.iter().flat_map(|thread| &thread.lanes);
        lanes.map(|lane| lane.outstanding.load(Ordering::Acquire)).sum()
    }

    /// Messages that arrived while receive queues were left to run low.
    pub fn received_late(&self) -> u64 {
        let lanes = self.threads.iter().flat_map(|thread| &thread.lanes);
        lanes.map(|lane| lane.late.load(Ordering::Relaxed)).sum()
    }

    /// What went wrong so far.
    pub fn events(&self) -> Vec<String> {
        locked(&self.events).clone()
    }

    /// No further requests; those outstanding and all receives go on.
    pub fn stop_posting(&self) {
        self.stop_posting.store(true, Ordering::Release);
    }

    /// Whether requests are to be posted.
    pub fn may_post(&self) -> bool {
        !self.stop_posting.load(Ordering::Acquire)
    }

    /// Ends the threads.
    pub fn quit(&self) {
        self.quit.store(true, Ordering::Release);
    }

    /// Whether a thread is to go on.
    pub fn goes_on(&self) -> bool {
        !self.quit.load(Ordering::Acquire)
    }
}

/// What a thread that panicked has left is still whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kelpie_engine::latency::Took;
    use kelpie_engine::plan::Role;

    use super::*;

    type ListByOp = Vec<(Opcode, Vec<Took>)>;

    fn lane(flow: usize, latencies: &[(Opcode, &[u64])]) -> LaneState {
        let of = |(op, nanos): &(Opcode, &[u64])| {
            let mut took = Latencies::default();
            nanos.iter().for_each(|nanos| took.record(*nanos));
            (*op, took)
        };
        let latencies = Mutex::new(latencies.iter().map(of).collect());
        let id = GroupId { flow, role: Role::Requester };
        LaneState { id, values: Vec::new(), outstanding: AtomicU64::new(0), late: AtomicU64::new(0), latencies }
    }

    #[test]
    fn latencies_of_a_groups_threads_come_together_and_are_taken_once() {
        let (write, read) = (Opcode::Write, Opcode::Read);
        let lanes = [
            vec![lane(0, &[(write, &[5, 9]), (read, &[7])]), lane(1, &[(write, &[2])])],
            vec![lane(0, &[(write, &[9, 3]), (read, &[])]), lane(2, &[])],
        ];
        let thread =
            |lanes| ThreadState { lanes, queues: 1, queue_full_nanos: AtomicU64::new(0), answered: AtomicU64::new(0) };
        let state = TrafficState::new(lanes.map(thread).into());
        let taken = || -> Vec<(usize, ListByOp)> {
            let groups = state.take_latencies().into_iter();
            groups.map(|group| (group.id.flow, group.by_op.into_iter().collect())).collect()
        };
        let first = vec![(write, vec![Took(3, 1), Took(5, 1), Took(9, 2)]), (read, vec![Took(7, 1)])];
        assert_eq!(taken(), [(0, first), (1, vec![(write, vec![Took(2, 1)])])]);
        assert_eq!(taken(), [(0, vec![(write, vec![]), (read, vec![])]), (1, vec![(write, vec![])])]);
    }
}
