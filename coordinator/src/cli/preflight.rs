//! Whether a run can end well: the disk and memory it will take against what is free, before the
//! first shard.

use std::path::Path;

use trailtrap_census::{core::order::SIZES_KEPT, driver::Keep, store::directory::store_in};
use trailtrap_shared::{
    class::Class,
    game::GameName,
    graph::polya::{self, graphs_by_size, totals},
    labelling::MAX_PLAIN_ORDER,
    partition::sorted_slots_bytes,
    plan::{Goal, Plan, PlanOptions},
};
use trailtrap_worker::{
    process::limits::{self, Size},
    supply::kept::is_in_object_store,
};
use walkdir::WalkDir;

/// Why a run is not begun.
#[derive(Debug, thiserror::Error)]
pub enum Shortage {
    #[error(
        "order {order} is beyond this program: its {graphs:.1e} graphs would take {tebibytes:.1e} \
         TiB in the store, and its partitions hold orders up to {MAX_PLAIN_ORDER}, and order {last} \
         up to {MOST_EDGES} edges (--max-size)",
        last = MAX_PLAIN_ORDER + 1
    )]
    Order { order: usize, graphs: f64, tebibytes: f64 },
    #[error(
        "order {order} is beyond this program: it does class {class} up to order {largest}, and \
         beyond that graphs have no keys of 63 bits, or partitions are too large"
    )]
    OrderOfClass { class: Class, order: usize, largest: usize },
    #[error(
        "the census up to order {order} will take about {needed} on the disk of {path}, of which \
         {free} are free: {remedy}, or use --force to try all the same"
    )]
    Disk { order: usize, needed: Size, free: Size, path: String, remedy: &'static str },
    #[error(
        "a budget of {budget} is {problem}: {}, or use --force to try all the same",
        memory_advice(*.least, *.available)
    )]
    Memory { budget: Size, problem: &'static str, least: Size, available: Size },
}

fn memory_advice(least: Size, available: Size) -> String {
    match least <= available {
        true => format!("choose --memory between {least} and {available}"),
        false => format!("{available} are free here, and {least} needed: free more"),
    }
}

/// Most graphs of large orders lie in blocks of at least so many.
const BLOCK_GRAPHS: u64 = 1 << 13;

/// Bytes that a slot of order n takes in blocks.
fn stored_slot_bytes(n: usize) -> f64 {
    sorted_slots_bytes(n, 0, BLOCK_GRAPHS) as f64 / BLOCK_GRAPHS as f64
}

/// Bytes that one graph of order n takes in the store: slot and record, a slot once more if it is
/// listed, as often as the game says, which is more than happens but in classes of few edges, and a
/// byte for all else, such as parities.
fn graph_bytes(game: GameName, n: usize) -> f64 {
    let listed = stored_slot_bytes(n) / game.about().listed_one_in as f64;
    stored_slot_bytes(n) + game.layout().record_bytes(n) as f64 + listed + 1.0
}

/// What a census is to do, and how many graphs these are.
pub struct Extent {
    game: GameName,
    class: Class,
    goal: Goal,
    /// By order, from 1 on.
    graphs: Vec<u64>,
}

impl Extent {
    /// Graphs of some class of all orders up to one. Those of a class that degrees tell take as long
    /// to count as a plan to make.
    pub fn new(game: GameName, class: Class, goal: Goal) -> Self {
        let graphs = (1..=goal.order).map(|n| graphs_of(class, goal, n)).collect();
        Extent { game, class, goal, graphs }
    }

    fn graphs(&self, n: usize) -> u64 {
        self.graphs[n - 1]
    }
}

/// Graphs of an order that a census is to do, as far as that is known beforehand.
fn graphs_of(class: Class, goal: Goal, n: usize) -> u64 {
    let max_size = goal.max_size(n);
    match class {
        Class::All => totals(n, max_size).0,
        class if class.is_by_degrees() => {
            // About as many as labelled graphs over n!, whatever the game.
            let layout = GameName::default().layout().on(class);
            let plan = Plan::up_to(layout, n, PlanOptions::default(), max_size);
            plan.shards.iter().map(|shard| shard.estimate).sum()
        }
        // There are no more than of all graphs, whose numbers beyond order 13 are too large to tell.
        class => {
            let known = class.known_graphs(n).unwrap_or(0);
            if n <= MAX_PLAIN_ORDER + 1 { known.min(totals(n, max_size).0) } else { known }
        }
    }
}

