//! Trail Trap (Buchanan et al., arXiv 2405.05195): each player draws a trail with their own token;
//! an edge used by either is gone for both; who cannot move loses.
//!
//! After both first moves a position is (H; a, b): H the unused edges, a the token of the player
//! to move, b the other.
//!
//! * W(H; a, b), the player to move wins: ∃ w ∈ N(a): ¬ W(H − aw; b, w).
//! * R(H; v), P2, still to place a token, beats P1's token at v: ∃ xy ∈ E: ¬ W(H − xy; v, y) ∨ ¬
//!   W(H − xy; v, x).
//! * P1 wins G: ∃ uv ∈ E: ¬ R(G − uv; v) ∨ ¬ R(G − uv; u).

pub mod conditions;
pub mod decide;
mod forest;
mod forward;
pub mod length;
#[cfg(test)]
mod paper;

use std::{marker::PhantomData, ops::RangeInclusive};

pub use forward::ForwardSearch;

use super::{
    About, ByEdges, FIRST_OR_SECOND, Game, KnownCounts, Layout, Positions, PredecessorAnswer,
    Retrograde, Scope, SumName, Tally, Theorem, Told, bits,
};
use crate::{
    class::Class,
    graph::{
        AdjacencyRows, Graph, MAX_ORDER, NarrowRows, Rows, VertexSet, all_vertices, renamed,
        vertices,
    },
};

/// Connected graphs of order n = 3, …, 7 that P2 wins: Table 1 of the paper.
pub const TABLE_1: [u128; 5] = [2, 4, 17, 88, 734];

/// The game of the paper.
pub type TrailTrap = TrailTrapIn<AdjacencyRows>;

/// The same, with sets of vertices in `R`.
#[derive(Clone, Copy, Debug)]
pub struct TrailTrapIn<R>(PhantomData<R>);

/// Who wins every position on one graph H.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome<R: Rows = AdjacencyRows> {
    /// Row a is { b : W(H; a, b) }.
    pub wins: R,
    /// { v : R(H; v) }.
    pub refuted: R::Set,
    /// Number of first moves that win for P1; P1 wins H if there is one.
    pub first_moves: u16,
}

/// Place among the sums of Σ|W|, the rooted positions won by the player to move.
pub const WON_POSITIONS: usize = 0;
/// Place among the sums of Σ|R|, the ends of P1's first move that P2 beats.
pub const REFUTED_ENDS: usize = 1;
/// Place among the sums of the number of first moves that win for P1.
pub const WINNING_FIRST_MOVES: usize = 2;

const RULES: &str = concat!(
    "Two players each draw a trail on a graph, edge by edge. P1 chooses an edge ",
    "and moves\n",
    "a token along it; P2 does the same with another edge and a token of their ",
    "own; then they take turns, each moving their\n",
    "own token along an unused edge. An edge used by either is gone for both; who ",
    "cannot move loses. *P1-win* means that P1\n",
    "wins with best play, *P2-win* that P2 does; there are no draws. The game and ",
    "Table 1 for up to 7 vertices are from\n",
    "Buchanan, Carr, Clifton, Hartke, Iršič, Sieger, Whitman, *Trail Trap: a ",
    "variant of Partizan Edge Geography*,\n",
    "[arXiv:2405.05195](https://arxiv.org/abs/2405.05195).",
);

const CITATION: &str = concat!(
    "  - type: article\n",
    "    title: \"Trail Trap: a variant of Partizan Edge Geography\"\n",
    "    authors:\n",
    "      - family-names: Buchanan\n",
    "      - family-names: Carr\n",
    "      - family-names: Clifton\n",
    "      - family-names: Hartke\n",
    "      - family-names: Iršič\n",
    "      - family-names: Sieger\n",
    "      - family-names: Whitman\n",
    "    url: https://arxiv.org/abs/2405.05195\n",
);

const SUM_NAMES: [SumName; 3] = [
    SumName {
        key: "won_positions",
        symbol: "Σ|W|",
        heading: None,
        meaning: "sum of |W|: rooted positions that the player to move wins",
        meaning_in_shards: "sum of |W|: positions (rooted in both tokens) that the player to \
                            move wins",
        told: Told::ByRecord,
        bounds: won_positions,
    },
    SumName {
        key: "refuted_ends",
        symbol: "|R|",
        heading: None,
        meaning: "sum of |R|: ends of the first player's first move that the second player beats",
        meaning_in_shards: "sum of |R|: first ends of P1 that P2 can answer and win",
        told: Told::ByRecord,
        bounds: refuted_ends,
    },
    SumName {
        key: "winning_first_moves",
        symbol: "first moves",
        heading: None,
        meaning: "first moves that win for the first player",
        meaning_in_shards: "first moves that win for the first player",
        told: Told::ByOutcome,
        bounds: winning_first_moves,
    },
];

fn won_positions(scope: &Scope) -> RangeInclusive<u128> {
    0..=(scope.order * scope.order).saturating_mul(scope.graphs)
}

fn refuted_ends(scope: &Scope) -> RangeInclusive<u128> {
    0..=scope.order.saturating_mul(scope.graphs)
}

