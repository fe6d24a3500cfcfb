//! Running the program with the preloaded library, and taking what it wrote.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, bail};
use kelpie_trace::{Process, Trace, process};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::note;

/// The preloaded library, beside this program or where `make install` puts it.
const LIBRARY: &str = "libkelpie_preload.so";

/// What it exports; one that was built without verbs does not.
const SYMBOL: &[u8] = b"ibv_open_device";

/// What stands in the name of an empty file between process and `errno` if the process could not be recorded.
const UNRECORDED: &str = ".unrecorded-";

/// Most processes whose records are read. Source: our choice, because a host has fewer CPUs.
const MOST: usize = 4096;

/// Runs the command to its end and reads what its processes did.
pub fn record(command: &[OsString], is_stdout_ours: bool) -> anyhow::Result<Trace> {
    let library = library()?;
    let records = tempfile::Builder::new().prefix("kelpie-trace-").tempdir().context("a directory for records")?;
    let (program, arguments) = command.split_first().context("no program to run")?;
    let mut child = Command::new(program);
    child.args(arguments).env("LD_PRELOAD", preloads(&library)).env("KELPIE_TRACE_DIR", records.path());
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
    if !status.success() {
        note(&format!("the program ended with {status}; the record until then is kept"));
    }
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    Ok(Trace { kelpie: Trace::FORMAT.to_owned(), program: name, processes: processes(records.path())? })
}

fn processes(folder: &Path) -> anyhow::Result<Vec<Process>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).context("the directory of records")? {
        paths.push(entry.context("the directory of records")?.path());
    }
    paths.sort();
    if paths.len() > MOST {
        note(&format!("{} processes used RDMA; {MOST} are read", paths.len()));
        paths.truncate(MOST);
    }
    let mut processes = Vec::new();
    for path in &paths {
        let name = || path.display().to_string();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((pid, errno)) = file_name.split_once(UNRECORDED) {
            let error = errno
                .parse()
                .map_or_else(|_| errno.to_owned(), |errno| io::Error::from_raw_os_error(errno).to_string());
            note(&format!("process {pid} is not recorded: {error}; TMPDIR names the directory of records"));
            continue;
        }
        match process(&File::open(path).with_context(name)?) {
            Ok(process) => processes.push(process),
            // It ended before it began to write, or could not; the others are worth reading.
            Err(error) => note(&format!("{} is left out: {error}", name())),
        }
    }
    Ok(processes)
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
