//! The arguments: one type per command, with its help and examples. What they do lives in `commands`.

pub mod agent;
pub mod bench;
pub mod calibrate;
mod campaign;
pub mod doctor;
pub mod fabric;
pub mod findings;
mod host;
pub mod inventory;
mod job;
mod notify;
pub mod paths;
pub mod qualify;
pub mod recipe;
pub mod trace;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum, ValueHint};
use kelpie_store::{CampaignId, Database};

use crate::args::{Common, DatabaseArgs, SubsystemArgs, database, parse_id, parse_setting};
use agent::AgentArgs;
use bench::BenchCommand;
use calibrate::CalibrateArgs;
use doctor::DoctorArgs;
use findings::FindingsCommand;
use recipe::RecipeCommand;
use trace::TraceArgs;

pub use campaign::{
    BackupArgs, BaselineArgs, CampaignCommand, CampaignOrFinding, ExportCampaignArgs, GateArgs, LabelArgs,
    LabelCommandArgs, LimitArgs, ResumeArgs, RmArgs, RunArgs, ShowArgs,
};
pub use host::{DiagnoseArgs, HostCommand, MatrixArgs, MeasuredHostArgs, TopologyArgs, WatchHostArgs};
pub use job::{JobArgs, JobCollective, JobCommand, PairsArgs, RunJobArgs, WatchJobArgs};

