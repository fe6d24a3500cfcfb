//! Arguments of `kelpie agent`. What it does lives in `commands::agent`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use kelpie_agent::Limits;
use kelpie_examine::simulated_host::SimulatedFault;
use kelpie_spaces::Bytes;

use crate::args::parse_setting;

/// `kelpie agent` and what belongs to it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentArgs {
    #[command(subcommand)]
    pub command: Option<AgentCommand>,
    #[command(flatten)]
    pub serve: ServeAgentArgs,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Make certificates: an authority, and one file per agent and controller
    #[command(after_help = "Example:\n  \
        kelpie agent cert --out certs --agent 10.0.0.1,node-a --agent 10.0.0.2,node-b --controller\n\n\
        On each host: its own file and ca.pem. ca.key signs further certificates: keep it with the controller.\n\
        A serial number that is printed revokes a certificate: a line of the agents' --revoked FILE.")]
    Cert(CertArgs),
}

/// How to serve.
#[derive(Debug, Args)]
pub struct ServeAgentArgs {
    /// Address to listen on; beyond this machine with certificates or --plain only
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7471")]
    pub listen: SocketAddr,

    /// Be a simulated host instead: `F`, `path.yaml`; for trials of pairs and fleets without RDMA devices
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["device", "gid_index", "netem"])]
    pub simulated: Option<String>,
    /// Override a parameter of its model; may be repeated
    #[arg(long, value_name = "path.to.key=value", value_parser = parse_setting, requires = "simulated")]
    pub set: Vec<(String, String)>,
    /// Fail like a bad host, from the start or after N sound set-ups
    #[arg(long, value_name = "hang|lie|die[:N]", requires = "simulated", hide = true)]
    pub simulated_fault: Option<SimulatedFault>,

    /// RDMA device for controllers that name none; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,

    /// GID index for controllers that name none; if it is left out, `RoCEv2` over IPv4 comes first
    #[arg(long, value_name = "N")]
    pub gid_index: Option<u8>,

    /// Certificate of the authority that has to have signed the certificate of a controller
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub ca: Option<PathBuf>,

    /// This agent's certificate and key
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub identity: Option<PathBuf>,

    /// Serial numbers of certificates of controllers that are not let in any more, a line each; read again for each
    /// connection
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub revoked: Option<PathBuf>,

    /// Go on although others may read the private key
    #[arg(long, requires = "identity")]
    pub insecure_key: bool,

    /// Neither encrypt nor authenticate, though other machines can connect
    #[arg(long, conflicts_with = "ca")]
    pub plain: bool,

    /// Socket on which programs of this host ask for source ports (`kelpie paths steer`)
    #[arg(long, value_name = "PATH", requires = "planner")]
    pub steer: Option<PathBuf>,

    /// Group whose programs may ask; if it is left out, only this user's
    #[arg(long, value_name = "NAME", requires = "steer")]
    pub steer_group: Option<String>,

    /// Questions of programs that are answered a second
    #[arg(long, value_name = "N", requires = "steer", default_value_t = 1000)]
    pub steer_rate: u32,

    /// Where the planner listens that knows the paths (`kelpie paths serve`)
    #[arg(long, value_name = "ADDRESS:PORT", requires = "steer")]
    pub planner: Option<String>,

    /// Certificate and key for the planner, as of a controller; with --ca
    #[arg(long, value_name = "FILE", requires = "planner", requires = "ca")]
    pub planner_identity: Option<PathBuf>,

    /// Network interface on which this agent may set loss and delay (netem) for workloads that ask for them
    #[arg(long, value_name = "INTERFACE")]
    pub netem: Option<String>,

    /// Most QPs of an experiment
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = Limits::QPS)]
    pub max_qps: u64,

    /// Most memory regions of an experiment
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = Limits::MRS)]
    pub max_mrs: u64,

    /// Most memory of an experiment, for memory regions and queues, such as 16GiB [default: half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = some_memory)]
    pub max_memory: Option<Bytes>,
}

/// An amount of memory that something fits into.
fn some_memory(text: &str) -> Result<Bytes, String> {
    match Bytes::from_str(text).map_err(|error| error.to_string())? {
        Bytes(0) => Err("nothing fits into that: write a size such as 16GiB".to_owned()),
        size => Ok(size),
    }
}

/// What certificates to make.
#[derive(Debug, Args)]
#[group(required = true, multiple = true, args = ["agent", "controller"])]
pub struct CertArgs {
    /// Folder of the authority and its certificates; made if it is missing
    #[arg(long, value_name = "DIR", default_value = "certs")]
    pub out: PathBuf,

    /// One more agent: its address or host name as in the pair file, and further ones; may be repeated
    #[arg(long, value_name = "NAME[,NAME...]")]
    pub agent: Vec<String>,

    /// One more controller, under this name
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "controller")]
    pub controller: Option<String>,

    /// How long they are valid
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,

    /// Go on although others may read the authority's key
    #[arg(long)]
    pub insecure_key: bool,
}
