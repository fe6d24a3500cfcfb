//! Whether an experiment has run for long enough: its rates are steady, and known well enough.

use kelpie_nic::nic::Nic;
use kelpie_spaces::{Direction, Host};

use crate::pair::SimulatedPair;

/// Part of the messages, or of all READs on their way, by which these may change. Source: our choice.
const READS: [f64; 2] = [0.02, 0.05];
/// Part of the messages by which receives that are read ahead of use become fewer if their NIC is behind. Source: our
/// choice, a tenth of what makes throughput low.
const BEHIND: f64 = 0.02;
/// Times as long as a course for which what is read ahead lasts. Source: our choice, about what experiments go on for.
const SLOWLY: f64 = 8.0;
/// How much wider than that of all traffic the confidence interval of a direction may be. Source: our choice, because
/// directions that share a part take turns, and a verdict asks whether one is a fifth too slow.
const OF_DIRECTION: f64 = 2.0;
/// Half of the confidence interval of all goodput beyond which a rate is not known at all. Source: our choice, half of
/// what makes a rate low.
pub const UNKNOWN: f64 = 0.1;
/// Packets before which no experiment ends, however steady it seems. Source: measured on 150 random points each of
/// F and H; with more, rates are no nearer to those of experiments many times as long.
const LEAST_PACKETS: u64 = 5000;
/// Messages for each direction that end in the samples, so that their rate is known to be some. Source: our choice.
const LEAST_MESSAGES: u64 = 4;
/// Batches whose means are compared. Source: our choice, as the literature on batch means advises 8 to 30.
pub const BATCHES: usize = 8;
/// Quantile 0.975 of Student's distribution with [`BATCHES`] - 1 degrees of freedom.
const STUDENT: f64 = 2.36;

/// What had happened by one moment.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Payload that was delivered, by the hosts that it came from and went to. Units: bytes.
    delivered: [[u64; 2]; 2],
    messages: u64,
    backlog: u64,
    reads_open: u64,
    /// Receives that are read ahead of use, by host.
    receives_ahead: [i64; 2],
    /// Packets that were sent since the experiment began.
    packets: u64,
}

impl Moment {
    /// This one.
    pub fn of(pair: &SimulatedPair) -> Self {
        let traffic = &pair.around.traffic;
        Self {
            delivered: traffic.each_ref().map(|from| from.each_ref().map(|to| to.payload_bytes)),
            messages: traffic.iter().flatten().map(|traffic| traffic.messages).sum(),
            backlog: pair.nics.iter().map(Nic::backlog).sum(),
            reads_open: pair.nics.iter().map(Nic::reads_open).sum(),
            receives_ahead: pair.nics.each_ref().map(Nic::receives_ahead),
            packets: pair.nics.iter().map(|nic| nic.tally().packets).sum(),
        }
    }

    fn delivered(&self, ways: &[Direction]) -> f64 {
        let of = |way: &Direction| self.delivered[way.from.index()][way.to.index()] as f64;
        ways.iter().map(of).sum()
    }
}

/// When an experiment may end. A course is what had happened after each slice, from where the samples begin.
#[derive(Debug)]
pub struct SteadyState<'a> {
    /// Directions that carry traffic.
    pub directions: &'a [Direction],
    /// Half of the relative confidence interval that is narrow enough.
    pub precision: f64,
    /// Packets that are enough for a verdict that is far from its threshold.
    pub verdict_packets: u64,
    /// QPs of all flows, of which each sends a packet at least.
    pub qps: u64,
}

impl SteadyState<'_> {
    /// Whether the course is steady, and its rates are known.
    pub fn is_reached(&self, course: &[&Moment]) -> bool {
        self.is_known(course, LEAST_PACKETS, self.precision)
    }

    /// Whether the course is steady, and its rates are known well enough to say a verdict that they are far from.
    pub fn is_telling(&self, course: &[&Moment]) -> bool {
        self.is_known(course, self.verdict_packets, UNKNOWN)
    }

    fn is_known(&self, course: &[&Moment], packets: u64, precision: f64) -> bool {
        let known = |ways: &[Direction], precision: f64| half_width(course, ways) <= precision;
        let messages = course[course.len() - 1].messages - course[0].messages;
        course[course.len() - 1].packets >= packets.max(self.qps)
            && messages >= LEAST_MESSAGES * self.directions.len() as u64
            && self.is_balanced(course)
            && known(self.directions, precision)
            && self.directions.chunks(1).all(|way| known(way, OF_DIRECTION * precision))
    }

    /// Whether as much arrives as is dealt with.
    pub fn is_balanced(&self, course: &[&Moment]) -> bool {
        let [begin, end] = [course[0], course[course.len() - 1]];
        let messages = (end.messages - begin.messages) as f64;
        let bytes = end.delivered(self.directions) - begin.delivered(self.directions);
        let reads = end.reads_open.abs_diff(begin.reads_open) as f64;
        end.backlog.abs_diff(begin.backlog) as f64 <= self.precision * bytes
            && !Host::BOTH.iter().any(|host| falls_behind(course, *host))
            && reads <= (READS[0] * messages).max(READS[1] * begin.reads_open as f64)
    }
}

