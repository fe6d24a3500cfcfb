//! Where an agent and a planner listen, and on which addresses they may. Who connects is checked in `identity`.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::security::Security;

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// Plain TCP beyond this machine, and nobody asked for that.
    #[error(
        "{0} can be reached from other hosts: give certificates (--ca and --identity; `kelpie agent cert` makes them), \
         or add --plain if only a trusted network reaches it"
    )]
    Insecure(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Listens on an address that may be reached with this security.
pub(crate) async fn listen(address: SocketAddr, security: &Security) -> Result<TcpListener, ListenerError> {
    if !security.allows(address.ip()) {
        return Err(ListenerError::Insecure(address));
    }
    TcpListener::bind(address).await.map_err(|source| ListenerError::Listen { address, source })
}
