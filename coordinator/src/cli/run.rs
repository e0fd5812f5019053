//! `trailtrap census` and `trailtrap coordinator`: a census from start to table, with workers in
//! this process or in others.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use trailtrap_census::{
    driver::{Census, CensusError, CensusOptions, Keep, KeptIn, Tried},
    read::status::{CensusStatus, duration},
    records::OrderResult,
    store::{
        StoreError, check_asked,
        directory::{Begun, DATA_VARIABLE, DataDirectory, Kept, USUAL_DATA, store_in},
    },
};
use trailtrap_shared::{
    class::Class,
    game::GameName,
    graph::MAX_ORDER,
    plan::{Goal, PlanOptions},
};
use trailtrap_worker::{
    memory,
    process::{
        limits::{self, Size},
        log,
        signals::Signals,
    },
    supply::depot::check_place,
};

use super::{
    preflight::{self, Extent, Shortage},
    report::CensusReport,
};
use crate::terminal;

/// The share of records that are tried, unless it is said.
pub const TRIED: &str = "1e-4";

/// What both commands take.
#[derive(Args)]
pub struct Common {
    /// The game: trail-trap or edge-geography [default: that of the data directory; trail-trap in
    /// a new one]
    #[arg(long, value_name = "GAME")]
    game: Option<GameName>,
    /// Only the graphs of a class that is closed under deleting edges: bipartite, triangle-free,
    /// square-free (no cycle of length four), girth:G (no cycle shorter than G, 4 to 12),
    /// max-degree:D (1 to 10), planar, outerplanar, forest, linear-forest; or all [default: that
    /// of the data directory; all in a new one]
    #[arg(long, value_name = "CLASS")]
    class: Option<Class>,
    /// Where results are kept; a run that was stopped goes on from there
    #[arg(long, value_name = "DIR", default_value = USUAL_DATA, env = DATA_VARIABLE)]
    data: PathBuf,
    /// Keep graphs and outcomes as files of this directory, not in the data directory: on a file
    /// system that workers see as well they name it with their own --depot, and then write and
    /// read blocks there, and send the coordinator their names. Or as objects of s3://BUCKET/PREFIX,
    /// if the programs were built with the feature s3, with credentials, region and endpoint in
    /// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the like. Needed
    /// as long as the data directory is; later runs know it, and need the flag only if it was moved
    #[arg(long, value_name = "DIR|URL")]
    depot: Option<PathBuf>,
    /// What to keep of the orders that this run does
    #[arg(long, value_enum, value_name = "WHAT", default_value = "all")]
    keep: KeepArgument,
    /// Do only graphs with at most so many edges of the last order, and of the orders before it
    /// only those that these are made from. Can be done with more edges later. An order of which
    /// something was taken back (see `trailtrap alarms`) is done as far as it was, if that is more
    #[arg(long, value_name = "EDGES")]
    max_size: Option<usize>,
    /// Start even though disk or memory do not seem to suffice, or finished orders have to be solved
    /// again since their graphs were not kept
    #[arg(long)]
    force: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Derive records again from their predecessors, with nauty, before results are let in: one
    /// step of the recurrence, without code of the kernel. A unit is drawn with probability p, and
    /// of it min(1, 16 · RATE) of its records, at least one; 1 tries all. A trial reads
    /// predecessors, R bytes of them, from the store;
    /// p = max(RATE, min(1/16, (U/2 + min(B/4, 768 KiB))/16R)) for a unit of U bytes, with buckets
    /// of B bytes (--bucket-size), as the plan expects them: so trials read less than a tenth of
    /// what is solved where orders are large, and with buckets of 3MiB and more p is 1/16 for all
    /// units of orders up to 9. Where `census` solves, records are tried besides, with
    /// p = max(1/16, RATE), against the predecessors in memory that they were solved from (against
    /// the store where these are more than 8192 records of a unit, or all), so that each record is
    /// tried with probability RATE at least. A worker that gets a share f of the records wrong in
    /// a unit of g graphs goes unnoticed with probability 1 − p · (1 − (1 − f)^s), where
    /// s = max(1, g · min(1, 16 · RATE)), about; `trailtrap plan` tells how many units are drawn,
    /// and what share of the bytes they have. With 1 no wrong record is let in. 0 turns it off.
    /// Everything else that a worker states is checked whatever the rate; what `census` solves in
    /// its own process is counted again in the units drawn only, and with 0 in none, but in classes
    /// that degrees do not tell in all
    #[arg(long, value_name = "RATE", default_value = TRIED, hide_short_help = true,
          value_parser = parse_share)]
    sample: f64,
    #[command(flatten)]
    splitting: Splitting,
}

