//! `trailtrap coordinator`.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;
use trailtrap_census::{
    driver::{Census, CensusOptions, KeptIn, Worker},
    read::status::CensusStatus,
    store::directory::{ACCESS, Kept, VIEWER},
};
use trailtrap_worker::{
    process::{
        limits::{self, Size, parse_size_from},
        log,
        signals::Signals,
    },
    supply::shelf::others::OtherShelves,
};

use super::{
    run::{Common, EXIT_STOPPED, conclude, parse_order, parse_share, watched},
    secrets::SecurityArguments,
};
use crate::serve::{admission, secrets::Security, service};

/// The least that messages may be given.
pub(super) const LEAST_MESSAGE_MEMORY: u64 = 1 << 20;

/// What messages may take, unless it is said, in a coordinator that has so much memory.
pub fn message_memory(memory: Size) -> Size {
    Size((memory.0 / 8).max(512 << 20))
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
    /// Give the work of a worker to others after so long without a sign of life: seconds, or a
    /// time such as 5min
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = parse_term)]
    lease: Duration,
    /// Have this share of all units, drawn at random, solved a second time by another worker, and
    /// compare; 1 for all. If two computations differ, every record of the first is derived again
    /// with nauty, which tells who was wrong. Another worker is one of another name, which workers
    /// give themselves; to find out machines that are faulty, run workers on several. A worker
    /// whose records are wrong in k units goes unnoticed with probability (1 - SHARE)^k, and never
    /// with 1, unless the second worker delivers the same wrong records: the same party, say,
    /// under two names. What no other worker can compare for the time of a lease, the coordinator
    /// solves itself, and from then on at once until another worker does. Orders that earlier runs
    /// have finished are taken as they are
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    double_check: f64,
    /// Have workers keep graphs and outcomes on their own disks, those with a --shelf: each block on
    /// two of them, from which the others read it. The coordinator has names, counts and P1-win
    /// graphs alone, and not even a file system that all see is needed. With --keep minimal, since
    /// what lies with workers goes with them. If both of a block's workers are gone, its unit is
    /// solved again, or its order, if what that was computed from is gone too. Later runs know it
    /// without this flag, and want --keep minimal again
    #[arg(long, conflicts_with = "depot")]
    shelves: bool,
    /// Wait so long for a worker that has blocks which nobody else has, once nothing is heard of it,
    /// and for others after the first has come, and as long as leases last at least: seconds, or a
    /// time such as 5min
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = parse_term,
          hide_short_help = true)]
    shelf_patience: Duration,
    /// Stay when everything is done, and tell workers so that come late, until stopped by a signal
    #[arg(long)]
    stay: bool,
    /// Hold back workers that send or fetch results while messages of more bytes than this are in
    /// memory. Results of a quarter of it are leased together at most: where shards are large,
    /// workers read the less the larger it is [default: an eighth of what is available here, and
    /// 512 MiB at least]
    #[arg(long, value_name = "SIZE", hide_short_help = true,
          value_parser = parse_size_from::<LEAST_MESSAGE_MEMORY>)]
    message_memory: Option<Size>,
    /// Answer gRPC health checks here, unencrypted and for everybody; nothing else is answered
    /// there
    #[arg(long, value_name = "ADDR:PORT")]
    health: Option<String>,
    #[command(flatten)]
    security: SecurityArguments,
    #[command(flatten)]
    common: Common,
}

/// How long something lasts, or is waited for: from a second to a day.
pub fn parse_term(text: &str) -> Result<Duration, String> {
    let term = limits::parse_time(text)?;
    match (Duration::from_secs(1)..=Duration::from_secs(86400)).contains(&term) {
        true => Ok(term),
        false => Err("choose a time from 1s to 1day".to_owned()),
    }
}

impl CoordinatorCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new()?;
        let bind = |address: &String| {
            runtime.block_on(admission::listen(address)).with_context(|| {
                format!(
                    "cannot listen on {address}: is it ADDRESS:PORT, the port in use, or the \
                         address not one of this machine's?"
                )
            })
        };
        let listener = bind(&self.listen)?;
        let health = self.health.as_ref().map(bind).transpose()?;
        let message_memory = self
            .message_memory
            .unwrap_or_else(|| message_memory(Size(limits::available_memory())));
        let (directory, kept) = self.common.prepare(self.order, None, self.shelves)?;
        let on_shelves = kept == Kept::OnShelves;
        anyhow::ensure!(
            !on_shelves || self.common.keeps_least(),
            "what this census keeps on the shelves of workers goes with them: say --keep minimal"
        );
        let local = listener.local_addr()?;
        let door = Security::from(self.security).prepare(directory.path(), local)?;
        let options = self.common.options(self.order, self.lease, None);
        let options = CensusOptions { compared_share: self.double_check, ..options };
        let shelves = on_shelves.then(|| {
            let token = door.as_ref().map(|door| door.worker.clone());
            // The census cancels it when it is closed.
            let stop = CancellationToken::new();
            let reader = OtherShelves::new(runtime.handle().clone(), token, stop);
            KeptIn::Shelves { reader, patience: self.shelf_patience.max(self.lease) }
        });
        let census = self.common.open(&directory, options, shelves)?;
        // Before anybody is told, so that whoever is told may send a signal.
        let stop = Signals::stopping(&runtime, EXIT_STOPPED)?;
        log::say(&format!("trailtrap: listening on {local}"));
        if door.is_some() {
            let file = |name: &str| directory.path().join(name).display().to_string();
            let (access, viewer) = (file(ACCESS), file(VIEWER));
            log::say(&format!(
                "trailtrap: only for those with an access file: workers {access}, onlookers \
                 {viewer}"
            ));
        }
        let shut = CancellationToken::new();
        let server = runtime.spawn(service::serve(
            census.clone(),
            message_memory.0 as usize,
            listener,
            door,
            shut.clone().cancelled_owned(),
        ));
        if let Some(listener) = health {
            runtime.spawn(async {
                if let Err(error) = service::serve_health(listener).await {
                    tracing::error!(
                        "nobody is told any more that this process is well: {error:#}"
                    );
                }
            });
        }
        watched(&census, &directory, || {
            while !census.has_ended() && !stop.is_cancelled() && !server.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let complete = census.is_complete();
        let code = if complete && self.stay {
            self.common.print(&census, &census.results())?;
            conclude(&census, &directory, &CensusStatus::with_withdrawn(&census));
            let mut published = Instant::now();
            while !stop.is_cancelled() && !server.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
                // Onlookers believe what is young.
                if published.elapsed() >= Duration::from_secs(1) {
                    directory.publish(&CensusStatus::with_withdrawn(&census));
                    published = Instant::now();
                }
            }
            let closed = census.close().map(|_| ExitCode::SUCCESS);
            closed.map_err(|error| self.common.explained(error))
        } else {
            if complete {
                dismiss_workers(&census);
            }
            self.common.finish(&census, &directory)
        };
        shut.cancel();
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
