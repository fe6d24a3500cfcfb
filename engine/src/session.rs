//! The life of one experiment as a state machine: warm-up, samples, drain. Time is a parameter; traffic is elsewhere.

use std::time::Duration;

use kelpie_monitor::PerHost;
use kelpie_monitor::pause::refresh_ms;
use kelpie_spaces::Host;

use crate::readings::pause;
use crate::storm::{Storm, StormWatch};
use crate::timing::Timing;
use crate::verbs_host::HostReading;

/// Relative difference of two successive rates below which traffic is steady.
/// Source: our choice, because it is half of what the monitor accepts between samples.
const STEADY: f64 = 0.05;

/// Rates in a row that have to agree. Source: our choice, because two may agree by chance.
const STEADY_STEPS: usize = 3;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStep {
    /// Read both hosts at this time since the start.
    ReadAt(Duration),
    /// Stop traffic; the session is over.
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    WarmUp,
    Sampling,
    Over,
}

/// One experiment's progress.
#[derive(Debug)]
pub struct Session {
    timing: Timing,
    state: SessionState,
    /// Rates seen while warming up, messages of both hosts per second.
    rates: Vec<f64>,
    /// The last reading of the warm-up, then one after each sample.
    readings: Vec<PerHost<HostReading>>,
    /// The reading before the last one was made then.
    read_at: Duration,
    next: Duration,
    /// Every interval is a multiple of this, so that it holds what its counters counted. Units: milliseconds.
    grain_ms: u64,
    watch: StormWatch,
    storm: Option<Storm>,
}

impl Session {
    /// A session whose traffic starts at time zero.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            state: SessionState::WarmUp,
            rates: Vec::new(),
            readings: Vec::new(),
            read_at: Duration::ZERO,
            next: Duration::from_millis(warm_up_step_ms(timing)),
            grain_ms: 1,
            watch: StormWatch::new(timing),
            storm: None,
        }
    }

    /// What to do next.
    pub fn next_step(&self) -> SessionStep {
        if self.state == SessionState::Over { SessionStep::Stop } else { SessionStep::ReadAt(self.next) }
    }

    /// Takes the reading that was made at `now` since the start.
    pub fn reading(&mut self, now: Duration, reading: PerHost<HostReading>) {
        if let Some(last) = self.readings.last() {
            self.storm = self.watch.see(self.read_at, now, &pause(last, &reading));
        }
        self.read_at = now;
        self.grain_ms = self.grain_ms.max(refresh_ms(&reading.a.counters)).max(refresh_ms(&reading.b.counters));
        if self.storm.is_some() {
            // Whatever was measured, the storm is.
            self.readings.push(reading);
            self.state = SessionState::Over;
            return;
        }
        match self.state {
            SessionState::WarmUp => self.warm_up(now, reading),
            SessionState::Sampling => {
                self.readings.push(reading);
                self.next = now + self.interval(self.timing.sample_ms);
                if self.readings.len() > self.timing.samples as usize {
                    self.state = SessionState::Over;
                }
            }
            SessionState::Over => {}
        }
    }

    /// The pause storm that ended it early.
    pub fn storm(&self) -> Option<&Storm> {
        self.storm.as_ref()
    }

    /// The readings that bound the samples, one more than there are samples.
    pub fn into_readings(self) -> Vec<PerHost<HostReading>> {
        self.readings
    }

    fn warm_up(&mut self, now: Duration, reading: PerHost<HostReading>) {
        if let Some(rate) = self.readings.last().and_then(|last| rate(last, &reading)) {
            self.rates.push(rate);
        }
        self.readings = vec![reading];
        if self.is_steady() || now >= Duration::from_millis(self.timing.warm_up_ms) {
            self.state = SessionState::Sampling;
            self.next = now + self.interval(self.timing.sample_ms);
        } else {
            self.next = now + self.interval(warm_up_step_ms(self.timing));
        }
    }

    fn is_steady(&self) -> bool {
        let Some(last) = self.rates.last().copied().filter(|rate| *rate > 0.0) else { return false };
        let recent = self.rates.iter().rev().take(STEADY_STEPS);
        self.rates.len() >= STEADY_STEPS && recent.into_iter().all(|rate| (rate - last).abs() <= STEADY * last)
    }

    fn interval(&self, wanted_ms: u64) -> Duration {
        Duration::from_millis(wanted_ms.next_multiple_of(self.grain_ms))
    }
}

fn warm_up_step_ms(timing: Timing) -> u64 {
    (timing.sample_ms / 2).clamp(5, 1_000)
}

/// Completed messages per second between two readings, over both hosts; `None` if a clock stood still.
fn rate(before: &PerHost<HostReading>, after: &PerHost<HostReading>) -> Option<f64> {
    let of = |host: Host| {
        let (before, after) = (before.get(host), after.get(host));
        let nanos = after.at_nanos.checked_sub(before.at_nanos).filter(|nanos| *nanos > 0)?;
        let messages = messages(after).saturating_sub(messages(before));
        Some(messages as f64 / (nanos as f64 / 1e9))
    };
    Some(of(Host::A)? + of(Host::B)?)
}

