//! The readings that C4P's checks judge, of simulated hosts. The rules live in `kelpie_diagnosis`.

use kelpie_diagnosis::ports::{EndReading, Mode, PortReading, QpReading, Readings};
use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Check, Measurement};
use kelpie_sim::{PortsSeen, SimSubsystem};
use kelpie_spaces::{Host, Ports, Workload};

use crate::ports::{about, fills_ports, must_send};

/// Counter of packets that found no room at a port.
const LOST: &str = "rx_discards_phy";

/// All checks of a workload between simulated hosts, whose flows say how source ports are chosen.
///
/// # Errors
/// The workload does not fit the model.
pub fn checks(subsystem: &SimSubsystem, workload: &Workload) -> anyhow::Result<Vec<Check>> {
    must_send(workload)?;
    let with_ports = subsystem.ports(workload)?;
    // One path alone, by the driver that chooses it.
    let mut one_path = workload.clone();
    one_path.flows.iter_mut().for_each(|flow| flow.ports = Ports::One);
    let alone = with_ports.as_ref().map(|_| subsystem.clone().measure(&one_path)).transpose()?;
    let senders = Host::BOTH.into_iter().filter(|from| sends(workload, *from));
    let speed_bps = subsystem.number("port.line_rate_gbps").map(|gbps| gbps * 1e9);
    let port = PortReading { speed_bps, capable_bps: speed_bps, ..PortReading::default() };
    let ports = vec![port; if with_ports.is_some() { 2 } else { 1 }];
    let nic = EndReading { pcie_bps: None, lacp: Some(false), ports };
    let readings = senders.map(|from| reading(from, workload, &nic, with_ports.as_ref(), alone.as_ref()));
    Ok(readings.flat_map(|reading| kelpie_diagnosis::ports::checks(&reading)).collect())
}

fn sends(workload: &Workload, from: Host) -> bool {
    workload.flows.iter().any(|flow| flow.from == from && !flow.is_loopback())
}

fn reading(
    from: Host,
    workload: &Workload,
    nic: &EndReading,
    seen: Option<&PortsSeen>,
    alone: Option<&Measurement>,
) -> Readings {
    let to = from.peer();
    let qps = |seen: &PortsSeen| -> Vec<QpReading> {
        let loss = loss(&seen.measurement, from);
        let flows = workload.flows.iter().zip(&seen.qps).filter(|(flow, _)| flow.from == from && !flow.is_loopback());
        let of_qp = |(source_port, leaves, arrives): &(u16, _, _)| QpReading {
            source_port: Some(*source_port),
            leaves: Some(*leaves),
            arrives: Some(*arrives),
            loss,
        };
        flows.flat_map(|(_, qps)| qps.iter().map(of_qp)).collect()
    };
    Readings {
        about: about(from),
        mode: if seen.is_some() { Mode::Hash } else { Mode::SinglePort },
        sender: Some(nic.clone()),
        receiver: Some(nic.clone()),
        fills_ports: fills_ports(workload),
        qps: seen.map(qps).unwrap_or_default(),
        sent_bytes: seen.map(|seen| seen.sent_bytes[from.index()]),
        received_bytes: seen.map(|seen| seen.received_bytes[to.index()]),
        alone_bps: alone.and_then(|alone| goodput(alone, from)),
        together_bps: seen.and_then(|seen| goodput(&seen.measurement, from)),
        // No port of a model goes down.
        failover: None,
        down: Some(Vec::new()),
        lag_refused: None,
    }
}

fn goodput(measurement: &Measurement, from: Host) -> Option<f64> {
    let mean = measurement.mean()?;
    let rates = mean.directions.iter().find(|rates| rates.from == from && rates.to == from.peer());
    rates.map(|rates| rates.goodput_bps)
}

/// Share of a direction's packets that found no room.
fn loss(measurement: &Measurement, from: Host) -> Option<f64> {
    let mean = measurement.mean()?;
    let rates = mean.directions.iter().find(|rates| rates.from == from && rates.to == from.peer())?;
    let lost = mean.counters.get(from.peer()).get(LOST)?;
    (rates.packets_per_sec > 0.0).then(|| lost / (lost + rates.packets_per_sec))
}
