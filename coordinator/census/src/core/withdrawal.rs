//! What else is solved again with what is doubted.

use std::collections::{BTreeSet, HashSet};

use trailtrap_shared::plan::{Plan, Unit};

use crate::records::OrderRecord;

/// Whether these units of an order can be solved again while the rest of it stays: nothing that one
/// of them reads `has_gone`, of a shard, or that is solved again itself. What is not solved yet has
/// not. Whatever was computed from them is solved again if it has read something else than there is
/// then, so it need not be among them. Units that are not of the plan read nothing.
///
/// # Errors
///
/// The first of `has_gone`, which is asked once for a shard, from few edges to many.
pub fn can_be_solved_alone<E>(
    plan: &Plan,
    units: &[Unit],
    mut has_gone: impl FnMut(u32) -> Result<bool, E>,
) -> Result<bool, E> {
    let units: HashSet<Unit> = units.iter().copied().collect();
    let shards: HashSet<u32> = units.iter().map(|unit| unit.shard).collect();
    let is_solved_again = |&shard: &u32| plan.parts_of(shard).all(|part| units.contains(&part));
    let planned = shards.iter().filter_map(|&shard| plan.shards.get(shard as usize));
    let read = planned.flat_map(|shard| &shard.predecessors);
    // Shards are numbered by numbers of edges: what was dropped comes first.
    let read: BTreeSet<u32> = read.copied().filter(|shard| !is_solved_again(shard)).collect();
    for shard in read {
        if has_gone(shard)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An order of which something may be taken back.
pub struct OrderOnRecord {
    /// The number of vertices.
    pub order: usize,
    /// What is kept of it; a salvage may have found none.
    pub record: Option<OrderRecord>,
    /// Units of it on record that are doubted.
    pub doubted: Vec<Unit>,
}

/// Which of these orders, from few vertices to many, are solved again as a whole: those with doubted
/// units that cannot be solved `alone`, and those of which an order above needs the graphs, while it
/// `lacks_parents`.
///
/// # Errors
///
/// The first of `alone` or of `lacks_parents`.
pub fn whole_orders<E>(
    orders: &[OrderOnRecord],
    mut alone: impl FnMut(&OrderOnRecord) -> Result<bool, E>,
    mut lacks_parents: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Vec<bool>, E> {
    let mut whole = vec![false; orders.len()];
    let mut is_needed = false;
    for (order, is_whole) in orders.iter().zip(&mut whole).rev() {
        let is_doubted = !order.doubted.is_empty();
        let is_kept = order.record.as_ref().is_some_and(|record| record.outcomes_kept);
        *is_whole = !is_kept && (is_needed || is_doubted && !alone(order)?);
        is_needed = (*is_whole || is_doubted) && lacks_parents(order.order)?;
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        plan::PlanOptions,
    };

    use super::*;

    /// Of a shard in the middle: without what it reads, only together with that.
    #[test]
    fn what_is_read_has_to_be_there_or_to_be_solved_again() {
        let options = PlanOptions { part_graphs: 4, bucket_bytes: 1 << 20 };
        let plan = Plan::new(TrailTrap::LAYOUT, 7, options);
        let shard = plan
            .layer(10)
            .max_by_key(|&shard| plan.shards[shard as usize].predecessors.len())
            .unwrap();
        let units: Vec<Unit> = plan.parts_of(shard).collect();
        let read = &plan.shards[shard as usize].predecessors;
        assert!(units.len() > 1 && read.len() > 1);
        let alone = |units: &[Unit], there: &dyn Fn(u32) -> bool| {
            can_be_solved_alone(&plan, units, |shard| Ok::<_, Infallible>(!there(shard))).unwrap()
        };
        for units in [&units[..1], &units] {
            assert!(alone(units, &|shard| read.contains(&shard)));
            assert!(!alone(units, &|shard| shard != read[1]));
        }
        let also: Vec<Unit> = units.iter().copied().chain(plan.parts_of(read[1])).collect();
        let size = |shard: u32| plan.shards[shard as usize].size;
        assert!(alone(&also, &|shard| shard != read[1]));
        assert!(!alone(&also[..also.len() - 1], &|shard| shard != read[1]));
        assert!(!alone(&also, &|shard| size(shard) == 9), "what that reads is not there");
    }

    fn whole(doubted: [usize; 4], alone: &[usize], without_parents: &[usize]) -> [bool; 4] {
        let orders = [(7, doubted[0]), (8, doubted[1]), (9, doubted[2]), (10, doubted[3])];
        let orders = orders.map(|(order, count)| OrderOnRecord {
            order,
            record: None,
            doubted: (0..count as u32)
                .map(|shard| Unit { order: order as u8, shard, part: 0 })
                .collect(),
        });
        let alone = |order: &OrderOnRecord| Ok::<_, Infallible>(alone.contains(&order.order));
        let lacks_parents = |order| Ok(without_parents.contains(&order));
        whole_orders(&orders, alone, lacks_parents).unwrap().try_into().unwrap()
    }

    #[test]
    fn the_graphs_that_whole_orders_are_made_from_are_solved_again() {
        // Of the order in work, 10, the parents are there; those of the others have gone.
        let gone = [8, 9];
        assert_eq!(whole([0, 0, 0, 3], &[10], &gone), [false; 4]);
        assert_eq!(whole([0, 0, 0, 3], &[], &gone), [false, false, false, true]);
        assert_eq!(whole([0, 0, 2, 0], &[], &gone), [true, true, true, false]);
        // Also when what is below them is doubted in some, and not in others.
        assert_eq!(whole([1, 0, 2, 0], &[], &gone), [true, true, true, false]);
        assert_eq!(whole([1, 0, 2, 3], &[10], &gone), [true, true, true, false]);
        assert_eq!(whole([1, 0, 0, 0], &[], &gone), [true, false, false, false]);
        assert_eq!(whole([1, 0, 0, 3], &[], &gone), [true, false, false, true]);
        // What is solved alone needs its parents as well.
        assert_eq!(whole([0, 0, 2, 0], &[9], &gone), [true, true, false, false]);
    }
}
