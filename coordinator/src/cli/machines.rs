//! The machines that a census is forecast for, as people describe them.

use anyhow::ensure;
use clap::Args;
use trailtrap_shared::{
    game::GameName,
    graph::polya::totals,
    labelling::batch::Kernel,
    plan::{Goal, PlanOptions},
};
use trailtrap_worker::process::{
    limits::{self, LEAST_BUDGET, Size},
    log,
};

use super::{
    coordinator::{LEAST_MESSAGE_MEMORY, message_memory},
    run::{Splitting, TRIED, parse_share},
};
use crate::forecast::{Cluster, Forecast, Question, Rate, calibrate, simulate};

/// Machines, and what of a census matters to them.
#[derive(Args)]
pub struct MachineArguments {
    /// Workers on so many nodes, beside a coordinator [default: one process does everything, as
    /// `census`; a rehearsal has to have some]
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub nodes: Option<u16>,
    /// Solving threads of each node, and cores of the coordinator [default: the processors this
    /// process may use]
    #[arg(long, alias = "threads", value_name = "C",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,
    /// Budget of each worker, as with `census --memory` [default: six tenths of what is available
    /// here]
    #[arg(long, value_name = "SIZE", value_parser = limits::parse_size_from::<LEAST_BUDGET>)]
    memory: Option<Size>,
    /// Network interface of each node, such as 10Gbit
    #[arg(long, value_name = "RATE", default_value = "10Gbit", requires = "nodes")]
    network: Rate,
    /// As with `coordinator --message-memory`: a quarter of it bounds how much is leased together
    /// [default: an eighth of --memory, and 512 MiB at least]
    #[arg(long, value_name = "SIZE", requires = "nodes",
          value_parser = limits::parse_size_from::<LEAST_MESSAGE_MEMORY>)]
    message_memory: Option<Size>,
    /// What the disk of the store, or of each node with --shelves, reads or writes, such as 2GB/s
    #[arg(long, value_name = "RATE", default_value = "1GB/s")]
    disk: Rate,
    /// What a depot, in which the census keeps its blocks, reads and writes for all nodes together
    /// [default: no depot; nodes read from the coordinator, or with --shelves from each other]
    #[arg(long, value_name = "RATE", requires = "nodes")]
    depot: Option<Rate>,
    /// Nodes keep blocks on their own disks, for each other, as with `coordinator --shelves`: each
    /// reads and writes what its network and --disk allow
    #[arg(long, requires = "nodes", conflicts_with = "depot")]
    shelves: bool,
    /// Nanoseconds of a core for a (graph, edge) pair [default: calibrated with order 9, its requests
    /// to large predecessors, and look-ups in larger tables than it has]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pair: Option<u32>,
    /// Share of records that is tried, as with `census --sample`
    #[arg(long, value_name = "RATE", default_value = TRIED, value_parser = parse_share)]
    sample: f64,
    #[command(flatten)]
    splitting: Splitting,
    /// Instruction set to calibrate with: auto, portable, avx2 or avx512
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    kernel: Kernel,
}

/// Smaller buckets would be more than can be looked at one by one.
const LEAST_SIMULATED: u64 = 4 << 10;

impl MachineArguments {
    fn cluster(&self) -> Cluster {
        let memory = self.memory.unwrap_or_else(limits::default_memory);
        let nodes = self.nodes.map(usize::from);
        // All of them together are as one depot, since each block lies on any two.
        let all_shelves = nodes.unwrap_or(1) as f64 * self.network.0.min(self.disk.0);
        Cluster {
            nodes,
            cores: self.cores.map_or_else(limits::threads, usize::from),
            memory: memory.0,
            message_memory: self.message_memory.unwrap_or_else(|| message_memory(memory)).0,
            network: self.network.0,
            disk: self.disk.0,
            depot: if self.shelves { Some(all_shelves) } else { self.depot.map(|rate| rate.0) },
            shelves: self.shelves,
        }
    }

    /// How orders are split on them, as `census` or a coordinator splits them.
    pub fn plan_options(&self) -> PlanOptions {
        let Cluster { nodes, memory, .. } = self.cluster();
        match nodes {
            Some(_) => self.splitting.options_for_workers(Size(memory)),
            None => self.splitting.options(Some(Size(memory))),
        }
    }

    /// What a census takes on them, and what exactly was asked. Calibrates here, and simulates:
    /// order 12 takes half a minute.
    pub fn forecast(&self, game: GameName, goal: Goal) -> anyhow::Result<(Question, Forecast)> {
        let (cluster, options) = (self.cluster(), self.plan_options());
        ensure!(
            options.bucket_bytes >= LEAST_SIMULATED,
            "--bucket-size {} makes too many buckets to simulate: use {} at least",
            Size(options.bucket_bytes),
            Size(LEAST_SIMULATED)
        );
        let question = Question { game, goal, options, trial_rate: self.sample };
        log::say("calibrating …");
        let threads = cluster.cores.min(limits::threads());
        let (graphs, _) = totals(goal.order, goal.max_size(goal.order));
        let most_entries = match self.pair {
            Some(_) => 0.0,
            None => cluster.entries_held(game.layout(), goal.order).min(graphs as f64),
        };
        let mut calibration = calibrate(game, self.kernel, threads, most_entries)?;
        if let Some(nanoseconds) = self.pair {
            calibration = calibration.with_pair(nanoseconds);
        }
        log::say(&format!("simulating {cluster} …"));
        Ok((question, simulate(&question, calibration, cluster)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use trailtrap_worker::memory;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        machines: MachineArguments,
    }

    /// One process is to hold a part, and workers on nodes a cache besides, unless people say how
    /// to split.
    #[test]
    fn orders_are_split_as_a_census_on_these_machines_splits_them() {
        let options = |line: &str| {
            let line = format!("plan --memory 256MiB {line}");
            Line::try_parse_from(line.split_whitespace()).unwrap().machines.plan_options()
        };
        assert_eq!(options(""), memory::splitting(256 << 20));
        assert_eq!(options("--nodes 3"), memory::splitting_for_workers(256 << 20));
        assert!(options("--nodes 3").part_graphs < options("").part_graphs);
        let said = PlanOptions { part_graphs: 1000, ..PlanOptions::default() };
        assert_eq!(options("--nodes 3 --part-graphs 1000"), said);
    }
}
