//! The finished orders of a data directory, to read only.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use trailtrap_shared::{
    degree::DegreeSequence,
    digest::Digest,
    graph::Graph,
    partition::{Section, graph_of_slot},
    plan::{Plan, Shard},
    statistics::Statistics,
};

use super::ExportError;
use crate::{
    census::OrderResult,
    finished::{self, FinishedError, FinishedOrder},
    store::{Store, StoreError},
};

/// The finished orders of a data directory, in use or not.
pub struct Archive {
    store: Arc<Store>,
}

/// What is known of a shard without looking at its graphs.
pub struct ShardSummary {
    pub sequence: DegreeSequence,
    pub statistics: Statistics,
    pub digest: Digest,
    pub parts: u32,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Time it took its workers.
    pub microseconds: u64,
    /// Who solved its parts, each named once.
    pub workers: Vec<String>,
}

impl Archive {
    /// Opens the store of a data directory.
    pub fn open(data: &Path) -> Result<Self, ExportError> {
        Ok(Archive { store: finished::open_store(data)? })
    }

    /// The results of a finished order.
    pub fn order(&self, order: usize) -> Result<OrderResult, ExportError> {
        let by_size = finished::record(&self.store, order)?.result.expect("finished orders have results");
        let by_size =
            by_size.into_iter().map(|(statistics, digest)| (statistics, Digest::from_le_bytes(digest))).collect();
        Ok(OrderResult { order, by_size })
    }

    /// The results of all orders up to `last`, or of all that are finished: at least of order 1.
    pub fn orders(&self, last: Option<usize>) -> Result<Vec<OrderResult>, ExportError> {
        let mut results = Vec::new();
        for order in 1..=last.unwrap_or(usize::MAX) {
            match self.order(order) {
                Err(ExportError::Finished(FinishedError::NotFinished(_))) if last.is_none() && order > 1 => break,
                other => results.push(other?),
            }
        }
        Ok(results)
    }

    /// The plan by which a finished order was split.
    pub fn plan(&self, order: usize) -> Result<Plan, ExportError> {
        Ok(FinishedOrder::open(&self.store, order)?.plan)
    }

    /// The shards of a finished order, in the order of the plan.
    pub fn shards(&self, order: usize) -> Result<Vec<ShardSummary>, ExportError> {
        let plan = self.plan(order)?;
        let mut summaries: BTreeMap<u32, ShardSummary> = BTreeMap::new();
        for (unit, record) in self.store.units(order)? {
            let shard = plan.shards.get(unit.shard as usize).ok_or(StoreError::Plan(order))?;
            let summary = summaries.entry(unit.shard).or_insert_with(|| ShardSummary {
                sequence: shard.sequence,
                statistics: Statistics::default(),
                digest: Digest::default(),
                parts: 0,
                bytes: 0,
                microseconds: 0,
                workers: Vec::new(),
            });
            summary.digest += record.digest();
            summary.statistics += &record.statistics;
            summary.parts += 1;
            summary.bytes += record.bytes;
            summary.microseconds += record.microseconds;
            if !summary.workers.contains(&record.worker) {
                summary.workers.push(record.worker);
            }
        }
        for (index, shard) in plan.shards.iter().enumerate() {
            if summaries.get(&(index as u32)).is_none_or(|summary| summary.parts != shard.parts) {
                return Err(ExportError::MissingUnits { order, sequence: shard.sequence });
            }
        }
        Ok(summaries.into_values().collect())
    }

    /// The P1-win graphs of a shard of a finished order, in the labels of the census.
    pub fn p1_wins(&self, shard: &Shard) -> Result<Vec<Graph>, ExportError> {
        let mut graphs = Vec::new();
        for bucket in 0..1u32 << shard.bucket_bits {
            for block in self.store.blocks(shard, bucket, Section::Wins)? {
                for slot in block.slots() {
                    let graph = graph_of_slot(&shard.sequence, slot);
                    graphs.push(graph.ok_or(ExportError::NoGraph { sequence: shard.sequence, slot })?);
                }
            }
        }
        Ok(graphs)
    }
}
