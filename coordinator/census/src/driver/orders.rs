//! One order after the other: taking one up, adding it up, and reading what its units are computed
//! from.

use std::{collections::HashMap, sync::Arc};

use trailtrap_shared::{
    count::{digest::Digest, statistics::Statistics},
    game::TrailTrap,
    graph::{degree::DegreeSequence, pairs, polya::totals},
    partition::{Block, BlockId, Section, entry_bytes, slot_bytes},
    plan::{Plan, Shard, Unit},
    protocol::messages::Wanted,
};

use crate::{
    core::{
        comparison::Comparisons,
        content::Content,
        parents::ENUMERATED_ORDER,
        schedule::{Recalled, Schedule},
    },
    driver::{Census, CensusError, Found, Keep, Order, Partial, lock},
    records::{OrderRecord, OrderResult, UnitRecord},
    store::{Store, StoreError, block_id},
    trust::checks,
};

impl Census {
    /// Ends an order, if one is finished, and begins the next that is not done; or ends the
    /// census.
    pub(super) fn advance(&self, finished: Option<Order>) -> Result<(), CensusError> {
        if let Some(order) = finished
            && !self.close_order(order)?
        {
            return Ok(());
        }
        loop {
            let n = self.state().results.len() + 1;
            if n > self.options.order {
                self.end(Ok(()));
                return Ok(());
            }
            let begun = self.store.order(n)?;
            if let Some(by_size) = begun.as_ref().and_then(|record| record.result.clone()) {
                let by_size = by_size
                    .into_iter()
                    .map(|(s, digest)| (s, Digest::from_le_bytes(digest)))
                    .collect();
                self.state().results.push(OrderResult { order: n, by_size });
                continue;
            }
            let order = self.open_order(n, begun)?;
            if !order.is_solved() {
                self.state().order = Some(order);
                self.announce();
                return Ok(());
            }
            // Everything was durable but the result.
            if !self.close_order(order)? {
                return Ok(());
            }
        }
    }

    /// The state of an order from what the store knows of it.
    fn open_order(&self, n: usize, begun: Option<OrderRecord>) -> Result<Order, CensusError> {
        let options = begun.as_ref().map_or(self.options.plan, |record| record.options);
        let plan = Arc::new(Plan::new::<TrailTrap>(n, options));
        let plan_fingerprint = plan.fingerprint;
        if begun.as_ref().is_some_and(|record| record.plan_fingerprint != plan_fingerprint) {
            return Err(StoreError::Plan(n).into());
        }
        // Before any outcome is dropped.
        let outcomes_kept = begun.as_ref().is_none_or(|record| record.outcomes_kept)
            && self.options.keep == Keep::All;
        let record = OrderRecord { options, plan_fingerprint, result: None, outcomes_kept };
        if begun.as_ref() != Some(&record) {
            self.store.put_order(n, &record)?;
        }
        let (graphs, pairs) = totals(n);
        let comparisons = Comparisons::new(self.options.compared_share, self.salt);
        let (mut recalled, mut found, mut waived) = (HashMap::new(), HashMap::new(), 0);
        for (unit, record) in self.store.units(n)? {
            let is_planned = |shard: &Shard| unit.part < shard.parts;
            if !plan.shards.get(unit.shard as usize).is_some_and(is_planned) {
                continue;
            }
            recalled.insert(unit, Recalled { inputs: record.inputs, content: record.content });
            let sums = Partial::of(&record);
            // Of an order whose outcomes are not kept, what it was computed from may be gone.
            let is_wanted = record.confirmed.is_empty() && comparisons.want(unit);
            waived += usize::from(is_wanted && !outcomes_kept);
            let to_compare = (is_wanted && outcomes_kept).then_some(record.worker);
            found.insert(unit, Found { sums, to_compare });
        }
        let mut order = Order {
            to_commit: plan.shards.iter().map(|shard| shard.parts as usize).sum(),
            found,
            partial: HashMap::new(),
            outcomes_kept,
            dropped_size: None,
            graphs,
            graphs_done: 0,
            pairs,
            pairs_done: 0,
            comparisons,
            schedule: Schedule::new(
                plan.clone(),
                contents_of_parents(&self.store, &plan)?,
                recalled,
            ),
        };
        if waived > 0 {
            tracing::warn!(
                order = n,
                units = waived,
                "not solved a second time: what they read may have been dropped"
            );
        }
        let stale = self.settle(&mut order);
        self.store.forget(&stale)?;
        Ok(order)
    }

