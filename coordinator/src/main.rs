//! `trailtrap`: the command line.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use tonic::Code;
use trailtrap::{
    alarms::AlarmsCommand,
    export::ExportCommand,
    forecast::PlanCommand,
    lookup::LookupCommand,
    report,
    run::{CensusCommand, CoordinatorCommand},
    salvage::SalvageCommand,
    secrets::SecretsCommand,
    solve::SolveCommand,
    verify::VerifyCommand,
};
use trailtrap_census::read::status::{self, Status};
use trailtrap_shared::protocol::wire;
use trailtrap_worker::{
    link::{
        access::{self, AccessError, Reach},
        grpc::root_cause,
    },
    process::{log, signals},
};

/// An exact census of the game Trail Trap over all graphs of an order.
///
/// Two players each draw a trail on a graph; an edge used by either is gone for both; who cannot
/// move loses. The census says for every graph with up to N vertices, and every position on it,
/// who wins.
#[derive(Parser)]
#[command(name = "trailtrap", version)]
#[command(after_help = "Examples:
  trailtrap plan 11                                       what an order takes: graphs, space, time
  trailtrap census 8                                      all orders up to 8, on this machine
  trailtrap census 10 --data /scratch/tt --json           a longer one; stop and start it as you \
  like
  trailtrap coordinator --order 10 --listen 0.0.0.0:7461  the same for workers on other machines …
  trailtrap-worker --access access.json                   … of which this starts one
  trailtrap status --data /scratch/tt                     how far it is
  trailtrap export table orders --data /scratch/tt        the results: tables, lists, plots, \
  bundles
  nauty-geng -c 6 | trailtrap solve --format csv          single graphs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Plan(PlanCommand),
    Census(CensusCommand),
    Coordinator(CoordinatorCommand),
    Secrets(SecretsCommand),
    Status(StatusCommand),
    Alarms(AlarmsCommand),
    Salvage(SalvageCommand),
    Solve(SolveCommand),
    Lookup(LookupCommand),
    Verify(VerifyCommand),
    Export(ExportCommand),
}

/// Shows what is done, running and waiting, by whom, how fast, and how long it will take.
#[derive(Args)]
struct StatusCommand {
    #[command(flatten)]
    reach: Reach,
    /// Look at a data directory, in use or not
    #[arg(long, value_name = "DIR", conflicts_with_all = ["access", "coordinator"])]
    data: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::log_to_stderr("warn");
    signals::abort_on_panic();
    let result = match arguments.command {
        Command::Plan(command) => command.run(),
        Command::Census(command) => command.run(),
        Command::Coordinator(command) => command.run(),
        Command::Secrets(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Alarms(command) => command.run(),
        Command::Salvage(command) => command.run(),
        Command::Solve(command) => command.run(),
        Command::Lookup(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Export(command) => command.run(),
    };
    result.unwrap_or_else(|error| {
        log::say(&format!("trailtrap: {error:#}"));
        ExitCode::FAILURE
    })
}

impl StatusCommand {
    fn run(self) -> anyhow::Result<ExitCode> {
        let status = match &self.data {
            Some(data) => status::look(data)?,
            None if self.reach.is_given() => ask(&self.reach)?,
            None => {
                let what =
                    "say where to look: --data DIR, --access FILE or --coordinator HOST:PORT";
                Arguments::command().error(ErrorKind::MissingRequiredArgument, what).exit();
            }
        };
        report::print(&if self.json { status.to_json() + "\n" } else { status.to_text() })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks a coordinator.
fn ask(reach: &Reach) -> anyhow::Result<Status> {
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
    Err(match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => {
            anyhow::anyhow!("coordinator at {address}: {}", status.message())
        }
        _ => anyhow::anyhow!(
            "cannot reach a coordinator at {address} ({}); is it running there? Beyond loopback \
             it admits those who have \
             an access file (--access)",
            root_cause(&status)
        ),
    })
}
