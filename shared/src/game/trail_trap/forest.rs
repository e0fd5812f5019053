//! Forests in polynomial time: Theorem 14 of the paper, for trees, with Proposition 1 for several
//! components. Knows nothing of the recurrence or of the search, and so is an independent check of
//! both.

use super::conditions::{centres, eccentricity};
use crate::{
    game::Move,
    graph::{Graph, VertexSet, all_vertices, component, vertices},
};

/// Whether P1 wins a forest. Simple, not as fast as the theorem says: O(n³) steps for each first move
/// that Lemmas 11 and 12 leave, of which a tree has three at most.
pub(super) fn p1_wins(forest: &Graph) -> bool {
    first_moves(forest).into_iter().any(|opening| wins(forest, opening))
}

/// The first moves that can win in their component: each along a single edge, and else those that
/// end in a centre of degree three, and start in the other centre, of degree two, if there is one.
fn first_moves(forest: &Graph) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut left = all_vertices(forest.order());
    while left != 0 {
        let component = component(forest.rows(), left.trailing_zeros() as usize);
        left &= !component;
        let (centres, _) = centres(forest, component);
        for &v in &centres {
            let is_start = |&u: &usize| match centres.len() {
                1 => true,
                _ => centres.contains(&u) && forest.degree(u) == 2,
            };
            if component.count_ones() == 2 {
                moves.extend(vertices(forest.neighbours(v)).map(|u| (u, v)));
            } else if forest.degree(v) == 3 {
                moves.extend(vertices(forest.neighbours(v)).filter(is_start).map(|u| (u, v)));
            }
        }
    }
    moves
}

/// Whether a first move wins: no reply does.
fn wins(forest: &Graph, (u, v): Move) -> bool {
    let unused = forest.without_edge(u, v);
    unused.edges().all(|(x, y)| {
        let unused = unused.without_edge(x, y);
        mover_wins(&unused, v, y) && mover_wins(&unused, v, x)
    })
}

/// W(H; a, b) for a forest H. Players whose tokens are in different trees race. On one path, play is
/// forced as long as both tokens stay on it, and who leaves it first takes the deepest branch: that
/// parts the players.
fn mover_wins(unused: &Graph, a: usize, b: usize) -> bool {
    let Some(path) = path(unused, a, b) else {
        return eccentricity(unused, a) > eccentricity(unused, b);
    };
    let branches: Vec<[usize; 2]> = path.iter().map(|&v| branches(unused, &path, v)).collect();
    wins_on_path(&branches, [0, path.len() - 1], true)
}

/// The vertices from `a` to `b`, if they are in one tree.
fn path(forest: &Graph, a: usize, b: usize) -> Option<Vec<usize>> {
    let (mut path, mut reached): (Vec<usize>, VertexSet) = (vec![a], 1 << a);
    while let Some(&v) = path.last().filter(|&&v| v != b) {
        match vertices(forest.neighbours(v) & !reached).next() {
            Some(w) => {
                reached |= 1 << w;
                path.push(w);
            }
            None => drop(path.pop()),
        }
    }
    (!path.is_empty()).then_some(path)
}

/// How many edges the deepest and the second deepest branch have that hang at a vertex of a path,
/// off the path; 0 if there is none.
fn branches(forest: &Graph, path: &[usize], v: usize) -> [usize; 2] {
    let on_path = path.iter().fold(0, |set, &w| set | 1 << w);
    let depth = |w: usize| 1 + eccentricity(&forest.without_edge(v, w), w);
    let mut depths: Vec<usize> = vertices(forest.neighbours(v) & !on_path).map(depth).collect();
    depths.sort_unstable_by(|a, b| b.cmp(a));
    depths.resize(depths.len().max(2), 0);
    [depths[0], depths[1]]
}

/// Whether the player to move wins with the tokens at these places of a path, of which only the
/// part between them is unused; `from_left`: whose token is the first one.
fn wins_on_path(branches: &[[usize; 2]], [i, j]: [usize; 2], from_left: bool) -> bool {
    if i == j {
        return branches[i][0] > branches[i][1];
    }
    let here = if from_left { i } else { j };
    // The other player may come along the path and take another branch, here or before.
    let elsewhere = (i..=j).filter(|&t| t != here).map(|t| {
        let steps = if from_left { j - t } else { t - i };
        steps + branches[t][0]
    });
    let other = elsewhere.fold(j - i + branches[here][1], usize::max);
    let next = if from_left { [i + 1, j] } else { [i, j - 1] };
    branches[here][0] > other || !wins_on_path(branches, next, !from_left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        class::Class,
        game::{Search, trail_trap::ForwardSearch},
        graph::{MAX_ORDER, nauty},
    };

    fn searched(graph: &Graph) -> bool {
        ForwardSearch::new(usize::MAX).solve(graph).unwrap().is_listed()
    }

    /// All forests of order 8, each position of each: the search knows no theorem.
    #[test]
    fn positions_and_first_moves_are_those_of_the_search() {
        let mut forests = 0;
        for graph in nauty::enumerate(8).iter().flatten().filter(|g| Class::Forest.contains(g)) {
            forests += 1;
            let mut search = ForwardSearch::new(usize::MAX);
            for (a, b) in (0..graph.order()).flat_map(|a| (0..graph.order()).map(move |b| (a, b)))
            {
                let expected = search.mover_wins(graph, a, b).unwrap();
                assert_eq!(mover_wins(graph, a, b), expected, "{graph:?}: {a}, {b}");
            }
            for (u, v) in graph.edges().flat_map(|(u, v)| [(u, v), (v, u)]) {
                let expected = search.answer(&graph.without_edge(u, v), v).unwrap().is_none();
                let may_win = first_moves(graph).contains(&(u, v));
                assert_eq!(may_win && wins(graph, (u, v)), expected, "{graph:?}: {u} to {v}");
            }
            assert_eq!(p1_wins(graph), searched(graph), "{graph:?}");
        }
        assert_eq!(forests, [1, 2, 3, 6, 10, 20, 37, 76].iter().sum::<usize>());
    }

    /// Random trees and forests of the largest orders.
    #[test]
    fn large_forests_too() {
        let mut state = 1u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut won = 0;
        for round in 0..300 {
            let n = 12 + round % (MAX_ORDER - 11);
            let mut graph = Graph::edgeless(n);
            for v in 1..n {
                // Mostly to one of the vertices just before, so that there are long paths.
                let reach = 1 + draw(4).min(v - 1);
                if round % 3 > 0 || draw(8) > 0 {
                    graph.add_edge(v - reach, v);
                }
            }
            let p1_wins = p1_wins(&graph);
            assert_eq!(p1_wins, searched(&graph), "{graph:?}");
            won += usize::from(p1_wins);
        }
        assert!(won > 10, "{won}");
    }
}
