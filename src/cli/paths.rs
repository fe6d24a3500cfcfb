//! The arguments of `kelpie paths`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum PathsCommand {
    /// Plan which path and which source port the QPs of connections take
    #[command(
        after_help = "REQUEST.yaml is paths/1: connections that come and go, parts that fail; docs/paths.md has \
        it.\nThe plan is the one after the last step.\n\
        Exit status: 0 each QP has a path, 1 one has none, 2 could not plan.\n\n\
        Examples:\n  \
        kelpie paths plan request.yaml --topology cluster.yaml\n  \
        kelpie paths plan request.yaml --topology cluster.yaml --leaving hashed --json"
    )]
    Plan(PlanArgs),
    /// Judge readings of dual-port NICs: pairing, balance, diversity, collision, loss, failover
    #[command(
        after_help = "READINGS.yaml is ports/1: what was read of both ports at both ends; docs/paths.md has it.\n\
        Exit status: 0 no check fails, 1 one fails, 2 could not judge.\n\n\
        Examples:\n  \
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
pub struct PlanArgs {
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
    /// What was read (ports/1), `-` for stdin
    #[arg(value_name = "READINGS.yaml")]
    pub readings: PathBuf,
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
    pub library: Library,
    /// How the bond chooses the port by which a QP leaves
    #[arg(long, value_enum)]
    pub mode: LagMode,
    /// Ports of the bond
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub ports: u32,
}

/// A communication library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Library {
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
