//! What a coordinator keeps to itself, and whom it admits: tokens, certificate and key in the data
//! directory, and the access files made of them.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use trailtrap_census::store::directory::{ACCESS, SECRETS, VIEWER};
use trailtrap_shared::protocol::access::{Access, AccessToken, CERTIFICATE_NAME, Pass};
use trailtrap_worker::{
    access::{self, AccessError, read_private},
    process::{self, connections::GRACE, replace::Replacement},
};

use crate::serve::admission::Guard;

/// Why a coordinator cannot decide whom to admit.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// An access file, or a file that was given, cannot be read or written.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// What is advertised stands for any address, and is none that a worker finds.
    #[error(
        "--advertise {address}: from another machine nobody reaches a coordinator there. Give the \
         name or the address by which its workers find this one"
    )]
    Nowhere {
        /// What was to stand in access files: HOST:PORT.
        address: String,
    },
    /// The secrets are not what this program writes. What they say is not repeated.
    #[error(
        "{path} does not hold the secrets of a coordinator (line {line}, column {column}): name a \
         file that `trailtrap secrets` has made. If it is the data directory's own, and damaged, \
         remove it: the next start makes new ones, which every worker needs an access file of"
    )]
    Malformed {
        /// The file of the secrets.
        path: PathBuf,
        /// The line where the parser stopped.
        line: usize,
        /// The column where the parser stopped.
        column: usize,
    },
    /// New secrets cannot be kept.
    #[error("cannot write {path}")]
    Write {
        /// The file of the secrets.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No token can be drawn.
    #[error("the system has no random numbers to give: {0}")]
    Random(getrandom::Error),
    /// What was given for TLS does not belong together, or is no PEM.
    #[error("the certificate, its key or the authority that was given cannot be used")]
    Tls(#[source] tonic::transport::Error),
    /// No certificate can be generated.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// Kept from start to start, so that access files stay valid.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Secrets {
    worker: AccessToken,
    viewer: AccessToken,
    /// Self-signed, PEM.
    certificate: String,
    /// Its private key, PEM.
    key: String,
}

impl Secrets {
    fn generate() -> Result<Self, SecretsError> {
        let random = || {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes)
                .map(|()| AccessToken::new(bytes))
                .map_err(SecretsError::Random)
        };
        let (certificate, key) = access::self_signed()?;
        Ok(Secrets { worker: random()?, viewer: random()?, certificate, key })
    }

    fn read(path: &Path) -> Result<Self, SecretsError> {
        let bytes = read_private("the secrets", path)?;
        // The words of the parser may quote the file.
        serde_json::from_slice(&bytes).map_err(|error| SecretsError::Malformed {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
        })
    }

    /// Those of a data directory, made if need be.
    fn take(directory: &Path) -> Result<Self, SecretsError> {
        let path = directory.join(SECRETS);
        match Secrets::read(&path) {
            Err(SecretsError::Access(error)) if error.is_missing() => {
                let secrets = Secrets::generate()?;
                let text = serde_json::to_string_pretty(&secrets).expect("secrets are plain data");
                Replacement::of(&path)
                    .private()
                    .write(text.as_bytes())
                    .map_err(|source| SecretsError::Write { path, source })?;
                Ok(secrets)
            }
            other => other,
        }
    }
}

/// Whom a coordinator admits, and what it shows them.
pub struct Security {
    /// Name or address of this machine for access files, with a port or without; `None` for that
    /// of the listener, or this machine's name.
    pub advertise: Option<String>,
    /// Encrypt, and ask for tokens, on loopback too; elsewhere that is always done.
    pub secure: bool,
    /// A file of secrets to use instead of those in the data directory.
    pub secrets: Option<PathBuf>,
    /// A certificate, made out to the advertised host, to show instead of a generated one.
    pub certificate: Option<CertificateFiles>,
    /// The authority (PEM) that has to have signed the certificates of those who come.
    pub client_ca: Option<PathBuf>,
}

/// A certificate of the site's own, as PEM files.
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that signed it, for access files.
    pub ca: PathBuf,
}

/// A lock, and who has a key.
pub struct Door {
    /// Certificate and key, and whose certificates are asked for.
    pub tls: ServerTlsConfig,
    /// The tokens that open it.
    pub guard: Guard,
    /// The token that workers show to each other.
    pub worker: AccessToken,
    /// The host that access files name.
    pub host: String,
}

