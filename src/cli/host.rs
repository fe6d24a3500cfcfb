//! Arguments of `kelpie host`. What it does lives in `commands::host`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use kelpie_spaces::Host;

use crate::args::parse_setting;
use crate::cli::notify::NotifyArgs;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Write the inside of a host (topology/1) as its files say it: PCIe tree, sockets, memory, GPUs, settings
    #[command(after_help = "Readings that bear on links follow as comments. Root sees more: ACS and ATS.\n\
        Exit status: 0 it was written, 2 there is no RDMA device on PCI.\n\n\
        Examples:\n  \
        kelpie host topology > host.yaml\n  \
        kelpie host topology --json | jq '.readings[] | select(.state == \"warn\")'\n  \
        kelpie host topology --root recorded/\n  \
        lspci -vvv | kelpie host topology --from - > host.yaml\n  \
        kelpie host topology --from nccl.xml --json | jq .devices\n  \
        kelpie host topology --subsystem sim:a100 > a100.yaml")]
    Topology(TopologyArgs),
    /// Measure loopback of every RNIC of a host to every memory and GPU, as matrix/1
    #[command(
        after_help = "Bandwidth comes from large messages and latency from small ones; each cell is repeated until it \
        is stable.\nA simulated host is one of a100, h100, nps4, storage and two-socket, or a topology file. Its parts \
        have\nparameters: gbps, width, latency_ns and load of links, acs of switches, ats and service_gbps of RNICs, \
        peer_gbps of\nsockets, and nic.* of the RNICs' model.\n\
        Exit status: 0 it was measured, 2 it could not be, or not to the end.\n\n\
        Examples:\n  \
        kelpie host matrix --subsystem sim:a100 --out healthy.json\n  \
        kelpie host matrix --subsystem sim:a100 --set 'psw0|cpu0.width=0.25' --out m.json\n  \
        kelpie host matrix --subsystem sim:a100 --set psw0.acs=on --json | \\\n    \
        kelpie host diagnose - --topology a100.yaml"
    )]
    Matrix(MatrixArgs),
    /// Watch a host: measure it by and by, and say what is news
    #[command(
        after_help = "An idle host is measured once a period, a busy one when an RNIC pauses its neighbour or drops \
        packets; then\nonly what an RNIC alone limits. Who is not healthy is measured four times more at once. With --json \
        an event is a\nline of JSON.\n\
        Exit status, by the last round: 0 healthy, 1 abnormal, 2 undecided or none.\n\n\
        Examples:\n  \
        kelpie host watch --subsystem pair.yaml --host a --topology host.yaml --history host.jsonl --json\n  \
        kelpie host watch --subsystem sim:a100 --set 'psw0|cpu0.width=0.25' --rounds 1"
    )]
    Watch(WatchHostArgs),
    /// Say which links of a host are slow, from loopback measurements, and what may be behind it
    #[command(
        after_help = "Exit status: 0 all is as it should be, 1 something is abnormal, 2 undecided or could not run.\n\
        \n\
        Examples:\n  \
        kelpie host diagnose matrix.json --topology host.yaml\n  \
        kelpie host diagnose matrix.json again1.json again2.json --topology host.yaml --baseline healthy.json\n  \
        kelpie host diagnose matrix.json --topology host.yaml --busy --json | jq .explanations"
    )]
    Diagnose(DiagnoseArgs),
}

#[derive(Debug, Args)]
pub struct TopologyArgs {
    /// Look at the files of a host below this directory, instead of at this machine
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// A simulated host: `sim:a100`, `sim:path.yaml`
    #[arg(long, short = 's', value_name = "S", conflicts_with = "root")]
    pub subsystem: Option<String>,
    /// What another program wrote of the host: NCCL's topology XML, `lspci -vvv`, `nvidia-smi topo -m`; `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "subsystem"])]
    pub from: Option<PathBuf>,
    /// Write NCCL's topology XML instead, for `NCCL_TOPO_FILE`
    #[arg(long, conflicts_with = "json")]
    pub nccl: bool,
}

/// The host that is measured.
#[derive(Debug, Args)]
pub struct MeasuredHostArgs {
    /// A simulated host, `sim:a100` or `sim:path.yaml`; `lab`, or a file that names two agents
    #[arg(long, short = 's', value_name = "S")]
    pub subsystem: String,
    /// Which host of a file that names two
    #[arg(long, value_name = "a|b", default_value = "a", value_parser = parse_host)]
    pub host: Host,
    /// The inside of a real host (topology/1): its RNICs, memories and GPUs are measured
    #[arg(long, value_name = "T.yaml")]
    pub topology: Option<PathBuf>,
    /// Change a part of a simulated host; may be repeated
    #[arg(long, value_name = "PART.KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// Share of the time for which an RNIC may be loaded
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    pub share: Share,
}

#[derive(Debug, Args)]
pub struct MatrixArgs {
    #[command(flatten)]
    pub host: MeasuredHostArgs,
    /// Others use the host: go on nevertheless, and measure only what an RNIC alone limits
    #[arg(long)]
    pub busy: bool,
    /// Write the matrix to this file as well
    #[arg(long, value_name = "M.json")]
    pub out: Option<PathBuf>,
    /// Replace that file if it is there
    #[arg(long, requires = "out")]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct WatchHostArgs {
    #[command(flatten)]
    pub host: MeasuredHostArgs,
    /// Between two rounds of an idle host
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub period: humantime::Duration,
    /// Between two rounds of a busy host whose counters are abnormal, at least
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub pause: humantime::Duration,
    /// Between two looks at traffic, pause and drops
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub look: humantime::Duration,
    /// End after so many rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Keep the last 168 rounds in this file; the healthy ones are the baseline
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Serve OpenMetrics on this loopback address, such as 127.0.0.1:9465
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    #[command(flatten)]
    pub notify: NotifyArgs,
    /// Read the links' own status on this machine, which has to be the measured one
    #[arg(long)]
    pub live: bool,
}

fn parse_host(text: &str) -> Result<Host, String> {
    Host::BOTH.into_iter().find(|host| host.to_string() == text).ok_or_else(|| "write a or b".to_owned())
}

/// A share of the time.
#[derive(Debug, Clone, Copy)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share =
            text.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok()).map(|percent| percent / 100.0);
        let share = share.filter(|share| *share > 0.0 && *share <= 1.0);
        share.map(Self).ok_or_else(|| "write a percentage above 0% and up to 100%, such as 5%".to_owned())
    }
}

#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// What was measured (matrix/1), `-` for stdin; further files are repeats, of which each cell's median counts
    #[arg(value_name = "MATRIX.json", required = true, num_args = 1..=64)]
    pub matrices: Vec<PathBuf>,
    /// The inside of the host (topology/1)
    #[arg(long, value_name = "T.yaml")]
    pub topology: PathBuf,
    /// The same matrix of the healthy host [default: compare siblings]
    #[arg(long, value_name = "B.json")]
    pub baseline: Option<PathBuf>,
    /// Fill in what the readings of causes say on this machine; the topology has to have PCI addresses
    #[arg(long)]
    pub live: bool,
    /// Fill in what the readings of causes say in the files of a host below this directory
    #[arg(long, value_name = "DIR", conflicts_with = "live")]
    pub root: Option<PathBuf>,
    /// All RNICs had other traffic meanwhile: compare each one's endpoints with each other
    #[arg(long)]
    pub busy: bool,
}
