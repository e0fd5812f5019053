//! `trailtrap plan`: what a census of an order takes, before anything runs.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use trailtrap_census::read::status::duration;
use trailtrap_shared::{
    class::Class,
    game::GameName,
    plan::{Goal, Plan, PlanOptions, order_name},
};
use trailtrap_worker::process::limits::Size;

use super::{
    machines::MachineArguments,
    plan_sample::PlanSampleCommand,
    preflight,
    report::{core_hours, line},
    run::parse_order,
};
use crate::{
    forecast::{Forecast, stored_bytes},
    terminal,
};

/// Tells what the census of an order takes: shards, graphs, work, space, and time.
///
/// Counts are exact. Times follow from a short calibration on this machine. What caches, disks and
/// networks make of them is simulated, with the real schedule: on this machine, or on others that
/// --nodes, --cores, --memory, --network, --disk and --depot or --shelves describe. Order 12 takes
/// half a minute.
///
/// Of a class of graphs, shards and units are told, and how many graphs there are, and bytes of them,
/// if their number has been published. Times are not: of machines, only what --nodes and --memory say
/// of the size of parts and buckets matters there.
///
/// `trailtrap plan sample` tells what a sample of random graphs takes.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PlanCommand {
    #[command(subcommand)]
    other: Option<OtherPlan>,
    /// The order
    #[arg(value_name = "N", value_parser = parse_order, required = true)]
    order: Option<usize>,
    /// Only graphs with at most so many edges
    #[arg(long, value_name = "EDGES")]
    max_size: Option<usize>,
    /// The game: trail-trap or edge-geography
    #[arg(long, value_name = "GAME", default_value_t)]
    game: GameName,
    /// The class of graphs, as `trailtrap census` takes it
    #[arg(long, value_name = "CLASS", default_value_t)]
    class: Class,
    #[command(flatten)]
    machines: MachineArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What else can be planned.
#[derive(Subcommand)]
enum OtherPlan {
    Sample(PlanSampleCommand),
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
    /// Graphs of the order, if that has been published and no edges are left out.
    graphs: Option<u64>,
    /// Bytes of their keys and outcomes.
    bytes_stored: Option<u64>,
}

impl Outline {
    fn of(game: GameName, class: Class, goal: Goal, options: PlanOptions) -> Self {
        let (order, layout) = (goal.order, game.layout().on(class));
        let plan = Plan::up_to(layout, order, options, goal.max_size(order));
        // By number of edges they are not known.
        let graphs = class.known_graphs(order).filter(|_| plan.is_complete());
        let estimated: u64 = plan.shards.iter().map(|shard| shard.estimate).sum();
        let stored = |graphs: u64| {
            let each = graphs as f64 / estimated as f64;
            let of_shards: Vec<f64> =
                plan.shards.iter().map(|shard| shard.estimate as f64 * each).collect();
            stored_bytes(&plan, &of_shards).iter().sum::<f64>() as u64
        };
        Outline {
            order,
            class: class.to_string(),
            max_size: plan.limit(),
            shards: plan.shards.len(),
            units: plan.unit_count(),
            graphs,
            bytes_stored: graphs.map(stored),
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

impl PlanCommand {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(OtherPlan::Sample(command)) = self.other {
            return command.run();
        }
        let order = self.order.context("an order is missing")?;
        let goal = Goal::new(order, self.max_size).of_class(self.class);
        preflight::check_order(self.class, goal)?;
        if self.class != Class::All {
            let outline = Outline::of(self.game, self.class, goal, self.machines.plan_options());
            terminal::print_as(self.json, &outline, || outline.to_text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let (_, forecast) = self.machines.forecast(self.game, goal)?;
        terminal::print_as(self.json, &forecast, || to_text(&forecast))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn to_text(forecast: &Forecast) -> String {
    let Forecast { cluster, simulated, .. } = forecast;
    let times = |bytes: u64| {
        let times = bytes as f64 / simulated.bytes_made.max(1) as f64;
        format!("{} ({times:.2} for each byte made)", Size(bytes))
    };
    let busy = &simulated.busy;
    let title = |text: String| format!("{text}\n");
    let mut text = [
        title(order_name(forecast.order, forecast.max_size)),
        line("shards", forecast.shards.to_string()),
        line("units (shards and parts)", forecast.units.to_string()),
        line("graphs", forecast.graphs.to_string()),
        line("(graph, edge) pairs", format!("{:.2e}", forecast.pairs as f64)),
        line("stored", Size(forecast.bytes_stored).to_string()),
        line("widest two edge counts", Size(forecast.bytes_widest).to_string()),
        line("input of one shard", format!("up to {}", Size(forecast.bytes_largest_input))),
        line("read without any cache", Size(forecast.bytes_read_uncached).to_string()),
        line(
            "solving",
            format!(
                "{}, at {:.0} ns a pair",
                core_hours(forecast.core_seconds),
                forecast.core_seconds / forecast.pairs.max(1) as f64 * 1e9
            ),
        ),
        title(format!("all orders up to it: {cluster}")),
        line("wall time", duration(simulated.wall_seconds)),
        line("labellings of a pair", format!("{:.3}", simulated.labellings_per_pair)),
        line("read by workers", times(simulated.bytes_read)),
        line("found in caches", format!("{:.1} % of tables", 100.0 * simulated.found_in_cache)),
        line("read by trials", times(simulated.bytes_read_by_trials)),
        line(
            "tried units",
            format!(
                "{:.0}, with {:.2} % of what is made",
                simulated.units_tried,
                100.0 * simulated.bytes_in_units_tried / simulated.bytes_made.max(1) as f64
            ),
        ),
    ]
    .concat();
    if cluster.nodes.is_some() {
        text += &line("through the coordinator", times(simulated.bytes_through_coordinator));
    }
    text += &line(
        "store at its fullest",
        format!(
            "{}; {} with --keep graphs, {} with --keep minimal",
            Size(simulated.store.all),
            Size(simulated.store.graphs),
            Size(simulated.store.minimal)
        ),
    );
    text += &line("memory of a worker", format!("up to {}", Size(simulated.worker_memory)));
    text += &line("busy: solving threads", core_hours(busy.solving_core_seconds));
    if cluster.nodes.is_some() {
        text += &line("busy: receiving, counting", core_hours(busy.counting_core_seconds));
        if cluster.depot.is_some() {
            let elsewhere = core_hours(busy.counting_elsewhere_core_seconds);
            text += &line("busy: workers counting", elsewhere);
        }
        text += &line("busy: network interface", duration(busy.network));
    }
    if cluster.depot.is_some() {
        let place = if cluster.shelves { "busy: shelves" } else { "busy: depot" };
        text += &line(place, duration(busy.depot));
    }
    text += &line("busy: disk", duration(busy.disk));
    text += &line("busy: trials", duration(busy.trials));
    text
}
