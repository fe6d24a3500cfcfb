//! Running a program with `libkelpie_preload.so`, from its start to its end, with the signals that are meant for it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The preloaded library, beside this program or where `make install` puts it.
const LIBRARY: &str = "libkelpie_preload.so";

/// What it exports; one that was built without verbs does not.
const SYMBOL: &[u8] = b"ibv_open_device";

/// Runs the command to its end with these variables for the library.
pub fn run(
    command: &[OsString],
    variables: &[(&str, &OsStr)],
    is_stdout_ours: bool,
) -> anyhow::Result<(String, ExitStatus)> {
    let library = library()?;
    let (program, arguments) = command.split_first().context("no program to run")?;
    let mut child = Command::new(program);
    child.args(arguments).env("LD_PRELOAD", preloads(&library)).envs(variables.iter().copied());
    if is_stdout_ours {
        child.stdout(Stdio::from(io::stderr()));
    }
    // Before it starts, so that no signal falls between.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signal handler")?;
    let mut child = child.spawn().with_context(|| format!("run {}", program.to_string_lossy()))?;
    let pid = Pid::from_child(&child);
    let handle = signals.handle();
    let forwarding = thread::spawn(move || {
        for signal in signals.forever() {
            // Ctrl-C has reached the program by itself. What it did until it ends is worth reading.
            if let Some(signal) = Signal::from_named_raw(signal).filter(|signal| *signal != Signal::INT) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    let status = child.wait().context("wait for the program")?;
    handle.close();
    // It only passed signals on, and ends with the handle.
    let _ = forwarding.join();
    Ok((Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned(), status))
}

/// The library before those that are preloaded anyway.
fn preloads(library: &Path) -> OsString {
    let mut preloads = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloads.push(":");
        preloads.push(others);
    }
    preloads
}

fn library() -> anyhow::Result<PathBuf> {
    let program = env::current_exe().context("this program's place")?;
    let beside = program.with_file_name(LIBRARY);
    let installed = program.parent().map(|folder| folder.join("../lib/kelpie").join(LIBRARY));
    let path = installed.filter(|path| !beside.exists() && path.exists()).unwrap_or(beside);
    let built = "`make install`, or build it with `cargo build --release --features verbs` and keep it beside kelpie";
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("{} is not there: {built}", path.display()),
        bytes => bytes.with_context(|| path.display().to_string())?,
    };
    if !bytes.windows(SYMBOL.len()).any(|window| window == SYMBOL) {
        bail!("{} was built without verbs: {built}", path.display());
    }
    // The dynamic linker splits its list at these.
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| b": ".contains(byte)) {
        bail!("{}: a path with a space or a colon cannot be preloaded; move kelpie", path.display());
    }
    Ok(path)
}
