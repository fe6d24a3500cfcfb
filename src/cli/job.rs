//! Arguments of `kelpie job`. What it does lives in `commands::job`.

pub mod fault;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, value_parser};
use kelpie_fabric::InjectedFault;
use kelpie_spaces::units::Bytes;

use crate::cli::notify::NotifyArgs;

use fault::{parse_fault, parse_share};

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Say which rank or connection of a job is slow or hangs, from what its operations took
    #[command(
        after_help = "FILE is CSV with the heading iteration,source,destination,bytes,begin,end,entered (times in \
        microseconds,\nan empty end is what never completed), the same as JSON, what NCCL's Inspector or its example profiler \
        writes,\ndumps of PyTorch's flight recorder (JSON or pickle), or matrix/1 with completion_us; plain or as .gz. \
        Lines of other\nprograms between records are skipped.\nExit status: 0 healthy, 1 slow or hanging, 2 undecided or \
        could not run.\n\n\
        Examples:\n  \
        kelpie job diagnose operations.csv\n  \
        kelpie job diagnose inspector.log --json | jq '.verdict, .rank'\n  \
        kelpie job diagnose nccl-inspector-4711/   (one file for each process)\n  \
        kelpie job diagnose operations.csv --topology cluster.yaml   (which hosts and leaves)\n  \
        kelpie job diagnose operations.csv --now 95000000   (the job goes on, and its clock shows 95 s)"
    )]
    Diagnose(JobArgs),
    /// Follow what a job writes, and say when it becomes slow, hangs, or is well again
    #[command(
        after_help = "FILE is CSV or JSON as for `job diagnose`, not packed; it may grow, be cut, be replaced, or not be there yet.\nAn event is on stdout (one JSON object a line with --json), and goes to --exec and --webhook.\n\
        Exit status when it is interrupted: 0 healthy, 1 slow or hanging, 2 not known.\n\n\
        Examples:\n  \
        kelpie job watch operations.csv --json\n  \
        kelpie job watch inspector/*.log --state watch.json --exec 'mail -s kelpie admin'\n  \
        kelpie job watch operations.csv --topology cluster.yaml --slurm   (prints scontrol, --act runs it)\n  \
        kelpie job watch inspector/*.log --kubernetes   (prints kubectl)"
    )]
    Watch(WatchJobArgs),
    /// Run a collective on a simulated cluster, or a ring of agents, and write what its operations took
    #[command(
        after_help = "Each simulated transfer is a flow on the cluster's links; docs/explained/job-diagnosis.md says what is simulated. \
        Agents send over\ntheir RDMA devices; of the faults they know `delay`.\n\
        --fault may be given several times:\n  \
        delay:RANK:TIME      the rank comes this much later to each iteration\n  \
        pair:FROM:TO:SHARE   messages of this pair have this share of a port\n  \
        sends:RANK:SHARE, receives:RANK:SHARE, leaf:LEAF:SHARE\n  \
        stop:RANK[:ROUND]    the rank stops, before the iteration or in a round of it\n\n\
        Examples:\n  \
        kelpie job run --topology cluster.yaml --fault delay:3:2ms | kelpie job diagnose -\n  \
        kelpie job run --topology cluster.yaml --collective pairs --fault leaf:1:60% | \
        kelpie job diagnose - --topology cluster.yaml\n  \
        kelpie job run --agents ranks.yaml --size 1MiB | kelpie job diagnose -\n  \
        kelpie job run --agents ranks.yaml --qps 8 --balance catalog.yaml > records.csv"
    )]
    Run(RunJobArgs),
    /// Measure all pairs that are given, one at a time and both ways, round by round, as records for `job diagnose`
    #[command(
        after_help = "Each agent is a rank, in the order in which the pairs name it first; stderr says which. A record \
        is what one\nmessage took, one at a time.\n\n\
        Examples:\n  \
        kelpie job pairs a-b.yaml a-c.yaml b-c.yaml --rounds 20 > pairs.csv && kelpie job diagnose pairs.csv\n  \
        kelpie job pairs lab --rounds 100 > pairs.csv & kelpie job watch pairs.csv"
    )]
    Pairs(PairsArgs),
}

/// What the ranks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JobCollective {
    /// An all-reduce along a ring
    Ring,
    /// Each rank to each other one, to one at a time
    Pairs,
}

