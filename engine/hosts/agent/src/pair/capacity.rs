//! What simple traffic reaches now, on hosts whose rates change after they were calibrated.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kelpie_engine::timing::Timing;
use kelpie_monitor::PerHost;
use kelpie_spaces::{Host, Mtu};

use super::agents::Agents;
use super::calibration::packets_per_sec;
use super::error::PairError;

/// Runs from each host that are looked at together. Source: our choice; one run is as unsteady as what it is to judge.
const RUNS: usize = 3;
/// For how long a run counts at least, and in sessions. Source: our choice; in the lab the machine changes within
/// minutes, and between two runs of simple traffic others run.
const FRESH: (Duration, u32) = (Duration::from_mins(2), 16);

/// The latest runs of small messages.
#[derive(Debug)]
pub struct Capacity {
    mtu: Mtu,
    fresh: Duration,
    /// The oldest first. Units: packets/s.
    runs: PerHost<VecDeque<(Instant, f64)>>,
    next: Host,
}

impl Capacity {
    pub fn new(mtu: Mtu, session: &Timing) -> Self {
        let fresh = FRESH.0.max(Duration::from_millis(session.traffic_ms() + session.drain_ms) * FRESH.1);
        Self { mtu, fresh, runs: PerHost::default(), next: Host::A }
    }

    /// Runs small messages from one host, or as often as runs are missing, and says what the better host reached in the
    /// mean, as bounds are of the better one. Units: packets/s.
    pub async fn measure(&mut self, agents: &mut Agents) -> Result<f64, PairError> {
        self.forget_what_is_old(Instant::now());
        loop {
            let from = self.next;
            let packets = packets_per_sec(agents, self.mtu, from).await?;
            if let Some(best) = self.add(from, packets, Instant::now()) {
                return Ok(best);
            }
        }
    }

    fn forget_what_is_old(&mut self, now: Instant) {
        for host in Host::BOTH {
            self.runs.get_mut(host).retain(|(at, _)| now.duration_since(*at) <= self.fresh);
        }
    }

    /// The mean of the better host; none as long as runs are missing.
    fn add(&mut self, from: Host, packets: f64, now: Instant) -> Option<f64> {
        self.next = from.peer();
        let runs = self.runs.get_mut(from);
        runs.push_back((now, packets));
        if runs.len() > RUNS {
            runs.pop_front();
        }
        let means = Host::BOTH.map(|host| {
            let runs = self.runs.get(host);
            (runs.len() == RUNS).then(|| runs.iter().map(|(_, packets)| packets).sum::<f64>() / RUNS as f64)
        });
        means.into_iter().collect::<Option<Vec<f64>>>().map(|means| means.into_iter().fold(0.0, f64::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_host_counts_once_both_have_fresh_runs() {
        let mut capacity = Capacity::new(Mtu::ALL[0], &Timing { drain_ms: 500, ..Timing::default() });
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        for (second, from, packets, best) in [
            (0, Host::A, 10.0, None),
            (1, Host::B, 8.0, None),
            (2, Host::A, 12.0, None),
            (3, Host::B, 8.0, None),
            (4, Host::A, 11.0, None),
            (5, Host::B, 8.0, Some(11.0)),
            (9, Host::A, 4.0, Some(9.0)),
        ] {
            assert_eq!(capacity.add(from, packets, at(second)), best, "{second}");
        }
        // Sixteen sessions of 9.5 s.
        capacity.forget_what_is_old(at(154));
        assert_eq!(capacity.runs.a.len() + capacity.runs.b.len(), 5);
        capacity.forget_what_is_old(at(300));
        assert_eq!(capacity.add(Host::A, 9.0, at(300)), None);
    }
}
