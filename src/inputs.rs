//! What arguments name: files, workloads, spaces, subsystems, the database.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelpie_agent::PairFile;
use kelpie_spaces::{Space, Workload, suggestion};

use crate::args::DatabaseArgs;

/// Longest file that is read as YAML. Units: bytes. Source: our choice, because a workload of 1,000 flows is a
/// tenth of it.
const MAX_FILE: u64 = 16 << 20;

/// Reads a file of bounded length; `-` is stdin.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file_up_to(path, MAX_FILE)
}

/// As above, with another limit.
pub fn read_file_up_to(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).context("stdin")?;
    } else {
        let name = || path.display().to_string();
        let file = std::fs::File::open(path).with_context(name)?;
        file.take(limit + 1).read_to_end(&mut bytes).with_context(name)?;
    }
    if bytes.len() as u64 > limit {
        bail!("{}: longer than {} MiB, the most that Kelpie reads", path.display(), limit >> 20);
    }
    Ok(bytes)
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

impl DatabaseArgs {
    /// The database file: the one that was named, else the user's own.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = &self.db {
            return Ok(path.clone());
        }
        // Source: XDG Base Directory Specification, XDG_DATA_HOME; a relative path there is to be ignored.
        let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")));
        let data = data.context("neither XDG_DATA_HOME nor HOME is set; name the database with --db F")?;
        Ok(data.join("kelpie/kelpie.db"))
    }
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
    PairFile::read(path)?;
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
