//! One step of the recurrence, taken again: the outcome of a graph from the outcomes of the graphs
//! with one edge less, all of them recognized by nauty. Written from the rules (method: W, R, P1
//! wins), without the labelling, the look-up or the fold of the kernel.

use std::collections::HashMap;

use crate::{
    game::{Game, Outcome, TrailTrap},
    graph::{
        Graph, all_vertices,
        nauty::{self, NautyLabelling},
    },
};

/// Outcomes of graphs, known by nauty's canonical form and kept in nauty's labels.
#[derive(Default)]
pub struct Known(HashMap<u128, Outcome>);

impl Known {
    /// Adds a graph with its outcome; `false` if it was there, that is, if it stands in the store
    /// twice.
    pub fn insert(&mut self, graph: &Graph, outcome: &Outcome) -> bool {
        let labelling = nauty::label(graph);
        let outcome = TrailTrap::relabelled(graph.order(), outcome, &labelling.label);
        self.0.insert(labelling.canonical.code(), outcome).is_none()
    }

    /// The outcome of a graph, in nauty's labels.
    pub fn get(&self, labelling: &NautyLabelling) -> Option<Outcome> {
        self.0.get(&labelling.canonical.code()).copied()
    }
}

/// The outcome of a graph from the outcomes of the graphs with one edge less, which `find` knows:
/// it is given such a graph and nauty's labelling of it, and answers in nauty's labels.
pub fn outcome<E>(
    graph: &Graph,
    mut find: impl FnMut(&Graph, &NautyLabelling) -> Result<Outcome, E>,
) -> Result<Outcome, E> {
    let n = graph.order();
    let mut outcome = Outcome::default();
    for (u, w) in graph.edges() {
        let rest = graph.without_edge(u, w);
        let labelling = nauty::label(&rest);
        let found = find(&rest, &labelling)?;
        let label = |v: usize| usize::from(labelling.label[v]);
        let wins = |a: usize, b: usize| found.wins[label(a)] >> label(b) & 1 == 1;
        let refuted = |v: usize| found.refuted >> label(v) & 1 == 1;
        for b in 0..n {
            // W(H; a, b) = ∃ w ∈ N(a): ¬ W(H − aw; b, w), for a = u and for a = w.
            outcome.wins[u] |= u16::from(!wins(b, w)) << b;
            outcome.wins[w] |= u16::from(!wins(b, u)) << b;
            // R(H; v) = ∃ xy: ¬ W(H − xy; v, y) ∨ ¬ W(H − xy; v, x).
            outcome.refuted |= u16::from(!wins(b, w) || !wins(b, u)) << b;
        }
        // P1 wins H: ∃ uv: ¬ R(H − uv; v) ∨ ¬ R(H − uv; u).
        outcome.first_moves += u16::from(!refuted(u)) + u16::from(!refuted(w));
    }
    debug_assert!(outcome.wins.iter().all(|set| set & !all_vertices(n) == 0));
    Ok(outcome)
}

/// Whether two outcomes agree in all that records hold.
pub fn agree(a: &Outcome, b: &Outcome) -> bool {
    a.wins == b.wins && a.refuted == b.refuted && (a.first_moves > 0) == (b.first_moves > 0)
}
