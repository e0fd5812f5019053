//! `trailtrap plan`: what a census of an order takes, before anything runs.

use std::{process::ExitCode, sync::atomic::AtomicBool};

use clap::Args;
use serde::Serialize;
use trailtrap_census::read::status::duration;
use trailtrap_shared::{
    class::Class,
    game::GameName,
    graph::polya::{graphs_by_size, totals},
    labelling::batch::Kernel,
    partition::entry_bytes,
    plan::{Goal, Plan, PlanOptions, order_name},
};
use trailtrap_worker::{
    kernel::{SolveError, Solver},
    link::memory,
    process::{
        limits::{self, Size},
        log,
    },
};

use super::{preflight, run::parse_order};
use crate::terminal;

/// Tells what the census of an order takes: shards, graphs, work, space, and time by a short
/// calibration on this machine.
///
/// Counts are exact. The time is an estimate for the order alone, without the orders below it,
/// which take a few per cent of it. Of a class of graphs, shards and units are told, and how many
/// graphs there are if that has been published.
#[derive(Args)]
pub struct PlanCommand {
    /// The order
    #[arg(value_name = "N", value_parser = parse_order)]
    order: usize,
    /// Only graphs with at most so many edges
    #[arg(long, value_name = "EDGES")]
    max_size: Option<usize>,
    /// The game: trail-trap or edge-geography
    #[arg(long, value_name = "GAME", default_value_t)]
    game: GameName,
    /// The class of graphs, as `trailtrap census` takes it
    #[arg(long, value_name = "CLASS", default_value_t)]
    class: Class,
    /// Threads to estimate the time for [default: the processors this process may use]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Instruction set to calibrate with: auto, portable, avx2 or avx512
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What an order takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub order: usize,
    /// Graphs with more edges are left out, if not all are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
    pub shards: usize,
    /// Shards and parts of shards.
    pub units: u64,
    pub graphs: u64,
    /// (graph, edge) pairs.
    pub pairs: u64,
    /// Bytes of keys and outcomes.
    pub bytes_stored: u64,
    /// Bytes of the two neighbouring numbers of edges that hold most: what is read and written at
    /// the widest place.
    pub bytes_widest: u64,
    /// Bytes that look-ups read if no partition is kept between two shards that read it.
    pub bytes_read_uncached: u64,
    /// Bytes of the partitions that the most demanding shard reads.
    pub bytes_largest_input: u64,
    pub core_seconds: f64,
}

/// What is known beforehand of an order of a class of graphs.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Outline {
    order: usize,
    class: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_size: Option<usize>,
    shards: usize,
    /// Shards and parts of shards.
    units: u64,
    /// Graphs of the order with any number of edges, if that has been published.
    graphs: Option<u64>,
    /// Bytes of their keys and outcomes.
    bytes_stored: Option<u64>,
}

impl Outline {
    fn of(game: GameName, class: Class, goal: Goal) -> Self {
        let (order, layout) = (goal.order, game.layout().on(class));
        let plan = Plan::new(layout, order, PlanOptions::default()).limited(goal.max_size(order));
        let graphs = class.known_graphs(order);
        Outline {
            order,
            class: class.to_string(),
            max_size: plan.limit(),
            shards: plan.shards.len(),
            units: plan.shards.iter().map(|shard| u64::from(shard.parts)).sum(),
            graphs,
            bytes_stored: graphs.map(|graphs| graphs * entry_bytes(layout, order) as u64),
        }
    }

    fn to_text(&self) -> String {
        let known = |number: Option<String>| number.unwrap_or_else(|| "not known".to_owned());
        let lines = [
            format!("{}, class {}", order_name(self.order, self.max_size), self.class),
            format!("  shards                    {}", self.shards),
            format!("  units (shards and parts)  {}", self.units),
            format!("  graphs of the order       {}", known(self.graphs.map(|n| n.to_string()))),
            format!(
                "  stored, all of them       {}",
                known(self.bytes_stored.map(|bytes| Size(bytes).to_string()))
            ),
            String::new(),
        ];
        lines.join("\n")
    }
}

/// What the calibration found.
#[derive(Clone, Copy, Debug)]
struct Calibration {
    seconds_per_pair: f64,
    seconds_per_unit: f64,
}

/// Orders from here on are beyond one machine.
const CLUSTER_ORDER: usize = 12;
/// Order that the calibration solves; about two seconds of a core.
const CALIBRATION_ORDER: usize = 9;

