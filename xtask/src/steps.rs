//! Steps of a check, one after another, and the table that says at its end what took how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What was run so far.
pub struct Steps {
    started: Instant,
    rows: Vec<Row>,
    interrupted: Arc<AtomicBool>,
}

struct Row {
    name: &'static str,
    took: Duration,
    outcome: &'static str,
}

impl Steps {
    /// Nothing yet. From here on, Ctrl-C ends the programs that a step runs but not this one, so that it can tidy up.
    pub fn start() -> Result<Steps> {
        let interrupted = Arc::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("listen for Ctrl-C")?;
        }
        Ok(Steps { started: Instant::now(), rows: Vec::new(), interrupted })
    }

    /// Runs one step.
    pub fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted before {name}");
        eprintln!("== {name}");
        let started = Instant::now();
        let outcome = work().context(name);
        self.add(name, started.elapsed(), if outcome.is_ok() { "ok" } else { "failed" });
        outcome
    }

    /// Notes what was not a step of its own.
    pub fn add(&mut self, name: &'static str, took: Duration, outcome: &'static str) {
        self.rows.push(Row { name, took, outcome });
    }

    /// Says what took how long.
    pub fn report(&self) {
        eprint!("{}", table(&self.rows, self.started.elapsed()));
    }
}

fn table(rows: &[Row], total: Duration) -> String {
    let line = |name: &str, took: Duration, outcome: &str| {
        format!("   {:<22}{:>8.1} s  {outcome}", name, took.as_secs_f64()).trim_end().to_owned() + "\n"
    };
    let rows: String = rows.iter().map(|row| line(row.name, row.took, row.outcome)).collect();
    rows + &line("in all", total, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_took_how_long() {
        let rows = [
            Row { name: "clippy", took: Duration::from_millis(61_250), outcome: "ok" },
            Row { name: "tests", took: Duration::from_secs(5), outcome: "failed" },
        ];
        let expected = "   clippy                    61.2 s  ok\n   tests                      5.0 s  failed\n   \
                        in all                    70.0 s\n";
        assert_eq!(table(&rows, Duration::from_secs(70)), expected);
    }

    #[test]
    fn a_failed_step_is_in_the_table() {
        let mut steps = Steps::start().unwrap();
        steps.run("one", || Ok(())).unwrap();
        let error = steps.run("two", || anyhow::bail!("no")).unwrap_err();
        assert_eq!(format!("{error:#}"), "two: no");
        assert_eq!(steps.rows.iter().map(|row| row.outcome).collect::<Vec<_>>(), ["ok", "failed"]);
    }
}
