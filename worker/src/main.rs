//! `trailtrap-worker`: a worker process.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use trailtrap_shared::{game::TrailTrap, labelling::batch::Kernel};
use trailtrap_worker::{
    client::{GrpcLink, Identity},
    engine::{Engine, LinkError},
    machine::{self, Signals, Size},
};

/// Solves units of a Trail Trap census for a coordinator.
///
/// A worker needs nothing but the coordinator's address. It may be started before the coordinator, and stopped at any time:
/// the first Ctrl-C or SIGTERM gives back what it is doing, a second one leaves at once. It leaves by itself when the
/// census is done.
///
/// Exit codes: 0 done or stopped as asked, 69 refused by the coordinator (another version), 75 the coordinator stayed out
/// of reach: start it again later.
#[derive(Parser)]
#[command(name = "trailtrap-worker", version)]
struct Arguments {
    /// Where the coordinator listens
    #[arg(long, value_name = "HOST:PORT", env = "TRAILTRAP_COORDINATOR")]
    coordinator: String,
    /// Solving threads [default: the processors this process may use]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Budget for anonymous memory, such as 4GiB [default: six tenths of what is available]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Instruction set: auto, portable, avx2 or avx512. Has no influence on results
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    /// Seconds to keep trying when the coordinator is out of reach
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    machine::log_to_stderr("info");
    machine::abort_on_panic();
    let asked_to_stop = Arc::new(AtomicBool::new(false));
    match run(arguments, asked_to_stop.clone()) {
        Ok(()) => ExitCode::SUCCESS,
        // Asked before there was anything to stop.
        Err(_) if asked_to_stop.load(Ordering::Relaxed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trailtrap-worker: {error:#}");
            ExitCode::from(match error.downcast_ref() {
                Some(LinkError::Lost(_)) => 75,
                Some(LinkError::Refused(_)) => 69,
                None => 1,
            })
        }
    }
}

fn run(arguments: Arguments, asked_to_stop: Arc<AtomicBool>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let stop = Arc::new(AtomicBool::new(false));
    let signals = Signals::new(&runtime)?;
    runtime.spawn({
        let stop = stop.clone();
        signals.stop_or_exit(move || {
            asked_to_stop.store(true, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        })
    });
    let identity = Identity {
        name: machine::identity(),
        threads: arguments.threads.map_or_else(machine::threads, usize::from),
        kernel: arguments.kernel,
    };
    let threads = identity.threads;
    let memory = arguments.memory.unwrap_or_else(machine::default_memory);
    let patience = Duration::from_secs(arguments.patience);
    let handle = runtime.handle().clone();
    let link = Arc::new(GrpcLink::connect(handle, &arguments.coordinator, identity, patience, stop.clone())?);
    runtime.spawn(link.heartbeats());
    let engine = Engine::<TrailTrap, _>::new(link, threads, arguments.kernel, memory.0 as usize, stop)?;
    engine.run()?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
