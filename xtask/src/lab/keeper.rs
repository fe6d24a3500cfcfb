//! The keeper: the process that owns what guests of user-mode Linux share, and starts them. It holds both ends of all
//! links, so that a guest may die and come back, serves their control ports, and carries connections to their agents.
//! It ends after its last guest, and guests end with it.

mod control;
mod forward;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::{FdFlags, fcntl_setfd};
use signal_hook::consts::{SIGINT, SIGTERM};
use socket2::SockRef;

use super::kernel::Kernel;
use super::place::Lab;
use super::shape::Role;
use super::user_mode::{self, Inherited};

/// How long one may take to answer the other.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a keeper waits for its first guest.
const PATIENCE: Duration = Duration::from_mins(1);

const TURN: Duration = Duration::from_millis(20);

/// Room for packets on a link, where the machine allows that much. Units: bytes.
const LINK_BUFFER: usize = 4 << 20;

/// Longest request. Units: bytes.
const REQUEST: u64 = 16 << 10;

fn socket(lab: &Lab) -> PathBuf {
    lab.state().join("keeper")
}

/// Asks the lab's keeper, which is started if it is not there, to start this guest.
pub fn start(lab: &Lab, guest: &str, kernel: &Kernel) -> Result<()> {
    let mut stream = match UnixStream::connect(socket(lab)) {
        Ok(stream) => stream,
        Err(_) => spawn(lab)?,
    };
    stream.set_read_timeout(Some(ANSWER))?;
    writeln!(stream, "{guest}\t{}\t{}", kernel.image.display(), kernel.initramfs.display())?;
    let mut answer = String::new();
    stream.take(REQUEST).read_to_string(&mut answer).context("the keeper of the lab does not answer")?;
    ensure!(answer.trim() == "started", "guest {guest} was not started: {}", answer.trim());
    Ok(())
}

/// Waits until the keeper has gone, which it does after its last guest.
pub fn wait_gone(lab: &Lab) -> Result<()> {
    let started = Instant::now();
    while UnixStream::connect(socket(lab)).is_ok() {
        ensure!(started.elapsed() < ANSWER, "the keeper of the lab does not end");
        thread::sleep(TURN);
    }
    Ok(())
}

fn spawn(lab: &Lab) -> Result<UnixStream> {
    let log = lab.state().join("keeper.log");
    let written = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    // This program, also if a build has put another one in its place meanwhile.
    let mut keeper = Command::new("/proc/self/exe");
    keeper.args(["lab", "keep"]).args(lab.shape.is_dual().then_some("--dual-port")).env("KELPIE_LAB_DIR", &lab.common);
    // The keeper outlives the command that starts it, so a Ctrl-C to that command must not reach it.
    keeper.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written).process_group(0);
    let mut keeper = keeper.spawn().context("start the keeper of the lab")?;
    let started = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(socket(lab)) {
            return Ok(stream);
        }
        if keeper.try_wait()?.is_some() || started.elapsed() > ANSWER {
            bail!("the keeper of the lab did not start: {}", fs::read_to_string(&log).unwrap_or_default().trim());
        }
        thread::sleep(TURN);
    }
}

/// Is the keeper of this lab.
pub fn keep(lab: &Lab) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listen for signals")?;
    }
    let path = socket(lab);
    ensure!(UnixStream::connect(&path).is_err(), "this lab has a keeper");
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).with_context(|| format!("listen at {}", path.display()))?;
    listener.set_nonblocking(true)?;
    let mut keeper = Keeper { lab, links: links(&lab.shape.roles())?, guests: BTreeMap::new() };
    let (mut idle_since, mut has_served) = (Instant::now(), false);
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                has_served |= keeper.answer(stream);
                idle_since = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TURN),
            Err(error) => return Err(error).context("wait for requests"),
        }
        keeper.guests.retain(|_, guest| !guest.has_ended());
        if keeper.guests.is_empty() && (has_served || idle_since.elapsed() > PATIENCE) {
            break;
        }
    }
    fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
}

/// An end of a link: its guest and the guest's name for it.
type End = (&'static str, &'static str);

/// Both ends of all links.
fn links(roles: &[Role]) -> Result<BTreeMap<End, UnixDatagram>> {
    let mut ends = BTreeMap::new();
    for role in roles {
        for (own, peer, theirs) in &role.links {
            if !ends.contains_key(&(role.name, *own)) {
                let (here, there) = wire()?;
                ends.insert((role.name, *own), here);
                ends.insert((*peer, *theirs), there);
            }
        }
    }
    Ok(ends)
}

