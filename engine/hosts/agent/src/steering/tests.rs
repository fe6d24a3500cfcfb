//! Programs, an agent and a planner in one process: who gets what, who is refused, and what a death leaves.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use kelpie_monitor::machine::Machine;
use kelpie_paths::catalog::{BondPort, Catalog, CatalogDirection, CatalogEnd, QpPort, SourcePortPath as Found};
use kelpie_paths::leases::Leases;
use kelpie_paths::leases::{Lease, MOST_OF_ONE};
use kelpie_spaces::Host;
use kelpie_topology::PortSide;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::codec::Framed;

use super::link::PlannerAddress;
use super::planner::{PlannerConfig, serve_on};
use super::socket::{SteeringSocket, SteeringSocketError};
use super::words::{LIMIT, PROTOCOL, PlannerAnswer, PlannerRequest, ProgramQp};
use crate::cert::{Authority, CertificatePurpose, Validity};
use crate::wire::{HELLO_LIMIT, Hello, Messages, Welcome};
use crate::{Security, TlsFiles};

const A: &str = "00000000000000000000ffff0a090101";
const B: &str = "00000000000000000000ffff0a090201";

fn gid(host: Host) -> &'static str {
    if host == Host::A { "0000:0000:0000:0000:0000:ffff:0a09:0101" } else { "0000:0000:0000:0000:0000:ffff:0a09:0201" }
}

fn catalog() -> Catalog {
    let end = |host| CatalogEnd {
        host,
        device: String::new(),
        gid: gid(host).to_owned(),
        mode: String::new(),
        policy: String::new(),
        selection: String::new(),
        ports: vec![BondPort { name: "p".to_owned(), mac: String::new() }],
        down: Vec::new(),
    };
    let path = |port: u16| {
        let side = Some(PortSide::BOTH[usize::from(port % 2)]);
        Found { leaves: side, arrives: side, sent: 9, received: 9, ..Found::unknown(QpPort::hashed(port)) }
    };
    let direction =
        |from| CatalogDirection { from, lag: None, paths: (50_000..50_008).map(path).collect(), ways: Vec::new() };
    Catalog {
        subsystem: "pair".to_owned(),
        measured: String::new(),
        measured_unix_s: 0,
        ends: vec![end(Host::A), end(Host::B)],
        directions: vec![direction(Host::A), direction(Host::B)],
    }
}

fn runtime() -> Runtime {
    crate::runtime::with_one_worker().expect("a runtime")
}

/// A planner; dropping its runtime is what `kill -9` does to a real one.
fn planner(address: &str, state: &Path, security: Security) -> (Runtime, String) {
    patient_planner(address, state, security, Duration::from_hours(1))
}