/// Finds the workloads that break an RDMA subsystem, before an application does.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Exit status: 0 healthy, 1 anomalous, 2 could not run (to its end).\n\n\
                  Examples:\n  \
                  kelpie campaign run --subsystem sim:F --budget 1500\n  \
                  kelpie measure workload.yaml --subsystem sim:F --explain\n  \
                  kelpie mfs check workload.yaml"
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one workload once and judge it
    #[command(after_help = "Exit status: 0 healthy, 1 anomalous, 2 inconclusive or could not run.\n\n\
        Examples:\n  \
        kelpie measure workload.yaml --subsystem sim:F\n  \
        kelpie measure workload.yaml --subsystem sim:F --explain --set caches.receive_chains.kib=48\n  \
        kelpie measure workload.yaml --subsystem pair.yaml --latency\n  \
        kelpie space sample full --seed 7 | kelpie measure - --subsystem sim:F --json")]
    Measure(MeasureArgs),
    /// Search for anomalies
    #[command(subcommand)]
    Campaign(CampaignCommand),
    /// Watch a campaign as it goes: progress, signals, findings
    #[command(
        after_help = "It only reads the database, so the campaign does not wait for it. If its output is no terminal, \
        and\nwith --json, it shows once how the campaign stands.\nExit status: 0 it was shown, 2 it could not be.\n\n\
        Keys: up, down, j, k choose a finding; PgUp, PgDn scroll it; left, right scroll the signals; ? shows the \
        keys;\nq, Esc and Ctrl-C quit.\n\n\
        Examples:\n  \
        kelpie watch\n  \
        kelpie watch 3 --db campaigns.db\n  \
        kelpie watch --json | jq .seconds_left\n  \
        kelpie watch --listen 127.0.0.1:9464   (then curl http://127.0.0.1:9464/metrics)"
    )]
    Watch(WatchArgs),
    /// Look at spaces of workloads, of the catalog or of files
    #[command(subcommand)]
    Space(SpaceCommand),
    /// Look at subsystems, simulated and real
    #[command(subcommand)]
    Subsystem(SubsystemCommand),
    /// Look at the minimal feature sets (MFS) of findings
    #[command(subcommand)]
    Mfs(MfsCommand),
    /// Say what became of findings between two campaigns: fixed, remains, changed, new
    #[command(after_help = "Every finding's workload is measured on the subsystem of the other campaign, as that was \
        stored.\n\
        Exit status: 0 nothing is new or doubtful, 1 something is, 2 could not run.\n\n\
        Examples:\n  \
        kelpie diff 3 7\n  \
        kelpie diff 3 7 --out comparison   (then open comparison/index.html)\n  \
        kelpie diff 1 1 --db old-firmware.db --against new-firmware.db --json")]
    Diff(DiffArgs),
    /// Write a campaign as a site to open in a browser, with summaries for CI systems
    #[command(after_help = "The site needs no network and no server: open DIR/index.html.\n\
        Exit status: 0 it was written, 1 the gate is red (--gate), 2 the gate is unknown, or it could not be written.\n\n\
        Examples:\n  \
        kelpie report --out report\n  \
        kelpie report 3 --out report --force --db campaigns.db\n  \
        kelpie report --out report --gate --gate-baseline accepted.yaml   (junit.xml passes what is accepted)\n  \
        kelpie report --out report --json && cat report/summary.md >> \"$GITHUB_STEP_SUMMARY\"")]
    Report(ReportArgs),
    /// Write and replay recipes: findings made portable
    #[command(subcommand)]
    Recipe(RecipeCommand),
    /// Import findings of others
    #[command(subcommand)]
    Findings(FindingsCommand),
    /// Run a verbs program and write what it does as a workload and a space
    #[command(after_help = "The program prints as usual; with --json its output goes to stderr. DIR then holds:\n  \
        workload.yaml  what it does all the time; host a is this host\n  \
        space.yaml     everything it did, from least to most\n  \
        trace.json     the record, which --from and --peer read\n\
        Exit status: 0 the record was written, whatever the program's own; 2 it could not be.\n\n\
        Examples:\n  \
        kelpie trace --out app -- ib_write_bw -d mlx5_0 -q 4 server\n  \
        kelpie mfs check app/workload.yaml\n  \
        kelpie trace --from app --peer of-the-server --out both")]
    Trace(TraceArgs),
    /// Score search algorithms
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Fit the parameters of a simulated subsystem to measurements of a real pair
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Exit status: 0 fitted, 1 fitted but rows fight, the fit did not converge or held-back rows are \
        off by more\nthan 10 % in the median, 2 no model was written.\n\n\
        Examples:\n  \
        kelpie calibrate plan --base F --subsystem pair.yaml > table.csv\n  \
        kelpie calibrate table.csv --base F --out mine.yaml\n  \
        kelpie calibrate table.csv --out mine.yaml --force --parameters pcie.gbps,port.max_mpps --json\n  \
        kelpie measure workload.yaml --subsystem sim:mine.yaml"
    )]
    Calibrate(CalibrateArgs),
    /// Plan the paths of QPs over dual-port NICs and fabrics, after C4P
    #[command(subcommand)]
    Paths(paths::PathsCommand),
    /// Compute what jobs get from a fabric of many hosts
    #[command(subcommand)]
    Fabric(fabric::FabricCommand),
    /// Make and check inventories: the hosts of a cluster
    #[command(subcommand)]
    Inventory(inventory::InventoryCommand),

    /// Qualify a fleet: measure its hosts, learn what healthy ones measure, judge nodes, select checks
    #[command(subcommand)]
    Qualify(qualify::QualifyCommand),
    /// Serve this host to a controller
    #[command(after_help = "It serves until a signal ends it. docs/guides/two-hosts.md walks through two hosts.\n\
        Exit status: 0 a signal ended it, 2 it could not serve, or a device did not release its objects.\n\n\
        Examples:\n  \
        kelpie agent --listen 10.0.0.1:7471 --ca ca.pem --identity agent.pem\n  \
        kelpie agent --device mlx5_0   (on this machine only, for ssh -L or a try-out)\n  \
        kelpie agent --simulated F --set port.line_rate_gbps=50   (a slow host without a device)")]
    Agent(AgentArgs),
    /// Check this host for what spoils measurements, with the evidence and the repair
    #[command(after_help = "Exit status: 0 no check fails, 1 a check fails, 2 the doctor could not look.\n\n\
        Examples:\n  \
        kelpie doctor\n  \
        kelpie doctor mlx5_0 --verbose\n  \
        kelpie doctor mlx5_0 --traffic-class 104\n  \
        ssh other kelpie doctor --json | kelpie doctor --against -")]
    Doctor(DoctorArgs),
    /// Look inside a host: which of its links is slow, and why
    #[command(subcommand)]
    Host(HostCommand),
    /// Look at a job: which of its ranks or connections is slow or hangs
    #[command(subcommand)]
    Job(JobCommand),
    /// Print the JSON schema of a file format, for editors and other programs
    #[command(after_help = "docs/reference/files.md describes the formats.\n\n\
        Examples:\n  \
        kelpie schema workload > workload-1.schema.json\n  \
        kelpie schema space | jq '.properties | keys'")]
    Schema(SchemaArgs),
    /// Write manual pages and shell completions
    #[command(after_help = "`make install` does this.\n\nExample:\n  kelpie generate --out ~/.local")]
    Generate(PagesArgs),
}

