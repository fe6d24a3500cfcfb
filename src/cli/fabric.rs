//! The arguments of `kelpie fabric`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum FabricCommand {
    /// Compute the max-min fair rates of jobs on a cluster
    #[command(
        after_help = "TOPOLOGY.yaml is topology/1 with `cluster:`, JOBS.yaml is job/1; docs/reference/cluster-files.md has both. \
        FILE is JSON:\nlinks with capacities, flows of jobs over them.\n\n\
        Examples:\n  \
        kelpie fabric rates cluster.yaml jobs.yaml\n  \
        kelpie fabric rates cluster.yaml jobs.yaml --routing planned --json\n  \
        kelpie fabric rates --problem problem.json --json"
    )]
    Rates(RatesArgs),
    /// Simulate what GPUs do on a fabric, packet by packet: how long each step takes, and what the network does
    #[command(
        after_help = "TOPOLOGY is topology/1 with `fabric:`, or a topology file of SimAI's or HPCC's simulator; JOB.yaml is \
        job/1 with\n`programs:`. docs/reference/fabric-files.md has both, and all settings.\n\n\
        Examples:\n  \
        kelpie fabric topology spectrum-x --gpus 256 > fabric.yaml\n  \
        kelpie fabric run fabric.yaml job.yaml\n  \
        kelpie fabric run fabric.yaml job.yaml --cc hpcc --set buffer=16777216 --json\n  \
        kelpie fabric run fabric.yaml job.yaml --level flows   (max-min fair rates, no queues)"
    )]
    Run(RunArgs),
    /// Compare congestion control, settings or levels of detail for the same job, side by side
    #[command(after_help = "Examples:\n  \
        kelpie fabric compare fabric.yaml job.yaml --cc dcqcn --cc hpcc\n  \
        kelpie fabric compare fabric.yaml job.yaml --levels analytic,flows,packets\n  \
        kelpie fabric compare fabric.yaml job.yaml --variant pfc=0 --variant pfc=1 --json")]
    Compare(CompareArgs),
    /// Simulate flows from files of HPCC's or SimAI's simulator, as these would
    #[command(after_help = "Example:\n  \
        kelpie fabric flows --topology topo.txt --flows flow.txt --config SimAI.conf --peer simai --json")]
    Flows(FlowsArgs),
    /// Print a fabric by a template: spectrum-x, alibaba-hpn, dcn, fat-tree and others
    #[command(
        after_help = "Templates: spectrum-x, alibaba-hpn, alibaba-hpn-dual-plane, dcn, dcn-dual-tor, fat-tree, three-tier, dragonfly.\n\n\
        Examples:\n  \
        kelpie fabric topology spectrum-x --gpus 256\n  \
        kelpie fabric topology dcn --gpus 512 --set spines=64 --set nic_gbps=200\n  \
        kelpie fabric topology fat-tree --gpus 128 --links   (each link by the names of its ends)"
    )]
    Topology(TopologyArgs),
}

#[derive(Debug, Args)]
pub struct RatesArgs {
    /// Cluster (topology/1)
    #[arg(value_name = "TOPOLOGY.yaml", required_unless_present = "problem", requires = "jobs")]
    pub topology: Option<PathBuf>,
    /// Jobs on it (job/1)
    #[arg(value_name = "JOBS.yaml")]
    pub jobs: Option<PathBuf>,
    /// Solve this problem instead, given as links and flows
    #[arg(long, value_name = "FILE", conflicts_with_all = ["topology", "jobs", "routing", "solver"])]
    pub problem: Option<PathBuf>,
    /// How source ports are chosen
    #[arg(long, value_enum, default_value_t = Routing::Ecmp)]
    pub routing: Routing,
    /// Whether the flows of a job move together
    #[arg(long, value_enum, default_value_t = Motion::Lockstep)]
    pub solver: Motion,
}

/// How source ports are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Routing {
    /// At random, as without Kelpie
    Ecmp,
    /// By the planner
    Planned,
}

/// Whether the flows of a job move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Motion {
    /// All at the rate of the slowest
    Lockstep,
    /// Each at its own rate
    Independent,
}

#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// Fabric (topology/1, or a file of SimAI's or HPCC's simulator)
    pub topology: PathBuf,
    /// What its GPUs do (job/1)
    #[arg(value_name = "JOB.yaml")]
    pub job: PathBuf,
    /// Change a setting; docs/reference/fabric-files.md lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Take all settings from a configuration of SimAI's simulator, and use QPs as it does
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Threads; the answer does not depend on them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Congestion control: none, dcqcn, dcqcn-paper, dcqcn-connectx, hpcc, pint, timely, dctcp, swift
    #[arg(long, default_value = "dcqcn", conflicts_with = "config")]
    pub cc: String,
    /// How much detail
    #[arg(long, value_enum, default_value_t = Detail::Packets)]
    pub level: Detail,
    /// Write a line for each transfer: ends, size, when it was posted and when it arrived
    #[arg(long, value_name = "FILE.csv")]
    pub transfers: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Congestion control to compare; several times
    #[arg(long, default_value = "dcqcn", conflicts_with = "config")]
    pub cc: Vec<String>,
    /// Levels of detail to compare
    #[arg(long, value_enum, value_delimiter = ',', default_value = "packets")]
    pub levels: Vec<Detail>,
    /// Run the job on these agents too, one for each GPU (ranks/1); one `all_reduce` by the algorithm ring
    #[arg(long, value_name = "RANKS.yaml")]
    pub agents: Option<PathBuf>,
    /// A setting whose values are compared; several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub variant: Vec<String>,
}

#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// Topology file
    #[arg(long)]
    pub topology: PathBuf,
    /// Flow file
    #[arg(long)]
    pub flows: PathBuf,
    /// Configuration file
    #[arg(long)]
    pub config: PathBuf,
    /// Whose files they are
    #[arg(long, value_enum)]
    pub peer: PeerName,
    /// Threads; the answer does not depend on them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
}

#[derive(Debug, Args)]
pub struct TopologyArgs {
    /// Template
    pub template: String,
    /// GPUs, each with a NIC
    #[arg(long)]
    pub gpus: u32,
    /// A measure that differs from the template's
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Print the links instead, by the names of their ends
    #[arg(long)]
    pub links: bool,
}

/// How much detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Detail {
    /// Packets, queues, PFC, congestion control
    Packets,
    /// Max-min fair rates of flows
    Flows,
    /// Formulas
    Analytic,
}

/// Another simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PeerName {
    /// SimAI's
    Simai,
    /// HPCC's
    Hpcc,
}
