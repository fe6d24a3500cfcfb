//! The agent's connection to its planner: made when it is needed, made again when it is lost, and never waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use kelpie_engine::chain;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::codec::Framed;
use tracing::{info, warn};

use super::words::{LIMIT, PROTOCOL, PlannerAnswer, PlannerRequest};
use crate::client::{ClientError, reach};
use crate::security::{Pipe, Security};
use crate::wire::{HELLO_LIMIT, Hello, Messages, Welcome, WireError};

/// Questions that may wait. Source: our choice.
const WAITING: usize = 1024;

/// Questions that are asked together. Source: our choice, because the planner writes the answers of all with one write,
/// and both ends keep what the other has not read yet.
const TOGETHER: usize = 32;

/// Longest wait for one answer. Longer, and the connection is made anew.
const PATIENCE: Duration = Duration::from_secs(5);

/// A planner that answers so soon is waited for; one that does not is told afterwards what was chosen. Source: our
/// choice, a fifth of what programs wait.
const QUICK: Duration = Duration::from_millis(10);

/// Pause between attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// Which planner, and how it is reached.
#[derive(Debug, Clone)]
pub struct PlannerAddress {
    /// `host:port`.
    pub address: String,
    /// Certificates, or plain TCP.
    pub security: Security,
    /// The agent's name.
    pub name: String,
}

type PendingQuestion = (PlannerRequest, oneshot::Sender<PlannerAnswer>);

/// Where the rest of the agent asks.
#[derive(Debug, Clone)]
pub struct PlannerClient {
    questions: mpsc::Sender<PendingQuestion>,
    state: Arc<PlannerStatus>,
}

#[derive(Debug, Default)]
struct PlannerStatus {
    is_up: AtomicBool,
    /// Whether the last answer came soon.
    is_quick: AtomicBool,
}

impl PlannerClient {
    /// Connects from now on; `on_connect` is asked each time after that.
    pub fn new(planner: PlannerAddress, connected: mpsc::Sender<()>) -> Self {
        let (questions, asked) = mpsc::channel(WAITING);
        let state = Arc::new(PlannerStatus::default());
        tokio::spawn(keep(planner, asked, Arc::clone(&state), connected));
        Self { questions, state }
    }

    /// Whether the planner can be asked.
    pub fn is_up(&self) -> bool {
        self.state.is_up.load(Ordering::Relaxed)
    }

    /// Whether its last answer came soon.
    pub fn is_quick(&self) -> bool {
        self.is_up() && self.state.is_quick.load(Ordering::Relaxed)
    }

    /// Asks; none if the planner is not there or does not answer within `limit`.
    pub async fn ask(&self, ask: PlannerRequest, limit: Duration) -> Option<PlannerAnswer> {
        if !self.is_up() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.questions.try_send((ask, sender)).ok()?;
        let answer = timeout(limit, receiver).await;
        if answer.is_err() {
            self.state.is_quick.store(false, Ordering::Relaxed);
        }
        answer.ok()?.ok()
    }
}

/// Keeps a connection for as long as somebody may ask.
async fn keep(
    planner: PlannerAddress,
    mut asked: mpsc::Receiver<PendingQuestion>,
    state: Arc<PlannerStatus>,
    connected: mpsc::Sender<()>,
) {
    // A planner that is not there is reported once, and once that it is.
    let mut is_reported = false;
    loop {
        match open(&planner).await {
            Ok(calls) => {
                info!(planner = planner.address, "connected to the planner");
                state.is_up.store(true, Ordering::Relaxed);
                let _ = connected.try_send(());
                let ended = serve(calls, &mut asked, &state).await;
                state.is_up.store(false, Ordering::Relaxed);
                let Err(error) = ended else { return };
                warn!(
                    planner = planner.address,
                    error = chain(&error),
                    "lost the planner; this agent chooses by what it was told before"
                );
                is_reported = true;
            }
            Err(error) if !is_reported => {
                let error = chain(&error).replace("`kelpie agent`", "`kelpie paths serve`");
                warn!(
                    planner = planner.address,
                    error, "the planner cannot be reached; QPs keep their own source ports"
                );
                is_reported = true;
            }
            Err(_) => {}
        }
        // What was asked meanwhile is answered by nobody.
        while asked.try_recv().is_ok() {}
        tokio::time::sleep(PAUSE).await;
        if asked.is_closed() {
            return;
        }
    }
}

type Calls = Framed<Pipe, Messages<PlannerAnswer>>;

async fn open(planner: &PlannerAddress) -> Result<Calls, ClientError> {
    let address = planner.address.clone();
    let pipe = reach(&planner.address, &planner.security).await?;
    let mut opening = Framed::new(pipe, Messages::<Welcome>::up_to(HELLO_LIMIT));
    let exchange = async {
        opening.send(Hello { kelpie: PROTOCOL.to_owned(), controller: planner.name.clone() }).await?;
        opening.next().await.unwrap_or(Err(WireError::Closed))
    };
    let welcome = timeout(PATIENCE, exchange).await.unwrap_or(Err(WireError::Deadline(PATIENCE)));
    let welcome = welcome.map_err(|source| ClientError::Wire { address: address.clone(), source })?;
    match welcome.refused {
        _ if welcome.kelpie != PROTOCOL => Err(ClientError::Version { address, theirs: welcome.kelpie }),
        Some(reason) => Err(ClientError::Refused { address, reason }),
        None => Ok(opening.map_codec(|_| Messages::up_to(LIMIT))),
    }
}

/// Asks what waits, and hears the answers in the same order; fine if nobody can ask any more.
async fn serve(
    mut calls: Calls,
    asked: &mut mpsc::Receiver<PendingQuestion>,
    state: &PlannerStatus,
) -> Result<(), WireError> {
    loop {
        let mut questions = Vec::new();
        tokio::select! {
            count = asked.recv_many(&mut questions, TOGETHER) => if count == 0 {
                return Ok(());
            },
            // It says nothing by itself.
            said = calls.next() => return Err(said.map_or(WireError::Closed, |said| {
                said.map_or_else(|error| error, |_| WireError::Unexpected("an answer to nothing".to_owned()))
            })),
        }
        let asked_at = Instant::now();
        let mut senders = Vec::new();
        for (ask, sender) in questions {
            calls.feed(ask).await?;
            senders.push(sender);
        }
        SinkExt::<PlannerRequest>::flush(&mut calls).await?;
        for sender in senders {
            let answer = timeout(PATIENCE, calls.next()).await.map_err(|_| WireError::Deadline(PATIENCE))?;
            state.is_quick.store(asked_at.elapsed() < QUICK, Ordering::Relaxed);
            // The program that asked may have given up.
            let _ = sender.send(answer.unwrap_or(Err(WireError::Closed))?);
        }
    }
}
