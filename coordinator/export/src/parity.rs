//! What goes with who wins, odd and even numbers of edges apart: tables, and plots with a panel
//! for each, by density, by minimum degree, and by number of vertices of odd degree; by the last
//! for each number of edges, too.
//!
//! All of it follows from counts by number of edges and by degree sequence; no graph is looked at.
//! What is found by looking at graphs ([`crate::examined`]) has plots like these.

use std::collections::BTreeMap;

use trailtrap_census::read::{OrderResult, archive::ShardSummary};
use trailtrap_shared::{class::Class, count::statistics::Cell, graph::pairs};

use crate::{
    chart::{Axis, Marker, Panel, Scale, Series, panels},
    columns::{
        TableKind, cell, column, last_size, minimum_degree_column, odd_degrees_column,
        parity_column, parity_of, size_column,
    },
    picture::Picture,
    proportions::{colour_of, proportions_with_zero, share},
    table::{Column, Value},
};

/// The graphs of one order that a row is about, and what is counted of them.
#[derive(Clone, Copy)]
pub struct Row {
    order: usize,
    /// 1 if their numbers of edges are odd, 0 if they are even.
    parity: usize,
    /// Their number of edges, minimum degree, or number of vertices of odd degree; or what else a
    /// plot is by.
    key: usize,
    cell: Cell,
}

/// The rows by density, that is by number of edges.
pub fn by_density(results: &[OrderResult]) -> Vec<Row> {
    let rows = |result: &OrderResult| {
        let sizes = result.by_size.iter().enumerate();
        let cells = sizes.map(|(size, row)| (size, size, cell(&row.statistics)));
        apart(result.order, cells)
    };
    results.iter().flat_map(rows).collect()
}

/// The rows by something that the degree sequence tells.
pub fn by_degrees(kind: TableKind, order: usize, shards: &[ShardSummary]) -> Vec<Row> {
    let cells = shards.iter().map(|shard| {
        let key = match kind {
            TableKind::OddDegrees => odd_degrees(shard),
            _ => shard.sequence.degree(0),
        };
        (shard.sequence.size(), key, cell(&shard.statistics))
    });
    apart(order, cells)
}

/// The number of vertices of odd degree of the graphs of a shard.
fn odd_degrees(shard: &ShardSummary) -> usize {
    shard.sequence.bytes().iter().filter(|&degree| degree % 2 == 1).count()
}

/// Cells by number of edges and number of vertices of odd degree.
pub fn by_size_and_odd_degrees(shards: &[ShardSummary]) -> BTreeMap<(usize, usize), Cell> {
    let mut sums: BTreeMap<(usize, usize), Cell> = BTreeMap::new();
    for shard in shards {
        let key = (shard.sequence.size(), odd_degrees(shard));
        *sums.entry(key).or_default() += cell(&shard.statistics);
    }
    sums
}

/// Adds up cells of the same key, and puts even numbers of edges first; these come with a number
/// of edges, or its parity, and their key.
pub fn apart(order: usize, cells: impl Iterator<Item = (usize, usize, Cell)>) -> Vec<Row> {
    let mut sums: BTreeMap<(usize, usize), Cell> = BTreeMap::new();
    for (size, key, cell) in cells {
        *sums.entry((size % 2, key)).or_default() += cell;
    }
    sums.into_iter().map(|((parity, key), cell)| Row { order, parity, key, cell }).collect()
}

/// The columns of such a table that tell its rows apart, but for the order.
pub fn keys(kind: TableKind) -> Vec<Column> {
    let keys = match kind {
        TableKind::Density => {
            let meaning = "size / C(order, 2); nothing if there are no pairs of vertices";
            vec![size_column(), column("density", Some("% density"), meaning)]
        }
        TableKind::OddDegrees => vec![odd_degrees_column()],
        _ => vec![minimum_degree_column()],
    };
    std::iter::once(parity_column()).chain(keys).collect()
}

/// What stands in these columns and in that of the order, and the counts.
pub fn cells(kind: TableKind, rows: &[Row]) -> Vec<(Vec<Value>, Cell)> {
    let number = |number: usize| Value::Number(number as u64);
    let key = |row: &Row| {
        let mut key = vec![number(row.order), parity_of(row.parity), number(row.key)];
        if kind == TableKind::Density {
            key.push(Value::Share { part: row.key as u128, whole: pairs(row.order) as u128 });
        }
        key
    };
    rows.iter().map(|row| (key(row), row.cell)).collect()
}

