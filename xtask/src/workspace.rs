//! What cargo knows of the workspace: its crates and what they depend on.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo::cargo;

/// One of our crates.
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

/// A crate that one of ours depends on.
pub struct Dependency {
    pub name: String,
    /// Whether tests and benchmarks alone use it.
    pub of_tests: bool,
}

/// The crates of the workspace, as `cargo metadata` lists them.
pub fn packages(root: &Path) -> Result<Vec<Package>> {
    let output =
        cargo(root).args(["metadata", "--no-deps", "--format-version", "1"]).output().context("run cargo metadata")?;
    ensure!(output.status.success(), "`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read what cargo metadata printed")?;
    entries(&metadata, "packages")?.iter().map(package).collect()
}

fn package(entry: &Value) -> Result<Package> {
    let dependency = |entry: &Value| {
        Ok(Dependency { name: text(entry, "name")?.to_owned(), of_tests: entry["kind"].as_str() == Some("dev") })
    };
    Ok(Package {
        name: text(entry, "name")?.to_owned(),
        dependencies: entries(entry, "dependencies")?.iter().map(dependency).collect::<Result<_>>()?,
    })
}

fn entries<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata has no list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no text `{key}`"))
}
