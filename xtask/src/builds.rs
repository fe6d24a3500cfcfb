//! Plain builds and builds with verbs share what they build: no crate is built twice, with other features.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cargo::{cargo, verbs_can_be_built};

/// What compilers know each crate of a build by (`.rmeta`, or `.so` of a macro), with the crate's name and features.
type Artifacts = BTreeMap<String, String>;

/// Builds everything that tests and lab need, after the plain binary, and fails if the two did not share a crate.
///
/// In this order, because both put their binary in the same place and the tests want the one with verbs.
pub fn build(root: &Path) -> Result<()> {
    let everything = ["--workspace", "--lib", "--bins", "--tests"];
    if !verbs_can_be_built() {
        return artifacts(root, &everything).map(drop);
    }
    let plain = artifacts(root, &["--package", "kelpie"])?;
    let full = artifacts(root, &[&everything[..], &["--features", "verbs"]].concat())?;
    let twice = built_twice(&plain, &full);
    ensure!(
        twice.is_empty(),
        "a plain build and one with verbs and tests do not share these; give them the same features in Cargo.toml:\n{}",
        twice.join("\n")
    );
    Ok(())
}

/// Each crate of the plain build that the full one has with other features.
fn built_twice(plain: &Artifacts, full: &Artifacts) -> Vec<String> {
    plain.iter().filter(|(file, _)| !full.contains_key(*file)).map(|(_, name)| format!("   {name}")).collect()
}

fn artifacts(root: &Path, args: &[&str]) -> Result<Artifacts> {
    let output = cargo(root)
        .args(["build", "--quiet", "--message-format", "json-render-diagnostics"])
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo build")?;
    if !output.status.success() {
        bail!("`cargo build {}` failed", args.join(" "));
    }
    let mut artifacts = Artifacts::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("read what cargo build printed")?;
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let name = format!("{} {}", message["target"]["name"].as_str().unwrap_or("?"), message["features"]);
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let files =
            files.filter(|file| Path::new(file).extension().is_some_and(|kind| kind == "rmeta" || kind == "so"));
        artifacts.extend(files.map(|file| (file.to_owned(), name.clone())));
    }
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_other_features_are_seen() {
        let artifacts = |rows: &[(&str, &str)]| -> Artifacts {
            rows.iter().map(|(file, name)| ((*file).to_owned(), (*name).to_owned())).collect()
        };
        let plain = artifacts(&[("libserde-1.rmeta", "serde []"), ("libclap-1.rmeta", "clap []")]);
        let full = artifacts(&[("libserde-1.rmeta", "serde []"), ("libclap-2.rmeta", "clap [\"env\"]")]);
        assert_eq!(built_twice(&plain, &full), ["   clap []"]);
        assert_eq!(built_twice(&full, &full), Vec::<String>::new());
    }
}