    /// Adds up what the store holds of a finished order, checks it, and records the result; or
    /// takes back what is wrong with it, and says no.
    fn close_order(&self, order: Order) -> Result<bool, CensusError> {
        let plan = order.schedule.plan();
        let n = plan.order;
        let mut by_size = vec![(Statistics::default(), Digest::default()); pairs(n) + 1];
        for (unit, record) in self.store.units(n)? {
            let (statistics, digest) = &mut by_size[plan.shards[unit.shard as usize].size];
            *statistics += &record.statistics;
            *digest += record.digest();
        }
        if let Err(contradiction) =
            checks::check_order(n, by_size.iter().map(|(statistics, _)| statistics))
        {
            self.contradicted(plan, contradiction)?;
            return Ok(false);
        }
        let begun = self.store.order(n)?.expect("written when the order was begun");
        if !begun.outcomes_kept {
            self.store.drop_section(Section::Outcomes, n, pairs(n))?;
        }
        // Keys without outcomes have served when the next order is done.
        if n > 1 && self.store.order(n - 1)?.is_some_and(|record| !record.outcomes_kept) {
            self.store.drop_section(Section::Keys, n - 1, pairs(n - 1))?;
        }
        let result = by_size
            .iter()
            .map(|(statistics, digest)| (statistics.clone(), digest.to_le_bytes()))
            .collect();
        self.store.put_order(n, &OrderRecord { result: Some(result), ..begun })?;
        self.state().results.push(OrderResult { order: n, by_size });
        Ok(true)
    }

    /// The plan by which an earlier order was split.
    pub(super) fn parent_plan(&self, order: usize) -> Result<Arc<Plan>, CensusError> {
        let mut cached = lock(&self.parent_plan);
        match &*cached {
            Some(plan) if plan.order == order => Ok(plan.clone()),
            _ => {
                let options =
                    self.store.order(order)?.map_or(self.options.plan, |record| record.options);
                let plan = Arc::new(Plan::new::<TrailTrap>(order, options));
                *cached = Some(plan.clone());
                Ok(plan)
            }
        }
    }

    /// Whether the order in work is extended from graphs of the order of these. Those of other
    /// orders may have been dropped.
    fn has_parents(&self, sequence: &DegreeSequence) -> bool {
        self.leased_plan().is_some_and(|plan| plan.order == sequence.order() + 1)
    }

    /// A lower bound, near the truth where it is large, for the bytes of what a worker wants to
    /// read.
    pub fn wanted_bytes(&self, wanted: &Wanted) -> Result<usize, CensusError> {
        let (plan, entry, buckets) = match wanted {
            Wanted::Parents(parents)
                if parents.order() <= ENUMERATED_ORDER || !self.has_parents(parents) =>
            {
                return Ok(0);
            }
            Wanted::Parents(parents) => {
                (Some(self.parent_plan(parents.order())?), slot_bytes(parents.order()), false)
            }
            Wanted::Bucket(sequence, _) => {
                (self.leased_plan(), entry_bytes::<TrailTrap>(sequence.order()), true)
            }
        };
        let bytes = plan.and_then(|plan| {
            let shard = &plan.shards[plan.find(wanted.sequence())? as usize];
            Some((shard.estimate as usize * entry) >> if buckets { shard.bucket_bits } else { 0 })
        });
        Ok(bytes.unwrap_or(0))
    }

