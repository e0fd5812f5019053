//! Orders: what the store knows of one is read when it is opened, and added up, checked and
//! recorded when it is closed.

use std::sync::Arc;

use trailtrap_shared::{
    count::summary::Summary,
    graph::{pairs, polya::totals},
    partition::Section,
    plan::{Plan, Shard},
};

use super::{Census, CensusError, Keep};
use crate::{
    core::{
        Order, OrderOpening, comparison::Comparisons, content::Content, parents::ENUMERATED_ORDER,
    },
    read::finished,
    records::{OrderRecord, OrderResult, UnitRecord},
    store::{Store, StoreError},
    trust::checks,
};

impl Census {
    /// Reads what the store knows of an order, and has the core go on with it.
    pub(super) fn open_order(&self, n: usize, edition: u32) -> Result<(), CensusError> {
        let begun = self.store.order(n)?;
        if let Some(result) = begun.as_ref().and_then(|record| finished::result(n, record)) {
            self.event(|core| core.found_finished(edition, result));
            return Ok(());
        }
        let options = begun.as_ref().map_or(self.options.plan, |record| record.options);
        let plan = Arc::new(Plan::new(self.store.layout(), n, options));
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
        let order = Box::new(Order::open(OrderOpening {
            parents: contents_of_parents(&self.store, &plan)?,
            records: self.store.units(n)?,
            outcomes_kept,
            graphs,
            pairs,
            comparisons: Comparisons::new(self.options.compared_share, self.salt),
            plan,
        }));
        if order.waived > 0 {
            tracing::warn!(
                order = n,
                units = order.waived,
                "not solved a second time: what they read may have been dropped"
            );
        }
        self.event(|core| core.opened(edition, order));
        Ok(())
    }

    /// Adds up what the store holds of a finished order, checks it, and records the result; or has
    /// the core take back what is wrong with it.
    pub(super) fn close_order(&self, plan: &Plan) -> Result<(), CensusError> {
        let n = plan.order;
        let size_of = |shard: u32| plan.shards[shard as usize].size;
        let mut by_size = vec![Summary::default(); pairs(n) + 1];
        for (unit, record) in self.store.units(n)? {
            by_size[size_of(unit.shard)].add(&record.statistics, record.digest());
        }
        let statistics = by_size.iter().map(|summary| &summary.statistics);
        if let Err(contradiction) = checks::check_order(n, statistics) {
            let mut records = self.store.units(n)?;
            records.retain(|(unit, _)| size_of(unit.shard) == contradiction.size);
            self.event(|core| core.contradicted(plan, Box::new(contradiction), records));
            return Ok(());
        }
        let begun = self.store.order(n)?.expect("written when the order was begun");
        if !begun.outcomes_kept {
            self.store.drop_section(Section::Outcomes, n, pairs(n))?;
        }
        // Keys without outcomes have served when the next order is done.
        if n > 1 && self.store.order(n - 1)?.is_some_and(|record| !record.outcomes_kept) {
            self.store.drop_section(Section::Keys, n - 1, pairs(n - 1))?;
        }
        self.store.put_order(n, &OrderRecord { result: Some(by_size.clone()), ..begun })?;
        self.event(|core| core.closed(OrderResult { order: n, by_size }));
        Ok(())
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
