//! `trailtrap`: the command line.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use trailtrap::{
    directory,
    forecast::PlanCommand,
    lookup::LookupCommand,
    run::{CensusCommand, CoordinatorCommand},
    solve::SolveCommand,
    status::Status,
    verify::VerifyCommand,
    wins::WinsCommand,
};
use trailtrap_shared::wire::{self, census_client::CensusClient};
use trailtrap_worker::machine;

/// An exact census of the game Trail Trap over all graphs of an order.
///
/// Two players each draw a trail on a graph; an edge used by either is gone for both; who cannot move loses. The census says
/// for every graph with up to N vertices, and every position on it, who wins.
#[derive(Parser)]
#[command(name = "trailtrap", version)]
#[command(after_help = "Examples:
  trailtrap plan 11                                       what an order takes: graphs, space, time
  trailtrap census 8                                      all orders up to 8, on this machine
  trailtrap census 10 --data /scratch/tt --json           a longer one; stop and start it as you like
  trailtrap coordinator --order 10 --listen 0.0.0.0:7461  the same for workers on other machines …
  trailtrap-worker --coordinator HOST:7461                … of which this starts one
  trailtrap status --data /scratch/tt                     how far it is
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
    Status(StatusCommand),
    Solve(SolveCommand),
    Lookup(LookupCommand),
    Verify(VerifyCommand),
    Wins(WinsCommand),
}

/// Shows what is done, running and waiting, by whom, how fast, and how long it will take.
#[derive(Args)]
struct StatusCommand {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// Ask a coordinator
    #[arg(long, value_name = "HOST:PORT")]
    coordinator: Option<String>,
    /// Look at a data directory, in use or not
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    machine::log_to_stderr("warn");
    machine::abort_on_panic();
    let result = match arguments.command {
        Command::Plan(command) => command.run(),
        Command::Census(command) => command.run(),
        Command::Coordinator(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Solve(command) => command.run(),
        Command::Lookup(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Wins(command) => command.run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("trailtrap: {error:#}");
        ExitCode::FAILURE
    })
}

impl StatusCommand {
    fn run(self) -> anyhow::Result<ExitCode> {
        let status = match (&self.place.coordinator, &self.place.data) {
            (Some(address), _) => ask(address)?,
            (None, Some(data)) => directory::look(data)?,
            (None, None) => unreachable!("clap requires one of them"),
        };
        match self.json {
            true => println!("{}", status.to_json()),
            false => print!("{}", status.to_text()),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn ask(address: &str) -> anyhow::Result<Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        let connect = CensusClient::connect(format!("http://{address}"));
        let mut client =
            tokio::time::timeout(Duration::from_secs(10), connect).await.context("no answer in 10 s")??;
        let reply = tokio::time::timeout(Duration::from_secs(10), client.status(wire::StatusRequest {})).await;
        anyhow::Ok(reply.context("no answer in 10 s")??.into_inner())
    });
    let reply = answer.with_context(|| format!("cannot reach a coordinator at {address}; is it running there?"))?;
    serde_json::from_str(&reply.json).context("the coordinator's answer is not a status: is it of another version?")
}
