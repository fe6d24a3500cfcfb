//! The arguments of `kelpie paths`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum PathsCommand {
    /// Find out which UDP source port takes which path between two hosts, and what is wrong with it
    #[command(
        after_help = "Both hosts need a bond of two ports. The catalog is stored with what it was measured on.\n\
        Exit status: 0 no path is faulty (with --verify: the catalog fits), 1 one is (it is stale), 2 could not probe.\n\n\
        Examples:\n  \
        kelpie paths probe --subsystem pair.yaml --out catalog.yaml\n  \
        kelpie paths probe --subsystem pair.yaml --ports 256 --json\n  \
        kelpie paths probe --subsystem pair.yaml --verify catalog.yaml"
    )]
    Probe(ProbeArgs),
    /// Run a verbs program whose QPs get source ports from the planner, and show which got which
    #[command(
        after_help = "The host's agent is to run with --steer and --planner. The program waits for an answer 50 ms at \
        most;\nwithout one its QPs are as it had them. Nothing but the source port is changed.\n\n\
        Examples:\n  \
        kelpie paths steer -- ib_write_bw -q 8 node-b\n  \
        kelpie paths steer --socket /run/kelpie/steer --json -- ./program"
    )]
    Steer(SteerArgs),
    /// Be the planner that agents ask for source ports
    #[command(
        after_help = "What is granted is on disk before it is said, so a planner that ends and comes back has lost \
        nothing.\nAgents ask it with a certificate as of a controller: `kelpie agent cert --agent PLANNER --controller \
        NODE-A`.\n\n\
        Examples:\n  \
        kelpie paths serve catalog.yaml --listen 10.0.0.9:7480 --ca certs/ca.pem --identity certs/planner.pem\n  \
        kelpie agent --listen ... --steer /run/kelpie/steer --planner 10.0.0.9:7480 --planner-identity node-a.pem"
    )]
    Serve(ServePathsArgs),
    /// Plan which path and which source port the QPs of connections take
    #[command(
        after_help = "REQUEST.yaml is paths/1: connections that come and go, parts that fail; docs/reference/cluster-files.md has \
        it.\nThe plan is the one after the last step.\n\
        Exit status: 0 each QP has a path, 1 one has none, 2 could not plan.\n\n\
        Examples:\n  \
        kelpie paths plan request.yaml --topology cluster.yaml\n  \
        kelpie paths plan request.yaml --topology cluster.yaml --leaving hashed --json"
    )]
    Plan(PlanPathsArgs),
    /// Check dual-port NICs: speed, PCIe, errors and more of each port, pairing, balance, collision, loss, failover
    #[command(
        after_help = "With --subsystem, traffic runs between the hosts: WORKLOAD.yaml, or eight QPs from a to b.\n\
        READINGS.yaml is ports/1: what was read of both ports at both ends; docs/reference/cluster-files.md has it.\n\
        Exit status: 0 no check fails, 1 one fails, 2 could not judge, or what decides was not read.\n\n\
        Examples:\n  \
        kelpie paths check --subsystem pair.yaml\n  \
        kelpie paths check --subsystem pair.yaml workload.yaml --plan catalog.yaml\n  \
        kelpie paths check --subsystem pair.yaml --port-down 'ssh leaf port 7 down' --port-up 'ssh leaf port 7 up'\n  \
        kelpie paths check readings.yaml\n  \
        kelpie paths check readings.yaml --json | jq '.checks[] | select(.state == \"fail\")'"
    )]
    Check(CheckArgs),
    /// Compare ECMP and plans on a simulated fabric with what C4P published
    #[command(after_help = "Examples:\n  \
        kelpie paths compare\n  \
        kelpie paths compare --out plots --json\n  \
        kelpie paths compare --sweep --seeds 3")]
    Compare(CompareArgs),
    /// Say what to set in NCCL and UCX where nothing steers
    #[command(after_help = "Examples:\n  \
        kelpie paths advise --library nccl --mode hash\n  \
        kelpie paths advise --library ucx --mode queue-affinity --ports 2 --json")]
    Advise(AdviseArgs),
}

#[derive(Debug, Args)]
pub struct PlanPathsArgs {
    /// Steps to follow (paths/1), `-` for stdin
    #[arg(value_name = "REQUEST.yaml")]
    pub request: PathBuf,
    /// Cluster (topology/1)
    #[arg(long, value_name = "T")]
    pub topology: PathBuf,
    /// Whether the device can choose the port by which a QP leaves
    #[arg(long, value_enum, default_value_t = LeavingArg::Chosen)]
    pub leaving: LeavingArg,
    /// Keep each QP on its path until that fails, as for devices that cannot change a port later
    #[arg(long)]
    pub no_moves: bool,
}

