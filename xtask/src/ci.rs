//! `cargo xtask ci`: everything that has to hold before a change goes in, in the order in which it fails fastest.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::{headers, layers, workspace_root};

/// Name and work of one step.
type Step = (&'static str, fn(&Path) -> Result<()>);

const STEPS: [Step; 8] = [
    ("formatting", |root| cargo(root, &["fmt", "--all", "--check"])),
    ("file headers", headers::check),
    ("layers", layers::check),
    ("dependencies", deny),
    ("clippy", |root| cargo(root, &with_verbs(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("tests", tests),
    ("documentation tests", |root| cargo(root, &with_verbs(&["test", "--quiet", "--workspace", "--doc"]))),
    ("documentation", documentation),
];

/// Runs every step; the first that fails ends it.
pub fn run(args: &[String]) -> Result<()> {
    ensure!(args.is_empty(), "usage: cargo xtask ci");
    let root = workspace_root();
    let mut done = Vec::new();
    for (name, step) in STEPS {
        eprintln!("== {name}");
        let start = Instant::now();
        step(&root).with_context(|| name)?;
        done.push((name, start.elapsed().as_secs_f64()));
    }
    for (name, seconds) in done {
        eprintln!("   {name:<20} ok  {seconds:6.1} s");
    }
    Ok(())
}

/// `--features verbs` where this machine can build it, before the arguments of the tool behind cargo.
fn with_verbs<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut all = args.to_vec();
    if verbs_can_be_built() {
        let end = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        all.splice(end..end, ["--features", "verbs"]);
    }
    all
}

/// Whether the headers of libibverbs and librdmacm are there, and libclang to read them.
fn verbs_can_be_built() -> bool {
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

fn has_tool(root: &Path, tool: &str) -> bool {
    crate::cargo::cargo(root).args([tool, "--version"]).output().is_ok_and(|output| output.status.success())
}

fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    let status = crate::cargo::cargo(root).args(args).status().context("cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(())
}

fn tests(root: &Path) -> Result<()> {
    if has_tool(root, "nextest") {
        return cargo(root, &with_verbs(&["nextest", "run", "--workspace", "--no-fail-fast"]));
    }
    eprintln!("   cargo-nextest is not installed: `cargo test` does the same, less tidily");
    cargo(root, &with_verbs(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]))
}

fn documentation(root: &Path) -> Result<()> {
    let status = crate::cargo::cargo(root)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(with_verbs(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]))
        .status()
        .context("cargo")?;
    ensure!(status.success(), "`cargo doc` failed");
    Ok(())
}

/// Licences, bans and sources always; advisories where their database can be reached.
fn deny(root: &Path) -> Result<()> {
    if !has_tool(root, "deny") {
        eprintln!("   cargo-deny is not installed, so licences and advisories are not checked here");
        return Ok(());
    }
    cargo(root, &["deny", "check", "licenses", "bans", "sources"])?;
    let fetched =
        crate::cargo::cargo(root).args(["deny", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !fetched {
        eprintln!("   the advisory database cannot be reached, so advisories are not checked");
        return Ok(());
    }
    cargo(root, &["deny", "check", "advisories"])
}
