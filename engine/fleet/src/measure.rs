//! What each check measures: a unit's traffic, and the values that come of it.

use kelpie_agent::client::AgentClient;
use kelpie_criteria::{Better, UnitValue};
use kelpie_engine::verbs_host::Port;
use kelpie_spaces::Opcode;

use crate::plan::{FleetCheck, PlannedUnit};
use crate::traffic::{End, EndFailure, FlowSamples, Pattern, SampleTimes, Shape, run};

/// Does a unit on connected hosts.
///
/// # Errors
/// The place of the host that failed.
pub async fn measure(
    unit: &PlannedUnit,
    clients: &[&AgentClient],
    ports: &[Port],
    times: SampleTimes,
    names: &[String],
) -> Result<Vec<UnitValue>, EndFailure> {
    let ends: Vec<End<'_>> = clients.iter().zip(ports).map(|(client, port)| End { client, port }).collect();
    let name = |end: usize| names[unit.hosts[end]].clone();
    match unit.check {
        FleetCheck::Loopback(op) => {
            let seen = run(&ends, Pattern::Loopback, Shape::large(op), times).await?;
            let values = seen.flows.iter().map(|flow| gbps(unit.key.check.clone(), name(0), None, &flow.sent_bps));
            Ok(values.collect())
        }
        FleetCheck::Pairs { .. } => {
            let at = unit.distance.map_or("", crate::rounds::Distance::name);
            let large = run(&ends, Pattern::BothWays, Shape::large(Opcode::Send), times).await?;
            let mut values = Vec::new();
            for flow in &large.flows {
                let [from, to] = flow.ends.map(name);
                values.push(gbps(format!("pair_bandwidth.{at}"), from.clone(), Some(to.clone()), &carried(flow)));
                values.push(share("pair_agreement", from, to, agreement(flow)));
            }
            let small = run(&ends, Pattern::BothWays, Shape::SMALL, times).await?;
            for flow in small.flows.iter().filter(|flow| !flow.message_seconds.is_empty()) {
                let [from, to] = flow.ends.map(name);
                values.push(UnitValue {
                    metric: format!("pair_latency.{at}"),
                    unit: "us".to_owned(),
                    better: Better::Lower,
                    from,
                    to: Some(to),
                    samples: flow.message_seconds.iter().map(|seconds| seconds * 1e6).collect(),
                });
            }
            Ok(values)
        }
        // Programs know no agent.
        FleetCheck::Command(_) => Ok(Vec::new()),
        FleetCheck::Incast(_) => {
            let seen = run(&ends, Pattern::Incast, Shape::large(Opcode::Send), times).await?;
            let receiver = name(ends.len() - 1);
            let flows: Vec<Vec<f64>> = seen.flows.iter().map(carried).collect();
            let samples = flows.iter().map(Vec::len).min().unwrap_or_default();
            let of_sample = |sample: usize| flows.iter().map(move |flow| flow[sample]);
            let sums: Vec<f64> = (0..samples).map(|sample| of_sample(sample).sum()).collect();
            let fair: Vec<f64> = (0..samples)
                .map(|sample| {
                    of_sample(sample).fold(f64::INFINITY, f64::min)
                        / of_sample(sample).fold(f64::MIN_POSITIVE, f64::max)
                })
                .collect();
            let check = &unit.key.check;
            Ok(vec![
                gbps(check.clone(), receiver.clone(), None, &sums),
                UnitValue {
                    metric: format!("{check}_fairness"),
                    unit: "share".to_owned(),
                    better: Better::Higher,
                    from: receiver,
                    to: None,
                    samples: fair,
                },
            ])
        }
    }
}

/// What the receiver says, because it is what arrived; it says nothing if nothing ever did.
fn carried(flow: &FlowSamples) -> Vec<f64> {
    if flow.received_bps.len() == flow.sent_bps.len() {
        flow.received_bps.clone()
    } else {
        vec![0.0; flow.sent_bps.len()]
    }
}

/// How alike the counts of both ends are.
fn agreement(flow: &FlowSamples) -> Vec<f64> {
    let [sent, received] = flow.totals;
    let most = sent.max(received);
    vec![if most > 0 { sent.min(received) as f64 / most as f64 } else { 1.0 }]
}

fn gbps(metric: String, from: String, to: Option<String>, bps: &[f64]) -> UnitValue {
    let samples = bps.iter().map(|bps| bps / 1e9).collect();
    UnitValue { metric, unit: "Gb/s".to_owned(), better: Better::Higher, from, to, samples }
}

fn share(metric: &str, from: String, to: String, samples: Vec<f64>) -> UnitValue {
    let (metric, unit) = (metric.to_owned(), "share".to_owned());
    UnitValue { metric, unit, better: Better::Higher, from, to: Some(to), samples }
}
