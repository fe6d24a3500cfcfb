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
