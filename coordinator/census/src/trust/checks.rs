//! What the results of an order must add up to, computed without listing a graph. A count that
//! fails one of these is never reported.

use num_bigint::{BigInt, BigUint};
use trailtrap_shared::{
    class::Class,
    count::{
        ahead::Share,
        statistics::{Breakdown, Statistics, Weighing},
    },
    game::About,
    graph::polya,
};

use crate::records::OrderResult;

/// A count that contradicts theory, or what others have counted.
#[derive(Debug, thiserror::Error)]
#[error("order {order}{}: found {found} {what}, but there are {expected}", edges(*size))]
pub struct Contradiction {
    order: usize,
    /// Edges of the graphs that it is about; `None` for all graphs of the order.
    pub size: Option<usize>,
    what: &'static str,
    found: u128,
    expected: BigInt,
}

fn edges(size: Option<usize>) -> String {
    size.map_or_else(String::new, |size| format!(", {size} edges"))
}

/// Compares the statistics of all graphs of an order, by number of edges from 0 on, with Pólya's
/// counts of classes and with the mass formula, all graphs and connected ones. Of the graphs of
/// another class theory does not tell this: [`check_masses`] does.
///
/// # Errors
///
/// The first count that contradicts theory.
pub fn check_order<'a>(
    class: Class,
    order: usize,
    by_size: impl ExactSizeIterator<Item = &'a Statistics>,
) -> Result<(), Contradiction> {
    if class != Class::All {
        return Ok(());
    }
    let classes = polya::unlabelled(order).pop().expect("orders start at 1");
    let labelled = polya::labelled(order).pop().expect("orders start at 1");
    assert!(by_size.len() <= classes.all.len(), "one entry for each number of edges");
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
                    size: Some(size),
                    what,
                    found,
                    expected: expected.clone().into(),
                });
            }
        }
    }
    Ok(())
}

/// Compares how many labelled graphs of a class there are, by number of edges from 0 on, with what
/// the graphs with one edge less tell; unless the degrees tell it, which is looked at shard by
/// shard. `ahead` has for each number of edges what those graphs tell of the next.
///
/// # Errors
///
/// The first count that differs.
pub fn check_masses<'a>(
    class: Class,
    order: usize,
    by_size: impl Iterator<Item = &'a Statistics>,
    ahead: &[u128],
) -> Result<(), Contradiction> {
    if class.is_by_degrees() {
        return Ok(());
    }
    // There is one graph without edges.
    let expected = std::iter::once(1).chain(ahead.iter().copied());
    for ((size, found), expected) in by_size.enumerate().zip(expected) {
        let (found, edges) = (found.labelled.all.graphs, size.max(1) as u128);
        if found.saturating_mul(edges) != expected {
            let (what, expected) = ("labelled graphs of the class", (expected / edges).into());
            return Err(Contradiction { order, size: Some(size), what, found, expected });
        }
    }
    Ok(())
}

/// OEIS A000088, of orders from 1 on, as the others.
const GRAPHS: [u128; 12] =
    [1, 2, 4, 11, 34, 156, 1044, 12346, 274668, 12005168, 1018997864, 165091172592];
/// OEIS A001349.
const CONNECTED: [u128; 12] =
    [1, 1, 2, 6, 21, 112, 853, 11117, 261080, 11716571, 1006700565, 164059830476];
/// OEIS A003400.
const ASYMMETRIC: [u128; 12] =
    [1, 0, 0, 0, 0, 8, 152, 3696, 135004, 7971848, 805364776, 144123121972];