/// A graph that P1 wins has such a move, and no more than two along each edge.
fn winning_first_moves(scope: &Scope) -> RangeInclusive<u128> {
    scope.listed..=(2 * scope.size).saturating_mul(scope.listed)
}

/// A record holds, bit by bit from the lowest: for y = 0, …, n − 1 the column { a : W(H; a, y) }
/// of n bits, the set { v : R(H; v) } of n bits, and one bit that is set if P1 wins. Left-over
/// bits of the last byte are zero.
impl<R: Rows> Game for TrailTrapIn<R> {
    const LAYOUT: Layout = {
        let mut bits = [0; MAX_ORDER + 1];
        let mut n = 0;
        while n <= MAX_ORDER {
            bits[n] = (n * n + n + 1) as u16;
            n += 1;
        }
        Layout::new(1, true, bits)
    };

    const ABOUT: About = About {
        name: "trail-trap",
        title: "Trail Trap",
        reference: "arXiv:2405.05195",
        rules: RULES,
        citation: CITATION,
        identifier: Some("arXiv:2405.05195"),
        digest_tag: "TT1",
        theorem: Some(Theorem {
            class: Class::Forest,
            source: "Theorem 14 of the paper",
            is_listed: forest::p1_wins,
        }),
        verdicts: FIRST_OR_SECOND,
        sums: &SUM_NAMES,
        position_keys: &["won_against", "refuted"],
        listed_one_in: 5,
        known: &[KnownCounts {
            what: "connected P2-wins (Table 1 of the paper)",
            first_order: 3,
            counts: &TABLE_1,
        }],
    };

    type Outcome = Outcome<R>;

    type Narrow = TrailTrapIn<NarrowRows>;

    type Method = ByEdges;

    type Search = ForwardSearch;

    fn encode(n: usize, outcome: &Outcome<R>, record: &mut [u8]) {
        let columns = outcome.wins.transposed(n);
        write(n, &columns, outcome.refuted.into(), outcome.first_moves > 0, record);
    }

    fn encode_relabelled(n: usize, outcome: &Outcome<R>, label: &[u8], record: &mut [u8]) {
        let columns = outcome.wins.transposed_under(n, label);
        let refuted = renamed(n, outcome.refuted.into(), label);
        write(n, &columns, refuted, outcome.first_moves > 0, record);
    }

    /// Records do not keep the number of winning first moves, only whether it is zero.
    fn decode(n: usize, record: &[u8]) -> Outcome<R> {
        let mut columns = R::default();
        (0..n).for_each(|y| columns.add(y, bits(record, y * n, n)));
        Outcome {
            wins: columns.transposed(n),
            refuted: R::set(bits(record, n * n, n)),
            first_moves: bits(record, n * n + n, 1) as u16,
        }
    }

    fn relabelled(n: usize, outcome: &Outcome<R>, label: &[u8]) -> Outcome<R> {
        Outcome {
            wins: outcome.wins.transposed_under(n, label).transposed(n),
            refuted: R::set(renamed(n, outcome.refuted.into(), label)),
            first_moves: outcome.first_moves,
        }
    }

    fn tally(_graph: &Graph, _automorphisms: u64, outcome: &Outcome<R>) -> Tally {
        Tally {
            listed: outcome.first_moves > 0,
            sums: [
                outcome.wins.count(),
                outcome.refuted.into().count_ones(),
                u32::from(outcome.first_moves),
            ],
        }
    }

    /// P1 wins H + uv by moving from u to v, or from v to u, if P2 does not beat the token that
    /// then stands at v: ¬ R(H; v).
    fn pairs_ahead(graph: &Graph, outcome: &Outcome<R>) -> [VertexSet; MAX_ORDER] {
        let mut pairs = [0; MAX_ORDER];
        let all = all_vertices(graph.order());
        for v in vertices(all & !outcome.refuted.into()) {
            pairs[v] = all & !graph.neighbours(v) & !(1 << v);
        }
        pairs
    }

    #[inline]
    fn may_tell_ahead(n: usize, record: &[u8]) -> bool {
        bits(record, n * n, n) != all_vertices(n)
    }

    fn positions(n: usize, outcome: &Outcome<R>) -> Vec<Positions> {
        vec![
            Positions::Each {
                says: ["the player to move at", "wins against"],
                sets: (0..n).map(|a| outcome.wins.row(a)).collect(),
            },
            Positions::Whole { says: "P2 beats P1's token at", set: outcome.refuted.into() },
        ]
    }
}

