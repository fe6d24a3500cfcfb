//! `cargo xtask test`: all tests that every change has to pass, and a short lab. The lab's kernel is built beside the
//! rest.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{has_tool, verbs_can_be_built, with_verbs};
use crate::steps::{Step, Steps, no_arguments};
use crate::{builds, cargo, workspace_root};

/// What the tests and the lab run.
pub const BUILD: Step = Step {
    name: "build",
    alone: "`cargo build --workspace --lib --bins --tests --features verbs`",
    work: builds::build,
};

const TESTS: [Step; 2] = [
    Step {
        name: "documentation tests",
        alone: "`cargo test --workspace --doc --features verbs`",
        work: |root| cargo::run_quietly(root, &with_verbs(&["test", "--quiet", "--workspace", "--doc"])),
    },
    Step {
        name: "tests",
        alone: "`cargo nextest run --workspace --features verbs` with a part of the name of a test that failed",
        work: tests,
    },
];

const LAB: Step = Step {
    name: "lab",
    alone: "`xtask/scripts/lab-test.sh`",
    work: |root| script(root, &["xtask/scripts/lab-test.sh"]),
};

/// Runs every test; the first step that fails ends it.
pub fn run(args: &[String]) -> Result<()> {
    no_arguments("test", args)?;
    ensure!(verbs_can_be_built(), "the lab needs verbs to be built; next: `xtask/scripts/setup.sh build`");
    let mut steps = Steps::start("test", &workspace_root())?;
    let outcome = tests_and_lab(&mut steps);
    steps.finish(outcome)
}

fn tests_and_lab(steps: &mut Steps) -> Result<()> {
    let kernel = Kernel::start(&workspace_root())?;
    steps.run(&BUILD)?;
    // Before the tests, because some measure, and need a quiet machine.
    kernel.wait(steps)?;
    steps.run_all(&TESTS)?;
    steps.run(&LAB)
}

fn tests(root: &Path) -> Result<()> {
    script(root, &["xtask/scripts/setup.sh", "slurm"])?;
    if has_tool(root, "nextest") {
        // One more than there are processors, because some tests wait for a time limit.
        let threads = (thread::available_parallelism().map_or(1, usize::from) + 1).to_string();
        let args = ["nextest", "run", "--workspace", "--profile", "ci", "--test-threads", &threads];
        return cargo::run(root, &with_verbs(&args));
    }
    eprintln!("   cargo-nextest is not installed: `cargo test` does the same, less tidily");
    cargo::run(root, &with_verbs(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]))
}

/// Runs a script of ours and shows what it says.
pub fn script(root: &Path, words: &[&str]) -> Result<()> {
    let program = root.join(words[0]);
    let status = cargo::untold(root, &program).args(&words[1..]).status().with_context(|| words.join(" "))?;
    ensure!(status.success(), "`{}` failed", words.join(" "));
    Ok(())
}

/// The build of the lab's kernel: a process of its own, because a step that fails or Ctrl-C has to end all of it.
pub struct Kernel {
    child: Child,
    log: PathBuf,
    started: Instant,
    is_over: bool,
}

impl Kernel {
    /// Starts it; it is over at once if the kernel has been built before.
    pub fn start(root: &Path) -> Result<Self> {
        let folder = root.join("target");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let log = folder.join("lab-kernel.log");
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let child = Command::new(env::current_exe().context("this program's place")?)
            .args(["lab", "kernel"])
            .current_dir(root)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("start `cargo xtask lab kernel`")?;
        Ok(Self { child, log, started: Instant::now(), is_over: false })
    }

    /// Waits for it, as a row of the table that overlaps with those above it.
    pub fn wait(mut self, steps: &mut Steps) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(200);
        let mut is_said = false;
        let status = loop {
            steps.ensure_not_interrupted()?;
            if let Some(status) = self.child.try_wait().context("wait for the lab's kernel")? {
                break status;
            }
            if !is_said {
                eprintln!("== the lab's kernel, once; {} shows how far it is", self.log.display());
                is_said = true;
            }
            thread::sleep(PAUSE);
        };
        self.is_over = true;
        let outcome = if status.success() { "ok" } else { "failed" };
        steps.add("lab kernel, meanwhile", self.started.elapsed(), outcome);
        if !status.success() {
            eprint!("{}", fs::read_to_string(&self.log).unwrap_or_default());
            bail!("lab kernel failed; next: `cargo xtask lab kernel`");
        }
        Ok(())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if !self.is_over {
            // Its compilers too. If it cannot be ended, it ends by itself when the kernel is built.
            let _ = Command::new("kill").args(["-TERM", "--", &format!("-{}", self.child.id())]).status();
            let _ = self.child.wait();
        }
    }
}
