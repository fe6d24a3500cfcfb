//! Running the program with the preloaded library, and taking what it wrote.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::Context as _;
use kelpie_trace::{Process, Trace, process};

use crate::output::note;
use crate::preloaded;

/// What stands in the name of an empty file between process and `errno` if the process could not be recorded.
const UNRECORDED: &str = ".unrecorded-";

/// Most processes whose records are read. Source: our choice, because a host has fewer CPUs.
const MOST: usize = 4096;

/// Runs the command to its end and reads what its processes did.
pub fn record(command: &[OsString], is_stdout_ours: bool) -> anyhow::Result<Trace> {
    let records = tempfile::Builder::new().prefix("kelpie-trace-").tempdir().context("a directory for records")?;
    let folder = [("KELPIE_TRACE_DIR", records.path().as_os_str())];
    let (program, status) = preloaded::run(command, &folder, is_stdout_ours)?;
    if !status.success() {
        note(&format!("the program ended with {status}; the record until then is kept"));
    }
    Ok(Trace { kelpie: Trace::FORMAT.to_owned(), program, processes: processes(records.path())? })
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
