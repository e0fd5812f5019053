//! What is read to solve a unit in this process, and to tell to which part of a shard graphs
//! belong.

use std::sync::Arc;

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::{Block, BucketTable, KeyedOutcomes},
    plan::Plan,
    protocol::messages::Wanted,
};
use trailtrap_worker::{
    counting::parts::PartRanges,
    kernel::{BucketKey, Source, SourceError},
};

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
        &BucketKey { sequence, bucket, .. }: &BucketKey,
    ) -> Result<Arc<BucketTable>, SourceError> {
        let blocks = self.blocks(&Wanted::Bucket(sequence, bucket))?;
        let pair = |[keys, outcomes]: &[Block; 2]| KeyedOutcomes {
            keys: keys.clone(),
            outcomes: outcomes.clone(),
        };
        let parts: Vec<KeyedOutcomes> = blocks.as_chunks::<2>().0.iter().map(pair).collect();
        Ok(Arc::new(BucketTable::from_blocks(&parts)?))
    }
}

impl Census {
    /// The ranges of parents of a shard of the order in work.
    pub(super) fn part_ranges(
        &self,
        plan: &Plan,
        index: u32,
    ) -> Result<Arc<PartRanges>, TrialError<CensusError>> {
        let edition = self.state().core.edition();
        if let Some(ranges) = self.part_ranges.lock().get((0, edition), plan, index) {
            return Ok(ranges);
        }
        let parents = |sequence: &DegreeSequence| {
            let blocks = self.wanted_blocks(&Wanted::Parents(*sequence));
            let blocks = blocks.map_err(TrialError::Read)?.ok_or(TrialError::Gone)?;
            Ok::<_, TrialError<CensusError>>(Block::sorted_slots(&blocks))
        };
        let ranges = Arc::new(PartRanges::of(&plan.shards[index as usize], parents)?);
        self.part_ranges.lock().put((0, edition), plan, index, ranges.clone());
        Ok(ranges)
    }
}
