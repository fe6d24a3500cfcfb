//! The controller's end of one agent: connect, ask, wait no longer than the step's deadline. No retries.

use std::error::Error;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use kelpie_engine::bond::Bond;
use kelpie_engine::chain;
use kelpie_engine::rank::{RankJob, RankReading};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupPorts, HostError, HostReading, Port, PortReport};
use kelpie_monitor::doctor::Examination;
use kelpie_spaces::{Host, Workload};
use tarpc::client::{Channel, Config, RpcError};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::codec::Framed;

use crate::security::{Pipe, Security, TlsError, server_name};
use crate::socket::tune;
use crate::steps::{ExperimentStep, StepsRequest, StepsResponse};
use crate::wire::{ControllerCodec, FRAME_LIMIT, HELLO_LIMIT, Hello, Messages, PROTOCOL, Welcome, WireError, within};

/// How long connecting and the first exchange may take, each.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The answer may take this much longer than the step itself: an agent that is late says so.
const GRACE: Duration = Duration::from_secs(2);

/// Most ports of a bond that an agent may name.
const MOST_MEMBERS: usize = 8;

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
    /// Plain TCP beyond this machine, and nobody asked for that.
    #[error(
        "{address} is another machine: name certificates under `tls` in the pair file (`kelpie agent cert` makes \
         them), or write `plain: true` if the network between is trusted"
    )]
    Insecure {
        /// Address as written.
        address: String,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] TlsError),
    /// The two do not trust each other, or the agent speaks plain TCP.
    #[error("no TLS with the agent at {address}")]
    Tls {
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
    /// It closed the connection before it said anything, as agents with certificates do to others.
    #[error(
        "the agent at {address} closed the connection without a word: if it has certificates, name yours under `tls` in \
         the pair file"
    )]
    Silent {
        /// Address as written.
        address: String,
    },
    /// It closed the connection when it had seen the certificate.
    #[error(
        "the agent at {address} closed the connection when it had seen {}: its log says why, such as that this \
         certificate was revoked there (--revoked)",
        identity.display()
    )]
    Unwelcome {
        /// Address as written.
        address: String,
        /// The file with the certificate.
        identity: PathBuf,
    },
    /// The agent serves someone else.
    #[error("the agent at {address} refused: {reason}")]
    Busy {
        /// Address as written.
        address: String,
        /// Whether that one has left, and the host is being torn down.
        leaving: bool,
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
    calls: Channel<StepsRequest, StepsResponse>,
    dispatch: JoinHandle<()>,
}

impl AgentClient {
    /// Connects to `address` (`host:port`) in the name of `controller`.
    ///
    /// # Errors
    /// Where it cannot be reached, is not trusted or refuses.
    pub async fn connect(address: &str, security: &Security, controller: &str) -> Result<Self, ClientError> {
        Self::connect_for(address, security, controller, FRAME_LIMIT).await
    }

    /// As [`AgentClient::connect`], for answers of up to so many bytes: who speaks to many agents has no memory for the
    /// longest of each.
    ///
    /// # Errors
    /// As [`AgentClient::connect`].
    pub async fn connect_for(
        address: &str,
        security: &Security,
        controller: &str,
        answers_up_to: usize,
    ) -> Result<Self, ClientError> {
        let mut opening = Framed::new(reach(address, security).await?, Messages::<Welcome>::up_to(HELLO_LIMIT));
        let hello = Hello { kelpie: PROTOCOL.to_owned(), controller: controller.to_owned() };
        let exchange = async {
            opening.send(hello).await?;
            opening.next().await.unwrap_or(Err(WireError::Closed))
        };
        let late = |_| Err(WireError::Deadline(CONNECT_LIMIT));
        let welcome = timeout(CONNECT_LIMIT, exchange).await.unwrap_or_else(late);
        let address = address.to_owned();
        let welcome = welcome.map_err(|source| match security {
            _ if !was_closed(&source) => ClientError::Wire { address: address.clone(), source },
            Security::Tls(files) => {
                ClientError::Unwelcome { address: address.clone(), identity: files.identity.clone() }
            }
            Security::Plain | Security::Loopback => ClientError::Silent { address: address.clone() },
        });
        accept(&address, welcome?)?;
        let transport = opening.map_codec(|_| ControllerCodec::answers_up_to(answers_up_to));
        let rpc = tarpc::client::new(Config::default(), transport);
        // Whoever waits for an answer learns how it ended.
        let dispatch = tokio::spawn(async { drop(rpc.dispatch.await) });
        Ok(Self { address, calls: rpc.client, dispatch })
    }