#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Workload file (workload/1), `-` for stdin
    #[arg(value_name = "WORKLOAD.yaml")]
    pub workload: PathBuf,
    #[command(flatten)]
    pub subsystem: SubsystemArgs,
    /// Add what limits the traffic, and which parts relieve it (simulated subsystems)
    #[arg(long)]
    pub explain: bool,
    /// Add percentiles of the time from post to completion (real pairs)
    #[arg(long)]
    pub latency: bool,
}

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The file's format
    #[arg(value_name = "FORMAT")]
    pub format: SchemaFormat,
}

/// The formats that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaFormat {
    /// What two hosts do: workload/1
    Workload,
    /// A set of workloads: space/1
    Space,
    /// A simulated subsystem: model/2
    Model,
    /// Two hosts with agents: pair/1
    Pair,
    /// The hosts of a cluster: inventory/1
    Inventory,
    /// A finding made portable: recipe/1
    Recipe,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Campaign [default: the latest]
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<CampaignId>,
    /// Serve it as OpenMetrics at this address of loopback, such as 127.0.0.1:9464; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Campaign [default: the latest]
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<CampaignId>,
    /// Directory to write; created if it is missing
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: PathBuf,
    /// Replace the report that is in DIR
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub gate: GateArgs,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Subcommand)]
pub enum SpaceCommand {
    /// List the catalog
    #[command(after_help = "Example:\n  kelpie space list")]
    List,
    /// Print a space as YAML
    #[command(after_help = "Example:\n  kelpie space show rpc-library > mine.yaml")]
    Show(SpaceArgs),
    /// Check a space file
    #[command(after_help = "Example:\n  kelpie space check mine.yaml")]
    Check(SpaceArgs),
    /// Say how many workloads a space holds
    #[command(after_help = "Example:\n  kelpie space count full")]
    Count(SpaceArgs),
    /// Print a space with fewer values: what an application does
    #[command(after_help = "Examples:\n  \
        kelpie space restrict full --only qp_type=RC --only opcode=SEND,WRITE --max message_max=64KiB > app.yaml\n  \
        kelpie space restrict rpc-library --max qps=64 > app.yaml && kelpie campaign run -s sim:F --space app.yaml")]
    Restrict(RestrictArgs),
    /// Print random workloads of a space as YAML
    #[command(after_help = "Examples:\n  \
        kelpie space sample full > workload.yaml\n  \
        kelpie space sample full --seed 3 --number 10 --json")]
    Sample(SampleArgs),
}

#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// Catalog name or file (space/1)
    #[arg(value_name = "X")]
    pub space: String,
}

