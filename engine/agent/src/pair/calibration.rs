//! The bounds of a pair by simple traffic, if its file has none: large messages, small messages, one at a time.

use std::str::FromStr;

use kelpie_engine::timing::Timing;
use kelpie_engine::verbs_host::PortReport;
use kelpie_monitor::{Bounds, DirectionRates, Measurement, PerHost};
use kelpie_spaces::{Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, Request, Workload};

use super::PairError;
use super::agents::Agents;

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

/// For the round trip.
const SINGLE: Simple = Simple { message: 64, qps: 1, depth: 1, batch: 1 };

/// Measures the bounds, the best of both directions.
pub async fn calibrate(agents: &mut Agents, ports: &PerHost<PortReport>) -> Result<Bounds, PairError> {
    let limit = ports.a.active_mtu.min(ports.b.active_mtu);
    let mtu = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= limit).unwrap_or(Mtu::ALL[0]);
    let mut bounds = Bounds::new(0.0, 0.0);
    for from in Host::BOTH {
        for simple in [LARGE, SMALL] {
            let best = best(&run(agents, simple, mtu, from).await?)?;
            bounds.max_bps = bounds.max_bps.max(best.wire_bps);
            bounds.max_pps = bounds.max_pps.max(best.packets_per_sec);
        }
    }
    let single = best(&run(agents, SINGLE, mtu, Host::A).await?)?;
    bounds.base_rtt_seconds = Some(1.0 / single.messages_per_sec);
    Ok(bounds)
}

async fn run(agents: &mut Agents, simple: Simple, mtu: Mtu, from: Host) -> Result<Measurement, PairError> {
    let timing = Timing { samples: 2, latency: false, ..agents.file.session };
    agents.experiment(&workload(simple, mtu, from), timing).await.map_err(PairError::Calibration)
}

/// The fastest sample.
fn best(measurement: &Measurement) -> Result<DirectionRates, PairError> {
    let rates = measurement.samples.iter().filter_map(|sample| sample.directions.first());
    let best = rates.max_by(|a, b| a.messages_per_sec.total_cmp(&b.messages_per_sec));
    best.filter(|best| best.messages_per_sec > 0.0).cloned().ok_or_else(|| PairError::NoTraffic {
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
    fn simple_traffic_is_valid_at_every_mtu() {
        for simple in [LARGE, SMALL, SINGLE] {
            for mtu in Mtu::ALL {
                kelpie_spaces::check(&workload(simple, mtu, Host::B)).expect("valid");
            }
        }
    }
}
