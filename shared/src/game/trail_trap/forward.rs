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
    use crate::graph::graph6;

    fn p1_wins(graph: &Graph) -> bool {
        matches!(ForwardSearch::new(10_000_000).solve(graph).unwrap(), Solution::P1 { .. })
    }

    fn complete_bipartite(p: usize, q: usize) -> Graph {
        Graph::from_edges(p + q, (0..p).flat_map(|u| (p..p + q).map(move |w| (u, w))))
    }

    fn grid(rows: usize, columns: usize) -> Graph {
        let vertex = move |i: usize, j: usize| i * columns + j;
        let across = (0..rows)
            .flat_map(move |i| (1..columns).map(move |j| (vertex(i, j - 1), vertex(i, j))));
        let down = (1..rows)
            .flat_map(move |i| (0..columns).map(move |j| (vertex(i - 1, j), vertex(i, j))));
        Graph::from_edges(rows * columns, across.chain(down))
    }

    #[test]
    fn p1_wins_of_table_1() {
        let listed = "CF C~ DCw DQw DTw D]w ECR_ ECRw ECqg ECZG ECYW ECZo ECZW ECfw ECzo ECvo \
                      EC~o EC~w EEr_ EErw EEiW \
                      EEhW EEjw EEno EQj_ EQjw EQyw EUZ_ EUZO E~~w";
        assert!(
            listed
                .split_whitespace()
                .all(|text| p1_wins(&graph6::decode(text.as_bytes()).unwrap()))
        );
    }

    #[test]
    fn theorems_of_the_paper() {
        // Proposition 4 and the computed complete graphs.
        let complete = (2..=7).map(|n| p1_wins(&Graph::from_code(n, u128::MAX)));
        assert_eq!(complete.collect::<Vec<_>>(), [true, false, true, false, true, true]);
        // Theorem 5, and the case p = 1 that it leaves out.
        for (p, q) in [(1, 1), (1, 3), (3, 5), (3, 7)] {
            assert!(p1_wins(&complete_bipartite(p, q)), "K({p},{q})");
        }
        for (p, q) in
            [(1, 2), (1, 4), (1, 5), (1, 7), (2, 3), (2, 5), (3, 3), (3, 4), (4, 4), (4, 5)]
        {
            assert!(!p1_wins(&complete_bipartite(p, q)), "K({p},{q})");
        }
        // Proposition 7: the ladders of odd length, from 5 on. Rotation by half a turn: equal
        // parities.
        for n in [5, 7] {
            assert!(p1_wins(&grid(2, n)), "ladder of length {n}");
        }
        for (m, n) in [(2, 3), (2, 4), (3, 3), (2, 6), (3, 4)] {
            assert!(!p1_wins(&grid(m, n)), "{m} × {n} grid");
        }
        // Proposition 8: prisms.
        for n in [3, 4, 5, 7] {
            let rim = |base: usize| (0..n).map(move |i| (base + i, base + (i + 1) % n));
            let prism =
                Graph::from_edges(2 * n, rim(0).chain(rim(n)).chain((0..n).map(|i| (i, n + i))));
            assert!(!p1_wins(&prism), "prism over C{n}");
        }
    }

    #[test]
    fn winning_first_moves_of_a_ladder_are_the_middle_rung() {
        let ladder = grid(2, 5);
        let mut search = ForwardSearch::new(1_000_000);
        for (u, v) in directed_edges(&ladder) {
            let wins = search.answer(&ladder.without_edge(u, v), v).unwrap().is_none();
            assert_eq!(wins, (u, v) == (2, 7) || (u, v) == (7, 2), "{u}→{v}");
        }
    }

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
