//! What those read who compute and who examine: what is accepted and not durable yet from memory,
//! all else from the store.

use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::{Block, BlockId, Section, entry_bytes, slot_bytes},
    plan::{Plan, Unit},
    protocol::messages::{Described, Wanted},
};
use trailtrap_worker::supply::is_shared;

use super::{Census, CensusError};
use crate::{
    core::{Damage, parents::ENUMERATED_ORDER},
    records::DeliveredBlock,
    store::{StoreError, block_id, block_ids},
};

/// A description holds so many bytes of blocks at most: hundreds may be on their way.
const DESCRIPTION_BYTES: u64 = 64 << 10;

impl Census {
    /// Whether the order in work is extended from graphs of the order of these. Those of other
    /// orders may have been dropped.
    fn has_parents(&self, sequence: &DegreeSequence) -> bool {
        self.plan_in_work().is_some_and(|plan| plan.order == sequence.order() + 1)
    }

    /// Roughly the bytes of what a worker wants to read: of a lower bound for its graphs, near the
    /// truth where it is large, with the most that a slot takes. Of classes that degrees do not tell
    /// those of all blocks of its units.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what it holds is damaged.
    pub fn wanted_bytes(&self, wanted: &Wanted) -> Result<usize, CensusError> {
        let (plan, entry, buckets) = match wanted {
            Wanted::Parents(parents)
                if parents.order() <= ENUMERATED_ORDER || !self.has_parents(parents) =>
            {
                return Ok(0);
            }
            Wanted::Parents(parents) => {
                let plan = self.parent_plan(parents.order()).map_err(|error| self.fail(error))?;
                (Some(plan), slot_bytes(parents.order()), false)
            }
            Wanted::Bucket(sequence, _) => {
                (self.plan_in_work(), entry_bytes(self.store.layout(), sequence.order()), true)
            }
        };
        let Some(plan) = plan else { return Ok(0) };
        let Some(index) = plan.find(wanted.sequence()) else { return Ok(0) };
        let shard = &plan.shards[index as usize];
        let bytes = match plan.layout.class.is_by_degrees() {
            true => shard.estimate as usize * entry,
            false => self.bytes_on_record(&plan, index)?,
        };
        Ok(bytes >> if buckets { shard.bucket_bits } else { 0 })
    }

    /// Bytes of all blocks of a shard, as far as it is done.
    fn bytes_on_record(&self, plan: &Plan, shard: u32) -> Result<usize, CensusError> {
        let of_unit = |unit| {
            let pending = self.state().core.pending(unit).map(|unit| unit.record.bytes);
            match pending {
                Some(bytes) => Ok(bytes as usize),
                None => {
                    let record = self.store.unit(unit).map_err(|error| self.fail(error.into()))?;
                    Ok(record.map_or(0, |record| record.bytes as usize))
                }
            }
        };
        plan.parts_of(shard).map(of_unit).sum()
    }

