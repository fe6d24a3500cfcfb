//! The bounds of a pair by simple traffic, if its file has none: large messages, small messages, one at a time. All is
//! measured in several rounds, because equal traffic differs from run to run, and by how much is a bound, too.

use kelpie_engine::MeasureError;
use kelpie_engine::simple::{Simple, qp_times};
use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::PortReport;
use kelpie_monitor::{Bounds, DirectionRates, PerHost};
use kelpie_spaces::{Host, Mtu};

use super::agents::Agents;
use super::error::PairError;
use super::file::MOST_RUN_TO_RUN;

/// Runs of each kind, and as many if the first differ by more than [`DIFFER`]. Source: our choice: with two directions
/// there are four degrees of freedom for how much runs of one size differ, and then eight.
const ROUNDS: [usize; 2] = [3, 5];
/// As [`Bounds::run_to_run`]. Source: our choice.
const DIFFER: f64 = 0.1;
/// Elements of a list, the first that the devices have. Source: `mlx5` has 30, `bnxt_re` and `irdma` 6 to 13; the more
/// there are, the less the messages count.
const ELEMENTS: [u32; 3] = [16, 8, 4];

/// How long that takes about, besides setting up: if runs are alike and nothing has to drain, and if they differ and
/// all does.
/// Units: s.
pub(super) fn seconds(timing: &Timing) -> [f64; 2] {
    // Both sizes each way, the round trip, one QP in three ways, and lists.
    let round = |drain_ms: u64| 9 * (timing.traffic_ms() + drain_ms);
    [ROUNDS[0] as u64 * round(0), ROUNDS[1] as u64 * round(timing.drain_ms)].map(|ms| ms as f64 / 1e3)
}

/// The largest MTU that both ports carry.
pub fn largest_mtu(ports: &PerHost<PortReport>) -> Mtu {
    let limit = ports.a.active_mtu.min(ports.b.active_mtu);
    Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= limit).unwrap_or(Mtu::ALL[0])
}

/// Measures the bounds, of both directions the better: of each kind of traffic the median run.
pub async fn calibrate(agents: &mut Agents, mtu: Mtu) -> Result<Bounds, PairError> {
    let elements = most_elements(agents, mtu).await?;
    let both_ways = Host::BOTH.map(|from| [Simple::LARGE, Simple::SMALL].map(|simple| (from, simple))).concat();
    let lists = elements.map(|elements| [Simple::one_qp_lists(elements), Simple::lists(elements)]);
    let one_way = [Simple::COUPLE, Simple::ONE_QP, Simple::ONE_QP_LONG].into_iter().chain(lists.into_iter().flatten());
    let kinds = both_ways.into_iter().chain(one_way.map(|simple| (Host::A, simple)));
    let mut runs = Runs(kinds.map(|(from, simple)| (from, simple, Vec::new())).collect());
    for round in 0..ROUNDS[1] {
        if round == ROUNDS[0] && runs.run_to_run() <= DIFFER {
            break;
        }
        for (from, simple, runs) in &mut runs.0 {
            runs.push(run(agents, *simple, mtu, *from).await?);
        }
    }
    let run_to_run = runs.run_to_run();
    if run_to_run >= MOST_RUN_TO_RUN {
        return Err(PairError::Unsteady(run_to_run));
    }
    let messages = |simple: Simple| runs.best(simple, |rates| rates.messages_per_sec);
    let packets = |simple: Simple| runs.best(simple, |rates| rates.packets_per_sec);
    let bits = |simple: Simple| runs.best(simple, |rates| rates.wire_bps);
    let of_lists = elements.map(|elements| (messages(Simple::one_qp_lists(elements)), elements));
    let port = [Simple::LARGE, Simple::SMALL];
    let base_rtt = f64::from(Simple::COUPLE.depth) / messages(Simple::COUPLE);
    let reads = |elements: u32| (f64::from(elements) * messages(Simple::lists(elements))).max(messages(Simple::SMALL));
    Ok(Bounds {
        base_rtt_seconds: Some(base_rtt),
        max_pcie_reads_per_sec: elements.map(reads),
        qp: qp_times(messages(Simple::ONE_QP), of_lists, messages(Simple::ONE_QP_LONG), base_rtt),
        run_to_run: Some(run_to_run).filter(|deviation| *deviation > 0.0),
        reference_pps: Some(packets(Simple::SMALL)),
        ..Bounds::new(port.map(bits).into_iter().fold(0.0, f64::max), port.map(packets).into_iter().fold(0.0, f64::max))
    })
}

