//! Which graphs belong to which part of a shard.

use std::{collections::HashMap, sync::Arc};

use trailtrap_shared::{
    graph::{Graph, degree::DegreeSequence},
    labelling::{batch::Kernel, many},
    partition::{Block, BucketTable, KeyedOutcomes, graph_of_slot, slot_of_key},
    plan::{Plan, parent_range},
    protocol::messages::Wanted,
};
use trailtrap_worker::kernel::{Source, SourceError};

use super::{Census, CensusError};
use crate::trust::trial::TrialError;

/// What a unit that the coordinator solves reads.
pub(super) struct CensusSource<'a>(pub(super) &'a Census);

impl CensusSource<'_> {
    fn blocks(&self, wanted: &Wanted) -> Result<Vec<Block>, SourceError> {
        let blocks = self.0.wanted_blocks(wanted)?;
        Ok(blocks.ok_or_else(|| format!("partition {} is not there", wanted.sequence()))?)
    }
}

impl Source for CensusSource<'_> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        Ok(Arc::new(Block::sorted_slots(&self.blocks(&Wanted::Parents(*sequence))?)))
    }

    fn table(
        &self,
        sequence: &DegreeSequence,
        _: u8,
        bucket: u32,
    ) -> Result<Arc<BucketTable>, SourceError> {
        let blocks = self.blocks(&Wanted::Bucket(*sequence, bucket))?;
        let pair =
            |pair: &[Block]| KeyedOutcomes { keys: pair[0].clone(), outcomes: pair[1].clone() };
        let parts: Vec<KeyedOutcomes> = blocks.chunks_exact(2).map(pair).collect();
        Ok(Arc::new(BucketTable::from_blocks(&parts)?))
    }
}

/// For each part of a shard, the parents that it is generated from.
pub(super) struct PartRanges {
    plan: u64,
    shard: u32,
    /// Of each list of parents, for each part the first and the last slot, if it takes any.
    bounds: HashMap<DegreeSequence, Vec<Option<(u64, u64)>>>,
}

impl PartRanges {
    /// Whether graphs with this degree sequence, each in a slot of its own labelling, are generated
    /// by this part. The parent of a graph is what is left of it without the last of its canonical
    /// labels.
    pub(super) fn hold(&self, part: u32, sequence: &DegreeSequence, slots: Vec<u64>) -> bool {
        let n = sequence.order();
        if n == 1 {
            // It has no parent that would say to which part it belongs.
            return part == 0 || slots.is_empty();
        }
        let parent =
            |slot: u64| graph_of_slot(sequence, slot).map(|graph| graph.without_vertex(n - 1));
        let parents: Option<Vec<Graph>> = slots.into_iter().map(parent).collect();
        let Some(parents) = parents else { return false };
        let labelled = many::keys(n - 1, &parents, Kernel::best());
        parents.iter().zip(labelled).all(|(parent, found)| {
            let bounds = self.bounds.get(&DegreeSequence::of(parent));
            let slot = slot_of_key(n - 1, found.key);
            bounds
                .and_then(|of_parts| of_parts[part as usize])
                .is_some_and(|(first, last)| (first..=last).contains(&slot))
        })
    }
}

impl Census {
    /// The ranges of parents of a shard of the order in work.
    pub(super) fn part_ranges(
        &self,
        plan: &Plan,
        index: u32,
    ) -> Result<Arc<PartRanges>, TrialError<CensusError>> {
        let mut last = self.part_ranges.lock();
        if let Some(ranges) = &*last
            && (ranges.plan, ranges.shard) == (plan.fingerprint, index)
        {
            return Ok(ranges.clone());
        }
        let shard = &plan.shards[index as usize];
        let mut bounds = HashMap::new();
        for parent in shard.sequence.parents() {
            let blocks = self
                .wanted_blocks(&Wanted::Parents(parent.sequence))
                .map_err(TrialError::Read)?
                .ok_or(TrialError::Gone)?;
            let slots = Block::sorted_slots(&blocks);
            let of_part = |part: u32| {
                let range = &slots[parent_range(slots.len(), part, shard.parts)];
                Some((*range.first()?, *range.last()?))
            };
            bounds.insert(parent.sequence, (0..shard.parts).map(of_part).collect());
        }
        let ranges = Arc::new(PartRanges { plan: plan.fingerprint, shard: index, bounds });
        *last = Some(ranges.clone());
        Ok(ranges)
    }
}
