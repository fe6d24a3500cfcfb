//! The release build of Kelpie in the lab, for benchmarks. What is compared with it is elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::lab::guest::Guest;
use crate::lab::place::Lab;

/// How long the agents may take to be back.
const AGENT_LIMIT: Duration = Duration::from_mins(1);

/// The release build of Kelpie, here and in both guests.
pub struct Kelpie {
    binary: PathBuf,
    /// Where files for it are written.
    pub folder: PathBuf,
    hosts: String,
    pub guests: Vec<Guest>,
}

impl Kelpie {
    pub fn deploy(lab: &Lab) -> Result<Self> {
        let guests = lab.guests();
        if !guests.iter().all(Guest::is_running) {
            bail!("the lab is not up: run `cargo xtask lab up` first");
        }
        let (binary, fresh) = lab.deploy("release")?;
        let folder = lab.state().join("bench");
        fs::create_dir_all(&folder)?;
        let pair = fs::read_to_string(lab.state().join("pair.yaml")).context("read the lab's pair.yaml")?;
        let (hosts, _) = pair.split_once("session:").context("the lab's pair file sets its session")?;
        let kelpie = Self { binary, folder, hosts: hosts.to_owned(), guests };
        if fresh {
            kelpie.restart_agents()?;
        }
        Ok(kelpie)
    }

    /// Ends both agents and waits until their successors listen.
    pub fn restart_agents(&self) -> Result<()> {
        for guest in &self.guests {
            guest.restart_agent()?;
        }
        self.guests.iter().try_for_each(|guest| guest.wait_agent(AGENT_LIMIT))
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// A pair file of the lab with this session, and bounds that nothing is below.
    pub fn pair(&self, session: &str) -> Result<PathBuf> {
        self.write("pair.yaml", &format!("{}session: {session}\nbounds: {{max_bps: 1, max_pps: 1}}\n", self.hosts))
    }

    pub fn command(&self, args: &[&str], files: &[&Path]) -> Result<Output> {
        Command::new(&self.binary).args(args).args(files).output().context("run kelpie")
    }

    /// One experiment; the error is Kelpie's own words.
    pub fn measure(&self, workload: &Path, pair: &Path) -> Result<Value> {
        let output = self.command(&["measure", "--json", "--subsystem"], &[pair, workload])?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("kelpie printed no JSON")
    }
}

/// The middle value, or the mean of the middle two; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        for (values, expected) in [(vec![], None), (vec![3.0, 1.0, 2.0], Some(2.0)), (vec![4.0, 1.0], Some(2.5))] {
            assert_eq!(median(values), expected);
        }
    }
}
