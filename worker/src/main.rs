//! `trailtrap-worker`: a worker process.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use clap::{CommandFactory, Parser, error::ErrorKind};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use trailtrap_shared::{class::Class, game::GameName, labelling::batch::Kernel};
use trailtrap_worker::{
    access::{Reach, check_address},
    engine::Engine,
    link::{
        Link, LinkError, RunEnd,
        files::{self, FileLink, Patience},
        grpc::{GrpcLink, Identity},
    },
    memory::counted_bytes,
    process::{
        self, arenas, environment,
        limits::{self, LEAST_BUDGET, SOLVING_EACH, Size},
        log,
        signals::{self, Signals},
    },
    supply::{Supply, SupplyOptions},
};

/// Solves units of a Trail Trap census for a coordinator.
///
/// A worker needs nothing but the access file that the coordinator wrote or, on the coordinator's
/// own machine, its address. It may be started before the coordinator, and stopped at any time:
/// the first Ctrl-C, SIGTERM, SIGUSR1, SIGUSR2 or (unless under `nohup`) SIGHUP makes it hand back
/// what it is doing and leave, a second one other than SIGHUP leaves at once. It leaves by itself
/// when the census is done, or when its time is up.
///
/// Exit codes: 0 the census is done; 75 there is more to do, start it again (it was asked to
/// leave, its time was up, or the coordinator, or the directory of tasks, stayed out of reach, or
/// nothing was heard of the courier); 78 do not start it again as it is (another version, no valid
/// token, no place to keep blocks where it should, or a machine that fails or whose results are
/// wrong); 2 bad flags.
#[derive(Parser)]
#[command(name = "trailtrap-worker", version)]
struct WorkerArguments {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    supply: SupplyOptions,
    /// Work from the task files that a courier leaves in this directory, without a network. In a
    /// directory that has served for another census, start the courier first
    #[arg(long, value_name = "DIR", conflicts_with_all = ["access", "coordinator", "disk_cache",
          "depot", "shelf"])]
    offline: Option<PathBuf>,
    /// Solve nothing, but be a courier for workers without network: carry tasks into this
    /// directory, and results back
    #[arg(long, value_name = "DIR", conflicts_with = "offline")]
    courier: Option<PathBuf>,
    /// Solving threads [default: the processors this process may use]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Budget for anonymous memory, such as 4GiB [default: six tenths of what is available]
    #[arg(long, value_name = "SIZE", value_parser = limits::parse_size_from::<LEAST_BUDGET>)]
    memory: Option<Size>,
    /// Instruction set: auto, portable, avx2 or avx512. Has no influence on results
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    /// The game of the census: trail-trap or edge-geography. Another one than the coordinator's is
    /// refused
    #[arg(long, value_name = "GAME", default_value_t)]
    game: GameName,
    /// The class of graphs that the census is about, as the coordinator was told. Another one is
    /// refused
    #[arg(long, value_name = "CLASS", default_value_t)]
    class: Class,
    /// Be gone by this moment, in seconds since 1970, and begin nothing that will not be done by
    /// then
    #[arg(long, value_name = "TIME", env = environment::END_TIME)]
    until: Option<u64>,
    /// Keep trying for so long when the coordinator, or the directory of tasks, is out of reach, or
    /// nothing is heard of its courier (then two minutes at least): seconds, or a time such as 5min
    #[arg(long, value_name = "TIME", default_value = "300", value_parser = limits::parse_time)]
    patience: Duration,
}

fn main() -> ExitCode {
    arenas::bound();
    // SAFETY: the process has just begun.
    unsafe { environment::forget_empty() };
    let arguments = WorkerArguments::parse();
    if !arguments.reach.is_given() && arguments.offline.is_none() {
        let what = "say where the coordinator is: --access FILE or, on its own machine, \
                    --coordinator HOST:PORT";
        WorkerArguments::command().error(ErrorKind::MissingRequiredArgument, what).exit();
    }
    if let Some(error) =
        arguments.reach.coordinator.as_deref().map(check_address).and_then(Result::err)
    {
        WorkerArguments::command().error(ErrorKind::ValueValidation, error).exit();
    }
    log::log_to_stderr("info");
    signals::abort_on_panic();
    limits::outlive_file_limit();
    let asked_to_stop = CancellationToken::new();
    match run(arguments, asked_to_stop.clone()) {
        Ok(RunEnd::Finished) => ExitCode::SUCCESS,
        Ok(RunEnd::Stopped) => ExitCode::from(EXIT_AGAIN),
        // Asked before there was anything to stop.
        Err(_) if asked_to_stop.is_cancelled() => ExitCode::from(EXIT_AGAIN),
        Err(error) => {
            log::say(&format!("trailtrap-worker: {}", log::explained(&error)));
            ExitCode::from(match error.downcast_ref() {
                Some(LinkError::Lost(_)) => EXIT_AGAIN,
                Some(LinkError::Refused(_)) => EXIT_NEVER,
                None => 1,
            })
        }
    }
}

