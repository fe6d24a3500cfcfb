//! Who a controller is: the name in its certificate, and whether that certificate was revoked.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::security::{Pipe, TlsError, TlsFiles, read};
use crate::wire::WireError;

/// Longest name of a controller that is kept. Units: characters.
pub const NAME_LIMIT: usize = 80;

/// Somebody on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// It may be anybody.
    Unproven,
    /// It has shown a certificate of the authority for this name.
    Certified(String),
}

impl Caller {
    /// What it is called: what it says matters only beside what it has proved.
    pub fn named(&self, said: &str) -> String {
        let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(NAME_LIMIT).collect::<String>();
        match self {
            Caller::Unproven => short(said),
            Caller::Certified(name) => format!("{}, {}", short(name), short(said)),
        }
    }
}

/// Takes TLS connections of controllers that the authority has certified and nobody has revoked.
pub struct Acceptor {
    tls: TlsAcceptor,
    revoked: Option<std::path::PathBuf>,
}

impl Acceptor {
    /// With these files, which are read now; the list of what is revoked once more for each connection.
    ///
    /// # Errors
    /// Where a file cannot be read or holds something else.
    pub fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        files.revoked.as_deref().map(revoked).transpose()?;
        Ok(Self { tls: files.acceptor()?, revoked: files.revoked.clone() })
    }

    /// Shakes hands.
    pub async fn accept(&self, stream: TcpStream) -> Result<(Pipe, Caller), WireError> {
        let stream = self.tls.accept(stream).await.map_err(WireError::Tls)?;
        let refused = |why: String| WireError::Tls(std::io::Error::other(why));
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let (name, serial) =
            shown.and_then(subject).ok_or_else(|| refused("its certificate has no name".to_owned()))?;
        if let Some(path) = &self.revoked {
            // A list that cannot be read lets nobody in.
            let revoked = revoked(path).map_err(|error| refused(kelpie_engine::chain(&error)))?;
            if revoked.contains(&serial) {
                return Err(refused(format!("the certificate of {name}, serial {serial}, was revoked")));
            }
        }
        Ok((Box::new(stream), Caller::Certified(name)))
    }
}

/// The name of a certificate, and its serial number in hexadecimal digits.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<(String, String)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
    Some((name, hexadecimal(parsed.raw_serial())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    digits.trim_start_matches('0').to_owned()
}

/// The serial numbers in a list: one a line, in hexadecimal digits with or without colons; what follows `#` is for
/// people.
fn revoked(path: &Path) -> Result<Vec<String>, TlsError> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    let mut serials = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let serial = line.split('#').next().unwrap_or_default().trim().replace(':', "").to_ascii_lowercase();
        if serial.is_empty() {
            continue;
        }
        if !serial.chars().all(|c| c.is_ascii_hexdigit()) {
            let what =
                format!("line {number}: write a serial number in hexadecimal digits, as `kelpie agent cert` prints");
            return Err(TlsError::Content { path: path.to_owned(), what });
        }
        serials.push(serial.trim_start_matches('0').to_owned());
    }
    Ok(serials)
}