impl Security {
    /// Writes the access files, and says how to check those who come: nothing for a door that is
    /// open, on loopback.
    ///
    /// # Errors
    /// If a file cannot be read or written, or what it holds cannot be used.
    pub fn prepare(
        &self,
        directory: &Path,
        local: SocketAddr,
    ) -> Result<Option<Door>, SecretsError> {
        let address = public_address(self.advertise.as_deref(), local);
        access::check_address(&address)?;
        if is_unspecified(&address) {
            return Err(SecretsError::Nowhere { address });
        }
        let asked = self.secure
            || self.secrets.is_some()
            || self.certificate.is_some()
            || self.client_ca.is_some();
        if local.ip().to_canonical().is_loopback() && !asked {
            let access = Access { address, pass: None };
            access::write(&access, &directory.join(ACCESS))?;
            access::write(&access, &directory.join(VIEWER))?;
            return Ok(None);
        }
        let secrets = match &self.secrets {
            Some(path) => Secrets::read(path)?,
            None => Secrets::take(directory)?,
        };
        let (identity, root, name) = match &self.certificate {
            Some(CertificateFiles { certificate, key, ca }) => {
                let identity = Identity::from_pem(
                    read("the certificate", certificate)?,
                    read("the key", key)?,
                );
                (identity, read("the authority's certificate", ca)?, None)
            }
            None => {
                let identity = Identity::from_pem(&secrets.certificate, &secrets.key);
                (identity, secrets.certificate.clone(), Some(CERTIFICATE_NAME.to_owned()))
            }
        };
        let mut tls = ServerTlsConfig::new().identity(identity).timeout(GRACE);
        if let Some(path) = &self.client_ca {
            tls = tls
                .client_ca_root(Certificate::from_pem(read("the authority's certificate", path)?));
        }
        // Said before anything begins.
        Server::builder().tls_config(tls.clone()).map_err(SecretsError::Tls)?;
        for (file, token) in [(ACCESS, &secrets.worker), (VIEWER, &secrets.viewer)] {
            let mutual = self.client_ca.is_some();
            let pass = Pass {
                certificate: root.clone(),
                name: name.clone(),
                mutual,
                token: token.clone(),
            };
            let access = Access { address: address.clone(), pass: Some(pass) };
            access::write(&access, &directory.join(file))?;
        }
        let host = host_of(&address).to_owned();
        let (worker, guard) = (secrets.worker.clone(), Guard::new(secrets.worker, secrets.viewer));
        Ok(Some(Door { tls, guard, worker, host }))
    }
}

fn read(what: &'static str, path: &Path) -> Result<String, AccessError> {
    fs::read_to_string(path).map_err(|source| AccessError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}

/// What to write into access files: HOST:PORT.
fn public_address(advertise: Option<&str>, local: SocketAddr) -> String {
    let port = local.port();
    match advertise {
        Some(host) if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) => {
            format!("[{host}]:{port}")
        }
        Some(host) if host.ends_with(']') || !host.contains(':') => format!("{host}:{port}"),
        Some(address) => address.to_owned(),
        None if local.ip().to_canonical().is_unspecified() => {
            format!("{}:{port}", process::host())
        }
        None => local.to_string(),
    }
}

/// The host of HOST:PORT.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Whether HOST:PORT names no host, but any.
fn is_unspecified(address: &str) -> bool {
    let host = host_of(address).trim_start_matches('[').trim_end_matches(']');
    // Systems read `0`, `0.0` and `0x0` as 0.0.0.0, too (inet_aton).
    let is_zero =
        host.starts_with('0') && host.chars().all(|c| matches!(c, '0' | 'x' | 'X' | '.'));
    is_zero || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_for_access_files() {
        let local = |text: &str| text.parse::<SocketAddr>().unwrap();
        let any = local("0.0.0.0:7461");
        assert_eq!(public_address(None, local("10.1.2.3:9")), "10.1.2.3:9");
        assert_eq!(public_address(None, local("[::1]:9")), "[::1]:9");
        for any in [any, local("[::]:7461"), local("[::ffff:0.0.0.0]:7461")] {
            assert_eq!(public_address(None, any), format!("{}:7461", process::host()));
        }
        assert_eq!(public_address(Some("host"), any), "host:7461");
        assert_eq!(public_address(Some("host:1"), any), "host:1");
        assert_eq!(public_address(Some("fe80::1"), any), "[fe80::1]:7461");
        assert_eq!(public_address(Some("[fe80::1]"), any), "[fe80::1]:7461");
        assert_eq!(public_address(Some("[fe80::1]:2"), any), "[fe80::1]:2");
        for nowhere in
            ["0.0.0.0", "::", "[::]", "::ffff:0.0.0.0", "0.0.0.0:1", "0", "0x0", "0.0:1"]
        {
            assert!(is_unspecified(&public_address(Some(nowhere), any)), "{nowhere}");
        }
        for somewhere in ["::1", "127.0.0.1", "10.0.0.0", "host:1", "0x7f.1"] {
            assert!(!is_unspecified(&public_address(Some(somewhere), any)), "{somewhere}");
        }
    }

    #[test]
    fn secrets_are_kept_and_their_damage_is_not_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let first = Secrets::take(directory.path()).unwrap();
        let again = Secrets::take(directory.path()).unwrap();
        assert!(
            first.worker == again.worker
                && first.viewer == again.viewer
                && first.worker != first.viewer
        );
        assert_eq!((first.certificate, first.key), (again.certificate, again.key));
        let other = tempfile::tempdir().unwrap();
        assert!(Secrets::take(other.path()).unwrap().worker != first.worker);
        let path = directory.path().join(SECRETS);
        let text = fs::read_to_string(&path).unwrap();
        let token = text.split('"').nth(3).unwrap();
        assert_eq!(token.len(), 64);
        fs::write(&path, text.replace("\"worker\"", "\"wroker\"")).unwrap();
        let error = Secrets::take(directory.path()).err().unwrap();
        assert!(
            error.to_string().contains("remove it")
                && !format!("{error} {error:?}").contains(token),
            "{error:?}"
        );
    }
}