/// Compares the statistics of all graphs of a class and an order with what others have counted:
/// sequences of the OEIS, and what was published about the game. Returns with how many counts.
///
/// # Errors
///
/// The first count that differs.
pub fn check_known(
    about: &About,
    class: Class,
    order: usize,
    sum: &Statistics,
) -> Result<usize, Contradiction> {
    let classes = |breakdown: &Breakdown, value: u64| {
        breakdown.get(&value).map_or(0, |cell| cell.classes.graphs)
    };
    let structure = &sum.structure;
    let known = |counts: &[u128], first: usize| {
        order.checked_sub(first).and_then(|i| counts.get(i).copied())
    };
    let bipartite = Class::Bipartite.known().iter().find(|sequence| !sequence.labelled);
    let of_all_graphs = [
        ("graphs (OEIS A000088)", sum.classes.all.graphs, known(&GRAPHS, 1)),
        ("connected graphs (OEIS A001349)", sum.classes.connected.graphs, known(&CONNECTED, 1)),
        (
            "bipartite graphs (OEIS A033995)",
            classes(&structure.bipartite, 1),
            bipartite.and_then(|sequence| sequence.count(order)),
        ),
        (
            "asymmetric graphs (OEIS A003400)",
            classes(&structure.automorphisms, 1),
            known(&ASYMMETRIC, 1),
        ),
    ];
    let published = about.known.iter().map(|counts| {
        let found = sum.classes.connected.others();
        (counts.what, found, known(counts.counts, counts.first_order))
    });
    let of_class = class.known().iter().map(|sequence| {
        let weighing = if sequence.labelled { &sum.labelled } else { &sum.classes };
        (sequence.what, weighing.all.graphs, sequence.count(order))
    });
    let sequences: Vec<_> = match class {
        Class::All => of_all_graphs.into_iter().chain(published).collect(),
        _ => of_class.collect(),
    };
    let mut compared = 0;
    for (what, found, expected) in sequences {
        let Some(expected) = expected else { continue };
        if found != expected {
            return Err(Contradiction {
                order,
                size: None,
                what,
                found,
                expected: expected.into(),
            });
        }
        compared += 1;
    }
    Ok(compared)
}

/// Compares how many graphs of a class and an order are connected, isomorphism classes and labelled
/// graphs, with what all graphs of this and of smaller orders tell. `results` are those of orders
/// 1, 2, … up to this one, all complete. Of [`Class::All`] theory tells it: [`check_order`].
///
/// # Errors
///
/// The first count that differs.
pub fn check_connected(class: Class, results: &[OrderResult]) -> Result<(), Contradiction> {
    let Some(last) = results.last().filter(|_| class != Class::All) else { return Ok(()) };
    type Pick = fn(&Statistics) -> &Weighing;
    let weighings: [(&str, Pick); 2] = [
        ("connected graphs", |statistics| &statistics.classes),
        ("connected labelled graphs", |statistics| &statistics.labelled),
    ];
    for (is_labelled, (what, weighing)) in [false, true].into_iter().zip(weighings) {
        let all = |result: &OrderResult| -> Vec<u128> {
            let by_size = result.by_size.iter();
            by_size.map(|summary| weighing(&summary.statistics).all.graphs).collect()
        };
        let all: Vec<Vec<u128>> = results.iter().map(all).collect();
        let connected = polya::connected(&all, is_labelled).pop().unwrap_or_default();
        for (size, (summary, expected)) in last.by_size.iter().zip(connected).enumerate() {
            let found = weighing(&summary.statistics).connected.graphs;
            if BigInt::from(found) != expected {
                let (order, size) = (last.order, Some(size));
                return Err(Contradiction { order, size, what, found, expected });
            }
        }
    }
    Ok(())
}

