//! What tells the winner of a graph without playing: conditions of the paper that suffice.
//!
//! Vertices without edges are of no concern in any of them.

use crate::{
    graph::{
        Graph, VertexSet, all_vertices, component, involution::has_free_involution, vertices,
    },
    labelling::hashed,
};

/// A condition that suffices for one of the players to win.
pub struct Condition {
    /// Its name in tables for programs.
    pub name: &'static str,
    /// The same for people, and where it stands in the paper.
    pub title: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// Whether P1 wins, and not P2.
    pub p1_wins: bool,
    holds: fn(&Board) -> bool,
}

/// A graph without its vertices of degree 0.
struct Board {
    graph: Graph,
    size: usize,
    has_free_involution: bool,
}

/// All of them.
pub const CONDITIONS: [Condition; 10] = [
    Condition {
        name: "no-edge",
        title: "no edge",
        meaning: "there is no edge",
        p1_wins: false,
        holds: |board| board.size == 0,
    },
    Condition {
        name: "one-edge",
        title: "one edge",
        meaning: "there is one edge",
        p1_wins: true,
        holds: |board| board.size == 1,
    },
    Condition {
        name: "maximum-degree-2",
        title: "no degree above 2 (Prop. 2)",
        meaning: "two edges or more, and no degree above 2 (Proposition 2)",
        p1_wins: false,
        holds: |board| board.size >= 2 && board.degrees().all(|degree| degree <= 2),
    },
    Condition {
        name: "involution",
        title: "involution without fixed edge (Prop. 3)",
        meaning: "an involution maps no edge to itself (Proposition 3)",
        p1_wins: false,
        holds: |board| board.has_free_involution,
    },
    Condition {
        name: "even-side",
        title: "complete bipartite, even side (Thm. 5)",
        meaning: "complete bipartite with a side of even size (Theorem 5)",
        p1_wins: false,
        holds: |board| board.sides().is_some_and(|sides| sides.iter().any(|side| side % 2 == 0)),
    },
    Condition {
        name: "side-of-3",
        title: "complete bipartite, 3 and odd (Thm. 5)",
        meaning: "complete bipartite with sides of 3 and of an odd number from 5 on (Theorem 5)",
        p1_wins: true,
        holds: |board| {
            board.sides().is_some_and(|[less, more]| less == 3 && more >= 5 && more % 2 == 1)
        },
    },
    Condition {
        name: "prism",
        title: "prism (Prop. 8)",
        meaning: "a prism, that is a cycle times an edge (Proposition 8)",
        p1_wins: false,
        holds: |board| board.is_prism(),
    },
    Condition {
        name: "tree-centre",
        title: "tree, no centre to win at (Lemmas 11, 12)",
        meaning: "a tree in which no first move leads to a centre as it has to (Lemmas 11 and 12)",
        p1_wins: false,
        holds: |board| board.is_tree() && !board.has_centre_to_move_to(),
    },
    Condition {
        name: "tree-long-paths",
        title: "tree, remark after Thm. 13",
        meaning: "a tree with one centre, of degree 3, as in the remark after Theorem 13",
        p1_wins: true,
        holds: |board| board.is_tree() && board.has_long_paths_through_centre(),
    },
    Condition {
        name: "separated",
        title: "first moves answered (Prop. 2, Lemma 10)",
        meaning: "each first move leads to a degree below 3, or has an answer after which the \
                  players are apart and P2 has no shorter a trail (Proposition 2, Lemma 10)",
        p1_wins: false,
        holds: |board| {
            board.size >= 2 && board.is_each_first_move_answered(&mut { MOST_STEPS }) == Some(true)
        },
    },
];

/// The last condition follows so many steps of trails of a graph at most, which takes less than a
/// second. Where that does not decide it, it is taken not to hold: a complete graph on seven vertices
/// has more than a hundred million trails.
const MOST_STEPS: u32 = 10_000_000;

