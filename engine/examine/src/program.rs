//! Running of other programs: each has a deadline, and its children end with it.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};

/// Runs a command with `input` as its stdin; it and its children are ended when its time is over.
///
/// # Errors
///
/// It cannot be run, fails, or takes longer than `limit`.
pub fn run(command: Command, input: &str, limit: Duration) -> anyhow::Result<()> {
    run_into(command, input, Stdio::null(), limit)
}

/// Longest output that is kept. Units: bytes.
const KEPT: u64 = 1 << 18;
/// How much of what a failed program says is told. Units: characters.
const TOLD: usize = 200;

/// Runs a command without input, and returns the first 256 KiB of what it prints.
///
/// # Errors
///
/// As `run`, with the last words of what it says on stderr.
pub fn output(command: Command, limit: Duration) -> anyhow::Result<String> {
    output_up_to(command, KEPT, limit)
}

/// Runs a command without input, and returns the first `most` bytes of what it prints.
///
/// # Errors
///
/// As `output`.
pub fn output_up_to(mut command: Command, most: u64, limit: Duration) -> anyhow::Result<String> {
    let (stdout, stderr) = (tempfile::tempfile().context("its stdout")?, tempfile::tempfile().context("its stderr")?);
    command.stderr(stderr.try_clone().context("its stderr")?);
    let ran = run_into(command, "", stdout.try_clone().context("its stdout")?.into(), limit);
    if let Err(error) = ran {
        let said = text(stderr, KEPT)?;
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

fn run_into(mut command: Command, input: &str, stdout: Stdio, limit: Duration) -> anyhow::Result<()> {
    // A file and no pipe: nobody waits for a command that does not read.
    let mut stdin = tempfile::tempfile().context("its stdin")?;
    stdin.write_all(input.as_bytes()).and_then(|()| stdin.rewind()).context("its stdin")?;
    // stdout is for events alone.
    let mut child = command.stdin(stdin).stdout(stdout).process_group(0).spawn().context("cannot run it")?;
    let deadline = Instant::now() + limit;
    loop {
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
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
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
}
