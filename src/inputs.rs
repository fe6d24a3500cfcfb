//! What arguments name: files, workloads, spaces, subsystems, the database.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelpie_agent::PairFile;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::document::utf8;
use kelpie_spaces::{Space, Workload, suggestion};
use kelpie_topology::Cluster;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use crate::args::DatabaseArgs;
use crate::output::quoted;

/// Longest file that is read as YAML. Units: bytes. Source: our choice, because a workload of 1,000 flows is a
/// tenth of it.
const MAX_FILE: u64 = 16 << 20;

/// Longest file of one document. Units: bytes.
const MAX_DOCUMENT: u64 = kelpie_spaces::document::MAX_INPUT as u64;

/// How long a pipe with a name may be without what somebody writes to it. Source: our choice, because a command that
/// fills it begins within that.
const PIPE_PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Reads a file of bounded length; `-` is stdin.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file_up_to(path, MAX_FILE)
}

/// As above, with another limit.
pub fn read_file_up_to(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let too_long = || {
        let (size, unit) = if limit < 1 << 20 { (limit >> 10, "KiB") } else { (limit >> 20, "MiB") };
        format!("{}: longer than {size} {unit}, the most that Kelpie reads", path.display())
    };
    if path == Path::new("-") {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).context("stdin")?;
    } else {
        let name = || path.display().to_string();
        let file = open(path).with_context(name)?;
        if file.metadata().is_ok_and(|found| found.is_file() && found.len() > limit) {
            bail!(too_long());
        }
        file.take(limit + 1).read_to_end(&mut bytes).with_context(name)?;
    }
    if bytes.len() as u64 > limit {
        bail!(too_long());
    }
    Ok(bytes)
}

/// Opens a file to read; of a pipe it waits for the writer, as long as one may be waited for.
pub fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => anyhow::anyhow!("a link to a file that is not there"),
        io::ErrorKind::NotFound => match std::env::current_dir() {
            Ok(here) if path.is_relative() => anyhow::anyhow!("No such file in {}", here.display()),
            _ => anyhow::anyhow!("No such file"),
        },
        _ => error.into(),
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        bail!("a directory; name a file");
    }
    if kind.is_fifo() && poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&PIPE_PATIENCE))? == 0 {
        bail!("a pipe, and nobody wrote to it within {} s", PIPE_PATIENCE.tv_sec);
    }
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// A simulated subsystem: an embedded model, or a file.
pub fn simulated(model: &str) -> anyhow::Result<SimSubsystem> {
    if !model.contains(['.', '/']) && !Path::new(model).exists() {
        return Ok(SimSubsystem::load(model)?);
    }
    let bytes = read_file_up_to(Path::new(model), MAX_DOCUMENT)?;
    Ok(SimSubsystem::from_yaml(&format!("sim:{model}"), utf8(model, &bytes)?)?)
}

/// The pair that a file names.
pub fn pair_file(path: &Path) -> anyhow::Result<PairFile> {
    Ok(PairFile::from_bytes(path, &read_file(path)?)?)
}

/// Reads a workload file.
pub fn read_workload(path: &Path) -> anyhow::Result<Workload> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    Ok(kelpie_spaces::workload_from_bytes(&name, &read_file(path)?)?)
}

/// Finds a space: a name of the catalog, else a file.
pub fn read_space(name: &str) -> anyhow::Result<Space> {
    if let Some(space) = Space::catalog(name) {
        return Ok(space);
    }
    let path = Path::new(name);
    if !name.contains(['.', '/']) && !path.exists() {
        let near = suggestion(name, Space::catalog_names().iter().copied());
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        bail!("no space `{name}` in the catalog ({}), and no such file{near}", Space::catalog_names().join(", "));
    }
    Ok(Space::from_bytes(name, &read_file(path)?)?)
}

/// A folder of the user: the one that the variable names, else this one below the home.
pub fn home_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Source: XDG Base Directory Specification; a relative path there is to be ignored.
    let named = set(variable).filter(|path| path.is_absolute());
    named.or_else(|| set("HOME").map(|home| home.join(below_home)))
}

impl DatabaseArgs {
    /// The database file: the one that was named, else the user's own.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.db {
            return Ok(path.clone());
        }
        let data = home_folder("XDG_DATA_HOME", ".local/share");
        let data = data.context("neither XDG_DATA_HOME nor HOME is set; name the database with --db F")?;
        Ok(data.join("kelpie/kelpie.db"))
    }
}

/// Reads a cluster.
pub fn read_cluster(path: &Path) -> anyhow::Result<Cluster> {
    let name = path.display().to_string();
    Ok(Cluster::from_yaml(&name, utf8(&name, &read_file(path)?)?)?)
}

/// What a command that is printed needs so that it finds this database, too.
pub fn db_argument(path: &Path) -> String {
    let own = DatabaseArgs { db: std::env::var_os("KELPIE_DB").map(PathBuf::from) }.path();
    if own.is_ok_and(|own| own == path) { String::new() } else { format!(" --db {}", quoted(path)) }
}

/// What the name of a subsystem stands for.
pub enum Kind<'a> {
    /// A simulated one: a model's name or file.
    Simulated(&'a str),
    /// A real pair, described by this file.
    Pair(PathBuf),
}

/// Sorts a subsystem's name.
pub fn kind(name: &str) -> anyhow::Result<Kind<'_>> {
    match name.strip_prefix("sim:") {
        Some("") => {
            bail!("`sim:` names no model; write sim:NAME or sim:path.yaml, `kelpie subsystem list` shows the names")
        }
        Some(model) => Ok(Kind::Simulated(model)),
        None if name == "lab" => Ok(Kind::Pair(kelpie_agent::lab::pair_file()?)),
        None if name == "dual-lab" => Ok(Kind::Pair(kelpie_agent::lab::dual_port_pair_file()?)),
        None if !name.contains(['.', '/']) && !Path::new(name).exists() => {
            bail!("no subsystem `{name}`; write sim:NAME, sim:path.yaml, lab, or the file of a pair")
        }
        None => Ok(Kind::Pair(PathBuf::from(name))),
    }
}

/// The text of a pair file that is known to be right.
pub fn pair_source(path: &Path) -> anyhow::Result<String> {
    let bytes = read_file(path)?;
    PairFile::from_bytes(path, &bytes)?;
    Ok(utf8(&path.display().to_string(), &bytes)?.to_owned())
}
