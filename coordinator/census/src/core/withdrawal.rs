//! What else is solved again with what is doubted.

use std::collections::{BTreeSet, HashSet};

use trailtrap_shared::plan::{Plan, Unit};

use super::order::parts_of;

/// Whether these units of an order can be solved again while the rest of it stays: what each of
/// them reads is there, which `is_there` says of a shard, or is solved again itself. Whatever was
/// computed from them is solved again if it has read something else than there is then, so it need
/// not be among them.
///
/// # Errors
///
/// The first of `is_there`, which is asked once for a shard, from few edges to many.
pub fn can_be_solved_alone<E>(
    plan: &Plan,
    units: &[Unit],
    mut is_there: impl FnMut(u32) -> Result<bool, E>,
) -> Result<bool, E> {
    let units: HashSet<Unit> = units.iter().copied().collect();
    let shards: HashSet<u32> = units.iter().map(|unit| unit.shard).collect();
    let is_solved_again =
        |&shard: &u32| parts_of(plan, shard).iter().all(|part| units.contains(part));
    let read = shards.iter().flat_map(|&shard| &plan.shards[shard as usize].predecessors);
    // Shards are numbered by numbers of edges: what was dropped comes first.
    let read: BTreeSet<u32> = read.copied().filter(|shard| !is_solved_again(shard)).collect();
    for shard in read {
        if !is_there(shard)? {
            return Ok(false);
        }
    }
    Ok(true)
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
        let units = parts_of(&plan, shard);
        let read = &plan.shards[shard as usize].predecessors;
        assert!(units.len() > 1 && read.len() > 1);
        let alone = |units: &[Unit], there: &dyn Fn(u32) -> bool| {
            can_be_solved_alone(&plan, units, |shard| Ok::<_, Infallible>(there(shard))).unwrap()
        };
        for units in [&units[..1], &units] {
            assert!(alone(units, &|shard| read.contains(&shard)));
            assert!(!alone(units, &|shard| shard != read[1]));
        }
        let also: Vec<Unit> = units.iter().copied().chain(parts_of(&plan, read[1])).collect();
        let size = |shard: u32| plan.shards[shard as usize].size;
        assert!(alone(&also, &|shard| shard != read[1]));
        assert!(!alone(&also[..also.len() - 1], &|shard| shard != read[1]));
        assert!(!alone(&also, &|shard| size(shard) == 9), "what that reads is not there");
    }
}
