//! Signals: a flag that Ctrl-C and termination raise, and one that must not end the process without a word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::SIGXFSZ;

use crate::exit;
use crate::output::note;

/// The flag; a first signal says `message`, a second one ends the process at once, which loses nothing.
pub fn on_signals(message: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(exit::INTERRUPTED);
        }
        note(message);
    })
    .context("signal handler")?;
    Ok(stop)
}

/// A limit on the size of files (`ulimit -f`) ends a write with an error, and no more the process without a message.
pub fn survive_file_limit() {
    // Where the signal cannot be had, all is as it was.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
