//! A sheet of drawings of P1-win graphs, with a winning first move.

use std::{cmp::Reverse, collections::BinaryHeap};

use trailtrap_shared::{
    class::Class,
    game::{FirstMove, Game, GameName, Search, Solution, TooManyPositions},
    graph::{Graph, VertexSet, graph6, nauty, vertices},
    plan::order_name,
    play,
};

use crate::{
    ExportError, documents,
    graphs::GraphList,
    picture::{Anchor, BLACK, Colour, GREY, Picture, VERMILLION},
};

/// Points of a place in the plane.
type Point = (f64, f64);

/// Drawings side by side, and the room of each.
const COLUMNS: usize = 5;
const CELL: (f32, f32) = (98.0, 116.0);
const MARGIN: f32 = 10.0;
const HEAD: f32 = 20.0;
/// Size of the title.
const TITLE: f32 = 9.0;
/// Positions that the search for a winning move may remember, of about 40 bytes each.
const POSITIONS: usize = 3_000_000;

/// Draws up to `most` graphs of a list of an order, done to the end or up to a number of edges:
/// those with the largest automorphism groups, and of these the first. A winning first move is an
/// arrow; graphs with so many edges that forward search does not find one are drawn without.
///
/// # Errors
/// Forward search finds that the other player wins one of those that are drawn.
pub fn sheet(
    game: GameName,
    class: Class,
    list: &GraphList,
    (order, max_size): (usize, Option<usize>),
    most: usize,
) -> Result<Picture, ExportError> {
    // The least of those to keep is on top.
    let mut chosen: BinaryHeap<Reverse<(u64, Reverse<usize>, Graph)>> = BinaryHeap::new();
    for (index, graph) in list.graphs().enumerate() {
        chosen.push(Reverse((nauty::label(&graph).automorphisms, Reverse(index), graph)));
        if chosen.len() > most {
            chosen.pop();
        }
    }
    let chosen: Vec<(u64, Graph)> = chosen
        .into_sorted_vec()
        .into_iter()
        .map(|Reverse((group, _, graph))| (group, graph))
        .collect();
    // One search after the other: each may take a hundred megabytes.
    let openings: Vec<Option<FirstMove>> = play!(game, G => {
        let mut search = <G as Game>::Search::new(POSITIONS);
        let opening = |(_, graph): &(u64, Graph)| match search.solve(graph) {
            Ok(Solution::P1 { opening }) => Ok(Some(opening)),
            Ok(Solution::P2 { .. }) => Err(ExportError::Contradiction {
                graph6: graph6::encode(graph),
                winner: "P1",
                says: "forward search".to_owned(),
            }),
            Err(TooManyPositions(_)) => Ok(None),
        };
        chosen.iter().map(opening).collect::<Result<_, _>>()
    })?;
    let rows = chosen.len().div_ceil(COLUMNS).max(1);
    let columns = chosen.len().clamp(1, COLUMNS);
    let order = order_name(order, max_size);
    let (drawn, all, graphs) = (chosen.len(), list.len(), class.title());
    let such = if list.is_filtered() { " that pass the filter" } else { "" };
    let title = format!("{drawn} of {all} P1-win {graphs} of {order}{such}");
    let title = documents::title_of_picture(game.about(), title);
    // Widths do not depend on what is in a picture.
    let title_width = Picture::new("", 0.0, 0.0).text_width(TITLE, &title);
    let width = (columns as f32 * CELL.0).max(2.0 * CELL.0).max(title_width) + 2.0 * MARGIN;
    let mut picture = Picture::new(&title, width, rows as f32 * CELL.1 + HEAD + MARGIN);
    picture.text((MARGIN, 14.0), TITLE, Anchor::Start, false, &title);
    for (i, (group, graph)) in chosen.iter().enumerate() {
        let corner =
            (MARGIN + (i % COLUMNS) as f32 * CELL.0, HEAD + (i / COLUMNS) as f32 * CELL.1);
        draw(&mut picture, corner, graph, *group, openings[i]);
    }
    Ok(picture)
}

fn draw(
    picture: &mut Picture,
    (x, y): (f32, f32),
    graph: &Graph,
    group: u64,
    opening: Option<FirstMove>,
) {
    let side = CELL.0 - 22.0;
    let places: Vec<(f32, f32)> = layout(graph)
        .into_iter()
        .map(|(a, b)| (x + 8.0 + a as f32 * side, y + 4.0 + b as f32 * side))
        .collect();
    for (u, w) in graph.edges() {
        picture.line(&[places[u], places[w]], 0.7, None, GREY);
    }
    if let Some(FirstMove::Along((u, v))) = opening {
        arrow(picture, places[u], places[v], VERMILLION);
    }
    for (v, &(a, b)) in places.iter().enumerate() {
        let start = opening.is_some_and(|opening| opening.start() == v);
        picture.disc(a, b, 2.4, if start { VERMILLION } else { BLACK });
    }
    let text = y + CELL.0 - 8.0;
    let note = if opening.is_some() { "" } else { ", move not searched" };
    picture.text((x + 4.0, text), 7.0, Anchor::Start, false, &graph6::encode(graph));
    let facts = format!("m = {}, |Aut| = {group}{note}", graph.size());
    picture.text((x + 4.0, text + 9.0), 6.5, Anchor::Start, false, &facts);
}

