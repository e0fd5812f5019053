//! Access files on disk, and clients of the coordinators that they lead to.
//!
//! The coordinator writes them; a worker or an onlooker needs nothing else. A token is sent only
//! over a connection that is encrypted to the very certificate of the file.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use parking_lot::Mutex;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use trailtrap_shared::protocol::{
    access::{Access, CERTIFICATE_NAME, Malformed},
    wire::census_client::CensusClient,
};

use crate::process::{open, replace::Replacement};

/// The largest message that a client takes; blocks come in smaller pieces.
const LARGEST_MESSAGE: usize = 8 << 20;

/// Why there is no access.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {what} {path}: {source}")]
    Read {
        /// What the file is, for people.
        what: &'static str,
        /// Where it should be.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// An access file cannot be written.
    #[error("cannot write the access file {path}: {source}")]
    Write {
        /// Where it should be.
        path: PathBuf,
        /// Why it cannot be written.
        source: io::Error,
    },
    /// The file is there, but is not an access file.
    #[error(
        "{path} is not an access file (line {line}, column {column}); the coordinator writes one \
         into its data directory"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line of the first mistake, counted from 1.
        line: usize,
        /// The column of the first mistake, counted from 1.
        column: usize,
    },
    /// The address of the coordinator is malformed.
    #[error("'{address}' is not HOST:PORT")]
    Address {
        /// The address as it was given.
        address: String,
    },
    /// The coordinator asks clients for a certificate, and none was given.
    #[error(
        "the coordinator at {address} asks for a certificate: give yours with --certificate and \
         --key"
    )]
    NoCertificate {
        /// The address of the coordinator.
        address: String,
    },
    /// A certificate or a key is of no use.
    #[error("cannot use the certificates for {address}: {source}")]
    Certificate {
        /// The address of the coordinator.
        address: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
}

impl AccessError {
    /// Whether the file is not there (yet).
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            AccessError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound
        )
    }

    /// Whether the system refuses a file for a reason that may pass, such as want of descriptors or
    /// a disk that fails.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            AccessError::Read { source, .. } if open::is_of_the_system(source)
                && source.kind() != io::ErrorKind::PermissionDenied
        )
    }
}

/// Reads an access file; warns if everybody on this machine may read it.
///
/// # Errors
/// If the file cannot be read or is not an access file.
pub fn read(path: &Path) -> Result<Access, AccessError> {
    let bytes = read_private("the access file", path)?;
    Access::parse(&bytes).map_err(|Malformed { line, column }| AccessError::Malformed {
        path: path.to_owned(),
        line,
        column,
    })
}

/// Writes an access file that only its owner may read.
///
/// # Errors
/// If it cannot be written.
pub fn write(access: &Access, path: &Path) -> Result<(), AccessError> {
    Replacement::of(path)
        .private()
        .write(access.to_text().as_bytes())
        .map_err(|source| AccessError::Write { path: path.to_owned(), source })
}

/// A client that connects when it is used. To be called within a runtime.
///
/// # Errors
/// If the address is malformed, a certificate is of no use, or one is missing that the coordinator
/// asks for.
pub fn client(
    access: &Access,
    identity: Option<&Identity>,
) -> Result<AdmittedClient, AccessError> {
    let (channel, credentials) = (endpoint(access, identity)?.connect_lazy(), credentials(access));
    Ok(CensusClient::with_interceptor(channel, credentials)
        .max_decoding_message_size(LARGEST_MESSAGE))
}

/// What is shown with each call.
pub fn credentials(access: &Access) -> Credentials {
    Credentials(access.pass.as_ref().map(|pass| pass.token.header()))
}

/// The other end of a connection.
///
/// # Errors
/// Those of [`client`].
pub fn endpoint(access: &Access, identity: Option<&Identity>) -> Result<Endpoint, AccessError> {
    let address = || access.address.clone();
    let scheme = if access.pass.is_some() { "https" } else { "http" };
    let mut endpoint = reachable(scheme, &access.address)?
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .keep_alive_while_idle(true);
    if let Some(pass) = &access.pass {
        let mut tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&pass.certificate));
        if let Some(name) = &pass.name {
            tls = tls.domain_name(name);
        }
        match identity {
            Some(identity) => tls = tls.identity(identity.clone()),
            None if pass.mutual => {
                return Err(AccessError::NoCertificate { address: address() });
            }
            None => {}
        }
        let certificate = |source| AccessError::Certificate { address: address(), source };
        endpoint = endpoint.tls_config(tls).map_err(certificate)?;
    }
    Ok(endpoint)
}

