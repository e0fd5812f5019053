//! Orders: what the store knows of one is read when it is opened, and added up, checked and
//! recorded when it is closed.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use rayon::prelude::*;
use trailtrap_shared::{
    count::{ahead::Share, summary::Summary},
    graph::pairs,
    partition::{Content, Section},
    plan::{Goal, Plan, PlanOptions, Shard, Unit},
};
use trailtrap_worker::{
    counting::recount::{self, Recount},
    memory,
};

use super::{Census, CensusError, Keep};
use crate::{
    core::{
        Order, OrderOpening, Recorded, comparison::Comparisons, order::SIZES_KEPT,
        parents::ENUMERATED_ORDER, withdrawal,
    },
    read::finished,
    records::{Author, OrderRecord, OrderResult, UnitRecord, ahead::Ahead, alarm::Alarm},
    store::{self, Store, StoreError},
    trust::checks::{self, Contradiction},
};

/// Shards are dropped that have so many graphs together, at least: a megabyte and more.
const DROPPED_TOGETHER: u64 = 1 << 16;

/// What the units of an order add up to, by number of edges from 0 on.
struct Sums {
    by_size: Vec<Summary>,
    /// What they tell about graphs with one edge more, where all of them do.
    ahead: Vec<Option<Share>>,
    /// The same for their masses times numbers of edges, in a class of graphs.
    masses_ahead: Vec<u128>,
}

impl Census {
    /// How an order is split that is begun now: for the worker that has least memory, if the options
    /// leave that open.
    pub(super) fn splitting(&self) -> PlanOptions {
        let state = self.state();
        let memories = state.core.workers().filter_map(|(_, worker, _)| worker.memory);
        let least = memories.min().filter(|_| self.options.fits_workers);
        least.map_or(self.options.plan, memory::splitting_for_workers)
    }

    /// Whether an order is opened when the first worker is there, so that it is split for it.
    fn waits_for_workers(&self, order: usize, edition: u32) -> bool {
        let mut state = self.state();
        let waits = self.options.fits_workers && state.core.workers().next().is_none();
        state.unopened = waits.then_some((order, edition));
        waits
    }

    /// Reads what the store knows of an order, and has the core go on with it, unless it is to be
    /// begun and waits for a worker.
    pub(super) fn open_order(&self, n: usize, edition: u32) -> Result<(), CensusError> {
        let goal = self.options.goal;
        let begun = self.store.order(n)?;
        let needed = self.needed(n)?;
        let result = begun.as_ref().and_then(|record| finished::result(n, record));
        if let Some(result) = result.filter(|result| result.max_size() >= needed) {
            // A run that was to do more of it, and keep less, may have dropped nothing.
            if let Some(record) = begun
                && self.options.keep == Keep::All
                && record.max_size.is_some()
                && !(record.outcomes_kept || record.graphs_dropped)
                && !self.has_any_gone(n, record.options, Section::Outcomes)?
            {
                self.store.put_order(n, &OrderRecord { outcomes_kept: true, ..record })?;
            }
            self.event(|core| core.found_finished(edition, result));
            return Ok(());
        }
        if needed > goal.max_size(n) {
            tracing::warn!(
                order = n,
                edges = needed,
                "done as far as it was, or as a later order takes that was: something of it was \
                 taken back"
            );
        }
        // Before the orders below are done as far as it takes.
        if self.lacks_end(goal.order)? {
            return self.solve_again(goal.order, goal.order, edition);
        }
        if n < goal.order && self.lacks_end(n)? {
            return self.solve_again(n + 1, n, edition);
        }
        if begun.is_none() {
            if self.lacks_parents(n)? {
                return self.solve_again(n, n - 1, edition);
            }
            if self.waits_for_workers(n, edition) {
                tracing::info!(order = n, "begun when the first worker is there");
                return Ok(());
            }
        }
        let plan = Arc::new(match &begun {
            Some(record) => store::plan_up_to(self.store.layout(), n, record, needed)?,
            None => Plan::up_to(self.store.layout(), n, self.splitting(), needed),
        });
        let told = self.store.game().about().told_by_outcome();
        let records = self.store.each_unit_of(&plan);
        let blamed: Vec<Author> = self.event(|core| core.blamed().cloned().collect());
        let records: Vec<Recorded> = records
            .map(|item| item.map(|(unit, record)| Recorded::of(unit, record, told, &blamed)))
            .collect::<Result<_, _>>()?;
        let units = plan.unit_count() as usize;
        if records.len() < units && self.lacks_parents(n)? {
            return self.solve_again(n, n - 1, edition);
        }
        let is_begun = self.store.each_unit(n).next().transpose()?.is_some();
        let keeps_outcomes = self.options.keep == Keep::All;
        let keeps_graphs = n < goal.order || self.options.keep != Keep::Minimal;
        // Of what an earlier run was to drop, all may be there yet; and of graphs, though outcomes
        // have gone, which a run before that has dropped.
        let outcomes_go = begun.as_ref().is_some_and(|record| !record.outcomes_kept);
        let graphs_go = begun.as_ref().is_some_and(|record| record.graphs_dropped);
        let outcomes_gone = keeps_outcomes
            && is_begun
            && outcomes_go
            && self.has_any_gone(n, plan.options, Section::Outcomes)?;
        let graphs_gone =
            keeps_graphs && graphs_go && self.has_any_gone(n, plan.options, Section::Keys)?;
        // Before any outcome is dropped.
        let outcomes_kept = keeps_outcomes && !outcomes_gone;
        // What is carried further from graphs that are there loses them when that is done.
        let is_carried_further =
            begun.as_ref().is_some_and(|record| record.result.is_some() && !record.graphs_dropped);
        let mut graphs_dropped = !keeps_graphs && !is_carried_further;
        if keeps_graphs && graphs_go {
            // The next order is not generated from those of small ones, which are known without.
            if n < goal.order && graphs_gone && n > ENUMERATED_ORDER {
                return self.solve_again(n + 1, n, edition);
            }
            // Of this order some are gone, and nothing brings them back.
            graphs_dropped = graphs_gone;
        }
        let record = OrderRecord {
            outcomes_kept,
            graphs_dropped,
            ..record_to_begin(&plan, begun.as_ref())
        };
        if begun.as_ref() != Some(&record) {
            self.store.put_order(n, &record)?;
        }
        let sizes_kept = if keeps_graphs { SIZES_KEPT } else { 0 };
        let order = Box::new(self.taken_up(plan, records, &record, sizes_kept)?);
        // What is stale needs parents, too.
        if !order.is_recalled() && self.lacks_parents(n)? {
            return self.solve_again(n, n - 1, edition);
        }
        self.warn_of_what_is_not_kept(n, order.waived, &record);
        self.event(|core| core.opened(edition, order));
        Ok(())
    }

