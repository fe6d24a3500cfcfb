//! A flag that Ctrl-C and termination raise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

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
