//! `trailtrap status`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Args;
use tonic::Code;
use trailtrap_census::{
    read::status::{self, CensusStatus},
    store::directory::{DATA_VARIABLE, USUAL_DATA},
};
use trailtrap_shared::protocol::wire;
use trailtrap_worker::{
    access::{self, AccessError, Reach},
    link::grpc::{other_coordinator, root_cause},
};

use crate::terminal;

/// Shows what is done, running and waiting, by whom, how fast, and how long it will take.
#[derive(Args)]
pub struct StatusCommand {
    #[command(flatten)]
    reach: Reach,
    /// Look at a data directory, in use or not, whatever is said of a coordinator. If nothing is,
    /// that of TRAILTRAP_DATA, or else `trailtrap-data`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let is_asked = self.reach.is_given();
        let usual = || std::env::var_os(DATA_VARIABLE).unwrap_or_else(|| USUAL_DATA.into());
        let status = match self.data {
            None if is_asked => ask(&self.reach)?,
            data => status::look(&data.unwrap_or_else(|| usual().into()))?,
        };
        terminal::print(&if self.json { status.to_json() + "\n" } else { status.to_text() })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks a coordinator.
fn ask(reach: &Reach) -> anyhow::Result<CensusStatus> {
    let access = reach.access()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        let mut client = access::client(&access, reach.identity()?.as_ref())?;
        let call =
            tokio::time::timeout(Duration::from_secs(10), client.status(wire::StatusRequest {}));
        Ok::<_, AccessError>(call.await)
    })?;
    let status = match answer {
        Ok(Ok(reply)) => {
            let json = reply.into_inner().json;
            return serde_json::from_str(&json)
                .context("the coordinator's answer is not a status: is it of another version?");
        }
        Ok(Err(status)) => status,
        Err(_) => tonic::Status::unavailable("no answer in 10 s"),
    };
    let address = access.address;
    if let Some(other) = other_coordinator(&address, &status) {
        anyhow::bail!(other);
    }
    Err(match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => {
            anyhow::anyhow!("coordinator at {address}: {}", status.message())
        }
        _ => anyhow::anyhow!(
            "cannot reach a coordinator at {address} ({}); is it running there? Beyond \
             loopback, or with --secure, it admits those who have an access file (--access)",
            root_cause(&status)
        ),
    })
}
