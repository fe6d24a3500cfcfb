//! One module per command; this one picks.

mod agent;
mod backup;
mod baseline;
mod bench;
mod calibrate;
mod campaign;
mod diff;
mod doctor;
mod export;
mod fabric;
mod generate;
mod host;
mod import;
mod inventory;
mod job;
mod labels;
mod measure;
mod mfs;
mod mfs_check;
mod mfs_measure;
mod paths;
mod qualify;
mod recipe;
mod report;
mod schema;
mod space;
mod subsystem;
mod trace;
mod watch;

use std::process::ExitCode;

use crate::cli::bench::BenchCommand;
use crate::cli::findings::FindingsCommand;
use crate::cli::{CampaignCommand, Cli, Command, HostCommand, JobCommand, MfsCommand};

/// Runs the command that the arguments name.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let common = cli.common;
    match &cli.command {
        Command::Measure(args) => measure::run(args, common),
        Command::Campaign(CampaignCommand::Run(args)) => campaign::run(args, common),
        Command::Campaign(CampaignCommand::Resume(args)) => campaign::resume(args, common),
        Command::Campaign(CampaignCommand::List(args)) => campaign::list(args, common),
        Command::Campaign(CampaignCommand::Show(args)) => campaign::show(args, common),
        Command::Campaign(CampaignCommand::Baseline(args)) => baseline::write(args, common),
        Command::Campaign(CampaignCommand::Backup(args)) => backup::run(args, common),
        Command::Campaign(CampaignCommand::Export(args)) => export::run(args, common),
        Command::Campaign(CampaignCommand::Label(args)) => labels::label(args, common),
        Command::Campaign(CampaignCommand::Rm(args)) => labels::remove(args, common),
        Command::Watch(args) => watch::run(args, common),
        Command::Space(command) => space::run(command, common),
        Command::Subsystem(command) => subsystem::run(command, common),
        Command::Mfs(MfsCommand::List(args)) => mfs::list(args, common),
        Command::Mfs(MfsCommand::Check(args)) => mfs_check::check(args, common),
        Command::Mfs(MfsCommand::Measure(args)) => mfs_measure::measure(args, common),
        Command::Diff(args) => diff::run(args, common),
        Command::Report(args) => report::run(args, common),
        Command::Findings(FindingsCommand::Import(args)) => import::run(args, common),
        Command::Recipe(command) => recipe::run(command, common),
        Command::Trace(args) => trace::run(args, common),
        Command::Bench(BenchCommand::Search(args)) => bench::run(args, common),
        Command::Calibrate(args) => calibrate::run(args, common),
        Command::Paths(command) => paths::run(command, common),
        Command::Fabric(command) => fabric::run(command, common),
        Command::Inventory(command) => inventory::run(command, common),
        Command::Qualify(command) => qualify::run(command, common),
        Command::Agent(args) => agent::run(args, common),
        Command::Doctor(args) => doctor::run(args, common),
        Command::Host(HostCommand::Topology(args)) => host::topology(args, common),
        Command::Host(HostCommand::Matrix(args)) => host::matrix::run(args, common),
        Command::Host(HostCommand::Watch(args)) => host::watch::run(args, common),
        Command::Host(HostCommand::Diagnose(args)) => host::diagnose(args, common),
        Command::Job(JobCommand::Diagnose(args)) => job::diagnose(args, common),
        Command::Job(JobCommand::Watch(args)) => job::watch(args, common),
        Command::Job(JobCommand::Run(args)) => job::run(args, common),
        Command::Job(JobCommand::Pairs(args)) => job::pairs(args, common),
        Command::Schema(args) => schema::run(args),
        Command::Generate(args) => generate::run(args, common),
    }
}
