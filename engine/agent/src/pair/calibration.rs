//! The bounds of a pair by simple traffic, if its file has none: large messages, small messages, one at a time. All is
//! measured in several rounds, because equal traffic differs from run to run, and by how much is a bound, too.

use std::str::FromStr;

use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::PortReport;
use kelpie_monitor::{Bounds, DirectionRates, PerHost};
use kelpie_spaces::{Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, Request, Workload};

use super::agents::Agents;
use super::error::PairError;
use super::file::MOST_RUN_TO_RUN;

/// Simple traffic: RC WRITE, the kind every NIC is best at.
#[derive(Debug, Clone, Copy)]
struct Simple {
    message: u64,
    qps: u32,
    depth: u32,
    batch: u32,
}

/// For bits per second. Source: Collie, section 7.2 (perftest-like traffic is healthy from 64 KiB).
const LARGE: Simple = Simple { message: 64 << 10, qps: 4, depth: 64, batch: 1 };

/// For packets per second.
const SMALL: Simple = Simple { message: 64, qps: 8, depth: 128, batch: 16 };

/// For the round trip. Two posted at once have to be read by the NIC; one alone may come with its doorbell, sooner.
const COUPLE: Simple = Simple { message: 64, qps: 1, depth: 2, batch: 2 };

/// Runs of each kind, and as many if the first differ by more than [`DIFFER`]. Source: our choice: with two directions there are
/// four degrees of freedom for how much runs of one size differ, and then eight.
const ROUNDS: [usize; 2] = [3, 5];
/// As [`Bounds::run_to_run`]. Source: our choice.
const DIFFER: f64 = 0.1;

/// How long that takes about, besides setting up: if runs are alike and nothing has to drain, and if they differ and all does.
/// Units: s.
pub(super) fn seconds(timing: &Timing) -> [f64; 2] {
    // Both sizes each way, and the round trip.
    let round = |drain_ms: u64| 5 * (timing.traffic_ms() + drain_ms);
    [ROUNDS[0] as u64 * round(0), ROUNDS[1] as u64 * round(timing.drain_ms)].map(|ms| ms as f64 / 1e3)
}

/// The largest MTU that both ports carry.
pub fn largest_mtu(ports: &PerHost<PortReport>) -> Mtu {
    let limit = ports.a.active_mtu.min(ports.b.active_mtu);
    Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= limit).unwrap_or(Mtu::ALL[0])
}

/// Measures the bounds, the best of both directions: of each kind of traffic the median run.
pub async fn calibrate(agents: &mut Agents, mtu: Mtu) -> Result<Bounds, PairError> {
    let kinds = Host::BOTH.map(|from| [LARGE, SMALL].map(|simple| (from, simple))).concat();
    let mut runs = vec![Vec::new(); kinds.len()];
    let mut couples = Vec::new();
    for round in 0..ROUNDS[1] {
        if round == ROUNDS[0] && run_to_run(&runs, &kinds) <= DIFFER {
            break;
        }
        for (runs, (from, simple)) in runs.iter_mut().zip(&kinds) {
            runs.push(run(agents, *simple, mtu, *from).await?);
        }
        couples.push(run(agents, COUPLE, mtu, Host::A).await?);
    }
    let best = |counts: fn(&Simple) -> bool, of: fn(&DirectionRates) -> f64| {
        let counted = runs.iter().zip(&kinds).filter(|(_, (_, simple))| counts(simple));
        counted.map(|(runs, _)| of(median(runs))).fold(0.0, f64::max)
    };
    let run_to_run = run_to_run(&runs, &kinds);
    if run_to_run >= MOST_RUN_TO_RUN {
        return Err(PairError::Unsteady(run_to_run));
    }
    Ok(Bounds {
        base_rtt_seconds: Some(f64::from(COUPLE.depth) / median(&couples).messages_per_sec),
        run_to_run: Some(run_to_run).filter(|deviation| *deviation > 0.0),
        reference_pps: Some(best(|simple| simple.message == SMALL.message, |rates| rates.packets_per_sec)),
        ..Bounds::new(best(|_| true, |rates| rates.wire_bps), best(|_| true, |rates| rates.packets_per_sec))
    })
}