/// A new certificate that is made out to [`CERTIFICATE_NAME`], and its private key, both PEM.
///
/// # Errors
/// If the system has no random numbers to give.
pub fn self_signed() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new([CERTIFICATE_NAME.to_owned()])?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, CERTIFICATE_NAME);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok((parameters.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// A client that shows its token.
pub type AdmittedClient = CensusClient<InterceptedService<Channel, Credentials>>;

/// Adds the token to each call.
#[derive(Clone)]
pub struct Credentials(Option<MetadataValue<Ascii>>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// The flags that say where a coordinator is.
#[derive(Args, Clone, Debug)]
pub struct Reach {
    /// The access file that the coordinator wrote: address, certificate and token
    #[arg(long, value_name = "FILE", env = "TRAILTRAP_ACCESS")]
    pub access: Option<PathBuf>,
    /// Where the coordinator listens, if there is no access file or another address in it
    #[arg(long, value_name = "HOST:PORT", env = "TRAILTRAP_COORDINATOR")]
    pub coordinator: Option<String>,
    /// Own certificate (PEM), for a coordinator that asks for one
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        requires = "access",
        hide_short_help = true
    )]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate", hide_short_help = true)]
    pub key: Option<PathBuf>,
}

/// Whether an address can be that of a coordinator.
///
/// # Errors
/// [`AccessError::Address`].
pub fn check_address(address: &str) -> Result<(), AccessError> {
    reachable("https", address).map(drop)
}

fn reachable(scheme: &str, address: &str) -> Result<Endpoint, AccessError> {
    let host_and_port = address.rsplit_once(':').filter(|(host, port)| {
        !host.is_empty()
            && !host.contains(['/', '@'])
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    host_and_port
        .and_then(|_| Endpoint::from_shared(format!("{scheme}://{address}")).ok())
        .ok_or_else(|| AccessError::Address { address: address.to_owned() })
}

impl Reach {
    /// Whether the flags name a coordinator in either way.
    pub fn is_given(&self) -> bool {
        self.access.is_some() || self.coordinator.is_some()
    }

    /// What the access file holds now, with the address of the flag if there is one.
    ///
    /// # Errors
    /// Those of [`read`].
    pub fn access(&self) -> Result<Access, AccessError> {
        let mut access = match &self.access {
            Some(path) => read(path)?,
            None => Access { address: String::new(), pass: None },
        };
        if let Some(address) = &self.coordinator {
            access.address.clone_from(address);
        }
        Ok(access)
    }

    /// The own certificate and its key, if the flags name them.
    ///
    /// # Errors
    /// If one of the two files cannot be read.
    pub fn identity(&self) -> Result<Option<Identity>, AccessError> {
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some(Identity::from_pem(
                read_file("the certificate", certificate)?,
                read_file("the key", key)?,
            ))),
            _ => Ok(None),
        }
    }
}

/// Of which files it was said that everybody may read them.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Reads a file that others should not read; warns once if they may.
///
/// # Errors
/// If the file cannot be read.
pub fn read_private(what: &'static str, path: &Path) -> Result<Vec<u8>, AccessError> {
    let bytes = read_file(what, path)?;
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
        && TOLD.lock().insert(path.to_owned())
    {
        tracing::warn!(
            "everybody on this machine may read {what} {}: chmod 600 it",
            path.display()
        );
    }
    Ok(bytes)
}

fn read_file(what: &'static str, path: &Path) -> Result<Vec<u8>, AccessError> {
    fs::read(path).map_err(|source| AccessError::Read { what, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    fn access() -> Access {
        let pass = format!(r#"{{"certificate":"PEM","token":"{}"}}"#, "a7".repeat(32));
        Access::parse(format!(r#"{{"address":"host:1","pass":{pass}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn files_are_private_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.json");
        for access in [access(), Access { address: "[::1]:7461".to_owned(), pass: None }, access()]
        {
            write(&access, &path).unwrap();
            assert_eq!(read(&path).unwrap(), access);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    /// Who starts without descriptors tries again, who lacks permission need not.
    #[test]
    fn what_may_pass_is_no_lack_of_access() {
        for (refusal, passes) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOMEM, true),
            (Errno::IO, true),
            (Errno::STALE, true),
            (Errno::ACCESS, false),
            (Errno::PERM, false),
            (Errno::NOENT, false),
            (Errno::ISDIR, false),
        ] {
            let path = PathBuf::from("access.json");
            let error = AccessError::Read { what: "a file", path, source: refusal.into() };
            assert_eq!(error.may_pass(), passes, "{error}");
        }
    }

    #[tokio::test]
    async fn addresses() {
        for (address, good) in [
            ("localhost:7461", true),
            ("10.0.0.1:1", true),
            ("[::1]:7461", true),
            ("no spaces allowed:1", false),
            ("host", false),
            ("host:", false),
            (":1", false),
            ("host:99999", false),
            ("http://host:1", false),
            ("user@host:1", false),
        ] {
            let access = Access { address: address.to_owned(), pass: None };
            assert_eq!(client(&access, None).is_ok(), good, "{address}");
        }
    }
}
