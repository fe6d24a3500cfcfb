//! The host's end: accepts controllers, serves one at a time, and tears down when it is gone. No verbs.
//!
//! The connection is the lease: while it stands the controller has the host, when it ends the host is free again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use super::tune;
use super::wire::{Hello, PROTOCOL, Reply, Request, Welcome, Wire, WireError};
use crate::chain::chain;
use crate::host::{HostError, VerbsHost};
use crate::plan::plan;

/// How long a new connection may take to say who it is.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Connections that have not yet said who they are; further ones are closed at once.
const MAX_STRANGERS: usize = 16;

/// Traffic without a word from the controller ends after this; it samples every 5 s or sooner.
const SILENCE_IN_TRAFFIC: Duration = Duration::from_secs(20);

/// The same while set up but not started: the other host may take its time.
const SILENCE_IN_SET_UP: Duration = Duration::from_secs(150);

/// Longest name of a controller that is kept. Units: characters.
const NAME_LIMIT: usize = 80;

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The asynchronous runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// The machine, shared with the blocking threads that do its steps.
type SharedHost = Arc<Mutex<Box<dyn VerbsHost>>>;

/// What every connection shares.
struct Agent {
    name: String,
    host: SharedHost,
    /// Who has the host.
    holder: Mutex<Option<String>>,
    strangers: Semaphore,
}

/// Serves controllers on `listen` for ever, under the host name `name`.
///
/// # Errors
/// Where the address cannot be listened on.
pub fn serve(listen: SocketAddr, name: &str, host: Box<dyn VerbsHost>) -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(AgentError::Runtime)?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind(listen).await.map_err(|source| AgentError::Listen { address: listen, source })?;
        info!(%listen, "agent is ready");
        serve_on(listener, name, host).await;
        Ok(())
    })
}

/// Serves controllers on a listener for ever.
pub async fn serve_on(listener: TcpListener, name: &str, host: Box<dyn VerbsHost>) {
    let agent = Arc::new(Agent {
        name: name.to_owned(),
        host: Arc::new(Mutex::new(host)),
        holder: Mutex::new(None),
        strangers: Semaphore::new(MAX_STRANGERS),
    });
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let agent = Arc::clone(&agent);
                tokio::spawn(async move {
                    if let Err(error) = agent.connection(stream).await {
                        warn!(%peer, error = chain(&error), "connection ended");
                    }
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

/// The holder's entry, removed with the value.
struct Lease<'a>(&'a Agent);

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        *locked(&self.0.holder) = None;
    }
}

impl Agent {
    async fn connection(&self, stream: TcpStream) -> Result<(), WireError> {
        tune(&stream)?;
        let mut wire = Wire::new(stream);
        let Ok(stranger) = self.strangers.try_acquire() else { return Ok(()) };
        let hello: Hello =
            timeout(HELLO_DEADLINE, wire.receive()).await.unwrap_or(Err(WireError::Deadline(HELLO_DEADLINE)))?;
        drop(stranger);
        let mut welcome = Welcome { kelpie: PROTOCOL.to_owned(), agent: self.name.clone(), busy: false, refused: None };
        if hello.kelpie != PROTOCOL {
            let theirs: String = hello.kelpie.chars().take(NAME_LIMIT).collect();
            welcome.refused = Some(format!("this agent speaks {PROTOCOL}, the controller {theirs}"));
            return wire.send(&welcome).await;
        }
        let controller: String = hello.controller.chars().take(NAME_LIMIT).collect();
        let lease = match self.lease(&controller) {
            Ok(lease) => lease,
            Err(holder) => {
                welcome.busy = true;
                welcome.refused = Some(format!("it serves another controller, {holder}"));
                return wire.send(&welcome).await;
            }
        };
        info!(%controller, "controller connected");
        wire.allow_sessions();
        let ended = async {
            wire.send(&welcome).await?;
            self.serve_controller(&mut wire).await
        }
        .await;
        // The host is free for the next controller only when nothing of this one is left on it.
        self.blocking(|host| host.tear_down()).await.unwrap_or_default();
        drop(lease);
        info!(%controller, "controller left, host is free");
        match ended {
            Err(WireError::Closed) => Ok(()),
            other => other,
        }
    }

    fn lease(&self, controller: &str) -> Result<Lease<'_>, String> {
        let mut holder = locked(&self.holder);
        if let Some(holder) = holder.as_ref() {
            return Err(holder.clone());
        }
        *holder = Some(controller.to_owned());
        Ok(Lease(self))
    }

    async fn serve_controller(&self, wire: &mut Wire<TcpStream>) -> Result<(), WireError> {
        let mut silence = None;
        loop {
            let request: Request = match silence {
                Some(limit) => timeout(limit, wire.receive()).await.unwrap_or(Err(WireError::Deadline(limit)))?,
                None => wire.receive().await?,
            };
            silence = match request {
                Request::SetUp { .. } | Request::Connect { .. } => Some(SILENCE_IN_SET_UP),
                Request::Start | Request::Sample | Request::Stop { .. } => Some(SILENCE_IN_TRAFFIC),
                Request::Inspect { .. } | Request::TearDown => None,
            };
            self.step(wire, request).await?;
        }
    }

    /// Does one step and answers, unless the controller goes away meanwhile.
    async fn step(&self, wire: &mut Wire<TcpStream>, request: Request) -> Result<(), WireError> {
        let (name, limit) = (request.name(), request.deadline());
        let mut work = self.blocking(move |host| perform(host, request));
        let outcome = tokio::select! {
            done = timeout(limit, &mut work) => done.map_err(|_| WireError::Deadline(limit)),
            early = wire.receive::<Request>() => Err(match early {
                Ok(request) => WireError::Unexpected(format!("`{}` before the answer to `{name}`", request.name())),
                Err(error) => error,
            }),
        };
        match outcome {
            Ok(done) => {
                let failed = |_| Reply::Error(HostError::Failed(format!("the agent could not {name}: see its log")));
                wire.send(&done.unwrap_or_else(failed)).await
            }
            Err(error) => {
                // The step holds the host; it has to end before the host is torn down.
                if work.await.is_err() {
                    warn!(step = name, "step panicked");
                }
                Err(error)
            }
        }
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn VerbsHost) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || work(&mut **locked(&host)))
    }
}

/// A step that panicked leaves a host that can still be torn down.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn perform(host: &mut dyn VerbsHost, request: Request) -> Reply {
    let outcome = match request {
        Request::Inspect { port } => host.inspect(&port).map(Reply::Port),
        Request::SetUp { host: which, port, workload } => match kelpie_spaces::check(&workload) {
            Ok(()) => host.set_up(&port, &plan(&workload, which)).map(Reply::Endpoints),
            Err(violation) => Err(HostError::Unsupported(violation.to_string())),
        },
        Request::Connect { peers } => host.connect(&peers).map(|()| Reply::Done),
        Request::Start => host.start().map(|()| Reply::Done),
        Request::Sample => host.sample().map(Reply::Reading),
        Request::Stop { drain_ms } => host.stop(Duration::from_millis(drain_ms)).map(Reply::Reading),
        Request::TearDown => {
            host.tear_down();
            Ok(Reply::Done)
        }
    };
    outcome.unwrap_or_else(Reply::Error)
}
