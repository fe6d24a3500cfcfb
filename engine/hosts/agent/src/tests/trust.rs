//! Certificates that are missing, wrong or over: who is let in, and what the others learn.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kelpie_engine::chain;
use kelpie_engine::verbs_host::Port;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::cert::{Authority, CertificatePurpose, Validity};
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
        Self { authority: Authority::in_dir(dir.path(), false).expect("an authority"), _dir: dir }
    }

    fn issue(&self, name: &str, purpose: CertificatePurpose, validity: Validity) -> PathBuf {
        self.authority.issue(&[name.to_owned()], purpose, validity).expect("a certificate").0
    }

    fn identity(&self, name: &str, purpose: CertificatePurpose) -> PathBuf {
        self.issue(name, purpose, Validity::lasting(HOUR))
    }

    /// What a process uses that trusts this authority and shows `identity`.
    fn with(&self, identity: PathBuf) -> Security {
        Security::Tls(TlsFiles { ca: self.authority.ca(), identity, insecure_key: false, revoked: None })
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
    let agent = FakeAgent::secured(ours.with(ours.identity("127.0.0.1", CertificatePurpose::Agent)));
    let good = ours.with(ours.identity("controller", CertificatePurpose::Controller));
    let now = SystemTime::now();
    let (past, future) =
        (Validity { from: now - 2 * HOUR, until: now - HOUR }, Validity { from: now + HOUR, until: now + 2 * HOUR });
    let stranger = theirs.identity("controller", CertificatePurpose::Controller);
    for (what, security, reason) in [
        ("of another authority", ours.with(stranger.clone()), "UnknownCA"),
        ("expired", ours.with(ours.issue("old", CertificatePurpose::Controller, past)), "CertificateExpired"),
        ("not yet valid", ours.with(ours.issue("new", CertificatePurpose::Controller, future)), "CertificateExpired"),
        ("an agent's", ours.with(ours.identity("agent", CertificatePurpose::Agent)), "UnsupportedCertificate"),
        ("a controller that does not trust us", theirs.with(stranger), "UnknownIssuer"),
        ("none, and no TLS", Security::Loopback, "closed the connection without a word: if it has certificates"),
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
    let agent = FakeAgent::secured(ours.with(ours.identity("127.0.0.1", CertificatePurpose::Agent)));
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
    visit(&agent, &ours.with(ours.identity("controller", CertificatePurpose::Controller))).expect("the next one");
}

#[test]
fn an_agent_that_is_not_what_it_should_be_is_not_trusted() {
    let ours = Trust::new();
    let controller = ours.with(ours.identity("controller", CertificatePurpose::Controller));
    let now = SystemTime::now();
    let past = Validity { from: now - 2 * HOUR, until: now - HOUR };
    for (what, security, reason) in [
        (
            "for another host",
            ours.with(ours.identity("10.9.9.9", CertificatePurpose::Agent)),
            "certificate not valid for name",
        ),
        (
            "a controller's",
            ours.with(ours.identity("127.0.0.2", CertificatePurpose::Controller)),
            "does not allow extended key usage for server authentication",
        ),
        ("expired", ours.with(ours.issue("127.0.0.1", CertificatePurpose::Agent, past)), "certificate expired"),
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
    let good = ours.identity("controller", CertificatePurpose::Controller);
    let empty = ours.authority.ca().with_file_name("empty.pem");
    std::fs::write(&empty, "nothing").expect("written");
    let agent = FakeAgent::anywhere();
    for (ca, identity, expected) in [
        (empty.clone(), good.clone(), "empty.pem: no certificate in PEM form"),
        (ours.authority.ca(), empty.clone(), "empty.pem: no certificate in PEM form"),
        (ours.authority.ca(), ours.authority.ca(), "ca.pem: no private key"),
        (ours.authority.ca().with_file_name("gone.pem"), good, "cannot read "),
    ] {
        let error = visit(&agent, &Security::Tls(TlsFiles { ca, identity, insecure_key: true, revoked: None }))
            .expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_certificate_that_is_revoked_is_refused_from_then_on() {
    let ours = Trust::new();
    let (identity, serial) = ours
        .authority
        .issue(&["stolen".to_owned()], CertificatePurpose::Controller, Validity::lasting(HOUR))
        .expect("signed");
    let list = ours.authority.ca().with_file_name("revoked");
    std::fs::write(&list, "# none so far\n").expect("written");
    let Security::Tls(files) = ours.with(ours.identity("127.0.0.1", CertificatePurpose::Agent)) else {
        panic!("as made")
    };
    let agent = FakeAgent::secured(Security::Tls(TlsFiles { revoked: Some(list.clone()), ..files }));
    let (stolen, other) = (ours.with(identity), ours.with(ours.identity("other", CertificatePurpose::Controller)));
    visit(&agent, &stolen).expect("not yet revoked");
    let written: Vec<String> =
        serial.to_uppercase().as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two).into()).collect();
    std::fs::write(&list, format!("{} # stolen with a laptop\n", written.join(":"))).expect("written");
    let error = visit(&agent, &stolen).expect_err("revoked");
    assert!(error.contains("was revoked") && error.contains("its log says why"), "{error}");
    visit(&agent, &other).expect("not this one");
    std::fs::write(&list, "no number").expect("written");
    visit(&agent, &other).expect_err("a list that says nothing lets nobody in");
}

#[test]
fn a_key_that_others_may_read_is_refused_unless_somebody_insists() {
    use std::os::unix::fs::PermissionsExt as _;
    let ours = Trust::new();
    let agent = FakeAgent::secured(ours.with(ours.identity("127.0.0.1", CertificatePurpose::Agent)));
    let identity = ours.identity("controller", CertificatePurpose::Controller);
    std::fs::set_permissions(&identity, std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    let Security::Tls(files) = ours.with(identity) else { panic!("as made") };
    let error = visit(&agent, &Security::Tls(files.clone())).expect_err("exposed");
    assert!(error.contains("others may read the private key") && error.contains("insecure_key"), "{error}");
    visit(&agent, &Security::Tls(TlsFiles { insecure_key: true, ..files })).expect("as somebody insists");
}

#[test]
fn the_holder_is_named_by_its_certificate() {
    let ours = Trust::new();
    let agent = FakeAgent::secured(ours.with(ours.identity("127.0.0.1", CertificatePurpose::Agent)));
    let security = ours.with(ours.identity("lab-7", CertificatePurpose::Controller));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (_held, error) = runtime.block_on(async {
        let address = agent.address.to_string();
        let held = AgentClient::connect(&address, &security, "root\u{1b}[2J").await.expect("free");
        (held, AgentClient::connect(&address, &security, "other").await.expect_err("held"))
    });
    let text = chain(&error);
    assert!(text.contains("it serves another controller, lab-7, root[2J (127.0.0.1)"), "{text:?}");
}

#[test]
fn who_begins_and_says_no_more_is_left_after_a_while_with_certificates_and_without() {
    let trust = Trust::new();
    let secured = FakeAgent::secured(trust.with(trust.identity("node-a", CertificatePurpose::Agent)));
    let plain = FakeAgent::anywhere();
    // Nothing; the first byte of a TLS handshake; half of a message's length.
    let cases: [(&FakeAgent, &[u8]); 4] = [(&secured, &[]), (&secured, &[22]), (&plain, &[]), (&plain, &[0, 0])];
    let streams = cases.map(|(agent, bytes)| {
        let mut stream = TcpStream::connect(agent.address).expect("the agent listens");
        stream.write_all(bytes).expect("it was let in");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        (stream, bytes)
    });
    for (mut stream, bytes) in streams {
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(!matches!(ended, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "after {bytes:?}: {ended:?}");
    }
}
