//! `trailtrap census` and `trailtrap coordinator`: a census from start to table, with workers in
//! this process or in others.

use std::{
    io::IsTerminal,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use trailtrap_census::{
    driver::{Census, CensusError, CensusOptions, Keep, Worker},
    read::status::{Status, duration},
    records::OrderResult,
    store::directory::DataDirectory,
};
use trailtrap_shared::{game::TrailTrap, labelling::batch::Kernel, plan::PlanOptions};
use trailtrap_worker::{
    engine::Engine,
    process::{
        self,
        limits::{self, Size},
        log,
        signals::Signals,
    },
};

use crate::{
    admission,
    embedded::EmbeddedLink,
    preflight,
    report::{self, CensusReport},
    secrets::{self, Security},
    service,
};

/// What both commands take.
#[derive(Args)]
pub struct Common {
    /// Where results are kept; a run that was stopped goes on from there
    #[arg(long, value_name = "DIR", default_value = "trailtrap-data", env = "TRAILTRAP_DATA")]
    data: PathBuf,
    /// What to keep of the orders that this run does
    #[arg(long, value_enum, value_name = "WHAT", default_value = "all")]
    keep: KeepArgument,
    /// Start even though disk or memory do not seem to suffice
    #[arg(long)]
    force: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Derive this share of all records again from their predecessors, with nauty, before results
    /// are let in: one step of the recurrence, without code of the kernel. Each unit is drawn with
    /// probability p = max(1/16, RATE), and of it RATE/p of its records, at least one; 1 tries
    /// all. A worker that gets a share f of the records wrong in k units of g graphs each goes
    /// unnoticed with probability (1 − p · (1 − (1 − f)^s))^k, where s = max(1, g · RATE/p),
    /// about; a single wrong record is found with probability RATE, or more in small units. 0
    /// turns it off
    #[arg(long, value_name = "RATE", default_value = "1e-4", hide_short_help = true,
          value_parser = parse_share)]
    sample: f64,
    /// Split shards with more graphs than this into parts (applies to orders not yet begun)
    #[arg(long, value_name = "GRAPHS", default_value_t = PlanOptions::default().part_graphs,
          hide_short_help = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    part_graphs: u64,
    /// Split partitions larger than this into buckets (applies to orders not yet begun)
    #[arg(long, value_name = "SIZE", default_value = "64MiB", hide_short_help = true)]
    bucket_size: Size,
}

/// What to keep of a finished order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeepArgument {
    /// The outcome of every position of every graph
    All,
    /// P1-win graphs and statistics, and the graphs of the last order; outcomes go when no
    /// unfinished shard needs them
    Minimal,
}

impl From<KeepArgument> for Keep {
    fn from(argument: KeepArgument) -> Self {
        match argument {
            KeepArgument::All => Keep::All,
            KeepArgument::Minimal => Keep::Minimal,
        }
    }
}

/// Does a census in this process: coordinator, solver and store together.
#[derive(Args)]
pub struct CensusCommand {
    /// Do all orders (numbers of vertices) up to this one
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Solving threads [default: the processors this process may use]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Budget for anonymous memory, such as 4GiB [default: six tenths of what is available]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Instruction set: auto, portable, avx2 or avx512. Has no influence on results
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    #[command(flatten)]
    common: Common,
}

/// Coordinates a census whose work is done by `trailtrap-worker` processes.
#[derive(Args)]
pub struct CoordinatorCommand {
    /// Do all orders (numbers of vertices) up to this one
    #[arg(long, value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Listen for workers here, for example 127.0.0.1:7461 or 0.0.0.0:7461. Beyond loopback,
    /// connections are encrypted, and only those with an access file are admitted, which is
    /// written into the data directory
    #[arg(long, value_name = "ADDR:PORT")]
    listen: String,
    /// Give the work of a worker to others after this many seconds without a sign of life
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86400))]
    lease: u64,
    /// Have this share of all units, drawn at random, solved a second time by another worker, and
    /// compare; 1 for all. If two computations differ, every record of the first is derived again
    /// with nauty, which tells who was wrong. Another worker is another process; to find out
    /// machines that are faulty, run workers on several. Workers name themselves: a lie is found
    /// for certain unless the same party solves a unit twice under two names
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    double_check: f64,
    /// Stay when everything is done, and tell workers so that come late, until stopped by a signal
    #[arg(long)]
    stay: bool,
    /// Hold back workers that send or fetch results while messages of more bytes than this are in
    /// memory
    #[arg(long, value_name = "SIZE", default_value = "512MiB", hide_short_help = true)]
    message_memory: Size,
    /// Answer gRPC health checks here, unencrypted and for everybody; nothing else is answered
    /// there
    #[arg(long, value_name = "ADDR:PORT")]
    health: Option<String>,
    #[command(flatten)]
    security: Security,
    #[command(flatten)]
    common: Common,
}