#[derive(Debug, Args)]
pub struct RunJobArgs {
    /// The cluster (topology/1)
    #[arg(long, value_name = "T.yaml", required_unless_present = "agents")]
    pub topology: Option<PathBuf>,
    /// Run it on real hosts: agents that are the ranks (ranks/1)
    #[arg(long, value_name = "RANKS.yaml", conflicts_with_all = ["topology", "ranks", "noise", "is_planned"])]
    pub agents: Option<PathBuf>,
    /// Of agents: what a rank does before each iteration
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_pause, requires = "agents")]
    pub pause: Duration,
    /// Of agents: how long nothing may happen before the job is given up
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_patience, requires = "agents")]
    pub patience: Duration,
    /// Of agents: QPs that share each message
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=64), requires = "agents")]
    pub qps: u32,
    /// Of agents: move QPs away from slow ports, by their completion times; where source ports lead says this catalog
    /// of `paths probe` (catalog/1)
    #[arg(long, value_name = "CATALOG.yaml", requires = "agents")]
    pub balance: Option<PathBuf>,
    /// Ranks [default: one for each NIC]
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// What they do
    #[arg(long, value_enum, default_value_t = JobCollective::Ring)]
    pub collective: JobCollective,
    /// What each rank contributes to the ring, or sends to each other one
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse_size)]
    pub size: u64,
    /// How often
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub iterations: u32,
    /// What is wrong
    #[arg(long, value_name = "FAULT", value_parser = parse_fault)]
    pub fault: Vec<InjectedFault>,
    /// From which iteration on [default: half of them]
    #[arg(long, value_name = "N")]
    pub from_iteration: Option<u32>,
    /// One standard deviation of what transfers and computing take
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_share)]
    pub noise: f64,
    /// Plan the source ports of connections; else they are random, as without Kelpie
    #[arg(long = "planned")]
    pub is_planned: bool,
}

#[derive(Debug, Args)]
pub struct PairsArgs {
    /// Files of pairs, `lab`, or simulated subsystems
    #[arg(value_name = "SUBSYSTEM", required = true, num_args = 1..=4096)]
    pub subsystems: Vec<String>,
    /// How often each pair is measured
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rounds: u32,
    /// Size of a message
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_size)]
    pub size: u64,
}

/// A size of messages.
fn parse_size(text: &str) -> Result<u64, String> {
    let Bytes(bytes) = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    if (1..=1 << 40).contains(&bytes) { Ok(bytes) } else { Err("write 1 byte to 1 TiB".to_owned()) }
}

#[derive(Debug, Args)]
pub struct JobArgs {
    /// What operations took: files of one job, a folder of them, a pattern such as 'dumps/*.log.gz', or `-` for stdin
    #[arg(value_name = "FILE", required = true, num_args = 1..=65536)]
    pub files: Vec<PathBuf>,
    /// What nccl-tests printed on this cluster when all was well: collectives that take half as long again are slow
    #[arg(long, value_name = "NCCL-TESTS.txt")]
    pub baseline: Option<PathBuf>,
    /// The job goes on, and this is its clock: what is open for under 30 s does not hang [default: it was given up]
    #[arg(long, value_name = "MICROSECONDS")]
    pub now: Option<f64>,
    /// The cluster that the job runs on (topology/1): hosts and leaves of what is slow
    #[arg(long, value_name = "T.yaml")]
    pub topology: Option<PathBuf>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scheduler").multiple(true))]
pub struct WatchJobArgs {
    /// What operations took; several files of one job together
    #[arg(value_name = "FILE", required = true, num_args = 1..=4096)]
    pub files: Vec<PathBuf>,
    /// The cluster that the job runs on (topology/1): hosts and leaves of what is slow
    #[arg(long, value_name = "T.yaml")]
    pub topology: Option<PathBuf>,
    #[command(flatten)]
    pub notify: NotifyArgs,
    /// Say with each event how Slurm drains its hosts, and takes them back when the job is well again; names of hosts
    /// come from the records, or from `host_names` of the topology
    #[arg(long, group = "scheduler")]
    pub slurm: bool,
    /// The same for Kubernetes: cordon, and the condition `KelpieDegraded` of the node
    #[arg(long, group = "scheduler")]
    pub kubernetes: bool,
    /// Drain them: run `scontrol` or `kubectl` and not only print it
    #[arg(long, requires = "scheduler")]
    pub act: bool,
    /// Take hosts back too that this watcher drained, when their job is well again
    #[arg(long, requires = "act")]
    pub resume: bool,
    /// Hosts that are drained at most
    #[arg(long, value_name = "N", default_value_t = 2, requires = "act")]
    pub drain_at_most: usize,
    /// Keep here what a restart needs: then no event is lost, and none is sent twice under another number
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// How often the files are looked at
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// How long nothing may come before the job hangs, or is over
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_patience)]
    pub patience: Duration,
}

fn parse_between(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|_| "write a time such as 500ms, 30s or 5m".to_owned())?;
    if (least..=most).contains(&time) {
        Ok(time)
    } else {
        Err(format!("write {} to {}", humantime::format_duration(least), humantime::format_duration(most)))
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_between(text, Duration::from_millis(50), Duration::from_secs(5))
}

fn parse_pause(text: &str) -> Result<Duration, String> {
    parse_between(text, Duration::ZERO, Duration::from_secs(30))
}

fn parse_patience(text: &str) -> Result<Duration, String> {
    parse_between(text, Duration::from_secs(1), Duration::from_hours(24))
}
