//! Certificates for agents and controllers: one authority, one file per process. Nothing here speaks TLS.
//!
//! An authority is its key alone: its name follows from the key, so certificates can be added later without parsing.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::identity::subject;
use crate::security::{TlsError, check_exposure};

/// How long an authority lasts.
const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 3650);

/// Clocks of two hosts may differ by this much.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A file cannot be read or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// `read` or `write`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A key or certificate could not be made.
    #[error("cannot make {what}")]
    Make {
        /// Of what.
        what: String,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// The authority's key is not the authority's alone.
    #[error(transparent)]
    Exposed(TlsError),
    /// A name cannot be that of a file.
    #[error("`{0}` cannot name a certificate: write a host name or an address")]
    Name(String),
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePurpose {
    /// To serve as an agent.
    Agent,
    /// To control agents.
    Controller,
}

/// When a certificate is good.
#[derive(Debug, Clone, Copy)]
pub struct Validity {
    /// From then.
    pub from: SystemTime,
    /// Until then.
    pub until: SystemTime,
}

impl Validity {
    /// From now on, for so long.
    pub fn lasting(life: Duration) -> Self {
        let now = SystemTime::now();
        Self { from: now - CLOCK_SKEW, until: now + life }
    }
}

/// A directory with an authority (`ca.pem`, `ca.key`) and what it has signed.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority in `dir`, made if there is none.
    ///
    /// # Errors
    /// Where a file cannot be read or written, the key is none, or others may read it and that is not allowed.
    pub fn in_dir(dir: &Path, is_insecure_allowed: bool) -> Result<Self, CertError> {
        let (key_path, pem_path) = (dir.join("ca.key"), dir.join("ca.pem"));
        let made = |source| CertError::Make { what: format!("an authority from {}", key_path.display()), source };
        let key = match std::fs::read_to_string(&key_path) {
            Ok(pem) => {
                check_exposure(&key_path, is_insecure_allowed).map_err(CertError::Exposed)?;
                KeyPair::from_pem(&pem).map_err(made)?
            }
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(dir).map_err(|source| CertError::File {
                    operation: "write",
                    path: dir.to_owned(),
                    source,
                })?;
                let key = KeyPair::generate().map_err(made)?;
                write_new(&key_path, 0o600, &key.serialize_pem())?;
                key
            }
            Err(source) => return Err(CertError::File { operation: "read", path: key_path, source }),
        };
        let params = authority(&key).map_err(made)?;
        if !pem_path.exists() {
            write_new(&pem_path, 0o644, &params.self_signed(&key).map_err(made)?.pem())?;
        }
        Ok(Self { dir: dir.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// The certificate that both sides trust.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Signs a certificate for `names` (host names or addresses); the first one names its file. Returns that
    /// and the serial number, which revokes it.
    ///
    /// # Errors
    /// Where a name is none, or the file is there already or cannot be written.
    pub fn issue(
        &self,
        names: &[String],
        purpose: CertificatePurpose,
        validity: Validity,
    ) -> Result<(PathBuf, String), CertError> {
        let first = names.first().map_or("", String::as_str);
        let usable = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if first.is_empty() || first.starts_with('.') || first == "ca" || !first.chars().all(usable) {
            return Err(CertError::Name(first.to_owned()));
        }
        let path = self.dir.join(format!("{first}.pem"));
        let made = |source| CertError::Make { what: format!("a certificate for {first}"), source };
        let key = KeyPair::generate().map_err(made)?;
        let mut params = CertificateParams::new(names).map_err(made)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, first);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match purpose {
            CertificatePurpose::Agent => ExtendedKeyUsagePurpose::ServerAuth,
            CertificatePurpose::Controller => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (validity.from.into(), validity.until.into());
        let certificate = params.signed_by(&key, &self.issuer).map_err(made)?;
        write_new(&path, 0o600, &format!("{}{}", certificate.pem(), key.serialize_pem()))?;
        let (_, serial) = subject(certificate.der()).expect("it was just made, with a name");
        Ok((path, serial))
    }
}

/// The authority's own certificate; all of it but the validity follows from the key.
fn authority(key: &KeyPair) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    let mark = key.public_key_raw().iter().skip(1).take(4).fold(0_u32, |mark, byte| mark << 8 | u32::from(*byte));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Kelpie authority {mark:08x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let validity = Validity::lasting(AUTHORITY_LIFE);
    (params.not_before, params.not_after) = (validity.from.into(), validity.until.into());
    Ok(params)
}

/// Writes a file that is not there yet, all of it or nothing.
fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), CertError> {
    let write = || -> std::io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        Ok(())
    };
    write().map_err(|source| CertError::File { operation: "write", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn year() -> Validity {
        Validity::lasting(Duration::from_hours(24 * 365))
    }

    #[test]
    fn an_authority_is_made_once_and_its_keys_are_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("certs");
        let first = Authority::in_dir(&folder, false).expect("made");
        let before = std::fs::read(first.ca()).expect("there");
        let again = Authority::in_dir(&folder, false).expect("found");
        let (path, _) = again
            .issue(&["10.0.0.1".to_owned(), "node-a".to_owned()], CertificatePurpose::Agent, year())
            .expect("signed");
        assert_eq!(path, folder.join("10.0.0.1.pem"));
        assert_eq!(std::fs::read(first.ca()).expect("there"), before);
        for name in ["ca.key", "10.0.0.1.pem"] {
            let mode = std::fs::metadata(folder.join(name)).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_no_name_leaves_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::in_dir(dir.path(), false).expect("made");
        authority.issue(&["node-a".to_owned()], CertificatePurpose::Agent, year()).expect("signed");
        for name in ["node-a", "", "ca", "../x", "a/b", ".", "a b"] {
            authority.issue(&[name.to_owned()], CertificatePurpose::Controller, year()).expect_err(name);
        }
        std::fs::write(dir.path().join("ca.key"), "no key").expect("written");
        assert!(Authority::in_dir(dir.path(), false).is_err());
    }
}
