//! Agents in the guests that are the ranks of a job, beside the hosts' own.

use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::DualPortLab;

/// A rank: its guest, its agent's number there, and its tuning.
pub type RankOfLab<'r> = (&'r str, u32, String);

/// Agents that run; they end with it. That of a number has `/run/rankNUMBER.pid` in its guest.
pub struct RunningRanks<'l> {
    lab: &'l DualPortLab,
    agents: Vec<(String, u32)>,
}

impl<'l> RunningRanks<'l> {
    /// Starts them, and names them in `name`.yaml of what the guests share.
    pub fn start(lab: &'l DualPortLab, name: &str, ranks: &[RankOfLab<'_>]) -> Self {
        lab.copy_programs();
        let mut file = "kelpie: ranks/1\nplain: true\nranks:\n".to_owned();
        for (host, number, tuning) in ranks {
            let address = format!("10.8.0.{}:{}", if *host == "a" { 1 } else { 2 }, 7480 + number);
            lab.in_guest(
                host,
                &format!(
                    "(setsid /run/steered/kelpie agent --listen {address} --plain --device rxe0 >/run/rank{number}.log 2>&1 & \
                     echo $! >/run/rank{number}.pid)"
                ),
            );
            let _ = writeln!(file, "  - {{agent: \"{address}\", device: rxe0, gid_index: 1, tuning: {tuning}}}");
        }
        fs::write(lab.dir.join(format!("share/{name}.yaml")), file).expect("the share is writable");
        let running =
            Self { lab, agents: ranks.iter().map(|(host, number, _)| ((*host).to_owned(), *number)).collect() };
        let started = Instant::now();
        for (host, number) in &running.agents {
            while !lab.in_guest(host, &format!("cat /run/rank{number}.log")).contains("agent is ready") {
                assert!(started.elapsed() < Duration::from_secs(40), "agents start");
                thread::sleep(Duration::from_millis(200));
            }
        }
        running
    }
}

impl Drop for RunningRanks<'_> {
    fn drop(&mut self) {
        for (host, number) in &self.agents {
            self.lab.in_guest(host, &format!("kill -9 $(cat /run/rank{number}.pid); rm -f /run/rank{number}.*"));
        }
    }
}
