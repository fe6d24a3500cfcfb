//! A thread that makes and destroys QPs and MRs while traffic runs, as applications do that come and go.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kelpie_engine::chain;
use kelpie_engine::plan::Caps;
use kelpie_spaces::{Device, QpType};

use crate::cq::Cq;
use crate::error::VerbsError;
use crate::memory::Arena;
use crate::mr::Mr;
use crate::pd::Pd;
use crate::qp::Qp;

/// What each MR registers. Units: bytes. Source: our choice, 16 pages, as a buffer of one transfer.
const MR_SIZE: usize = 64 << 10;

/// A QP as small as there is one.
const CAPS: Caps = Caps { send_wr: 1, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: 0 };

/// Longest sleep, so that the thread ends soon when it is to.
const STEP: Duration = Duration::from_millis(20);

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChurnObject {
    Qp,
    Mr,
}

/// When which object is due: each kind at an even pace. What was missed is not made up for.
struct ChurnSchedule {
    /// From one object of a kind to the next; none if none is made.
    periods: [Option<Duration>; 2],
    next: [Instant; 2],
}

impl ChurnSchedule {
    fn new(per_sec: [u64; 2], start: Instant) -> Self {
        let period = |rate: u64| (rate > 0).then(|| Duration::from_secs_f64(1.0 / rate as f64));
        Self { periods: per_sec.map(period), next: [start; 2] }
    }

    /// An object that is due, or how long none is.
    fn due(&mut self, now: Instant) -> Result<ChurnObject, Duration> {
        let kinds = [ChurnObject::Qp, ChurnObject::Mr].into_iter().zip(&self.periods).zip(&mut self.next);
        let kinds = kinds.filter_map(|((object, period), next)| Some((object, (*period)?, next)));
        let (object, period, next) = kinds.min_by_key(|(.., next)| **next).ok_or(STEP)?;
        if now < *next {
            return Err((*next - now).min(STEP));
        }
        *next = (*next + period).max(now);
        Ok(object)
    }
}

/// What the thread and who reads share.
#[derive(Default)]
struct Shared {
    quit: AtomicBool,
    made: [AtomicU64; 2],
    failure: Mutex<Option<String>>,
}

/// The thread. Dropping it ends it and destroys what it made.
pub struct ChurnThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl ChurnThread {
    /// Makes so many QPs and MRs per second from now on.
    pub fn start(pd: &Arc<Pd>, per_sec: [u64; 2]) -> Result<Self, VerbsError> {
        let shared = Arc::new(Shared::default());
        let (pd, own) = (Arc::clone(pd), Arc::clone(&shared));
        let run = move || {
            if let Err(error) = work(&pd, per_sec, &own) {
                *own.failure.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(format!("no more QPs and MRs could be made beside traffic: {}", chain(&error)));
            }
        };
        let thread = thread::Builder::new().name("churn".to_owned()).spawn(run).map_err(VerbsError::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// QPs and MRs that were made and destroyed so far.
    pub fn made(&self) -> [u64; 2] {
        self.shared.made.each_ref().map(|made| made.load(Ordering::Relaxed))
    }

    /// Why it makes no more, if it does not.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ChurnThread {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that makes QPs and MRs panicked");
        }
    }
}

fn work(pd: &Arc<Pd>, per_sec: [u64; 2], shared: &Shared) -> Result<(), VerbsError> {
    let cq = Cq::new(pd.context(), 2)?;
    let arena = Arc::new(Arena::new(Device::Dram(0), MR_SIZE, false)?);
    let mut schedule = ChurnSchedule::new(per_sec, Instant::now());
    while !shared.quit.load(Ordering::Relaxed) {
        let object = match schedule.due(Instant::now()) {
            Ok(object) => object,
            Err(rest) => {
                thread::sleep(rest);
                continue;
            }
        };
        match object {
            ChurnObject::Qp => drop(Qp::new(pd, &cq, QpType::Rc, &CAPS)?),
            ChurnObject::Mr => drop(Mr::new(pd, &arena, 0, MR_SIZE, false)?),
        }
        shared.made[object as usize].fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_due_at_its_pace_and_what_was_missed_is_not_made_up_for() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut schedule = ChurnSchedule::new([100, 0], start);
        let rest = |millis| Err(Duration::from_millis(millis));
        assert_eq!([0, 4, 10].map(|now| schedule.due(at(now))), [Ok(ChurnObject::Qp), rest(6), Ok(ChurnObject::Qp)]);
        assert_eq!([55, 55, 55].map(|now| schedule.due(at(now))), [Ok(ChurnObject::Qp), Ok(ChurnObject::Qp), rest(10)]);
        let mut schedule = ChurnSchedule::new([10, 1000], start);
        assert_eq!([0, 0, 0].map(|now| schedule.due(at(now))), [Ok(ChurnObject::Qp), Ok(ChurnObject::Mr), rest(1)]);
        assert_eq!((schedule.due(at(1)), schedule.due(at(1))), (Ok(ChurnObject::Mr), rest(1)));
        assert_eq!(ChurnSchedule::new([0, 0], start).due(at(9)), Err(STEP));
    }
}
