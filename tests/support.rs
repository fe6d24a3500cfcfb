//! Running the binary, and what the tests need around it. No assertions about results.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A folder of its own for a test, with the binary run inside it.
pub struct Bench {
    folder: TempDir,
    /// Where the lab is, for the tests that use it.
    lab: Option<PathBuf>,
}

/// What a run of the binary left.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Bench {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), lab: None }
    }

    /// One whose files cost no disk, if the system has room in memory for files.
    pub fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
        Self { folder, lab: None }
    }

    /// One whose binary finds the lab in `dir`.
    pub fn with_lab(dir: &Path) -> Self {
        Self { lab: Some(dir.to_owned()), ..Self::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its name.
    pub fn write<'n>(&self, name: &'n str, content: impl AsRef<[u8]>) -> &'n str {
        std::fs::write(self.path(name), content).expect("the folder is writable");
        name
    }

    /// The binary, ready to run in the folder, with the folder as its home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kelpie"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env_remove("KELPIE_DB")
            .env_remove("KELPIE_CONFIG")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("KELPIE_LOG")
            .env_remove("KELPIE_LAB_DIR")
            .envs(self.lab.iter().map(|dir| ("KELPIE_LAB_DIR", dir)))
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().expect("the binary starts"))
    }

    /// Runs the binary, which must exit with `status`, and returns its stdout.
    pub fn expect(&self, status: i32, args: &[&str]) -> String {
        self.ends(status, args).stdout
    }

    fn ends(&self, status: i32, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.status, Some(status), "{args:?}\n{}\n{}", ran.stdout, ran.stderr);
        ran
    }

    /// Runs the binary with `--json`, which must exit with `status`, and returns the document.
    pub fn json(&self, status: i32, args: &[&str]) -> serde_json::Value {
        self.ends(status, &[args, &["--json"]].concat()).json()
    }
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("Kelpie prints UTF-8");
        Self { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What it printed with `--json`.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A workload that is healthy on every simulated subsystem: one flow of large RC WRITEs.
pub const HEALTHY: &str = "\
kelpie: workload/1
flows:
  - from: a
    to: b
    qp_type: RC
    qps: 8
    mtu: 4096
    wq_depth: {send: 128, recv: 128}
    batch: {send: 1, recv: 1}
    pattern:
      - {op: WRITE, sge: [64KiB]}
    memory:
      from: {device: \"dram:0\", mrs: 1, mr_size: 4MiB}
      to: {device: \"dram:0\", mrs: 1, mr_size: 4MiB}
";

/// Anomaly 1 of the Collie paper on subsystem F.
pub const ANOMALY_1: &str = "\
kelpie: workload/1
flows:
  - from: a
    to: b
    qp_type: UD
    qps: 1
    mtu: 2048
    wq_depth: {send: 256, recv: 256}
    batch: {send: 64, recv: 64}
    pattern:
      - {op: SEND, sge: [2KiB]}
    memory:
      from: {device: \"dram:0\", mrs: 1, mr_size: 64KiB}
      to: {device: \"dram:0\", mrs: 1, mr_size: 64KiB}
";

/// A small space around [`ANOMALY_1`], for campaigns that find it within a few experiments.
pub const SMALL_SPACE: &str = "\
kelpie: space/1
qp_type: [UD]
opcode: [SEND]
mtu: [2048]
qps: {min: 1, max: 4}
mrs: [1]
requests: [1]
sge_count: [1]
message: [2KiB]
memory_requester: [\"dram:0\"]
memory_responder: [\"dram:0\"]
bidirectional: [false]
loopback: [false]
";

/// Opens a database with `sqlite3`'s file header in mind: whether it is one.
pub fn is_sqlite(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3\0"))
}

/// Runs a command in a guest of the lab in `dir` and returns what it printed; the guest may be silent for `patience`.
pub fn in_guest(dir: &Path, guest: &str, command: &str, patience: Duration) -> String {
    let mut stream = UnixStream::connect(dir.join(guest).join("control")).expect("the guest is up");
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    // Several commands may run at once, so each has a mark of its own.
    let now = Instant::now();
    let mark = format!("test-{}-{now:?}", std::process::id()).replace([' ', '{', '}', ':'], "");
    writeln!(stream, "{mark} {command}").expect("the guest reads");
    let mut answer = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("guest {guest}, `{command}`: {error}"));
        answer.push(byte[0]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((output, status)) = text.split_once(&format!("{mark} "))
            && status.ends_with('\n')
        {
            return output.to_owned();
        }
    }
}
