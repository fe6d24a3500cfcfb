//! The controller's end of one agent: connect, ask, wait no longer than the step's deadline. No retries.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::tune;
use super::wire::{Hello, PROTOCOL, Reply, Request, Welcome, Wire, WireError};
use crate::host::HostError;

/// How long connecting and the first exchange may take, each.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The answer may take this much longer than the step itself: an agent that is late says so.
const GRACE: Duration = Duration::from_secs(2);

/// Why an agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there, or it cannot be reached.
    #[error("cannot connect to {address} (is `kelpie agent` running there?)")]
    Connect {
        /// Address as written.
        address: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The agent speaks another version.
    #[error(
        "the agent at {address} speaks {theirs}, this controller {PROTOCOL}: use the same version of kelpie on both"
    )]
    Version {
        /// Address as written.
        address: String,
        /// Its protocol.
        theirs: String,
    },
    /// The agent serves someone else.
    #[error("the agent at {address} refused: {reason}")]
    Busy {
        /// Address as written.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The agent will not serve this controller.
    #[error("the agent at {address} refused: {reason}")]
    Refused {
        /// Address as written.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The connection is of no further use.
    #[error("lost the agent at {address}")]
    Wire {
        /// Address as written.
        address: String,
        /// The cause.
        #[source]
        source: WireError,
    },
    /// The host could not do the step.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A connection to an agent, which serves nobody else meanwhile.
#[derive(Debug)]
pub struct AgentClient {
    address: String,
    wire: Wire<TcpStream>,
}

impl AgentClient {
    /// Connects to `address` (`host:port`) in the name of `controller`.
    ///
    /// # Errors
    /// Where it cannot be reached or refuses.
    pub async fn connect(address: &str, controller: &str) -> Result<Self, ClientError> {
        let failed = |source| ClientError::Connect { address: address.to_owned(), source };
        let late = |_| failed(std::io::ErrorKind::TimedOut.into());
        let stream = timeout(CONNECT_LIMIT, TcpStream::connect(address)).await.map_err(late)?.map_err(failed)?;
        tune(&stream).map_err(failed)?;
        let mut client = Self { address: address.to_owned(), wire: Wire::new(stream) };
        let hello = Hello { kelpie: PROTOCOL.to_owned(), controller: controller.to_owned() };
        let welcome: Welcome = client.exchange(&hello, CONNECT_LIMIT).await?;
        client.accept(welcome)
    }

    fn accept(mut self, welcome: Welcome) -> Result<Self, ClientError> {
        let address = self.address.clone();
        match welcome.refused {
            _ if welcome.kelpie != PROTOCOL => Err(ClientError::Version { address, theirs: welcome.kelpie }),
            Some(reason) if welcome.busy => Err(ClientError::Busy { address, reason }),
            Some(reason) => Err(ClientError::Refused { address, reason }),
            None => {
                self.wire.allow_sessions();
                Ok(self)
            }
        }
    }

    /// Asks for a step, waits for its answer and takes from it what such a step answers.
    ///
    /// # Errors
    /// [`ClientError::Host`] where the host failed, and the connection goes on; with any other error it is lost.
    pub async fn ask<T>(&mut self, request: &Request, take: fn(Reply) -> Option<T>) -> Result<T, ClientError> {
        match self.exchange(request, request.deadline() + GRACE).await? {
            Reply::Error(error) => Err(error.into()),
            reply => take(reply).ok_or_else(|| self.unexpected(request)),
        }
    }

    async fn exchange<M, A>(&mut self, message: &M, limit: Duration) -> Result<A, ClientError>
    where
        M: serde::Serialize + Sync,
        A: DeserializeOwned,
    {
        let both = async {
            self.wire.send(message).await?;
            self.wire.receive().await
        };
        let answer = timeout(limit, both).await.unwrap_or(Err(WireError::Deadline(limit)));
        answer.map_err(|source| ClientError::Wire { address: self.address.clone(), source })
    }

    fn unexpected(&self, request: &Request) -> ClientError {
        let what = format!("another answer than one to `{}`", request.name());
        ClientError::Wire { address: self.address.clone(), source: WireError::Unexpected(what) }
    }
}
