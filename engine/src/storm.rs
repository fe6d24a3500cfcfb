//! Pause storms: a port that is paused nearly all the time, for too long. What is done about one is up to the session.

use std::fmt;
use std::time::Duration;

use kelpie_monitor::{PauseRatios, PerHost};
use kelpie_spaces::Host;

use crate::timing::Timing;

/// Which side of a port is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// It sent pause frames.
    Tx,
    /// It was held by them.
    Rx,
}

/// A storm that was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Storm {
    /// Where.
    pub host: Host,
    /// On which side.
    pub sense: Sense,
    /// The pause ratio that lasted. Units: 0 to 1.
    pub ratio: f64,
    /// For how long.
    pub lasted: Duration,
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did = match self.sense {
            Sense::Tx => "sent pause frames",
            Sense::Rx => "was held by pause frames",
        };
        let (percent, seconds) = (self.ratio * 100.0, self.lasted.as_secs_f64());
        write!(
            f,
            "pause storm: host {} {did} for at least {percent:.0} % of {seconds:.1} s, so the experiment was stopped",
            self.host
        )
    }
}

/// One side of one port: since when its ratio is over the limit, and the smallest since.
type Over = Option<(Duration, f64)>;

/// Watches the pause of both ports.
#[derive(Debug)]
pub struct StormWatch {
    limit: f64,
    patience: Duration,
    sides: [(Host, Sense, Over); 4],
}

impl StormWatch {
    /// With the limits of `timing`.
    pub fn new(timing: Timing) -> Self {
        let sides = [(Host::A, Sense::Tx), (Host::A, Sense::Rx), (Host::B, Sense::Tx), (Host::B, Sense::Rx)];
        Self {
            limit: f64::from(timing.storm_pause_percent) / 100.0,
            patience: Duration::from_millis(timing.storm_ms),
            sides: sides.map(|(host, sense)| (host, sense, None)),
        }
    }

    /// Takes the pause ratios of the time from `before` to `now`; a missing one says nothing and ends what it was.
    pub fn see(&mut self, before: Duration, now: Duration, pause: &PerHost<Option<PauseRatios>>) -> Option<Storm> {
        let mut storm = None;
        for (host, sense, over) in &mut self.sides {
            let ratio = pause.get(*host).map(|ratios| match sense {
                Sense::Tx => ratios.tx,
                Sense::Rx => ratios.rx,
            });
            *over = ratio.filter(|ratio| *ratio >= self.limit).map(|ratio| match *over {
                Some((since, least)) => (since, least.min(ratio)),
                None => (before, ratio),
            });
            if let Some((since, ratio)) = *over {
                let lasted = now.saturating_sub(since);
                if lasted >= self.patience {
                    storm.get_or_insert(Storm { host: *host, sense: *sense, ratio, lasted });
                }
            }
        }
        storm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a storm is seen in ratios of half a second each, in steps.
    fn seen(ratios: &[Option<f64>]) -> Option<(usize, Storm)> {
        let timing = Timing { storm_pause_percent: 80, storm_ms: 2_000, ..Timing::default() };
        let mut watch = StormWatch::new(timing);
        ratios.iter().enumerate().find_map(|(step, ratio)| {
            let start = Duration::from_millis(500) * u32::try_from(step).expect("few");
            let b = ratio.map(|tx| PauseRatios { tx, rx: 0.0 });
            let pause = PerHost { a: Some(PauseRatios::default()), b };
            watch.see(start, start + Duration::from_millis(500), &pause).map(|storm| (step, storm))
        })
    }

    #[test]
    fn only_pause_that_lasts_is_a_storm() {
        let (high, low) = (Some(0.9), Some(0.5));
        for (ratios, expected) in [
            (&[high, high, high, high][..], Some(3)),
            (&[low, high, high, high], None),
            (&[high, high, high, low, high, high, high], None),
            (&[high, high, None, high, high], None),
            (&[low, high, high, Some(0.8), high], Some(4)),
            (&[low; 20], None),
        ] {
            assert_eq!(seen(ratios).map(|(step, _)| step), expected, "{ratios:?}");
        }
    }

    #[test]
    fn a_storm_names_its_host_and_its_least_ratio() {
        let (_, storm) = seen(&[Some(1.0), Some(0.85), Some(1.0), Some(1.0)]).expect("two seconds of it");
        assert_eq!(
            storm.to_string(),
            "pause storm: host b sent pause frames for at least 85 % of 2.0 s, so the experiment was stopped"
        );
    }
}