/// An order from 1 to 16.
pub fn parse_order(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(order @ 1..=16) => Ok(order),
        _ => Err("an order is a number of vertices from 1 to 16".to_owned()),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1, such as 0.01 or 1e-4".to_owned()),
    }
}

/// A census that was stopped; the same command goes on with it.
const EXIT_STOPPED: u8 = 130;

impl Common {
    fn options(&self, order: usize, lease_term: Duration) -> CensusOptions {
        let plan = PlanOptions { part_graphs: self.part_graphs, bucket_bytes: self.bucket_size.0 };
        CensusOptions {
            order,
            keep: self.keep.into(),
            plan,
            lease_term,
            trial_rate: self.sample,
            compared_share: 0.0,
            gather: Duration::from_secs(1),
            clock: Instant::now,
        }
    }

    /// Takes the directory, if there is room for what is to come. A coordinator holds no
    /// partitions, and has no budget.
    fn prepare(&self, order: usize, memory: Option<Size>) -> anyhow::Result<DataDirectory> {
        preflight::check_order(order)?;
        let directory = DataDirectory::take(&self.data)?;
        let done = directory
            .has_results(order)
            .with_context(|| format!("data directory {}", self.data.display()))?;
        if !self.force && !done {
            preflight::check_disk(order, self.keep.into(), directory.path())?;
            memory.map_or(Ok(()), |memory| preflight::check_memory(order, memory))?;
        }
        Ok(directory)
    }

    fn print(&self, results: &[OrderResult]) -> anyhow::Result<()> {
        let report = CensusReport::new(results);
        let text = if self.json { report.to_json() } else { report.to_table() };
        report::print(&(text + "\n"))
    }

    /// Closes the census, prints its results, or says why there are none.
    fn finish(&self, census: &Census, directory: &DataDirectory) -> anyhow::Result<ExitCode> {
        let status =
            Status { running: false, process: None, workers: Vec::new(), ..Status::of(census) };
        let closed = census.close();
        directory.publish(&status);
        for (number, alarm) in status.alarms.iter().filter(|(_, alarm)| alarm.settled.is_none()) {
            log::say(&format!("trailtrap: {}", alarm.line(*number)));
        }
        match closed {
            Ok(Some(results)) => self.print(&results).map(|()| ExitCode::SUCCESS),
            Ok(None) => {
                log::say(
                    "trailtrap: stopped; everything finished is kept. The same command goes on \
                     from there",
                );
                Ok(ExitCode::from(EXIT_STOPPED))
            }
            Err(CensusError::Store(error)) if error.is_disk_full() => Err(anyhow::anyhow!(
                "the disk of {} is full; everything finished is kept. Make room, and the same \
                 command goes on ({error})",
                self.data.display()
            )),
            Err(error) => {
                Err(error).with_context(|| format!("data directory {}", self.data.display()))
            }
        }
    }
}

impl CensusCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let memory = self.memory.unwrap_or_else(limits::default_memory);
        let threads = self.threads.map_or_else(limits::threads, usize::from);
        let directory = self.common.prepare(self.order, Some(memory))?;
        let census = open(&directory, self.common.options(self.order, Duration::from_secs(60)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let signals = Signals::new(&runtime)?;
        runtime.spawn({
            let stop = stop.clone();
            signals.stop_or_exit(EXIT_STOPPED, move || stop.store(true, Ordering::Relaxed))
        });
        let link =
            EmbeddedLink::new(census.clone(), process::identity(), threads, self.kernel.name())?;
        let engine =
            Engine::<TrailTrap, _>::new(link, threads, self.kernel, memory.0 as usize, stop)?;
        let worked = watched(&census, &directory, || engine.run());
        // The engine holds the census; what it leaves in memory is not needed any more.
        drop(engine);
        if let Err(error) = worked {
            // What is finished gets stored; an error of the census itself is nearer to the cause.
            census.close()?;
            return Err(error.into());
        }
        self.common.finish(&census, &directory)
    }
}