    /// An order with what the store holds of it.
    fn taken_up(
        &self,
        plan: Arc<Plan>,
        records: Vec<Recorded>,
        &OrderRecord { outcomes_kept, graphs_dropped, .. }: &OrderRecord,
        sizes_kept: usize,
    ) -> Result<Order, CensusError> {
        let (graphs, pairs) = plan.totals().unwrap_or_default();
        let disputed = self.event(|core| core.disputed());
        let (share, secret) = (self.options.compared_share, self.secret.clone());
        let comparisons = Comparisons::new(share, secret, disputed);
        let comparable = match outcomes_kept {
            true => HashSet::new(),
            false => self.comparable(&plan, &records, &comparisons)?,
        };
        Ok(Order::open(OrderOpening {
            parents: contents_of_parents(&self.store, &plan)?,
            ahead: self.known_ahead(&plan, &records)?,
            told: self.store.game().about().told_by_outcome(),
            records,
            outcomes_kept,
            graphs_dropped,
            sizes_kept,
            dropped_together: DROPPED_TOGETHER,
            graphs,
            pairs,
            comparisons,
            comparable,
            plan,
        }))
    }

    /// Warns if units are not solved a second time, or outcomes or graphs go that were to be kept.
    fn warn_of_what_is_not_kept(&self, n: usize, waived: usize, record: &OrderRecord) {
        if waived > 0 {
            tracing::warn!(
                order = n,
                units = waived,
                "not solved a second time: what they read has been dropped"
            );
        }
        if !record.outcomes_kept && self.options.keep == Keep::All {
            tracing::warn!(
                order = n,
                "its outcomes are not kept, since an earlier run had another --keep; to have \
                 them, do it in another directory"
            );
        }
        // The next order is not generated from the graphs of small ones.
        if record.graphs_dropped && self.options.keep != Keep::Minimal && n > ENUMERATED_ORDER {
            tracing::warn!(
                order = n,
                "its graphs are not kept, since an earlier run had --keep minimal, or a salvage has \
                 left them out, and the next order is generated from them; to have them, do it in \
                 another directory"
            );
        }
    }

