//! Many agents in one process, on few threads: what tries fleets without their machines. Each agent is as `server` has
//! it, and ends by itself.

use std::net::SocketAddr;

use kelpie_engine::verbs_host::VerbsHost;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::listener::{self, ListenerError};
use crate::server::{AgentConfig, serve_until};

/// Threads that connections share; steps of hosts have others for as long as they last. Source: our choice.
const THREADS: usize = 2;

/// Whether an agent lives. All copies are of the same agent.
#[derive(Debug, Clone, Default)]
pub struct AgentLife(CancellationToken);

impl AgentLife {
    /// Ends the agent with its listener and its connections, as `kill -9` does to a process of its own.
    pub fn end(&self) {
        self.0.cancel();
    }
}

/// Agents that end with this value.
#[derive(Debug)]
pub struct Crowd(Option<Runtime>);

impl Crowd {
    /// Nobody is there yet. The process may then open as many files as it can.
    ///
    /// # Errors
    /// The threads could not be made.
    pub fn new() -> std::io::Result<Self> {
        crate::runtime::most_files();
        Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().map(|runtime| Self(Some(runtime)))
    }

    /// Has one more agent serve `host` for as long as it lives; where it listens.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn serve(
        &self,
        listen: SocketAddr,
        config: AgentConfig,
        life: &AgentLife,
        host: Box<dyn VerbsHost>,
    ) -> Result<SocketAddr, ListenerError> {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        let listener = runtime.block_on(listener::listen(listen, &config.security))?;
        let address = listener.local_addr().unwrap_or(listen);
        let life = life.0.clone();
        runtime.spawn(async move {
            if let Err(error) = serve_until(listener, config, host, life).await {
                warn!(%address, %error, "agent ended");
            }
        });
        Ok(address)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