/// The most elements of [`ELEMENTS`] that both devices have; none if they have fewer.
async fn most_elements(agents: &mut Agents, mtu: Mtu) -> Result<Option<u32>, PairError> {
    for elements in ELEMENTS {
        match run(agents, Simple::lists(elements), mtu, Host::A).await {
            Ok(_) => return Ok(Some(elements)),
            Err(PairError::Calibration(MeasureError::Unsupported { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The runs of each kind of simple traffic, by the host that it comes from.
struct Runs(Vec<(Host, Simple, Vec<DirectionRates>)>);

impl Runs {
    /// Of the median run, the better of both directions.
    fn best(&self, simple: Simple, of: fn(&DirectionRates) -> f64) -> f64 {
        let own = self.0.iter().filter(|(_, other, _)| *other == simple);
        own.map(|(.., runs)| of(median(runs))).fold(0.0, f64::max)
    }

    /// Relative standard deviation of the rate from one run to the next, of the size of messages that varies most: what
    /// varies less is no reason to trust the other. It is that of the differences of runs that follow each other,
    /// because a machine that slowly changes is noticed otherwise (von Neumann 1941).
    fn run_to_run(&self) -> f64 {
        let variance = |runs: &Vec<DirectionRates>| {
            let mean = runs.iter().map(|run| run.messages_per_sec).sum::<f64>() / runs.len() as f64;
            let steps = runs.windows(2).map(|pair| (pair[1].messages_per_sec - pair[0].messages_per_sec) / mean);
            steps.map(|step| step.powi(2)).sum::<f64>() / 2.0 / (runs.len() - 1) as f64
        };
        let of = |simple: Simple| {
            let own = self.0.iter().filter(|(_, other, _)| *other == simple);
            let own: Vec<f64> = own.map(|(.., runs)| variance(runs)).collect();
            own.iter().sum::<f64>() / own.len() as f64
        };
        of(Simple::LARGE).max(of(Simple::SMALL)).sqrt()
    }
}

fn median(runs: &[DirectionRates]) -> &DirectionRates {
    let mut runs: Vec<&DirectionRates> = runs.iter().collect();
    runs.sort_by(|a, b| a.messages_per_sec.total_cmp(&b.messages_per_sec));
    runs[runs.len() / 2]
}

/// What small messages reach from this host. Units: packets/s.
pub async fn packets_per_sec(agents: &mut Agents, mtu: Mtu, from: Host) -> Result<f64, PairError> {
    run(agents, Simple::SMALL, mtu, from).await.map(|rates| rates.packets_per_sec)
}

/// What one run of this traffic reaches.
async fn run(agents: &mut Agents, simple: Simple, mtu: Mtu, from: Host) -> Result<DirectionRates, PairError> {
    let timing = Timing { latency: false, ..agents.file.session };
    let measurement = agents.experiment(&simple.workload(mtu, from), timing).await.map_err(PairError::Calibration)?;
    let rates = measurement.mean().and_then(|mean| mean.directions.into_iter().next());
    rates.filter(|rates| rates.messages_per_sec > 0.0).ok_or_else(|| PairError::NoTraffic {
        events: match &measurement.hardware_events[..] {
            [] => "no error was reported".to_owned(),
            events => events.join("; "),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_differ_by_as_much_as_those_of_the_size_that_varies_most() {
        let runs = |of: [f64; 3]| {
            let rates = |messages_per_sec| DirectionRates {
                from: Host::A,
                to: Host::B,
                goodput_bps: 0.0,
                wire_bps: 0.0,
                packets_per_sec: 0.0,
                messages_per_sec,
            };
            of.map(rates).to_vec()
        };
        let steady = || runs([99.0, 100.0, 101.0]);
        let varies = Runs(vec![
            (Host::A, Simple::LARGE, steady()),
            (Host::A, Simple::SMALL, runs([800.0, 1000.0, 1200.0])),
            (Host::B, Simple::LARGE, steady()),
            (Host::B, Simple::SMALL, runs([900.0, 1000.0, 1100.0])),
            (Host::A, Simple::COUPLE, runs([1.0, 100.0, 1.0])),
        ])
        .run_to_run();
        // The root of half of the mean of 0.2² and 0.1².
        assert!((varies - 0.1118).abs() < 0.001, "{varies}");
    }
}
