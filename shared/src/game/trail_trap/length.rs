//! How long play lasts, and how long trails are, on all graphs of an order: from those with one
//! edge less, as the census decides them, but with numbers of moves for outcomes.
//!
//! Under best play the winner ends as soon as possible, and the loser as late as possible. After
//! both first moves let T(H; a, b) be the moves still to come, the token of the player to move at
//! a. That player makes the first of them, so wins if T is odd: the parity of a number of moves
//! tells the winner, and nothing is taken from the outcomes of a census.

use std::collections::HashMap;

use crate::{
    graph::{Graph, MAX_ORDER},
    labelling::hashed,
};

/// One number for each vertex, in canonical labels.
type ByVertex = [u8; MAX_ORDER];

/// What is known of the graph H of unused edges.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// T(H; a, b).
    moves: [ByVertex; MAX_ORDER],
    /// Edges of a longest trail from a vertex.
    trails: ByVertex,
    /// Moves still to come when P1's token is at a vertex, and P2 has yet to place one.
    answers: ByVertex,
    /// Moves on the whole graph.
    play: u8,
}

/// What is told of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// Moves of both players under best play; P1 wins if they are odd in number.
    pub moves: u8,
    /// Edges of a longest trail.
    pub longest_trail: u8,
}

/// All graphs of an order that have one number of edges.
pub struct Level {
    entries: HashMap<Graph, Entry>,
}

/// A graph without one of its edges is not among those with fewer edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a graph with one edge less is missing")]
pub struct MissingGraph;

/// The better of two numbers of moves for the player who makes the first of them. What is odd is
/// won: the sooner the better; what is even is lost, and should last.
fn better(one: u8, other: u8) -> u8 {
    match (one % 2 == 1, other % 2 == 1) {
        (true, true) => one.min(other),
        (true, false) => one,
        (false, true) => other,
        (false, false) => one.max(other),
    }
}

impl Level {
    /// The one graph of order `n`, at most [`MAX_ORDER`], without edges: no move is made.
    pub fn edgeless(n: usize) -> Self {
        Level { entries: [(Graph::edgeless(n), Entry::default())].into() }
    }

    /// The level of these graphs, which have one edge more than those of this one, in whatever
    /// labels; and what is told of each of them.
    ///
    /// # Errors
    /// One of them without an edge is not here.
    pub fn next(&self, graphs: &[Graph]) -> Result<(Level, Vec<Lasting>), MissingGraph> {
        let mut entries = HashMap::with_capacity(graphs.len());
        let mut told = Vec::with_capacity(graphs.len());
        for graph in graphs {
            let canonical = graph.relabelled(&hashed::label(graph).label);
            let entry = self.above(&canonical)?;
            let longest_trail = entry.trails.into_iter().max().unwrap_or(0);
            told.push(Lasting { moves: entry.play, longest_trail });
            entries.insert(canonical, entry);
        }
        Ok((Level { entries }, told))
    }

    fn above(&self, graph: &Graph) -> Result<Entry, MissingGraph> {
        let n = graph.order();
        let mut entry = Entry::default();
        for (u, w) in graph.edges() {
            let below = graph.without_edge(u, w);
            let label: [u8; MAX_ORDER] = hashed::label(&below).label;
            let below = self.entries.get(&below.relabelled(&label)).ok_or(MissingGraph)?;
            let at = |v: usize| usize::from(label[v]);
            for (from, to) in [(u, w), (w, u)] {
                let longer = below.trails[at(to)] + 1;
                entry.trails[from] = entry.trails[from].max(longer);
                for other in 0..n {
                    let moves = below.moves[at(other)][at(to)] + 1;
                    entry.moves[from][other] = better(entry.moves[from][other], moves);
                    // P2 answers by this edge, and the player at the other vertex is to move.
                    entry.answers[other] = better(entry.answers[other], moves);
                }
                entry.play = better(entry.play, below.answers[at(to)] + 1);
            }
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        game::{Search, Solution, trail_trap::ForwardSearch},
        graph::nauty,
    };

    /// Moves that are still to come, by the rules: `tokens` are that of the player to move, if it
    /// is on the board, and the other.
    fn played(unused: &Graph, tokens: [Option<usize>; 2]) -> u8 {
        let mut best = 0;
        for (u, w) in unused.edges() {
            for (from, to) in [(u, w), (w, u)] {
                if tokens[0].is_none_or(|token| token == from) {
                    let rest = played(&unused.without_edge(u, w), [tokens[1], Some(to)]) + 1;
                    let is_better = match (rest % 2, best % 2) {
                        (1, 1) => rest < best,
                        (0, 0) => rest > best,
                        (odd, _) => odd == 1,
                    };
                    best = if is_better { rest } else { best };
                }
            }
        }
        best
    }

    fn longest(unused: &Graph, from: usize) -> u8 {
        let ends = crate::graph::vertices(unused.neighbours(from));
        ends.map(|to| 1 + longest(&unused.without_edge(from, to), to)).max().unwrap_or(0)
    }

    /// What is told of all graphs of an order.
    fn told(n: usize) -> Vec<(Graph, Lasting)> {
        let mut by_size: Vec<Vec<Graph>> = vec![Vec::new(); crate::graph::pairs(n) + 1];
        for graph in nauty::enumerate(n).pop().unwrap() {
            by_size[graph.size()].push(graph);
        }
        let (mut level, mut all) = (Level::edgeless(n), Vec::new());
        for graphs in &by_size[1..] {
            let (next, told) = level.next(graphs).unwrap();
            all.extend(graphs.iter().copied().zip(told));
            level = next;
        }
        all
    }

    #[test]
    fn numbers_of_moves_and_trails_are_those_of_the_rules() {
        for n in 2..=6 {
            // Plain recursion goes through every play.
            for (graph, found) in told(n).into_iter().filter(|(graph, _)| graph.size() <= 8) {
                let longest_trail = (0..n).map(|v| longest(&graph, v)).max().unwrap();
                let moves = played(&graph, [None, None]);
                assert_eq!(found, Lasting { moves, longest_trail }, "{:?}", graph.rows());
            }
        }
    }

    #[test]
    fn parity_tells_the_winner() {
        let mut search = ForwardSearch::new(usize::MAX);
        for (graph, found) in told(7).into_iter().step_by(7) {
            let p1_wins = matches!(search.solve(&graph), Ok(Solution::P1 { .. }));
            assert_eq!(found.moves % 2 == 1, p1_wins);
        }
    }

    #[test]
    fn a_graph_that_is_missing_is_noticed() {
        let path = Graph::from_edges(4, [(0, 1), (1, 2)]);
        assert_eq!(Level::edgeless(4).next(&[path]).err(), Some(MissingGraph));
    }
}
