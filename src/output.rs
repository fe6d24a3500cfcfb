//! What leaves this program: results on stdout, notes and the log on stderr. How text looks is in `kelpie_text`.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use kelpie_text::{clean_json, outgoing};
use serde::Serialize;

pub use kelpie_text::{Table, percent, plural, quoted, si, time, width, wrapped};

/// Writes a document to stdout; nothing in it steers a terminal, whoever wrote it. A reader that went away early (`|
/// head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = outgoing(text, console::colors_enabled());
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("stdout"),
    }
}

/// The same for text that people read; a terminal shows lines that are too long for it wrapped between words.
pub fn print_prose(text: &str) -> anyhow::Result<()> {
    match console::Term::stdout().size_checked() {
        Some((_, columns)) => print(&wrapped(text, columns.into())),
        None => print(text),
    }
}

/// Writes one JSON document to stdout.
pub fn print_json<T: Serialize>(document: &T) -> anyhow::Result<()> {
    print(&(clean_json(serde_json::to_string_pretty(document)?) + "\n"))
}

/// Whether only errors are said.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on, [`note`] says errors only.
pub fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Whether only errors are said.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Writes a line to stderr; if that fails, nobody can read an error either.
pub fn note(line: &str) {
    if !is_quiet() || line.starts_with("error: ") {
        let _ = writeln!(io::stderr(), "{}", outgoing(line, console::colors_enabled_stderr()));
    }
}

/// stderr for the log, which quotes others.
pub struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(outgoing(&text, console::colors_enabled_stderr()).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
