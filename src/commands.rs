//! One module per command; this one picks, and holds what several of them need.

pub mod agent;
mod campaign;
mod diff;
pub mod doctor;
pub mod findings;
pub mod import;
mod measure;
mod mfs;
pub mod recipe;
mod report;
mod space;
mod subsystem;
pub mod trace;
mod watch;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use kelpie_spaces::{Space, Workload};

use crate::cli::{CampaignCommand, Cli, Command, DatabaseArgs, MfsCommand};
use crate::commands::import::FindingsCommand;

/// Longest file that is read as YAML. Units: bytes. Source: our choice, because a workload of 1,000 flows is a
/// tenth of it.
const MAX_FILE: u64 = 16 << 20;

/// Runs the command that the arguments name.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let common = cli.common;
    match &cli.command {
        Command::Measure(args) => measure::run(args, common),
        Command::Campaign(CampaignCommand::Run(args)) => campaign::run(args, common),
        Command::Campaign(CampaignCommand::Resume(args)) => campaign::resume(args, common),
        Command::Campaign(CampaignCommand::List(args)) => campaign::list(args, common),
        Command::Campaign(CampaignCommand::Show(args)) => campaign::show(args, common),
        Command::Watch(args) => watch::run(args, common),
        Command::Space(command) => space::run(command, common),
        Command::Subsystem(command) => subsystem::run(command, common),
        Command::Mfs(MfsCommand::List(args)) => mfs::list(args, common),
        Command::Mfs(MfsCommand::Check(args)) => mfs::check(args, common),
        Command::Diff(args) => diff::run(args, common),
        Command::Report(args) => report::run(args, common),
        Command::Findings(FindingsCommand::Import(args)) => import::run(args, common),
        Command::Recipe(command) => recipe::run(command, common),
        Command::Trace(args) => trace::run(args, common),
        Command::Agent(args) => agent::run(args, common),
        Command::Doctor(args) => doctor::run(args, common),
    }
}

/// Reads a file of bounded length; `-` is stdin.
fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file_up_to(path, MAX_FILE)
}

/// As above, with another limit.
fn read_file_up_to(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).context("stdin")?;
    } else {
        let name = || path.display().to_string();
        let file = std::fs::File::open(path).with_context(name)?;
        file.take(limit + 1).read_to_end(&mut bytes).with_context(name)?;
    }
    if bytes.len() as u64 > limit {
        bail!("{}: longer than {} MiB, which no file of Kelpie is", path.display(), limit >> 20);
    }
    Ok(bytes)
}

/// Reads a workload file.
fn read_workload(path: &Path) -> anyhow::Result<Workload> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    Ok(kelpie_spaces::workload_from_bytes(&name, &read_file(path)?)?)
}

/// Finds a space: a name of the catalog, else a file.
fn read_space(name: &str) -> anyhow::Result<Space> {
    if let Some(space) = Space::catalog(name) {
        return Ok(space);
    }
    let path = Path::new(name);
    if !name.contains(['.', '/']) && !path.exists() {
        bail!("no space `{name}` in the catalog ({}), and no such file", Space::catalog_names().join(", "));
    }
    Ok(Space::from_bytes(name, &read_file(path)?)?)
}

impl DatabaseArgs {
    /// The database file: the one that was named, else the user's own.
    fn path(&self) -> anyhow::Result<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = &self.db {
            return Ok(path.clone());
        }
        // Source: XDG Base Directory Specification, XDG_DATA_HOME; a relative path there is to be ignored.
        let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")));
        let data = data.context("neither XDG_DATA_HOME nor HOME is set; say where the database is with --db F")?;
        Ok(data.join("kelpie/kelpie.db"))
    }
}
