//! `trailtrap rehearse`: a census of an order with workers that solve nothing.

use std::{process::ExitCode, sync::atomic::AtomicU64, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::Args;
use rustix::process::{Resource, getrlimit};
use trailtrap_census::{core::MOST_WORKERS, read::status::duration};
use trailtrap_shared::{
    class::Class,
    game::GameName,
    plan::{Goal, order_name},
};
use trailtrap_worker::process::{limits::Size, log};

use super::{
    coordinator::parse_term,
    machines::MachineArguments,
    preflight,
    run::{EXIT_STOPPED, parse_order, parse_share, stopping},
};
use crate::{
    rehearsal::{Rehearsal, Rehearsed},
    terminal,
};

/// Rehearses the census of an order: the real coordinator, with workers that solve nothing.
///
/// What coordinates is what a census has: the plan with all its shards, the schedule, leases that
/// are renewed and expire, the service with a connection for each worker, and commits to a store
/// on disk. Workers, in this process, sleep as long as `trailtrap plan` says that the machines
/// take, and deliver results that are invented: of real size, but for their blocks, which are
/// empty. So it shows in minutes what a coordinator does with hundreds of workers, and what it
/// takes: processors, memory, time to answer. What machines do is foreseen by `plan`, here as
/// there; it is told beside, for comparison.
///
/// While a delivery waits for the answer of the coordinator, or a request for work that can be
/// had, time passes as on the clock; otherwise SPEED times as fast. So what the coordinator takes
/// for these is part of the time that is told, as much as it is here, and what it takes for all
/// else, such as heartbeats, SPEED times as much. A machine that is slower, or busy, tells a
/// longer time.
///
/// The store is in the directory for temporary files (TMPDIR), takes about a gigabyte for order
/// 12, and goes in the end; a rehearsal that is killed leaves it in trailtrap-rehearsal-… there. No
/// other command opens such a store.
#[derive(Args)]
#[command(after_help = "Examples:
  trailtrap rehearse 12 --nodes 16 --cores 16 --memory 64GiB --depot 8GB/s
  trailtrap rehearse 12 --nodes 500 --cores 4 --memory 8GiB --losses 0.001
  trailtrap rehearse 10 --nodes 100 --cores 2 --memory 4GiB --speed 1 --json")]
pub struct RehearseCommand {
    /// The order; all orders below it come first, as in a census
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Only graphs with at most so many edges
    #[arg(long, value_name = "EDGES")]
    max_size: Option<usize>,
    /// The game: trail-trap or edge-geography
    #[arg(long, value_name = "GAME", default_value_t)]
    game: GameName,
    /// So many seconds of the census pass in one in which the coordinator has nothing to do
    /// [default: as many as have what is planned take three minutes, 1 at least]
    #[arg(long, value_name = "SPEED", value_parser = parse_speed)]
    speed: Option<f64>,
    /// As with `coordinator --lease`; but where time passes faster, a lease lasts three seconds of
    /// this machine at least, or ten milliseconds for each node if that is more, though no longer
    /// than TIME
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = parse_term)]
    lease: Duration,
    /// At the end of this share of leases, drawn at random, the worker dies instead of delivering,
    /// with all that it has in work; another takes its place
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    losses: f64,
    #[command(flatten)]
    machines: MachineArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is planned takes about so many seconds.
const USUAL: f64 = 180.0;
/// More of the leases than this are not lost: nothing would ever be done.
const MOST_LOSSES: f64 = 0.5;
/// The most workers that a coordinator knows at a time.
const MOST_NODES: u64 = MOST_WORKERS as u64;
/// Files that are open besides the two ends of each connection.
const OTHER_FILES: u64 = 600;

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1.0..=1e6).contains(&speed) => Ok(speed),
        _ => Err("a speed is a number from 1 to 1000000".to_owned()),
    }
}

impl RehearseCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let goal = Goal::new(self.order, self.max_size);
        preflight::check_order(Class::All, goal)?;
        let Some(nodes) = self.machines.nodes.map(u64::from) else {
            bail!(
                "a rehearsal is about a coordinator and its workers: say with --nodes how many \
                 nodes have one. How long a census in one process takes, `trailtrap plan` tells"
            )
        };
        ensure!(
            nodes <= MOST_NODES,
            "--nodes {nodes}: a coordinator knows {MOST_NODES} workers at a time, at most"
        );
        let (files, needed) = (getrlimit(Resource::Nofile).current, 2 * nodes + OTHER_FILES);
        ensure!(
            files.is_none_or(|files| needed <= files),
            "--nodes {nodes}: this process would have {needed} files and connections open, and \
             may have {}: raise the limit (`ulimit -n`), or rehearse with fewer nodes",
            files.unwrap_or(0)
        );
        ensure!(
            self.losses <= MOST_LOSSES,
            "--losses {} leaves too little: {MOST_LOSSES} at most",
            self.losses
        );
        // Before the calibration takes its time.
        tempfile::tempfile().context(
            "a rehearsal has its store in the directory for temporary files; set TMPDIR to one that \
             is there and has room",
        )?;
        let (question, forecast) = self.machines.forecast(self.game, goal)?;
        let speed =
            self.speed.unwrap_or_else(|| (forecast.simulated.wall_seconds / USUAL).max(1.0));
        let (_runtime, stop) = stopping()?;
        let what = format!("rehearsing {}", order_name(self.order, self.max_size));
        log::say(&format!("{what}, {speed:.0} times as fast …"));
        let (lease, losses) = (self.lease, self.losses);
        let rehearsal = Rehearsal { question, forecast, speed, lease, losses };
        let (total, done) = (rehearsal.pairs().iter().sum(), AtomicU64::new(0));
        let rehearsed = terminal::watched(&what, total, &done, || rehearsal.run(&stop, &done))
            .context("the rehearsal has failed")?;
        let Some(rehearsed) = rehearsed else {
            log::say("trailtrap: stopped; nothing is kept of a rehearsal");
            return Ok(ExitCode::from(EXIT_STOPPED));
        };
        terminal::print_as(self.json, &rehearsed, || to_text(&rehearsed))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn to_text(rehearsed: &Rehearsed) -> String {
    [beside_the_plan(rehearsed), what_happened(rehearsed), on_this_machine(rehearsed)].concat()
}

