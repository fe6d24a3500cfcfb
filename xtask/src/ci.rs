//! `cargo xtask ci`: everything that has to hold before a change goes in, in the order in which it fails fastest.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cargo::{has_tool, with_verbs};
use crate::steps::Steps;
use crate::{builds, cargo, headers, layers, workspace_root};

/// Name and work of one step.
type Step = (&'static str, fn(&Path) -> Result<()>);

/// What takes seconds.
pub const CHEAP: [Step; 3] = [
    ("formatting", |root| cargo::run(root, &["fmt", "--all", "--check"])),
    ("file headers", headers::check),
    ("layers", layers::check),
];

/// What the tests and the lab run.
pub const BUILD: [Step; 1] = [("build", builds::build)];

/// What takes minutes.
pub const THOROUGH: [Step; 5] = [
    ("dependencies", deny),
    ("clippy", clippy),
    ("tests", tests),
    ("documentation tests", |root| cargo::run(root, &with_verbs(&["test", "--quiet", "--workspace", "--doc"]))),
    ("documentation", documentation),
];

/// Runs every check; the first that fails ends it.
pub fn run(args: &[String]) -> Result<()> {
    ensure!(args.is_empty(), "usage: cargo xtask ci");
    let root = workspace_root();
    let mut steps = Steps::start()?;
    let outcome = [&CHEAP[..], &BUILD, &THOROUGH].into_iter().try_for_each(|all| run_all(all, &root, &mut steps));
    steps.report();
    outcome
}

/// Runs these checks; the first that fails ends it.
pub fn run_all(checks: &[Step], root: &Path, steps: &mut Steps) -> Result<()> {
    checks.iter().try_for_each(|(name, check)| steps.run(name, || check(root)))
}

/// Clippy for everything. What did not change, and does not depend on what did, is not checked again.
pub fn clippy(root: &Path) -> Result<()> {
    cargo::run(root, &with_verbs(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn tests(root: &Path) -> Result<()> {
    if has_tool(root, "nextest") {
        return cargo::run(root, &with_verbs(&["nextest", "run", "--workspace", "--profile", "ci"]));
    }
    eprintln!("   cargo-nextest is not installed: `cargo test` does the same, less tidily");
    cargo::run(root, &with_verbs(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]))
}

fn documentation(root: &Path) -> Result<()> {
    let status = cargo::cargo(root)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(with_verbs(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]))
        .status()
        .context("cargo")?;
    ensure!(status.success(), "`cargo doc` failed");
    Ok(())
}

/// Licences, bans and sources always; advisories if their database can be reached.
fn deny(root: &Path) -> Result<()> {
    if !has_tool(root, "deny") {
        eprintln!("   cargo-deny is not installed, so licences and advisories are not checked here");
        return Ok(());
    }
    cargo::run(root, &["deny", "check", "licenses", "bans", "sources"])?;
    let fetched = cargo::cargo(root).args(["deny", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !fetched {
        eprintln!("   the advisory database cannot be reached, so advisories are not checked");
        return Ok(());
    }
    cargo::run(root, &["deny", "check", "advisories"])
}
