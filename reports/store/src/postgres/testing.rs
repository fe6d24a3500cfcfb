//! A server of PostgreSQL for tests: on a UNIX socket alone, without care for power cuts, and gone with its test.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest that a server takes to begin or to end.
const MOST: Duration = Duration::from_secs(20);

/// A running server.
pub struct Server {
    /// Its data, its socket and its log.
    folder: tempfile::TempDir,
    binaries: PathBuf,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // An immediate stop, after which nothing of it is left in memory.
        self.signal("QUIT");
        let _ = self.ended();
    }
}

impl Server {
    /// Makes a server, and starts it.
    pub fn start() -> Self {
        let binaries = binaries();
        // Short, because the name of a socket may have 107 bytes.
        let folder = tempfile::Builder::new().prefix("kelpie-pg-").tempdir_in("/tmp").expect("a folder");
        if let Some((user, group)) = other_user() {
            chown(folder.path(), Some(user), Some(group)).expect("a folder of its own");
        }
        let made = as_other_user(&binaries.join("initdb"))
            .args(["-U", "kelpie", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"])
            .arg("-D")
            .arg(folder.path().join("data"))
            .current_dir(folder.path())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let process = run(&binaries, folder.path());
        let mut server = Self { folder, binaries, process };
        server.wait_until_ready();
        server
    }

    /// The address of one of its databases.
    pub fn address(&self, database: &str) -> String {
        self.address_as(database, "kelpie")
    }

    /// The same for another role.
    pub fn address_as(&self, database: &str, role: &str) -> String {
        format!("postgres:///{database}?host={}&user={role}", self.folder.path().display())
    }

    /// Makes an empty database, and returns its address.
    pub fn create(&self, database: &str) -> String {
        self.sql("postgres", &format!("CREATE DATABASE \"{database}\""));
        self.address(database)
    }

    /// Runs statements with its own tool.
    pub fn sql(&self, database: &str, statements: &str) {
        let done = Command::new(self.binaries.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "kelpie", "-d", database, "-c", statements, "-h"])
            .arg(self.folder.path())
            .output()
            .expect("psql runs");
        assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Kills it without notice, as if its host had lost its power but not its disk.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Starts it once more.
    pub fn restart(&mut self) {
        // Its processes notice that it is gone one after the other; until then, a new one refuses to begin.
        let begin = Instant::now();
        loop {
            self.process = run(&self.binaries, self.folder.path());
            if self.is_ready_soon() {
                return;
            }
            assert!(begin.elapsed() < MOST, "{}", self.log());
            sleep(Duration::from_millis(100));
        }
    }

    fn wait_until_ready(&mut self) {
        assert!(self.is_ready_soon(), "the server does not begin: {}", self.log());
    }

    /// Waits until it answers; false if it ended instead.
    fn is_ready_soon(&mut self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < MOST {
            let state = fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = state.lines().map(str::trim).collect();
            if lines.first() == Some(&self.process.id().to_string().as_str()) && lines.get(7) == Some(&"ready") {
                return true;
            }
            if self.process.try_wait().expect("a process of ours").is_some() {
                return false;
            }
            sleep(Duration::from_millis(10));
        }
        false
    }

    fn signal(&self, name: &str) {
        let _ = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).stderr(Stdio::null()).status();
    }

    fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        while begin.elapsed() < MOST {
            if let Ok(Some(status)) = self.process.try_wait() {
                return status;
            }
            sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        self.process.wait().unwrap_or_else(|_| ExitStatus::from_raw(0))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// The programs of the newest server that is installed.
fn binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path).map(|folder| (0, folder)));
    found.retain(|(_, folder)| folder.join("initdb").is_file());
    found.sort();
    found.pop().expect("initdb of PostgreSQL is missing: `xtask/scripts/setup.sh server` installs it").1
}

/// Who the server runs as, if root may not.
fn other_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").expect("procfs").uid() != 0 {
        return None;
    }
    let mut users = String::new();
    File::open("/etc/passwd").expect("users").read_to_string(&mut users).expect("a text");
    let user = |name: &str| {
        let fields: Vec<&str> = users.lines().find(|line| line.starts_with(&format!("{name}:")))?.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    Some(user("postgres").or_else(|| user("nobody")).expect("a user `postgres` or `nobody`"))
}

/// A program of the server, which ends when this thread does.
fn as_other_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if let Some((user, group)) = other_user() {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    command.arg("--").arg(program).env_remove("PGDATA");
    command
}

fn run(binaries: &Path, folder: &Path) -> Child {
    let log = || File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    let sockets = format!("unix_socket_directories={}", folder.display());
    let mut command = as_other_user(&binaries.join("postgres"));
    for setting in [
        "listen_addresses=",
        &sockets,
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "autovacuum=off",
        "max_connections=50",
    ] {
        command.args([OsStr::new("-c"), OsStr::new(setting)]);
    }
    let command = command.arg("-D").arg(folder.join("data")).current_dir(folder);
    command.stdin(Stdio::null()).stdout(log()).stderr(log()).spawn().expect("the server runs")
}
