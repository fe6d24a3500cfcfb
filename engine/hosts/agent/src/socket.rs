//! What both ends do to their connections: small messages at once, notice of a peer that is gone, a clean end.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::security::Pipe;

/// A host that vanished without a word is noticed after this and three probes of a second.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// The same while something was sent to it, when the kernel does not probe.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// How long a refused side may take to hear why.
pub const PARTING: Duration = Duration::from_secs(1);

/// Small messages at once, and notice of a peer that is gone.
pub fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(Duration::from_secs(1)).with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}

/// Closes without losing what was said: data that nobody read would reset the connection.
pub async fn linger(pipe: &mut Pipe) {
    let mut rest = [0; 4096];
    let read = async {
        pipe.shutdown().await?;
        while pipe.read(&mut rest).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    let _ = timeout(PARTING, read).await;
}
