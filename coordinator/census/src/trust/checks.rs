//! What the results of an order must add up to, computed without listing a graph. A count that
//! fails one of these is never reported.

use num_bigint::BigUint;
use trailtrap_shared::{
    count::statistics::{Counts, Statistics, Sums, Weighing},
    game::{Game, GameName, Told},
    graph::polya,
    partition::Block,
    play,
};

/// A count that contradicts theory.
#[derive(Debug, thiserror::Error)]
#[error("order {order}, {size} edges: found {found} {what}, but there are {expected}")]
pub struct Contradiction {
    order: usize,
    /// Edges of the graphs that it is about.
    pub size: usize,
    what: &'static str,
    found: u128,
    expected: BigUint,
}

/// Compares the statistics of an order, by number of edges, with Pólya's counts of classes and
/// with the mass formula, all graphs and connected ones.
///
/// # Errors
///
/// The first count that contradicts theory.
pub fn check_order<'a>(
    order: usize,
    by_size: impl ExactSizeIterator<Item = &'a Statistics>,
) -> Result<(), Contradiction> {
    let classes = polya::unlabelled(order).pop().expect("orders start at 1");
    let labelled = polya::labelled(order).pop().expect("orders start at 1");
    assert_eq!(by_size.len(), classes.all.len(), "one entry for each number of edges");
    for (size, found) in by_size.enumerate() {
        let comparisons = [
            ("graphs", found.classes.all.graphs, &classes.all[size]),
            ("connected graphs", found.classes.connected.graphs, &classes.connected[size]),
            ("labelled graphs", found.labelled.all.graphs, &labelled.all[size]),
            (
                "connected labelled graphs",
                found.labelled.connected.graphs,
                &labelled.connected[size],
            ),
        ];
        for (what, found, expected) in comparisons {
            if BigUint::from(found) != *expected {
                return Err(Contradiction {
                    order,
                    size,
                    what,
                    found,
                    expected: expected.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Compares the counts of a unit with its blocks: keys, outcomes and wins of each bucket.
///
/// # Errors
///
/// What does not fit.
pub fn check_unit(
    game: GameName,
    blocks: &[Block],
    statistics: &Statistics,
) -> Result<(), &'static str> {
    play!(game, G => check_unit_of::<G>(blocks, statistics))
}

fn check_unit_of<G: Game>(blocks: &[Block], statistics: &Statistics) -> Result<(), &'static str> {
    let mut counted = Counts::default();
    let mut sums = Sums::default();
    for bucket in blocks.chunks_exact(3) {
        let [keys, outcomes, wins] = bucket else { unreachable!("chunks of three") };
        if keys.count != outcomes.count {
            return Err("it does not have a record for each graph");
        }
        if wins.graphs != keys.count {
            return Err("its list of wins says that it is of another number of graphs");
        }
        let n = keys.id.sequence.order();
        let mut listed = wins.slots();
        for i in 0..keys.count {
            let record = outcomes.record(i);
            // Equal outcomes have equal bytes.
            if !G::LAYOUT.is_tidy(n, record) {
                return Err("a record has bits set that mean nothing");
            }
            if G::LAYOUT.is_listed(n, record) {
                counted.listed += 1;
                if listed.next() != Some(keys.slot(i)) {
                    return Err("its list of wins is not that of its records");
                }
            }
            for (sum, more) in sums.0.iter_mut().zip(G::record_sums(n, record)) {
                *sum += u128::from(more);
            }
        }
        if listed.next().is_some() {
            return Err("its list of wins is not that of its records");
        }
        counted.graphs += keys.count as u128;
    }
    let Weighing { all, sums: stated, .. } = statistics.classes;
    let told = G::ABOUT.sums.iter().zip(stated.0).zip(sums.0);
    let mut by_record = told.filter(|((name, _), _)| name.told == Told::ByRecord);
    if all != counted || by_record.any(|((_, stated), sum)| stated != sum) {
        return Err("its counts are not those of its blocks");
    }
    if !statistics.is_consistent(&G::ABOUT) {
        return Err("its counts are impossible");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_miscount_is_noticed() {
        // Order 3: the edgeless graph, an edge, a path, a triangle.
        let mut by_size = vec![Statistics::default(); 4];
        for (size, (labelled, connected)) in
            [(1, 0), (3, 0), (3, 3), (1, 1)].into_iter().enumerate()
        {
            by_size[size].classes.all.graphs = 1;
            by_size[size].classes.connected.graphs = u128::from(connected > 0);
            by_size[size].labelled.all.graphs = labelled;
            by_size[size].labelled.connected.graphs = connected;
        }
        check_order(3, by_size.iter()).unwrap();
        let mut dropped = by_size.clone();
        dropped[2].classes.all.graphs = 0;
        assert!(
            check_order(3, dropped.iter())
                .unwrap_err()
                .to_string()
                .contains("2 edges: found 0 graphs")
        );
        let mut misweighed = by_size;
        misweighed[1].labelled.all.graphs += 1;
        assert!(check_order(3, misweighed.iter()).is_err());
    }
}
