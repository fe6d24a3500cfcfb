//! Signals: a flag that Ctrl-C and termination raise, and one that must not end the process without a word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit;
use crate::output::note;

/// Ctrl-C, termination, and a terminal that is gone.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The flag; a first signal says `message`, a second one ends the process at once, which loses nothing.
pub fn on_signals(message: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let mut signals = Signals::new(ENDING).context("signal handler")?;
    // A thread, because a signal may come at any moment, and a handler can neither print nor exit safely.
    thread::spawn(move || {
        for _ in signals.forever() {
            if raised.swap(true, Ordering::Relaxed) {
                std::process::exit(exit::INTERRUPTED);
            }
            note(message);
        }
    });
    Ok(stop)
}

/// The flag without a word: for a screen that is drawn on, where Ctrl-C is a key.
pub fn silently_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signal handler")?;
    }
    Ok(stop)
}

/// How long whoever reads keys has to see the flag. Source: our choice, ten times what it takes.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// How often a terminal is looked at. Source: our choice.
const LOOK: Duration = Duration::from_millis(100);

/// Raises the flag once the terminal of stdin is gone. Whoever reads keys from it then may read its end for ever, and
/// see no flag: a moment after the flag was raised, by a signal too, the process ends.
pub fn when_terminal_goes(flag: &Arc<AtomicBool>, restore: fn()) -> anyhow::Result<()> {
    let flag = Arc::clone(flag);
    let look = move || {
        let pause = Timespec::try_from(LOOK).expect("a short time");
        loop {
            // Asked for nothing, the system says whether it is hung up.
            let stdin = std::io::stdin();
            let mut terminal = [PollFd::new(&stdin, PollFlags::empty())];
            let is_gone = poll(&mut terminal, Some(&pause)).is_ok_and(|count| count > 0);
            if is_gone || flag.load(Ordering::Relaxed) {
                flag.store(true, Ordering::Relaxed);
                thread::sleep(LAST_MOMENT);
                restore();
                std::process::exit(if is_gone { 0 } else { exit::INTERRUPTED });
            }
        }
    };
    thread::Builder::new().name("terminal".to_owned()).spawn(look).context("a thread")?;
    Ok(())
}

/// A limit on the size of files (`ulimit -f`) ends a write with an error, and no more the process without a message.
pub fn survive_file_limit() {
    // Where the signal cannot be had, all is as it was.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
