//! What the doctor says of both hosts of a pair, through their agents. A host that cannot be asked is a check itself.

use kelpie_engine::chain;
use kelpie_engine::verbs_host::{Port, PortReport};
use kelpie_monitor::checks::{CheckKind, Repair};
use kelpie_monitor::doctor::{Examination, compare};
use kelpie_monitor::{Check, CheckState, PerHost};
use kelpie_spaces::Host;

use super::agents::{Agents, PATIENCE_AT_OPEN};
use crate::client::{AgentClient, ClientError};

/// Asks both hosts, and compares what both said.
pub async fn checks(agents: &mut Agents) -> Vec<Check> {
    let ports = match agents.ready(PATIENCE_AT_OPEN).await {
        Ok(ports) => ports,
        Err(error) => return vec![not_asked("pair", &error)],
    };
    let (a, b) = tokio::join!(examined(agents, Host::A, &ports), examined(agents, Host::B, &ports));
    let mut checks = Vec::new();
    let mut seen = PerHost::default();
    for (host, answer) in [(Host::A, a), (Host::B, b)] {
        match answer {
            Ok(examination) => {
                checks.extend(examination.checks.iter().cloned().map(|check| on_host(host, check)));
                *seen.get_mut(host) = Some(examination);
            }
            Err(error) => {
                checks.push(not_asked(&format!("host {host}"), &error));
                // Whatever was said cannot be trusted to have been an answer to this; the next step connects anew.
                if !matches!(error, ClientError::Host(_)) {
                    *agents.clients.get_mut(host) = None;
                }
            }
        }
    }
    if let PerHost { a: Some(a), b: Some(b) } = &seen {
        checks.extend(compare(a, b));
    }
    checks
}

/// The examination of a host with the port that its agent has chosen.
async fn examined(agents: &Agents, host: Host, ports: &PerHost<PortReport>) -> Result<Examination, ClientError> {
    let agent: &AgentClient = agents.client(host);
    let device = Some(ports.get(host).device.clone());
    agent.examine(Port { device, ..agents.file.hosts.get(host).port.clone() }).await
}

/// A check of one host, beside those of the other.
fn on_host(host: Host, check: Check) -> Check {
    let about = if check.about == "host" { format!("host {host}") } else { format!("host {host}, {}", check.about) };
    check.about(about)
}

fn not_asked(about: &str, error: &dyn std::error::Error) -> Check {
    let check = Check::new(CheckKind::NotAsked, CheckState::Unknown, "the host could not be examined");
    check.about(about).seen("agent", chain(error)).repair(Repair::LookThere, &[])
}
