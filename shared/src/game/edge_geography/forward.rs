//! Forward search for one given graph: from which vertices the player to move wins. It plays the
//! game by its rules, and knows nothing of the recurrence over isomorphism classes.

use super::Roots;
use crate::{
    game::{FirstMove, Move, Search, Solution, TooManyPositions, positions::PositionTable},
    graph::{Graph, VertexSet, vertices},
};

/// A search with its table of positions.
pub struct RootedSearch {
    limit: usize,
    /// Where the token is, and in the place of a second one whether the player to move wins: a value
    /// beside each position would take as much memory again.
    known: PositionTable<()>,
}

impl Search for RootedSearch {
    fn new(limit: usize) -> Self {
        RootedSearch { limit, known: PositionTable::default() }
    }

    fn solve(&mut self, graph: &Graph) -> Result<Solution, TooManyPositions> {
        self.known.clear();
        let mut answers = Vec::new();
        for v in 0..graph.order() {
            match self.winning_move(graph, v)? {
                Some(answer) => answers.push((FirstMove::At(v), answer)),
                None => return Ok(Solution::P1 { opening: FirstMove::At(v) }),
            }
        }
        Ok(Solution::P2 { answers })
    }
}

impl RootedSearch {
    /// All vertices from which the player to move wins.
    ///
    /// # Errors
    /// When there are more positions than the limit.
    pub fn roots(&mut self, graph: &Graph) -> Result<Roots, TooManyPositions> {
        self.known.clear();
        let mut roots = Roots::default();
        for v in 0..graph.order() {
            roots.won |= VertexSet::from(self.winning_move(graph, v)?.is_some()) << v;
        }
        Ok(roots)
    }

    /// A winning move of the player to move from `v` when these edges are unused; `None` if that
    /// player loses.
    ///
    /// # Errors
    /// When there are more positions than the limit.
    pub fn winning_move(
        &mut self,
        unused: &Graph,
        v: usize,
    ) -> Result<Option<Move>, TooManyPositions> {
        for w in vertices(unused.neighbours(v)) {
            if !self.mover_wins(&unused.without_edge(v, w), w)? {
                return Ok(Some((v, w)));
            }
        }
        Ok(None)
    }

    /// U(H; v): whether the player to move, with the token at `v`, wins.
    fn mover_wins(&mut self, unused: &Graph, v: usize) -> Result<bool, TooManyPositions> {
        if unused.neighbours(v) == 0 {
            return Ok(false);
        }
        let code = unused.code();
        for wins in [false, true] {
            if self.known.get(code, [v, usize::from(wins)]).is_some() {
                return Ok(wins);
            }
        }
        let wins = self.winning_move(unused, v)?.is_some();
        if self.known.len() >= self.limit {
            return Err(TooManyPositions(self.limit));
        }
        self.known.insert(code, [v, usize::from(wins)], ());
        Ok(wins)
    }
}