/// How shards are split.
#[derive(Args)]
pub struct Splitting {
    /// Split shards with more graphs than this into parts (applies to orders not yet begun)
    /// [default: 4194304, or fewer where `census`, or a worker that is there when the order is
    /// begun, has little memory; of workers not if --bucket-size is given]
    #[arg(long, value_name = "GRAPHS", hide_short_help = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    part_graphs: Option<u64>,
    /// Split partitions larger than this into buckets (applies to orders not yet begun)
    /// [default: 64MiB, or less where there is little memory: a sixteenth of it, or of half of the
    /// least that a worker has, and 1 MiB at least; of workers not if --part-graphs is given]
    #[arg(long, value_name = "SIZE", hide_short_help = true,
          value_parser = limits::parse_size_from::<LEAST_BUCKET>)]
    bucket_size: Option<Size>,
}

/// Bytes of a bucket that hold a few graphs. As with fewer, tasks and files have no end.
const LEAST_BUCKET: u64 = 100;

impl Splitting {
    /// Whether nothing is said.
    fn is_usual(&self) -> bool {
        self.part_graphs.is_none() && self.bucket_size.is_none()
    }

    /// For a solver that has so much memory, if it is in this process: unless it is said, parts
    /// and buckets follow that.
    pub fn options(&self, memory: Option<Size>) -> PlanOptions {
        let usual = memory.map_or_else(PlanOptions::default, |memory| memory::splitting(memory.0));
        PlanOptions {
            part_graphs: self.part_graphs.unwrap_or(usual.part_graphs),
            bucket_bytes: self.bucket_size.map_or(usual.bucket_bytes, |size| size.0),
        }
    }

    /// For workers of which none has less memory than so much: unless something is said, parts and
    /// buckets follow that.
    pub fn options_for_workers(&self, least_memory: Size) -> PlanOptions {
        match self.is_usual() {
            true => memory::splitting_for_workers(least_memory.0),
            false => self.options(None),
        }
    }
}

/// What to keep of a finished order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeepArgument {
    /// The outcome of every position of every graph
    All,
    /// P1-win graphs and statistics, and the graphs of the last order, from which the next one is
    /// generated; outcomes go when all graphs with two edges more are done, so that those that are
    /// found damaged until then can be solved again alone. Of an order limited by --max-size the
    /// outcomes of the graphs with most edges stay, from which it is continued
    Graphs,
    /// P1-win graphs and statistics; of the last order, outcomes go as soon as no unfinished shard
    /// needs them, and graphs with them, so that the next one cannot be generated, nor an order
    /// limited by --max-size continued, unless it is done again (`--force`), and that damage may
    /// cost the order. An order that is continued from graphs that were kept loses them when that
    /// is done
    Minimal,
}

impl From<KeepArgument> for Keep {
    fn from(argument: KeepArgument) -> Self {
        match argument {
            KeepArgument::All => Keep::All,
            KeepArgument::Graphs => Keep::Graphs,
            KeepArgument::Minimal => Keep::Minimal,
        }
    }
}

/// An order from 1 to 20.
pub fn parse_order(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(order @ 1..=MAX_ORDER) => Ok(order),
        _ => Err(format!("an order is a number of vertices from 1 to {MAX_ORDER}")),
    }
}

/// A share from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1, such as 0.01 or 1e-4".to_owned()),
    }
}

/// Exit code of what a signal has stopped. The same command goes on with a census.
pub const EXIT_STOPPED: u8 = 130;

/// What a signal cancels; a second one ends the process. The runtime has the signals delivered, on
/// one thread, as long as it exists.
///
/// # Errors
/// If the system does not grant what that takes.
pub fn stopping() -> io::Result<(Runtime, CancellationToken)> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let stop = Signals::stopping(&runtime, EXIT_STOPPED)?;
    Ok((runtime, stop))
}

impl Common {
    /// The options of a census whose solver has so much memory, if it is in this process.
    pub fn options(
        &self,
        order: usize,
        lease_term: Duration,
        memory: Option<Size>,
    ) -> CensusOptions {
        CensusOptions {
            game: self.game,
            class: self.class,
            goal: self.goal(order),
            keep: self.keep.into(),
            solves_again: self.force,
            plan: self.splitting.options(memory),
            fits_workers: self.splitting.is_usual() && memory.is_none(),
            memory: memory.map(|memory| memory.0),
            lease_term,
            trial_rate: self.sample,
            compared_share: 0.0,
            gather: Duration::from_secs(1),
            clock: Instant::now,
        }
    }