/// Compares the sum that records do not keep with what the records with one edge less tell.
/// `ahead` has for each number of edges what those graphs tell of the next, `None` where that was
/// not counted.
///
/// # Errors
///
/// The first sum that differs.
pub fn check_told<'a>(
    about: &About,
    order: usize,
    by_size: impl Iterator<Item = &'a Statistics>,
    ahead: &[Option<Share>],
) -> Result<(), Contradiction> {
    let Some(told) = about.told_by_outcome() else { return Ok(()) };
    // There are no graphs with fewer edges than none.
    let none = Some(Share::default());
    let before = std::iter::once(&none).chain(ahead);
    for ((size, found), expected) in by_size.enumerate().zip(before) {
        let Some(expected) = expected else { continue };
        let found = found.told(told, order);
        let comparisons = [(found.classes, expected.classes), (found.labelled, expected.labelled)];
        for (found, expected) in comparisons {
            if found != expected {
                let (size, what) = (Some(size), about.sums[told].meaning);
                return Err(Contradiction { order, size, what, found, expected: expected.into() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        count::summary::Summary,
        game::{Game, TrailTrap},
        graph::{factorial, pairs},
    };

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
        check_order(Class::All, 3, by_size.iter()).unwrap();
        type Pick = fn(&mut Statistics) -> &mut u128;
        let changes: [(Pick, &str); 4] = [
            (|s| &mut s.classes.all.graphs, "graphs"),
            (|s| &mut s.classes.connected.graphs, "connected graphs"),
            (|s| &mut s.labelled.all.graphs, "labelled graphs"),
            (|s| &mut s.labelled.connected.graphs, "connected labelled graphs"),
        ];
        for (size, (change, what)) in (0..4).flat_map(|size| changes.map(|change| (size, change)))
        {
            let mut miscounted = by_size.clone();
            *change(&mut miscounted[size]) += 1;
            let found = check_order(Class::All, 3, miscounted.iter()).unwrap_err();
            assert_eq!((found.size, found.what), (Some(size), what), "{found}");
        }
    }

    /// Of order 2: the graph without edges tells three moves of the one with one edge, and two
    /// labelled ones.
    #[test]
    fn a_miscount_of_what_smaller_graphs_tell_is_noticed() {
        let about = &TrailTrap::ABOUT;
        let told = about.told_by_outcome().unwrap();
        let mut by_size = vec![Statistics::default(); 2];
        by_size[1].classes.sums.0[told] = 3;
        by_size[1].labelled.sums.0[told] = 2;
        let ahead = [Share { classes: 3 * 2, labelled: 2 }, Share::default()].map(Some);
        let check = |by_size: &[Statistics], ahead: &[Option<Share>]| {
            check_told(about, 2, by_size.iter(), ahead)
        };
        check(&by_size, &ahead).unwrap();
        let changes: [fn(&mut Statistics) -> &mut Weighing; 2] =
            [|s| &mut s.classes, |s| &mut s.labelled];
        for (size, change) in (0..2).flat_map(|size| changes.map(|change| (size, change))) {
            let mut miscounted = by_size.clone();
            change(&mut miscounted[size]).sums.0[told] += 1;
            assert_eq!(check(&miscounted, &ahead).unwrap_err().size, Some(size));
            // What is not known is not compared.
            assert_eq!(check(&miscounted, &[None, None]).is_err(), size == 0);
        }
    }

    /// Every count that others have published is compared.
    #[test]
    fn a_count_that_others_have_not_found_is_noticed() {
        let about = &TrailTrap::ABOUT;
        // Order 3: four graphs, of which two are connected; the triangle is not bipartite, and none
        // is asymmetric. P2 wins the connected ones that are known.
        let mut sum = Statistics::default();
        sum.classes.all.graphs = 4;
        sum.classes.connected.graphs = 2;
        let lost = about.known.iter().map(|counts| counts.counts[3 - counts.first_order]);
        sum.classes.connected.listed = 2 - lost.clone().next().unwrap();
        sum.structure.bipartite.entry(1).or_default().classes.graphs = 3;
        let compared = check_known(about, Class::All, 3, &sum).unwrap();
        assert_eq!(compared, 4 + lost.count());
        let changes: [fn(&mut Statistics); 5] = [
            |s| s.classes.all.graphs += 1,
            |s| s.classes.connected.graphs += 1,
            |s| s.classes.connected.listed ^= 1,
            |s| s.structure.bipartite.entry(1).or_default().classes.graphs += 1,
            |s| s.structure.automorphisms.entry(1).or_default().classes.graphs += 1,
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let mut miscounted = sum.clone();
            change(&mut miscounted);
            assert!(check_known(about, Class::All, 3, &miscounted).is_err(), "{i}");
        }
    }

    /// A wrong digit would be noticed when an order is closed that took weeks. Of asymmetric graphs
    /// theory tells bounds.
    #[test]
    fn published_counts_of_order_12_agree_with_theory() {
        let counts = polya::unlabelled(12);
        let totals = |pick: fn(&polya::SizeCounts) -> &Vec<BigUint>| -> Vec<BigUint> {
            counts.iter().map(|counts| pick(counts).iter().sum()).collect()
        };
        let published = |counts: &[u128]| -> Vec<BigUint> {
            counts.iter().map(|&count| count.into()).collect()
        };
        assert_eq!(published(&GRAPHS), totals(|counts| &counts.all));
        assert_eq!(published(&CONNECTED), totals(|counts| &counts.connected));
        // Each class has n!/|Aut| labelled graphs: all of n! if it is asymmetric, half of them or
        // fewer otherwise.
        for (i, (&asymmetric, &graphs)) in ASYMMETRIC.iter().zip(&GRAPHS).enumerate() {
            let (n, factorial) = (i + 1, u128::from(factorial(i + 1)));
            let labelled = 1u128 << pairs(n);
            assert!(asymmetric * factorial <= labelled, "order {n}");
            assert!(labelled * 2 <= (asymmetric + graphs) * factorial, "order {n}");
            assert!(asymmetric <= graphs, "order {n}");
        }
    }

    /// Of a class of graphs, too, though theory does not count them; and what others have counted
    /// is compared with the graphs of that class.
    #[test]
    fn a_miscount_in_a_class_is_noticed() {
        // Order 3, without the triangle. To one edge another can be added in two ways.
        let (class, ahead) = (Class::Bipartite, [3, 2 * 3, 0, 0]);
        let mut by_size = vec![Statistics::default(); 4];
        for (size, labelled) in [1, 3, 3, 0].into_iter().enumerate() {
            by_size[size].classes.all.graphs = u128::from(labelled > 0);
            by_size[size].labelled.all.graphs = labelled;
        }
        let check = |by_size: &[Statistics]| check_masses(class, 3, by_size.iter(), &ahead);
        check(&by_size).unwrap();
        for size in 0..4 {
            let mut miscounted = by_size.clone();
            miscounted[size].labelled.all.graphs ^= 1;
            assert_eq!(check(&miscounted).unwrap_err().size, Some(size));
        }
        let mut sum = Statistics::default();
        by_size.iter().for_each(|size| sum += size);
        let about = &TrailTrap::ABOUT;
        assert_eq!(check_known(about, class, 3, &sum).unwrap(), class.known().len());
        assert!(check_known(about, Class::All, 3, &sum).is_err());
        sum.classes.all.graphs -= 1;
        assert!(check_known(about, class, 3, &sum).is_err());
    }

    /// Forests of orders 1 to 4, as classes and labelled: what is connected follows from the rest.
    #[test]
    fn a_miscount_of_connected_graphs_is_noticed() {
        let forests: [&[[u128; 4]]; 4] = [
            &[[1, 1, 1, 1]],
            &[[1, 1, 0, 0], [1, 1, 1, 1]],
            &[[1, 1, 0, 0], [1, 3, 0, 0], [1, 3, 1, 3]],
            &[[1, 1, 0, 0], [1, 6, 0, 0], [2, 15, 0, 0], [2, 16, 2, 16]],
        ];
        let results = |change: [usize; 3]| -> Vec<OrderResult> {
            let result = |(i, rows): (usize, &&[[u128; 4]])| {
                let mut by_size = vec![Summary::default(); pairs(i + 1) + 1];
                for (m, (summary, counts)) in by_size.iter_mut().zip(*rows).enumerate() {
                    let mut counts = *counts;
                    if change[..2] == [i, m] {
                        counts[change[2]] += 1;
                    }
                    let Statistics { classes, labelled, .. } = &mut summary.statistics;
                    classes.all.graphs = counts[0];
                    labelled.all.graphs = counts[1];
                    classes.connected.graphs = counts[2];
                    labelled.connected.graphs = counts[3];
                }
                OrderResult { order: i + 1, by_size }
            };
            forests.iter().enumerate().map(result).collect()
        };
        for (i, rows) in forests.iter().enumerate() {
            check_connected(Class::Forest, &results([9; 3])[..=i]).unwrap();
            for (m, column) in (0..rows.len()).flat_map(|m| (0..4).map(move |c| (m, c))) {
                let miscounted = &results([i, m, column])[..=i];
                let found = check_connected(Class::Forest, miscounted).unwrap_err();
                assert_eq!((found.order, found.size), (i + 1, Some(m)), "{found}");
            }
        }
    }
}
