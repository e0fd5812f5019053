//! Forward search for one given graph: who wins, and how. It plays the game by its rules, knows
//! nothing of the recurrence over isomorphism classes, and so is an independent check of the
//! census. The number of positions grows like 0.4 · 2^m with the number m of edges: right for one
//! graph of up to about 25 edges, hopeless for many of more.

use crate::{
    game::{FirstMove, Move, Search, Solution, TooManyPositions, positions::PositionTable},
    graph::{Code, Graph, VertexSet, all_vertices, component, vertices},
};

/// A search with its table of positions.
pub struct ForwardSearch {
    limit: usize,
    won: PositionTable<()>,
    lost: PositionTable<()>,
}

impl Search for ForwardSearch {
    fn new(limit: usize) -> Self {
        ForwardSearch { limit, won: PositionTable::default(), lost: PositionTable::default() }
    }

    fn solve(&mut self, graph: &Graph) -> Result<Solution, TooManyPositions> {
        self.won.clear();
        self.lost.clear();
        let mut answers = Vec::new();
        for (u, v) in directed_edges(graph) {
            let opening = FirstMove::Along((u, v));
            match self.answer(&graph.without_edge(u, v), v)? {
                Some(answer) => answers.push((opening, answer)),
                None => return Ok(Solution::P1 { opening }),
            }
        }
        Ok(Solution::P2 { answers })
    }
}

impl ForwardSearch {
    /// A winning answer of P2 when P1's token is at `v` and these edges are unused. ¬R(H; v) if
    /// there is none.
    ///
    /// # Errors
    /// When there are more positions than the limit.
    pub fn answer(&mut self, unused: &Graph, v: usize) -> Result<Option<Move>, TooManyPositions> {
        for (x, y) in directed_edges(unused) {
            if !self.mover_wins(&unused.without_edge(x, y), v, y)? {
                return Ok(Some((x, y)));
            }
        }
        Ok(None)
    }

    /// W(H; a, b): whether the player to move, whose token is at `a`, wins.
    ///
    /// # Errors
    /// When there are more positions than the limit.
    pub fn mover_wins(
        &mut self,
        unused: &Graph,
        a: usize,
        b: usize,
    ) -> Result<bool, TooManyPositions> {
        let moves = unused.neighbours(a);
        if moves == 0 {
            return Ok(false);
        }
        let reachable = reachable(unused, a, b);
        for (table, wins) in [(&self.won, true), (&self.lost, false)] {
            if table.get(reachable, [a, b]).is_some() {
                return Ok(wins);
            }
        }
        // First the moves after which the other player is stuck.
        let stuck = |w: &usize| unused.neighbours(b) & !(edge_at(a, b, *w)) == 0;
        let mut wins = vertices(moves).any(|w| stuck(&w));
        if !wins {
            for w in vertices(moves) {
                if !self.mover_wins(&unused.without_edge(a, w), b, w)? {
                    wins = true;
                    break;
                }
            }
        }
        if self.won.len() + self.lost.len() >= self.limit {
            return Err(TooManyPositions(self.limit));
        }
        let table = if wins { &mut self.won } else { &mut self.lost };
        table.insert(reachable, [a, b], ());
        Ok(wins)
    }
}

/// What the move a → w takes from the neighbours of b: the other end of the edge, if b is one of
/// its ends.
pub(super) fn edge_at(a: usize, b: usize, w: usize) -> VertexSet {
    if b == a {
        1 << w
    } else if b == w {
        1 << a
    } else {
        0
    }
}

/// Every edge in both directions.
fn directed_edges(graph: &Graph) -> impl Iterator<Item = Move> + use<> {
    let edges: Vec<Move> = graph.edges().collect();
    edges.into_iter().flat_map(|(u, w)| [(u, w), (w, u)])
}

/// The unused edges that can be reached from either token.
fn reachable(unused: &Graph, a: usize, b: usize) -> Code {
    let reached = component(unused.rows(), a) | component(unused.rows(), b);
    let mut code = Code::default();
    for j in vertices(reached) {
        code.add_column(j, unused.neighbours(j) & all_vertices(j));
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degenerate_graphs() {
        let mut search = ForwardSearch::new(100);
        assert_eq!(search.solve(&Graph::edgeless(3)), Ok(Solution::P2 { answers: vec![] }));
        assert_eq!(
            search.solve(&Graph::from_edges(2, [(0, 1)])),
            Ok(Solution::P1 { opening: FirstMove::Along((0, 1)) })
        );
        assert_eq!(search.solve(&Graph::from_code(7, u128::MAX)), Err(TooManyPositions(100)));
    }
}
