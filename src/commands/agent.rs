//! `kelpie agent`: serves this host to a controller. The protocol is in `kelpie-agent`, the traffic in `kelpie-verbs`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use kelpie_agent::cert::{Authority, Purpose, Validity};
use kelpie_agent::server::{AgentConfig, serve};
use kelpie_agent::steering::{Door, PlannerAddress};
use kelpie_agent::{Limits, Security, TlsFiles};
use kelpie_engine::verbs_host::VerbsHost;
use kelpie_monitor::machine::Machine;
use kelpie_spaces::Bytes;
use serde_json::json;

use crate::args::Common;
use crate::exit;
use crate::output::{note, print, print_json};

/// `kelpie agent` and what belongs to it.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum AgentCommand {
    /// Make certificates: an authority, and one file per agent and controller
    #[command(after_help = "Example:\n  \
        kelpie agent cert --out certs --agent 10.0.0.1,node-a --agent 10.0.0.2,node-b --controller\n\n\
        On each host: its own file and ca.pem. ca.key signs further certificates: keep it with the controller.\n\
        A serial number that is printed revokes a certificate: a line of the agents' --revoked FILE.")]
    Cert(CertArgs),
}

/// How to serve.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Address to listen on; beyond this machine with certificates or --plain only
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7471")]
    listen: SocketAddr,

    /// RDMA device for controllers that name none; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// GID index for controllers that name none; if it is left out, `RoCEv2` over IPv4 comes first
    #[arg(long, value_name = "N")]
    gid_index: Option<u8>,

    /// Certificate of the authority that has to have signed the certificate of a controller
    #[arg(long, value_name = "FILE", requires = "identity")]
    ca: Option<PathBuf>,

    /// This agent's certificate and key
    #[arg(long, value_name = "FILE", requires = "ca")]
    identity: Option<PathBuf>,

    /// Serial numbers of certificates of controllers that are not let in any more, a line each; read again for each
    /// connection
    #[arg(long, value_name = "FILE", requires = "identity")]
    revoked: Option<PathBuf>,

    /// Go on although others may read the private key
    #[arg(long, requires = "identity")]
    insecure_key: bool,

    /// Neither encrypt nor authenticate, though other machines can connect
    #[arg(long, conflicts_with = "ca")]
    plain: bool,

    /// Socket on which programs of this host ask for source ports (`kelpie paths steer`)
    #[arg(long, value_name = "PATH", requires = "planner")]
    steer: Option<PathBuf>,

    /// Group whose programs may ask; if it is left out, only this user's
    #[arg(long, value_name = "NAME", requires = "steer")]
    steer_group: Option<String>,

    /// Questions of programs that are answered a second
    #[arg(long, value_name = "N", requires = "steer", default_value_t = 1000)]
    steer_rate: u32,

    /// Where the planner listens that knows the paths (`kelpie paths serve`)
    #[arg(long, value_name = "ADDRESS:PORT", requires = "steer")]
    planner: Option<String>,

    /// Certificate and key for the planner, as of a controller; with --ca
    #[arg(long, value_name = "FILE", requires = "planner", requires = "ca")]
    planner_identity: Option<PathBuf>,

    /// Network interface on which this agent may set loss and delay (netem) for workloads that ask for them
    #[arg(long, value_name = "INTERFACE")]
    netem: Option<String>,

    /// Most QPs of an experiment
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = Limits::QPS)]
    max_qps: u64,

    /// Most memory regions of an experiment
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = Limits::MRS)]
    max_mrs: u64,

    /// Most memory of an experiment, for memory regions and queues, such as 16GiB [default: half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = some_memory)]
    max_memory: Option<Bytes>,
}

/// An amount of memory that something fits into.
fn some_memory(text: &str) -> Result<Bytes, String> {
    match Bytes::from_str(text).map_err(|error| error.to_string())? {
        Bytes(0) => Err("nothing fits into that: write a size such as 16GiB".to_owned()),
        size => Ok(size),
    }
}

/// What certificates to make.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true, args = ["agent", "controller"])]
struct CertArgs {
    /// Folder of the authority and its certificates; made if it is missing
    #[arg(long, value_name = "DIR", default_value = "certs")]
    out: PathBuf,

    /// One more agent: its address or host name as in the pair file, and further ones; may be repeated
    #[arg(long, value_name = "NAME[,NAME...]")]
    agent: Vec<String>,

    /// One more controller, under this name
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "controller")]
    controller: Option<String>,

    /// How long they are valid
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,

    /// Go on although others may read the authority's key
    #[arg(long)]
    insecure_key: bool,
}

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
            serve(args.serve.listen, config, host(&args.serve))?;
        }
    }
    Ok(exit::HEALTHY)
}

impl ServeArgs {
    fn security(&self) -> Security {
        match (&self.ca, &self.identity) {
            (Some(ca), Some(identity)) => Security::Tls(TlsFiles {
                ca: ca.clone(),
                identity: identity.clone(),
                insecure_key: self.insecure_key,
                revoked: self.revoked.clone(),
            }),
            _ if self.plain => Security::Plain,
            _ => Security::Loopback,
        }
    }

    fn door(&self, name: &str) -> Option<Door> {
        let security = match (&self.ca, &self.planner_identity) {
            (Some(ca), Some(identity)) => Security::Tls(TlsFiles {
                ca: ca.clone(),
                identity: identity.clone(),
                insecure_key: self.insecure_key,
                revoked: None,
            }),
            _ if self.plain => Security::Plain,
            _ => Security::Loopback,
        };
        let planner = PlannerAddress { address: self.planner.clone()?, security, name: name.to_owned() };
        let (group, most_a_second) = (self.steer_group.clone(), self.steer_rate);
        Some(Door { socket: self.steer.clone()?, group, most_a_second, planner, machine: Machine::live() })
    }

    fn limits(&self) -> Limits {
        let memory = self.max_memory.map_or_else(Limits::half_of_memory, |size| size.0);
        Limits { qps: self.max_qps, mrs: self.max_mrs, memory_bytes: memory }
    }
}

/// This machine; if it cannot drive a device, it reports to controllers what is missing.
fn host(args: &ServeArgs) -> Box<dyn VerbsHost> {
    let host = verbs_host(args).unwrap_or_else(|missing| {
        note(&format!("this agent cannot run traffic, and reports that to controllers: {missing}"));
        Box::new(kelpie_agent::AbsentHost::new(missing))
    });
    Box::new(kelpie_agent::Netem::new(host, args.netem.clone()))
}

#[cfg(feature = "verbs")]
fn verbs_host(args: &ServeArgs) -> Result<Box<dyn VerbsHost>, String> {
    match kelpie_verbs::LibibverbsHost::new(args.device.clone(), args.gid_index, args.limits().memory_bytes) {
        Ok(host) => Ok(Box::new(host)),
        Err(error) => Err(kelpie_engine::chain(&error)),
    }
}

#[cfg(not(feature = "verbs"))]
fn verbs_host(_: &ServeArgs) -> Result<Box<dyn VerbsHost>, String> {
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
        made.push(("agent", authority.issue(&names, Purpose::Agent, validity)?));
    }
    if let Some(name) = &args.controller {
        made.push(("controller", authority.issue(std::slice::from_ref(name), Purpose::Controller, validity)?));
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
