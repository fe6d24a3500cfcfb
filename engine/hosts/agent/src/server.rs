//! The host's end: accepts controllers, serves one at a time, and tears down when it is gone. No verbs.
//!
//! The connection is the lease: while it stands the controller has the host, when it ends the host is free again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use kelpie_engine::chain;
use kelpie_engine::verbs_host::VerbsHost;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::gate::{Gate, Opening, part};
use crate::identity::NAME_LIMIT;
use crate::lease::{LeaseHolder, LeasedHost};
use crate::limited_log::LimitedLog;
use crate::limits::Limits;
use crate::listener::{self, ListenerError};
use crate::security::{Security, TlsError};
use crate::service;
use crate::steering::{SteeringSocket, SteeringSocketError};
use crate::steps::LONGEST_RELEASE;
use crate::wire::{AgentCodec, Hello, PROTOCOL, Welcome, WireError};

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody can connect.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Programs of this host cannot ask for source ports.
    #[error(transparent)]
    Door(#[from] SteeringSocketError),
    /// The asynchronous runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
    /// The device does not let go of what was set up; the kernel takes it back when the process ends.
    #[error("tearing down took longer than {} s: ending, so that the kernel frees what is left", .0.as_secs())]
    Stuck(Duration),
}

/// How an agent serves.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Its host's name.
    pub name: String,
    /// Who may connect.
    pub security: Security,
    /// What one controller may set up.
    pub limits: Limits,
    /// Where programs of its host ask for source ports, if they may.
    pub door: Option<SteeringSocket>,
}

/// What every connection shares.
struct SharedAgent {
    name: String,
    limits: Limits,
    gate: Gate,
    host: Arc<LeasedHost>,
    rare: LimitedLog,
    life: CancellationToken,
}

/// Serves controllers on `listen`; comes back only with an error.
///
/// # Errors
/// Where the address cannot be listened on or the certificates cannot be used, and when the device is stuck.
pub fn serve(listen: SocketAddr, config: AgentConfig, host: Box<dyn VerbsHost>) -> Result<(), AgentError> {
    let runtime = crate::runtime::with_one_worker().map_err(AgentError::Runtime)?;
    let ended = runtime.block_on(async {
        let listener = listener::listen(listen, &config.security).await?;
        info!(%listen, "agent is ready");
        serve_on(listener, config, host).await
    });
    // A thread that is stuck in the device would be waited for.
    runtime.shutdown_background();
    ended
}

/// Serves controllers on a listener; comes back only with an error.
///
/// # Errors
/// Where the certificates cannot be used, and when the device is stuck.
pub async fn serve_on(listener: TcpListener, config: AgentConfig, host: Box<dyn VerbsHost>) -> Result<(), AgentError> {
    serve_until(listener, config, host, CancellationToken::new()).await
}

/// Does so until `life` ends, and with it listener and connections, as those of a process that is killed.
pub(crate) async fn serve_until(
    listener: TcpListener,
    config: AgentConfig,
    host: Box<dyn VerbsHost>,
    life: CancellationToken,
) -> Result<(), AgentError> {
    let gate = Gate::new(&config.security)?;
    config.door.map(SteeringSocket::open).transpose()?;
    let agent = Arc::new(SharedAgent {
        name: config.name,
        limits: config.limits,
        gate,
        host: Arc::new(LeasedHost::new(host)),
        rare: LimitedLog::default(),
        life,
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = agent.life.cancelled() => return Ok(()),
            () = agent.host.stuck() => return Err(AgentError::Stuck(LONGEST_RELEASE)),
        };
        match accepted {
            Ok((stream, peer)) => {
                let agent = Arc::clone(&agent);
                tokio::spawn(async move {
                    let life = agent.life.clone();
                    life.run_until_cancelled_owned(Box::pin(agent.connection(stream, peer))).await;
                });
            }
            // Out of file descriptors, say: others may be closed meanwhile.
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl SharedAgent {
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        match self.gate.meet(stream, peer, |opening| self.hello(opening)).await {
            Ok(Some((opening, hello, caller))) => {
                let controller = caller.named(&hello.controller);
                if let Err(error) = Arc::clone(&self).session(opening, &controller, peer).await {
                    warn!(%controller, %peer, error = chain(&error), "connection ended");
                }
            }
            Ok(None) => {}
            Err(error) => {
                if self.rare.wants() {
                    warn!(%peer, error = chain(&error), "connection ended");
                }
            }
        }
    }

    async fn session(
        self: Arc<Self>,
        mut opening: Opening,
        controller: &str,
        peer: SocketAddr,
    ) -> Result<(), WireError> {
        if let Err(holder) = self.host.lease(format!("{controller} ({})", peer.ip())) {
            let LeaseHolder { name, leaving } = holder;
            let left = if leaving { ", which has left and is being torn down" } else { "" };
            let refusal = self.welcome(Some(format!("it serves another controller, {name}{left}")));
            return part(opening, Welcome { busy: true, leaving, ..refusal }).await;
        }
        info!(%controller, %peer, "controller connected");
        // On a task of its own: whatever becomes of it, the host is torn down.
        let serving = tokio::spawn({
            let agent = Arc::clone(&self);
            async move {
                opening.send(agent.welcome(None)).await?;
                let pipe = opening.map_codec(|_| AgentCodec::default());
                let served = service::serve(Arc::clone(&agent.host), agent.limits, pipe);
                agent.life.run_until_cancelled(served).await.unwrap_or(Err(WireError::Closed))
            }
        });
        let ended = serving.await;
        self.host.release().await;
        info!(%controller, "controller left, host is free");
        match ended {
            Ok(ended) => ended,
            Err(panicked) => Err(WireError::Io(std::io::Error::other(panicked))),
        }
    }

    /// The first words; `None` if they were answered already.
    async fn hello(&self, mut opening: Opening) -> Result<Option<(Opening, Hello)>, WireError> {
        let hello = match opening.next().await.unwrap_or(Err(WireError::Closed)) {
            Ok(hello) => hello,
            Err(WireError::Closed) => return Ok(None),
            Err(error) => {
                part(opening, self.welcome(Some(chain(&error)))).await?;
                return Err(error);
            }
        };
        if hello.kelpie != PROTOCOL {
            let theirs: String = hello.kelpie.chars().filter(|c| !c.is_control()).take(NAME_LIMIT).collect();
            let reason = format!("this agent speaks {PROTOCOL}, the controller {theirs}");
            return self.refuse(opening, &reason).await.map(|()| None);
        }
        Ok(Some((opening, hello)))
    }

    fn welcome(&self, refused: Option<String>) -> Welcome {
        Welcome { kelpie: PROTOCOL.to_owned(), agent: self.name.clone(), busy: false, leaving: false, refused }
    }

    async fn refuse(&self, opening: Opening, reason: &str) -> Result<(), WireError> {
        if self.rare.wants() {
            warn!(reason, "connection refused");
        }
        part(opening, self.welcome(Some(reason.to_owned()))).await
    }
}
