//! What is undamaged of a damaged store goes into a new one.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use trailtrap_shared::{
    count::summary::Summary,
    graph::pairs,
    partition::{Block, BlockId, Checksum, Content, Section},
    plan::{Plan, Shard, Unit},
};
use trailtrap_worker::supply::kept::KeptDepot;

use super::{
    Store, StoreError, block_ids,
    depot::of_depot,
    plan,
    wreck::{Wreck, unless_short},
};
use crate::{
    core::parents::ENUMERATED_ORDER,
    records::{Delivery, OrderRecord, UnitRecord},
    watch::Watcher,
};

/// Blocks of more bytes than this are written together.
const GROUP_BYTES: u64 = 64 << 20;
/// Of blocks that stand in several versions, no more ways to put them together are tried.
const MOST_CHOICES: usize = 1 << 12;

/// What has become of an order.
struct Copied {
    units: u64,
    /// The most edges of the units that have to be there.
    max_size: usize,
    /// The fewest edges of a unit that is not there, whether it has to be or not.
    first_missing: Option<usize>,
    /// Shards with such units.
    missing: BTreeSet<u32>,
    /// The most edges of a unit that is there.
    last: usize,
    /// Shards with units that have been copied and whose outcomes, or keys, were not kept.
    dropped: HashSet<u32>,
    /// Whether of some units that have to be there the keys are not.
    lacks_keys: bool,
    /// What the records of units that have to be there add up to, by number of edges.
    by_size: Vec<Summary>,
}

impl Copied {
    /// Nothing yet.
    fn new(max_size: usize) -> Self {
        Copied {
            units: 0,
            max_size,
            first_missing: None,
            missing: BTreeSet::new(),
            last: 0,
            dropped: HashSet::new(),
            lacks_keys: false,
            by_size: vec![Summary::default(); max_size + 1],
        }
    }

    fn is_whole(&self) -> bool {
        self.first_missing.is_none_or(|missing| missing > self.max_size)
    }

    /// Whether what is not there cannot be solved: that takes the outcomes of what it reads. What
    /// has more edges than had to be solved, and than anything that was, is not looked at.
    fn lacks_outcomes(&self, plan: &Plan) -> bool {
        let end = self.max_size.max(self.last);
        let missing = self.missing.iter().map(|&shard| &plan.shards[shard as usize]);
        let mut read =
            missing.filter(|shard| shard.size <= end).flat_map(|shard| shard.predecessors.iter());
        read.any(|predecessor| self.dropped.contains(predecessor))
    }

    /// Whether keys and outcomes are there of all units that are there and have more edges.
    fn has_all_beyond(&self, plan: &Plan, size: usize) -> bool {
        self.dropped.iter().all(|&shard| plan.shards[shard as usize].size <= size)
    }

    /// A unit of this shard is there, with these of its blocks.
    fn add(&mut self, unit: Unit, shard: &Shard, record: &UnitRecord, blocks: &[Block]) {
        if blocks.len() < Section::ALL.len() << shard.bucket_bits {
            self.dropped.insert(unit.shard);
            let is_keys = |block: &&Block| block.id.section == Section::Keys;
            let keys = blocks.iter().filter(is_keys).count();
            let lacks_keys = keys < 1 << shard.bucket_bits;
            self.lacks_keys |= lacks_keys && shard.size <= self.max_size;
        }
        if let Some(sum) = self.by_size.get_mut(shard.size) {
            sum.add(&record.statistics, record.digest());
        }
        self.units += 1;
        self.last = self.last.max(shard.size);
    }

    /// A unit of this shard is not there.
    fn miss(&mut self, unit: Unit, shard: &Shard) {
        let first = self.first_missing.map_or(shard.size, |first| first.min(shard.size));
        self.first_missing = Some(first);
        self.missing.insert(unit.shard);
    }
}

/// An order of which the old store has the record: its plan, that record, and what was copied.
type CopiedOrder = (Plan, OrderRecord, Copied);

/// How many units are in the new store, and how many are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// What was taken over.
    pub kept: u64,
    /// What was not.
    pub lost: u64,
}