/// How a QP gets the port by which it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LeavingArg {
    /// By the device's own call (`mlx5dv_modify_qp_lag_port`)
    Chosen,
    /// By the bond's hash of the source port
    Hashed,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// What was read (ports/1), or with --subsystem a workload; `-` for stdin
    #[arg(value_name = "FILE", required_unless_present = "subsystem")]
    pub file: Option<PathBuf>,
    /// Check these hosts: `lab`, `dual-lab`, `sim:DUAL`, or a file that names two agents
    #[arg(long, short = 's', value_name = "S")]
    pub subsystem: Option<String>,
    /// Give QPs the source ports that this catalog plans
    #[arg(long, value_name = "CATALOG.yaml", requires = "subsystem", conflicts_with = "source_ports")]
    pub plan: Option<PathBuf>,
    /// Give QPs these source ports in turn; if they are left out, QPs have those that follow from their numbers
    #[arg(long, value_name = "PORT,PORT", requires = "subsystem", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(49152..))]
    pub source_ports: Vec<u16>,
    /// A command of this machine that takes a port down, for `failover`
    #[arg(long, value_name = "COMMAND", requires = "port_up", requires = "subsystem")]
    pub port_down: Option<String>,
    /// The command that takes it up again
    #[arg(long, value_name = "COMMAND", requires = "port_down")]
    pub port_up: Option<String>,
}

#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// The hosts: `dual-lab`, or a file that names two agents
    #[arg(long, short = 's', value_name = "S")]
    pub subsystem: String,
    /// Source ports to probe, each in both directions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..=256))]
    pub ports: u16,
    /// Where to store the catalog; an older one is replaced
    #[arg(long, short = 'o', value_name = "CATALOG.yaml", default_value = "catalog.yaml")]
    pub out: PathBuf,
    /// Leave out the latency of each source port, and with it the groups
    #[arg(long)]
    pub no_latency: bool,
    /// Probe nothing, and say whether this catalog still fits the hosts
    #[arg(long, value_name = "CATALOG.yaml", conflicts_with_all = ["out", "ports"])]
    pub verify: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SteerArgs {
    /// The socket of this host's agent
    #[arg(long, value_name = "PATH", default_value = "/run/kelpie/steer")]
    pub socket: PathBuf,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct ServePathsArgs {
    /// Catalogs, one a pair of hosts
    #[arg(value_name = "CATALOG.yaml", required = true)]
    pub catalogs: Vec<PathBuf>,
    /// Address to listen on; beyond this machine with certificates or --plain only
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7480")]
    pub listen: SocketAddr,
    /// Where to keep what was granted
    #[arg(long, value_name = "FILE", default_value = "planner.state")]
    pub state: PathBuf,
    /// How long the leases of an agent stay that is away
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub absence: humantime::Duration,
    /// Refuse catalogs that were measured longer ago
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub max_age: humantime::Duration,
    /// Certificate of the authority that has to have signed the certificate of an agent
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub ca: Option<PathBuf>,
    /// The planner's certificate and key
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub identity: Option<PathBuf>,
    /// Serial numbers of certificates that are not let in any more, a line each
    #[arg(long, value_name = "FILE", requires = "identity")]
    pub revoked: Option<PathBuf>,
    /// Go on although others may read the private key
    #[arg(long, requires = "identity")]
    pub insecure_key: bool,
    /// Neither encrypt nor authenticate, though other machines can connect
    #[arg(long, conflicts_with = "ca")]
    pub plain: bool,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Runs per figure, each with a hash of its own
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Also run settings that the publication leaves open: QPs, cables, transmit, motion
    #[arg(long)]
    pub sweep: bool,
    /// Directory for the plots, as SVG; created if it is missing
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// For whom
    #[arg(long, value_enum)]
    pub library: CommLibrary,
    /// How the bond chooses the port by which a QP leaves
    #[arg(long, value_enum)]
    pub mode: LagMode,
    /// Ports of the bond
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub ports: u32,
}

/// A communication library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CommLibrary {
    /// NVIDIA's NCCL
    Nccl,
    /// UCX
    Ucx,
}

/// How a bond chooses the port by which a QP leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LagMode {
    /// By a hash of addresses and ports
    Hash,
    /// By the QP's affinity, which the driver deals out
    QueueAffinity,
    /// One port at a time
    ActiveBackup,
}