/// Bytes on disk at the fullest moment of a census.
fn disk_needed(extent: &Extent, keep: Keep) -> u64 {
    let Extent { game, class, goal, .. } = *extent;
    let order = goal.order;
    let graphs = |n: usize| extent.graphs(n);
    let kept: f64 = (1..=order).map(|n| graphs(n) as f64 * graph_bytes(game, n)).sum();
    let bytes = match keep {
        Keep::All => kept,
        // How they are spread over numbers of edges is not known.
        _ if class != Class::All => kept,
        // The widest numbers of edges of the last order, the keys of the order before, and those
        // of the last order or, of this, what is listed. Graphs with most edges go as they come if
        // nothing is kept.
        Keep::Graphs | Keep::Minimal => {
            let end = goal.max_size(order) + usize::from(keep == Keep::Graphs);
            let sizes = &graphs_by_size(order)[..end];
            let alive = match keep {
                Keep::Graphs => SIZES_ALIVE + SIZES_KEPT,
                _ => SIZES_ALIVE,
            };
            let widest = sizes.windows(sizes.len().clamp(1, alive));
            let widest: u64 = widest.map(|window| window.iter().sum()).max().unwrap_or(0);
            let below = order.saturating_sub(1).max(1);
            let parents = graphs(below) as f64 * stored_slot_bytes(below);
            let last = match keep {
                Keep::Graphs => graphs(order) as f64 * stored_slot_bytes(order),
                _ => {
                    let listed = graphs(order) / game.about().listed_one_in + 1;
                    (widest + listed) as f64 * stored_slot_bytes(order)
                }
            };
            let outcomes = widest as f64 * game.layout().record_bytes(order) as f64;
            (outcomes + parents + last).min(kept)
        }
    };
    bytes as u64
}

/// Bytes that lists of graphs take, which never lie in a depot.
fn listed_bytes(extent: &Extent) -> u64 {
    let listed_one_in = extent.game.about().listed_one_in as f64;
    let of_order = |n| extent.graphs(n) as f64 * stored_slot_bytes(n) / listed_one_in;
    (1..=extent.goal.order).map(of_order).sum::<f64>() as u64
}

/// So many neighbouring numbers of edges are on disk at a time, beside those that are kept though
/// nothing reads them: what is read and what is written, of which a part is gone or not there yet,
/// and in its place what is dropped later with the rest of its file.
const SIZES_ALIVE: usize = 2;

/// What a store takes besides: logs, and files that are being rewritten.
const BESIDE: u64 = 128 << 20;

/// The least budget that makes sense: lookups live on memory.
fn least_memory(extent: &Extent) -> u64 {
    let estimate = extent.graphs(extent.goal.order) / 1000 * 64;
    estimate.clamp(32 << 20, 1 << 30)
}

/// The most edges of graphs of order 13, where partitions have one bucket each: the largest one
/// has 9.8 million graphs with so many ([`Shard::estimate`](trailtrap_shared::plan::Shard)).
const MOST_EDGES: usize = 20;

/// Refuses orders that partitions cannot hold; no flag changes that.
pub fn check_order(class: Class, goal: Goal) -> Result<(), Shortage> {
    let (order, largest) = (goal.order, class.largest_order());
    let fits =
        class != Class::All || order <= MAX_PLAIN_ORDER || goal.max_size(order) <= MOST_EDGES;
    if order <= largest && fits {
        return Ok(());
    }
    if class != Class::All {
        return Err(Shortage::OrderOfClass { class, order, largest });
    }
    let graphs: f64 = polya::unlabelled(order).pop().map_or(0.0, |counts| {
        counts
            .all
            .iter()
            .map(|count| count.to_string().parse::<f64>().unwrap_or(f64::INFINITY))
            .sum()
    });
    Err(Shortage::Order {
        order,
        graphs,
        tebibytes: graphs * graph_bytes(GameName::default(), order) / f64::from(1 << 20).powi(2),
    })
}

/// Compares the disk that a census needs, in all, with what it has already, and what is free where
/// it keeps its blocks, and its lists and records.
pub fn check_disk(
    extent: &Extent,
    keep: Keep,
    data: &Path,
    depot: Option<&Path>,
) -> Result<(), Shortage> {
    // What a salvage has put aside is of no use to a census.
    let present = bytes_below(&store_in(data));
    let (needed, listed) = (disk_needed(extent, keep), listed_bytes(extent));
    let Some(depot) = depot else {
        return check_room(extent, keep, data, present, needed + BESIDE);
    };
    if !is_in_object_store(depot) {
        // What was done before there was a depot stays where it is, if all of it is kept.
        let elsewhere = match keep {
            Keep::All => present.saturating_sub(listed),
            Keep::Graphs | Keep::Minimal => 0,
        };
        check_room(extent, keep, depot, bytes_below(depot) + elsewhere, needed)?;
    }
    check_room(extent, keep, data, present.min(listed), listed + BESIDE)
}