/// The orders from which on a curve shows something.
const FIRST_ORDER: usize = 3;

/// The proportion of P1-wins as it goes with what such a table is by: a curve for each order, odd
/// numbers of edges in a panel above even ones.
pub fn plot(class: Class, kind: TableKind, results: &[OrderResult], rows: &[Row]) -> Picture {
    let last = results.last().map_or(1, |result| result.order);
    let drawn = || results.iter().filter(|result| result.order >= FIRST_ORDER.min(last));
    let count = drawn().count();
    let place = |row: &Row| match kind {
        TableKind::Density => row.key as f64 / pairs(row.order).max(1) as f64,
        _ => row.key as f64,
    };
    let curves = |parity: usize| -> Vec<Series> {
        let curve = |(number, result): (usize, &OrderResult)| {
            let order = result.order;
            let rows = rows.iter().filter(|row| row.order == order && row.parity == parity);
            let points = rows.filter_map(|row| Some((place(row), share(&row.cell.classes)?)));
            let up_to = result.limit().map_or_else(String::new, |limit| format!(", m ≤ {limit}"));
            // The lightest colours would hardly be seen.
            let colour = colour_of(0.85 * number as f64 / count.max(2).saturating_sub(1) as f64);
            let marker = [Marker::Ring, Marker::Disc][order % 2];
            let name = format!("n = {order}{up_to}");
            Series::of(name, points.collect(), colour, marker, Some(None))
        };
        drawn().enumerate().map(curve).collect()
    };
    let (label, to, by) = match kind {
        TableKind::Density => ("density m / C(n, 2)", 1.0, "density"),
        TableKind::OddDegrees => {
            ("number of vertices of odd degree", last as f64, "number of vertices of odd degree")
        }
        TableKind::Involutions => {
            let support = "most vertices that an involution moves";
            (support, last as f64, support)
        }
        _ => ("minimum degree", last.saturating_sub(1).max(1) as f64, "minimum degree"),
    };
    let x = Axis { label: label.to_owned(), from: 0.0, to, scale: Scale::Linear };
    let title = format!(
        "Proportion of {} that the first player wins, by {by}, graphs with odd and with even \
         numbers m of edges apart",
        class.title()
    );
    two_panels(&title, &x, curves)
}

/// The proportion of P1-wins of one order against the number of edges: a curve for each number of
/// vertices of odd degree, odd numbers of edges in a panel above even ones.
pub fn plot_by_size(
    class: Class,
    result: &OrderResult,
    cells: &BTreeMap<(usize, usize), Cell>,
) -> Picture {
    let order = result.order;
    let curves = |parity: usize| -> Vec<Series> {
        // The number of vertices of odd degree is even.
        let curve = |odd: usize| {
            let cells = cells.iter().filter(|((size, k), _)| size % 2 == parity && *k == odd);
            let points = cells
                .filter_map(|((size, _), cell)| Some((*size as f64, share(&cell.classes)?)))
                .collect();
            let colour = colour_of(0.85 * odd as f64 / order.max(2) as f64);
            let marker = [Marker::Ring, Marker::Disc][odd / 2 % 2];
            Series::of(format!("{odd} odd"), points, colour, marker, Some(None))
        };
        (0..=order).step_by(2).map(curve).collect()
    };
    let x = Axis {
        label: format!("number m of edges (n = {order})"),
        from: 0.0,
        to: last_size(class, result).max(1) as f64,
        scale: Scale::Linear,
    };
    let title = format!(
        "Proportion of {} with {order} vertices that the first player wins, by number m of edges \
         and number of vertices of odd degree, odd and even m apart",
        class.title()
    );
    two_panels(&title, &x, curves)
}

/// Curves of odd numbers of edges (1) above those of even ones (0), on the same axes.
fn two_panels(title: &str, x: &Axis, curves: impl Fn(usize) -> Vec<Series>) -> Picture {
    let both = [("odd", curves(1)), ("even", curves(0))];
    let all = both.iter().flat_map(|(_, curves)| curves);
    let shares = all.flat_map(|curve| curve.points.iter().map(|point| point.1));
    let y = proportions_with_zero(shares);
    let both = both.map(|(parity, series)| Panel { name: format!("m {parity}"), series });
    panels(title, x, &y, &both)
}
