//! The planner: agents ask it for source ports; what it grants is on disk before it is said.
//!
//! One thread decides and writes for all agents: what has been asked while it wrote is decided and written together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt, SinkExt, StreamExt};
use kelpie_engine::chain;
use kelpie_paths::leases::{Leases, PortHolder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::codec::Framed;
use tracing::{info, warn};

use super::journal::{Change, Journal, JournalError};
use super::words::{ASK_LIMIT, LIMIT, PROTOCOL, PlannerAnswer, PlannerRequest, ProgramQp};
use crate::gate::{Gate, Opening, part};
use crate::limited_log::LimitedLog;
use crate::listener::{self, ListenerError};
use crate::runtime::most_files;
use crate::security::{Pipe, Security, TlsError};
use crate::wire::{Hello, Messages, Welcome, WireError};

/// Most agents at a time, if the process may open as many files. Source: our choice, above the paper's 1,250 hosts.
const MOST_AGENTS: usize = 16_384;

/// Files for what is no agent: strangers, the journal, the runtime. Source: our choice, twice what strangers may have.
const OTHER_FILES: usize = 1024;

/// Most connections of one agent: one, and those that its death left. Source: our choice.
const OF_ONE_AGENT: usize = 4;

/// Questions of one agent that are decided together, and of all. Source: our choice: more wait for the next write.
const ASKS: usize = 64;
const BATCH: usize = 1024;

/// Longest name of a process, which is two numbers, and of an address. Units: bytes.
const LONGEST_PROCESS: usize = 32;
const LONGEST: usize = 128;

/// Most addresses that an agent may have. Source: our choice.
const ADDRESSES: usize = 1024;

/// Most peers that an agent is told ways to, and source ports of each and side. Source: our choice; together they fit
/// into a frame.
const WAYS: (usize, usize) = (10_000, 8);

/// Why a planner ended.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// Nobody can connect.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What was granted before cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Who decides has ended, which only a mistake brings about.
    #[error("the planner cannot decide any more: see its log, and start it again")]
    Ended,
    /// The asynchronous runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// How a planner serves.
#[derive(Debug, Clone)]
pub struct PlannerConfig {
    /// Who may ask.
    pub security: Security,
    /// Where it keeps what it has granted.
    pub state: PathBuf,
    /// How long the leases of an agent stay that is away.
    pub absence: Duration,
}

struct PlannerServer {
    desk: mpsc::Sender<Said>,
    gate: Gate,
    rare: LimitedLog,
    room: Arc<Semaphore>,
    most: usize,
}

/// Serves agents on `listen`; comes back only with an error.
///
/// # Errors
/// Where the address, the certificates or the state cannot be used.
pub fn serve(listen: SocketAddr, config: &PlannerConfig, leases: Leases) -> Result<(), PlannerError> {
    let runtime = crate::runtime::with_one_worker().map_err(PlannerError::Runtime)?;
    runtime.block_on(async {
        let listener = listener::listen(listen, &config.security).await?;
        serve_on(listener, config, leases).await
    })
}

/// Serves agents on a listener; comes back only with an error.
///
/// # Errors
/// As [`serve`].
pub async fn serve_on(listener: TcpListener, config: &PlannerConfig, mut leases: Leases) -> Result<(), PlannerError> {
    let gate = Gate::new(&config.security)?;
    let journal = Journal::open(&config.state, &mut leases)?;
    let most = most_files().saturating_sub(OTHER_FILES).clamp(1, MOST_AGENTS);
    info!(leases = leases.held().len(), most_agents = most, "planner is ready");
    let (desk, said) = mpsc::channel(BATCH);
    let plan = Plan::new(leases, journal, config.absence);
    let mut deciding = tokio::task::spawn_blocking(|| plan.decide(said));
    tokio::spawn(remind(desk.clone(), config.absence));
    let room = Arc::new(Semaphore::new(most));
    let planner = Arc::new(PlannerServer { desk, gate, rare: LimitedLog::default(), room, most });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut deciding => return Err(PlannerError::Ended),
        };
        match accepted {
            Ok((stream, peer)) => {
                let planner = Arc::clone(&planner);
                tokio::spawn(async move {
                    match planner.connection(stream, peer).await {
                        Err(error) if planner.rare.wants() => {
                            warn!(%peer, error = chain(&error), "connection ended");
                        }
                        _ => {}
                    }
                });
            }
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Has agents looked for that do not come back.
async fn remind(desk: mpsc::Sender<Said>, absence: Duration) {
    let mut tick = tokio::time::interval((absence / 4).clamp(Duration::from_millis(10), Duration::from_mins(1)));
    loop {
        tick.tick().await;
        if desk.send(Said::Tick).await.is_err() {
            return;
        }
    }
}

fn welcome(refused: Option<String>) -> Welcome {
    Welcome { kelpie: PROTOCOL.to_owned(), agent: String::new(), busy: false, leaving: false, refused }
}

/// The first words.
async fn hello(mut opening: Opening) -> Result<Option<(Opening, Hello)>, WireError> {
    let Some(hello) = opening.next().await.transpose()? else { return Ok(None) };
    if hello.kelpie != PROTOCOL {
        part(opening, welcome(Some(format!("this planner speaks {PROTOCOL}")))).await?;
        return Ok(None);
    }
    Ok(Some((opening, hello)))
}

impl PlannerServer {
    async fn connection(&self, stream: TcpStream, peer: SocketAddr) -> Result<(), WireError> {
        let Some((mut opening, hello, caller)) = self.gate.meet(stream, peer, hello).await? else { return Ok(()) };
        let agent: Arc<str> = caller.named(&hello.controller).into();
        let Ok(_place) = self.room.try_acquire() else {
            let most = self.most;
            warn!(%agent, most, "an agent was refused: raise the limit of open files (ulimit -n)");
            let reason = format!("it has {most} agents already, as many as it may open files for (ulimit -n)");
            return part(opening, welcome(Some(reason))).await;
        };
        if !self.say(|answer| Said::Arrived(Arc::clone(&agent), answer)).await? {
            let reason = format!("agent {agent} is connected {OF_ONE_AGENT} times already; give each host a name");
            return part(opening, welcome(Some(reason))).await;
        }
        info!(%agent, %peer, "agent connected");
        let ended = match opening.send(welcome(None)).await {
            Ok(()) => self.serve(&agent, opening).await,
            Err(error) => Err(error),
        };
        info!(%agent, "agent left");
        // Nobody waits for that.
        let _ = self.desk.send(Said::Left(agent)).await;
        ended
    }

    async fn serve(&self, agent: &Arc<str>, opening: Opening) -> Result<(), WireError> {
        let calls: Framed<Pipe, Messages<PlannerRequest>> = opening.map_codec(|_| Messages::between(ASK_LIMIT, LIMIT));
        let (mut answers, mut asks) = calls.split();
        while let Some(first) = asks.next().await {
            // What has come meanwhile is decided together; what costs much, by itself.
            let (mut good, mut cost, mut next) = (Vec::new(), 0, Some(Some(first)));
            let ended = loop {
                match next {
                    Some(Some(Ok(ask))) => {
                        cost += weight(&ask);
                        good.push(ask);
                    }
                    Some(Some(Err(error))) => break Some(Err(error)),
                    Some(None) => break Some(Ok(())),
                    None => break None,
                }
                if cost >= ASKS {
                    break None;
                }
                next = asks.next().now_or_never();
            };
            for answer in self.say(|answer| Said::Asks(Arc::clone(agent), good, answer)).await? {
                answers.feed(answer?).await?;
            }
            answers.flush().await?;
            if let Some(ended) = ended {
                return ended;
            }
        }
        Ok(())
    }

    /// Says something to the one who decides, and waits for the answer.
    async fn say<T>(&self, said: impl FnOnce(oneshot::Sender<T>) -> Said) -> Result<T, WireError> {
        let (sender, receiver) = oneshot::channel();
        self.desk.send(said(sender)).await.map_err(|_| WireError::Closed)?;
        receiver.await.map_err(|_| WireError::Closed)
    }
}

/// What a question costs, in grants.
fn weight(ask: &PlannerRequest) -> usize {
    match ask {
        PlannerRequest::Grant { .. } => 1,
        PlannerRequest::Gone(qps) => qps.len() / 8 + 1,
        PlannerRequest::Has(chosen) => chosen.len() / 8 + 1,
        PlannerRequest::Held {} | PlannerRequest::Ends(_) | PlannerRequest::Ways(_) => ASKS,
    }
}

/// What connections say to the one who decides.
enum Said {
    /// An agent has connected; whether it may.
    Arrived(Arc<str>, oneshot::Sender<bool>),
    /// One of its connections has ended.
    Left(Arc<str>),
    /// It asks.
    Asks(Arc<str>, Vec<PlannerRequest>, oneshot::Sender<Answers>),
    /// Time has passed.
    Tick,
}

type Answers = Vec<Result<PlannerAnswer, WireError>>;

/// Who decides, on a thread of its own.
struct Plan {
    leases: Leases,
    journal: Journal,
    absence: Duration,
    /// Connections of each agent that is there.
    here: BTreeMap<Arc<str>, usize>,
    /// Since when each agent with leases is away.
    away: BTreeMap<Arc<str>, Instant>,
    /// Which agent, of those that are there, said first that an address is its own.
    owners: BTreeMap<String, Arc<str>>,
    /// What is to be written, and the leases that were there before it, in order.
    changes: Vec<Change>,
    before: Vec<Change>,
}

impl Plan {
    fn new(leases: Leases, journal: Journal, absence: Duration) -> Self {
        let now = Instant::now();
        let holders: std::collections::BTreeSet<&String> = leases.held().map(|(holder, _)| &holder.agent).collect();
        let away = holders.into_iter().map(|agent| (Arc::from(agent.as_str()), now)).collect();
        let (here, owners) = (BTreeMap::new(), BTreeMap::new());
        Self { away, leases, journal, absence, here, owners, changes: Vec::new(), before: Vec::new() }
    }

    fn decide(mut self, mut said: mpsc::Receiver<Said>) {
        let mut batch = Vec::new();
        while said.blocking_recv_many(&mut batch, BATCH) > 0 {
            let mut waiting = Vec::new();
            for said in batch.drain(..) {
                match said {
                    Said::Arrived(agent, answer) => _ = answer.send(self.arrives(agent)),
                    Said::Left(agent) => self.leaves(&agent),
                    Said::Asks(agent, asks, answer) => {
                        let answers: Answers = asks.into_iter().map(|ask| self.answer(&agent, ask)).collect();
                        waiting.push((answers, answer));
                    }
                    Said::Tick => self.forget(),
                }
            }
            let is_kept = self.keep();
            for (mut answers, answer) in waiting {
                if !is_kept {
                    answers.iter_mut().for_each(refuse);
                }
                // The agent may be gone.
                let _ = answer.send(answers);
            }
        }
    }

    fn arrives(&mut self, agent: Arc<str>) -> bool {
        self.away.remove(&agent);
        let connections = self.here.entry(agent).or_default();
        let may = *connections < OF_ONE_AGENT;
        *connections += usize::from(may);
        may
    }

    fn leaves(&mut self, agent: &Arc<str>) {
        let Some(connections) = self.here.get_mut(agent) else { return };
        *connections -= 1;
        if *connections == 0 {
            self.here.remove(agent);
            self.owners.retain(|_, owner| owner != agent);
            self.away.insert(Arc::clone(agent), Instant::now());
        }
    }

    /// Leases end of agents that have not come back.
    fn forget(&mut self) {
        let gone: Vec<Arc<str>> = self
            .away
            .iter()
            .filter(|(_, since)| since.elapsed() >= self.absence)
            .map(|(agent, _)| Arc::clone(agent))
            .collect();
        for agent in gone {
            let leases = self.leases.of_agent(&agent);
            if !leases.is_empty() {
                info!(%agent, leases = leases.len(), "an agent did not come back, and its leases end");
            }
            if leases.is_empty() {
                self.away.remove(&agent);
            }
            // If that cannot be written, they are found again next time.
            for (holder, _) in leases {
                self.release(&holder);
            }
        }
    }

    /// Remembers what a QP had, in case that what follows cannot be kept.
    fn remember(&mut self, holder: &PortHolder) {
        self.before.push(match self.leases.of(holder) {
            Some(lease) => Change::Has(holder.clone(), lease.clone()),
            None => Change::Gone(holder.clone()),
        });
    }

    fn release(&mut self, holder: &PortHolder) {
        self.remember(holder);
        if self.leases.release(holder) {
            self.changes.push(Change::Gone(holder.clone()));
        }
    }

    /// Writes what was decided; whether that went well. If not, all is as it was before.
    fn keep(&mut self) -> bool {
        let (changes, before) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.before));
        if changes.is_empty() {
            return true;
        }
        let Err(error) = self.journal.write(changes, &self.leases) else { return true };
        warn!(error = chain(&error), "what was planned cannot be kept");
        for was in before.into_iter().rev() {
            match was {
                Change::Has(holder, lease) => self.leases.restore(holder, lease),
                Change::Gone(holder) => _ = self.leases.release(&holder),
            }
        }
        false
    }

    /// Whether an address is of another agent that is there.
    fn is_of_another(&self, address: &str, agent: &str) -> bool {
        self.owners.get(address).is_some_and(|owner| **owner != *agent)
    }

    fn answer(&mut self, agent: &Arc<str>, ask: PlannerRequest) -> Result<PlannerAnswer, WireError> {
        let holder = |qp: ProgramQp| PortHolder { agent: agent.to_string(), process: qp.process, qp: qp.qp };
        Ok(match ask {
            PlannerRequest::Grant { qp, from, to } => {
                if qp.process.len() > LONGEST_PROCESS || [&from, &to].iter().any(|text| text.len() > LONGEST) {
                    return Err(WireError::Unexpected("a name longer than any is".to_owned()));
                }
                if self.is_of_another(&from, agent) {
                    return Ok(PlannerAnswer::Refused(format!("{from} is an address of another agent")));
                }
                let holder = holder(qp);
                self.remember(&holder);
                let had = self.leases.of(&holder).is_some();
                match self.leases.grant(&holder, &from, &to) {
                    Ok(lease) => {
                        self.changes.push(Change::Has(holder, lease.clone()));
                        PlannerAnswer::Granted(lease)
                    }
                    Err(why) => {
                        // A QP that asks again has given its lease back.
                        self.changes.extend(had.then_some(Change::Gone(holder)));
                        PlannerAnswer::Refused(why.to_string())
                    }
                }
            }
            PlannerRequest::Gone(qps) => {
                qps.into_iter().map(holder).for_each(|holder| self.release(&holder));
                PlannerAnswer::Noted {}
            }
            PlannerRequest::Has(chosen) => {
                for (qp, lease) in chosen {
                    if qp.process.len() > LONGEST_PROCESS || self.is_of_another(&lease.from, agent) {
                        continue;
                    }
                    let holder = holder(qp);
                    self.remember(&holder);
                    if self.leases.take_in(&holder, &lease) {
                        self.changes.push(Change::Has(holder, lease));
                    }
                }
                PlannerAnswer::Noted {}
            }
            PlannerRequest::Held {} => {
                let own = self.leases.of_agent(agent).into_iter();
                PlannerAnswer::Held(
                    own.map(|(one, lease)| (ProgramQp { process: one.process, qp: one.qp }, lease)).collect(),
                )
            }
            PlannerRequest::Ends(ends) => {
                let mut stale = Vec::new();
                for end in ends.into_iter().take(ADDRESSES).filter(|end| end.gid.len() <= LONGEST) {
                    if self.is_of_another(&end.gid, agent) {
                        stale.push(format!("{} is an address of another agent", end.gid));
                        continue;
                    }
                    if self.leases.measures(&end.gid) {
                        self.owners.insert(end.gid.clone(), Arc::clone(agent));
                    }
                    if let Some(changes) = self.leases.compare(&end) {
                        warn!(%agent, address = end.gid, changes, "its catalog is stale, probe again");
                        stale.push(format!("{}: {changes}", end.gid));
                    }
                }
                PlannerAnswer::Stale(stale)
            }
            PlannerRequest::Ways(mut addresses) => {
                addresses.truncate(ADDRESSES);
                addresses.retain(|address| !self.is_of_another(address, agent));
                PlannerAnswer::Ways(self.leases.ways_from(&addresses, WAYS.0, WAYS.1))
            }
        })
    }
}

/// What is answered if what was decided cannot be kept.
fn refuse(answer: &mut Result<PlannerAnswer, WireError>) {
    if matches!(answer, Ok(PlannerAnswer::Granted(_) | PlannerAnswer::Noted {})) {
        *answer = Ok(PlannerAnswer::Refused("the planner cannot write its state".to_owned()));
    }
}
