//! Loopback through a host's RNICs: what a host is asked, and how often, until a matrix of it is stable. What a matrix
//! means is elsewhere; nothing here sleeps or reads a clock.

use std::time::Duration;

use kelpie_monitor::statistics::median;

use crate::subsystem::MeasureError;

/// Fewest and most repeats of a cell. Source: our choice; Student's quantile of three values is 4.3, and of ten 2.3.
const REPEATS: [usize; 2] = [3, 10];
/// Quantile 0.975 of Student's distribution with two to nine degrees of freedom.
const STUDENT: [f64; REPEATS[1] - 2] = [4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
/// Half of the 95 % confidence interval, as a share of the mean, that is stable. Source: our choice, a seventh of what
/// makes a path abnormal.
const STABLE: f64 = 0.02;

/// What is measured of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathProbe {
    /// Large messages, in Gbit/s.
    Bandwidth,
    /// Small messages one after the other, in microseconds.
    Latency,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Probed {
    /// Gbit/s or microseconds.
    pub value: f64,
    /// How long the RNIC was loaded.
    pub took: Duration,
}

/// What an RNIC does beside our traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// Traffic of others on its port, the busier direction. Units: Gbit/s.
    pub gbps: f64,
    /// Share of the time for which it pauses its neighbour.
    pub pause_ratio: f64,
    /// Packets that it dropped, a second.
    pub drops: f64,
}

impl Activity {
    /// Traffic above this makes an RNIC busy. Units: Gbit/s. Source: our choice, above what management and routing
    /// send.
    const BUSY: f64 = 0.1;
    /// Pause above this is abnormal. Source: Collie (NSDI 2022), section 5, as in `docs/reference/verdict.md`.
    const PAUSED: f64 = 0.001;

    /// Whether others use it.
    pub fn is_busy(&self) -> bool {
        self.gbps > Self::BUSY
    }

    /// Whether its counters say that the host does not keep up: a reason to look inside while it is busy.
    pub fn is_abnormal(&self) -> bool {
        self.pause_ratio > Self::PAUSED || self.drops > 0.0
    }
}

/// A host whose RNICs can send to themselves.
pub trait LoopbackHost {
    /// Names of its RNICs.
    fn rnics(&self) -> &[String];
    /// Names of the memories and GPUs that they can reach, and of RNICs to which cables lead.
    fn endpoints(&self) -> &[String];
    /// What an RNIC does now, without our traffic.
    ///
    /// # Errors
    /// When the host does not answer.
    fn activity(&mut self, rnic: usize) -> Result<Activity, MeasureError>;
    /// Sends from an RNIC to itself, out of an endpoint and into it; or to another RNIC, from memory to memory.
    ///
    /// # Errors
    /// [`MeasureError::Unsupported`] if this path cannot be measured at all; else when the host does not answer.
    fn probe(&mut self, rnic: usize, endpoint: usize, probe: PathProbe) -> Result<Probed, MeasureError>;
    /// Links of which the host itself says that they are narrower than both ends can do.
    fn narrow_links(&self) -> Vec<String> {
        Vec::new()
    }
    /// Leaves the RNICs alone for so long.
    fn rest(&mut self, span: Duration);
}

/// How a matrix is measured.
#[derive(Debug, Clone)]
pub struct LoopbackRounds {
    /// Share of the time for which an RNIC may be loaded, above 0 and up to 1.
    pub share: f64,
    /// The cells, by row and column.
    pub cells: Vec<(usize, usize)>,
    /// Whether to go on although others use the host.
    pub beside_others: bool,
}

/// Values, row by row; `None` where nothing was measured.
pub type MatrixCells = Vec<Vec<Option<f64>>>;

/// A measured host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostMatrices {
    /// Units: Gbit/s.
    pub bandwidth_gbps: MatrixCells,
    /// Units: microseconds.
    pub latency_us: MatrixCells,
    /// What each RNIC did beside, before its first cell.
    pub activity: Vec<Option<Activity>>,
    /// Why it ended before all cells were measured.
    pub stopped: Option<String>,
    /// Cells that cannot be measured, and those that did not become stable.
    pub notes: Vec<String>,
}

/// Measures cell by cell; `each` hears how many are done, and which RNIC and endpoint come next, and says whether to go
/// on.
///
/// # Errors
/// When the host does not answer. A host that gets busy is no error: what was measured until then is kept.
pub fn measure(
    host: &mut dyn LoopbackHost,
    rounds: &LoopbackRounds,
    each: &mut dyn FnMut(usize, &str, &str) -> bool,
) -> Result<HostMatrices, MeasureError> {
    let (rows, columns) = (host.rnics().to_vec(), host.endpoints().to_vec());
    let empty = || vec![vec![None; columns.len()]; rows.len()];
    let mut measured = HostMatrices {
        bandwidth_gbps: empty(),
        latency_us: empty(),
        activity: vec![None; rows.len()],
        stopped: None,
        notes: Vec::new(),
    };
    let allowed = |activity: &Activity| rounds.beside_others || !activity.is_busy();
    for (done, &(row, column)) in rounds.cells.iter().enumerate() {
        if !each(done, &rows[row], &columns[column]) {
            measured.stopped = Some("it was asked to".to_owned());
            return Ok(measured);
        }
        for probe in [PathProbe::Bandwidth, PathProbe::Latency] {
            let mut values = Vec::new();
            while !is_stable(&values) {
                let activity = host.activity(row)?;
                measured.activity[row].get_or_insert(activity);
                if !allowed(&activity) {
                    measured.stopped =
                        Some(format!("{} carries {:.1} Gbit/s of other traffic", rows[row], activity.gbps));
                    return Ok(measured);
                }
                let probed = match host.probe(row, column, probe) {
                    Ok(probed) => probed,
                    Err(MeasureError::Unsupported { reason }) => {
                        measured.notes.push(format!("{} to {}: {reason}", rows[row], columns[column]));
                        break;
                    }
                    Err(error) => return Err(error),
                };
                host.rest(probed.took.mul_f64(1.0 / rounds.share - 1.0));
                values.push(probed.value);
            }
            if values.len() == REPEATS[1] && half_interval(&values) > STABLE {
                measured.notes.push(format!(
                    "{} to {}: {} still varies by {:.0} % after {} repeats",
                    rows[row],
                    columns[column],
                    if probe == PathProbe::Bandwidth { "bandwidth" } else { "latency" },
                    half_interval(&values) * 100.0,
                    values.len()
                ));
            }
            let cells = match probe {
                PathProbe::Bandwidth => &mut measured.bandwidth_gbps,
                PathProbe::Latency => &mut measured.latency_us,
            };
            cells[row][column] = median(&values);
            if cells[row][column].is_none() {
                break;
            }
        }
    }
    Ok(measured)
}

