//! What cargo knows of the workspace: its crates, where they are, what they depend on, and where their text begins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo::cargo;

/// One of our crates.
pub struct Package {
    pub name: String,
    /// Where its manifest is, relative to the workspace.
    pub folder: PathBuf,
    /// Whether it has a library, which `--lib` builds the tests of; otherwise it is a binary of its own name.
    pub is_library: bool,
    pub dependencies: Vec<Dependency>,
    /// First files of what is built of it: its library, its programs.
    pub roots: Vec<PathBuf>,
}

/// A crate that one of ours depends on.
pub struct Dependency {
    pub name: String,
    /// Whether tests and benchmarks alone use it.
    pub of_tests: bool,
}

/// The root of the workspace.
pub fn workspace_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace that built this exists")
}

/// The crates of the workspace, as `cargo metadata` lists them.
pub fn packages(root: &Path) -> Result<Vec<Package>> {
    let output =
        cargo(root).args(["metadata", "--no-deps", "--format-version", "1"]).output().context("run cargo metadata")?;
    ensure!(output.status.success(), "`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read what cargo metadata printed")?;
    let workspace = Path::new(text(&metadata, "workspace_root")?);
    entries(&metadata, "packages")?.iter().map(|entry| package(entry, workspace)).collect()
}

fn package(entry: &Value, workspace: &Path) -> Result<Package> {
    let manifest = Path::new(text(entry, "manifest_path")?);
    let folder = manifest.parent().context("a manifest is in a folder")?;
    let dependency = |entry: &Value| {
        Ok(Dependency { name: text(entry, "name")?.to_owned(), of_tests: entry["kind"].as_str() == Some("dev") })
    };
    let is_built = |target: &&Value| {
        let is_named = |kind: &Value| ["lib", "bin", "cdylib", "proc-macro"].iter().any(|known| kind == known);
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(is_named))
    };
    let built = entries(entry, "targets")?.iter().filter(is_built);
    Ok(Package {
        name: text(entry, "name")?.to_owned(),
        folder: folder.strip_prefix(workspace).context("a member is below the workspace")?.to_owned(),
        is_library: entries(entry, "targets")?.iter().any(is_library),
        roots: built.map(|target| text(target, "src_path").map(PathBuf::from)).collect::<Result<_>>()?,
        dependencies: entries(entry, "dependencies")?.iter().map(dependency).collect::<Result<_>>()?,
    })
}

fn is_library(target: &Value) -> bool {
    target["kind"].as_array().into_iter().flatten().any(|kind| kind == "lib" || kind == "cdylib")
}

fn entries<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata has no list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no text `{key}`"))
}