/// Which of [`CONDITIONS`] hold for a graph.
pub fn that_hold(graph: &Graph) -> [bool; CONDITIONS.len()] {
    let board = Board::of(graph);
    CONDITIONS.each_ref().map(|condition| (condition.holds)(&board))
}

/// The first of [`CONDITIONS`] that holds for a graph. Those after it are not looked at.
pub fn first_that_holds(graph: &Graph) -> Option<&'static Condition> {
    let board = Board::of(graph);
    CONDITIONS.iter().find(|condition| (condition.holds)(&board))
}

impl Board {
    fn of(graph: &Graph) -> Self {
        let has_free_involution = has_free_involution(graph);
        let order = graph.order();
        let isolated = (0..order).rev().filter(|&v| graph.degree(v) == 0);
        let graph = isolated.fold(*graph, |graph, v| graph.without_vertex(v));
        Board { graph, size: graph.size(), has_free_involution }
    }

    fn order(&self) -> usize {
        self.graph.order()
    }

    fn degrees(&self) -> impl Iterator<Item = usize> {
        (0..self.order()).map(|v| self.graph.degree(v))
    }

    /// The sizes of the sides of a complete bipartite graph, the smaller one first.
    fn sides(&self) -> Option<[usize; 2]> {
        if self.size == 0 {
            return None;
        }
        let one = self.graph.neighbours(0);
        let other = all_vertices(self.order()) & !one;
        let expected = |v: usize| if one >> v & 1 == 1 { other } else { one };
        let is_complete = (0..self.order()).all(|v| self.graph.neighbours(v) == expected(v));
        let mut sides = [one, other].map(|side| side.count_ones() as usize);
        sides.sort_unstable();
        is_complete.then_some(sides)
    }

    fn is_prism(&self) -> bool {
        let (n, k) = (self.order(), self.order() / 2);
        if n % 2 == 1 || k < 3 || self.degrees().any(|degree| degree != 3) {
            return false;
        }
        let cycles = (0..k).flat_map(|i| [(i, (i + 1) % k), (k + i, k + (i + 1) % k)]);
        let prism = Graph::from_edges(n, cycles.chain((0..k).map(|i| (i, k + i))));
        let canonical = |graph: &Graph| graph.relabelled(&hashed::label(graph).label);
        canonical(&self.graph) == canonical(&prism)
    }

    /// Of three vertices or more.
    fn is_tree(&self) -> bool {
        self.order() >= 3 && self.size == self.order() - 1 && self.graph.is_connected()
    }

    /// Whether a first move of a tree can win by Lemmas 11 and 12.
    fn has_centre_to_move_to(&self) -> bool {
        let (centres, _) = centres(&self.graph, all_vertices(self.order()));
        let mut degrees: Vec<usize> = centres.iter().map(|&v| self.graph.degree(v)).collect();
        degrees.sort_unstable();
        degrees == [3] || degrees == [2, 3]
    }

    /// Whether P1 wins a tree by the remark after Theorem 13.
    fn has_long_paths_through_centre(&self) -> bool {
        let (found, radius) = centres(&self.graph, all_vertices(self.order()));
        let [centre] = found[..] else { return false };
        self.graph.degree(centre) == 3
            && vertices(self.graph.neighbours(centre)).any(|start| {
                let cut = self.graph.without_edge(centre, start);
                let (near, rest) = (component(cut.rows(), start), component(cut.rows(), centre));
                let branches = vertices(cut.neighbours(centre))
                    .fold(cut, |graph, branch| graph.without_edge(centre, branch));
                diameter(&cut, near) <= radius
                    && centres(&cut, rest).0 == [centre]
                    && diameter(&branches, rest) <= radius
            })
    }

