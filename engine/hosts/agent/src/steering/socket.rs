//! The socket on which programs of this host ask for source ports. It serves one group, believes nothing of paths that
//! a program says, answers so often a second and no more, and forgets programs that end.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelpie_monitor::machine::{Machine, gids, rdma_devices};
use kelpie_paths::leases::Lease;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tracing::{info, warn};

use super::ends::present;
use super::ledger::{Ledger, MOST_QPS};
use super::link::{PlannerAddress, PlannerClient};
use super::processes;
use super::program_limits::{Place, ProgramLimits};
use super::words::{PlannerAnswer, PlannerRequest, ProgramQp};
use crate::lease::locked;

/// Longest wait for the planner: programs wait 50 ms for all of it. And if the agent can choose instead.
const PATIENCE: Duration = Duration::from_millis(40);
const SOON: Duration = Duration::from_millis(15);

/// Longest wait for the planner if nobody waits.
const UNHURRIED: Duration = Duration::from_secs(5);

/// Longest line of a program. Units: bytes.
const LONGEST: u64 = 128;

/// How often programs that ended are looked for.
const SWEEP: Duration = Duration::from_secs(2);

/// How often this host's addresses are looked at, beside each time when the planner is there again.
const LOOK: Duration = Duration::from_mins(1);

/// How often they are if a program names one that is not known.
const NEW: Duration = Duration::from_secs(1);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SteeringSocketError {
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
pub struct SteeringSocket {
    /// Path of the socket.
    pub socket: PathBuf,
    /// The group that may ask; only this user's programs if there is none.
    pub group: Option<String>,
    /// Questions that are answered a second.
    pub most_a_second: u32,
    /// The planner.
    pub planner: PlannerAddress,
    /// This host, whose addresses paths begin at.
    pub machine: Machine,
}

impl SteeringSocket {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the socket cannot be made.
    pub fn open(self) -> Result<(), SteeringSocketError> {
        let listener = listen(&self.socket, self.group.as_deref())?;
        info!(socket = %self.socket.display(), planner = self.planner.address, "programs can ask for source ports");
        let (tells, connected) = mpsc::channel(1);
        let desk = Arc::new(Desk {
            machine: self.machine,
            link: PlannerClient::new(self.planner, tells),
            own: Mutex::default(),
            crowd: Mutex::new(ProgramLimits::new(self.most_a_second)),
            ledger: Mutex::default(),
            news: Notify::new(),
            stale: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&desk).tend(connected));
        tokio::spawn(accept(listener, desk));
        Ok(())
    }
}

fn listen(path: &Path, group: Option<&str>) -> Result<UnixListener, SteeringSocketError> {
    let failed = |source| SteeringSocketError::Listen { path: path.to_owned(), source };
    let group =
        group.map(|name| group_id(name).ok_or_else(|| SteeringSocketError::Group(name.to_owned()))).transpose()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(SteeringSocketError::Occupied(path.to_owned())),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(SteeringSocketError::InUse(path.to_owned()));
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
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                tokio::spawn(async move { desk.program(stream).await });
            }
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// What serves programs.
struct Desk {
    machine: Machine,
    link: PlannerClient,
    /// This host's addresses, and when they were looked at.
    own: Mutex<Option<(Instant, Vec<String>)>>,
    crowd: Mutex<ProgramLimits>,
    ledger: Mutex<Ledger>,
    /// There is something that the planner has to learn.
    news: Notify,
    /// What of this host is not as it was measured.
    stale: Mutex<Vec<String>>,
}

impl Desk {
    /// Serves one program until it leaves.
    async fn program(&self, stream: UnixStream) {
        // The kernel says who it is, and not the program.
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let Some(process) = pid.and_then(processes::name) else { return };
        let Some(place) = locked(&self.crowd).enters(&process, Instant::now()) else { return };
        tokio::select! {
            () = self.serve(&process, &place, stream) => {}
            () = place.sent_away() => {}
        }
        locked(&self.crowd).leaves(&place);
    }

    async fn serve(&self, process: &str, place: &Place, stream: UnixStream) {
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
            locked(&self.crowd).speaks(place);
            let words: Vec<&str> = text.split_whitespace().collect();
            let own = |qp: &str| Some(ProgramQp { process: process.to_owned(), qp: qp.parse().ok()? });
            let answer = match words[..] {
                ["ask", qp, from, to] => match (own(qp), address(from), address(to)) {
                    (Some(qp), Some(from), Some(to)) => {
                        let number = qp.qp;
                        format!("{number} {}\n", self.ask(qp, from, to).await)
                    }
                    _ => break,
                },
                // A program that has opened a device: it is known from now on.
                ["hello"] => continue,
                ["gone", qp] => match own(qp) {
                    Some(qp) => {
                        // Of a QP that nobody has heard of, the planner is told nothing.
                        if !self.link.is_up() || locked(&self.ledger).has(&qp) {
                            self.gone(qp);
                        }
                        continue;
                    }
                    None => break,
                },
                _ => break,
            };
            if writing.write_all(answer.as_bytes()).await.is_err() {
                break;
            }
        }
    }

    /// What a program is answered: what the planner says, or what is chosen here if it is slow or away.
    async fn ask(&self, qp: ProgramQp, from: String, to: String) -> String {
        if !locked(&self.crowd).allows(&qp.process, Instant::now()) {
            return "none too many questions in this second".to_owned();
        }
        let (is_full, takes_too_many, is_known) = {
            let ledger = locked(&self.ledger);
            (ledger.is_full(), ledger.takes_too_many(&qp.process), ledger.knows(&from, &to))
        };
        if is_full {
            return format!("none {MOST_QPS} QPs of this host have a source port already");
        }
        if takes_too_many {
            return format!("none {} QPs of this program have a source port already", MOST_QPS / 2);
        }
        // A program may say anything; the planner would count it at another host's links.
        if !is_known && !self.is_own(&from) {
            return format!("none {from} is no address of this host");
        }
        if self.link.is_up() && (self.link.is_quick() || !is_known) {
            let limit = if is_known { SOON } else { PATIENCE };
            let grant = PlannerRequest::Grant { qp: qp.clone(), from: from.clone(), to: to.clone() };
            match self.link.ask(grant, limit).await {
                Some(PlannerAnswer::Granted(lease)) => {
                    let said = said(&lease);
                    locked(&self.ledger).granted(&qp, lease);
                    return said;
                }
                Some(PlannerAnswer::Refused(why)) => {
                    return format!("none {}", why.chars().filter(|c| !c.is_control()).take(150).collect::<String>());
                }
                Some(_) => return "none the planner said something else".to_owned(),
                None => {}
            }
        }
        let chosen = locked(&self.ledger).choose(&qp, &from, &to);
        match chosen {
            Some(lease) => {
                self.news.notify_one();
                said(&lease)
            }
            None if self.link.is_up() => {
                // It may have granted a port that nobody uses.
                self.gone(qp);
                "none the planner did not answer in time".to_owned()
            }
            None => "none the planner cannot be reached".to_owned(),
        }
    }

    /// Whether this is an address of the host; one that is new is found within a second.
    fn is_own(&self, address: &str) -> bool {
        let mut own = locked(&self.own);
        let has = |own: &Option<(Instant, Vec<String>)>| {
            own.as_ref().is_some_and(|(_, all)| all.iter().any(|one| one == address))
        };
        if !has(&own) && own.as_ref().is_none_or(|(at, _)| at.elapsed() >= NEW) {
            *own = Some((Instant::now(), addresses(&self.machine)));
        }
        has(&own)
    }

    /// A QP is gone; the planner learns it soon, or once it is there again. No program waits for that.
    fn gone(&self, qp: ProgramQp) {
        locked(&self.ledger).gone(vec![qp]);
        self.news.notify_one();
    }

    /// Tells the planner what it has to learn, gives back what programs held that ended, and compares notes with a
    /// planner that is there again.
    async fn tend(self: Arc<Self>, mut connected: mpsc::Receiver<()>) {
        let mut sweep = tokio::time::interval(SWEEP);
        let mut looked = Instant::now();
        loop {
            tokio::select! {
                connected = connected.recv() => match connected {
                    Some(()) => {
                        self.learn().await;
                        self.compare().await;
                    }
                    None => return,
                },
                () = self.news.notified() => {}
                _ = sweep.tick() => locked(&self.ledger).forget_dead(processes::is_alive),
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.learn().await;
            }
            self.tell().await;
        }
    }

    async fn tell(&self) {
        loop {
            let Some(news) = locked(&self.ledger).news() else { return };
            if !matches!(self.link.ask(news.clone(), UNHURRIED).await, Some(PlannerAnswer::Noted {})) {
                return locked(&self.ledger).untold(news);
            }
        }
    }

    /// Says what this host's ports are now, and asks which paths lead from them.
    async fn learn(&self) {
        let ends = PlannerRequest::Ends(present(&self.machine));
        if let Some(PlannerAnswer::Stale(stale)) = self.link.ask(ends, UNHURRIED).await {
            let before = std::mem::replace(&mut *locked(&self.stale), stale.clone());
            for what in stale.iter().filter(|what| !before.contains(what)) {
                warn!(what, "the planner steers no QP to or from this port: probe its paths again");
            }
        }
        let own = addresses(&self.machine);
        *locked(&self.own) = Some((Instant::now(), own.clone()));
        if let Some(PlannerAnswer::Ways(ways)) = self.link.ask(PlannerRequest::Ways(own), UNHURRIED).await {
            locked(&self.ledger).set_ways(ways);
        }
    }

    async fn compare(&self) {
        if let Some(PlannerAnswer::Held(theirs)) = self.link.ask(PlannerRequest::Held {}, UNHURRIED).await {
            locked(&self.ledger).compare(theirs, processes::is_alive);
        }
    }
}

/// A lease, as programs are told of it.
fn said(lease: &Lease) -> String {
    format!("port {} {}", lease.source_port, lease.side.name())
}

/// The addresses of this host's RDMA ports.
fn addresses(machine: &Machine) -> Vec<String> {
    let tables = rdma_devices(machine).into_iter().flat_map(|device| {
        let folder = format!("sys/class/infiniband/{device}/ports");
        let ports = machine.names(&folder).into_iter().map(move |port| format!("{folder}/{port}"));
        ports.flat_map(|port| gids(None, |name| machine.text(&format!("{port}/{name}"))))
    });
    tables.map(|gid| gid.text).collect()
}

/// An address of 32 hexadecimal digits as the kernel writes GIDs.
fn address(digits: &str) -> Option<String> {
    let is_one = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let groups = || digits.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).to_ascii_lowercase());
    is_one.then(|| groups().collect::<Vec<_>>().join(":"))
}