    /// The units that are still to be solved a second time, and can be.
    fn comparable(
        &self,
        plan: &Plan,
        records: &[Recorded],
        comparisons: &Comparisons,
    ) -> Result<HashSet<Unit>, StoreError> {
        let to_compare = records.iter().filter(|record| record.is_to_compare(comparisons));
        let mut units: Vec<Unit> = to_compare.map(|record| record.unit).collect();
        units.sort_unstable();
        if !units.is_empty() && self.lacks_parents(plan.order)? {
            return Ok(HashSet::new());
        }
        let (mut gone, mut comparable) = (HashMap::new(), HashSet::new());
        // All parts of a shard read the same.
        for parts in units.chunk_by(|unit, next| unit.shard == next.shard) {
            let has_gone = |shard| match gone.entry(shard) {
                Entry::Occupied(known) => Ok::<bool, StoreError>(*known.get()),
                Entry::Vacant(new) => Ok(*new.insert(self.store.has_gone(plan, shard)?)),
            };
            if withdrawal::can_be_solved_alone(plan, parts, has_gone)? {
                comparable.extend(parts);
            }
        }
        Ok(comparable)
    }

    /// The most edges of the graphs of an order that are to be done: as the goal says; and as far as
    /// results went of which something was taken back, lest they come out shorter.
    fn needed(&self, n: usize) -> Result<usize, StoreError> {
        let goal = self.options.goal;
        let mut needed = goal.max_size(n);
        for order in n..=goal.order {
            if let Some(record) = self.store.order(order)?.filter(|record| record.withdrawn) {
                needed = needed.max(Goal::new(order, record.max_size).max_size(n));
            }
        }
        Ok(needed)
    }

    /// Whether the graphs that an order is generated from are not there.
    pub(super) fn lacks_parents(&self, n: usize) -> Result<bool, StoreError> {
        Ok(n > ENUMERATED_ORDER + 1 && !self.store.has_graphs(n - 1)?)
    }

    /// Whether an order was to end with fewer edges than are needed now, and outcomes are gone from
    /// which it would be carried further: they went with its graphs, or a salvage did not reach them.
    fn lacks_end(&self, n: usize) -> Result<bool, StoreError> {
        let Some(record) = self.store.order(n)?.filter(|record| !record.outcomes_kept) else {
            return Ok(false);
        };
        let needed = self.needed(n)?;
        if record.max_size.is_none_or(|end| end >= needed) {
            return Ok(false);
        }
        let plan = store::plan_up_to(self.store.layout(), n, &record, needed)?;
        let solved: HashSet<Unit> = self
            .store
            .each_unit_of(&plan)
            .map(|item| item.map(|(unit, _)| unit))
            .collect::<Result<_, _>>()?;
        let units = plan.units();
        let open: Vec<Unit> = units.filter(|unit| !solved.contains(unit)).collect();
        let can_go_on = withdrawal::can_be_solved_alone(&plan, &open, |shard| {
            self.store.has_gone(&plan, shard)
        })?;
        Ok(!can_go_on)
    }

    /// Whether outcomes, or graphs, of an order were there and have been dropped.
    fn has_any_gone(
        &self,
        n: usize,
        options: PlanOptions,
        section: Section,
    ) -> Result<bool, StoreError> {
        let plan = Plan::new(self.store.layout(), n, options);
        self.store.has_any_gone(&plan, plan.units(), section)
    }

    /// Has order `last` solved again, whose graphs or outcomes the `n`-th needs and are not there,
    /// and the orders below that whose graphs are needed for it.
    fn solve_again(&self, n: usize, last: usize, edition: u32) -> Result<(), CensusError> {
        let mut first = last;
        while self.lacks_parents(first)? {
            first -= 1;
        }
        if !self.options.solves_again {
            return Err(CensusError::GraphsNotKept { n, first, last });
        }
        tracing::warn!(
            first,
            last,
            "orders are solved again: their graphs or outcomes are not there"
        );
        let units = self.store.each_unit(last).map(|item| item.map(|(unit, _)| unit));
        let units = units.collect::<Result<_, _>>()?;
        self.event(|core| core.found_without_parents(edition, units));
        Ok(())
    }