/// The same; leases of agents that are away for longer end.
fn patient_planner(address: &str, state: &Path, security: Security, absence: Duration) -> (Runtime, String) {
    let runtime = runtime();
    let listener = runtime.block_on(async {
        let started = Instant::now();
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) if started.elapsed() > Duration::from_secs(5) => panic!("{error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let address = listener.local_addr().expect("an address").to_string();
    let config = PlannerConfig { security, state: state.to_owned(), absence };
    runtime.spawn(async move {
        let ended = serve_on(listener, &config, Leases::new(&[catalog()])).await;
        panic!("the planner ended: {ended:?}");
    });
    (runtime, address)
}

struct SteeringAgent {
    _runtime: Runtime,
    socket: PathBuf,
}

fn agent(folder: &Path, planner: &str, security: Security, most_a_second: u32) -> SteeringAgent {
    let runtime = runtime();
    let socket = folder.join("steer");
    let planner = PlannerAddress { address: planner.to_owned(), security, name: "host-a".to_owned() };
    // The host's only RDMA port has one address.
    let gids = folder.join("host/sys/class/infiniband/rxe0/ports/1/gids");
    std::fs::create_dir_all(&gids).expect("a folder");
    std::fs::write(gids.join("1"), format!("{}\n", gid(Host::A))).expect("a file");
    let machine = Machine::recorded(folder.join("host"));
    let door = SteeringSocket { socket: socket.clone(), group: None, most_a_second, planner, machine };
    runtime.block_on(async { door.open() }).expect("a new socket");
    SteeringAgent { _runtime: runtime, socket }
}

/// A program of its own: its process is what the agent knows it by.
struct Program {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn start(agent: &SteeringAgent) -> Self {
        let script = "use IO::Socket::UNIX; $| = 1; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die; \
                      $s->autoflush(1); while (my $line = <STDIN>) { print $s $line; print scalar <$s> if $line =~ /^ask/ }";
        let mut command = Command::new("perl");
        command.args(["-e", script]).arg(&agent.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("perl, which every Debian has");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, said }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
    }

    fn ask(&mut self, qp: u32) -> String {
        self.say(&format!("ask {qp} {A} {B}"));
        let mut answer = String::new();
        self.said.read_line(&mut answer).expect("it answers");
        answer.trim().to_owned()
    }

    /// Asks until the planner is there.
    fn gets(&mut self, qp: u32) -> String {
        let started = Instant::now();
        loop {
            let answer = self.ask(qp);
            if answer.contains(" port ") {
                return answer;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many QPs have a port by the planner's journal.
fn leases(state: &Path) -> usize {
    let text = std::fs::read_to_string(state).expect("the planner's state");
    let mut held = BTreeSet::new();
    for line in text.lines() {
        // A line may be half written.
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        match line.get("gone") {
            Some(gone) => _ = held.remove(&gone.to_string()),
            None => _ = held.insert(line["has"][0].to_string()),
        }
    }
    held.len()
}

/// Lets a QP of this number come and go. The agent asks for the paths before it tells the planner that a QP is gone, so
/// it knows them once the planner has heard that.
fn learn_the_paths(program: &mut Program, qp: u32, state: &Path) {
    program.gets(qp);
    wait_for("the planner counts the QP", || leases(state) == 1);
    program.say(&format!("gone {qp}"));
    wait_for("the QP is given back", || leases(state) == 0);
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn qps_are_spread_given_back_and_forgotten_with_their_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (_planner, address) = planner("127.0.0.1:0", &state, Security::Loopback);
    let agent = agent(folder.path(), &address, Security::Loopback, 1000);
    let mode = std::fs::metadata(&agent.socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for this user alone");
    let mut program = Program::start(&agent);
    let sides: Vec<String> = (1..5).map(|qp| program.gets(qp).rsplit(' ').next().expect("words").to_owned()).collect();
    assert_eq!(sides, ["left", "right", "left", "right"]);
    program.say("gone 1");
    program.say("gone 3");
    wait_for("two are given back", || leases(&state) == 2);
    assert!(program.gets(9).ends_with(" left"), "where fewer are");
    drop(program);
    wait_for("a program that was killed is forgotten", || leases(&state) == 0);
}

#[test]
fn planner_and_agent_come_back_with_what_was_granted() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (first, address) = planner("127.0.0.1:0", &state, Security::Loopback);
    let one = agent(folder.path(), &address, Security::Loopback, 1000);
    let mut program = Program::start(&one);
    learn_the_paths(&mut program, 1, &state);
    assert!(program.gets(1).ends_with(" left"));
    // Not in the background: its successor may come once the journal's lock is free, and not before.
    drop(first);
    // The agent goes on by the paths that it was told, and waits for nobody.
    let started = Instant::now();
    let sides: Vec<String> = (2..6).map(|qp| program.ask(qp).rsplit(' ').next().expect("words").to_owned()).collect();
    assert_eq!(sides, ["right", "left", "right", "left"]);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    program.say("gone 5");
    let (_second, _) = planner(&address, &state, Security::Loopback);
    wait_for("the planner learns what was chosen without it", || leases(&state) == 4);
    // An agent that is killed: its successor knows which of the programs live.
    let mut doomed = Program::start(&one);
    assert!(doomed.gets(1).ends_with(" left"));
    wait_for("the planner counts it too", || leases(&state) == 5);
    drop(one);
    drop(doomed);
    let two = agent(folder.path(), &address, Security::Loopback, 1000);
    wait_for("a program that died meanwhile is forgotten", || leases(&state) == 4);
    let (mut other, mut brief) = (Program::start(&two), Program::start(&two));
    assert!(other.gets(7).ends_with(" left"));
    assert!(brief.gets(8).ends_with(" right"));
    drop(brief);
    // Whoever looked for programs that ended has looked at all of them.
    wait_for("one that died now is forgotten, and those of a program that lives are kept", || leases(&state) == 5);
    drop(program);
    wait_for("and go with it", || leases(&state) == 1);
}

#[test]
fn a_planner_that_is_slow_is_told_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (_planner, address) = planner("127.0.0.1:0", &state, Security::Loopback);
    let way = DelayingProxy::to(address);
    let agent = agent(folder.path(), &way.address, Security::Loopback, 1000);
    let mut program = Program::start(&agent);
    learn_the_paths(&mut program, 1, &state);
    program.gets(1);
    way.delay_ms.store(300, Ordering::Relaxed);
    let took: Vec<Duration> = (2..30)
        .map(|qp| {
            let started = Instant::now();
            let answer = program.ask(qp);
            assert!(answer.contains(" port "), "{answer}");
            started.elapsed()
        })
        .collect();
    let late = took.iter().filter(|took| **took >= Duration::from_millis(50)).count();
    assert!(late <= 2, "a busy machine may be late now and then, and the planner always is: {took:?}");
    wait_for("the planner knows them all", || leases(&state) == 29);
    assert!(program.ask(30).contains(" port "));
}

/// A way to an address on which all that the other end says comes later.
struct DelayingProxy {
    address: String,
    delay_ms: Arc<AtomicU64>,
    /// Connections that the other end has closed.
    closed: Arc<AtomicU64>,
}

impl DelayingProxy {
    fn to(to: String) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let way = Self { address, delay_ms: Arc::default(), closed: Arc::default() };
        let (delay, closed) = (Arc::clone(&way.delay_ms), Arc::clone(&way.closed));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(&to).expect("it listens");
                let (mut ask, mut asked) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
                std::thread::spawn(move || std::io::copy(&mut ask, &mut asked));
                let (delay, closed) = (Arc::clone(&delay), Arc::clone(&closed));
                std::thread::spawn(move || {
                    hand_on(far, near, &delay);
                    closed.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        way
    }
}

/// Hands on what one end says to the other until it says no more.
fn hand_on(mut said: TcpStream, mut to: TcpStream, delay_ms: &AtomicU64) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = said.read(&mut bytes) {
        std::thread::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed)));
        let _ = to.write_all(&bytes[..count]);
    }
    // The other threads of this connection hold the socket too.
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn strangers_and_crowds_are_kept_in_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_planner, address) = planner("127.0.0.1:0", &folder.path().join("state"), Security::Loopback);
    let agent = agent(folder.path(), &address, Security::Loopback, 5);
    for nonsense in ["", "ask", "ask x y z", "port 50000 left", "ask 1 0 0", &"x".repeat(5000), "ask 99999999999 0 0"] {
        let mut stream = UnixStream::connect(&agent.socket).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let _ = writeln!(stream, "{nonsense}");
        let mut answer = String::new();
        let read = BufReader::new(stream).read_line(&mut answer);
        assert!(!matches!(read, Ok(1..)), "{nonsense}: {answer}");
    }
    let mut program = Program::start(&agent);
    program.gets(0);
    let answers: Vec<String> = (1..30).map(|qp| program.ask(qp)).collect();
    assert!(answers.iter().filter(|answer| answer.contains("too many questions")).count() > 5, "{answers:?}");
    // What is no socket is left alone, and so is another agent's.
    let planner = PlannerAddress { address, security: Security::Loopback, name: String::new() };
    let at = |socket: PathBuf| SteeringSocket {
        socket,
        group: None,
        most_a_second: 1,
        planner: planner.clone(),
        machine: Machine::live(),
    };
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").expect("it is ours");
    let runtime = runtime();
    assert!(matches!(runtime.block_on(async { at(file.clone()).open() }), Err(SteeringSocketError::Occupied(_))));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
    assert!(matches!(runtime.block_on(async { at(agent.socket.clone()).open() }), Err(SteeringSocketError::InUse(_))));
    let door = SteeringSocket { group: Some("no such group".to_owned()), ..at(folder.path().join("new")) };
    assert!(matches!(runtime.block_on(async { door.open() }), Err(SteeringSocketError::Group(_))));
}

/// Whether a question on this connection is answered, by a refusal too; one that was turned away reads its end.
fn is_served(mut stream: &UnixStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let _ = writeln!(stream, "ask 5 {B} {A}");
    matches!(stream.read(&mut [0; 1]), Ok(1))
}

#[test]
fn a_program_that_lies_is_believed_nothing_and_takes_nothing_from_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (_planner, address) = planner("127.0.0.1:0", &state, Security::Loopback);
    let agent = agent(folder.path(), &address, Security::Loopback, 40);
    let (mut honest, mut liar) = (Program::start(&agent), Program::start(&agent));
    assert!(honest.gets(1).ends_with(" left"));
    // Paths of the other host, which would count there.
    liar.say(&format!("ask 5 {B} {A}"));
    let mut answer = String::new();
    liar.said.read_line(&mut answer).expect("it answers");
    assert_eq!(answer, format!("5 none {} is no address of this host\n", gid(Host::B)));
    // QPs of another program, and such that nobody has.
    liar.say("gone 1");
    for number in 0..2000 {
        liar.say(&format!("gone {number}"));
    }
    // More questions than one program may ask; the other one gets its answers.
    std::thread::sleep(Duration::from_millis(1100));
    let mut granted = 0;
    let refused = (100..2_100).map(|qp| liar.ask(qp)).find(|answer| {
        granted += usize::from(answer.contains(" port "));
        answer.contains("too many questions")
    });
    assert!(refused.is_some(), "{granted} questions were answered");
    assert!(honest.ask(2).contains(" port "), "half of a second's answers are left");
    // It opens all connections that it can.
    let streams: Vec<UnixStream> = (0..40).filter_map(|_| UnixStream::connect(&agent.socket).ok()).collect();
    assert_eq!(streams.iter().filter(|stream| is_served(stream)).count(), 16);
    assert!(Program::start(&agent).gets(3).contains(" port "));
    wait_for("the planner counts what the agent answered", || leases(&state) >= granted + 2);
    drop(liar);
    wait_for("a liar that was killed is forgotten", || leases(&state) <= 3);
    assert!(leases(&state) >= 2, "nobody else lost a port");
}

