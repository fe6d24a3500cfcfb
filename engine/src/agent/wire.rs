//! The messages between controller and agent and their framing. Who sends them when is in `client` and `server`.
//!
//! A frame is a 32-bit length in network order and that many bytes of JSON. The first exchange ([`Hello`],
//! [`Welcome`]) never changes its form, so that two versions can tell each other that they differ.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use kelpie_spaces::{Host, Workload};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::host::{GroupEndpoint, HostError, HostReading, Port, PortReport};

/// Version of everything after the first exchange.
pub const PROTOCOL: &str = "agent/1";

/// Longest frame of the first exchange. Units: bytes.
pub const HELLO_LIMIT: usize = 4 << 10;

/// Longest later frame: 200 K MRs with their keys take 7 MiB. Units: bytes.
pub const FRAME_LIMIT: usize = 32 << 20;

/// What a controller says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its protocol, [`PROTOCOL`].
    pub kelpie: String,
    /// Who it is, for the agent's log and for other controllers.
    pub controller: String,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Its protocol.
    pub kelpie: String,
    /// Its host's name.
    pub agent: String,
    /// Whether another controller holds the agent; it may be free later.
    #[serde(default)]
    pub busy: bool,
    /// Set when the agent will not serve this controller: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What a controller asks, in this order; see `VerbsHost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// What is this port?
    Inspect {
        /// The port.
        port: Port,
    },
    /// Set up your part of a workload.
    SetUp {
        /// Which host of the workload the agent is.
        host: Host,
        /// The port to use.
        port: Port,
        /// The workload.
        workload: Workload,
    },
    /// Connect to these.
    Connect {
        /// Every group whose peer is on the agent.
        peers: Vec<GroupEndpoint>,
    },
    /// Start traffic.
    Start,
    /// Read work and counters.
    Sample,
    /// Stop posting, wait for outstanding work.
    Stop {
        /// Longest wait. Units: milliseconds.
        drain_ms: u64,
    },
    /// Destroy everything.
    TearDown,
}

impl Request {
    /// The step, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Inspect { .. } => "inspect the device",
            Request::SetUp { .. } => "set up",
            Request::Connect { .. } => "connect QPs",
            Request::Start => "start traffic",
            Request::Sample => "sample",
            Request::Stop { .. } => "stop traffic",
            Request::TearDown => "tear down",
        }
    }

    /// How long the step may take; the agent keeps to it as well.
    ///
    /// Source: our choice, because 20 K QPs take 6 s on Soft-RoCE and a real NIC is no slower.
    pub fn deadline(&self) -> Duration {
        match self {
            Request::SetUp { .. } | Request::Connect { .. } | Request::TearDown => Duration::from_mins(2),
            Request::Stop { drain_ms } => Duration::from_secs(10) + Duration::from_millis(*drain_ms),
            Request::Inspect { .. } | Request::Start | Request::Sample => Duration::from_secs(10),
        }
    }
}

/// What an agent answers to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `Inspect`.
    Port(PortReport),
    /// To `SetUp`.
    Endpoints(Vec<GroupEndpoint>),
    /// To `Sample` and `Stop`.
    Reading(HostReading),
    /// To the others.
    Done,
    /// The step failed.
    Error(HostError),
}

impl Reply {
    /// The port, if that is what it is.
    pub fn into_port(self) -> Option<PortReport> {
        if let Reply::Port(port) = self { Some(port) } else { None }
    }

    /// The endpoints, if that is what it is.
    pub fn into_endpoints(self) -> Option<Vec<GroupEndpoint>> {
        if let Reply::Endpoints(endpoints) = self { Some(endpoints) } else { None }
    }

    /// The reading, if that is what it is.
    pub fn into_reading(self) -> Option<HostReading> {
        if let Reply::Reading(reading) = self { Some(reading) } else { None }
    }

    /// Nothing, if that is what it is.
    pub fn into_done(self) -> Option<()> {
        (self == Reply::Done).then_some(())
    }
}

/// Why a connection is of no further use.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side is gone.
    #[error("the connection was closed by the other side")]
    Closed,
    /// Reading or writing failed, or a frame is longer than the limit.
    #[error("the connection failed")]
    Io(#[from] std::io::Error),
    /// A frame is no message of this protocol.
    #[error("a message was not understood")]
    Decode(#[source] serde_json::Error),
    /// A message could not be written as JSON.
    #[error("a message could not be encoded")]
    Encode(#[source] serde_json::Error),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Deadline(Duration),
    /// A message that does not belong here.
    #[error("an unexpected message came: {0}")]
    Unexpected(String),
}

/// A framed connection.
#[derive(Debug)]
pub struct Wire<S>(Framed<S, LengthDelimitedCodec>);

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// A connection on `stream`, with the limit of the first exchange.
    pub fn new(stream: S) -> Self {
        Self(LengthDelimitedCodec::builder().max_frame_length(HELLO_LIMIT).new_framed(stream))
    }

    /// Allows the frames of a session.
    pub fn allow_sessions(&mut self) {
        self.0.codec_mut().set_max_frame_length(FRAME_LIMIT);
    }

    /// Sends one message.
    ///
    /// # Errors
    /// Where it is too long or the connection fails.
    pub async fn send<T: Serialize + Sync>(&mut self, message: &T) -> Result<(), WireError> {
        let frame = serde_json::to_vec(message).map_err(WireError::Encode)?;
        Ok(self.0.send(Bytes::from(frame)).await?)
    }

    /// Receives one message. Safe to cancel.
    ///
    /// # Errors
    /// Where the connection ends, or the frame is too long or no message.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let frame = self.0.next().await.ok_or(WireError::Closed)??;
        serde_json::from_slice(&frame).map_err(WireError::Decode)
    }
}
