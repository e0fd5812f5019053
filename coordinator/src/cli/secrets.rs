//! `trailtrap secrets`, and the flags that say whom a coordinator admits.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;
use trailtrap_census::store::directory::{
    ACCESS, DATA_VARIABLE, DataDirectory, SECRETS, USUAL_DATA, VIEWER,
};
use trailtrap_worker::process::log;

use crate::serve::secrets::{CertificateFiles, Security};

/// The flags that say whom to admit.
#[derive(Args)]
pub struct SecurityArguments {
    /// Name or address of this machine for access files [default: that of --listen, or this
    /// machine's name]
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// Encrypt, and ask for tokens, on loopback too, as with any of --secrets, --certificate and
    /// --client-ca; elsewhere that is always done
    #[arg(long)]
    secure: bool,
    /// Use the secrets of this file (see `trailtrap secrets`) instead of those in the data
    /// directory
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    secrets: Option<PathBuf>,
    /// Show this certificate (PEM), made out to the advertised host, instead of a generated one
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"], hide_short_help = true)]
    certificate: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate", hide_short_help = true)]
    key: Option<PathBuf>,
    /// The authority that signed the certificate (PEM), for access files
    #[arg(long, value_name = "FILE", requires = "certificate", hide_short_help = true)]
    ca: Option<PathBuf>,
    /// Ask for certificates signed by this authority (PEM), beside the token
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    client_ca: Option<PathBuf>,
}

impl From<SecurityArguments> for Security {
    fn from(arguments: SecurityArguments) -> Self {
        let SecurityArguments { advertise, secure, secrets, certificate, key, ca, client_ca } =
            arguments;
        // The command line takes all three of them or none.
        let certificate = match (certificate, key, ca) {
            (Some(certificate), Some(key), Some(ca)) => {
                Some(CertificateFiles { certificate, key, ca })
            }
            _ => None,
        };
        Security { advertise, secure, secrets, certificate, client_ca }
    }
}

/// Makes the access files of a coordinator before it is started, to hand them out beforehand.
///
/// The coordinator that is started with the same data directory, or with its `secrets.json` as
/// `--secrets`, uses them.
#[derive(Args)]
pub struct SecretsCommand {
    /// The data directory of the coordinator; made if need be
    #[arg(long, value_name = "DIR", default_value = USUAL_DATA, env = DATA_VARIABLE)]
    data: PathBuf,
    /// Under which name and port the coordinator will be reached [default port: 7461]
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: String,
}

impl SecretsCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let directory = DataDirectory::take(&self.data)?;
        let security = Security {
            advertise: Some(self.advertise),
            secure: true,
            secrets: None,
            certificate: None,
            client_ca: None,
        };
        let anywhere = SocketAddr::from(([0, 0, 0, 0], 7461));
        security.prepare(directory.path(), anywhere)?;
        log::say(&format!(
            "trailtrap: wrote {SECRETS}, {ACCESS} and {VIEWER} in {}",
            self.data.display()
        ));
        Ok(ExitCode::SUCCESS)
    }
}
