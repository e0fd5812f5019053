//! What is undamaged of a damaged store goes into a new one.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use trailtrap_shared::{
    graph::pairs,
    partition::{Block, Section},
    plan::{Plan, Shard, Unit},
};

use super::{Store, StoreError, plan};
use crate::{
    core::{content::Content, parents::ENUMERATED_ORDER},
    records::{Delivery, OrderRecord, UnitRecord},
    watch::Watcher,
};

/// Blocks of more bytes than this are written together.
const GROUP_BYTES: u64 = 64 << 20;

/// What has become of an order.
#[derive(Default)]
struct Copied {
    units: u64,
    /// The fewest edges of a unit that is missing.
    first_missing: Option<usize>,
    /// The most edges of a unit that has been copied and whose outcomes, or keys, were not kept.
    last_dropped: Option<usize>,
}

impl Copied {
    fn is_whole(&self) -> bool {
        self.first_missing.is_none()
    }

    /// Whether what is missing cannot be solved again: that takes the outcomes of graphs with one
    /// edge less.
    fn lacks_outcomes(&self) -> bool {
        self.first_missing
            .zip(self.last_dropped)
            .is_some_and(|(missing, dropped)| missing <= dropped + 1)
    }
}

/// How many units are in the new store, and how many are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// What was taken over.
    pub kept: u64,
    /// What was not.
    pub lost: u64,
}

/// Copies what is undamaged of `old` into `new`, which is empty, and closes both.
///
/// # Errors
///
/// The new store cannot be written. What cannot be read of the old one is counted and left out.
pub fn salvage(old: Store, new: Store, watcher: &dyn Watcher) -> Result<Salvaged, StoreError> {
    let mut salvage = Salvage { old, new, kept: 0, lost: 0, watcher };
    salvage.run()?;
    Ok(Salvaged { kept: salvage.kept, lost: salvage.lost })
}

struct Salvage<'a> {
    old: Store,
    new: Store,
    kept: u64,
    lost: u64,
    watcher: &'a dyn Watcher,
}

impl Salvage<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        self.new.take_over(&self.old)?;
        let mut orders: Vec<(Plan, OrderRecord, Copied)> = Vec::new();
        for n in 1.. {
            let record = match self.old.order(n) {
                Ok(None) => break,
                Ok(Some(record)) => record,
                Err(error) => {
                    self.watcher.say(&format!("order {n} and those above are lost: {error}"));
                    break;
                }
            };
            let plan = plan(self.old.layout(), n, &record)?;
            let copied = self.copy(&plan, &record)?;
            orders.push((plan, record, copied));
        }
        // Some units cannot be solved again without others, whose outcomes or keys were not kept.
        let mut next_is_whole = false;
        for (plan, _, copied) in orders.iter_mut().rev() {
            let n = plan.order;
            let keys_are_needed =
                !next_is_whole && n > ENUMERATED_ORDER && !self.new.has_keys(n)?;
            if copied.units > 0 && (keys_are_needed || copied.lacks_outcomes()) {
                self.leave_out(plan, copied)?;
            }
            next_is_whole = copied.is_whole();
        }
        // What was computed from what is missing may come out otherwise: the census looks at it
        // again.
        let mut complete = true;
        for (plan, record, copied) in orders {
            complete &= copied.is_whole();
            let result = record.result.filter(|_| complete);
            self.new.put_order(plan.order, &OrderRecord { result, ..record })?;
        }
        Ok(())
    }

    /// Takes back what was copied of an order.
    fn leave_out(&mut self, plan: &Plan, copied: &mut Copied) -> Result<(), StoreError> {
        let n = plan.order;
        self.watcher.say(&format!(
            "order {n}: what is undamaged is of no use without what is not: it is left out"
        ));
        let units = self.new.units(n)?;
        self.new.take_back(&units.into_iter().map(|(unit, _)| unit).collect::<Vec<Unit>>())?;
        Section::ALL
            .into_iter()
            .try_for_each(|section| self.new.drop_section(section, n, pairs(n)))?;
        self.kept -= copied.units;
        self.lost += copied.units;
        *copied = Copied { units: 0, first_missing: Some(0), last_dropped: None };
        Ok(())
    }

    /// Copies the units of an order.
    fn copy(&mut self, plan: &Plan, order: &OrderRecord) -> Result<Copied, StoreError> {
        let mut copied = Copied::default();
        let (mut group, mut bytes) = (Vec::new(), 0);
        let done = AtomicU64::new(0);
        let what = format!("order {}", plan.order);
        let watcher = self.watcher;
        watcher.during(&what, plan.shards.len() as u64, &done, || {
            for (index, shard) in plan.shards.iter().enumerate() {
                for part in 0..shard.parts {
                    let unit = Unit { order: plan.order as u8, shard: index as u32, part };
                    let read = self.read(unit, shard, order).unwrap_or_else(|error| {
                        self.watcher.say(&format!(
                            "order {}, shard {}, part {part}: {error}",
                            plan.order, shard.sequence
                        ));
                        None
                    });
                    if let Some((record, blocks)) = read {
                        if blocks.len() < Section::ALL.len() << shard.bucket_bits {
                            copied.last_dropped = copied.last_dropped.max(Some(shard.size));
                        }
                        bytes += record.bytes;
                        copied.units += 1;
                        group.push(Arc::new(Delivery {
                            unit,
                            sequence: shard.sequence,
                            blocks,
                            record,
                            ahead: self.old.ahead(unit).unwrap_or_default(),
                            states_told_only: false,
                        }));
                    } else {
                        self.lost += 1;
                        let first =
                            copied.first_missing.map_or(shard.size, |first| first.min(shard.size));
                        copied.first_missing = Some(first);
                    }
                    if bytes > GROUP_BYTES {
                        self.new.commit(&std::mem::take(&mut group))?;
                        bytes = 0;
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            self.new.commit(&group)
        })?;
        self.kept += copied.units;
        Ok(copied)
    }

    /// A unit of which nothing is damaged; `None` if it is not recorded.
    fn read(
        &self,
        unit: Unit,
        shard: &Shard,
        order: &OrderRecord,
    ) -> Result<Option<(UnitRecord, Vec<Block>)>, StoreError> {
        let Some(record) = self.old.unit(unit)? else { return Ok(None) };
        let mut blocks = Vec::new();
        let mut dropped = false;
        for bucket in 0..1u32 << shard.bucket_bits {
            for section in Section::ALL {
                match self.old.block(shard, unit.part, bucket, section) {
                    Ok(block) => blocks.push(block),
                    Err(StoreError::MissingBlock(_))
                        if !order.outcomes_kept && section != Section::Wins =>
                    {
                        dropped = true
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        match dropped || Content::of_unit(&blocks) == record.content {
            true => Ok(Some((record, blocks))),
            false => Err(StoreError::Content),
        }
    }
}