/// Compares the disk that a directory will take, in all, with what it has already and what is free.
fn check_room(
    extent: &Extent,
    keep: Keep,
    directory: &Path,
    present: u64,
    needed: u64,
) -> Result<(), Shortage> {
    let free =
        rustix::fs::statvfs(directory).map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize);
    if needed.saturating_sub(present) > free {
        let remedy = match keep {
            _ if BESIDE > free => "choose another disk with --data, or with --depot",
            Keep::All | Keep::Graphs => {
                "choose another disk with --data, or with --depot, keep less with --keep minimal, \
                 or do fewer graphs with --max-size"
            }
            Keep::Minimal => {
                "choose another disk with --data, or with --depot, or do fewer graphs with \
                 --max-size"
            }
        };
        let path = directory.display().to_string();
        return Err(Shortage::Disk {
            order: extent.goal.order,
            needed: Size(needed),
            free: Size(free),
            path,
            remedy,
        });
    }
    Ok(())
}

/// Compares a budget with what the last order needs and with what is free.
pub fn check_memory(extent: &Extent, memory: Size) -> Result<(), Shortage> {
    let (least, available) = (least_memory(extent), limits::available_memory());
    let problem = match memory.0 {
        budget if budget < least => "too small for this order",
        budget if budget > available => "more than this machine has free",
        _ => return Ok(()),
    };
    Err(Shortage::Memory {
        budget: memory,
        problem,
        least: Size(least),
        available: Size(available),
    })
}

/// Bytes of all files below a directory.
fn bytes_below(directory: &Path) -> u64 {
    let metadata =
        WalkDir::new(directory).into_iter().flatten().flat_map(|entry| entry.metadata());
    metadata.filter(|metadata| !metadata.is_dir()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_grow_with_the_order_and_minimal_needs_less() {
        let needed = |order, max_size, keep| {
            let goal = Goal::new(order, max_size);
            disk_needed(&Extent::new(GameName::TrailTrap, Class::All, goal), keep)
        };
        assert!(needed(8, None, Keep::All) < 1 << 20);
        let gigabytes = needed(11, None, Keep::All) >> 30;
        assert!((20..40).contains(&gigabytes), "{gigabytes}");
        assert!((9..=12).all(|n| {
            let [all, graphs, minimal] =
                [Keep::All, Keep::Graphs, Keep::Minimal].map(|keep| needed(n, None, keep));
            minimal < graphs && graphs < all
        }));
        assert!((1..=66).all(|m| {
            let [less, more] = [m - 1, m].map(|m| needed(12, Some(m), Keep::All));
            less <= more
        }));
        assert_eq!(needed(12, Some(66), Keep::Minimal), needed(12, None, Keep::Minimal));
        assert!(needed(12, Some(20), Keep::All) < needed(12, None, Keep::All) / 100);
        assert!(needed(1, Some(0), Keep::Graphs) > 0);
        // What order 12 up to 24 edges takes by simulation is 23.5 GiB.
        let gigabytes = needed(12, Some(24), Keep::Minimal) >> 30;
        assert!((26..40).contains(&gigabytes), "{gigabytes}");
    }

    /// Of classes that degrees tell the plan knows about how many graphs there are; of others there
    /// are no more than of all graphs.
    #[test]
    fn graphs_of_classes_are_counted() {
        // All but those with a vertex of degree 7, of which there are as many as graphs of order 7.
        let class: Class = "max-degree:6".parse().unwrap();
        let (graphs, exact) = (graphs_of(class, Goal::new(8, None), 8), 12_346 - 1_044);
        assert!((exact / 2..=exact).contains(&graphs), "{graphs}");
        let few = Goal::new(10, Some(3));
        assert_eq!(graphs_of(class, few, 10), graphs_of(Class::All, few, 10));
        assert_eq!(graphs_of(Class::Bipartite, few, 10), totals(10, 3).0);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let check_order = |class, order| super::check_order(class, Goal::new(order, None));
        assert!(check_order(Class::All, 12).is_ok());
        let limited = |size| super::check_order(Class::All, Goal::new(13, Some(size)));
        assert!(limited(MOST_EDGES).is_ok() && limited(MOST_EDGES + 1).is_err());
        assert!(super::check_order(Class::All, Goal::new(14, Some(3))).is_err());
        let message = check_order(Class::All, 13).unwrap_err().to_string();
        assert!(message.contains("order 13 is beyond") && message.contains("TiB"), "{message}");
        assert!(
            check_order(Class::Forest, 20).is_ok() && check_order(Class::Bipartite, 13).is_ok()
        );
        let message = check_order(Class::Bipartite, 14).unwrap_err().to_string();
        assert!(message.contains("class bipartite up to order 13"), "{message}");
        let directory = std::env::temp_dir();
        let extent = |order| Extent::new(GameName::TrailTrap, Class::All, Goal::new(order, None));
        let message = check_disk(&extent(12), Keep::All, &directory, None);
        let message = message.unwrap_err().to_string();
        assert!(message.contains("--keep minimal") && message.contains("TiB"), "{message}");
        let message = check_memory(&extent(7), Size(1 << 50));
        let message = message.unwrap_err().to_string();
        assert!(message.contains("--memory"), "{message}");
    }
}
