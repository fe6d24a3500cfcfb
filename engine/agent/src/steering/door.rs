//! The socket on which programs of this host ask for source ports. It serves one group, believes nothing of paths that
//! a program says, answers so often a second and no more, and forgets programs that end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelpie_topology::Side;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tracing::{info, warn};

use super::link::{Link, PlannerAddress};
use super::processes;
use super::words::{Answer, Ask, Qp};
use crate::lease::locked;

/// Longest wait for the planner: programs wait 50 ms for all of it.
const PATIENCE: Duration = Duration::from_millis(40);

/// Longest wait for the planner if nobody waits.
const UNHURRIED: Duration = Duration::from_secs(5);

/// Longest line of a program. Units: bytes.
const LONGEST: u64 = 128;

/// Most programs at a time.
const MOST: usize = 1024;

/// Most QPs that ports are remembered for. Source: our choice, above the paper's 20,000.
const MOST_QPS: usize = 1 << 16;

/// How often programs that ended are looked for.
const SWEEP: Duration = Duration::from_secs(2);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The socket cannot be made.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Something else is there.
    #[error("{}: this is no socket, and stays as it is; name another path with --steer", .0.display())]
    Occupied(PathBuf),
    /// Another agent listens there.
    #[error("{}: another agent listens there; name another path with --steer", .0.display())]
    InUse(PathBuf),
    /// There is no such group.
    #[error("no group {0} on this host: name one of /etc/group with --steer-group")]
    Group(String),
}

/// How programs ask.
#[derive(Debug, Clone)]
pub struct Door {
    /// Path of the socket.
    pub socket: PathBuf,
    /// The group that may ask; only this user's programs if there is none.
    pub group: Option<String>,
    /// Questions that are answered a second.
    pub most_a_second: u32,
    /// The planner.
    pub planner: PlannerAddress,
}

impl Door {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the socket cannot be made.
    pub fn open(self) -> Result<(), DoorError> {
        let listener = listen(&self.socket, self.group.as_deref())?;
        info!(socket = %self.socket.display(), planner = self.planner.address, "programs can ask for source ports");
        let (connected, reconnected) = mpsc::channel(1);
        let desk = Arc::new(Desk {
            link: Link::new(self.planner, connected),
            pace: Mutex::new(Pace { most: self.most_a_second, second: Instant::now(), count: 0 }),
            held: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&desk).sweep(reconnected));
        tokio::spawn(accept(listener, desk));
        Ok(())
    }
}

fn listen(path: &Path, group: Option<&str>) -> Result<UnixListener, DoorError> {
    let failed = |source| DoorError::Listen { path: path.to_owned(), source };
    let group = group.map(|name| group_id(name).ok_or_else(|| DoorError::Group(name.to_owned()))).transpose()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(DoorError::Occupied(path.to_owned())),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(DoorError::InUse(path.to_owned()));
        }
        // Of an agent that was killed.
        Ok(_) => std::fs::remove_file(path).map_err(failed)?,
        Err(_) => {}
    }
    // It is made where nobody else can reach it, and moved once its group is right.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = tempfile::Builder::new().prefix(".kelpie-").tempdir_in(folder).map_err(failed)?;
    let new = private.path().join("s");
    let listener = UnixListener::bind(&new).map_err(failed)?;
    if let Some(group) = group {
        std::os::unix::fs::chown(&new, None, Some(group)).map_err(failed)?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)?;
    Ok(listener)
}

/// Source: `group(5)`.
fn group_id(name: &str) -> Option<u32> {
    let table = std::fs::read_to_string("/etc/group").ok()?;
    let row = table.lines().find(|line| line.split(':').next() == Some(name))?;
    row.split(':').nth(2)?.parse().ok()
}