    /// Opens the census of a directory, whose larger blocks are kept on shelves, if some are given.
    pub fn open(
        &self,
        directory: &DataDirectory,
        options: CensusOptions,
        shelves: Option<KeptIn>,
    ) -> anyhow::Result<Arc<Census>> {
        let depot = || self.depot.as_deref().map_or(KeptIn::TheSame, KeptIn::Depot);
        let kept = shelves.unwrap_or_else(depot);
        let census = Census::open_with(&directory.store(), kept, options)
            .map_err(|error| self.explained(error))?;
        directory.keep_others_out();
        Ok(census)
    }

    /// Whether nothing of an order is kept that the next one does not need.
    pub fn keeps_least(&self) -> bool {
        self.keep == KeepArgument::Minimal
    }

    fn goal(&self, order: usize) -> Goal {
        Goal::new(order, self.max_size)
    }

    /// Takes the directory, if there is room for what is to come there, and in a depot; shelves of
    /// workers and object stores do not say what room they have. A coordinator holds no partitions,
    /// and has no budget. Says, too, where larger blocks are to be kept: as it was said, or where they
    /// were before.
    pub fn prepare(
        &self,
        order: usize,
        memory: Option<Size>,
        shelves: bool,
    ) -> anyhow::Result<(DataDirectory, Kept)> {
        let goal = self.goal(order);
        self.depot.as_deref().map_or(Ok(()), check_place)?;
        // Unless it is said, the class is that of the store, if there is one.
        if self.class.is_some() || !self.data.exists() {
            preflight::check_order(self.class.unwrap_or_default(), goal)?;
        }
        let directory = DataDirectory::take(&self.data)?;
        let own = self.data.canonicalize().ok();
        if own.is_some() && self.depot.as_ref().and_then(|depot| depot.canonicalize().ok()) == own
        {
            bail!(
                "--depot {} is the data directory: choose another directory",
                self.data.display()
            );
        }
        if let Some(depot) = self.depot.as_ref().filter(|depot| store_in(depot).exists()) {
            bail!(
                "--depot {} is the data directory of another census: choose another directory",
                depot.display()
            );
        }
        let place = || format!("data directory {}", self.data.display());
        let begun = directory.begun(goal).with_context(place)?;
        if let Some(Begun { game, class, .. }) = begun {
            check_asked((game, class), self.game, self.class).with_context(place)?;
        }
        let is_begun = begun.is_some();
        let begun = begun.unwrap_or_else(|| Begun {
            game: self.game.unwrap_or_default(),
            class: self.class.unwrap_or_default(),
            kept: Kept::Here,
            needs_shelves: false,
            is_done: false,
        });
        let kept = match (shelves, &self.depot) {
            (true, _) => Kept::OnShelves,
            (false, Some(depot)) => Kept::InDepot(depot.clone()),
            // What nothing lies on can be left.
            (false, None) if begun.kept == Kept::OnShelves && !begun.needs_shelves => {
                if self.keeps_least() { Kept::OnShelves } else { Kept::Here }
            }
            (false, None) => begun.kept,
        };
        if !begun.is_done {
            let Begun { game, class, .. } = begun;
            let goal = goal.of_class(class);
            preflight::check_order(class, goal)?;
            // A coordinator with shelves has names, and little else.
            let is_looked_at = !matches!(kept, Kept::OnShelves) || memory.is_some();
            if !self.force && is_looked_at {
                let extent = Extent::new(game, class, goal);
                let (keep, data) = (self.keep.into(), directory.path());
                // What is forced for one reason is forced for all.
                let also = |shortage: Shortage| match is_begun {
                    true => anyhow::anyhow!(
                        "{shortage}; that also has orders of this directory solved again whose \
                         graphs are gone and needed"
                    ),
                    false => shortage.into(),
                };
                let check =
                    |depot| preflight::check_disk(&extent, keep, data, depot).map_err(also);
                match &kept {
                    Kept::OnShelves => {}
                    Kept::Here => check(None)?,
                    Kept::InDepot(depot) => check(Some(depot))?,
                }
                if let Some(memory) = memory {
                    preflight::check_memory(&extent, memory).map_err(also)?;
                }
            }
        }
        Ok((directory, kept))
    }

    pub fn print(&self, census: &Census, results: &[OrderResult]) -> anyhow::Result<()> {
        let report = CensusReport::new(census.game(), census.class(), results);
        let text = if self.json { report.to_json() } else { report.to_table() };
        terminal::print(&(text + "\n"))
    }

