//! A terminal for the binary to run in, and what a person would see on it. No assertions about pictures.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use vt100::Parser;

/// How long a test waits for something to show.
const PATIENCE: Duration = Duration::from_mins(1);

/// The binary in a terminal.
pub struct TerminalSession {
    child: Child,
    master: File,
    /// Kept open, so that the modes can be looked at when the binary has gone.
    terminal: OwnedFd,
    screen: Arc<Mutex<TerminalScreen>>,
    is_closed: Arc<AtomicBool>,
}

struct TerminalScreen {
    parser: Parser,
    bytes: Vec<u8>,
}

fn some(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).expect("a terminal has cells")
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl TerminalSession {
    /// Starts the binary in a terminal of this size.
    pub fn start(mut command: Command, rows: u16, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudoterminal");
        grantpt(&master).expect("ours");
        unlockpt(&master).expect("ours");
        let terminal = ioctl_tiocgptpeer(&master, flags).expect("its other end");
        tcsetwinsize(&terminal, size(rows, columns)).expect("a terminal");
        let end = || terminal.try_clone().expect("a descriptor");
        let child = command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end()).spawn();
        let master = File::from(master);
        let screen = Arc::new(Mutex::new(TerminalScreen {
            parser: Parser::new(some(rows), some(columns), 0),
            bytes: Vec::new(),
        }));
        let seen =
            Self { child: child.expect("the binary starts"), master, terminal, screen, is_closed: Arc::default() };
        seen.look();
        seen
    }

    /// Reads what the binary draws, until the terminal is gone.
    fn look(&self) {
        let mut from = self.master.try_clone().expect("a descriptor");
        let (screen, is_closed) = (Arc::clone(&self.screen), Arc::clone(&self.is_closed));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let pause = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            loop {
                // Who waits in a read keeps the terminal open.
                let is_there = poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&pause)).expect("a terminal") > 0;
                if is_closed.load(Ordering::Relaxed) {
                    break;
                }
                if !is_there {
                    continue;
                }
                let Ok(length @ 1..) = from.read(&mut buffer) else { break };
                let mut shown = screen.lock().expect("nobody panics with it");
                shown.parser.process(&buffer[..length]);
                shown.bytes.extend(&buffer[..length]);
            }
        });
    }

    /// What is on the screen.
    pub fn picture(&self) -> String {
        self.screen.lock().expect("nobody panics with it").parser.screen().contents()
    }

    /// All that was written to the terminal.
    pub fn bytes(&self) -> Vec<u8> {
        self.screen.lock().expect("nobody panics with it").bytes.clone()
    }

    /// Waits until the screen shows what is wanted, and returns it.
    pub fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let picture = self.picture();
            if wanted(&picture) {
                return picture;
            }
            assert!(Instant::now() < deadline, "never came: {picture}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Makes the terminal larger or smaller.
    pub fn resize(&self, rows: u16, columns: u16) {
        self.screen.lock().expect("nobody panics with it").parser.screen_mut().set_size(some(rows), some(columns));
        tcsetwinsize(&self.terminal, size(rows, columns)).expect("a terminal");
    }

    /// Sends a signal of the system, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Closes the terminal as a window that is closed does; whether the binary ends soon after that.
    pub fn close(mut self) -> bool {
        self.is_closed.store(true, Ordering::Relaxed);
        let Self { child, master, terminal, .. } = &mut self;
        *terminal = File::open("/dev/null").expect("it is there").into();
        *master = File::open("/dev/null").expect("it is there");
        let soon = Instant::now() + Duration::from_secs(10);
        while Instant::now() < soon {
            if child.try_wait().expect("it is our child").is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Waits for its end; returns its exit status and whether it left the terminal as a shell wants it.
    pub fn end(&mut self) -> (Option<i32>, bool) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("it is our child") {
                Some(status) => break status.code(),
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                None => panic!("it does not end: {}", self.picture()),
            }
        };
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_modes;
        let is_cooked = modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        // What was written last may still be on its way.
        let is_plain = || {
            let shown = self.screen.lock().expect("nobody panics with it");
            !shown.parser.screen().alternate_screen() && !shown.parser.screen().hide_cursor()
        };
        let soon = Instant::now() + Duration::from_secs(5);
        while !is_plain() && Instant::now() < soon {
            std::thread::sleep(Duration::from_millis(20));
        }
        (status, is_cooked && is_plain())
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        // Only if a test failed on the way is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
