//! The command line: one file for each command, and what several of them have in common.

mod alarms;
mod answers;
mod census;
mod choices;
mod coordinator;
mod export;
mod input;
mod lookup;
mod machines;
mod plan;
mod plan_sample;
mod preflight;
mod rehearse;
mod report;
mod run;
mod salvage;
mod sample;
mod secrets;
mod solve;
mod status;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trailtrap_worker::process::{
    arenas, environment,
    limits::{self, COMPUTING_EACH, SOLVING_EACH},
    log, signals,
};

use self::{
    alarms::AlarmsCommand, census::CensusCommand, coordinator::CoordinatorCommand,
    export::ExportCommand, lookup::LookupCommand, plan::PlanCommand, rehearse::RehearseCommand,
    salvage::SalvageCommand, sample::SampleCommand, secrets::SecretsCommand, solve::SolveCommand,
    status::StatusCommand, verify::VerifyCommand,
};

/// An exact census of the game Trail Trap, or of another one, over all graphs of an order.
///
/// Two players each draw a trail on a graph; an edge used by either is gone for both; who cannot
/// move loses. The census says for every graph with up to N vertices, and every position on it,
/// who wins.
#[derive(Parser)]
#[command(name = "trailtrap", version)]
#[command(after_help = "Examples:
  trailtrap plan 11                                       what an order takes: graphs, space, time
  trailtrap rehearse 12 --nodes 500 --cores 4 --memory 8GiB
                                                          the coordinator of an order with workers \
  that solve nothing
  trailtrap plan sample --help                            what random graphs of an order take
  trailtrap census 8                                      all orders up to 8, on this machine
  trailtrap census 10 --data /scratch/tt --json           a longer one; stop and start it as you \
  like
  trailtrap census 10 --class planar --data planar        only the graphs of a class
  trailtrap coordinator --order 10 --listen 0.0.0.0:7461  the same for workers on other machines …
  trailtrap-worker --access access.json                   … of which this starts one
  trailtrap status --data /scratch/tt                     how far it is
  trailtrap export table orders --data /scratch/tt        the results: tables, lists, plots, \
  bundles
  nauty-geng -c 6 | trailtrap solve --format csv          single graphs")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Plan(PlanCommand),
    Rehearse(RehearseCommand),
    Census(CensusCommand),
    Coordinator(CoordinatorCommand),
    Secrets(SecretsCommand),
    Status(StatusCommand),
    Alarms(AlarmsCommand),
    Salvage(SalvageCommand),
    Solve(SolveCommand),
    Sample(SampleCommand),
    Lookup(LookupCommand),
    Verify(VerifyCommand),
    Export(ExportCommand),
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            // Few at most.
            Command::Status(_) | Command::Alarms(_) | Command::Secrets(_) => {}
            Command::Census(_) | Command::Coordinator(_) | Command::Rehearse(_) => {
                limits::check_threads(SOLVING_EACH)?;
            }
            _ => limits::check_threads(COMPUTING_EACH)?,
        }
        match self {
            Command::Plan(command) => command.run(),
            Command::Rehearse(command) => command.run(),
            Command::Census(command) => command.run(),
            Command::Coordinator(command) => command.run(),
            Command::Secrets(command) => command.run(),
            Command::Status(command) => command.run(),
            Command::Alarms(command) => command.run(),
            Command::Salvage(command) => command.run(),
            Command::Solve(command) => command.run(),
            Command::Sample(command) => command.run(),
            Command::Lookup(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Export(command) => command.run(),
        }
    }
}

/// What the program does.
pub fn main() -> ExitCode {
    arenas::bound();
    // SAFETY: the process has just begun.
    unsafe { environment::forget_empty() };
    let arguments = CommandLine::parse();
    // That leases expire is what a rehearsal may be about, and told in the end.
    let is_rehearsal = matches!(arguments.command, Command::Rehearse(_));
    log::log_to_stderr(if is_rehearsal { "error" } else { "warn" });
    signals::abort_on_panic();
    limits::outlive_file_limit();
    limits::raise_open_files();
    arguments.command.run().unwrap_or_else(|error| {
        log::say(&format!("trailtrap: {}", log::explained(&error)));
        ExitCode::FAILURE
    })
}
