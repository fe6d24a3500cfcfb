//! `cargo xtask quick`: what fails most often, of what changed, in the time that one waits for it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{has_tool, with_verbs};
use crate::steps::{Step, Steps, no_arguments};
use crate::workspace::{self, Package};
use crate::workspace_root;
use crate::{cargo, ci};

/// The branches that a change may have left, the first that exists.
const BASES: [&str; 2] = ["main", "origin/main"];

const UNIT_TESTS: Step =
    Step { name: "unit tests", alone: "`cargo nextest run --package CRATE --lib`", work: unit_tests };

/// Formatting, headers, layers, clippy, and the unit tests of each crate that changed.
pub fn run(args: &[String]) -> Result<()> {
    no_arguments("quick", args)?;
    let mut steps = Steps::start("quick", &workspace_root())?;
    let outcome = checks(&mut steps);
    steps.finish(outcome)
}

fn checks(steps: &mut Steps) -> Result<()> {
    steps.run_all(&ci::CHEAP)?;
    // Of the whole workspace: cargo knows by itself what changed and what depends on it, and checks nothing else again.
    steps.run(&ci::CLIPPY)?;
    steps.run(&UNIT_TESTS)
}

/// The unit tests of each crate that changed, built as part of the workspace.
fn unit_tests(root: &Path) -> Result<()> {
    let (base, packages) = (base(root), workspace::packages(root)?);
    let changed = changed_crates(&packages, &changed_files(root, &base)?);
    if changed.is_empty() {
        eprintln!("   no crate differs from {base}, so no unit tests are run");
        return Ok(());
    }
    let tool: &[&str] =
        if has_tool(root, "nextest") { &["nextest", "run", "--profile", "quick"] } else { &["test", "--quiet"] };
    // The binary's package, which depends on all others, is always chosen: so dependencies have the features that they
    // have in every other build, and are not built again.
    let mut args = [tool, &["--package", "kelpie"]].concat();
    if changed.iter().any(|package| package.is_library) {
        args.push("--lib");
    }
    for package in changed {
        args.extend(["--package", &package.name]);
        if !package.is_library {
            args.extend(["--bin", &package.name]);
        }
    }
    cargo::run(root, &with_verbs(&args))
}

/// The commit that the change started from: where its branch left the main one, or the last commit.
fn base(root: &Path) -> String {
    let mut found = BASES.into_iter().filter_map(|branch| git(root, &["merge-base", "HEAD", branch]).ok());
    found.next().map_or_else(|| "HEAD".to_owned(), |commit| commit.trim().to_owned())
}

/// Files that differ from this commit, and new ones.
fn changed_files(root: &Path, base: &str) -> Result<Vec<String>> {
    let differing = git(root, &["diff", "--name-only", "--no-renames", base])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(differing.lines().chain(new.lines()).map(str::to_owned).collect())
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(root).args(args).output().context("run git")?;
    if !output.status.success() {
        bail!("`git {}` failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("git printed no UTF-8")
}

/// The crates that these files, relative to the workspace, have a part in.
fn changed_crates<'a>(packages: &'a [Package], files: &[String]) -> Vec<&'a Package> {
    let owner = |file: &Path| {
        packages
            .iter()
            .filter(|package| file.starts_with(&package.folder))
            .max_by_key(|package| package.folder.components().count())
            // Of the root's files only these are its own; the rest is documentation, scripts and integration tests.
            .filter(|package| package.folder != Path::new("") || file.starts_with("src"))
    };
    let owners: Vec<_> = files.iter().filter_map(|file| owner(Path::new(file))).collect();
    packages.iter().filter(|package| owners.iter().any(|owner| owner.name == package.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_innermost_crate() {
        let packages = [("kelpie", ""), ("kelpie-engine", "engine"), ("kelpie-sim", "engine/simulated/pair")].map(
            |(name, folder)| Package {
                name: name.to_owned(),
                folder: folder.into(),
                is_library: true,
                dependencies: Vec::new(),
                roots: Vec::new(),
            },
        );
        for (files, expected) in [
            (&["engine/simulated/pair/models/f.yaml", "engine/simulated/pair/src/lib.rs"][..], &["kelpie-sim"][..]),
            (&["engine/src/lib.rs", "src/main.rs"], &["kelpie", "kelpie-engine"]),
            (&["engines/src/lib.rs", "README.md", "tests/main.rs", "Cargo.lock"], &[]),
        ] {
            let files: Vec<_> = files.iter().map(|&file| file.to_owned()).collect();
            let names: Vec<_> = changed_crates(&packages, &files).iter().map(|package| package.name.clone()).collect();
            assert_eq!(names, expected, "{files:?}");
        }
    }
}