#[derive(Debug, Args)]
pub struct RestrictArgs {
    #[command(flatten)]
    pub space: SpaceArgs,
    /// Keep only these values of a dimension; may be repeated
    #[arg(long, value_name = "KEY=V[,V...]", value_parser = parse_setting)]
    pub only: Vec<(String, String)>,
    /// Keep this value and those above; may be repeated
    #[arg(long, value_name = "KEY=V", value_parser = parse_setting)]
    pub min: Vec<(String, String)>,
    /// Keep this value and those below; may be repeated
    #[arg(long, value_name = "KEY=V", value_parser = parse_setting)]
    pub max: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct SampleArgs {
    #[command(flatten)]
    pub space: SpaceArgs,
    /// How many workloads
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub number: u32,
}

#[derive(Debug, Subcommand)]
pub enum SubsystemCommand {
    /// List the simulated subsystems
    #[command(after_help = "Example:\n  kelpie subsystem list")]
    List,
    /// Print a subsystem's model or pair file as YAML
    #[command(after_help = "Example:\n  kelpie subsystem show sim:F > mine.yaml")]
    Show(NamedSubsystem),
    /// Check that a subsystem can be measured; for a real pair, that both agents answer
    #[command(after_help = "Examples:\n  kelpie subsystem check sim:mine.yaml\n  kelpie subsystem check pair.yaml")]
    Check(NamedSubsystem),
    /// Draw a model that nobody tuned for: parameters within published ranges, a cache far too small, a path far too
    /// narrow
    #[command(
        long_about = "Draw a model that nobody tuned for: parameters within published ranges, and on purpose a cache \
        that is far too\nsmall and a path that is far too narrow; docs/reference/generated-subsystems.md has the ranges. Equal seeds \
        give equal files.",
        after_help = "Examples:\n  kelpie subsystem generate --seed 7 --out seven.yaml\n  \
        kelpie bench search --subsystem sim:seven.yaml"
    )]
    Generate(GenerateArgs),
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// File to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct NamedSubsystem {
    /// `sim:F`, `sim:path.yaml`, `lab`, or a file that names two agents
    #[arg(value_name = "S")]
    pub subsystem: String,
}

#[derive(Debug, Subcommand)]
pub enum MfsCommand {
    /// List the findings' minimal feature sets
    #[command(after_help = "Example:\n  kelpie mfs list --campaign 3")]
    List(MfsListArgs),
    /// Say whether a workload is anomalous, likely so, safe or unknown, and what to change
    #[command(
        after_help = "Exit status: 0 safe, 1 anomalous or likely so, 2 too little is known, or it could not run.\n\n\
        Examples:\n  kelpie mfs check workload.yaml && echo safe\n  \
        kelpie mfs check workload.yaml --measure sim:F"
    )]
    Check(MfsCheckArgs),
    /// Measure the minimal feature set of one anomalous workload: what it needs, and from where on
    #[command(
        long_about = "Bring an anomalous workload down to its simplest form, and measure what that needs: of each \
        condition the value at which the symptom shows and the next one, at which it does not, all else equal; and with \
        which transports and operations it shows. Some 20 to 60 experiments; nothing is stored.",
        after_help = "Exit status: 0 the workload is not anomalous, 1 its conditions were measured, 2 it could not run.\n\n\
        Examples:\n  kelpie mfs measure workload.yaml --subsystem sim:F\n  \
        kelpie mfs measure workload.yaml --subsystem pair.yaml --out witness.yaml"
    )]
    Measure(MfsMeasureArgs),
}