    /// Whether Proposition 2 or Lemma 10 says of each first move that it loses; `None` if so many
    /// steps of trails do not decide it.
    fn is_each_first_move_answered(&self, steps: &mut u32) -> Option<bool> {
        let both_ways = |(u, w): (usize, usize)| [(u, w), (w, u)];
        for (u, v) in self.graph.edges().flat_map(both_ways) {
            let rest = self.graph.without_edge(u, v);
            if self.graph.degree(v) >= 3 && !has_answer(&rest, v, steps)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Whether there is an answer to a first move to `v`, which left this graph, after which the players
/// are apart and P2 has no shorter a trail.
fn has_answer(rest: &Graph, v: usize, steps: &mut u32) -> Option<bool> {
    for (x, y) in rest.edges() {
        let rest = rest.without_edge(x, y);
        for y in [x, y] {
            if has_no_shorter_trail(&rest, y, v, steps)? {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// The vertices of a component that are least far from the farthest one, and how far.
pub(super) fn centres(graph: &Graph, component: VertexSet) -> (Vec<usize>, usize) {
    let eccentricity = |v: usize| eccentricity(graph, v);
    let radius = vertices(component).map(eccentricity).min().unwrap_or(0);
    (vertices(component).filter(|&v| eccentricity(v) == radius).collect(), radius)
}

/// The eccentricity of a vertex in its component: how far the farthest vertex there is.
pub(super) fn eccentricity(graph: &Graph, v: usize) -> usize {
    let (mut reached, mut steps): (VertexSet, usize) = (1 << v, 0);
    loop {
        let next = vertices(reached).fold(reached, |set, w| set | graph.neighbours(w));
        if next == reached {
            return steps;
        }
        (reached, steps) = (next, steps + 1);
    }
}

/// The largest distance within the components of these vertices.
fn diameter(graph: &Graph, of: VertexSet) -> usize {
    vertices(of).map(|v| eccentricity(graph, v)).max().unwrap_or(0)
}

/// Whether two vertices lie in different components, and the trails from the first are not all
/// shorter than the longest from the other.
fn has_no_shorter_trail(graph: &Graph, y: usize, v: usize, steps: &mut u32) -> Option<bool> {
    let [of_y, of_v] = [y, v].map(|vertex| component(graph.rows(), vertex));
    if of_y & of_v != 0 {
        return Some(false);
    }
    // The longest trail of a small component is soon found; whether the other has one as long,
    // too.
    match of_y.count_ones() <= of_v.count_ones() {
        true => {
            let longest = longest_trail(graph, y, steps)?;
            Some(!has_trail(graph, v, longest + 1, steps)?)
        }
        false => {
            let longest = longest_trail(graph, v, steps)?;
            has_trail(graph, y, longest, steps)
        }
    }
}

/// The length of the longest trail, unless it takes more steps than are left.
fn longest_trail(graph: &Graph, from: usize, steps: &mut u32) -> Option<usize> {
    let mut longest = 0;
    for to in vertices(graph.neighbours(from)) {
        *steps = steps.checked_sub(1)?;
        longest = longest.max(1 + longest_trail(&graph.without_edge(from, to), to, steps)?);
    }
    Some(longest)
}

/// Whether there is a trail of so many edges, unless it takes more steps than are left.
fn has_trail(graph: &Graph, from: usize, length: usize, steps: &mut u32) -> Option<bool> {
    if length == 0 {
        return Some(true);
    }
    for to in vertices(graph.neighbours(from)) {
        *steps = steps.checked_sub(1)?;
        if has_trail(&graph.without_edge(from, to), to, length - 1, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        game::{Search, Solution, trail_trap::ForwardSearch},
        graph::{
            MAX_ORDER,
            families::{beside, complete_bipartite, prism},
            involution::involutions,
            nauty,
        },
    };

    fn wins(graph: &Graph) -> bool {
        matches!(ForwardSearch::new(usize::MAX).solve(graph), Ok(Solution::P1 { .. }))
    }

    #[test]
    fn what_they_say_of_all_graphs_up_to_order_7_is_true() {
        let mut held = [0; CONDITIONS.len()];
        for graph in nauty::enumerate(7).into_iter().flatten() {
            let hold = that_hold(&graph);
            for (i, condition) in CONDITIONS.iter().enumerate().filter(|&(i, _)| hold[i]) {
                let name = condition.name;
                assert_eq!(wins(&graph), condition.p1_wins, "{name}: {:?}", graph.rows());
                held[i] += 1;
            }
        }
        let held_for = |name: &str| {
            held[CONDITIONS.iter().position(|condition| condition.name == name).unwrap()]
        };
        assert_eq!([held_for("no-edge"), held_for("one-edge")], [7, 6]);
        // The prism of a triangle, with and without another vertex.
        assert_eq!(held_for("prism"), 2);
        // K_{3,5} has eight vertices.
        assert_eq!(held_for("side-of-3"), 0);
        let others = ["maximum-degree-2", "involution", "even-side", "tree-centre", "separated"];
        assert!(others.iter().all(|name| held_for(name) > 10), "{held:?}");
        assert!(held_for("tree-long-paths") > 2, "{held:?}");
    }

    /// The first that holds is told at once where the last would take for ever, and so is that none
    /// does: two complete graphs are exchanged by an involution, or, if a path hangs on one of them, are
    /// not.
    #[test]
    fn what_takes_long_to_see_is_given_up() {
        let complete = |k: usize, from: usize| {
            (from..from + k).flat_map(move |u| (u + 1..from + k).map(move |w| (u, w)))
        };
        for k in [7, 10] {
            let two = Graph::from_edges(2 * k, complete(k, 0).chain(complete(k, k)));
            assert_eq!(first_that_holds(&two).map(|condition| condition.name), Some("involution"));
        }
        let longer = [(0, 14), (14, 15), (15, 16)];
        let edges = complete(7, 0).chain(complete(7, 7)).chain(longer);
        assert!(first_that_holds(&Graph::from_edges(17, edges)).is_none());
    }

    /// All graphs of which tables count for how many conditions hold are decided.
    #[test]
    fn steps_are_enough_for_small_graphs() {
        for graph in nauty::enumerate(8).into_iter().flatten() {
            let mut steps = MOST_STEPS / 100;
            assert!(Board::of(&graph).is_each_first_move_answered(&mut steps).is_some());
        }
    }

    /// Connected P2-wins that Proposition 3 explains, as counted by other means.
    #[test]
    fn involutions_explain_few_connected_graphs() {
        let orders = nauty::enumerate(7);
        let explained = [5, 6, 7].map(|n: usize| {
            let graphs = orders[n - 1].iter().filter(|graph| graph.is_connected());
            graphs.filter(|graph| involutions(graph).fixes_no_edge).count()
        });
        assert_eq!(explained, [5, 10, 42]);
    }

    /// Whatever their labels, up to the largest order. Other ladders that are closed, with a twist,
    /// are none.
    #[test]
    fn prisms_are_known_by_their_shape() {
        for k in 3..=MAX_ORDER / 2 {
            // One vertex of each cycle in turn.
            let place = |v: usize| if v < k { 2 * v } else { 2 * (v - k) + 1 };
            let label = std::array::from_fn(|v| if v < 2 * k { place(v) as u8 } else { 0 });
            let board = Board::of(&prism(k).relabelled(&label));
            assert!(board.is_prism(), "{k}");
            let rim = (0..2 * k).map(|v| (v, (v + 1) % (2 * k)));
            let twisted = Graph::from_edges(2 * k, rim.chain((0..k).map(|v| (v, v + k))));
            assert!(!Board::of(&twisted).is_prism(), "{k}");
        }
    }

    #[test]
    fn complete_bipartite_graphs_are_known() {
        // With a vertex of degree 0.
        let complete = |p: usize, q: usize| beside(&complete_bipartite(p, q), &Graph::edgeless(1));
        let hold = |graph: Graph, name: &str| {
            let place = CONDITIONS.iter().position(|condition| condition.name == name).unwrap();
            that_hold(&graph)[place]
        };
        assert!(hold(complete(3, 5), "side-of-3") && hold(complete(7, 3), "side-of-3"));
        assert!(!hold(complete(3, 3), "side-of-3") && !hold(complete(5, 5), "side-of-3"));
        assert!(hold(complete(3, 4), "even-side") && !hold(complete(3, 5), "even-side"));
    }
}
