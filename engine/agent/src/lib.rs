//! Controller and agents: protocol, both ends, and the pair of real hosts behind the seam. No verbs, no model.

mod absent;
pub mod cert;
pub mod client;
pub mod lab;
mod limits;
pub mod pair;
pub mod security;
pub mod server;
mod session;
pub mod steps;
pub mod wire;

#[cfg(test)]
mod fake;
#[cfg(test)]
#[path = "../../src/testing.rs"]
mod testing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

pub use absent::AbsentHost;
pub use limits::Limits;
pub use pair::{PairError, PairFile, PairFileError, PairSubsystem};
pub use security::{Security, TlsFiles};

/// A host that vanished without a word is noticed after this and three probes of a second.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// The same while something was sent to it, when the kernel does not probe.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// Small messages at once, and notice of a peer that is gone.
fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(Duration::from_secs(1)).with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}