/// Copies what is undamaged of the store in `old`, which is not changed, into a new one in `new`.
/// What lies in a depot stays there, and is referred to by both; what is of no use to the new one
/// is not removed from there. Where nothing lies in it, it need not be there: the new one has none.
/// What lies on shelves is not reached: it is left out, if `leaves_shelves` says so.
/// If the old one does not open as it is, there is need of room beside the new one, for links and
/// logs.
///
/// # Errors
///
/// Blocks of the last order lie on shelves, nothing can be read of the old one, it is of another
/// format, the new one cannot be written, or the system lacks something, such as descriptors or
/// room. What cannot be read of the old one otherwise is counted and left out.
pub fn salvage(
    old: &Path,
    new: &Path,
    leaves_shelves: bool,
    watcher: &dyn Watcher,
) -> Result<Salvaged, StoreError> {
    let room = new.with_extension("rebuilt");
    if room.exists() {
        // An earlier attempt was interrupted.
        std::fs::remove_dir_all(&room)?;
    }
    let wreck = Wreck::open(old, &room, watcher)?;
    if let Some(order) = wreck.order_on_shelves().filter(|_| !leaves_shelves) {
        return Err(StoreError::SalvageOfShelves { order });
    }
    let depot = taken_depot(&wreck, watcher)?;
    let mut new = Store::open(new, Some(wreck.game()), Some(wreck.class()))?;
    if let Some(depot) = depot {
        new.adopt(depot)?;
    }
    if let Some(mark) = wreck.shelf_mark() {
        new.adopt_shelves(mark)?;
    }
    let mut salvage = Salvage { old: wreck, new, salvaged: Salvaged::default(), watcher };
    salvage.run()?;
    let salvaged = salvage.salvaged;
    drop(salvage);
    if room.exists() {
        std::fs::remove_dir_all(&room)?;
    }
    Ok(salvaged)
}

