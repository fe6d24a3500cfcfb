//! Running of other programs: each has a deadline, and what it prints has a limit. Children of a program whose output
//! is read end with it.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Runs a command with `input` as its stdin; it and its children are ended when its time is over.
///
/// # Errors
///
/// It cannot be run, fails, or takes longer than `limit`.
pub fn run(command: Command, input: &str, limit: Duration) -> anyhow::Result<()> {
    run_into(command, input, Stdio::null(), limit, None)
}

/// Longest output. Units: bytes. Source: our choice; JSON of a benchmark with all of its samples is shorter.
const MOST: u64 = 16 << 20;
/// How much of what a failed program says is told. Units: characters.
const TOLD: usize = 200;

/// Runs a command without input, and returns what it prints, 16 MiB at most. Its children end with it.
///
/// # Errors
///
/// As `run`, with the last words of what it says on stderr; it prints more.
pub fn output(command: Command, limit: Duration) -> anyhow::Result<String> {
    output_up_to(command, MOST, limit)
}

/// Runs a command without input, and returns what it prints, `most` bytes at most. Its children end with it.
///
/// # Errors
///
/// As `output`.
pub fn output_up_to(mut command: Command, most: u64, limit: Duration) -> anyhow::Result<String> {
    let (stdout, stderr) = (tempfile::tempfile().context("its stdout")?, tempfile::tempfile().context("its stderr")?);
    command.stderr(stderr.try_clone().context("its stderr")?);
    let into = stdout.try_clone().context("its stdout")?.into();
    let ran = run_into(command, "", into, limit, Some(&Printed { files: [&stdout, &stderr], most }));
    if let Err(error) = ran {
        let said = text(stderr, most)?;
        let words: Vec<char> = said.trim().chars().collect();
        let last: String = words[words.len().saturating_sub(TOLD)..].iter().collect();
        return Err(if last.is_empty() { error } else { anyhow::anyhow!("{error:#}: {last}") });
    }
    text(stdout, most)
}

fn text(mut file: File, most: u64) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.take(most).read_to_end(&mut bytes)).context("its output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where a command's output goes whose children end with it.
struct Printed<'f> {
    files: [&'f File; 2],
    /// How much each file may have. Units: bytes.
    most: u64,
}

impl Printed<'_> {
    /// Refuses output that is too long for its readers, and would fill the disk.
    fn check(&self) -> anyhow::Result<()> {
        for (file, name) in self.files.iter().zip(["stdout", "stderr"]) {
            if file.metadata().context("its output")?.len() > self.most {
                anyhow::bail!("ended, because it printed more than {} KiB to {name}", self.most >> 10);
            }
        }
        Ok(())
    }
}

fn run_into(
    mut command: Command,
    input: &str,
    stdout: Stdio,
    limit: Duration,
    printed: Option<&Printed<'_>>,
) -> anyhow::Result<()> {
    // A file and no pipe: nobody waits for a command that does not read.
    let mut stdin = tempfile::tempfile().context("its stdin")?;
    stdin.write_all(input.as_bytes()).and_then(|()| stdin.rewind()).context("its stdin")?;
    // stdout is for events alone.
    let mut child = command.stdin(stdin).stdout(stdout).process_group(0).spawn().context("cannot run it")?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(printed) = printed {
            let is_over = has_ended(&child)?;
            let checked = printed.check();
            if is_over || checked.is_err() {
                // Its number is nobody else's as long as nobody has waited for it.
                end_group(&child);
            }
            if let Err(error) = checked {
                child.wait()?;
                return Err(error);
            }
        }
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => anyhow::bail!("{status}"),
            None if Instant::now() >= deadline => {
                end(&mut child);
                anyhow::bail!("ended after {} s", limit.as_secs());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn end(child: &mut Child) {
    end_group(child);
    let _ = child.wait();
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn end_group(child: &Child) {
    if let Some(group) = pid(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Whether it has ended, and is still to be waited for.
fn has_ended(child: &Child) -> anyhow::Result<bool> {
    let Some(pid) = pid(child) else { return Ok(false) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the commands below take.
    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        shell
    }

    #[test]
    fn a_command_gets_the_event_and_no_more_than_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out");
        let large = "x".repeat(300_000);
        let command = |text: &str| {
            let mut shell = shell(text);
            shell.env("OUT", &file);
            shell
        };
        run(command("cat > \"$OUT\""), &large, LIMIT).expect("it reads all");
        assert_eq!(std::fs::read_to_string(&file).expect("written"), large);
        run(command("true"), &large, LIMIT).expect("it reads nothing");
        assert_eq!(output(command("echo a; echo b"), LIMIT).expect("it prints"), "a\nb\n");
        let failed = output(command("echo why >&2; exit 3"), LIMIT).expect_err("a status").to_string();
        assert!(failed.contains('3') && failed.ends_with(": why"), "{failed}");
        assert!(run(command("exit 3"), "", LIMIT).expect_err("a status").to_string().contains('3'));
        let begin = Instant::now();
        run(command("sleep 60 & sleep 60"), "", Duration::from_millis(100)).expect_err("too long");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn children_of_a_program_that_ends_well_end_with_it() {
        let pid = output(shell("sleep 600 & echo $!"), LIMIT).expect("it prints");
        let begin = Instant::now();
        // Who has no parent is a zombie until init takes it.
        let is_gone = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            status.map_or(true, |status| status.contains(") Z "))
        };
        while !is_gone() {
            assert!(begin.elapsed() < LIMIT, "sleep goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn output_over_the_limit_is_said_and_endless_output_ends_the_program() {
        let long = |bytes: u64| output_up_to(shell(&format!("head -c {bytes} /dev/zero")), 1 << 20, LIMIT);
        assert_eq!(long(1 << 20).expect("it fits").len(), 1 << 20);
        let error = long((1 << 20) + 1).expect_err("a byte more").to_string();
        assert!(error.contains("more than 1024 KiB to stdout"), "{error}");
        let begin = Instant::now();
        let error = output(shell("yes"), LIMIT).expect_err("endless").to_string();
        assert!(error.contains("more than 16384 KiB to stdout"), "{error}");
        let error = output(shell("yes >&2"), LIMIT).expect_err("endless").to_string();
        assert!(error.contains("more than 16384 KiB to stderr"), "{error}");
        assert!(begin.elapsed() < LIMIT);
    }
}