/// A line with a head that ends at the rim of the vertex.
fn arrow(picture: &mut Picture, from: (f32, f32), to: (f32, f32), colour: Colour) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1e-3);
    let (ux, uy) = (dx / length, dy / length);
    let at = |back: f32, side: f32| (to.0 - ux * back - uy * side, to.1 - uy * back + ux * side);
    picture.line(&[from, at(6.0, 0.0)], 1.8, None, colour);
    picture.polygon(&[at(2.6, 0.0), at(9.0, 3.2), at(9.0, -3.2)], colour);
}

/// A place in the unit square for each vertex: distances in the plane come near to those in the
/// graph (stress majorization, Gansner, Koren and North 2004), from circles through the vertices
/// in a few orders; the best is kept.
pub fn layout(graph: &Graph) -> Vec<Point> {
    let n = graph.order();
    if n <= 1 {
        return vec![(0.5, 0.5); n];
    }
    let distances = distances(graph);
    let mut by_degree: Vec<usize> = (0..n).collect();
    by_degree.sort_by_key(|&v| (graph.degree(v), v));
    // Neighbours next to each other, as far as a walk along first unused neighbours gets.
    let mut walk: Vec<usize> = Vec::new();
    while walk.len() < n {
        let unused = |v: &usize| !walk.contains(v);
        let next = walk.last().and_then(|&v| vertices(graph.neighbours(v)).find(unused));
        walk.push(next.or_else(|| by_degree.iter().copied().find(unused)).unwrap_or(0));
    }
    let starts = [(0..n).collect::<Vec<_>>(), by_degree, walk];
    let best = starts
        .iter()
        .map(|order| {
            let mut places = vec![(0.0, 0.0); n];
            for (i, &v) in order.iter().enumerate() {
                let angle = std::f64::consts::TAU * i as f64 / n as f64;
                places[v] = (angle.cos(), angle.sin());
            }
            relax(&distances, places)
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there are three starts");
    fit(best.1)
}

/// Lengths of shortest paths; parts that are not joined are kept a little apart.
fn distances(graph: &Graph) -> Vec<Vec<f64>> {
    let n = graph.order();
    (0..n)
        .map(|from| {
            let mut row = vec![f64::NAN; n];
            let (mut reached, mut frontier): (VertexSet, VertexSet) = (1 << from, 1 << from);
            let mut distance = 0.0;
            while frontier != 0 {
                vertices(frontier).for_each(|v| row[v] = distance);
                frontier =
                    vertices(frontier).fold(0, |set, v| set | graph.neighbours(v)) & !reached;
                reached |= frontier;
                distance += 1.0;
            }
            row.into_iter().map(|d| if d.is_nan() { 2.5 } else { d }).collect()
        })
        .collect()
}

/// Each vertex moves to the weighted mean of where the others want it, again and again. Returns
/// what is left of the stress.
fn relax(distances: &[Vec<f64>], mut places: Vec<Point>) -> (f64, Vec<Point>) {
    let n = places.len();
    let apart = |a: Point, b: Point| (a.0 - b.0).hypot(a.1 - b.1).max(1e-9);
    for _ in 0..300 {
        for v in 0..n {
            let (mut x, mut y, mut weights) = (0.0, 0.0, 0.0);
            for w in (0..n).filter(|&w| w != v) {
                let d = distances[v][w];
                let (weight, pull) = (1.0 / (d * d), d / apart(places[v], places[w]));
                x += weight * (places[w].0 + pull * (places[v].0 - places[w].0));
                y += weight * (places[w].1 + pull * (places[v].1 - places[w].1));
                weights += weight;
            }
            places[v] = (x / weights, y / weights);
        }
    }
    let pairs = (0..n).flat_map(|v| (0..v).map(move |w| (v, w)));
    let stress =
        pairs.map(|(v, w)| (apart(places[v], places[w]) / distances[v][w] - 1.0).powi(2)).sum();
    (stress, places)
}

/// Moves and scales places into the unit square.
fn fit(places: Vec<Point>) -> Vec<Point> {
    let bounds = |pick: fn(&Point) -> f64| {
        let values = || places.iter().map(pick);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (top, bottom)) = (bounds(|p| p.0), bounds(|p| p.1));
    let side = (right - left).max(bottom - top).max(1e-9);
    let centred = |value: f64, low: f64, high: f64| 0.5 + (value - (low + high) / 2.0) / side;
    places.iter().map(|&(x, y)| (centred(x, left, right), centred(y, top, bottom))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_drawn_as_a_polygon() {
        let cycle = Graph::from_edges(6, [(0, 3), (3, 1), (1, 4), (4, 2), (2, 5), (5, 0)]);
        let places = layout(&cycle);
        let length =
            |u: usize, w: usize| (places[u].0 - places[w].0).hypot(places[u].1 - places[w].1);
        let edges: Vec<f64> = cycle.edges().map(|(u, w)| length(u, w)).collect();
        assert!(edges.iter().all(|edge| (edge - edges[0]).abs() < 0.02), "{edges:?}");
        assert!(length(0, 1) > 1.5 * edges[0], "not folded");
    }

    #[test]
    fn every_vertex_has_a_place_of_its_own() {
        for graph in nauty::enumerate(5).into_iter().flatten() {
            let places = layout(&graph);
            for (v, a) in places.iter().enumerate() {
                assert!((0.0..=1.0).contains(&a.0) && (0.0..=1.0).contains(&a.1), "{graph:?}");
                assert!(
                    places[..v].iter().all(|b| (a.0 - b.0).hypot(a.1 - b.1) > 0.05),
                    "{graph:?} {places:?}"
                );
            }
        }
    }
}