/// What `sysexits.h` calls a temporary failure.
const EXIT_AGAIN: u8 = 75;
/// What it calls a configuration error.
const EXIT_NEVER: u8 = 78;

/// For the last results to arrive, and for the process to end.
const MARGIN: Duration = Duration::from_secs(10);

/// The moment to be done by, if there is one, on the clock that nobody sets.
fn deadline(until: Option<u64>) -> Option<Instant> {
    let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(until?))?;
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    Instant::now().checked_add(left - MARGIN.min(left / 10))
}

fn run(arguments: WorkerArguments, asked_to_stop: CancellationToken) -> anyhow::Result<RunEnd> {
    limits::check_threads(SOLVING_EACH)?;
    let runtime = Runtime::new()?;
    let ended = work(arguments, asked_to_stop, &runtime);
    // However it ended: a call to a file system that hangs would be waited for otherwise.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// Works to the end, and says what it took.
fn run_engine<L: Link>(engine: Engine<L>) -> Result<RunEnd, LinkError> {
    let ended = engine.run();
    tracing::info!("solved: {}", engine.effort());
    ended
}

fn work(
    arguments: WorkerArguments,
    asked_to_stop: CancellationToken,
    runtime: &Runtime,
) -> anyhow::Result<RunEnd> {
    // Cancelled also when all is done, which nobody asked for.
    let stop = asked_to_stop.child_token();
    let signals = Signals::new(runtime)?;
    let leave = move || asked_to_stop.cancel();
    runtime.spawn(signals.stop_or_exit(EXIT_AGAIN, leave.clone()));
    let deadline = deadline(arguments.until);
    if let Some(deadline) = deadline {
        runtime.spawn(async move {
            tokio::time::sleep_until(deadline.into()).await;
            leave();
            log::say_aside("time is up; handing back what is not done");
        });
    }
    let identity = Identity {
        name: process::identity(),
        threads: arguments.threads.map_or_else(limits::threads, usize::from),
        kernel: arguments.kernel,
        game: arguments.game,
        class: arguments.class,
        memory: arguments.memory.unwrap_or_else(limits::default_memory).0,
    };
    let patience = Patience { lasts: arguments.patience, stop };
    match arguments.offline {
        Some(directory) => work_offline(directory, &identity, patience, deadline, runtime),
        None => work_online(arguments, identity, patience, deadline, runtime),
    }
}

/// Works from the files of a courier.
fn work_offline(
    directory: PathBuf,
    identity: &Identity,
    patience: Patience,
    deadline: Option<Instant>,
    runtime: &Runtime,
) -> anyhow::Result<RunEnd> {
    let &Identity { game, class, threads, kernel, memory, .. } = identity;
    let stop = patience.stop.clone();
    let link = Arc::new(FileLink::new(directory, game.layout().on(class), patience));
    runtime.spawn(link.heartbeats());
    let engine = Engine::new(link, game, threads, kernel, memory as usize, stop)?;
    Ok(run_engine(engine.until(deadline))?)
}

/// Works for a coordinator, or is its courier.
fn work_online(
    arguments: WorkerArguments,
    identity: Identity,
    Patience { lasts, stop }: Patience,
    deadline: Option<Instant>,
    runtime: &Runtime,
) -> anyhow::Result<RunEnd> {
    let Identity { game, threads, kernel, memory, .. } = identity;
    let memory = memory as usize;
    let handle = runtime.handle().clone();
    let supply = Supply::open(&arguments.supply, handle.clone(), stop.clone())
        .map_err(LinkError::refused)?;
    let link = Arc::new(GrpcLink::connect(
        handle,
        arguments.reach,
        identity,
        supply,
        lasts,
        stop.clone(),
    )?);
    runtime.spawn(link.heartbeats());
    runtime.spawn(link.tidying());
    let ended = match arguments.courier {
        // Enough that those who take tasks need not wait for the next.
        Some(directory) => {
            files::carry(&link, &directory, 2 * threads + 2, &Patience { lasts, stop })?
        }
        None => {
            let engine = Engine::new(link.clone(), game, threads, kernel, memory, stop.clone())?;
            std::thread::scope(|scope| {
                // Whatever becomes of the engine, counting ends with it.
                let _end = stop.drop_guard();
                scope.spawn(|| link.count_for_others(counted_bytes(memory)));
                run_engine(engine.until(deadline))
            })?
        }
    };
    if matches!(ended, RunEnd::Finished) {
        link.clear_shelf();
    }
    tracing::info!("blocks read: {}", link.supply().traffic());
    Ok(ended)
}
