//! Steps of a task, one after another, and the table that says at its end what took how long; `tables` keeps it.

mod tables;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

/// One step of a task.
pub struct Step {
    pub name: &'static str,
    /// What runs this step alone, which is what to do after it failed.
    pub alone: &'static str,
    pub work: fn(&Path) -> Result<()>,
}

/// What was run so far.
pub struct Steps {
    task: &'static str,
    root: PathBuf,
    started: Instant,
    rows: Vec<Row>,
    interrupted: Arc<AtomicBool>,
}

struct Row {
    name: &'static str,
    took: Duration,
    outcome: &'static str,
}

/// Ctrl-C or termination, which is no failure of a step.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Steps {
    /// Nothing yet. From here on, Ctrl-C ends the programs that a step runs but not this one, so that it can tidy up.
    pub fn start(task: &'static str, root: &Path) -> Result<Steps> {
        let interrupted = Arc::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("listen for Ctrl-C")?;
        }
        Ok(Steps { task, root: root.to_owned(), started: Instant::now(), rows: Vec::new(), interrupted })
    }

    /// Runs one step.
    pub fn run(&mut self, step: &Step) -> Result<()> {
        self.ensure_not_interrupted()?;
        eprintln!("== {}", step.name);
        let started = Instant::now();
        let outcome = (step.work)(&self.root);
        let word = match &outcome {
            Ok(()) => "ok",
            Err(_) if self.is_interrupted() => "interrupted",
            Err(_) => "failed",
        };
        self.add(step.name, started.elapsed(), word);
        self.ensure_not_interrupted()?;
        outcome.with_context(|| format!("{} failed; next: {}", step.name, step.alone))
    }

    /// Runs these steps; the first that fails ends it.
    pub fn run_all(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.run(step))
    }

    /// Runs each of these steps, after one that failed too; at the end all that failed are the error.
    pub fn run_each(&mut self, steps: &[Step]) -> Result<()> {
        let mut failures = Vec::new();
        for step in steps {
            if let Err(error) = self.run(step) {
                self.ensure_not_interrupted()?;
                eprintln!("{error:#}");
                failures.push(format!("{} failed; next: {}", step.name, step.alone));
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    }

    /// Notes what was not a step of its own.
    pub fn add(&mut self, name: &'static str, took: Duration, outcome: &'static str) {
        self.rows.push(Row { name, took, outcome });
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Fails after Ctrl-C.
    pub fn ensure_not_interrupted(&self) -> Result<()> {
        if self.is_interrupted() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Says what took how long, and keeps it in `target/steps`.
    pub fn finish(self, outcome: Result<()>) -> Result<()> {
        let text = table(&self.rows, self.started.elapsed());
        eprint!("{text}");
        let word = match &outcome {
            Ok(()) => "passed",
            Err(_) if self.is_interrupted() => "interrupted",
            Err(_) => "failed",
        };
        if let Err(error) = tables::keep(&self.root, self.task, word, &text, SystemTime::now()) {
            eprintln!("   the table is not kept: {error:#}");
        }
        outcome
    }
}

fn table(rows: &[Row], total: Duration) -> String {
    let line = |name: &str, took: Duration, outcome: &str| {
        format!("   {:<22}{:>8.1} s  {outcome}", name, took.as_secs_f64()).trim_end().to_owned() + "\n"
    };
    let rows: String = rows.iter().map(|row| line(row.name, row.took, row.outcome)).collect();
    rows + &line("in all", total, "")
}

/// Refuses arguments of a task that has none.
pub fn no_arguments(task: &str, args: &[String]) -> Result<()> {
    if args.is_empty() { Ok(()) } else { bail!("usage: cargo xtask {task}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Step = Step { name: "fine", alone: "cargo fine", work: |_| Ok(()) };
    const WRONG: Step = Step { name: "wrong", alone: "cargo wrong", work: |_| bail!("no") };

    fn outcomes(steps: &Steps) -> Vec<&str> {
        steps.rows.iter().map(|row| row.outcome).collect()
    }

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
    fn the_first_failure_ends_a_task_and_says_what_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = Steps::start("ci", folder.path()).unwrap();
        let error = steps.run_all(&[FINE, WRONG, FINE]).unwrap_err();
        assert_eq!(format!("{error:#}"), "wrong failed; next: cargo wrong: no");
        assert_eq!(outcomes(&steps), ["ok", "failed"]);
    }

    #[test]
    fn a_long_task_goes_on_after_a_failure_and_fails_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = Steps::start("test-long", folder.path()).unwrap();
        let error = steps.run_each(&[WRONG, FINE, WRONG]).unwrap_err();
        assert_eq!(outcomes(&steps), ["failed", "ok", "failed"]);
        assert_eq!(error.to_string(), "wrong failed; next: cargo wrong\nwrong failed; next: cargo wrong");
    }
}
