//! What can go wrong at the edge to libibverbs: one variant per kind, each naming verb, object and errno.

use std::io;
use std::path::PathBuf;

use kelpie_engine::chain;
use kelpie_engine::verbs_host::HostError;

use crate::verb::Verb;

/// A failure at the edge to libibverbs.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// The library is not installed.
    #[error("cannot load libibverbs.so.1 (install libibverbs1 and ibverbs-providers)")]
    Library(#[source] libloading::Error),
    /// The library lacks a function.
    #[error("libibverbs.so.1 has no {symbol}")]
    Symbol {
        /// Name of the function.
        symbol: &'static str,
        /// The cause.
        #[source]
        source: libloading::Error,
    },
    /// The kernel has no RDMA core, or none that user space may reach.
    #[error("no RDMA device: no driver for one is loaded (the NIC's own, or `modprobe ib_uverbs`)")]
    NoDriver(#[source] io::Error),
    /// The device is not there.
    #[error("no RDMA device {wanted}; this host has: {found}")]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// What there is.
        found: String,
    },
    /// A verb failed.
    #[error("{verb} failed for {object}")]
    Verb {
        /// The C function.
        verb: Verb,
        /// What it was called for.
        object: String,
        /// errno.
        #[source]
        source: io::Error,
    },
    /// A port's addresses could not be read.
    #[error("cannot read {path}")]
    Sysfs {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The port has no usable GID.
    #[error("{object} has no GID {wanted}: does its interface have an address?")]
    NoGid {
        /// Device and port.
        object: String,
        /// Which GID was looked for.
        wanted: String,
    },
    /// Memory could not be mapped or bound.
    #[error("{operation} of {bytes} bytes failed")]
    Memory {
        /// Name of the C function.
        operation: &'static str,
        /// Units: bytes.
        bytes: usize,
        /// errno.
        #[source]
        source: io::Error,
    },
    /// The traffic thread could not be started.
    #[error("cannot start the traffic thread")]
    Thread(#[source] io::Error),
    /// This host cannot do what the workload asks for.
    #[error("{0}")]
    Unsupported(String),
    /// A step out of order, or a peer that does not fit.
    #[error("{0}")]
    Protocol(String),
}

impl VerbsError {
    /// The errno of the verb that has just failed.
    pub fn last_os_error(verb: Verb, object: impl Into<String>) -> Self {
        Self::Verb { verb, object: object.into(), source: io::Error::last_os_error() }
    }

    /// For a verb that returns its errno.
    pub fn from_status(verb: Verb, object: impl Into<String>, status: i32) -> Self {
        let source = match status {
            0 | -1 => io::Error::last_os_error(),
            errno => io::Error::from_raw_os_error(errno.abs()),
        };
        Self::Verb { verb, object: object.into(), source }
    }

    /// Whether device or host ran out of something, so that less of it, or another workload, may work.
    pub fn is_exhausted(&self) -> bool {
        let VerbsError::Verb { verb, source, .. } = self else { return false };
        verb.makes() && matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::ENOSPC))
    }
}

impl From<VerbsError> for HostError {
    fn from(error: VerbsError) -> Self {
        match error {
            VerbsError::Unsupported(reason) => HostError::Unsupported(reason),
            error if error.is_exhausted() => {
                HostError::Unsupported(format!("a limit of device or host was reached: {}", chain(&error)))
            }
            error => HostError::Failed(chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_unsupported(verb: Verb, errno: i32) -> bool {
        let source = io::Error::from_raw_os_error(errno);
        matches!(
            HostError::from(VerbsError::Verb { verb, object: "a QP".to_owned(), source }),
            HostError::Unsupported(_)
        )
    }

    #[test]
    fn whatever_can_run_out_is_unsupported_when_it_does() {
        for verb in Verb::ALL {
            let name = verb.to_string();
            let makes = name.starts_with("ibv_create_") || name.starts_with("ibv_reg_");
            for (errno, has_run_out) in [(libc::ENOMEM, true), (libc::ENOSPC, true), (libc::EINVAL, false)] {
                assert_eq!(is_unsupported(*verb, errno), makes && has_run_out, "{name} {errno}");
            }
        }
        assert!(Verb::ALL.iter().any(|verb| verb.to_string() == "ibv_reg_mr_iova2"));
    }
}