    /// Calls `take` for each block that a worker wants to read: keys and outcomes of a bucket of a
    /// finished shard of the order in work, or the keys of a finished order. The block comes along
    /// if it is not to be read from the store. `None` if there is no such thing.
    pub(super) fn each_wanted<T>(
        &self,
        wanted: &Wanted,
        mut take: impl FnMut(&BlockId, Option<DeliveredBlock>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        match wanted {
            Wanted::Parents(sequence) => {
                if !self.has_parents(sequence) {
                    return Ok(None);
                }
                if let Some(block) = self.parents.block(sequence) {
                    let here = DeliveredBlock::Here(&block);
                    return Ok(Some(vec![take(&block.id, Some(here))?]));
                }
                let plan = self.parent_plan(sequence.order())?;
                let Some(index) = plan.find(sequence) else { return Ok(Some(Vec::new())) };
                let shard = &plan.shards[index as usize];
                let places = shard.buckets().flat_map(|bucket| {
                    (0..shard.parts).map(move |part| block_id(shard, part, bucket, Section::Keys))
                });
                Ok(Some(places.map(|id| take(&id, None)).collect::<Result<_, _>>()?))
            }
            Wanted::Bucket(sequence, bucket) => self.each_of_bucket(sequence, *bucket, take),
        }
    }

    /// Calls `take` for keys and outcomes of each part of a bucket.
    fn each_of_bucket<T>(
        &self,
        sequence: &DegreeSequence,
        bucket: u32,
        mut take: impl FnMut(&BlockId, Option<DeliveredBlock>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        let finished = |state: &super::CensusState| {
            let order = state.core.order()?;
            let index = order.plan().find(sequence)?;
            order.is_shard_finished(index).then(|| (order.plan().clone(), index))
        };
        let Some((plan, index)) = finished(&self.state()) else { return Ok(None) };
        let shard = &plan.shards[index as usize];
        if bucket >> shard.bucket_bits != 0 {
            return Ok(None);
        }
        let mut taken = Vec::new();
        for unit in plan.parts_of(index) {
            let pending = self.state().core.pending(unit).cloned();
            for section in [Section::Keys, Section::Outcomes] {
                let at_hand = pending.as_ref().and_then(|unit| unit.block(bucket, section));
                match take(&block_id(shard, unit.part, bucket, section), at_hand) {
                    Err(StoreError::MissingBlock(_)) if self.may_be_dropped(&plan, index) => {
                        return Ok(None);
                    }
                    block => taken.push(block?),
                }
            }
        }
        Ok(Some(taken))
    }

    /// Whether a finished shard may have been dropped, or is of an order that is closed.
    fn may_be_dropped(&self, plan: &Plan, shard: u32) -> bool {
        let state = self.state();
        let order = state.core.order().filter(|order| order.plan().order == plan.order);
        order.is_none_or(|order| order.may_be_dropped(shard))
    }

    /// All blocks of a finished unit of the order in work.
    pub(super) fn unit_blocks(&self, plan: &Plan, unit: Unit) -> Result<Vec<Block>, CensusError> {
        let pending = self.state().core.pending(unit).cloned();
        block_ids(plan.shard_of(unit), unit.part)
            .map(|id| {
                let at_hand = pending.as_ref().and_then(|unit| unit.block(id.bucket, id.section));
                Ok(self.read_one(&id, at_hand)?)
            })
            .collect()
    }

    /// A block, which may be at hand.
    fn read_one(
        &self,
        id: &BlockId,
        at_hand: Option<DeliveredBlock>,
    ) -> Result<Block, StoreError> {
        match at_hand {
            Some(DeliveredBlock::Here(block)) => Ok(block.clone()),
            Some(DeliveredBlock::Named(name)) => self.store.read_named(id, name),
            None => self.store.read(id),
        }
    }

    /// What a worker wants to read; `None` if there is no such thing.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a block is damaged; then an alarm is raised.
    pub fn wanted_blocks(&self, wanted: &Wanted) -> Result<Option<Vec<Block>>, CensusError> {
        self.read_wanted(wanted, |id, at_hand| self.read_one(id, at_hand))
    }

    /// What a worker wants to read, described; `None` if there is no such thing.
    ///
    /// # Errors
    ///
    /// As [`Census::wanted_blocks`].
    pub fn described_blocks(
        &self,
        wanted: &Wanted,
    ) -> Result<Option<Vec<Described>>, CensusError> {
        let (mut room, edition) = (DESCRIPTION_BYTES, self.state().core.edition());
        let mut describe = |block: &Block| {
            let name = block.name();
            if is_shared(block) {
                // Not what was read before something was taken back.
                let state = self.state();
                if state.core.edition() == edition {
                    self.names.note(block);
                }
                return self.named(name);
            }
            if name.length > room {
                return self.named(name);
            }
            room -= name.length;
            Described::Here(block.clone())
        };
        self.read_wanted(wanted, |id, at_hand| match (at_hand, self.names.get(id)) {
            (Some(DeliveredBlock::Here(block)), _) => Ok(describe(block)),
            (Some(DeliveredBlock::Named(name)), _) => Ok(self.named(*name)),
            (None, Some(name)) => Ok(self.named(name)),
            (None, None) => match self.store.name_elsewhere(id)? {
                Some(name) => Ok(self.named(name)),
                None => Ok(describe(&self.store.read(id)?)),
            },
        })
    }

    /// Reads what a worker wants. A unit of which something is damaged is solved again.
    fn read_wanted<T>(
        &self,
        wanted: &Wanted,
        take: impl FnMut(&BlockId, Option<DeliveredBlock>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        let edition = self.state().core.edition();
        let read = self.each_wanted(wanted, take);
        let error = match read {
            Err(CensusError::Store(error)) => error,
            read => return read,
        };
        match error.bad_block() {
            Some(id) => {
                self.report_damage(id, &error, edition).map_err(|error| self.fail(error))?
            }
            // What the store cannot read now, after it was tried again, nobody can be given: the
            // census ends, and whoever asked has to wait for the next run.
            None => return Err(self.fail(error.into())),
        }
        Err(error.into())
    }

    /// Has the core take a unit back of which a block is damaged or missing.
    fn report_damage(
        &self,
        id: &BlockId,
        error: &StoreError,
        edition: u32,
    ) -> Result<(), CensusError> {
        let order = id.sequence.order();
        let plan = match self.plan_in_work().filter(|plan| plan.order == order) {
            Some(plan) => plan,
            None => self.parent_plan(order)?,
        };
        let Some(shard) = plan.find(&id.sequence) else { return Ok(()) };
        let unit = Unit { order: order as u8, shard, part: id.part };
        // What was accepted may not be in the store yet.
        let pending = self.state().core.pending(unit).map(|delivery| delivery.record.clone());
        let record = if pending.is_some() { pending } else { self.store.unit(unit)? };
        let Some(record) = record else { return Ok(()) };
        let cause = std::error::Error::source(error);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        let text = format!("{error}{cause}");
        let sequence = id.sequence;
        self.event(|core| core.damaged(Damage { unit, sequence, record, text, edition }));
        Ok(())
    }
}