    /// Adds up what the store holds of a finished order, checks it unless it is a rehearsal's, and
    /// records the result; or has the core take back what is wrong with it.
    pub(super) fn close_order(&self, plan: &Plan) -> Result<(), CensusError> {
        let n = plan.order;
        let sums = self.add_up(plan)?;
        let checked = if self.store.is_rehearsal() { Ok(()) } else { self.check(plan, &sums) };
        if let Err(contradiction) = checked {
            return self.withdraw_contradicted(plan, contradiction);
        }
        let by_size = sums.by_size;
        let mut begun = self.store.order(n)?.expect("written when the order was begun");
        if n == self.options.goal.order
            && self.options.keep == Keep::Minimal
            && !begun.graphs_dropped
        {
            // Before they are dropped. Should that be interrupted, all of this is done again.
            let max_size = plan.limit();
            begun = OrderRecord { result: None, max_size, graphs_dropped: true, ..begun };
            self.store.put_order(n, &begun)?;
        }
        self.drop_what_has_served(plan, &begun)?;
        let (result, max_size) = (Some(by_size.clone()), plan.limit());
        let record = OrderRecord { result, max_size, withdrawn: false, ..begun };
        self.store.put_order(n, &record)?;
        self.event(|core| core.closed(OrderResult { order: n, by_size }));
        Ok(())
    }

    /// Adds up what the store holds of an order.
    fn add_up(&self, plan: &Plan) -> Result<Sums, CensusError> {
        let mut by_size = vec![Summary::default(); plan.max_size + 1];
        let mut ahead = vec![Some(Share::default()); plan.max_size + 1];
        // Where it is not known what is told, counts will contradict this, and are made again.
        let mut masses_ahead = vec![0u128; plan.max_size + 1];
        for item in self.store.each_unit_of(plan) {
            let (unit, record) = item?;
            let Some(size) = size_of_unit(plan, unit) else { continue };
            by_size[size].add(&record.statistics, record.digest());
            let told = self.store.ahead(unit)?.filter(|told| told.content == record.content);
            for (_, mass) in told.iter().flat_map(|told| &told.masses) {
                masses_ahead[size] += mass;
            }
            ahead[size] = ahead[size].zip(told).map(|(mut sum, told)| {
                told.shares.into_iter().for_each(|(_, share)| sum += share);
                sum
            });
        }
        Ok(Sums { by_size, ahead, masses_ahead })
    }

    /// Compares the sums of an order with theory, and with what others have counted.
    fn check(&self, plan: &Plan, sums: &Sums) -> Result<(), Contradiction> {
        let Sums { by_size, ahead, masses_ahead } = sums;
        let (n, about, class) = (plan.order, self.store.game().about(), plan.layout.class);
        let statistics = || by_size.iter().map(|summary| &summary.statistics);
        checks::check_order(class, n, statistics())?;
        checks::check_masses(class, n, statistics(), masses_ahead)?;
        checks::check_told(about, n, statistics(), ahead)?;
        if plan.is_complete() {
            let mut total = Summary::default();
            by_size.iter().for_each(|summary| total += summary);
            // What others have counted are graphs with any number of edges, and components may
            // have as many.
            checks::check_known(about, class, n, &total.statistics)?;
            let mut results = self.results();
            // If orders below are being withdrawn, this one will be, too.
            if results.len() + 1 == n {
                results.push(OrderResult { order: n, by_size: by_size.clone() });
                checks::check_connected(class, &results)?;
            }
        }
        Ok(())
    }

    /// Has the core take back the units of an order whose sums are contradicted.
    fn withdraw_contradicted(
        &self,
        plan: &Plan,
        contradiction: Contradiction,
    ) -> Result<(), CensusError> {
        let (mut units, mut quarantined) = (Vec::new(), Vec::new());
        for item in self.store.each_unit_of(plan) {
            let (unit, record) = item?;
            let Some(size) = size_of_unit(plan, unit) else { continue };
            if contradiction.size.is_none_or(|contradicted| contradicted == size) {
                units.push(unit);
                // No more are kept, and all of them may be too many for the memory.
                if quarantined.len() < Alarm::MOST_QUARANTINED {
                    quarantined.push(record);
                }
            }
        }
        let contradiction = Box::new(contradiction);
        self.event(|core| core.contradicted(plan, contradiction, units, quarantined));
        Ok(())
    }

    /// Drops what nothing reads any more when all of an order is done, as far as it is not kept.
    fn drop_what_has_served(&self, plan: &Plan, begun: &OrderRecord) -> Result<(), CensusError> {
        let n = plan.order;
        let retired = plan.retired_size(begun.graphs_dropped);
        if let Some(size) = retired.filter(|_| !begun.outcomes_kept) {
            self.store.drop_section(Section::Outcomes, n, size)?;
            if begun.graphs_dropped {
                self.store.drop_section(Section::Keys, n, size)?;
            }
        }
        // Keys without outcomes have served when all of the next order is done.
        let parents = self.store.order(n.saturating_sub(1))?;
        if plan.is_complete() && parents.is_some_and(|record| !record.outcomes_kept) {
            self.store.drop_section(Section::Keys, n - 1, pairs(n - 1))?;
        }
        Ok(())
    }