fn wire() -> Result<(UnixDatagram, UnixDatagram)> {
    let (here, there) = UnixDatagram::pair().context("make a link")?;
    for end in [&here, &there] {
        SockRef::from(end).set_send_buffer_size(LINK_BUFFER).context("make room on a link")?;
    }
    Ok((here, there))
}

struct Keeper<'a> {
    lab: &'a Lab,
    links: BTreeMap<End, UnixDatagram>,
    guests: BTreeMap<&'static str, Running>,
}

impl Keeper<'_> {
    /// Answers one request; whether a guest was started.
    fn answer(&mut self, mut stream: UnixStream) -> bool {
        let mut line = String::new();
        let asked = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(ANSWER)));
        let asked = asked.and_then(|()| BufReader::new((&stream).take(REQUEST)).read_line(&mut line));
        let result = asked.context("read a request").and_then(|_| self.start(line.trim_end_matches('\n')));
        let said = match &result {
            Ok(()) => "started".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        // Who asked may have gone.
        let _ = writeln!(stream, "{said}");
        result.is_ok()
    }

    fn start(&mut self, request: &str) -> Result<()> {
        let [name, image, initramfs] = request.split('\t').collect::<Vec<_>>()[..] else { bail!("an odd request") };
        let role = self.lab.shape.roles().into_iter().find(|role| role.name == name).context("no such guest")?;
        ensure!(self.guests.get_mut(role.name).is_none_or(Running::has_ended), "it runs already");
        let dir = self.lab.state().join(role.name);
        let log = File::create(dir.join("console.log")).context("write console.log")?;
        let links: Vec<&UnixDatagram> = role.links.iter().map(|(own, ..)| &self.links[&(role.name, *own)]).collect();
        links.iter().try_for_each(|link| forget_packets(link))?;
        let (theirs, control) = UnixStream::pair().context("make a control port")?;
        let agent = role.port.map(|_| wire()).transpose()?;
        let inherited = Inherited {
            links: links.iter().map(|link| link.as_raw_fd()).collect(),
            control: agent.as_ref().map(|(theirs, _)| theirs.as_raw_fd()),
        };
        let mut command = user_mode::command(self.lab, &role, &dir, image.as_ref(), initramfs.as_ref(), &inherited)?;
        command.stdin(OwnedFd::from(theirs)).stdout(log.try_clone()?).stderr(log);
        let files = links.iter().map(|link| link.as_fd()).chain(agent.iter().map(|(theirs, _)| theirs.as_fd()));
        let child = spawn_with(&mut command, &files.collect::<Vec<_>>())?;
        drop(command);
        fs::write(dir.join("pid"), child.id().to_string())?;
        let mut guest = Running { child, ended: Arc::default(), threads: Vec::new() };
        let listener = UnixListener::bind(dir.join("control")).context("listen at the control port")?;
        guest.serve(move |ended| control::serve(&control, &listener, ended));
        if let Some((_, link)) = agent {
            let port = fs::read_to_string(dir.join("port")).context("read port")?;
            let port: u16 = port.trim().parse().context("the port is no number")?;
            let listener = TcpListener::bind(("127.0.0.1", port)).with_context(|| format!("listen at port {port}"))?;
            guest.serve(move |ended| forward::serve(&listener, link, ended));
        }
        self.guests.insert(role.name, guest);
        Ok(())
    }
}

/// What was sent to a guest that is gone is not for its successor.
fn forget_packets(link: &UnixDatagram) -> Result<()> {
    link.set_nonblocking(true)?;
    let mut packet = [0];
    while link.recv(&mut packet).is_ok() {}
    Ok(())
}

/// Starts a process that inherits these files.
fn spawn_with(command: &mut Command, files: &[BorrowedFd<'_>]) -> Result<Child> {
    let set = |flags: FdFlags| files.iter().try_for_each(|file| fcntl_setfd(file, flags));
    set(FdFlags::empty()).context("let a guest inherit its links")?;
    let child = command.spawn().context("start user-mode Linux");
    set(FdFlags::CLOEXEC).context("keep links from other guests")?;
    child
}

/// A guest that was started, which ends with the value.
struct Running {
    child: Child,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Runs `work` beside the guest, until its flag is set.
    fn serve(&mut self, work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static) {
        let ended = Arc::clone(&self.ended);
        self.threads.push(thread::spawn(move || {
            if let Err(error) = work(&ended) {
                eprintln!("error: {error:#}");
            }
        }));
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
