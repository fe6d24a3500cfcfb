//! One guest: its process, its control port and its files. Only the process whose id it recorded is ever ended.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;
use super::machine::Machine;
use super::place::{Lab, checked};
use super::shape::Role;
use super::{emulated, keeper};

/// How long a guest's process may take to end after each request.
const ENDING: Duration = Duration::from_secs(5);

/// How long a process may have no command line while it starts a program: user-mode Linux starts itself anew as it
/// begins.
const STARTING: Duration = Duration::from_secs(1);

/// Answers to commands are cut here. Units: bytes.
const ANSWER_LIMIT: usize = 16 << 20;

/// One guest of the lab.
pub struct Guest {
    pub name: &'static str,
    pub role: Role,
    dir: PathBuf,
}

impl Guest {
    pub fn new(state: &Path, role: Role) -> Self {
        Self { name: role.name, dir: state.join(role.name), role }
    }

    /// Whether an agent runs in it.
    pub fn has_agent(&self) -> bool {
        self.role.port.is_some()
    }

    /// Port of the agent on 127.0.0.1, as chosen at the start.
    pub fn port(&self) -> Result<u16> {
        let text = fs::read_to_string(self.dir.join("port"))
            .with_context(|| format!("guest {} was not started", self.name))?;
        text.trim().parse().context("the recorded port is no number")
    }

    /// Version of the kernel that it was started with.
    pub fn kernel(&self) -> Option<String> {
        fs::read_to_string(self.dir.join("kernel")).ok()
    }

    /// Id of its process, while it is the one that was started here.
    fn pid(&self) -> Option<u32> {
        let pid = fs::read_to_string(self.dir.join("pid")).ok()?.trim().parse().ok()?;
        let started = Instant::now();
        let mut line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        // One that has just ended has none either, until its parent has noticed.
        while line.is_empty() && started.elapsed() < STARTING {
            thread::sleep(Duration::from_millis(10));
            line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        }
        let ours = self.dir.join("control").into_os_string().into_string().ok()?;
        String::from_utf8_lossy(&line).contains(&ours).then_some(pid)
    }

    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    pub fn start(&self, lab: &Lab, kernel: &Kernel) -> Result<()> {
        // A guest that comes back keeps its port: campaigns have stored it.
        let wanted = self.port().ok().or(self.role.port);
        let port = wanted.map(free_port).transpose()?;
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(&self.dir)?;
        if let Some(port) = port {
            fs::write(self.dir.join("port"), port.to_string())?;
        }
        fs::write(self.dir.join("kernel"), &kernel.version)?;
        match lab.machine {
            Machine::UserMode => keeper::start(lab, self.name, kernel),
            Machine::Emulated => {
                let command = emulated::command(lab, &self.role, &self.dir, kernel, port)?;
                checked(&mut { command }, &format!("qemu-system-x86_64 for guest {}", self.name)).map(drop)
            }
        }
    }

