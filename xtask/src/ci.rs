//! `cargo xtask ci`: what holds of the text of every change, in the order in which it fails fastest; it runs no tests.

use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo::with_verbs;
use crate::steps::{Step, Steps, no_arguments};
use crate::{builds, cargo, headers, layers, workspace_root};

/// What takes seconds.
pub const CHEAP: [Step; 3] = [
    Step {
        name: "formatting",
        alone: "`cargo fmt --all`, which repairs it",
        work: |root| cargo::run(root, &["fmt", "--all", "--check"]),
    },
    Step { name: "file headers", alone: "`cargo xtask headers`", work: headers::check },
    Step { name: "layers", alone: "`cargo xtask layers`", work: layers::check },
];

/// Clippy for everything. What did not change, and does not depend on what did, is not checked again.
pub const CLIPPY: Step =
    Step { name: "clippy", alone: "`cargo clippy --workspace --all-targets --features verbs`", work: clippy };

/// What takes longer.
const THOROUGH: [Step; 3] = [
    Step { name: "shared builds", alone: "`cargo tree --invert CRATE --edges features`", work: builds::check },
    CLIPPY,
    Step {
        name: "documentation",
        alone: "`RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --features verbs`",
        work: documentation,
    },
];

/// Runs every check; the first that fails ends it.
pub fn run(args: &[String]) -> Result<()> {
    no_arguments("ci", args)?;
    let mut steps = Steps::start("ci", &workspace_root())?;
    let outcome = steps.run_all(&CHEAP).and_then(|()| steps.run_all(&THOROUGH));
    steps.finish(outcome)
}

fn clippy(root: &Path) -> Result<()> {
    cargo::run(root, &with_verbs(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn documentation(root: &Path) -> Result<()> {
    let status = cargo::cargo(root)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(with_verbs(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]))
        .status()
        .context("cargo")?;
    anyhow::ensure!(status.success(), "`cargo doc` failed");
    Ok(())
}