/// Whether a host uses receives sooner than it reads them: those that it has read ahead of use become fewer, by more
/// than chance makes of queues that go up and down by themselves.
fn falls_behind(course: &[&Moment], host: Host) -> bool {
    let messages = (course[course.len() - 1].messages - course[0].messages) as f64;
    let [before, after] = ahead(course, host);
    before - after > (BEHIND * messages).max(before.max(0.0).sqrt())
}

/// Whether it does, and what it has read ahead would last for many times as long.
pub fn falls_behind_slowly(course: &[&Moment], host: Host) -> bool {
    let [before, after] = ahead(course, host);
    falls_behind(course, host) && after > SLOWLY * (before - after)
}

/// Receives that a host has read ahead of use, at the beginning and at the end.
fn ahead(course: &[&Moment], host: Host) -> [f64; 2] {
    [course[0], course[course.len() - 1]].map(|moment| moment.receives_ahead[host.index()] as f64)
}

/// Half of the confidence interval (95 %) of the goodput of some directions together, by the means of batches; more
/// than anything if nothing was delivered. Units: part of the goodput.
pub fn half_width(course: &[&Moment], ways: &[Direction]) -> f64 {
    let slices = course.len() - 1;
    let length = slices / BATCHES;
    if length == 0 {
        return f64::INFINITY;
    }
    let first = slices - length * BATCHES;
    let at = |batch: usize| course[first + batch * length].delivered(ways);
    let means: Vec<f64> = (0..BATCHES).map(|batch| at(batch + 1) - at(batch)).collect();
    let count = BATCHES as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = STUDENT * (variance / count).sqrt() / mean;
    if half.is_nan() { f64::INFINITY } else { half }
}

#[cfg(test)]
mod tests {

    use super::*;

    const WAY: [Direction; 1] = [Direction { from: Host::A, to: Host::B }];

    /// A course of slices, in each of which so many bytes are delivered and so many stay behind.
    fn course(slices: u64, bytes: fn(u64) -> u64, backlog: fn(u64) -> u64) -> Vec<Moment> {
        let moment = |slice: u64| Moment {
            delivered: [[0, (0..slice).map(bytes).sum()], [0, 0]],
            messages: 100 * slice,
            backlog: backlog(slice),
            reads_open: 0,
            receives_ahead: [0; 2],
            packets: LEAST_PACKETS,
        };
        (0..=slices).map(moment).collect()
    }

    fn is_reached(course: &[Moment]) -> bool {
        let steady = SteadyState { directions: &WAY, precision: 0.02, verdict_packets: 0, qps: 1 };
        steady.is_reached(&course.iter().collect::<Vec<_>>())
    }

    #[test]
    fn equal_slices_are_steady() {
        assert!(is_reached(&course(8, |_| 1000, |_| 5)));
        assert!(!is_reached(&course(7, |_| 1000, |_| 5)), "too few batches");
        assert!(!is_reached(&course(8, |_| 0, |_| 0)), "nothing moves");
    }

    #[test]
    fn a_host_is_behind_if_what_it_has_read_ahead_becomes_fewer() {
        let with = |ahead: [i64; 2]| {
            let mut course = course(8, |_| 1000, |_| 0);
            course[0].receives_ahead = [0, ahead[0]];
            course[8].receives_ahead = [0, ahead[1]];
            course
        };
        let table = [([10_000, 9_800], true, true), ([10_000, 9_950], false, false), ([300, 100], true, false)];
        for (ahead, is_behind, is_slow) in table {
            let course = with(ahead);
            let course: Vec<&Moment> = course.iter().collect();
            assert_eq!(falls_behind(&course, Host::B), is_behind, "{ahead:?}");
            assert_eq!(falls_behind_slowly(&course, Host::B), is_slow, "{ahead:?}");
            assert!(!falls_behind(&course, Host::A), "{ahead:?}");
        }
        assert!(!is_reached(&with([10_000, 9_800])), "it will be slower");
    }

    #[test]
    fn a_verdict_takes_more_packets_and_less_precision() {
        let course = course(800, |slice| 1000 + 900 * (slice % 2), |_| 0);
        let course: Vec<&Moment> = course[..9].iter().collect();
        let steady = |verdict_packets, qps| SteadyState { directions: &WAY, precision: 0.001, verdict_packets, qps };
        let wide = steady(LEAST_PACKETS, 1);
        assert!(!wide.is_reached(&course));
        assert_eq!(wide.is_telling(&course), half_width(&course, &WAY) <= UNKNOWN);
        let even = self::course(8, |_| 1000, |_| 5);
        let even: Vec<&Moment> = even.iter().collect();
        assert!(steady(LEAST_PACKETS, 1).is_telling(&even));
        assert!(!steady(2 * LEAST_PACKETS, 1).is_telling(&even), "too few packets");
        assert!(!steady(LEAST_PACKETS, 2 * LEAST_PACKETS).is_telling(&even), "not one packet of each QP");
    }

    #[test]
    fn what_varies_grows_or_piles_up_is_not_steady_yet() {
        assert!(!is_reached(&course(8, |slice| 1000 + 200 * (slice % 2), |_| 0)), "varies");
        assert!(is_reached(&course(800, |slice| 1000 + 200 * (slice % 2), |_| 0)), "and its mean is known later");
        assert!(!is_reached(&course(8, |slice| 1000 + 100 * slice, |_| 0)), "grows");
        assert!(!is_reached(&course(8, |_| 1000, |slice| 50 * slice)), "piles up");
    }
}