/// A line of what the rehearsal alone tells.
fn line(what: &str, here: String) -> String {
    format!("  {what:24}{here}\n")
}

/// So many a second.
fn each(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

/// A table of what was foreseen, too.
fn beside_the_plan(rehearsed: &Rehearsed) -> String {
    let Rehearsed { forecast, speed, counts, .. } = rehearsed;
    let (cluster, planned) = (&forecast.cluster, &forecast.simulated);
    let cores = (cluster.workers() * cluster.cores) as f64;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let row = |what: &str, here: String, there: String| {
        format!("  {what:24}{here:38}{there}").trim_end().to_owned() + "\n"
    };
    let bytes = |read: u64, made: u64| {
        format!("{} ({:.2} for each byte made)", Size(read), read as f64 / made.max(1) as f64)
    };
    let planned_busy = planned.busy.solving_core_seconds / (cores * planned.wall_seconds);
    [
        format!(
            "{}, and all below it: {cluster}\n",
            order_name(forecast.order, forecast.max_size)
        ),
        row("", format!("rehearsed ({speed:.0} times as fast)"), "planned".to_owned()),
        row("wall time", duration(rehearsed.wall_seconds), duration(planned.wall_seconds)),
        row("solving threads busy", percent(rehearsed.busy), percent(planned_busy)),
        row(
            "read by workers",
            bytes(rehearsed.bytes_read, rehearsed.bytes_made),
            bytes(planned.bytes_read, planned.bytes_made),
        ),
        row(
            "found in caches",
            percent(rehearsed.found_in_cache) + " of tables",
            percent(planned.found_in_cache) + " of tables",
        ),
        row("leases", counts.leases.to_string(), planned.leases.to_string()),
    ]
    .concat()
}

/// What became of units, leases and calls.
fn what_happened(rehearsed: &Rehearsed) -> String {
    let counts = &rehearsed.counts;
    [
        "what happened\n".to_owned(),
        line("units", counts.units.to_string()),
        line(
            "leases that expired",
            format!(
                "{} of {} workers that died, {} of others, after {}",
                counts.leases_lost,
                counts.workers_lost,
                counts.leases_void,
                duration(rehearsed.lease_seconds)
            ),
        ),
        line(
            "calls",
            format!(
                "{} ({:.1} a second of the census), {} repeated",
                rehearsed.calls,
                each(rehearsed.calls, rehearsed.wall_seconds),
                rehearsed.calls_repeated
            ),
        ),
    ]
    .concat()
}

/// What it took here.
fn on_this_machine(rehearsed: &Rehearsed) -> String {
    let not_known = || "not known".to_owned();
    let core =
        |seconds: Option<f64>| seconds.map_or_else(not_known, |seconds| format!("{seconds:.1} s"));
    let answered = |[half, most]: [f32; 2]| {
        format!("half in {:.1} ms, 99 % in {:.1} ms", 1e3 * half, 1e3 * most)
    };
    let memory = rehearsed.memory.map(|bytes| format!("up to {}", Size(bytes)));
    [
        "on this machine, workers and coordinator together\n".to_owned(),
        line(
            "time",
            format!(
                "{}, {:.1} s of it between orders",
                duration(rehearsed.elapsed_seconds),
                rehearsed.opening_seconds
            ),
        ),
        line(
            "to the first lease",
            format!(
                "{:.1} s from the last unit of the order before",
                rehearsed.last_opening_seconds
            ),
        ),
        line("calls a second", format!("{:.0}", each(rehearsed.calls, rehearsed.elapsed_seconds))),
        line("deliveries answered", answered(rehearsed.delivery_seconds)),
        line("heartbeats answered", answered(rehearsed.heartbeat_seconds)),
        line(
            "CPU time",
            format!(
                "{} of the coordinator, {} of workers",
                core(rehearsed.coordinator_cpu_seconds),
                core(rehearsed.workers_cpu_seconds)
            ),
        ),
        line("memory", memory.unwrap_or_else(not_known)),
    ]
    .concat()
}
