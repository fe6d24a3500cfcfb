//! Reading of files that users name: bounded in length and, for pipes, in time.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

/// Longest file that is read as YAML. Units: bytes. Source: our choice, because a workload of 1,000 flows is a
/// tenth of it.
const MAX_FILE: u64 = 16 << 20;

/// How long a pipe with a name may be without what somebody writes to it. Source: our choice, because a command that
/// fills it begins within that.
const PIPE_PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Reads a file of at most 16 MiB; `-` is stdin.
///
/// # Errors
///
/// It cannot be read, or is longer.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file_up_to(path, MAX_FILE)
}

/// Reads a file of at most `limit` bytes; `-` is stdin.
///
/// # Errors
///
/// It cannot be read, or is longer.
pub fn read_file_up_to(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let too_long = || {
        let (size, unit) = if limit < 1 << 20 { (limit >> 10, "KiB") } else { (limit >> 20, "MiB") };
        format!("{}: longer than {size} {unit}, the most that Kelpie reads", path.display())
    };
    if path == Path::new("-") {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).context("stdin")?;
    } else {
        let name = || path.display().to_string();
        let file = open(path).with_context(name)?;
        if file.metadata().is_ok_and(|found| found.is_file() && found.len() > limit) {
            bail!(too_long());
        }
        file.take(limit + 1).read_to_end(&mut bytes).with_context(name)?;
    }
    if bytes.len() as u64 > limit {
        bail!(too_long());
    }
    Ok(bytes)
}

/// Replaces a file as a whole by what `write` writes, once that is on the disk.
///
/// # Errors
///
/// `write` says so, or the folder or the disk does not take it; then the file is as it was.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut writer = BufWriter::new(file.as_file_mut());
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Opens a file to read; of a pipe it waits for the writer, as long as one may be waited for.
///
/// # Errors
///
/// It is not there, is a directory, or is a pipe to which nobody writes.
pub fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => anyhow::anyhow!("a link to a file that is not there"),
        io::ErrorKind::NotFound => match std::env::current_dir() {
            Ok(here) if path.is_relative() => anyhow::anyhow!("No such file in {}", here.display()),
            _ => anyhow::anyhow!("No such file"),
        },
        _ => error.into(),
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        bail!("a directory; name a file");
    }
    if kind.is_fifo() && poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&PIPE_PATIENCE))? == 0 {
        bail!("a pipe, and nobody wrote to it within {} s", PIPE_PATIENCE.tv_sec);
    }
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}
