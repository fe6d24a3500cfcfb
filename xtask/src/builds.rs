//! Plain builds and builds with verbs share what they build: no crate is built twice, with other features.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stderr};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, with_verbs};

/// Crates with their versions and features, as in `serde v1.0.0 default,std`.
type Crates = BTreeSet<String>;

/// The one crate that is meant to be built twice.
const BINARY: &str = "kelpie v";

/// Builds everything that the tests and the lab need.
pub fn build(root: &Path) -> Result<()> {
    // Who looks at a terminal sees what is being built, and how much is left.
    let quiet: &[&str] = if stderr().is_terminal() { &[] } else { &["--quiet"] };
    let args = [&["build"], quiet, &["--workspace", "--lib", "--bins", "--tests"]].concat();
    cargo::run(root, &with_verbs(&args))
}

/// Fails if a plain build of the binary has a crate with other features than the build of everything, with verbs.
///
/// By what cargo decides before it builds anything, so that this takes no time.
pub fn check(root: &Path) -> Result<()> {
    let plain = crates(root, &["--package", "kelpie", "--edges", "normal,build"])?;
    let full = crates(root, &with_verbs(&["--workspace", "--edges", "normal,build,dev"]))?;
    let twice = built_twice(&plain, &full);
    ensure!(
        twice.is_empty(),
        "a plain build and one with verbs and tests do not share these; give them the same features in Cargo.toml:\n{}",
        twice.join("\n")
    );
    Ok(())
}

/// Each crate of the plain build that the full one has only with other features.
fn built_twice(plain: &Crates, full: &Crates) -> Vec<String> {
    let other = plain.difference(full).filter(|name| !name.starts_with(BINARY));
    other.map(|name| format!("   {name}")).collect()
}

fn crates(root: &Path, args: &[&str]) -> Result<Crates> {
    let output = cargo::cargo(root)
        .args(["tree", "--quiet", "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"])
        .args(args)
        .output()
        .context("run cargo tree")?;
    ensure!(output.status.success(), "`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_other_features_are_seen() {
        let crates = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Crates>();
        let plain = crates(&["kelpie v0.1.0 (/k)", "serde v1.0.0 std", "clap v4.6.0 std"]);
        let full = crates(&["kelpie v0.1.0 (/k) verbs", "serde v1.0.0 std", "clap v4.6.0 env,std"]);
        assert_eq!(built_twice(&plain, &full), ["   clap v4.6.0 std"]);
        assert_eq!(built_twice(&full, &full), Vec::<String>::new());
    }
}
