//! Why there is no diagnosis of a host.

/// Why there is no diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostDiagnosisError {
    /// The topology has no such node.
    #[error("`{name}` is no node of the topology; rows and columns of the matrix have the names of its nodes")]
    Unknown {
        /// The row or column.
        name: String,
    },
    /// Loopback begins at RNICs.
    #[error("row `{name}` is no RNIC in the topology; rows are RNICs and columns are endpoints")]
    NotAnRnic {
        /// The row.
        name: String,
    },
    /// The topology has no way.
    #[error("the topology has no way from `{from}` to `{to}`; add the links that are missing")]
    NoRoute {
        /// The RNIC.
        from: String,
        /// The endpoint.
        to: String,
    },
    /// The matrix has no bandwidth.
    #[error("the matrix has no key `bandwidth_gbps`, and the diagnosis of a host rests on it")]
    NoBandwidth,
}
