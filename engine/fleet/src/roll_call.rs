//! Who of an inventory answers: all agents are asked side by side, and one that is dead costs its own time only.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kelpie_agent::client::AgentClient;
use kelpie_agent::pair::controller_name;
use kelpie_engine::chain;
use serde::Serialize;
use tokio::time::timeout;

use crate::inventory::{Inventory, InventoryHost};
use crate::scan::{LONGEST_ANSWER, words};

/// Agents that are asked at once. Source: our choice; each takes a descriptor and some kilobytes.
const AT_ONCE: usize = 512;
/// How long an agent may take, connected, for all of its ports. Source: our choice.
const LIMIT: Duration = Duration::from_secs(5);

/// What a host answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostAnswer {
    /// Its name.
    pub host: String,
    /// Where its agent is.
    pub agent: String,
    /// Its ports as they are, in order of the inventory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortAnswer>,
    /// Why it did not answer, or not for all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A port as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortAnswer {
    /// Device name.
    pub device: String,
    /// Port number.
    pub port: u8,
    /// GID index.
    pub gid_index: u8,
    /// Largest path MTU. Units: bytes.
    pub mtu: u64,
}

/// Asks all agents; `heard` is called with how many have answered.
///
/// # Errors
/// The runtime could not be made.
pub fn roll_call(inventory: &Inventory, mut heard: impl FnMut(usize)) -> std::io::Result<Vec<HostAnswer>> {
    kelpie_agent::most_files();
    let runtime = kelpie_agent::with_one_worker()?;
    let answers = runtime.block_on(async {
        let asked = inventory.hosts.iter().enumerate().map(async |(number, host)| (number, ask(inventory, host).await));
        let mut asked = stream::iter(asked).buffer_unordered(AT_ONCE);
        let mut answers = Vec::new();
        while let Some(answer) = asked.next().await {
            answers.push(answer);
            heard(answers.len());
        }
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    });
    // An agent that does not answer is not waited for.
    runtime.shutdown_background();
    Ok(answers)
}

async fn ask(inventory: &Inventory, host: &InventoryHost) -> HostAnswer {
    let mut answer = HostAnswer { host: host.name.clone(), agent: host.address(), ports: Vec::new(), error: None };
    let asking = async {
        let (security, name) = (inventory.security(), controller_name());
        let client = AgentClient::connect_for(&answer.agent, &security, &name, LONGEST_ANSWER);
        let client = client.await.map_err(|error| words(&error))?;
        let inspecting = async {
            for (_, port) in host.ports() {
                let number = port.port;
                let report = client.inspect(port).await.map_err(|error| chain(&error))?;
                answer.ports.push(PortAnswer {
                    device: report.device,
                    port: number,
                    gid_index: report.gid_index,
                    mtu: report.active_mtu,
                });
            }
            Ok(())
        };
        let late = |_| Err(format!("no answer within {} s", LIMIT.as_secs()));
        timeout(LIMIT, inspecting).await.unwrap_or_else(late)
    };
    let error = asking.await.err();
    HostAnswer { error, ..answer }
}
