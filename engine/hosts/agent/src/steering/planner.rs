//! The planner: agents ask it for source ports; what it grants is on disk before it is said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use kelpie_engine::chain;
use kelpie_paths::leases::{Holder, Lease, Leases};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::codec::Framed;
use tracing::{info, warn};

use super::journal::{Journal, JournalError};
use super::words::{Answer, Ask, LIMIT, PROTOCOL, Qp};
use crate::identity::{Acceptor, Caller};
use crate::lease::locked;
use crate::listener::{self, ListenerError};
use crate::rare::RareLog;
use crate::security::{Pipe, Security, TlsError};
use crate::socket::tune;
use crate::wire::{HELLO_LIMIT, Hello, Messages, Welcome, WireError};

/// How long a new connection may take to say who it is, TLS included.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Most connections at a time. Source: our choice, a quarter of the files that a process may open.
const MOST: usize = 256;

/// Longest name of a process or an address. Units: bytes.
const LONGEST: usize = 128;

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
}

struct Planner {
    plan: Mutex<(Leases, Journal)>,
    tls: Option<Acceptor>,
    rare: RareLog,
    room: Arc<Semaphore>,
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
    let tls = match &config.security {
        Security::Tls(files) => Some(Acceptor::new(files)?),
        Security::Plain | Security::Loopback => None,
    };
    let journal = Journal::open(&config.state, &mut leases)?;
    info!(leases = leases.held().count(), "planner is ready");
    let planner = Arc::new(Planner {
        plan: Mutex::new((leases, journal)),
        tls,
        rare: RareLog::default(),
        room: Arc::new(Semaphore::new(MOST)),
    });
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let planner = Arc::clone(&planner);
                // An agent that finds no room connects again later.
                let Ok(room) = Arc::clone(&planner.room).try_acquire_owned() else { continue };
                tokio::spawn(async move {
                    match planner.connection(stream).await {
                        Err(error) if planner.rare.wants() => {
                            warn!(%peer, error = chain(&error), "connection ended");
                        }
                        _ => {}
                    }
                    drop(room);
                });
            }
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl Planner {
    async fn connection(&self, stream: TcpStream) -> Result<(), WireError> {
        let late = |_| Err(WireError::Deadline(HELLO_DEADLINE));
        let met = timeout(HELLO_DEADLINE, self.meet(stream)).await.unwrap_or_else(late)?;
        let Some((pipe, agent)) = met else { return Ok(()) };
        info!(agent, "agent connected");
        let mut calls = pipe.map_codec(|_| Messages::<Ask>::up_to(LIMIT));
        while let Some(ask) = calls.next().await {
            // On this very thread: agents wait for the answer, and for nothing else.
            calls.send(self.answer(&agent, ask?)?).await?;
        }
        info!(agent, "agent left");
        Ok(())
    }

    /// Learns who is there.
    async fn meet(&self, stream: TcpStream) -> Result<Option<(Framed<Pipe, Messages<Hello>>, String)>, WireError> {
        tune(&stream)?;
        let (pipe, caller): (Pipe, Caller) = match &self.tls {
            None => (Box::new(stream), Caller::Unproven),
            Some(tls) => tls.accept(stream).await?,
        };
        let mut opening = Framed::new(pipe, Messages::<Hello>::up_to(HELLO_LIMIT));
        let Some(hello) = opening.next().await.transpose()? else { return Ok(None) };
        let is_known = hello.kelpie == PROTOCOL;
        let refused = (!is_known).then(|| format!("this planner speaks {PROTOCOL}"));
        let welcome =
            Welcome { kelpie: PROTOCOL.to_owned(), agent: String::new(), busy: false, leaving: false, refused };
        opening.send(welcome).await?;
        Ok(is_known.then(|| (opening, caller.named(&hello.controller))))
    }

    fn answer(&self, agent: &str, ask: Ask) -> Result<Answer, WireError> {
        let holder = |qp: Qp| Holder { agent: agent.to_owned(), process: qp.process, qp: qp.qp };
        let mut plan = locked(&self.plan);
        let (leases, journal) = &mut *plan;
        let failed = |error: &JournalError| {
            warn!(error = chain(error), "what was planned cannot be kept");
            Answer::Refused("the planner cannot write its state".to_owned())
        };
        Ok(match ask {
            Ask::Grant { qp, from, to } => {
                if [&qp.process, &from, &to].iter().any(|text| text.len() > LONGEST) {
                    return Err(WireError::Unexpected("a name longer than any is".to_owned()));
                }
                let holder = holder(qp);
                match leases.grant(&holder, &from, &to) {
                    Err(why) => Answer::Refused(why.to_string()),
                    Ok(lease) => {
                        match journal.has(&[(holder.clone(), lease.clone())]).and_then(|()| journal.trim(leases)) {
                            Ok(()) => Answer::Granted(lease),
                            Err(error) => {
                                leases.release(&holder);
                                failed(&error)
                            }
                        }
                    }
                }
            }
            Ask::Gone(qps) => {
                let gone: Vec<Holder> = qps.into_iter().map(holder).filter(|holder| leases.release(holder)).collect();
                if gone.is_empty() {
                    return Ok(Answer::Noted {});
                }
                journal
                    .gone(&gone)
                    .and_then(|()| journal.trim(leases))
                    .map_or_else(|error| failed(&error), |()| Answer::Noted {})
            }
            Ask::Has(chosen) => {
                // By paths that this planner does not know, any more or at all, nothing is counted.
                let known = chosen.into_iter().filter(|(qp, lease)| qp.process.len() <= LONGEST && leases.leads(lease));
                let chosen: Vec<(Holder, Lease)> = known.map(|(qp, lease)| (holder(qp), lease)).collect();
                if chosen.is_empty() {
                    return Ok(Answer::Noted {});
                }
                if let Err(error) = journal.has(&chosen) {
                    return Ok(failed(&error));
                }
                for (holder, lease) in chosen {
                    leases.restore(holder, lease);
                }
                journal.trim(leases).map_or_else(|error| failed(&error), |()| Answer::Noted {})
            }
            Ask::Held {} => {
                let own = leases.of_agent(agent).into_iter();
                Answer::Held(own.map(|(one, lease)| (Qp { process: one.process, qp: one.qp }, lease)).collect())
            }
            Ask::Ways(addresses) => Answer::Ways(leases.ways_from(&addresses, WAYS.0, WAYS.1)),
        })
    }
}