async fn accept(listener: UnixListener, desk: Arc<Desk>) {
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (desk, Ok(place)) = (Arc::clone(&desk), Arc::clone(&room).try_acquire_owned()) else { continue };
                tokio::spawn(async move {
                    desk.program(stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// So many answers a second.
struct Pace {
    most: u32,
    second: Instant,
    count: u32,
}

impl Pace {
    fn allows(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.count) = (Instant::now(), 0);
        }
        self.count += 1;
        self.count <= self.most
    }
}

/// What the agent knows of programs and their QPs.
struct Desk {
    link: Link,
    pace: Mutex<Pace>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    qps: BTreeSet<Qp>,
    /// Gone, while the planner may not know it yet.
    gone: Vec<Qp>,
}

impl Desk {
    /// Serves one program until it leaves.
    async fn program(&self, stream: UnixStream) {
        // The kernel says who it is, and not the program.
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let Some(process) = pid.and_then(processes::name) else { return };
        let (reading, mut writing) = stream.into_split();
        let mut reading = BufReader::new(reading);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut reading).take(LONGEST).read_until(b'\n', &mut line).await;
            if !matches!(read, Ok(1..)) || line.last() != Some(&b'\n') {
                break;
            }
            let Ok(text) = std::str::from_utf8(&line) else { break };
            let words: Vec<&str> = text.split_whitespace().collect();
            let answer = match words[..] {
                ["ask", qp, from, to] => match (qp.parse(), address(from), address(to)) {
                    (Ok(qp), Some(from), Some(to)) => {
                        format!("{qp} {}", self.ask(Qp { process: process.clone(), qp }, from, to).await)
                    }
                    _ => break,
                },
                // A program that has opened a device: it will ask, and so the way to the planner shall be warm.
                ["hello"] => {
                    let _ = self.link.ask(Ask::Held {}, UNHURRIED).await;
                    continue;
                }
                ["gone", qp] => match qp.parse() {
                    Ok(qp) => {
                        self.gone(vec![Qp { process: process.clone(), qp }]).await;
                        continue;
                    }
                    Err(_) => break,
                },
                _ => break,
            };
            if writing.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                break;
            }
        }
    }

    /// What a program is answered.
    async fn ask(&self, qp: Qp, from: String, to: String) -> String {
        if !locked(&self.pace).allows() {
            return "none too many questions in this second".to_owned();
        }
        if locked(&self.held).qps.len() >= MOST_QPS {
            return format!("none {MOST_QPS} QPs of this host have a source port already");
        }
        if !self.link.is_up() {
            return "none the planner cannot be reached".to_owned();
        }
        match self.link.ask(Ask::Grant { qp: qp.clone(), from, to }, PATIENCE).await {
            Some(Answer::Granted(lease)) => {
                locked(&self.held).qps.insert(qp);
                let side = if lease.side == Side::Left { "left" } else { "right" };
                format!("port {} {side}", lease.source_port)
            }
            Some(Answer::Refused(why)) => {
                format!("none {}", why.chars().filter(|c| !c.is_control()).take(150).collect::<String>())
            }
            Some(_) => "none the planner said something else".to_owned(),
            None => {
                // It may have granted a port that nobody uses.
                self.gone(vec![qp]).await;
                "none the planner did not answer in time".to_owned()
            }
        }
    }

    /// QPs are gone; the planner learns it now, or once it is there again.
    async fn gone(&self, qps: Vec<Qp>) {
        {
            let mut held = locked(&self.held);
            for qp in &qps {
                held.qps.remove(qp);
            }
            held.gone.extend(qps);
        }
        self.pass_on().await;
    }

    async fn pass_on(&self) {
        let gone = std::mem::take(&mut locked(&self.held).gone);
        if gone.is_empty() {
            return;
        }
        if !matches!(self.link.ask(Ask::Gone(gone.clone()), UNHURRIED).await, Some(Answer::Noted {})) {
            let mut held = locked(&self.held);
            held.gone.extend(gone);
            // A program that is left out here is found by what the planner holds, when it is there again.
            held.gone.truncate(MOST_QPS);
        }
    }

    /// Gives back what programs held that ended, and compares notes with a planner that is there again.
    async fn sweep(self: Arc<Self>, mut reconnected: mpsc::Receiver<()>) {
        loop {
            tokio::select! {
                connected = reconnected.recv() => match connected {
                    Some(()) => self.compare().await,
                    None => return,
                },
                () = tokio::time::sleep(SWEEP) => {}
            }
            let ended: Vec<Qp> = {
                let held = locked(&self.held);
                let mut alive = BTreeMap::new();
                let is_over =
                    |qp: &&Qp| !*alive.entry(qp.process.clone()).or_insert_with(|| processes::is_alive(&qp.process));
                held.qps.iter().filter(is_over).cloned().collect()
            };
            if ended.is_empty() { self.pass_on().await } else { self.gone(ended).await }
        }
    }

    /// The planner may hold what this agent does not know of: of its predecessor, whose programs still run, or of
    /// programs that ended while it was away.
    async fn compare(&self) {
        let Some(Answer::Held(theirs)) = self.link.ask(Ask::Held {}, UNHURRIED).await else { return };
        let gone: Vec<Qp> = {
            let mut held = locked(&self.held);
            let (mut gone, before) = (Vec::new(), held.qps.clone());
            for qp in theirs {
                let is_known = before.contains(&qp);
                let of_predecessor =
                    !before.iter().any(|own| own.process == qp.process) && processes::is_alive(&qp.process);
                if is_known || of_predecessor {
                    held.qps.insert(qp);
                } else {
                    gone.push(qp);
                }
            }
            gone
        };
        if !gone.is_empty() {
            self.gone(gone).await;
        }
    }
}

/// An address of 32 hexadecimal digits as the kernel writes GIDs.
fn address(digits: &str) -> Option<String> {
    let is_one = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let groups = || digits.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).to_ascii_lowercase());
    is_one.then(|| groups().collect::<Vec<_>>().join(":"))
}