#[test]
fn strangers_that_are_silent_lock_no_agent_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_planner, address) = planner("127.0.0.1:0", &folder.path().join("state"), Security::Loopback);
    let silent: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    let started = Instant::now();
    let agent = agent(folder.path(), &address, Security::Loopback, 1000);
    assert!(Program::start(&agent).gets(1).contains(" port "));
    assert!(started.elapsed() < Duration::from_secs(4), "before any of them had to leave: {:?}", started.elapsed());
    drop(silent);
}

#[test]
fn leases_of_an_agent_that_does_not_come_back_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let absence = Duration::from_millis(600);
    let (first, address) = patient_planner("127.0.0.1:0", &state, Security::Loopback, absence);
    let one = agent(folder.path(), &address, Security::Loopback, 1000);
    let mut program = Program::start(&one);
    program.gets(1);
    std::thread::sleep(2 * absence);
    assert_eq!(leases(&state), 1, "it is there");
    drop(first);
    drop(one);
    // Nor does it come back to a planner that was away itself.
    let (_second, address) = patient_planner(&address, &state, Security::Loopback, absence);
    wait_for("the leases of the agent end", || leases(&state) == 0);
    let two = agent(folder.path(), &address, Security::Loopback, 1000);
    assert!(Program::start(&two).gets(2).contains(" port "));
}

