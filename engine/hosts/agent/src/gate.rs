//! How a connection begins, of an agent as of a planner: whoever is silent, slow or a stranger keeps nobody out.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::SinkExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::codec::Framed;

use crate::identity::{Acceptor, Caller};
use crate::security::{Pipe, Security, TlsError};
use crate::socket::{PARTING, linger, tune};
use crate::strangers::{ConnectionLimits, Strangers};
use crate::wire::{HELLO_LIMIT, Hello, Messages, Welcome, WireError};

/// How long a new connection may take to say who it is, TLS included.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// Connections that have sent nothing yet. Source: our choice, a quarter of the files that a process may open.
const SILENT: ConnectionLimits = ConnectionLimits { all: 256, of_one: 32 };

/// Connections on which a handshake is under way, which costs CPU. Source: our choice.
const SPEAKING: ConnectionLimits = ConnectionLimits { all: 256, of_one: 128 };

/// First byte of a TLS handshake. Source: RFC 8446, section 5.1.
const TLS_HANDSHAKE: u8 = 22;

/// The first exchange on a connection.
pub type Opening = Framed<Pipe, Messages<Hello>>;

/// Where connections come in.
pub struct Gate {
    tls: Option<Acceptor>,
    silent: Strangers,
    speaking: Strangers,
}

impl Gate {
    /// Nobody has come yet.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn new(security: &Security) -> Result<Self, TlsError> {
        let tls = match security {
            Security::Tls(files) => Some(Acceptor::new(files)?),
            Security::Plain | Security::Loopback => None,
        };
        Ok(Self { tls, silent: Strangers::new(SILENT), speaking: Strangers::new(SPEAKING) })
    }

    /// Learns who is there, whose first words `hello` hears; `None` if that was answered already, or somebody else has
    /// its place.
    pub async fn meet<F>(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        hello: impl FnOnce(Opening) -> F,
    ) -> Result<Option<(Opening, Hello, Caller)>, WireError>
    where
        F: Future<Output = Result<Option<(Opening, Hello)>, WireError>>,
    {
        tune(&stream)?;
        let mut first = [0];
        let silent = self.silent.admit(peer.ip());
        let is_there = tokio::select! {
            heard = timeout(HELLO_DEADLINE, stream.peek(&mut first)) => {
                heard.map_err(|_| WireError::Deadline(HELLO_DEADLINE))?? == 1
            }
            () = silent.sent_away() => return Ok(None),
        };
        drop(silent);
        // Who speaks no TLS to a host with certificates learns nothing of it, and who has left wants nothing.
        if !is_there || self.tls.is_some() && first[0] != TLS_HANDSHAKE {
            return Ok(None);
        }
        let speaking = self.speaking.admit(peer.ip());
        let (opening, caller) = match &self.tls {
            None => (opening(stream), Caller::Unproven),
            Some(tls) => {
                let (stream, caller) = tokio::select! {
                    shaken = timeout(HELLO_DEADLINE, tls.accept(stream)) => {
                        shaken.unwrap_or(Err(WireError::Deadline(HELLO_DEADLINE)))?
                    }
                    () = speaking.sent_away() => return Ok(None),
                };
                (opening(stream), caller)
            }
        };
        // Nobody sends away who has shown a certificate.
        let speaking = matches!(caller, Caller::Unproven).then_some(speaking);
        let sent_away = async {
            match &speaking {
                Some(speaking) => speaking.sent_away().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            said = timeout(HELLO_DEADLINE, hello(opening)) => {
                let said = said.unwrap_or(Err(WireError::Deadline(HELLO_DEADLINE)))?;
                Ok(said.map(|(opening, hello)| (opening, hello, caller)))
            }
            () = sent_away => Ok(None),
        }
    }
}

fn opening(stream: impl crate::security::Stream + 'static) -> Opening {
    Framed::new(Box::new(stream), Messages::up_to(HELLO_LIMIT))
}

/// Sends the last word.
pub async fn part(mut opening: Opening, welcome: Welcome) -> Result<(), WireError> {
    let sent = timeout(PARTING, opening.send(welcome)).await;
    linger(opening.get_mut()).await;
    sent.unwrap_or(Err(WireError::Deadline(PARTING)))
}