fn is_stable(values: &[f64]) -> bool {
    values.len() >= REPEATS[1] || values.len() >= REPEATS[0] && half_interval(values) <= STABLE
}

/// Half of the 95 % confidence interval of the mean, as a share of it.
fn half_interval(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let spread = STUDENT[values.len() - REPEATS[0]] * (variance / count).sqrt();
    if spread == 0.0 { 0.0 } else { spread / mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two RNICs; endpoint 1 cannot be measured, endpoint 2 never settles, and after some probes others come.
    struct FakeRnics {
        names: [Vec<String>; 2],
        probes: usize,
        busy_after: usize,
        loaded: Duration,
        rested: Duration,
    }

    impl FakeRnics {
        fn new(busy_after: usize) -> Self {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let names = [names(&["rnic0", "rnic1"]), names(&["mem0", "gpu0", "mem1"])];
            Self { names, probes: 0, busy_after, loaded: Duration::ZERO, rested: Duration::ZERO }
        }
    }

    impl LoopbackHost for FakeRnics {
        fn rnics(&self) -> &[String] {
            &self.names[0]
        }

        fn endpoints(&self) -> &[String] {
            &self.names[1]
        }

        fn activity(&mut self, _: usize) -> Result<Activity, MeasureError> {
            let gbps = if self.probes >= self.busy_after { 12.0 } else { 0.01 };
            Ok(Activity { gbps, ..Activity::default() })
        }

        fn probe(&mut self, _: usize, endpoint: usize, probe: PathProbe) -> Result<Probed, MeasureError> {
            if endpoint == 1 {
                return Err(MeasureError::Unsupported { reason: "no dma-buf".to_owned() });
            }
            self.probes += 1;
            let noise = if endpoint == 2 { 0.2 } else { 0.001 } * (self.probes % 3) as f64;
            let took = Duration::from_millis(2);
            self.loaded += took;
            let usual = if probe == PathProbe::Bandwidth { 190.0 } else { 2.5 };
            Ok(Probed { value: usual * (1.0 + noise), took })
        }

        fn rest(&mut self, span: Duration) {
            self.rested += span;
        }
    }

    fn all(beside_others: bool) -> LoopbackRounds {
        let cells = (0..2).flat_map(|row| (0..3).map(move |column| (row, column))).collect();
        LoopbackRounds { share: 0.05, cells, beside_others }
    }

    #[test]
    fn cells_are_repeated_until_stable_and_the_rnic_rests() {
        let mut fake = FakeRnics::new(usize::MAX);
        let mut steps = 0;
        let measured = measure(&mut fake, &all(false), &mut |_, _, _| {
            steps += 1;
            true
        })
        .expect("it answers");
        assert_eq!((steps, measured.stopped.as_deref()), (6, None));
        assert_eq!(fake.probes, 2 * (2 * 3 + 2 * 10), "three repeats where it is stable, ten where it is not");
        for row in 0..2 {
            let bandwidth = measured.bandwidth_gbps[row][0].expect("measured");
            assert!((bandwidth / 190.2 - 1.0).abs() < 0.01 && measured.latency_us[row][0].is_some());
            assert_eq!((measured.bandwidth_gbps[row][1], measured.latency_us[row][1]), (None, None));
        }
        assert_eq!(measured.notes.len(), 2 * 3, "{:?}", measured.notes);
        assert!(measured.notes[0].contains("no dma-buf") && measured.notes[1].contains("still varies"));
        let share = fake.loaded.as_secs_f64() / (fake.loaded + fake.rested).as_secs_f64();
        assert!((share - 0.05).abs() < 1e-6, "{share}");
    }

    #[test]
    fn a_host_that_gets_busy_is_left_alone_at_once_and_what_was_measured_stays() {
        let mut fake = FakeRnics::new(4);
        let measured = measure(&mut fake, &all(false), &mut |_, _, _| true).expect("it answers");
        assert_eq!(fake.probes, 4, "no probe more");
        assert!(measured.stopped.as_ref().is_some_and(|why| why.contains("12.0 Gbit/s")), "{:?}", measured.stopped);
        assert!(measured.bandwidth_gbps[0][0].is_some());
        assert_eq!((measured.latency_us[0][0], measured.bandwidth_gbps[1][0]), (None, None));
        let measured = measure(&mut FakeRnics::new(4), &all(true), &mut |_, _, _| true).expect("it answers");
        assert!(measured.stopped.is_none() && measured.bandwidth_gbps[1][2].is_some());
    }
}