    /// Calls `take` for each block that a worker wants to read: keys and outcomes of a bucket of a
    /// finished shard of the order in work, or the keys of a finished order. The block comes along
    /// if it is not to be read from the store. `None` if there is no such thing.
    pub(super) fn each_wanted<T>(
        &self,
        wanted: &Wanted,
        mut take: impl FnMut(&BlockId, Option<&Block>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        match wanted {
            Wanted::Parents(sequence) => {
                if !self.has_parents(sequence) {
                    return Ok(None);
                }
                if let Some(block) = self.parents.block(sequence) {
                    return Ok(Some(vec![take(&block.id, Some(&block))?]));
                }
                let plan = self.parent_plan(sequence.order())?;
                let Some(index) = plan.find(sequence) else { return Ok(Some(Vec::new())) };
                let shard = &plan.shards[index as usize];
                let places = (0..1u32 << shard.bucket_bits).flat_map(|bucket| {
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
        mut take: impl FnMut(&BlockId, Option<&Block>) -> Result<T, StoreError>,
    ) -> Result<Option<Vec<T>>, CensusError> {
        let finished = |state: &super::State| {
            let order = state.order.as_ref()?;
            let index = order.schedule.plan().find(sequence)?;
            let is_finished = order.schedule.unfinished_parts(index) == 0;
            is_finished.then(|| (order.schedule.plan().clone(), index, order.outcomes_kept))
        };
        let Some((plan, index, outcomes_kept)) = finished(&self.state()) else { return Ok(None) };
        let shard = &plan.shards[index as usize];
        if bucket >> shard.bucket_bits != 0 {
            return Ok(None);
        }
        let mut taken = Vec::new();
        for part in 0..shard.parts {
            let pending = self.state().pending.get(&(*sequence, part)).cloned();
            for section in [Section::Keys, Section::Outcomes] {
                let at_hand = pending
                    .as_ref()
                    .map(|unit| &unit.blocks[3 * bucket as usize + section as usize - 1]);
                match take(&block_id(shard, part, bucket, section), at_hand) {
                    // No unit that is open reads it.
                    Err(StoreError::MissingBlock(id))
                        if id.section == Section::Outcomes && !outcomes_kept =>
                    {
                        return Ok(None);
                    }
                    block => taken.push(block?),
                }
            }
        }
        Ok(Some(taken))
    }

    /// All blocks of a finished unit of the order in work.
    pub(super) fn unit_blocks(&self, plan: &Plan, unit: Unit) -> Result<Vec<Block>, CensusError> {
        let shard = &plan.shards[unit.shard as usize];
        let pending = self.state().pending.get(&(shard.sequence, unit.part)).cloned();
        if let Some(delivery) = pending {
            return Ok(delivery.blocks.clone());
        }
        let places = (0..1u32 << shard.bucket_bits)
            .flat_map(|bucket| Section::ALL.map(|section| (bucket, section)));
        places
            .map(|(bucket, section)| Ok(self.store.block(shard, unit.part, bucket, section)?))
            .collect()
    }
}

/// For each shard of a plan the content of the lists of parents that it is generated from. Those
/// that nauty enumerates are the same in every run.
pub fn contents_of_parents(store: &Store, plan: &Plan) -> Result<Vec<Content>, StoreError> {
    let n = plan.order;
    if n <= ENUMERATED_ORDER + 1 {
        return Ok(vec![Content::default(); plan.shards.len()]);
    }
    let below = Plan::new::<TrailTrap>(
        n - 1,
        store.order(n - 1)?.map_or(plan.options, |record| record.options),
    );
    let mut units: Vec<Vec<Content>> = vec![Vec::new(); below.shards.len()];
    for (unit, UnitRecord { content, .. }) in store.units(n - 1)? {
        if let Some(contents) = units.get_mut(unit.shard as usize) {
            contents.push(content);
        }
    }
    let shards: Vec<Content> = units.iter().map(Content::of_all).collect();
    let of_shard = |shard: &Shard| {
        let kinds = shard.sequence.parents();
        let lists = kinds.iter().filter_map(|kind| below.find(&kind.sequence));
        Content::of_all(lists.map(|index| &shards[index as usize]))
    };
    Ok(plan.shards.iter().map(of_shard).collect())
}