#[derive(Debug, Args)]
pub struct MfsMeasureArgs {
    /// Workload file (workload/1), `-` for stdin
    #[arg(value_name = "WORKLOAD.yaml")]
    pub workload: PathBuf,
    #[command(flatten)]
    pub subsystem: SubsystemArgs,
    /// File for the simplest workload that shows the symptom [default: none]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file of `--out` if there is one
    #[arg(long, requires = "out")]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct MfsListArgs {
    /// Only the findings of this campaign
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub campaign: Option<CampaignId>,
    #[command(flatten)]
    pub database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub struct MfsCheckArgs {
    /// Workload file (workload/1), `-` for stdin
    #[arg(value_name = "WORKLOAD.yaml")]
    pub workload: PathBuf,
    /// Only what was measured on this subsystem [default: the one of `--measure`, else all]
    #[arg(long, value_name = "NAME")]
    pub subsystem: Option<String>,
    /// Measure the workload on this subsystem, and ways out if it is anomalous
    #[arg(long, value_name = "S")]
    pub measure: Option<String>,
    #[command(flatten)]
    pub list: MfsListArgs,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The older campaign
    #[arg(value_name = "A", value_parser = parse_id)]
    pub a: CampaignId,
    /// The newer campaign
    #[arg(value_name = "B", value_parser = parse_id)]
    pub b: CampaignId,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Database of the newer campaign [default: that of the older]
    #[arg(long, value_name = "F", value_parser = database(), value_hint = ValueHint::FilePath)]
    pub against: Option<Database>,
    /// Compare only what is stored; a finding of one campaign alone is then doubtful
    #[arg(long)]
    pub no_measure: bool,
    /// Also write a page to open in a browser into this directory; created if it is missing
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the page or report that is in DIR
    #[arg(long, requires = "out")]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct PagesArgs {
    /// Directory that gets share/man, share/bash-completion, share/zsh and share/fish; created if it is missing
    #[arg(long, short = 'o', value_name = "DIR")]
    pub out: PathBuf,
}

impl Command {
    /// Whether it runs until it is ended, and its log is what it says.
    pub fn is_a_server(&self) -> bool {
        matches!(self, Self::Agent(_) | Self::Paths(paths::PathsCommand::Serve(_)))
    }
}

/// The whole command line: each command that does not say its exit statuses has the usual ones.
pub fn command() -> clap::Command {
    with_statuses(Cli::command())
}

fn with_statuses(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_leaf = command.get_subcommands().next().is_none();
    if is_leaf && !help.contains("Exit status") {
        return command.after_help(format!("Exit status: 0 done, 2 could not run.\n\n{help}"));
    }
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    below.iter().fold(command, |command, name| command.mut_subcommand(name, with_statuses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn shells_complete_databases_as_files() {
        let mut root = command();
        root.build();
        for (path, command) in leaves(&root, "") {
            for arg in command.get_arguments().filter(|arg| ["db", "against"].contains(&arg.get_id().as_str())) {
                let is_database = arg.get_value_names().is_some_and(|names| names == ["F"]);
                assert!(!is_database || arg.get_value_hint() == ValueHint::FilePath, "{path} {arg}");
            }
        }
        let diff = root.find_subcommand("diff").expect("a command");
        let hints = diff.get_arguments().filter(|arg| arg.get_value_hint() == ValueHint::FilePath).count();
        assert_eq!(hints, 2);
    }

    #[test]
    fn the_options_of_a_command_stand_before_those_of_all() {
        let mut root = command();
        root.build();
        let help = root.find_subcommand_mut("diff").expect("a command").render_help().to_string();
        let (own, global) = help.split_once("Global options:").expect("a heading");
        assert!(own.contains("--no-measure") && !own.contains("--json"), "{help}");
        assert!(global.contains("--json") && global.contains("--color"), "{help}");
    }

    /// Every command that runs something, with its path.
    fn leaves(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        let own = command.get_subcommands().filter(|below| below.get_name() != "help");
        let below: Vec<_> = own.flat_map(|below| leaves(below, &path)).collect();
        // `kelpie agent` and `kelpie calibrate` run something and have commands below them.
        let runs = below.is_empty() || !command.is_subcommand_required_set();
        if runs { below.into_iter().chain([(path, command.clone())]).collect() } else { below }
    }

    #[test]
    fn every_command_has_an_example_that_its_arguments_allow() {
        let mut root = command();
        // With the options that all commands have.
        root.build();
        let all = leaves(&root, "");
        assert!(all.len() > 30, "{}", all.len());
        for (path, mut command) in all {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Exit status"), "`{path}` does not say its exit statuses");
            let examples = help.split_once("Example").map(|(_, rest)| rest).unwrap_or_default();
            let begun: Vec<&str> = examples.lines().filter(|line| line.contains(&format!("{path} "))).collect();
            let alone = examples.lines().any(|line| line.trim().trim_end().ends_with(&path));
            assert!(!begun.is_empty() || alone, "`{path}` has no example:\n{help}");
        }
    }
}