#[test]
fn a_port_that_is_not_as_it_was_measured_is_not_steered_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (_planner, address) = planner("127.0.0.1:0", &state, Security::Loopback);
    let write = |name: &str, text: &str| {
        let path = folder.path().join("host").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
        std::fs::write(path, text).expect("it is ours");
    };
    // The catalog was measured without a bond.
    write("sys/class/infiniband/rxe0/parent", "bond0\n");
    write("sys/class/infiniband/rxe0/ports/1/gid_attrs/types/1", "RoCE v2\n");
    write("sys/class/net/bond0/bonding/mode", "active-backup 1\n");
    let agent = agent(folder.path(), &address, Security::Loopback, 1000);
    let mut program = Program::start(&agent);
    let mut said = String::new();
    for qp in 1..200 {
        said = program.ask(qp);
        if said.contains("stale") {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(said.contains("none the catalog of") && said.contains("bond's mode none, now active-backup"), "{said}");
}

/// An agent that speaks for itself.
struct Raw(Framed<tokio::net::TcpStream, Messages<PlannerAnswer>>);

impl Raw {
    /// Connects under a name; what it was refused for, if it was.
    async fn connect(address: &str, name: &str) -> Result<Self, String> {
        let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let mut opening = Framed::new(stream, Messages::<Welcome>::up_to(HELLO_LIMIT));
        let hello = Hello { kelpie: PROTOCOL.to_owned(), controller: name.to_owned() };
        opening.send(hello).await.map_err(|error| error.to_string())?;
        let welcome = opening.next().await.ok_or("closed")?.map_err(|error| error.to_string())?;
        match welcome.refused {
            Some(reason) => Err(reason),
            None => Ok(Self(opening.map_codec(|_| Messages::up_to(LIMIT)))),
        }
    }

    async fn ask(&mut self, ask: PlannerRequest) -> Option<PlannerAnswer> {
        self.0.send(ask).await.ok()?;
        self.0.next().await?.ok()
    }

    async fn grant(&mut self, qp: u32) -> Option<PlannerAnswer> {
        self.ask(PlannerRequest::Grant { qp: Self::qp(qp), from: gid(Host::A).to_owned(), to: gid(Host::B).to_owned() })
            .await
    }

    fn qp(qp: u32) -> ProgramQp {
        ProgramQp { process: "7:1".to_owned(), qp }
    }
}

/// A lease on a path that there is.
fn lease() -> Lease {
    let (from, to) = (gid(Host::A).to_owned(), gid(Host::B).to_owned());
    Lease { from, to, source_port: 50_000, side: PortSide::Left }
}

#[test]
fn one_agent_takes_its_share_and_refusals_are_not_in_the_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (_planner, address) = planner("127.0.0.1:0", &state, Security::Loopback);
    runtime().block_on(async {
        let mut liar = Raw::connect(&address, "liar").await.expect("it is let in");
        for part in 0..200_u32 {
            let chosen = (0..512).map(|qp| (Raw::qp(part * 512 + qp), lease())).collect();
            assert_eq!(liar.ask(PlannerRequest::Has(chosen)).await, Some(PlannerAnswer::Noted {}));
        }
        assert!(matches!(liar.grant(u32::MAX).await, Some(PlannerAnswer::Refused(why)) if why.contains("its share")));
        // Of an address that nobody measured, after one that it had.
        let elsewhere =
            PlannerRequest::Grant { qp: Raw::qp(3), from: gid(Host::A).to_owned(), to: "nowhere".to_owned() };
        assert!(matches!(liar.ask(elsewhere).await, Some(PlannerAnswer::Refused(_))));
        let mut honest = Raw::connect(&address, "honest").await.expect("it is let in");
        assert!(matches!(honest.grant(1).await, Some(PlannerAnswer::Granted(_))));
        assert_eq!(leases(&state), MOST_OF_ONE, "a lease of the honest one, and one of the liar less");
        // What is longer than any question ends the connection, and nothing else.
        let long = (0..40_000).map(Raw::qp).collect();
        assert_eq!(liar.ask(PlannerRequest::Gone(long)).await, None);
        assert!(matches!(honest.grant(2).await, Some(PlannerAnswer::Granted(_))));
        let mut more = Vec::new();
        let refused = loop {
            match Raw::connect(&address, "honest").await {
                Ok(one) => more.push(one),
                Err(reason) => break reason,
            }
        };
        assert!(more.len() == 3 && refused.contains("connected 4 times already"), "{refused}");
    });
}