    /// Closes the census, prints its results, or says why there are none.
    pub fn finish(&self, census: &Census, directory: &DataDirectory) -> anyhow::Result<ExitCode> {
        let status = CensusStatus {
            running: false,
            process: None,
            workers: Vec::new(),
            ..CensusStatus::with_withdrawn(census)
        };
        let closed = census.close();
        conclude(census, directory, &status);
        match closed {
            Ok(Some(results)) => self.print(census, &results).map(|()| ExitCode::SUCCESS),
            Ok(None) => {
                log::say(
                    "trailtrap: stopped; everything finished is kept. The same command goes on \
                     from there",
                );
                Ok(ExitCode::from(EXIT_STOPPED))
            }
            Err(error) => Err(self.explained(error)),
        }
    }

    /// What ended the census, or kept it from being opened, with the directory where it was and,
    /// where a disk is full, what to do.
    pub fn explained(&self, error: CensusError) -> anyhow::Error {
        let data = self.data.display();
        match error {
            CensusError::Store(error) if error.is_disk_full() => anyhow::anyhow!(
                "the disk of {data}, or of its depot, is full; everything finished is kept. Make \
                 room, and the same command goes on ({error})"
            ),
            error => anyhow::Error::new(error).context(format!("data directory {data}")),
        }
    }
}

/// Why a store cannot be written and, where its disk is full, what to do.
pub fn full_or(error: StoreError, data: &Path) -> anyhow::Error {
    match error.is_disk_full() {
        true => anyhow::anyhow!(
            "the disk of {} is full: nothing is changed; make room, and do it again ({error})",
            data.display()
        ),
        false => error.into(),
    }
}

/// Leaves the last status of a run for onlookers, and says what trials took and which alarms are
/// open.
pub fn conclude(census: &Census, directory: &DataDirectory, status: &CensusStatus) {
    directory.publish(status);
    let tried = census.tried();
    if tried.bytes_examined > 0 {
        log::say(&format!("trailtrap: {}", told(&tried)));
    }
    if let Some(withdrawn) = &status.withdrawn {
        log::say(&format!("trailtrap: {withdrawn}"));
    }
    for (number, alarm) in status.alarms.iter().filter(|(_, alarm)| alarm.settled.is_none()) {
        log::say(&format!("trailtrap: {}", alarm.line(*number)));
    }
}

/// What trials took, and what was counted again of units that were delivered by name, such as
/// `tried 1185 records of 986 units; …`.
fn told(tried: &Tried) -> String {
    let Tried { units, records, bytes_read, bytes_examined, bytes_named, bytes_counted } = *tried;
    let share = |some: u64, all: u64| {
        format!("{:.3} ({} of {})", some as f64 / all as f64, Size(some), Size(all))
    };
    let mut told = format!(
        "tried {records} records of {units} units; bytes read for each byte delivered: {}",
        share(bytes_read, bytes_examined)
    );
    if bytes_named > 0 {
        let counted = share(bytes_counted, bytes_named);
        told += &format!("; counted here, of what was delivered by name: {counted}");
    }
    told
}

/// Does something and shows the progress of the census meanwhile: a bar on a terminal that can draw
/// one, a line every ten seconds elsewhere.
pub fn watched<T>(census: &Census, directory: &DataDirectory, work: impl FnOnce() -> T) -> T {
    let (working, done) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || watch(census, directory, &done));
        let result = work();
        drop(working);
        result
    })
}

/// Until the other end of the channel is gone.
fn watch(census: &Census, directory: &DataDirectory, done: &Receiver<()>) {
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr_with_hz(5));
    // On a terminal, too, unless TERM says what it can draw.
    let is_drawn = !bar.is_hidden();
    let style =
        ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a valid template");
    bar.set_style(style);
    let start = Instant::now();
    let mut printed = start;
    let mut pause = Duration::from_millis(50);
    while done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = Duration::from_secs(1);
        let status = CensusStatus::of(census);
        directory.publish(&status);
        let Some(order) = &status.order else { continue };
        let share = order.share();
        let left = status.seconds_left.map_or_else(|| "?".to_owned(), duration);
        let mut message = format!(
            "{:.1} %, {} graphs, {:.2} M pairs/s, {left} left",
            100.0 * share,
            order.graphs_text(),
            status.pairs_per_second / 1e6
        );
        if order.units_to_compare > 0 && order.units_ready == 0 && order.units_leased == 0 {
            message = format!(
                "{} units wait for another worker, or the coordinator if no alarm blames it, to \
                 solve them a second time",
                order.units_to_compare
            );
        }
        if is_drawn && start.elapsed() > Duration::from_secs(1) {
            bar.set_prefix(order.name());
            bar.set_position((1000.0 * share) as u64);
            bar.set_message(message);
        } else if !is_drawn && printed.elapsed() > Duration::from_secs(10) {
            printed = Instant::now();
            log::say(&format!("{}: {message}", order.name()));
        }
    }
    bar.finish_and_clear();
}