    /// What units on record tell about graphs with one edge more. Stores of earlier versions do
    /// not have it: then it is counted, as far as the blocks are still there.
    fn known_ahead(
        &self,
        plan: &Plan,
        records: &[Recorded],
    ) -> Result<HashMap<Unit, Ahead>, CensusError> {
        let known = |&Recorded { unit, content, .. }: &Recorded| {
            let ahead = match self.store.ahead(unit)? {
                Some(ahead) if ahead.content == content => Some(ahead),
                _ => self.count_ahead(plan, unit, content)?,
            };
            Ok(ahead.map(|ahead| (unit, ahead)))
        };
        let tells = self.store.game().about().told_by_outcome().is_some();
        if !tells && plan.layout.class.is_by_degrees() {
            return Ok(HashMap::new());
        }
        let known: Vec<Option<(Unit, Ahead)>> =
            records.par_iter().map(known).collect::<Result<_, CensusError>>()?;
        Ok(known.into_iter().flatten().collect())
    }

    /// Counts what a unit on record tells; nothing if its blocks are not what they should be.
    fn count_ahead(
        &self,
        plan: &Plan,
        unit: Unit,
        content: Content,
    ) -> Result<Option<Ahead>, CensusError> {
        let Some(shard) = plan.shards.get(unit.shard as usize) else { return Ok(None) };
        let mut blocks = Vec::new();
        for id in store::block_ids(shard, unit.part) {
            match self.store.read(&id) {
                Ok(block) => blocks.push(block),
                Err(error) if error.bad_block().is_some() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        if Content::of_unit(&blocks) != content {
            return Ok(None);
        }
        let counted = recount::recount(self.store.game(), plan, &blocks).ok();
        let ahead = counted.map(|Recount { ahead, .. }| Ahead::of(content, ahead));
        if let Some(ahead) = &ahead {
            self.store.put_ahead(unit, ahead)?;
        }
        Ok(ahead)
    }

    /// The plan by which an earlier order was split.
    pub(super) fn parent_plan(&self, order: usize) -> Result<Arc<Plan>, CensusError> {
        let mut cached = self.parent_plan.lock();
        match &*cached {
            Some(plan) if plan.order == order => Ok(plan.clone()),
            _ => {
                let options =
                    self.store.order(order)?.map_or(self.options.plan, |record| record.options);
                let plan = Arc::new(Plan::new(self.store.layout(), order, options));
                *cached = Some(plan.clone());
                Ok(plan)
            }
        }
    }
}

/// The record of an order that is taken up by this plan, apart from what is to be kept of it.
fn record_to_begin(plan: &Plan, begun: Option<&OrderRecord>) -> OrderRecord {
    match begun {
        // A result with fewer edges stands until there is one with more.
        Some(record) if record.result.is_some() => record.clone(),
        _ => {
            let anew = OrderRecord::begun(plan);
            // What has to be done again goes as far as the result that went, also if what is done
            // now goes further, and is not finished.
            let withdrawn = begun.filter(|record| record.withdrawn);
            let max_size = withdrawn.map_or(anew.max_size, |record| record.max_size);
            let withdrawn = withdrawn.is_some();
            OrderRecord { withdrawn, max_size, ..anew }
        }
    }
}

/// Edges of the graphs of a unit, if the plan has its shard.
fn size_of_unit(plan: &Plan, unit: Unit) -> Option<usize> {
    plan.shards.get(unit.shard as usize).map(|shard| shard.size)
}

/// For each shard of a plan the content of the lists of parents that it is generated from. Those
/// that nauty enumerates are the same in every run.
///
/// # Errors
///
/// The store cannot be read, or what it holds is damaged.
pub fn contents_of_parents(store: &Store, plan: &Plan) -> Result<Vec<Content>, StoreError> {
    let n = plan.order;
    if n <= ENUMERATED_ORDER + 1 {
        return Ok(vec![Content::default(); plan.shards.len()]);
    }
    let below = Plan::new(
        store.layout(),
        n - 1,
        store.order(n - 1)?.map_or(plan.options, |record| record.options),
    );
    let mut units: Vec<Vec<Content>> = vec![Vec::new(); below.shards.len()];
    for item in store.each_unit(n - 1) {
        let (unit, UnitRecord { content, .. }) = item?;
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