impl PlanCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        preflight::check_order(self.order)?;
        let goal = Goal::new(self.order, self.max_size);
        if self.class != Class::All {
            let outline = Outline::of(self.game, self.class, goal);
            terminal::print(&match self.json {
                true => serde_json::to_string(&outline)? + "\n",
                false => outline.to_text(),
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        log::say("calibrating …");
        let threads = self.threads.map_or_else(limits::threads, usize::from);
        let forecast = forecast(self.game, goal, &calibrate(self.game, self.kernel)?);
        terminal::print(&if self.json {
            serde_json::to_string(&forecast)? + "\n"
        } else {
            forecast.to_text(threads)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn forecast(game: GameName, goal: Goal, calibration: &Calibration) -> Forecast {
    let Goal { order, .. } = goal;
    let max_size = goal.max_size(order);
    let plan = Plan::new(game.layout(), order, PlanOptions::default()).limited(max_size);
    let (graphs, pairs) = totals(order, max_size);
    let bytes = entry_bytes(game.layout(), order) as u64;
    let sizes = &graphs_by_size(order)[..=max_size];
    // Shards are known by a lower bound; together they hold `graphs`.
    let estimated: u64 = plan.shards.iter().map(|shard| shard.estimate).sum();
    let share =
        |estimate: u64| (u128::from(estimate) * u128::from(graphs) / u128::from(estimated)) as u64;
    let inputs = plan.shards.iter().map(|shard| {
        let read = shard
            .predecessors
            .iter()
            .map(|&p| share(plan.shards[p as usize].estimate))
            .sum::<u64>();
        (read * bytes, read * bytes * u64::from(shard.parts))
    });
    let (largest, uncached) =
        inputs.fold((0, 0), |(largest, sum), (one, all)| (one.max(largest), sum + all));
    let units = plan.shards.iter().map(|shard| u64::from(shard.parts)).sum();
    Forecast {
        order,
        max_size: plan.limit(),
        shards: plan.shards.len(),
        units,
        graphs,
        pairs,
        bytes_stored: graphs * bytes,
        bytes_widest: sizes.windows(2).map(|pair| pair[0] + pair[1]).max().unwrap_or(graphs)
            * bytes,
        bytes_read_uncached: uncached,
        bytes_largest_input: largest,
        core_seconds: pairs as f64 * calibration.seconds_per_pair
            + units as f64 * calibration.seconds_per_unit,
    }
}

/// Solves a small order on one thread, and splits the time of its shards into a part for each pair
/// and one for each unit, by least squares.
fn calibrate(game: GameName, kernel: Kernel) -> Result<Calibration, SolveError> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let mut samples: Vec<(f64, f64)> = Vec::new();
    pool.install(|| {
        let options = PlanOptions::default();
        let solver =
            Solver { game, kernel, allowance_bytes: usize::MAX, stop: &AtomicBool::new(false) };
        memory::census_with(CALIBRATION_ORDER, options, &solver, &mut |plan, solved| {
            if plan.order == CALIBRATION_ORDER {
                let size = plan.shards[solved.unit.shard as usize].size;
                let pairs = solved.summary.statistics.classes.all.graphs as f64 * size as f64;
                samples.push((pairs, solved.elapsed.as_secs_f64()));
            }
        })
    })?;
    let count = samples.len() as f64;
    let sum = |f: fn(&(f64, f64)) -> f64| samples.iter().map(f).sum::<f64>();
    let (x, y, xx, xy) = (sum(|s| s.0), sum(|s| s.1), sum(|s| s.0 * s.0), sum(|s| s.0 * s.1));
    let seconds_per_pair = (count * xy - x * y) / (count * xx - x * x);
    Ok(Calibration {
        seconds_per_pair,
        seconds_per_unit: ((y - seconds_per_pair * x) / count).max(0.0),
    })
}

impl Forecast {
    fn to_text(&self, threads: usize) -> String {
        let wall = |cores: usize| duration(self.core_seconds / cores as f64);
        let mut lines = vec![
            order_name(self.order, self.max_size),
            format!("  shards                    {}", self.shards),
            format!("  units (shards and parts)  {}", self.units),
            format!("  graphs                    {}", self.graphs),
            format!("  (graph, edge) pairs       {:.2e}", self.pairs as f64),
            format!("  stored                    {}", Size(self.bytes_stored)),
            format!("  widest two edge counts    {}", Size(self.bytes_widest)),
            format!("  input of one shard        up to {}", Size(self.bytes_largest_input)),
            format!(
                "  time                      {:.3} core-hours: {} on {threads} threads",
                self.core_seconds / 3600.0,
                wall(threads)
            ),
        ];
        if self.order >= CLUSTER_ORDER {
            lines.push(format!("  read without any cache    {}", Size(self.bytes_read_uncached)));
            lines.push(String::new());
            lines.push(
                "  cores   wall time   each worker of 16 cores fetches   network and disk \
                        sustain, with and without caches"
                    .to_owned(),
            );
            for cores in [64, 256, 1024, 4096] {
                let seconds = self.core_seconds / cores as f64;
                let workers = (cores / 16) as u64;
                // With perfect caches a worker reads at most every partition once; without, its
                // share of all reads.
                let cached = self.bytes_stored.min(self.bytes_read_uncached / workers);
                let rate = |bytes: u64| Size((bytes as f64 / seconds) as u64);
                lines.push(format!(
                    "  {cores:5}   {:>9}   {:>14}                     {}/s to {}/s",
                    wall(cores),
                    Size(cached).to_string(),
                    rate(self.bytes_stored + cached * workers),
                    rate(self.bytes_stored + self.bytes_read_uncached),
                ));
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}
