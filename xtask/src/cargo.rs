//! Cargo, run as a developer's shell runs it, although this program was itself run by cargo.

use std::env;
use std::io::{self, Seek as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Prefixes of what cargo and nextest tell the programs that they run.
const TOLD: [&str; 7] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "NEXTEST_", "OUT_DIR"];

/// Cargo in this folder, without input.
///
/// Without what cargo told this program: build scripts that depend on such a variable (ring's, and so all that uses
/// TLS) would run again each time that a build comes from here and not from a shell.
pub fn cargo(root: &Path) -> Command {
    untold(root, Path::new(&env::var_os("CARGO").unwrap_or_else(|| "cargo".into())))
}

/// A program in this folder, without input, and without what cargo told this one: a script of ours runs cargo too.
pub fn untold(root: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        if TOLD.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// `--features verbs` if this machine can build it, before the arguments of the tool behind cargo.
pub fn with_verbs<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut all = args.to_vec();
    if verbs_can_be_built() {
        let end = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        all.splice(end..end, ["--features", "verbs"]);
    }
    all
}

/// Whether the headers of libibverbs and librdmacm are there, and libclang to read them.
pub fn verbs_can_be_built() -> bool {
    let answers = |program: &str, args: &[&str]| {
        Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success() && (program != "ldconfig" || has_libclang(&output.stdout)))
    };
    let clang = answers("ldconfig", &["-p"])
        || answers("/sbin/ldconfig", &["-p"])
        || std::fs::read_dir("/usr/lib").is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("llvm-")))
        });
    clang && answers("pkg-config", &["--exists", "libibverbs", "librdmacm"])
}

fn has_libclang(list: &[u8]) -> bool {
    String::from_utf8_lossy(list).contains("libclang")
}

/// Whether `cargo TOOL` is installed.
pub fn has_tool(root: &Path, tool: &str) -> bool {
    cargo(root).args([tool, "--version"]).output().is_ok_and(|output| output.status.success())
}

/// Runs cargo in this folder and shows what it says.
pub fn run(root: &Path, args: &[&str]) -> Result<()> {
    let status = cargo(root).args(args).status().context("cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(())
}

/// Runs cargo in this folder, and shows what it says only if it fails.
pub fn run_quietly(root: &Path, args: &[&str]) -> Result<()> {
    // Both streams in one file, in the order in which they were written.
    let mut said = tempfile::tempfile().context("a temporary file")?;
    let status =
        cargo(root).args(args).stdout(said.try_clone()?).stderr(said.try_clone()?).status().context("cargo")?;
    if !status.success() {
        said.rewind()?;
        io::copy(&mut said, &mut io::stderr())?;
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_told_this_program_is_not_told_to_cargo() {
        // Cargo and nextest set it for every test.
        assert!(env::var_os("CARGO_PKG_NAME").is_some());
        let command = cargo(Path::new("."));
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(removed.contains(&"CARGO_PKG_NAME".as_ref()) && removed.contains(&"CARGO_MANIFEST_DIR".as_ref()));
        assert!(!removed.contains(&"PATH".as_ref()));
    }
}
