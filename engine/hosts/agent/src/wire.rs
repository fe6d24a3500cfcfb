//! The messages between controller and agent and their framing. Who sends them when is in `client` and `service`.
//!
//! A frame is a 32-bit length in network order and that many bytes of JSON. The first exchange ([`Hello`],
//! [`Welcome`]) only gains keys that may be missing, so that two versions can report that they differ. What
//! follows are calls of [`Steps`](crate::steps::Steps). They have a form of their own rather than that of the RPC
//! library, whose types take any deadline and panic at a very late one.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tarpc::{ClientMessage, Request, Response, ServerError, context};
use tokio_util::codec::{Decoder, Encoder, LengthDelimitedCodec};

use crate::steps::{StepsRequest, StepsResponse};

/// Version of everything after the first exchange.
pub const PROTOCOL: &str = "agent/7";

/// Longest frame of the first exchange. Units: bytes.
pub const HELLO_LIMIT: usize = 4 << 10;

/// Longest later frame: 200 K MRs with their keys take 7 MiB. Units: bytes.
pub const FRAME_LIMIT: usize = 32 << 20;

/// Latest deadline of a call that is kept; later ones come earlier. No step may take as long.
const LATEST_DEADLINE: Duration = Duration::from_mins(10);

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
    /// Whether that controller has left, and the agent is free once its host is torn down.
    #[serde(default)]
    pub leaving: bool,
    /// Set when the agent will not serve this controller: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What a controller sends after that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControllerMessage {
    /// Do this step.
    Call {
        /// Names the call in its answer.
        id: u64,
        /// How long the controller waits. Units: milliseconds.
        deadline_ms: u64,
        /// The step with its arguments.
        step: StepsRequest,
    },
    /// Nobody waits for the answer any more.
    Cancel {
        /// The call.
        id: u64,
    },
}

/// What an agent sends after that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessage {
    /// The step was done, or failed on the host.
    Done {
        /// The call.
        id: u64,
        /// What it gave.
        result: StepsResponse,
    },
    /// The step was never begun.
    Rejected {
        /// The call.
        id: u64,
        /// Why.
        reason: String,
    },
    /// The last word before the agent closes the connection.
    Farewell {
        /// Why.
        reason: String,
    },
}