fn messages(reading: &HostReading) -> u64 {
    reading.groups.iter().flat_map(|group| group.by_op.values()).map(|count| count.messages).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{GroupId, Role};
    use crate::storm::Sense;
    use crate::verbs_host::{CompletedWork, GroupCount};
    use kelpie_spaces::Opcode;

    fn reading(now: Duration, messages: u64) -> PerHost<HostReading> {
        let count = CompletedWork { messages, bytes: 0, packets: messages };
        let id = GroupId { flow: 0, role: Role::Requester };
        let busy = HostReading {
            at_nanos: u64::try_from(now.as_nanos()).expect("short"),
            groups: vec![GroupCount { id, by_op: [(Opcode::Write, count)].into() }],
            ..HostReading::default()
        };
        PerHost { a: busy.clone(), b: HostReading { groups: Vec::new(), ..busy } }
    }

    /// Runs a session over traffic that has completed `done(seconds)` messages; when it read, and its readings.
    fn run(timing: Timing, done: impl Fn(f64) -> u64) -> (Vec<u64>, usize) {
        let (mut session, mut times) = (Session::new(timing), Vec::new());
        while let SessionStep::ReadAt(at) = session.next_step() {
            times.push(u64::try_from(at.as_millis()).expect("short"));
            session.reading(at, reading(at, done(at.as_secs_f64())));
        }
        (times, session.into_readings().len())
    }

    const TIMING: Timing = Timing {
        warm_up_ms: 2_000,
        sample_ms: 200,
        samples: 4,
        drain_ms: 100,
        storm_pause_percent: 80,
        storm_ms: 500,
        latency: false,
    };

    #[test]
    fn steady_traffic_is_sampled_after_three_equal_rates() {
        let (times, readings) = run(TIMING, |seconds| (seconds * 10_000.0) as u64);
        assert_eq!(times, [100, 200, 300, 400, 600, 800, 1_000, 1_200]);
        assert_eq!(readings, 5);
    }

    #[test]
    fn a_slow_start_is_thrown_away() {
        let (times, readings) = run(TIMING, |seconds| ((seconds - 0.5).max(0.0) * 10_000.0) as u64);
        assert_eq!(times[..9], [100, 200, 300, 400, 500, 600, 700, 800, 1_000]);
        assert_eq!(readings, 5);
    }

    #[test]
    fn a_hang_is_sampled_when_the_warm_up_is_over() {
        let (times, readings) = run(TIMING, |_| 0);
        assert_eq!(times.last(), Some(&2_800));
        assert_eq!(readings, 5);
    }

    #[test]
    fn a_pause_storm_ends_the_session_and_is_its_last_sample() {
        let mut session = Session::new(TIMING);
        let mut times = Vec::new();
        while let SessionStep::ReadAt(at) = session.next_step() {
            times.push(at.as_millis());
            let mut readings = reading(at, at.as_millis() as u64 * 10);
            for side in ["tx", "rx"] {
                let paused = if side == "tx" { at.as_micros() as u64 / 10 * 9 } else { 0 };
                readings.b.counters.insert(format!("ethtool.{side}_prio3_pause_duration"), paused);
            }
            session.reading(at, readings);
        }
        assert_eq!(times, [100, 200, 300, 400, 600]);
        let storm = session.storm().expect("90 % since the first reading");
        assert_eq!((storm.host, storm.sense, storm.lasted), (Host::B, Sense::Tx, Duration::from_millis(500)));
        assert!((storm.ratio - 0.9).abs() < 1e-3, "{storm}");
        assert_eq!(session.into_readings().len(), 2);
    }

    /// What bnxt shows of a port that is paused all the time: its counters as they were at the last tick of its timer.
    fn refreshed_every(tick: u128, at: Duration) -> PerHost<HostReading> {
        let mut readings = reading(at, 1);
        let paused = u64::try_from(at.as_millis() / tick * tick * 1_000).expect("short");
        readings.b.counters.insert("ethtool.pfc_pri3_tx_duration_us".to_owned(), paused);
        readings.b.counters.insert("ethtool.pfc_pri3_rx_duration_us".to_owned(), 0);
        readings
    }

    #[test]
    fn a_storm_is_seen_in_counters_that_are_refreshed_once_a_second() {
        for tick in [1_000, 1_064, 1_120] {
            for sample_ms in [10, 1_000, 1_500] {
                let mut session = Session::new(Timing { sample_ms, ..Timing::default() });
                let mut times = Vec::new();
                while let SessionStep::ReadAt(at) = session.next_step() {
                    times.push(at.as_millis());
                    session.reading(at, refreshed_every(tick, at));
                }
                let first = times[0];
                assert_eq!(times[1..], [first + 1_125, first + 2_250], "tick {tick}, samples of {sample_ms}");
                assert!(session.storm().is_some_and(|storm| storm.ratio > 0.85), "{:?}", session.storm());
            }
        }
    }

    #[test]
    fn samples_last_whole_refreshes() {
        for (sample_ms, expected) in [(10, 1_125), (1_000, 1_125), (1_500, 2_250)] {
            let mut session = Session::new(Timing { sample_ms, warm_up_ms: 0, ..Timing::default() });
            session.reading(Duration::ZERO, refreshed_every(1_000, Duration::ZERO));
            assert_eq!(session.next_step(), SessionStep::ReadAt(Duration::from_millis(expected)));
        }
    }

    #[test]
    fn a_late_reading_moves_the_next_one() {
        let mut session = Session::new(Timing { warm_up_ms: 0, ..TIMING });
        let late = Duration::from_millis(350);
        session.reading(late, reading(late, 1));
        assert_eq!(session.next_step(), SessionStep::ReadAt(Duration::from_millis(550)));
    }
}
