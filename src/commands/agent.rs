//! `kelpie agent`: serves this host to a controller. The protocol is in `kelpie-agent`, the traffic in `kelpie-verbs`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kelpie_agent::cert::{Authority, CertificatePurpose, Validity};
use kelpie_agent::server::{AgentConfig, serve};
use kelpie_agent::steering::{PlannerAddress, SteeringSocket};
use kelpie_agent::{Limits, Security, TlsFiles};
use kelpie_engine::verbs_host::VerbsHost;
use kelpie_examine::simulated_host::SimulatedHost;
use kelpie_monitor::machine::Machine;
use serde_json::json;

use crate::args::Common;
use crate::cli::agent::{AgentArgs, AgentCommand, CertArgs, ServeAgentArgs};
use crate::exit;
use crate::output::{note, print, print_json};

/// Runs the agent until it is ended from outside, or makes certificates.
pub fn run(args: &AgentArgs, common: Common) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(AgentCommand::Cert(args)) => certificates(args, common)?,
        None => {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let name = name.trim().to_owned();
            let config = AgentConfig {
                door: args.serve.door(&name),
                name,
                security: args.serve.security(),
                limits: args.serve.limits(),
            };
            serve(args.serve.listen, config, host(&args.serve)?)?;
        }
    }
    Ok(exit::HEALTHY)
}

impl ServeAgentArgs {
    fn security(&self) -> Security {
        self.security_as(self.identity.as_ref(), self.revoked.clone())
    }

    fn security_as(&self, identity: Option<&PathBuf>, revoked: Option<PathBuf>) -> Security {
        match (self.ca.clone(), identity.cloned()) {
            (Some(ca), Some(identity)) => {
                Security::Tls(TlsFiles { ca, identity, insecure_key: self.insecure_key, revoked })
            }
            _ if self.plain => Security::Plain,
            _ => Security::Loopback,
        }
    }

    fn door(&self, name: &str) -> Option<SteeringSocket> {
        let security = self.security_as(self.planner_identity.as_ref(), None);
        let planner = PlannerAddress { address: self.planner.clone()?, security, name: name.to_owned() };
        let (group, most_a_second) = (self.steer_group.clone(), self.steer_rate);
        Some(SteeringSocket { socket: self.steer.clone()?, group, most_a_second, planner, machine: Machine::live() })
    }

    fn limits(&self) -> Limits {
        let memory = self.max_memory.map_or_else(Limits::half_of_memory, |size| size.0);
        Limits { qps: self.max_qps, mrs: self.max_mrs, memory_bytes: memory }
    }
}

/// This machine; if it cannot drive a device, it reports to controllers what is missing.
fn host(args: &ServeAgentArgs) -> anyhow::Result<Box<dyn VerbsHost>> {
    if let Some(model) = &args.simulated {
        return Ok(Box::new(SimulatedHost::load(model, &args.set, args.listen)?.with_fault(args.simulated_fault)));
    }
    let host = verbs_host(args).unwrap_or_else(|missing| {
        note(&format!("this agent cannot run traffic, and reports that to controllers: {missing}"));
        Box::new(kelpie_agent::AbsentHost::new(missing))
    });
    Ok(Box::new(kelpie_agent::Netem::new(host, args.netem.clone())))
}

#[cfg(feature = "verbs")]
fn verbs_host(args: &ServeAgentArgs) -> Result<Box<dyn VerbsHost>, String> {
    match kelpie_verbs::LibibverbsHost::new(args.device.clone(), args.gid_index, args.limits().memory_bytes) {
        Ok(host) => Ok(Box::new(host)),
        Err(error) => Err(kelpie_engine::chain(&error)),
    }
}

#[cfg(not(feature = "verbs"))]
fn verbs_host(_: &ServeAgentArgs) -> Result<Box<dyn VerbsHost>, String> {
    Err("this agent's build of kelpie drives no RDMA device: build it with `cargo build --release --features verbs` on \
         a machine with libibverbs-dev, librdmacm-dev and libclang-dev"
        .to_owned())
}

fn certificates(args: &CertArgs, common: Common) -> anyhow::Result<()> {
    let authority = Authority::in_dir(&args.out, args.insecure_key)?;
    let validity = Validity::lasting(Duration::from_hours(24 * u64::from(args.days)));
    let mut made = Vec::new();
    for agent in &args.agent {
        let names: Vec<String> = agent.split(',').map(str::to_owned).collect();
        made.push(("agent", authority.issue(&names, CertificatePurpose::Agent, validity)?));
    }
    if let Some(name) = &args.controller {
        made.push((
            "controller",
            authority.issue(std::slice::from_ref(name), CertificatePurpose::Controller, validity)?,
        ));
    }
    if common.json {
        let row = |(purpose, (identity, serial)): &(&str, (PathBuf, String))| json!({"for": purpose, "identity": identity, "serial": serial});
        return print_json(&json!({"ca": authority.ca(), "made": made.iter().map(row).collect::<Vec<_>>()}));
    }
    let mut lines = vec![format!("{}: the authority; both sides need it\n", authority.ca().display())];
    lines.extend(made.iter().map(|(purpose, (path, serial))| {
        format!("{}: certificate and key of the {purpose}, for {} days, serial {serial}\n", path.display(), args.days)
    }));
    print(&lines.concat())
}