#[test]
fn a_thousand_agents_connect_ask_die_and_lie() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let absence = Duration::from_secs(2);
    let (_planner, address) = patient_planner("127.0.0.1:0", &state, Security::Loopback, absence);
    let took = runtime().block_on(async {
        let mut agents = Vec::new();
        for number in 0..1000 {
            agents.push(Raw::connect(&address, &format!("host-{number:04}")).await.expect("there is room"));
        }
        let started = Instant::now();
        let asked = agents.into_iter().map(|mut agent| {
            tokio::spawn(async move {
                for qp in 0..10 {
                    assert!(matches!(agent.grant(qp).await, Some(PlannerAnswer::Granted(_))), "QP {qp}");
                }
                agent
            })
        });
        let mut agents = Vec::new();
        for agent in asked.collect::<Vec<_>>() {
            agents.push(agent.await.expect("it got all"));
        }
        let took = started.elapsed();
        assert_eq!(leases(&state), 10_000);
        // A third dies; a third lies: of QPs that nobody has, by paths that there are not, in words that are none.
        let dead = agents.split_off(667);
        let mut liars = agents.split_off(334);
        drop(dead);
        for (number, liar) in (0_u32..).zip(&mut liars) {
            match number % 3 {
                0 => _ = liar.ask(PlannerRequest::Gone((100..600).map(Raw::qp).collect())).await,
                1 => {
                    let forged = Lease { source_port: 50_001, ..lease() };
                    assert_eq!(
                        liar.ask(PlannerRequest::Has(vec![(Raw::qp(99), forged)])).await,
                        Some(PlannerAnswer::Noted {})
                    );
                }
                _ => _ = liar.0.get_mut().write_all(b"\0\0\0\x04none").await,
            }
        }
        for agent in &mut agents {
            let held = agent.ask(PlannerRequest::Held {}).await;
            assert!(matches!(&held, Some(PlannerAnswer::Held(held)) if held.len() == 10), "{held:?}");
            assert!(matches!(agent.grant(10).await, Some(PlannerAnswer::Granted(_))));
        }
        // Those that died, and those whose words were none, do not come back.
        let started = Instant::now();
        let expected = 334 * 11 + 222 * 10;
        while leases(&state) != expected && started.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(leases(&state), expected);
        took
    });
    println!("10,000 grants in {took:?}");
    // A second is for a program that was compiled for speed, on a machine that does nothing else.
    assert!(took < Duration::from_secs(10), "{took:?}: as long as if each was written by itself");
}

#[test]
fn agents_show_a_certificate_and_others_learn_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::in_dir(&folder.path().join("certs"), false).expect("an authority");
    let validity = Validity::lasting(Duration::from_hours(1));
    let issue = |name: &str, purpose| authority.issue(&[name.to_owned()], purpose, validity).expect("a certificate").0;
    let files = |identity| Security::Tls(TlsFiles { ca: authority.ca(), identity, insecure_key: false, revoked: None });
    let state = folder.path().join("state");
    let (_planner, address) = planner("127.0.0.1:0", &state, files(issue("127.0.0.1", CertificatePurpose::Agent)));
    let known = agent(folder.path(), &address, files(issue("host-a", CertificatePurpose::Controller)), 1000);
    assert!(Program::start(&known).gets(1).contains(" port "));
    std::fs::create_dir(folder.path().join("other")).expect("a folder");
    let way = DelayingProxy::to(address);
    let unknown = agent(&folder.path().join("other"), &way.address, Security::Loopback, 1000);
    let mut program = Program::start(&unknown);
    wait_for("the planner turns it away", || way.closed.load(Ordering::Relaxed) > 0);
    assert_eq!(program.ask(2), "2 none the planner cannot be reached");
}
