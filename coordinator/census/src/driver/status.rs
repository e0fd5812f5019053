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
    /// Leaves a snapshot for onlookers: without what alarms are about, as one is left every second.
    pub fn publish(&self, status: &CensusStatus) {
        if let Err(error) = status.clone().brief().write(&self.path().join(STATUS)) {
            tracing::debug!(%error, "cannot write the status");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use trailtrap_shared::{graph::degree::DegreeSequence, plan::Unit};

    use super::*;
    use crate::records::alarm::{Alarm, AlarmKind};

    #[test]
    fn a_snapshot_does_not_grow_with_what_is_doubted() {
        let place = tempfile::tempdir().unwrap();
        let directory = DataDirectory::take(&place.path().join("data")).unwrap();
        let unit = Unit { order: 7, shard: 3, part: 0 };
        let sequence = DegreeSequence::new([0; 7]);
        let length = |doubted: usize| {
            let alarm = Alarm::at(0, AlarmKind::Trial, unit, &sequence, "wrong".to_owned());
            let alarm = Arc::new(Alarm { doubted: vec![unit; doubted], ..alarm });
            let alarms = vec![(1, alarm)];
            directory.publish(&CensusStatus { alarms, ..CensusStatus::default() });
            fs::metadata(directory.path().join(STATUS)).unwrap().len()
        };
        assert_eq!(length(10_000), length(0));
    }
}
