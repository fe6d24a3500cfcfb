//! The file that names the ranks of a job, format `ranks/1`: an agent each.

use std::path::{Path, PathBuf};

use kelpie_spaces::document::utf8;
use kelpie_spaces::{DocumentError, read_tagged};
use serde::Deserialize;

use crate::pair::HostSpec;
use crate::security::{Security, TlsFiles};

/// Fewest and most ranks. Source: our choice; one controller talks to all of them.
const RANKS: std::ops::RangeInclusive<usize> = 2..=1024;

/// Why a file of ranks was refused.
#[derive(Debug, thiserror::Error)]
pub enum RanksFileError {
    /// It does not fit the format, or breaks a rule; the text names line and key.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// A path in it cannot be made absolute.
    #[error("{}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// The ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RanksFile {
    /// The agents, in the order of the ring.
    pub ranks: Vec<HostSpec>,
    /// The certificates that the controller uses; the agents have theirs.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Plain TCP to other machines, because the network between is trusted.
    #[serde(default)]
    pub plain: bool,
}

impl RanksFile {
    /// Reads and checks a file's bytes; paths in it are relative to the directory of `path`.
    ///
    /// # Errors
    /// Where it breaks a rule.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, RanksFileError> {
        let name = path.display().to_string();
        let (document, mut file) = read_tagged::<Self>(&name, utf8(&name, bytes)?, "ranks/1")?;
        document.refuse_all(file.broken_rules().into_iter())?;
        if let Some(tls) = &mut file.tls {
            tls.resolve(path).map_err(|source| RanksFileError::Path { path: path.to_owned(), source })?;
        }
        Ok(file)
    }

    /// How the agents are reached.
    pub fn security(&self) -> Security {
        Security::of_keys(self.tls.as_ref(), self.plain)
    }

    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        if !RANKS.contains(&self.ranks.len()) {
            broken.push(("ranks".to_owned(), format!("write {} to {} agents", RANKS.start(), RANKS.end())));
        }
        for (place, spec) in self.ranks.iter().enumerate() {
            let of_spec = spec.broken_rules().into_iter();
            broken.extend(of_spec.map(|(key, rule)| (format!("ranks[{place}].{key}"), rule)));
            if self.ranks[..place].iter().any(|other| other.agent == spec.agent) {
                broken.push((format!("ranks[{place}].agent"), format!("{} is a rank already", spec.agent)));
            }
        }
        broken.extend(Security::broken_rule(self.tls.as_ref(), self.plain));
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_an_agent_for_each_rank() {
        let read = |text: &str| RanksFile::from_bytes(Path::new("/srv/ranks.yaml"), text.as_bytes());
        let good =
            "kelpie: ranks/1\nranks:\n  - {agent: \"10.0.0.1:7471\", device: rxe0}\n  - {agent: \"10.0.0.2:7471\"}\n";
        let file = read(good).expect("a good file");
        assert_eq!((file.ranks.len(), file.security()), (2, Security::Loopback));
        let tls = read(&format!("{good}tls: {{ca: ca.pem, identity: me.pem}}\n")).expect("a good file").tls;
        assert_eq!(tls.expect("given").ca, Path::new("/srv/ca.pem"));
        for (from, to, expected) in [
            ("ranks/1", "ranks/2", "ranks/2"),
            ("10.0.0.2:7471", "10.0.0.1:7471", "ranks[1].agent: 10.0.0.1:7471 is a rank already"),
            ("10.0.0.2:7471", "10.0.0.2", "ranks[1].agent: `10.0.0.2` is not host:port"),
            ("device: rxe0", "port: 0", "ranks[0].port: ports count from 1"),
            ("device: rxe0", "name: x", "unknown key `name`"),
            ("  - {agent: \"10.0.0.2:7471\"}\n", "", "ranks: write 2 to 1024 agents"),
        ] {
            let error = kelpie_engine::chain(&read(&good.replace(from, to)).expect_err(to));
            assert!(error.starts_with("/srv/ranks.yaml") && error.contains(expected), "{to}: {error}");
        }
    }
}
