//! Controller and agents: messages, the controller's end, the host's end. What is measured is decided in `pair`.

pub mod client;
pub mod server;
pub mod wire;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// A host that vanished without a word is noticed after this and three probes of a second.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Small messages at once, and notice of a peer that is gone.
fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(Duration::from_secs(1)).with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
