//! Certificates that are missing, wrong or over: who is let in, and what the others learn.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kelpie_engine::chain;
use kelpie_engine::verbs_host::Port;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::cert::{Authority, Purpose, Validity};
use crate::client::{AgentClient, ClientError};
use crate::fake::FakeAgent;
use crate::{Security, TlsFiles};

const HOUR: Duration = Duration::from_hours(1);

/// An authority in a directory of its own.
struct Trust {
    authority: Authority,
    _dir: TempDir,
}

impl Trust {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { authority: Authority::in_dir(dir.path()).expect("an authority"), _dir: dir }
    }

    fn issue(&self, name: &str, purpose: Purpose, validity: Validity) -> PathBuf {
        self.authority.issue(&[name.to_owned()], purpose, validity).expect("a certificate")
    }

    fn identity(&self, name: &str, purpose: Purpose) -> PathBuf {
        self.issue(name, purpose, Validity::lasting(HOUR))
    }

    /// What a process uses that trusts this authority and shows `identity`.
    fn with(&self, identity: PathBuf) -> Security {
        Security::Tls(TlsFiles { ca: self.authority.ca(), identity })
    }
}

/// Connects, inspects the port and leaves; or why not.
fn visit(agent: &FakeAgent, security: &Security) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let started = std::time::Instant::now();
    loop {
        let seen = runtime.block_on(async {
            let client = AgentClient::connect(&agent.address.to_string(), security, "visitor").await?;
            client.inspect(Port::default()).await.map(drop)
        });
        match seen {
            // The visitor before this one is on its way out.
            Err(ClientError::Busy { .. }) if started.elapsed() < Duration::from_secs(10) => {}
            other => return other.map_err(|error| chain(&error)),
        }
    }
}

#[test]
fn only_a_good_certificate_of_the_same_authority_is_let_in() {
    let (ours, theirs) = (Trust::new(), Trust::new());
    let agent = FakeAgent::secured(ours.with(ours.identity("127.0.0.1", Purpose::Agent)));
    let good = ours.with(ours.identity("controller", Purpose::Controller));
    let now = SystemTime::now();
    let (past, future) =
        (Validity { from: now - 2 * HOUR, until: now - HOUR }, Validity { from: now + HOUR, until: now + 2 * HOUR });
    let stranger = theirs.identity("controller", Purpose::Controller);
    for (what, security, reason) in [
        ("of another authority", ours.with(stranger.clone()), "UnknownCA"),
        ("expired", ours.with(ours.issue("old", Purpose::Controller, past)), "CertificateExpired"),
        ("not yet valid", ours.with(ours.issue("new", Purpose::Controller, future)), "CertificateExpired"),
        ("an agent's", ours.with(ours.identity("agent", Purpose::Agent)), "UnsupportedCertificate"),
        ("a controller that does not trust us", theirs.with(stranger), "UnknownIssuer"),
        ("none, and no TLS", Security::Loopback, "it wants TLS: name certificates under `tls`"),
    ] {
        let error = visit(&agent, &security).expect_err(what);
        assert!(error.contains(reason), "{what}: {error}");
        visit(&agent, &good).unwrap_or_else(|error| panic!("after {what}: {error}"));
    }
    assert!(!agent.log().is_empty());
}

#[test]
fn a_controller_without_a_certificate_is_refused() {
    let ours = Trust::new();
    let agent = FakeAgent::secured(ours.with(ours.identity("127.0.0.1", Purpose::Agent)));
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(ours.authority.ca()).expect("there");
    let ca = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(&pem);
    roots.add(ca.expect("a certificate")).expect("an authority");
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let error = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(agent.address).await?;
        let name = rustls::pki_types::ServerName::from(agent.address.ip());
        let mut stream = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await?;
        stream.read_u8().await
    });
    let text = error.expect_err("refused").to_string();
    assert!(text.contains("CertificateRequired"), "{text}");
    visit(&agent, &ours.with(ours.identity("controller", Purpose::Controller))).expect("the next one");
}

#[test]
fn an_agent_that_is_not_what_it_should_be_is_not_trusted() {
    let ours = Trust::new();
    let controller = ours.with(ours.identity("controller", Purpose::Controller));
    let now = SystemTime::now();
    let past = Validity { from: now - 2 * HOUR, until: now - HOUR };
    for (what, security, reason) in [
        ("for another host", ours.with(ours.identity("10.9.9.9", Purpose::Agent)), "certificate not valid for name"),
        (
            "a controller's",
            ours.with(ours.identity("127.0.0.2", Purpose::Controller)),
            "does not allow extended key usage for server authentication",
        ),
        ("expired", ours.with(ours.issue("127.0.0.1", Purpose::Agent, past)), "certificate expired"),
        ("none", Security::Loopback, "no TLS with the agent"),
    ] {
        let agent = FakeAgent::secured(security);
        let error = visit(&agent, &controller).expect_err(what);
        assert!(error.contains(reason), "{what}: {error}");
        assert!(agent.log().is_empty(), "{what}");
    }
}

#[test]
fn files_without_certificates_are_named() {
    let ours = Trust::new();
    let good = ours.identity("controller", Purpose::Controller);
    let empty = ours.authority.ca().with_file_name("empty.pem");
    std::fs::write(&empty, "nothing").expect("written");
    let agent = FakeAgent::anywhere();
    for (ca, identity, expected) in [
        (empty.clone(), good.clone(), "empty.pem: no certificate in PEM form"),
        (ours.authority.ca(), empty.clone(), "empty.pem: no certificate in PEM form"),
        (ours.authority.ca(), ours.authority.ca(), "ca.pem: no private key"),
        (ours.authority.ca().with_file_name("gone.pem"), good, "cannot read "),
    ] {
        let error = visit(&agent, &Security::Tls(TlsFiles { ca, identity })).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}