fn median(runs: &[DirectionRates]) -> &DirectionRates {
    let mut runs: Vec<&DirectionRates> = runs.iter().collect();
    runs.sort_by(|a, b| a.messages_per_sec.total_cmp(&b.messages_per_sec));
    runs[runs.len() / 2]
}

/// Relative standard deviation of the rate from one run to the next, of the size of messages that varies most: what varies less
/// is no reason to trust the other. It is that of the differences of runs that follow each other, because a machine that slowly
/// changes is noticed otherwise (von Neumann 1941).
fn run_to_run(runs: &[Vec<DirectionRates>], kinds: &[(Host, Simple)]) -> f64 {
    let variance = |runs: &Vec<DirectionRates>| {
        let mean = runs.iter().map(|run| run.messages_per_sec).sum::<f64>() / runs.len() as f64;
        let steps = runs.windows(2).map(|pair| (pair[1].messages_per_sec - pair[0].messages_per_sec) / mean);
        steps.map(|step| step.powi(2)).sum::<f64>() / 2.0 / (runs.len() - 1) as f64
    };
    let of = |message: u64| {
        let own = runs.iter().zip(kinds).filter(|(_, (_, simple))| simple.message == message);
        let own: Vec<f64> = own.map(|(runs, _)| variance(runs)).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    of(LARGE.message).max(of(SMALL.message)).sqrt()
}

/// What small messages reach from this host. Units: packets/s.
pub async fn packets_per_sec(agents: &mut Agents, mtu: Mtu, from: Host) -> Result<f64, PairError> {
    run(agents, SMALL, mtu, from).await.map(|rates| rates.packets_per_sec)
}

/// What one run of this traffic reaches.
async fn run(agents: &mut Agents, simple: Simple, mtu: Mtu, from: Host) -> Result<DirectionRates, PairError> {
    let timing = Timing { latency: false, ..agents.file.session };
    let measurement = agents.experiment(&workload(simple, mtu, from), timing).await.map_err(PairError::Calibration)?;
    let rates = measurement.mean().and_then(|mean| mean.directions.into_iter().next());
    rates.filter(|rates| rates.messages_per_sec > 0.0).ok_or_else(|| PairError::NoTraffic {
        events: match &measurement.hardware_events[..] {
            [] => "no error was reported".to_owned(),
            events => events.join("; "),
        },
    })
}

fn workload(simple: Simple, mtu: Mtu, from: Host) -> Workload {
    let memory = Memory {
        device: Device::from_str("dram:0").expect("a literal that parses"),
        mrs: 1,
        mr_size: Bytes(simple.message.max(4096)),
    };
    Workload::new(vec![Flow {
        qps: simple.qps,
        mtu,
        wq_depth: Depths { send: simple.depth, recv: 1 },
        batch: Batch { send: simple.batch, recv: 1 },
        pattern: vec![Request { op: Opcode::Write, sge: vec![Bytes(simple.message)] }],
        memory: MemoryPair { from: memory, to: memory },
        ..Flow::plain(from, from.peer())
    }])
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
        let kinds = [(Host::A, LARGE), (Host::A, SMALL), (Host::B, LARGE), (Host::B, SMALL)];
        let steady = || runs([99.0, 100.0, 101.0]);
        let varies =
            run_to_run(&[steady(), runs([800.0, 1000.0, 1200.0]), steady(), runs([900.0, 1000.0, 1100.0])], &kinds);
        // The root of half of the mean of 0.2² and 0.1².
        assert!((varies - 0.1118).abs() < 0.001, "{varies}");
    }

    #[test]
    fn simple_traffic_is_valid_at_every_mtu() {
        for simple in [LARGE, SMALL, COUPLE] {
            for mtu in Mtu::ALL {
                kelpie_spaces::check(&workload(simple, mtu, Host::B)).expect("valid");
            }
        }
    }
}
