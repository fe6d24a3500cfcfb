//! What arguments name: files, workloads, spaces, subsystems, the database.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kelpie_examine::files::read_file;
use kelpie_examine::subsystem::{ModelChanges, OpenedSubsystem};
use kelpie_spaces::document::utf8;
use kelpie_spaces::{Space, Workload, suggestion};
use kelpie_store::Database;
use kelpie_topology::Cluster;

use crate::args::{DatabaseArgs, SubsystemArgs};
use crate::output::{note, quoted};

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
    /// The database: the one that was named, else the user's own.
    pub fn database(&self) -> anyhow::Result<Database> {
        if let Some(database) = &self.db {
            return Ok(database.clone());
        }
        let data = home_folder("XDG_DATA_HOME", ".local/share");
        let data = data.context("neither XDG_DATA_HOME nor HOME is set; name the database with --db F")?;
        Ok(data.join("kelpie/kelpie.db").into())
    }
}

/// Reads a cluster.
pub fn read_cluster(path: &Path) -> anyhow::Result<Cluster> {
    let name = path.display().to_string();
    Ok(Cluster::from_yaml(&name, utf8(&name, &read_file(path)?)?)?)
}

/// What a command that is printed needs so that it finds this database, too.
pub fn db_argument(database: &Database) -> String {
    let own = DatabaseArgs { db: std::env::var_os("KELPIE_DB").and_then(|name| name.try_into().ok()) }.database();
    if own.is_ok_and(|own| own == *database) {
        String::new()
    } else {
        format!(" --db {}", quoted(&database.to_string()))
    }
}

impl SubsystemArgs {
    /// Opens the subsystem that the arguments name.
    pub fn open(&self) -> anyhow::Result<OpenedSubsystem> {
        OpenedSubsystem::open(&self.subsystem, ModelChanges { set: &self.set, fix: &self.fix }, &note)
    }
}

/// Opens the subsystem of this name, as it is.
pub fn open_subsystem(name: &str) -> anyhow::Result<OpenedSubsystem> {
    OpenedSubsystem::open(name, ModelChanges::default(), &note)
}
