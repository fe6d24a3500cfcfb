//! `cargo xtask test`: what CI runs. The lab boots beside the checks; its tests have the machine for themselves later.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cargo::verbs_can_be_built;
use crate::steps::Steps;
use crate::{ci, lab, workspace_root};

/// Runs every check and the lab's tests, and takes the lab down whatever happens.
pub fn run(args: &[String]) -> Result<()> {
    ensure!(args.is_empty(), "usage: cargo xtask test");
    ensure!(verbs_can_be_built(), "the lab needs verbs to be built: run `scripts/setup.sh build` first");
    let root = workspace_root();
    let mut steps = Steps::start()?;
    let outcome = checks_and_lab(&root, &mut steps);
    let down = lab::run(&["down".to_owned()]).context("take the lab down");
    steps.report();
    outcome.and(down)
}

fn checks_and_lab(root: &Path, steps: &mut Steps) -> Result<()> {
    ci::run_all(&ci::CHEAP, root, steps)?;
    ci::run_all(&ci::BUILD, root, steps)?;
    let boot = Boot::start();
    ci::run_all(&ci::THOROUGH, root, steps)?;
    let (booted, took) = boot.wait();
    steps.add("lab boot, meanwhile", took, if booted.is_ok() { "ok" } else { "failed" });
    booted.context("the lab did not boot")?;
    steps.run("lab tests", || lab_tests(root))
}

/// The lab's way up, in a thread of its own.
struct Boot(Option<JoinHandle<(Result<()>, Duration)>>);

impl Boot {
    fn start() -> Self {
        Self(Some(thread::spawn(|| {
            let started = Instant::now();
            (lab::run(&["up".to_owned()]), started.elapsed())
        })))
    }

    fn wait(mut self) -> (Result<()>, Duration) {
        self.0.take().expect("it is waited for once").join().expect("booting does not panic")
    }
}

impl Drop for Boot {
    /// A step failed: only what has been started as a whole can be taken down as a whole.
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

fn lab_tests(root: &Path) -> Result<()> {
    let status = Command::new(root.join("scripts/lab-test.sh"))
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .context("run scripts/lab-test.sh")?;
    ensure!(status.success(), "scripts/lab-test.sh failed");
    Ok(())
}
