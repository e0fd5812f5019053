//! `trailtrap secrets`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;
use trailtrap_census::store::directory::DataDirectory;
use trailtrap_worker::process::log;

use crate::serve::secrets::{ACCESS, SECRETS, Security, VIEWER};

/// Makes the access files of a coordinator before it is started, to hand them out beforehand.
///
/// The coordinator that is started with the same data directory, or with its `secrets.json` as
/// `--secrets`, uses them.
#[derive(Args)]
pub struct SecretsCommand {
    /// The data directory of the coordinator; made if need be
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Under which name and port the coordinator will be reached
    #[arg(long, value_name = "HOST:PORT")]
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
            key: None,
            ca: None,
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
