//! Whether an experiment has run for long enough: its rates are steady, and known well enough.

use kelpie_nic::nic::{Nic, Tally};
use kelpie_spaces::Direction;

use crate::pair::Pair;

/// Part of what was delivered by which a backlog at the receivers may change. Source: our choice.
const BACKLOG: f64 = 0.005;
/// Part of the messages by which READs on their way may change. Source: our choice.
const READS: f64 = 0.02;
/// Part of the messages that may miss something before what is held counts as changing. Source: our choice.
const CHURN: f64 = 0.02;
/// Samples of the shortest length in a half that is long enough if something misses. Source: our choice.
const CHURN_LENGTH: usize = 4;
/// Most batches whose means are compared. Source: our choice, as the literature on batch means advises 8 to 30.
const BATCHES: usize = 8;
/// Quantile 0.975 of Student's distribution with one to seven degrees of freedom.
const STUDENT: [f64; BATCHES - 1] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36];

/// What had happened by one moment.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Payload that was delivered, by the hosts that it came from and went to. Units: bytes.
    delivered: [[u64; 2]; 2],
    messages: u64,
    misses: u64,
    backlog: u64,
    reads_open: u64,
}

impl Moment {
    /// This one.
    pub fn of(pair: &Pair) -> Self {
        let traffic = &pair.around.traffic;
        let misses = |tally: Tally| {
            tally.context_misses
                + tally.wqe_refetches
                + tally.receive_wqe_misses
                + tally.scatter_misses
                + tally.refused
                + tally.no_receive
        };
        Self {
            delivered: traffic.each_ref().map(|from| from.each_ref().map(|to| to.payload_bytes)),
            messages: traffic.iter().flatten().map(|traffic| traffic.messages).sum(),
            misses: pair.nics.iter().map(|nic| misses(nic.tally())).sum(),
            backlog: pair.nics.iter().map(Nic::backlog).sum(),
            reads_open: pair.nics.iter().map(Nic::reads_open).sum(),
        }
    }

    fn delivered(&self, direction: Direction) -> f64 {
        self.delivered[direction.from.index()][direction.to.index()] as f64
    }
}

/// When an experiment may end.
#[derive(Debug)]
pub struct Steady<'a> {
    /// Directions that carry traffic.
    pub directions: &'a [Direction],
    /// Samples that its second half is divided into.
    pub samples: usize,
    /// Half of the relative confidence interval that is narrow enough.
    pub precision: f64,
    /// Work requests that all queues hold together.
    pub queued: u64,
}

impl Steady<'_> {
    /// Whether the second half of the course so far is steady. What a cache holds changes until all queues were turned
    /// over, so that rates count no earlier if something misses, unless that takes very long.
    pub fn is_reached<T>(&self, course: &[T], moment: impl Fn(&T) -> &Moment) -> bool {
        let half = &course[course.len() / 2..];
        let [begin, end] = [&half[0], &half[half.len() - 1]].map(&moment);
        let messages = end.messages - begin.messages;
        let bytes: f64 = self.directions.iter().map(|way| end.delivered(*way) - begin.delivered(*way)).sum();
        let is_balanced = end.backlog.abs_diff(begin.backlog) as f64 <= BACKLOG * bytes
            && end.reads_open.abs_diff(begin.reads_open) as f64 <= READS * messages as f64;
        let is_settled = (end.misses - begin.misses) as f64 <= CHURN * messages as f64
            || messages >= self.queued
            || course.len() > 2 * CHURN_LENGTH * self.samples;
        is_balanced && is_settled && self.directions.iter().all(|way| self.is_known(half, &moment, *way))
    }

    /// Whether the confidence interval of a direction's goodput is narrow, by the means of batches.
    fn is_known<T>(&self, half: &[T], moment: impl Fn(&T) -> &Moment, way: Direction) -> bool {
        let slices = half.len() - 1;
        let batches = if slices < BATCHES { self.samples.clamp(2, BATCHES) } else { BATCHES };
        // Batches of unequal length have unequal sums; the next half divides evenly.
        if !slices.is_multiple_of(batches) {
            return false;
        }
        let at = |batch: usize| moment(&half[batch * slices / batches]).delivered(way);
        let means: Vec<f64> = (0..batches).map(|batch| at(batch + 1) - at(batch)).collect();
        let count = batches as f64;
        let mean = means.iter().sum::<f64>() / count;
        let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        STUDENT[batches - 2] * (variance / count).sqrt() <= self.precision * mean
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::Host;

    use super::*;

    const WAY: [Direction; 1] = [Direction { from: Host::A, to: Host::B }];

    /// A course of slices, in each of which so many bytes are delivered and so many stay behind.
    fn course(slices: u64, bytes: fn(u64) -> u64, backlog: fn(u64) -> u64, misses: fn(u64) -> u64) -> Vec<Moment> {
        let moment = |slice: u64| Moment {
            delivered: [[0, (0..slice).map(bytes).sum()], [0, 0]],
            messages: 100 * slice,
            misses: misses(slice),
            backlog: backlog(slice),
            reads_open: 0,
        };
        (0..=slices).map(moment).collect()
    }

    fn is_reached(course: &[Moment]) -> bool {
        let steady = Steady { directions: &WAY, samples: 4, precision: 0.02, queued: 10_000 };
        steady.is_reached(course, |moment| moment)
    }

    #[test]
    fn equal_slices_are_steady_and_what_came_before_does_not_count() {
        assert!(is_reached(&course(8, |_| 1000, |_| 5, |_| 0)));
        assert!(is_reached(&course(16, |slice| if slice < 8 { 3000 } else { 1000 }, |_| 5, |_| 0)));
    }

    #[test]
    fn what_varies_grows_piles_up_or_misses_is_not_steady_yet() {
        assert!(!is_reached(&course(8, |slice| 1000 + 200 * (slice % 2), |_| 0, |_| 0)), "varies");
        assert!(
            is_reached(&course(800, |slice| 1000 + 200 * (slice % 2), |_| 0, |_| 0)),
            "and its mean is known later"
        );
        assert!(!is_reached(&course(8, |slice| 1000 + 100 * slice, |_| 0, |_| 0)), "grows");
        assert!(!is_reached(&course(8, |_| 1000, |slice| 50 * slice, |_| 0)), "piles up");
        assert!(!is_reached(&course(8, |_| 1000, |_| 0, |slice| 50 * slice)), "misses");
        assert!(is_reached(&course(48, |_| 1000, |_| 0, |slice| 50 * slice)), "misses for long");
    }
}
