//! Who may speak to whom: mutual TLS from files, or plain TCP if that is allowed. Certificates are made in `cert`.

use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Longest file of certificates and keys. Units: bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// A connection, whatever protects it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An owned connection.
pub(super) type Pipe = Box<dyn Stream>;

/// How an agent and its controllers are protected from others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Security {
    /// Plain TCP, and only within this machine.
    #[default]
    Loopback,
    /// Plain TCP to anywhere: somebody asked for it.
    Plain,
    /// TLS; both sides show a certificate of the same authority.
    Tls(TlsFiles),
}

impl Security {
    /// What a file asks for with its keys `tls` and `plain`.
    pub fn of_keys(tls: Option<&TlsFiles>, plain: bool) -> Self {
        match tls {
            Some(files) => Self::Tls(files.clone()),
            None if plain => Self::Plain,
            None => Self::Loopback,
        }
    }

    /// The rule that these two keys break, with the key.
    pub fn broken_rule(tls: Option<&TlsFiles>, plain: bool) -> Option<(String, String)> {
        let is_broken = plain && tls.is_some();
        is_broken.then(|| ("plain".to_owned(), "`tls` is given as well; leave one of them out".to_owned()))
    }

    /// Whether there may be a connection to or on `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        *self != Security::Loopback || address.to_canonical().is_loopback()
    }
}

/// Where certificates are, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The authority that both sides trust.
    pub ca: PathBuf,
    /// This side's certificate and its private key, in one file.
    pub identity: PathBuf,
    /// Whether the key may be used although others may read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_key: bool,
    /// Serial numbers of certificates that an agent does not take any more, a line each; it reads them again for each
    /// connection.
    #[serde(skip)]
    pub revoked: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file holds no PEM of the kind that is needed.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is missing in it.
        what: String,
    },
    /// Certificate and key cannot be used for TLS.
    #[error("{} cannot be used for TLS", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// Others may read a private key.
    #[error(
        "others may read the private key in {}: `chmod 600 {}`, or go on with --insecure-key (`insecure_key: true` \
         under `tls` in a pair file)",
        .0.display(),
        .0.display()
    )]
    Exposed(PathBuf),
    /// The address of an agent is no name that a certificate can be for.
    #[error("`{0}` is not a host name that a certificate can be for")]
    Name(String),
}

impl TlsFiles {
    /// Makes paths absolute that are relative to the folder of `file`, which names them.
    ///
    /// # Errors
    /// Where the working directory is unknown.
    pub fn resolve(&mut self, file: &Path) -> std::io::Result<()> {
        let Some(folder) = file.parent() else { return Ok(()) };
        for path in [&mut self.ca, &mut self.identity] {
            *path = std::path::absolute(folder.join(&*path))?;
        }
        Ok(())
    }

    /// What an agent needs to accept controllers of the same authority.
    ///
    /// # Errors
    /// Where a file cannot be read or holds something else.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let (chain, key) = self.identity()?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), provider())
            .build()
            .map_err(|error| TlsError::Content { path: self.ca.clone(), what: error.to_string() })?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, key))
            .map_err(|source| TlsError::Unusable { path: self.identity.clone(), source })?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// What a controller needs to reach agents of the same authority.
    ///
    /// # Errors
    /// Where a file cannot be read or holds something else.
    pub(super) fn connector(&self) -> Result<TlsConnector, TlsError> {
        let ((chain, key), roots) = (self.identity()?, self.roots()?);
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))
            .map_err(|source| TlsError::Unusable { path: self.identity.clone(), source })?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca, &read(&self.ca)?)? {
            roots.add(certificate).map_err(|source| TlsError::Unusable { path: self.ca.clone(), source })?;
        }
        Ok(roots)
    }

    fn identity(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let pem = read(&self.identity)?;
        check_exposure(&self.identity, self.insecure_key)?;
        let chain = certificates(&self.identity, &pem)?;
        let key = PrivateKeyDer::from_pem_slice(&pem);
        let what = |error| format!("no private key ({error}); `kelpie agent cert` puts it beside the certificate");
        Ok((chain, key.map_err(|error| TlsError::Content { path: self.identity.clone(), what: what(error) })?))
    }
}

/// The name in `address` (`host:port`) that the agent's certificate has to be for.
pub(super) fn server_name(address: &str) -> Result<ServerName<'static>, TlsError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))
}

/// Refuses a private key that others may read; warns of it, once in a process, if somebody insists.
pub(super) fn check_exposure(key: &Path, is_allowed: bool) -> Result<(), TlsError> {
    static WARNED: Once = Once::new();
    let is_exposed = std::fs::metadata(key).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    if is_exposed && !is_allowed {
        return Err(TlsError::Exposed(key.to_owned()));
    }
    if is_exposed {
        WARNED.call_once(|| tracing::warn!("others may read the private key: `chmod 600 {}`", key.display()));
    }
    Ok(())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |what: String| TlsError::Content { path: path.to_owned(), what };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| failed(error.to_string()))?;
    if found.is_empty() { Err(failed("no certificate in PEM form".to_owned())) } else { Ok(found) }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(FILE_LIMIT).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_stays_within_the_machine_unless_asked_for() {
        for (address, loopback) in [
            ("127.0.0.1", true),
            ("127.8.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(Security::Loopback.allows(address), loopback, "{address}");
            assert!(Security::Plain.allows(address), "{address}");
        }
    }

    #[test]
    fn the_name_of_a_certificate_is_the_host_of_the_address() {
        for (address, expected) in [
            ("node-a:7471", Some("DnsName(\"node-a\")")),
            ("10.0.0.1:7471", Some("IpAddress(V4(Ipv4Addr([10, 0, 0, 1])))")),
            ("[::1]:7471", Some("IpAddress")),
            ("a b:7471", None),
            (":7471", None),
        ] {
            let name = server_name(address).ok().map(|name| format!("{name:?}"));
            assert_eq!(name.is_some(), expected.is_some(), "{address}: {name:?}");
            assert!(name.unwrap_or_default().contains(expected.unwrap_or_default()), "{address}");
        }
    }
}
