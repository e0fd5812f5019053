//! The plan of a lease, on which the coordinator and its worker have to agree.

use std::sync::Arc;

use parking_lot::Mutex;
use trailtrap_shared::{
    game::Layout,
    graph::pairs,
    partition::BLOCK_FORMAT,
    plan::{Plan, PlanOptions},
    protocol::{messages, wire},
};

use super::LinkError;

/// Keeps the plan of the last lease, since most leases have the same plan and a large one takes a
/// second to build.
pub(super) struct PlanKeeper {
    layout: Layout,
    last: Mutex<Option<Arc<Plan>>>,
}

impl PlanKeeper {
    /// A keeper that has no plan yet, of the census with this layout.
    pub(super) fn new(layout: Layout) -> Self {
        PlanKeeper { layout, last: Mutex::default() }
    }

    /// The plan of a grant, as far as the census goes, on which both sides must agree, as on the
    /// format of blocks.
    pub(super) fn agree(&self, grant: &wire::Grant) -> Result<Arc<Plan>, LinkError> {
        let order = grant.order as usize;
        if grant.block_format != u32::from(BLOCK_FORMAT) {
            return Err(LinkError::Refused(format!(
                "the coordinator has block format {} (0 if it does not say), and this worker \
                 {BLOCK_FORMAT}: they are of different versions",
                grant.block_format
            )));
        }
        let differ = || {
            LinkError::Refused(format!(
                "the coordinator's plan of order {order} differs from this worker's: they are of \
                 different versions"
            ))
        };
        let limit = grant.max_size.map(|size| size as usize);
        let is_meant =
            |plan: &Plan| plan.fingerprint == grant.plan_fingerprint && plan.limit() == limit;
        let mut last = self.last.lock();
        let plan = match &*last {
            Some(plan) if is_meant(plan) => plan.clone(),
            _ if (1..=self.layout.class.largest_order()).contains(&order) => {
                let options = PlanOptions {
                    part_graphs: grant.part_graphs,
                    bucket_bytes: grant.bucket_bytes,
                };
                let limit = limit.unwrap_or_else(|| pairs(order));
                let plan = Plan::up_to(self.layout, order, options, limit);
                last.insert(Arc::new(plan)).clone()
            }
            _ => return Err(differ()),
        };
        let fits = || messages::units(grant).into_iter().all(|unit| plan.has(unit));
        if is_meant(&plan) && fits() { Ok(plan) } else { Err(differ()) }
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        plan::Unit,
    };

    use super::*;

    /// A worker has as much of a plan as the census does of the order, and another one when it is
    /// taken up again with more edges.
    #[test]
    fn plans_go_as_far_as_the_census() {
        let plans = PlanKeeper::new(TrailTrap::LAYOUT);
        let up_to = |max_size| Plan::up_to(TrailTrap::LAYOUT, 6, PlanOptions::default(), max_size);
        let last = Unit { order: 6, shard: up_to(9).layer(9).start, part: 0 };
        let agreed = |plan: &Plan| plans.agree(&messages::grant(1, plan, &[last], 0));
        for max_size in [9, 12, 15, 9] {
            let plan = up_to(max_size);
            let known = agreed(&plan).unwrap();
            assert_eq!(known.shards, plan.shards);
            assert_eq!(known.limit(), plan.limit());
            assert!(Arc::ptr_eq(&known, &agreed(&plan).unwrap()), "it is kept");
        }
        assert!(agreed(&up_to(8)).is_err(), "the unit is beyond it");
    }
}
