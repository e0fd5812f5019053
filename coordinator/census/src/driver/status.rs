//! The status of a census in progress.

use super::Census;
use crate::{
    read::{
        finished,
        status::{CensusStatus, OrderStatus, SetAside, WorkerStatus, class_name, game_name},
    },
    store::directory::{DataDirectory, STATUS},
};

impl CensusStatus {
    /// The status of a census of this process, with the results that are withdrawn, which are looked up
    /// in its store.
    pub fn with_withdrawn(census: &Census) -> Self {
        // A store that cannot be read is told of by whoever closes it.
        let withdrawn = finished::told_of_withdrawn(&census.store).ok().flatten();
        CensusStatus { withdrawn, ..Self::of(census) }
    }

    /// The status of a census of this process.
    pub fn of(census: &Census) -> Self {
        let progress = census.progress();
        let since = |moment| progress.elapsed.saturating_sub(moment).as_secs_f64();
        let rate = progress.pairs_per_second;
        let left = progress.pairs.saturating_sub(progress.pairs_done);
        let in_work = progress.shards > 0;
        let (results, alarms) = (census.results(), census.alarms());
        let mut workers = census.workers();
        workers.sort_by(|(_, a, _), (_, b, _)| a.author.name().cmp(b.author.name()));
        CensusStatus {
            running: true,
            process: Some(std::process::id()),
            game: game_name(census.game()),
            class: class_name(census.class()),
            target_order: progress.target,
            orders_done: results.iter().map(|result| result.order).collect(),
            orders_limited: results
                .iter()
                .filter_map(|result| Some((result.order, result.limit()?)))
                .collect(),
            orders_disputed: results
                .iter()
                .map(|result| result.order)
                .filter(|&order| alarms.iter().any(|(_, alarm)| alarm.is_open_about(order)))
                .collect(),
            order: in_work.then_some(OrderStatus {
                order: progress.order,
                max_size: progress.max_size,
                shards_done: progress.shards_done,
                shards: progress.shards,
                units_ready: progress.units_ready,
                units_leased: progress.units_leased,
                graphs_done: progress.graphs_done,
                graphs: progress.graphs,
                pairs_done: progress.pairs_done,
                pairs: progress.pairs,
                units_to_compare: progress.units_to_compare,
                set_aside: progress
                    .set_aside
                    .into_iter()
                    .map(|set_aside| SetAside {
                        sequence: set_aside.sequence.to_string(),
                        part: set_aside.unit.part,
                        failures: set_aside.failures,
                    })
                    .collect(),
            }),
            alarms,
            withdrawn: None,
            workers: workers
                .into_iter()
                .filter(|(_, worker, _)| !worker.dismissed)
                .map(|(_, worker, units_leased)| WorkerStatus {
                    units_leased,
                    units_done: worker.units,
                    pairs_per_second: worker.pairs as f64 / since(worker.since).max(0.001),
                    seconds_since_heard: since(worker.seen),
                    name: worker.author.name().to_owned(),
                    threads: worker.threads,
                    kernel: worker.author.kernel().to_owned(),
                })
                .collect(),
            pairs_per_second: rate,
            seconds_left: (in_work && rate > 0.0 && progress.pairs > 0)
                .then(|| left as f64 / rate),
            seconds_running: progress.elapsed.as_secs_f64(),
        }
    }
}

impl DataDirectory {
    /// Leaves a snapshot for onlookers.
    pub fn publish(&self, status: &CensusStatus) {
        if let Err(error) = status.write(&self.path().join(STATUS)) {
            tracing::debug!(%error, "cannot write the status");
        }
    }
}
