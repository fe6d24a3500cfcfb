//! Arguments of `kelpie host`. What it does lives in `commands::host`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Write the inside of a host (topology/1) as its files say it: PCIe tree, sockets, memory, GPUs, settings
    #[command(after_help = "Readings that bear on links follow as comments. Root sees more: ACS and ATS.\n\
        Exit status: 0 it was written, 2 there is no RDMA device on PCI.\n\n\
        Examples:\n  \
        kelpie host topology > host.yaml\n  \
        kelpie host topology --json | jq '.readings[] | select(.state == \"warn\")'\n  \
        kelpie host topology --root recorded/")]
    Topology(TopologyArgs),
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
    /// The same, of the files of a host below this directory
    #[arg(long, value_name = "DIR", conflicts_with = "live")]
    pub root: Option<PathBuf>,
    /// All RNICs had other traffic meanwhile: compare each one's endpoints with each other
    #[arg(long)]
    pub busy: bool,
}
