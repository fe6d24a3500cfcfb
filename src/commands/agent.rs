//! `kelpie agent`: serves this host to a controller. The protocol and the traffic live in the engine.

use std::process::ExitCode;

/// Arguments of the agent.
#[derive(Debug, clap::Args)]
pub struct AgentArgs {}

/// Runs the agent.
pub fn run(_args: &AgentArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("this build drives no RDMA device; build Kelpie with `--features verbs` on a host with libibverbs")
}