    /// Asks what a port is.
    ///
    /// # Errors
    /// [`ClientError::Host`] if the host failed, and the connection goes on; with any other error it is lost.
    pub async fn inspect(&self, port: Port) -> Result<PortReport, ClientError> {
        match self.call(ExperimentStep::Inspect, StepsRequest::Inspect { port }).await? {
            StepsResponse::Inspect(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Asks what on its host spoils measurements.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn examine(&self, port: Port) -> Result<Examination, ClientError> {
        match self.call(ExperimentStep::Examine, StepsRequest::Examine { port }).await? {
            StepsResponse::Examine(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Lets it set up its part, that of `host`, of a workload, and time its requests if `latency` says so.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn set_up(
        &self,
        host: Host,
        port: Port,
        workload: Workload,
        latency: bool,
    ) -> Result<Vec<GroupEndpoint>, ClientError> {
        match self.call(ExperimentStep::SetUp, StepsRequest::SetUp { host, port, workload, latency }).await? {
            StepsResponse::SetUp(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Asks what carries the traffic of a port.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn bond(&self, port: Port) -> Result<Bond, ClientError> {
        match self.call(ExperimentStep::Bond, StepsRequest::Bond { port }).await? {
            StepsResponse::Bond(Ok(bond)) if bond.members.len() > MOST_MEMBERS => {
                Err(self.lost(WireError::Unexpected(format!("a bond of {} ports", bond.members.len()))))
            }
            StepsResponse::Bond(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Gives its QPs source ports, before they are connected.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn set_source_ports(&self, groups: Vec<GroupPorts>) -> Result<(), ClientError> {
        match self.call(ExperimentStep::SetSourcePorts, StepsRequest::SetSourcePorts { groups }).await? {
            StepsResponse::SetSourcePorts(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Connects its QPs to `peers`.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn connect_to(&self, peers: Vec<GroupEndpoint>) -> Result<(), ClientError> {
        match self.call(ExperimentStep::Connect, StepsRequest::Connect { peers }).await? {
            StepsResponse::Connect(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Starts traffic.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn start(&self) -> Result<(), ClientError> {
        match self.call(ExperimentStep::Start, StepsRequest::Start {}).await? {
            StepsResponse::Start(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Reads work and counters.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn sample(&self) -> Result<HostReading, ClientError> {
        match self.call(ExperimentStep::Sample, StepsRequest::Sample {}).await? {
            StepsResponse::Sample(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Stops traffic, and waits at most `drain_ms` milliseconds for what is outstanding.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn stop(&self, drain_ms: u64) -> Result<HostReading, ClientError> {
        match self.call(ExperimentStep::Stop, StepsRequest::Stop { drain_ms }).await? {
            StepsResponse::Stop(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Lets it set up a rank of a ring.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn set_up_rank(&self, port: Port, job: RankJob) -> Result<Vec<GroupEndpoint>, ClientError> {
        match self.call(ExperimentStep::SetUpRank, StepsRequest::SetUpRank { port, job }).await? {
            StepsResponse::SetUpRank(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Asks what its rank has done.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn read_rank(&self) -> Result<RankReading, ClientError> {
        match self.call(ExperimentStep::ReadRank, StepsRequest::ReadRank {}).await? {
            StepsResponse::ReadRank(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    /// Ends the session.
    ///
    /// # Errors
    /// As [`AgentClient::inspect`].
    pub async fn tear_down(&self) -> Result<(), ClientError> {
        match self.call(ExperimentStep::TearDown, StepsRequest::TearDown {}).await? {
            StepsResponse::TearDown(answer) => Ok(answer?),
            other => self.unexpected(&other),
        }
    }

    async fn call(&self, step: ExperimentStep, request: StepsRequest) -> Result<StepsResponse, ClientError> {
        let limit = step.deadline() + GRACE;
        self.calls.call(within(limit), request).await.map_err(|error| {
            self.lost(match error {
                RpcError::Shutdown => WireError::Closed,
                RpcError::DeadlineExceeded => WireError::Deadline(limit),
                RpcError::Server(rejected) => WireError::Unexpected(rejected.detail),
                RpcError::Send(cause) => WireError::Io(std::io::Error::other(cause)),
                RpcError::Channel(broken) => {
                    // The library's words say nothing; the transport's do.
                    let cause = broken.source().map_or_else(|| broken.to_string(), chain);
                    WireError::Io(std::io::Error::other(cause))
                }
            })
        })
    }

    fn unexpected<T>(&self, answer: &StepsResponse) -> Result<T, ClientError> {
        Err(self.lost(WireError::Unexpected(format!("{answer:?}").chars().take(80).collect())))
    }

    fn lost(&self, source: WireError) -> ClientError {
        ClientError::Wire { address: self.address.clone(), source }
    }
}

impl Drop for AgentClient {
    fn drop(&mut self) {
        self.dispatch.abort();
    }
}

pub(crate) async fn reach(address: &str, security: &Security) -> Result<Pipe, ClientError> {
    let failed = |source| ClientError::Connect { address: address.to_owned(), source };
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let connecting = timeout(CONNECT_LIMIT, TcpStream::connect(address));
    let stream = connecting.await.map_err(late).and_then(|done| done).map_err(failed)?;
    if !security.allows(stream.peer_addr().map_err(failed)?.ip()) {
        return Err(ClientError::Insecure { address: address.to_owned() });
    }
    tune(&stream).map_err(failed)?;
    let Security::Tls(files) = security else { return Ok(Box::new(stream)) };
    let failed = |source| ClientError::Tls { address: address.to_owned(), source };
    let shaking = timeout(CONNECT_LIMIT, files.connector()?.connect(server_name(address)?, stream));
    Ok(Box::new(shaking.await.map_err(late).and_then(|done| done).map_err(failed)?))
}

/// Whether the other side has left; closing with something unread resets the connection.
fn was_closed(error: &WireError) -> bool {
    let is_reset = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof);
    matches!(error, WireError::Closed) || matches!(error, WireError::Io(error) if is_reset(error.kind()))
}

fn accept(address: &str, welcome: Welcome) -> Result<(), ClientError> {
    let address = address.to_owned();
    match welcome.refused {
        _ if welcome.kelpie != PROTOCOL => Err(ClientError::Version { address, theirs: welcome.kelpie }),
        Some(reason) if welcome.busy => Err(ClientError::Busy { address, leaving: welcome.leaving, reason }),
        Some(reason) => Err(ClientError::Refused { address, reason }),
        None => Ok(()),
    }
}
