//! A rank of a ring that Kelpie runs itself: what its host is asked, and what became of its messages.

use serde::{Deserialize, Deserializer, Serialize};

use crate::bounded;

/// Messages of one reading. Source: our choice; what is left comes with the next one.
pub const MOST_MOVED: usize = 8192;

/// Iterations of one reading whose QPs' times are told. Source: our choice, as above.
pub const MOST_TIMES: usize = 8192;

/// What a rank does: in each round it sends one message to the next rank and receives one from the rank before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankJob {
    /// Size of a message. Units: bytes.
    pub bytes: u64,
    /// QPs that share each message.
    pub qps: u32,
    /// Rounds of an iteration.
    pub rounds: u32,
    /// Iterations.
    pub iterations: u32,
    /// What it does before each iteration. Units: microseconds.
    pub pause_us: u64,
    /// How much longer that takes from iteration `late_from` on.
    pub late_us: u64,
    /// As above.
    pub late_from: u32,
}

impl RankJob {
    /// Longest message. Units: bytes. Source: our choice; memory for two of them is registered.
    pub const MOST_BYTES: u64 = 1 << 30;
    /// Most QPs. Source: our choice.
    pub const MOST_QPS: u32 = 64;
    /// Most rounds of all iterations. Source: our choice.
    pub const MOST_ROUNDS: u64 = 1 << 20;
    /// Longest pause. Units: microseconds. Source: our choice, a minute.
    pub const MOST_PAUSE_US: u64 = 60_000_000;

    /// Which rule it breaks.
    pub fn broken_rule(&self) -> Option<String> {
        let rounds = u64::from(self.rounds) * u64::from(self.iterations);
        if !(1..=Self::MOST_BYTES).contains(&self.bytes) {
            return Some(format!("messages of {} bytes; write 1 to {}", self.bytes, Self::MOST_BYTES));
        }
        if !(1..=Self::MOST_QPS).contains(&self.qps) || u64::from(self.qps) > self.bytes {
            return Some(format!(
                "{} QPs for messages of {} bytes; write 1 to {}, and a byte for each at least",
                self.qps,
                self.bytes,
                Self::MOST_QPS
            ));
        }
        if !(1..=Self::MOST_ROUNDS).contains(&rounds) {
            return Some(format!("{rounds} rounds in all; a job has 1 to {}", Self::MOST_ROUNDS));
        }
        let pause = self.pause_us.saturating_add(self.late_us);
        (pause > Self::MOST_PAUSE_US).then(|| format!("a pause of {pause} us; write up to {}", Self::MOST_PAUSE_US))
    }
}

/// A message of a rank. Units of times: microseconds since this rank was set up, by its host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankMessage {
    /// Iteration, from 0.
    pub iteration: u32,
    /// Round, from 0.
    pub round: u32,
    /// When the rank came to the iteration.
    pub entered_us: f64,
    /// When the next rank was ready too, and the message was posted.
    pub begin_us: Option<f64>,
    /// When it had completed.
    pub end_us: Option<f64>,
}

/// How long the QPs to the next rank took in an iteration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QpTimes {
    /// Iteration, from 0.
    pub iteration: u32,
    /// How many times source ports had been set before it.
    pub sets: u32,
    /// By QP, the mean over rounds from posting a part of a message to its completion. Units: microseconds.
    #[serde(deserialize_with = "times")]
    pub us: Vec<f64>,
}

/// What a rank did since the reading before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RankReading {
    /// What its clock shows now.
    pub now_us: f64,
    /// Messages that completed.
    #[serde(deserialize_with = "few")]
    pub moved: Vec<RankMessage>,
    /// The one at which it stands.
    pub open: Option<RankMessage>,
    /// Of iterations that were completed, if several QPs share messages.
    #[serde(deserialize_with = "few_times")]
    pub qps: Vec<QpTimes>,
    /// How many times source ports were set since it began to work.
    pub sets: u32,
    /// Why source ports that were asked for last were not taken.
    #[serde(deserialize_with = "bounded::optional_text")]
    pub refused: Option<String>,
    /// Whether all iterations are done.
    pub is_over: bool,
    /// What went wrong in the hardware so far.
    #[serde(deserialize_with = "bounded::events")]
    pub events: Vec<String>,
}

fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RankMessage>, D::Error> {
    bounded::list(deserializer, MOST_MOVED, "messages")
}

fn few_times<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<QpTimes>, D::Error> {
    bounded::list(deserializer, MOST_TIMES, "iterations")
}

fn times<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    bounded::list(deserializer, RankJob::MOST_QPS as usize, "QPs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_without_bounds_are_refused_and_so_are_readings() {
        let job = RankJob { bytes: 4096, qps: 1, rounds: 6, iterations: 10, pause_us: 0, late_us: 0, late_from: 0 };
        assert_eq!(job.broken_rule(), None);
        for bad in [
            RankJob { bytes: 0, ..job },
            RankJob { bytes: 1 << 31, ..job },
            RankJob { qps: 0, ..job },
            RankJob { qps: RankJob::MOST_QPS + 1, ..job },
            RankJob { qps: 2, bytes: 1, ..job },
            RankJob { rounds: 0, ..job },
            RankJob { rounds: u32::MAX, iterations: u32::MAX, ..job },
            RankJob { pause_us: 1, late_us: u64::MAX, ..job },
        ] {
            assert!(bad.broken_rule().is_some(), "{bad:?}");
        }
        let one = RankMessage { iteration: 0, round: 0, entered_us: 0.5, begin_us: Some(1.0), end_us: None };
        let reading = |count| RankReading { moved: vec![one; count], ..RankReading::default() };
        let text = |count| serde_json::to_string(&reading(count)).expect("plain data");
        assert_eq!(serde_json::from_str::<RankReading>(&text(MOST_MOVED)).expect("just fits"), reading(MOST_MOVED));
        let error = serde_json::from_str::<RankReading>(&text(MOST_MOVED + 1)).expect_err("one too many");
        assert!(error.to_string().contains("8192 messages"), "{error}");
    }
}