/// The depot of a store, taken for this process; none if it is not there, and nothing lay in it.
fn taken_depot(wreck: &Wreck, watcher: &dyn Watcher) -> Result<Option<KeptDepot>, StoreError> {
    let Some(known) = wreck.depot() else { return Ok(None) };
    let mut depot = KeptDepot::at(known.place(), known.mark());
    match depot.take().map_err(|error| of_depot(known, error)) {
        Ok(()) => Ok(Some(depot)),
        Err(StoreError::DepotAway { path, .. }) if wreck.has_all_here()? => {
            let path = path.display();
            watcher.say(&format!("the depot {path} is not there, and nothing of this lay in it"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

struct Salvage<'a> {
    old: Wreck,
    new: Store,
    salvaged: Salvaged,
    watcher: &'a dyn Watcher,
}

impl Salvage<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        self.take_over()?;
        let mut orders = self.copy_orders()?;
        self.leave_out_useless(&mut orders)?;
        self.put_orders(orders)
    }

    /// Takes over what concerns the whole census, and begins a new edition.
    fn take_over(&self) -> Result<(), StoreError> {
        self.new.put_edition(self.old.edition().saturating_add(1))?;
        if let Some(salt) = self.old.salt() {
            self.new.salt(salt)?;
        }
        for (number, alarm) in self.old.alarms() {
            match alarm {
                Ok(alarm) => self.new.put_alarm(number, &alarm)?,
                Err(error) => self.watcher.say(&format!("alarm {number} is lost: {error}")),
            }
        }
        // Numbers of leases begin with their epoch, and tell which of two computations came later:
        // they may not repeat, even if the epoch itself is lost.
        let epoch = self.old.epoch().max((self.old.last_instance() >> 32) as u32);
        self.new.put_epoch(epoch.saturating_add(1))
    }

    /// Copies the units of all orders whose records are there.
    fn copy_orders(&mut self) -> Result<Vec<CopiedOrder>, StoreError> {
        let mut orders = Vec::new();
        for n in 1..=self.old.last_order() {
            let record = match self.old.order(n) {
                Ok(Some(record)) => record,
                other => {
                    let why = other.map_or_else(|error| error.to_string(), |_| "lost".to_owned());
                    self.watcher.say(&format!("order {n} is done again: its record is {why}"));
                    // It may have had some, whether or not their records are lost as well.
                    self.salvaged.lost += self.old.unit_count(n).max(1);
                    continue;
                }
            };
            // A run that was to do more may have left units of more edges.
            let limit = record.max_size;
            let whole = OrderRecord { max_size: None, ..record.clone() };
            let plan = plan(self.old.layout(), n, &whole)?;
            let copied = self.copy(&plan, &record, limit.unwrap_or(plan.max_size))?;
            orders.push((plan, record, copied));
        }
        Ok(orders)
    }

    /// Takes back what was copied and is of no use: some units cannot be solved again without
    /// others, whose outcomes or keys were not kept.
    fn leave_out_useless(&mut self, orders: &mut [CopiedOrder]) -> Result<(), StoreError> {
        let last = self.old.last_order();
        // Whether all of the next order is there, and whether it was done to its end, and closed.
        let (mut next, mut next_is_whole, mut next_is_complete) = (last + 1, false, false);
        for (plan, record, copied) in orders.iter_mut().rev() {
            let n = plan.order;
            if next != n + 1 {
                // The record of the next one is lost: it is done again.
                (next_is_whole, next_is_complete) = (false, false);
            }
            // Where they were not to be kept, the census sees to it when they are needed.
            let lacks_graphs = n > ENUMERATED_ORDER && !record.graphs_dropped && copied.lacks_keys;
            // A finished order needs nothing, whatever a stopped run has left of more edges.
            let is_finished = record.result.is_some() && copied.is_whole();
            let lacks_outcomes = !is_finished && copied.lacks_outcomes(plan);
            // Nobody needs its graphs yet, and what was found out about them is there.
            let is_result = is_finished && n == last;
            let graphs_are_needed = !next_is_whole && !is_result;
            if copied.units > 0 && (lacks_graphs && graphs_are_needed || lacks_outcomes) {
                self.leave_out(plan, copied)?;
            } else if lacks_graphs && is_finished && !next_is_complete {
                // Those that are there would pass for all. If the next order is complete, they have
                // served, and went with it.
                self.drop_graphs(plan, record, copied)?;
            }
            let is_closed = record.result.is_some() && record.max_size.is_none();
            (next, next_is_whole) = (n, copied.is_whole());
            next_is_complete = next_is_whole && is_closed;
        }
        Ok(())
    }

    /// Writes the records of orders. What was computed from what is missing may come out otherwise:
    /// the census looks at it again.
    fn put_orders(&self, orders: Vec<CopiedOrder>) -> Result<(), StoreError> {
        // Whether all that comes later was computed from is there: the records of all orders, and
        // the units of those before it.
        let mut complete = orders.len() == self.old.last_order();
        for (plan, record, copied) in orders {
            complete &= copied.is_whole();
            // A result may be older than its units, if its record was found in a file that has been
            // replaced.
            let adds_up = record.result.as_ref().is_none_or(|result| *result == copied.by_size);
            if complete && !adds_up {
                let n = plan.order;
                self.watcher.say(&format!("order {n}: its units do not add up to its result"));
            }
            let record = if complete && adds_up { record } else { record.withdraw() };
            self.new.put_order(plan.order, &record)?;
        }
        Ok(())
    }

    /// Takes back what was copied of an order.
    fn leave_out(&mut self, plan: &Plan, copied: &mut Copied) -> Result<(), StoreError> {
        let n = plan.order;
        self.watcher.say(&format!(
            "order {n}: what is undamaged is of no use without what is not: it is left out"
        ));
        let units = self.new.each_unit(n).map(|item| item.map(|(unit, _)| unit));
        self.new.take_back(&units.collect::<Result<Vec<Unit>, _>>()?)?;
        Section::ALL
            .into_iter()
            .try_for_each(|section| self.new.forget_section(section, n, pairs(n)))?;
        self.salvaged.kept -= copied.units;
        self.salvaged.lost += copied.units;
        *copied = Copied { first_missing: Some(0), ..Copied::new(copied.max_size) };
        Ok(())
    }

    /// Takes back what was copied of the graphs of a finished order, of which some are not there,
    /// and of its outcomes: what is left is what a census leaves that keeps no more than results. If
    /// those with most edges are all there, they stay: from them a limited order is carried further.
    fn drop_graphs(
        &self,
        plan: &Plan,
        record: &mut OrderRecord,
        copied: &Copied,
    ) -> Result<(), StoreError> {
        let n = plan.order;
        self.watcher.say(&format!(
            "order {n}: its results are kept without its graphs, of which some are not there"
        ));
        record.graphs_dropped = true;
        let before_last = record.max_size.and_then(|size| size.checked_sub(1));
        let dropped = before_last.filter(|&size| copied.has_all_beyond(plan, size));
        let dropped = dropped.unwrap_or_else(|| pairs(n));
        [Section::Keys, Section::Outcomes]
            .into_iter()
            .try_for_each(|section| self.new.forget_section(section, n, dropped))
    }

    /// Copies the units of an order, of which those with at most `max_size` edges have to be
    /// there.
    fn copy(
        &mut self,
        plan: &Plan,
        order: &OrderRecord,
        max_size: usize,
    ) -> Result<Copied, StoreError> {
        let mut copied = Copied::new(max_size);
        let (mut group, mut bytes) = (Vec::new(), 0);
        let done = AtomicU64::new(0);
        let what = format!("order {}", plan.order);
        let watcher = self.watcher;
        watcher.during(&what, plan.shards.len() as u64, &done, || {
            for (index, shard) in plan.shards.iter().enumerate() {
                for part in 0..shard.parts {
                    let unit = Unit { order: plan.order as u8, shard: index as u32, part };
                    let read = unless_short(self.read(unit, shard, order))?;
                    let read = read.unwrap_or_else(|error| {
                        self.watcher.say(&format!(
                            "order {}, shard {}, part {part}: {error}",
                            plan.order, shard.sequence
                        ));
                        None
                    });
                    if let Some((record, blocks)) = read {
                        copied.add(unit, shard, &record, &blocks);
                        bytes += record.bytes;
                        group.push(Arc::new(self.delivery(unit, shard, record, blocks)));
                    } else {
                        self.salvaged.lost += u64::from(shard.size <= max_size);
                        copied.miss(unit, shard);
                    }
                    if bytes > GROUP_BYTES {
                        self.new.commit(&std::mem::take(&mut group), GROUP_BYTES)?;
                        bytes = 0;
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            self.new.commit(&group, GROUP_BYTES)
        })?;
        self.salvaged.kept += copied.units;
        Ok(copied)
    }

    /// A unit for the new store. What lies in the depot is named: it stays there.
    fn delivery(
        &self,
        unit: Unit,
        shard: &Shard,
        record: UnitRecord,
        blocks: Vec<Block>,
    ) -> Delivery {
        let has_depot = self.new.depot().is_some();
        let lies_there = |block: &Block| has_depot && self.old.refers_to(block);
        let (named, blocks): (Vec<Block>, Vec<Block>) = blocks.into_iter().partition(lies_there);
        let named = named.iter().map(|block| (block.id, block.name())).collect();
        let ahead = self.old.ahead(unit).unwrap_or_default();
        Delivery { ahead, named, ..Delivery::new(unit, shard.sequence, blocks, record) }
    }

    /// A unit of which nothing is damaged; `None` if it is not recorded.
    fn read(
        &self,
        unit: Unit,
        shard: &Shard,
        order: &OrderRecord,
    ) -> Result<Option<(UnitRecord, Vec<Block>)>, StoreError> {
        let Some(record) = self.old.unit(unit)? else { return Ok(None) };
        let ids: Vec<BlockId> = block_ids(shard, unit.part).collect();
        let was_dropped = |id: &BlockId| !order.outcomes_kept && id.section != Section::Wins;
        let (mut blocks, mut wrong) = (Vec::new(), None);
        for id in &ids {
            match unless_short(self.old.block(id))? {
                Ok(block) => blocks.push((block.content(), block)),
                Err(StoreError::MissingBlock(_)) if was_dropped(id) && !self.old.is_rebuilt() => {}
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        if wrong.is_none() && is_of(&record, &ids, &blocks.iter().collect::<Vec<_>>()) {
            return Ok(Some((record, blocks.into_iter().map(|(_, block)| block).collect())));
        }
        // It may all the same be whole elsewhere; of blocks of several editions, only those of one
        // have the content that was recorded.
        let mut choices: Vec<Vec<(Checksum, Block)>> = Vec::new();
        for id in &ids {
            let found = self.old.blocks(id)?;
            match found.is_empty() {
                false => choices.push(found),
                true if was_dropped(id) && !self.old.has_traces(id)? => {}
                true => return Err(wrong.unwrap_or(StoreError::MissingBlock(*id))),
            }
        }
        // What was dropped is not there to tell which of several versions belong together.
        if choices.len() < ids.len() && choices.iter().any(|found| found.len() > 1) {
            return Err(wrong.unwrap_or(StoreError::Content));
        }
        let ways = choices.iter().fold(1usize, |ways, found| ways.saturating_mul(found.len()));
        for choice in 0..ways.min(MOST_CHOICES) {
            let mut rest = choice;
            let picked: Vec<&(Checksum, Block)> = choices
                .iter()
                .map(|found| {
                    let block = &found[rest % found.len()];
                    rest /= found.len();
                    block
                })
                .collect();
            if is_of(&record, &ids, &picked) {
                let blocks = picked.into_iter().map(|(_, block)| block.clone()).collect();
                return Ok(Some((record, blocks)));
            }
        }
        Err(wrong.unwrap_or(StoreError::Content))
    }
}

/// Whether these are the blocks of a unit with this record, each with its content. Some may have
/// been dropped: of those that are left only the numbers of their entries can be compared.
fn is_of(record: &UnitRecord, ids: &[BlockId], blocks: &[&(Checksum, Block)]) -> bool {
    if blocks.len() == ids.len() {
        let contents = blocks.iter().map(|(content, _)| *content);
        return Content::of_blocks(contents) == record.content;
    }
    let all = record.statistics.classes.all;
    Section::ALL.into_iter().all(|section| {
        let here =
            || blocks.iter().map(|(_, block)| block).filter(|block| block.id.section == section);
        let expected = if section == Section::Wins { all.listed } else { all.graphs };
        let buckets = ids.len() / Section::ALL.len();
        here().count() < buckets
            || here().map(|block| block.count as u128).sum::<u128>() == expected
    })
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        class::Class,
        count::ahead::Share,
        game::{Game, GameName, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
        plan::PlanOptions,
    };

    use super::*;
    use crate::{
        records::ahead::Ahead,
        store::keys::{ahead_key, masses_key},
        tests::{Silent, blocks, solved_by_ann},
    };

    const ORDER: usize = 9;

    /// A block that was written twice stands in the files in both versions. The one is taken whose
    /// content the record of its unit names, be it the earlier one, and of another block the later;
    /// and if it names neither, the unit is left out. So it is, too, if the database does not open.
    #[test]
    fn of_two_versions_of_a_block_the_one_on_record_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("old");
        let plan = Plan::new(TrailTrap::LAYOUT, ORDER, PlanOptions::default());
        let sequence = DegreeSequence::new([4; ORDER]);
        let unit = Unit { order: ORDER as u8, shard: plan.find(&sequence).unwrap(), part: 0 };
        let deliver = |keys: u8, outcomes: u8| {
            let blocks = blocks(TrailTrap::LAYOUT, sequence, keys.into(), outcomes);
            solved_by_ann(unit, sequence, blocks)
        };
        let write = |delivery: Delivery| {
            let store = Store::open(&old, None, None).unwrap();
            store.commit(&[Arc::new(delivery)], u64::MAX).unwrap();
        };
        let store = Store::open(&old, None, None).unwrap();
        store.put_order(ORDER, &OrderRecord::begun(&plan)).unwrap();
        drop(store);
        [0, 1].into_iter().for_each(|version| write(deliver(version, version)));
        let (current, away) = (old.join("CURRENT"), old.join("CURRENT.away"));
        for (keys, outcomes, opens) in [
            (0, 0, true),
            (0, 1, true),
            (1, 0, true),
            (1, 1, true),
            (2, 1, true),
            (0, 1, false),
            (1, 0, false),
        ] {
            let what = format!("{keys}-{outcomes}-{opens}");
            let Delivery { blocks: right, record, .. } = deliver(keys, outcomes);
            // The record alone is written again.
            write(Delivery::of_statement(unit, sequence, record.clone()));
            if !opens {
                std::fs::rename(&current, &away).unwrap();
            }
            let new = directory.path().join(&what);
            let Salvaged { kept, .. } = salvage(&old, &new, false, &Silent).unwrap();
            if !opens {
                std::fs::rename(&away, &current).unwrap();
            }
            let is_there = keys < 2;
            assert_eq!(kept, u64::from(is_there), "{what}");
            let store = Store::open_read_only(&new).unwrap();
            assert_eq!(store.unit(unit).unwrap(), is_there.then_some(record), "{what}");
            for block in right {
                assert_eq!(store.read(&block.id).ok(), is_there.then_some(block), "{what}");
            }
        }
    }

    /// The only unit of order 1.
    fn only_unit() -> Arc<Delivery> {
        let unit = Unit { order: 1, shard: 0, part: 0 };
        let sequence = DegreeSequence::new([0]);
        let table =
            BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, [0].into_iter(), |_, record| {
                record.fill(0)
            });
        let blocks = table.to_blocks(0).into_iter().collect();
        Arc::new(solved_by_ann(unit, sequence, blocks))
    }

    /// What an order had whose record is lost is lost, too.
    #[test]
    fn units_of_an_order_without_a_record_are_lost() {
        let directory = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
        Store::open(&old, None, None).unwrap().commit(&[only_unit()], u64::MAX).unwrap();
        let Salvaged { kept, lost } = salvage(&old, &new, false, &Silent).unwrap();
        assert_eq!((kept, lost), (0, 1));
    }

    /// A result that its units do not add up to was found in a file that had been replaced.
    #[test]
    fn a_result_that_its_units_do_not_add_up_to_is_withdrawn() {
        let plan = Plan::new(TrailTrap::LAYOUT, 1, PlanOptions::default());
        let (solved, mut right) = (only_unit(), Summary::default());
        right.add(&solved.record.statistics, solved.record.digest());
        let mut wrong = right.clone();
        wrong.statistics.classes.all.graphs += 1;
        for (result, stays) in [(vec![right], true), (vec![wrong], false)] {
            let directory = tempfile::tempdir().unwrap();
            let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
            let store = Store::open(&old, None, None).unwrap();
            store.commit(std::slice::from_ref(&solved), u64::MAX).unwrap();
            let finished = OrderRecord { result: Some(result), ..OrderRecord::begun(&plan) };
            store.put_order(1, &finished).unwrap();
            drop(store);
            let Salvaged { kept, lost } = salvage(&old, &new, false, &Silent).unwrap();
            assert_eq!((kept, lost), (1, 0));
            let record = Store::open_read_only(&new).unwrap().order(1).unwrap().unwrap();
            assert_eq!(record, if stays { finished } else { finished.withdraw() });
        }
    }

    /// In a class of graphs whose members the degrees do not tell, what a unit tells of larger
    /// graphs is kept in two records. If one of them is lost, the unit is kept and what it tells is
    /// not, and is counted again.
    #[test]
    fn what_a_unit_tells_is_kept_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let (game, class) = (GameName::default(), Class::Bipartite);
        let layout = game.layout().on(class);
        let plan = Plan::new(layout, ORDER, PlanOptions::default());
        let sequence = DegreeSequence::new([4; ORDER]);
        let shard = plan.find(&sequence).unwrap();
        let unit = Unit { order: ORDER as u8, shard, part: 0 };
        let shares = vec![(shard + 1, Share { classes: 1, labelled: 1 })];
        for (masses, is_lost) in [
            (vec![(shard + 1, 5)], [false, false]),
            (vec![(shard + 1, 5)], [false, true]),
            (vec![(shard + 1, 5)], [true, false]),
            (vec![(shard + 1, 5)], [true, true]),
            (Vec::new(), [false, false]),
            (Vec::new(), [false, true]),
        ] {
            let what = format!("{masses:?}, {is_lost:?}");
            let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
            let solved = solved_by_ann(unit, sequence, blocks(layout, sequence, 0, 0));
            let content = solved.record.content;
            let ahead = Ahead { content, shares: shares.clone(), masses };
            let told = ahead.clone();
            let store = Store::open(&old, Some(game), Some(class)).unwrap();
            store.put_order(ORDER, &OrderRecord::begun(&plan)).unwrap();
            store.commit(&[Arc::new(Delivery { ahead: Some(told), ..solved })], u64::MAX).unwrap();
            for (key, is_lost) in [ahead_key(unit), masses_key(unit)].into_iter().zip(is_lost) {
                if is_lost {
                    store.change(vec![(key, None)]).unwrap();
                }
            }
            drop(store);
            assert_eq!(salvage(&old, &new, false, &Silent).unwrap().kept, 1, "{what}");
            let store = Store::open_read_only(&new).unwrap();
            let is_told = is_lost == [false; 2];
            assert_eq!(store.ahead(unit).unwrap(), is_told.then_some(ahead), "{what}");
            drop(store);
            [old, new].iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
        }
    }
}