impl CoordinatorCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new()?;
        let bind = |address: &String| {
            runtime.block_on(admission::listen(address)).with_context(|| {
                format!(
                    "cannot listen on {address}: is the port in use, or the address not one \
                         of this machine's?"
                )
            })
        };
        let listener = bind(&self.listen)?;
        let health = self.health.as_ref().map(bind).transpose()?;
        let directory = self.common.prepare(self.order, None)?;
        let local = listener.local_addr()?;
        let door = self.security.prepare(directory.path(), local)?;
        let options = self.common.options(self.order, Duration::from_secs(self.lease));
        let census =
            open(&directory, CensusOptions { compared_share: self.double_check, ..options })?;
        log::say(&format!("trailtrap: listening on {local}"));
        if door.is_some() {
            let file = |name: &str| directory.path().join(name).display().to_string();
            let (access, viewer) = (file(secrets::ACCESS), file(secrets::VIEWER));
            log::say(&format!(
                "trailtrap: only for those with an access file: workers {access}, onlookers \
                 {viewer}"
            ));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let signals = Signals::new(&runtime)?;
        runtime.spawn({
            let stop = stop.clone();
            signals.stop_or_exit(EXIT_STOPPED, move || stop.store(true, Ordering::Relaxed))
        });
        let (shut, shutdown) = tokio::sync::oneshot::channel::<()>();
        let server = runtime.spawn(service::serve(
            census.clone(),
            self.message_memory.0 as usize,
            listener,
            door,
            async move {
                let _ = shutdown.await;
            },
        ));
        health.map(|listener| runtime.spawn(service::serve_health(listener)));
        watched(&census, &directory, || {
            while !census.has_ended() && !stop.load(Ordering::Relaxed) && !server.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let complete = census.is_complete();
        let code = if complete && self.stay {
            self.common.print(&census.results())?;
            while !stop.load(Ordering::Relaxed) && !server.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
            }
            census.close().map(|_| ExitCode::SUCCESS).map_err(anyhow::Error::from)
        } else {
            if complete {
                dismiss_workers(&census);
            }
            self.common.finish(&census, &directory)
        };
        let _ = shut.send(());
        let served = runtime.block_on(server);
        runtime.shutdown_timeout(Duration::from_secs(1));
        let code = code?;
        served.context("the server failed")?.context("the server failed")?;
        Ok(code)
    }
}

/// Gives workers a moment to ask once more and hear that everything is done.
fn dismiss_workers(census: &Census) {
    let start = Instant::now();
    let waiting = |(_, worker, _): &(u64, Worker, usize)| {
        !worker.dismissed
            && !worker.distrusted
            && census.now().saturating_sub(worker.seen) < Duration::from_secs(15)
    };
    while start.elapsed() < Duration::from_secs(10) && census.workers().iter().any(waiting) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn open(directory: &DataDirectory, options: CensusOptions) -> anyhow::Result<Arc<Census>> {
    Census::open(&directory.store(), options)
        .with_context(|| format!("data directory {}", directory.path().display()))
}

/// Does something and shows the progress of the census meanwhile: a bar on a terminal, a line
/// every ten seconds elsewhere.
fn watched<T>(census: &Census, directory: &DataDirectory, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| watch(census, directory, &done));
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

fn watch(census: &Census, directory: &DataDirectory, done: &AtomicBool) {
    let terminal = std::io::stderr().is_terminal();
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr_with_hz(5));
    let style =
        ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a valid template");
    bar.set_style(style);
    let start = Instant::now();
    let (mut published, mut printed) = (None::<Instant>, Instant::now());
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        let due = published.is_none_or(|at| at.elapsed() > Duration::from_secs(1));
        if !due {
            continue;
        }
        published = Some(Instant::now());
        let status = Status::of(census);
        directory.publish(&status);
        let Some(order) = &status.order else { continue };
        let share = order.pairs_done as f64 / order.pairs.max(1) as f64;
        let left = status.seconds_left.map_or_else(|| "?".to_owned(), duration);
        let mut message = format!(
            "{:.1} %, {} of {} graphs, {:.2} M pairs/s, {left} left",
            100.0 * share,
            order.graphs_done,
            order.graphs,
            status.pairs_per_second / 1e6
        );
        if order.units_to_compare > 0 && order.units_ready == 0 && order.units_leased == 0 {
            message = format!(
                "{} units wait for another worker to solve them a second time",
                order.units_to_compare
            );
        }
        if terminal && start.elapsed() > Duration::from_secs(1) {
            bar.set_prefix(format!("order {}", order.order));
            bar.set_position((1000.0 * share) as u64);
            bar.set_message(message);
        } else if !terminal && printed.elapsed() > Duration::from_secs(10) {
            printed = Instant::now();
            log::say(&format!("order {}: {message}", order.order));
        }
    }
    bar.finish_and_clear();
}
