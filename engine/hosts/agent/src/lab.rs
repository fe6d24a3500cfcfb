//! Where a running lab left its pair file: what `--subsystem lab` means. Starts nothing; that is `cargo xtask lab`.

use std::env;
use std::path::{Path, PathBuf};

/// Pair files, in the folder of labs.
const PAIR: &str = "pair.yaml";
const DUAL_PORT: &str = "dual/pair.yaml";

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No pair file of a running lab was found.
    #[error("no lab is running ({} is not there): run `cargo xtask lab up{option}` first", looked_for.display())]
    NotUp {
        /// Where it was looked for first.
        looked_for: PathBuf,
        /// What that lab's command has beside.
        option: &'static str,
    },
    /// The working directory is unknown.
    #[error("cannot determine the working directory")]
    WorkingDirectory(#[source] std::io::Error),
}

/// The pair file of the running lab: in `KELPIE_LAB_DIR`, else in `target/lab` of this directory or one above it.
///
/// # Errors
/// Where no lab is up.
pub fn pair_file() -> Result<PathBuf, LabError> {
    let here = env::current_dir().map_err(LabError::WorkingDirectory)?;
    find(&here, env::var_os("KELPIE_LAB_DIR").map(PathBuf::from).as_deref(), PAIR)
}

/// That of the dual-port lab, which has a folder in the same one.
///
/// # Errors
/// Where it is not up.
pub fn dual_port_pair_file() -> Result<PathBuf, LabError> {
    let here = env::current_dir().map_err(LabError::WorkingDirectory)?;
    find(&here, env::var_os("KELPIE_LAB_DIR").map(PathBuf::from).as_deref(), DUAL_PORT)
}

fn find(here: &Path, given: Option<&Path>, name: &str) -> Result<PathBuf, LabError> {
    let candidates: Vec<PathBuf> = match given {
        Some(dir) => vec![dir.join(name)],
        None => here.ancestors().map(|dir| dir.join("target/lab").join(name)).collect(),
    };
    let found = candidates.iter().find(|path| path.is_file()).cloned();
    let option = if name == DUAL_PORT { " --dual-port" } else { "" };
    found.ok_or_else(|| LabError::NotUp { looked_for: candidates.into_iter().next().unwrap_or_default(), option })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_found_from_below_and_its_absence_names_the_command() {
        let root = tempfile::tempdir().expect("a directory");
        let below = root.path().join("src/deep");
        std::fs::create_dir_all(&below).expect("a directory");
        let error = find(&below, None, PAIR).expect_err("nothing there");
        assert!(error.to_string().contains("cargo xtask lab up"), "{error}");
        let lab = root.path().join("target/lab");
        std::fs::create_dir_all(&lab).expect("a directory");
        std::fs::write(lab.join("pair.yaml"), "").expect("a file");
        assert_eq!(find(&below, None, PAIR).expect("found above"), lab.join("pair.yaml"));
        assert_eq!(find(&below, Some(&lab), PAIR).expect("given"), lab.join("pair.yaml"));
        assert!(find(root.path(), Some(&below), PAIR).is_err(), "a given directory is the only one");
    }
}
