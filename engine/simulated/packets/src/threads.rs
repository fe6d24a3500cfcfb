//! Parts on threads: each simulates as far as no packet of another part can reach it, then all meet.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Barrier, Mutex};

use crate::congestion::{CongestionControl, NEVER};
use crate::shard::{Crossing, Plan, Shard};

/// Simulates all parts until a time.
pub fn run_all<C: CongestionControl, const HOPS: usize>(
    shards: &mut [Shard<C, HOPS>],
    plan: &Plan<'_>,
    end: u64,
    ahead: u64,
) {
    if let [shard] = shards {
        return shard.run_until(plan, end);
    }
    // What left when a link or ways changed.
    let waiting: Vec<_> = shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.outbox)).collect();
    for crossing in waiting {
        shards[part_of(plan, &crossing)].take(&[crossing]);
    }
    let parts = shards.len();
    let barrier = Barrier::new(parts);
    let earliest: Vec<Mutex<u64>> = (0..parts).map(|_| Mutex::new(0)).collect();
    let boxes: Vec<Mutex<Vec<Crossing<HOPS>>>> = (0..parts * parts).map(|_| Mutex::new(Vec::new())).collect();
    let panics = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (part, shard) in shards.iter_mut().enumerate() {
            let (barrier, earliest, boxes, panics) = (&barrier, &earliest, &boxes, &panics);
            scope.spawn(move || {
                loop {
                    set(&earliest[part], shard.wheel.earliest().unwrap_or(NEVER));
                    barrier.wait();
                    let begin = earliest.iter().map(get).min().unwrap_or(NEVER);
                    if begin >= end {
                        return;
                    }
                    let until = begin.saturating_add(ahead).min(end);
                    // A thread that panics still comes to the barrier, or the others would wait for ever.
                    let outcome = catch_unwind(AssertUnwindSafe(|| shard.run_until(plan, until)));
                    if let Err(panic) = outcome {
                        lock(panics).push(panic);
                    }
                    for crossing in shard.outbox.drain(..) {
                        lock(&boxes[part * parts + part_of(plan, &crossing)]).push(crossing);
                    }
                    barrier.wait();
                    if !lock(panics).is_empty() {
                        return;
                    }
                    for from in 0..parts {
                        let crossings = std::mem::take(&mut *lock(&boxes[from * parts + part]));
                        shard.take(&crossings);
                    }
                }
            });
        }
    });
    if let Some(panic) = lock(&panics).pop() {
        resume_unwind(panic);
    }
}

/// The part that a packet goes to.
fn part_of<const HOPS: usize>(plan: &Plan<'_>, crossing: &Crossing<HOPS>) -> usize {
    usize::from(plan.parts[plan.layout.ports[crossing.port as usize].node as usize])
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn set(of: &Mutex<u64>, value: u64) {
    *lock(of) = value;
}

fn get(of: &Mutex<u64>) -> u64 {
    *lock(of)
}
