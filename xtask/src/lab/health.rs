//! Whether a guest still works. An emulator can lose a notification between a guest and its link, and then nothing
//! moves any more. Such a guest is found, ended, started again and counted here.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::guest::Guest;
use super::place::Lab;
use super::{BOOT_LIMIT, kernel};

/// How long a guest may take to answer all questions. Source: our choice, because an idle guest answers in under 1 s
/// and one beside a build of this project in under 10 s.
const ANSWER: Duration = Duration::from_secs(40);

/// How long an agent may take to listen, also one that was ended a moment ago.
const AGENT: Duration = Duration::from_mins(1);

/// What the kernel prints if the link or the processor stopped, as an extended regular expression.
/// Source: Linux `net/sched/sch_generic.c` (`dev_watchdog`), `kernel/watchdog.c`, `kernel/rcu/tree_stall.h`,
/// `arch/x86/kernel/dumpstack.c`.
const FAULTS: &str =
    "NETDEV WATCHDOG|soft lockup|self-detected stall|detected stalls|BUG:|Oops|general protection fault";

impl Lab {
    /// Starts those guests again that do not work, although nobody ended them; what was wrong with each.
    pub fn mend(&self) -> Result<Vec<String>> {
        let started: Vec<Guest> = self.guests().into_iter().filter(|guest| guest.kernel().is_some()).collect();
        let mut mended = Vec::new();
        for guest in &started {
            if let Some(sign) = sign(guest) {
                mended.push(self.start_again(guest, &sign)?);
            }
        }
        // A link has two ends, and nothing says which of them lost what was sent.
        let mut hosts = started.iter().filter(|guest| guest.has_agent());
        if let Some(first) = hosts.next()
            && started.len() == self.shape.roles().len()
            && !hosts.all(|other| link_answers(first, other))
        {
            for guest in &started {
                mended.push(self.start_again(guest, "nothing crosses its link")?);
            }
        }
        if !mended.is_empty() {
            self.write_pair(&self.guests())?;
        }
        Ok(mended)
    }

    fn start_again(&self, guest: &Guest, sign: &str) -> Result<String> {
        let mut log = OpenOptions::new().create(true).append(true).open(self.stall_log())?;
        writeln!(log, "guest {}: {sign}", guest.name).context("write the list of stalls")?;
        let kernel = guest.kernel().with_context(|| format!("guest {} was not started", guest.name))?;
        guest.end()?;
        guest.start(self, &kernel::prepare(self, Some(&kernel))?)?;
        guest.wait_ready(BOOT_LIMIT)?;
        if guest.has_agent() {
            guest.wait_agent(AGENT)?;
        }
        Ok(format!("guest {} stalled: {sign}; it was started again", guest.name))
    }

    /// How often a guest had to be started again since the lab was brought up.
    pub fn stalls(&self) -> usize {
        fs::read_to_string(self.stall_log()).map_or(0, |log| log.lines().count())
    }

    /// Begins to count anew.
    pub fn forget_stalls(&self) -> Result<()> {
        fs::write(self.stall_log(), "").context("write the list of stalls")
    }

    fn stall_log(&self) -> PathBuf {
        self.state().join("stalls")
    }
}

/// Why a guest does not work, as far as it can be seen without the other one; `None` if it does.
fn sign(guest: &Guest) -> Option<String> {
    if !guest.is_running() {
        return Some(format!("its process ended, and its console with: {}", guest.last_words(3).join(" / ")));
    }
    // The log of the kernel is cleared as it is read, so that a fault is reported once.
    let fault = format!("dmesg -c | grep -m 1 -E '{FAULTS}'");
    match guest.execute(&fault, ANSWER) {
        Ok((line, 0)) => return Some(line.trim().to_owned()),
        Ok(_) => {}
        Err(_) => return Some(format!("its console gave no answer in {} s", ANSWER.as_secs())),
    }
    if !guest.has_agent() {
        return None;
    }
    if guest.wait_agent(AGENT).is_err() {
        return Some(format!("its agent did not listen within {} s", AGENT.as_secs()));
    }
    // Connections are accepted before the guest does: that its kernel lists the connection shows that the link of the
    // agent works.
    let connection = guest.port().and_then(|port| Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?));
    let listed =
        "for turn in $(seq 50); do grep -qi ':1D2F [0-9A-F:]* 01 ' /proc/net/tcp && exit; sleep 0.1; done; exit 1";
    let is_listed = connection.is_ok() && matches!(guest.execute(listed, ANSWER), Ok((_, 0)));
    (!is_listed).then(|| "no connection reaches its agent".to_owned())
}

/// Whether a packet comes back: the first, which takes no time, or else one of three that are a second apart.
fn link_answers(from: &Guest, to: &Guest) -> bool {
    let ping = |count: u32| format!("busybox ping -c {count} -W 5 {}", to.role.address);
    let answered = format!("{} >/dev/null || {} | grep -q ', [1-3] packets received'", ping(1), ping(3));
    matches!(from.execute(&answered, ANSWER), Ok((_, 0)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_kernel_that_reports_a_stall_is_recognised() {
        for (line, is_fault) in [
            ("[  281.3] NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 0 timed out", true),
            ("[   99.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [kworker/0:1:9]", true),
            ("[   21.0] rcu: INFO: rcu_preempt self-detected stall on CPU", true),
            ("[  120.4] rdma_rxe: loaded", false),
            ("[    0.4] NET: Registered PF_NETLINK/PF_ROUTE protocol family", false),
        ] {
            let grep = Command::new("grep").args(["-q", "-E", FAULTS, "/dev/stdin"]).stdin(file_with(line)).status();
            assert_eq!(grep.expect("grep is there").success(), is_fault, "{line}");
        }
    }

    fn file_with(line: &str) -> fs::File {
        use std::io::Seek;
        let mut file = tempfile::tempfile().expect("a temporary file");
        writeln!(file, "{line}").expect("it is writable");
        file.rewind().expect("it is a file");
        file
    }
}