/// Why a connection is of no further use.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side is gone.
    #[error("the connection was closed by the other side")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection failed")]
    Io(#[from] std::io::Error),
    /// The TLS handshake failed.
    #[error("TLS failed")]
    Tls(#[source] std::io::Error),
    /// The connection ended within a frame.
    #[error("the connection ended within a message")]
    Truncated,
    /// A frame is longer than its kind may be.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// A frame is no message of this protocol.
    #[error("a message was not understood")]
    Decode(#[source] serde_json::Error),
    /// A message could not be written as JSON.
    #[error("a message could not be encoded")]
    Encode(#[source] serde_json::Error),
    /// Nothing came in time.
    #[error("nothing came within {} s", .0.as_secs())]
    Deadline(Duration),
    /// A message that does not belong here.
    #[error("an unexpected message came: {0}")]
    Unexpected(String),
    /// The agent's last word.
    #[error("the agent ended the session: {0}")]
    Farewell(String),
}

/// Frames of JSON; `In` is what comes in.
#[derive(Debug)]
pub struct Messages<In> {
    frames: LengthDelimitedCodec,
    /// For what goes out.
    out: LengthDelimitedCodec,
    comes_in: PhantomData<fn() -> In>,
}

impl<In> Messages<In> {
    /// Frames of up to `limit` bytes.
    pub fn up_to(limit: usize) -> Self {
        Self::between(limit, limit)
    }

    /// Frames of up to so many bytes that come in, and that go out.
    pub fn between(comes_in: usize, goes_out: usize) -> Self {
        let codec = |limit| LengthDelimitedCodec::builder().max_frame_length(limit).new_codec();
        Self { frames: codec(comes_in), out: codec(goes_out), comes_in: PhantomData }
    }

    fn too_long(&self, error: std::io::Error) -> WireError {
        match error.kind() {
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                WireError::TooLong(self.frames.max_frame_length())
            }
            _ => error.into(),
        }
    }
}

impl<In: DeserializeOwned> Decoder for Messages<In> {
    type Item = In;
    type Error = WireError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<In>, WireError> {
        let frame = self.frames.decode(bytes).map_err(|error| self.too_long(error))?;
        frame.map(|frame| serde_json::from_slice(&frame).map_err(WireError::Decode)).transpose()
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<In>, WireError> {
        match self.decode(bytes)? {
            None if !bytes.is_empty() => Err(WireError::Truncated),
            decoded => Ok(decoded),
        }
    }
}

impl<In, Out: Serialize> Encoder<Out> for Messages<In> {
    type Error = WireError;

    fn encode(&mut self, message: Out, bytes: &mut BytesMut) -> Result<(), WireError> {
        let frame = serde_json::to_vec(&message).map_err(WireError::Encode)?;
        self.out.encode(frame.as_slice(), bytes).map_err(|error| self.too_long(error))
    }
}

/// The agent's end of a connection, for the RPC library.
#[derive(Debug)]
pub struct AgentCodec(Messages<ControllerMessage>);

impl Default for AgentCodec {
    fn default() -> Self {
        Self(Messages::up_to(FRAME_LIMIT))
    }
}

impl Decoder for AgentCodec {
    type Item = ClientMessage<StepsRequest>;
    type Error = WireError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, WireError> {
        Ok(self.0.decode(bytes)?.map(call))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, WireError> {
        Ok(self.0.decode_eof(bytes)?.map(call))
    }
}

fn call(ask: ControllerMessage) -> ClientMessage<StepsRequest> {
    match ask {
        ControllerMessage::Call { id, deadline_ms, step } => {
            let limit = Duration::from_millis(deadline_ms).min(LATEST_DEADLINE);
            ClientMessage::Request(Request { context: within(limit), id, message: step })
        }
        ControllerMessage::Cancel { id } => {
            ClientMessage::Cancel { trace_context: tarpc::trace::Context::default(), request_id: id }
        }
    }
}

impl Encoder<Response<StepsResponse>> for AgentCodec {
    type Error = WireError;

    fn encode(&mut self, response: Response<StepsResponse>, bytes: &mut BytesMut) -> Result<(), WireError> {
        let id = response.request_id;
        let answer = match response.message {
            Ok(result) => AgentMessage::Done { id, result },
            Err(ServerError { detail, .. }) => AgentMessage::Rejected { id, reason: detail },
        };
        self.encode(answer, bytes)
    }
}

impl Encoder<AgentMessage> for AgentCodec {
    type Error = WireError;

    fn encode(&mut self, answer: AgentMessage, bytes: &mut BytesMut) -> Result<(), WireError> {
        self.0.encode(answer, bytes)
    }
}

/// The controller's end of a connection, for the RPC library.
#[derive(Debug)]
pub struct ControllerCodec(Messages<AgentMessage>);

impl Default for ControllerCodec {
    fn default() -> Self {
        Self::answers_up_to(FRAME_LIMIT)
    }
}

impl ControllerCodec {
    /// Takes answers of up to so many bytes.
    pub fn answers_up_to(limit: usize) -> Self {
        Self(Messages::between(limit, FRAME_LIMIT))
    }
}

impl Decoder for ControllerCodec {
    type Item = Response<StepsResponse>;
    type Error = WireError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, WireError> {
        self.0.decode(bytes)?.map(response).transpose()
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, WireError> {
        self.0.decode_eof(bytes)?.map(response).transpose()
    }
}

fn response(answer: AgentMessage) -> Result<Response<StepsResponse>, WireError> {
    let (id, message) = match answer {
        AgentMessage::Done { id, result } => (id, Ok(result)),
        AgentMessage::Rejected { id, reason } => (id, Err(ServerError::new(std::io::ErrorKind::Other, reason))),
        AgentMessage::Farewell { reason } => return Err(WireError::Farewell(reason)),
    };
    Ok(Response { request_id: id, message })
}

impl Encoder<ClientMessage<StepsRequest>> for ControllerCodec {
    type Error = WireError;

    fn encode(&mut self, message: ClientMessage<StepsRequest>, bytes: &mut BytesMut) -> Result<(), WireError> {
        let ask = match message {
            ClientMessage::Request(Request { context, id, message: step }) => {
                let left = context.deadline.saturating_duration_since(Instant::now());
                let deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                ControllerMessage::Call { id, deadline_ms, step }
            }
            ClientMessage::Cancel { request_id, .. } => ControllerMessage::Cancel { id: request_id },
            other => return Err(WireError::Unexpected(format!("{other:?}"))),
        };
        self.0.encode(ask, bytes)
    }
}

/// The context of a call that may take `limit`.
pub(super) fn within(limit: Duration) -> context::Context {
    let mut context = context::current();
    context.deadline = Instant::now() + limit;
    context
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::Opcode;
    use proptest::prelude::*;

    use super::*;
    use kelpie_engine::latency::Took;
    use kelpie_engine::plan::{GroupId, Role};
    use kelpie_engine::verbs_host::{GroupLatency, HostReading};

    /// Decodes all of `pieces` as they would arrive; how many messages there were, and why it ended.
    fn decode<D: Decoder<Error = WireError>>(mut codec: D, pieces: &[Vec<u8>]) -> (usize, Option<WireError>) {
        let (mut bytes, mut count) = (BytesMut::new(), 0);
        for piece in pieces {
            bytes.extend_from_slice(piece);
            loop {
                match codec.decode(&mut bytes) {
                    Ok(Some(_)) => count += 1,
                    Ok(None) => break,
                    Err(error) => return (count, Some(error)),
                }
            }
        }
        (count, codec.decode_eof(&mut bytes).err())
    }

    fn frame(text: &str) -> Vec<u8> {
        let mut bytes = u32::try_from(text.len()).expect("short").to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn the_page_on_hosts_names_this_version() {
        let page = include_str!("../../../../docs/reference/agents.md");
        assert!(
            page.contains(&format!("the versions (`{PROTOCOL}`)")),
            "docs/reference/agents.md has another than {PROTOCOL}"
        );
    }

    #[test]
    fn a_welcome_of_before_is_understood() {
        let welcome: Welcome = serde_json::from_str(r#"{"kelpie":"agent/3","agent":"a","busy":false}"#).expect("whole");
        assert_eq!((welcome.kelpie.as_str(), welcome.leaving, welcome.refused), ("agent/3", false, None));
    }

    #[test]
    fn a_reading_without_latency_does_not_speak_of_it() {
        let response = Response { request_id: 1, message: Ok(StepsResponse::Sample(Ok(HostReading::default()))) };
        let mut bytes = BytesMut::new();
        AgentCodec::default().encode(response, &mut bytes).expect("short");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("outstanding") && !text.contains("latency"), "{text}");
        let answer = ControllerCodec::default().decode(&mut bytes).expect("well-formed").expect("whole");
        assert_eq!(answer.message.expect("done"), StepsResponse::Sample(Ok(HostReading::default())));
    }

    #[test]
    fn what_is_wrong_with_a_frame_is_said() {
        let too_long = |limit: usize| u32::try_from(limit + 1).expect("below 4 GiB").to_be_bytes().to_vec();
        let whole = frame(r#"{"call":{"id":1,"deadline_ms":5000,"step":{"Sample":{}}}}"#);
        for (bytes, count, expected) in [
            (whole.clone(), 1, ""),
            (whole[..20].to_vec(), 0, "the connection ended within a message"),
            (whole[..2].to_vec(), 0, "the connection ended within a message"),
            (too_long(FRAME_LIMIT), 0, "a message is longer than 33554432 bytes"),
            (frame(""), 0, "a message was not understood"),
            (frame("\"reboot\""), 0, "a message was not understood"),
            (frame(r#"{"call":{"id":-1,"deadline_ms":5,"step":{"Sample":{}}}}"#), 0, "a message was not understood"),
            ([whole, frame("[]")].concat(), 1, "a message was not understood"),
        ] {
            let (seen, error) = decode(AgentCodec::default(), &[bytes]);
            assert_eq!((seen, error.map(|error| error.to_string()).unwrap_or_default()), (count, expected.to_owned()));
        }
        let (_, error) = decode(Messages::<Hello>::up_to(HELLO_LIMIT), &[too_long(HELLO_LIMIT)]);
        assert_eq!(error.expect("refused").to_string(), "a message is longer than 4096 bytes");
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_messages_or_an_error(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8)
        ) {
            let _ = decode(AgentCodec::default(), &pieces);
            let _ = decode(ControllerCodec::default(), &pieces);
            let _ = decode(Messages::<Hello>::up_to(HELLO_LIMIT), &pieces);
        }

        #[test]
        fn any_text_in_a_frame_is_a_message_or_an_error(text in r#"[{}\[\]":,0-9a-zA-Z_]{0,80}"#) {
            let _ = decode(AgentCodec::default(), &[frame(&text)]);
            let _ = decode(ControllerCodec::default(), &[frame(&text)]);
        }

        #[test]
        fn latencies_arrive_as_they_were_sent(took in prop::collection::vec((any::<u64>(), any::<u32>()), 0..40)) {
            let by_op = [(Opcode::Read, took.iter().map(|(nanos, requests)| Took(*nanos, *requests)).collect())].into();
            let id = GroupId { flow: 3, role: Role::Requester };
            let reading = HostReading { latency: vec![GroupLatency { id, by_op }], ..HostReading::default() };
            let response = Response { request_id: 4, message: Ok(StepsResponse::Sample(Ok(reading.clone()))) };
            let mut bytes = BytesMut::new();
            AgentCodec::default().encode(response, &mut bytes).expect("short");
            let answer = ControllerCodec::default().decode(&mut bytes).expect("well-formed").expect("whole");
            prop_assert_eq!(answer.message.expect("done"), StepsResponse::Sample(Ok(reading)));
        }

        #[test]
        fn a_call_arrives_as_it_was_sent_and_its_deadline_is_bounded(id: u64, deadline_ms: u64, drain_ms: u64) {
            let mut bytes = BytesMut::new();
            let step = StepsRequest::Stop { drain_ms };
            let ask = ControllerMessage::Call { id, deadline_ms, step: step.clone() };
            Messages::<AgentMessage>::up_to(FRAME_LIMIT).encode(ask, &mut bytes).expect("short");
            let Ok(Some(ClientMessage::Request(request))) = AgentCodec::default().decode(&mut bytes) else {
                panic!("it was a call");
            };
            prop_assert_eq!((request.id, request.message), (id, step));
            let left = request.context.deadline.saturating_duration_since(Instant::now());
            prop_assert!(left <= Duration::from_millis(deadline_ms).min(LATEST_DEADLINE));
        }
    }
}