/// Writes a record: the columns of W, the set R, and whether P1 wins.
#[inline(always)]
fn write<R: Rows>(n: usize, columns: &R, refuted: VertexSet, p1_wins: bool, record: &mut [u8]) {
    // The bits that are not written yet, less than a word.
    let (mut word, mut bits) = (0u64, 0);
    let mut written = 0;
    for column in (0..n).map(|y| columns.row(y)).chain([refuted]) {
        let column = u64::from(column);
        word |= column << bits;
        bits += n;
        if bits >= 64 {
            record[written..written + 8].copy_from_slice(&word.to_le_bytes());
            written += 8;
            bits -= 64;
            word = column >> (n - bits);
        }
    }
    word |= u64::from(p1_wins) << bits;
    let rest = &mut record[written..];
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

impl<R: Rows> Retrograde for TrailTrapIn<R> {
    #[inline(always)]
    fn ask(n: usize, record: &[u8], u: usize, w: usize) -> PredecessorAnswer {
        let refuted = bits(record, n * n, n);
        PredecessorAnswer {
            sets: [bits(record, u * n, n), bits(record, w * n, n)],
            flags: (refuted >> u & 1 | (refuted >> w & 1) << 1) as u16,
        }
    }

    #[inline(always)]
    fn fold(n: usize, outcome: &mut Outcome<R>, u: usize, w: usize, answer: &PredecessorAnswer) {
        // In H − uw the opponent, to move from b, loses against a token at u, or at w.
        let [lost_against_u, lost_against_w] = answer.sets.map(|column| !column & all_vertices(n));
        outcome.wins.add(u, lost_against_w);
        outcome.wins.add(w, lost_against_u);
        outcome.refuted = R::set(outcome.refuted.into() | lost_against_u | lost_against_w);
        // As sums of bits, since not every processor counts them.
        outcome.first_moves += 2 - (answer.flags & 1) - (answer.flags >> 1);
    }

    fn derive<E>(
        graph: &Graph,
        mut find: impl FnMut(&Graph) -> Result<Outcome<R>, E>,
    ) -> Result<Outcome<R>, E> {
        let all = all_vertices(graph.order());
        let mut outcome = Outcome::<R>::default();
        let mut refuted = 0;
        for (u, w) in graph.edges() {
            let found = find(&graph.without_edge(u, w))?;
            let wins = |a: usize, b: usize| found.wins.row(a) >> b & 1 == 1;
            let is_refuted = |v: usize| found.refuted.into() >> v & 1 == 1;
            for b in vertices(all) {
                // W(H; a, b) = ∃ w ∈ N(a): ¬ W(H − aw; b, w), for a = u and for a = w.
                outcome.wins.add(u, VertexSet::from(!wins(b, w)) << b);
                outcome.wins.add(w, VertexSet::from(!wins(b, u)) << b);
                // R(H; v) = ∃ xy: ¬ W(H − xy; v, y) ∨ ¬ W(H − xy; v, x).
                refuted |= VertexSet::from(!wins(b, w) || !wins(b, u)) << b;
            }
            // P1 wins H: ∃ uv: ¬ R(H − uv; v) ∨ ¬ R(H − uv; u).
            outcome.first_moves += u16::from(!is_refuted(u)) + u16::from(!is_refuted(w));
        }
        outcome.refuted = R::set(refuted);
        Ok(outcome)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{graph::Code, labelling::hashed};

    /// The outcome of a graph, by one step of the recurrence after the other; `known` has those of
    /// graphs of its order, in canonical labels.
    pub(crate) fn derived(graph: &Graph, known: &mut HashMap<Code, Outcome>) -> Outcome {
        let (n, label) = (graph.order(), hashed::label(graph).label);
        let mut vertex = [0; MAX_ORDER];
        (0..n).for_each(|v| vertex[usize::from(label[v])] = v as u8);
        let canonical = graph.relabelled(&label);
        if !known.contains_key(&canonical.code()) {
            let of_rest = |rest: &Graph| Ok::<_, ()>(derived(rest, known));
            let found = TrailTrap::derive(&canonical, of_rest).unwrap();
            known.insert(canonical.code(), found);
        }
        TrailTrap::relabelled(n, &known[&canonical.code()], &vertex)
    }

    /// The columns of W stand in records as the fold asks for them.
    fn check<R: Rows>(n: usize, wins: &[VertexSet], refuted: VertexSet, first_moves: u16) {
        let all = all_vertices(n);
        let refuted = refuted & all;
        let mut outcome = Outcome::<R> { first_moves, ..Outcome::default() };
        outcome.refuted = R::set(refuted);
        (0..n).for_each(|a| outcome.wins.add(a, wins[a] & all));
        let record = TrailTrapIn::<R>::record(n, &outcome);
        assert_eq!(TrailTrapIn::<R>::decode(n, &record), outcome);
        for (u, w) in [(0, n - 1), (n / 2, n / 3)] {
            let answer = TrailTrapIn::<R>::ask(n, &record, u, w);
            let column =
                |y: usize| (0..n).fold(0, |set, a| set | (outcome.wins.row(a) >> y & 1) << a);
            assert_eq!(answer.sets, [column(u), column(w)]);
            let flags = refuted >> u & 1 | (refuted >> w & 1) << 1;
            assert_eq!(u32::from(answer.flags), flags);
        }
    }

    proptest! {
        #[test]
        fn records_answer_by_columns(
            n in 1..=MAX_ORDER,
            wins in prop::array::uniform20(any::<VertexSet>()),
            refuted: VertexSet,
            first_moves in 0u16..2,
        ) {
            check::<AdjacencyRows>(n, &wins, refuted, first_moves);
            if n <= NarrowRows::LENGTH {
                check::<NarrowRows>(n, &wins, refuted, first_moves);
            }
        }
    }
}