    /// Waits until the guest's first process says that it is done.
    pub fn wait_ready(&self, limit: Duration) -> Result<()> {
        let log = self.dir.join("console.log");
        self.wait(limit, "boot", || {
            fs::read(&log).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("lab: ready"))
        })
    }

    /// Ends the agent; its successor, which the guest starts, runs what was deployed meanwhile.
    pub fn restart_agent(&self) -> Result<()> {
        let end = "pid=$(cat /run/agent.pid); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep 0.1; done";
        self.execute(end, Duration::from_secs(20)).map(drop)
    }

    /// Waits until the agent in the guest listens. Connections alone say nothing: they are accepted before the guest
    /// does.
    pub fn wait_agent(&self, limit: Duration) -> Result<()> {
        let test = "test -e /run/agent.pid && grep -qi ':1D2F 00000000:0000 0A ' /proc/net/tcp";
        self.wait(limit, "start its agent", || {
            self.execute(test, Duration::from_secs(5)).is_ok_and(|(_, status)| status == 0)
        })
    }

    fn wait(&self, limit: Duration, what: &str, done: impl Fn() -> bool) -> Result<()> {
        let started = Instant::now();
        while !done() {
            let is_running = self.is_running();
            if started.elapsed() > limit || !is_running {
                let how = if is_running { format!("in {} s", limit.as_secs()) } else { "and has ended".to_owned() };
                let last = self.last_words(15).join("\n");
                bail!("guest {} did not {what} {how}; its console ended with:\n{last}", self.name);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The last lines of its console.
    pub fn last_words(&self, lines: usize) -> Vec<String> {
        let log = fs::read(self.dir.join("console.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
    }

    /// Runs a shell command in the guest; its output and exit status.
    pub fn execute(&self, command: &str, limit: Duration) -> Result<(String, i32)> {
        let socket = self.dir.join("control");
        let deadline = Instant::now() + limit;
        let mut stream = UnixStream::connect(&socket).with_context(|| format!("connect to guest {}", self.name))?;
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let mark = format!("mark-{}-{}", std::process::id(), now.as_nanos());
        writeln!(stream, "{mark} {command}")?;
        let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => bail!("guest {} closed its control port", self.name),
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("read from the guest"),
            }
            let text = String::from_utf8_lossy(&answer);
            if let Some((output, rest)) = text.split_once(&format!("{mark} "))
                && let Some((status, _)) = rest.split_once('\n')
            {
                return Ok((output.to_owned(), status.trim().parse().context("the exit status is no number")?));
            }
            if Instant::now() > deadline || answer.len() > ANSWER_LIMIT {
                bail!("guest {} did not answer `{command}` in {} s", self.name, limit.as_secs());
            }
        }
    }

    /// Ends the guest, if it runs.
    pub fn end(&self) -> Result<()> {
        let kill = |signal: &str, pid: u32| {
            checked(Command::new("kill").args([signal, &pid.to_string()]), &format!("kill {signal} {pid}")).map(drop)
        };
        end(|| self.pid(), ENDING, kill).with_context(|| format!("guest {} was not ended", self.name))
    }
}

/// Ends a process, which may also go by itself at any moment: asks, and insists after `limit`.
fn end(pid: impl Fn() -> Option<u32>, limit: Duration, kill: impl Fn(&str, u32) -> Result<()>) -> Result<()> {
    for signal in ["-TERM", "-KILL"] {
        let Some(running) = pid() else { return Ok(()) };
        let sent = kill(signal, running);
        let started = Instant::now();
        while sent.is_ok() && pid().is_some() && started.elapsed() < limit {
            thread::sleep(Duration::from_millis(50));
        }
        if pid().is_none() {
            return Ok(());
        }
        sent?;
    }
    bail!("it still runs {} s after `kill -KILL`", limit.as_secs())
}

/// `wanted`, or any other port if something else listens there.
fn free_port(wanted: u16) -> Result<u16> {
    if TcpStream::connect(("127.0.0.1", wanted)).is_err()
        && let Ok(listener) = TcpListener::bind(("127.0.0.1", wanted))
    {
        return Ok(listener.local_addr()?.port());
    }
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Ends a process that goes with the signal `last`; what it was sent, and how that failed.
    fn ended(last: &str, kill_fails: bool) -> (Vec<String>, String) {
        let (runs, sent) = (Cell::new(true), RefCell::new(Vec::new()));
        let kill = |signal: &str, _| {
            sent.borrow_mut().push(signal.to_owned());
            runs.set(signal != last);
            if kill_fails { Err(anyhow::anyhow!("no such process")) } else { Ok(()) }
        };
        let done = end(|| runs.get().then_some(7), Duration::from_millis(1), kill);
        (sent.into_inner(), done.err().map(|error| error.to_string()).unwrap_or_default())
    }

    #[test]
    fn a_process_is_ended_or_the_reason_told() {
        for (last, kill_fails, sent, error) in [
            ("-TERM", false, &["-TERM"][..], ""),
            ("-KILL", false, &["-TERM", "-KILL"], ""),
            ("none", false, &["-TERM", "-KILL"], "it still runs 0 s after `kill -KILL`"),
            ("-TERM", true, &["-TERM"], ""),
            ("none", true, &["-TERM"], "no such process"),
        ] {
            let expected = (sent.iter().map(ToString::to_string).collect(), error.to_owned());
            assert_eq!(ended(last, kill_fails), expected, "{last} {kill_fails}");
        }
    }
}
