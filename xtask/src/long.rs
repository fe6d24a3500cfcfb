//! `cargo xtask test-long`: what is too long for every change. It goes on after a step that failed, and fails at its
//! end.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::cargo::{has_tool, with_verbs};
use crate::steps::{Step, Steps, no_arguments};
use crate::test::{BUILD, Kernel, script};
use crate::{cargo, workspace_root};

const LONG: [Step; 7] = [
    Step {
        name: "long tests",
        alone: "`cargo nextest run --workspace --features verbs --profile long --run-ignored only`",
        work: long_tests,
    },
    Step {
        name: "campaigns with the gate",
        alone: "`xtask/scripts/gate-campaigns.sh`",
        work: |root| script(root, &["xtask/scripts/gate-campaigns.sh"]),
    },
    Step {
        name: "lab",
        alone: "`xtask/scripts/lab-test.sh long`",
        work: |root| script(root, &["xtask/scripts/lab-test.sh", "long"]),
    },
    Step { name: "emulated lab", alone: "`xtask/scripts/lab-test.sh emulated`", work: emulated },
    Step {
        name: "Kubernetes files",
        alone: "`xtask/scripts/kubernetes-check.sh`",
        work: |root| script(root, &["xtask/scripts/kubernetes-check.sh"]),
    },
    Step { name: "dependencies", alone: "`cargo deny check`", work: deny },
    Step { name: "install trial", alone: "`xtask/scripts/install-trial.sh`", work: install },
];

/// Runs all of it.
pub fn run(args: &[String]) -> Result<()> {
    no_arguments("test-long", args)?;
    let root = workspace_root();
    let mut steps = Steps::start("test-long", &root)?;
    let outcome = long(&root, &mut steps);
    steps.finish(outcome)
}

fn long(root: &Path, steps: &mut Steps) -> Result<()> {
    let kernel = Kernel::start(root)?;
    // Without these two nothing below has a meaning.
    steps.run(&BUILD)?;
    kernel.wait(steps)?;
    steps.run_each(&LONG)
}

/// Those that are ignored otherwise and need no lab.
fn long_tests(root: &Path) -> Result<()> {
    ensure!(has_tool(root, "nextest"), "the long tests need `cargo install --locked cargo-nextest`");
    // Chromium shows reports in some of them.
    script(root, &["xtask/scripts/setup.sh", "browser", "slurm"])?;
    cargo::run(
        root,
        &with_verbs(&["nextest", "run", "--workspace", "--profile", "long", "--run-ignored", "only", "--no-fail-fast"]),
    )
}

fn emulated(root: &Path) -> Result<()> {
    script(root, &["xtask/scripts/setup.sh", "emulated"])?;
    script(root, &["xtask/scripts/lab-test.sh", "emulated"])
}

fn install(root: &Path) -> Result<()> {
    script(root, &["xtask/scripts/setup.sh", "trial"])?;
    script(root, &["xtask/scripts/install-trial.sh"])
}

/// Licences, bans and sources always; advisories if their database can be reached.
fn deny(root: &Path) -> Result<()> {
    script(root, &["xtask/scripts/setup.sh", "deny"])?;
    cargo::run(root, &["deny", "check", "licenses", "bans", "sources"])?;
    let fetched = cargo::cargo(root).args(["deny", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !fetched {
        eprintln!("   the advisory database cannot be reached, so advisories are not checked");
        return Ok(());
    }
    cargo::run(root, &["deny", "check", "advisories"])
}
