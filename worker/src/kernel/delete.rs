//! Deletions of edges: which edges of the graphs of a shard lead to which partition.

use std::{hint::select_unpredictable, sync::Arc};

use trailtrap_shared::{
    graph::{
        AdjacencyRows, MAX_ORDER, NARROW_ORDER,
        degree::{self, DegreeSequence},
        vertices,
    },
    labelling::{Alike, Colours, alike},
    partition::{BucketTable, bucket_of_slot},
};

use super::{BucketKey, Source, SourceError, evidence::Witness};

/// A partition one edge deletion away: which edges lead there, and its tables, of all buckets or
/// of some.
pub(super) struct Predecessor {
    pub(super) sequence: DegreeSequence,
    /// For each vertex w the u < w such that an edge between them leads there. Vertices are in
    /// order of degree, so that u has the lower degree.
    edges: AdjacencyRows,
    /// The same for w < 16, four to a number: k, and the sets of 4k to 4k + 3, the first in the
    /// lowest bits; without those that are empty.
    fours: Vec<(usize, u64)>,
    /// The colours that labelling starts from, but for the ends of the deleted edge …
    pub(super) colours: Colours,
    /// … which have these.
    pub(super) low_colour: u16,
    pub(super) high_colour: u16,
    /// Which vertices may have equal colours.
    pub(super) alike: Alike,
    /// About how many edges of a graph lead there.
    pub(super) expected_edges: f64,
    pub(super) bucket_bits: u8,
    /// The tables of successive buckets …
    pub(super) tables: Vec<Arc<BucketTable>>,
    /// … from this one on.
    pub(super) first_bucket: usize,
}

impl Predecessor {
    pub(super) fn new(
        from: &DegreeSequence,
        deletion: &degree::Deletion,
        bucket_bits: u8,
    ) -> Self {
        let mut edges = [0; MAX_ORDER];
        for w in 0..from.order() {
            for u in 0..w {
                if from.degree(u) == deletion.low && from.degree(w) == deletion.high {
                    edges[w] |= 1 << u;
                }
            }
        }
        let fours = edges.chunks_exact(4).map(|sets| four(sets.iter().map(|&set| set as u16)));
        let fours = fours.enumerate().take(NARROW_ORDER / 4).filter(|&(_, bits)| bits != 0);
        let ranks = deletion.sequence.ranks();
        let n = from.order();
        let colour = |v: usize| ranks[from.degree(v)];
        let lowest: Vec<u16> = (0..n)
            .map(|v| match from.degree(v) {
                degree if [deletion.low, deletion.high].contains(&degree) => ranks[degree - 1],
                degree => ranks[degree],
            })
            .collect();
        let highest: Vec<u16> = (0..n).map(colour).collect();
        Predecessor {
            sequence: deletion.sequence,
            edges,
            fours: fours.collect(),
            colours: std::array::from_fn(|v| if v < n { colour(v) } else { 0 }),
            alike: alike(&lowest, &highest),
            low_colour: ranks[deletion.low - 1],
            high_colour: ranks[deletion.high - 1],
            expected_edges: expected_edges(from, deletion),
            bucket_bits,
            tables: Vec::new(),
            first_bucket: 0,
        }
    }

    /// The ends u < w of the edges that lead there, of a graph of any order, in the order of the code
    /// of a graph.
    pub(super) fn edges_of_any(
        &self,
        rows: &AdjacencyRows,
    ) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.edges.iter().zip(rows).enumerate();
        columns.flat_map(|(w, (edges, row))| vertices(edges & row).map(move |u| (u, w)))
    }

    /// Reads all its tables, and shows them to the witness.
    ///
    /// # Errors
    /// If one cannot be had.
    pub(super) fn hold_all(
        &mut self,
        source: &dyn Source,
        witness: &mut Witness,
    ) -> Result<(), SourceError> {
        for bucket in 0..self.buckets() {
            let table = source.table(&self.key(bucket))?;
            witness.look_at(&table, self.bucket_bits);
            self.tables.push(table);
        }
        Ok(())
    }

    /// How many buckets it has.
    pub(super) fn buckets(&self) -> u32 {
        1 << self.bucket_bits
    }

    /// One of its buckets.
    pub(super) fn key(&self, bucket: u32) -> BucketKey {
        BucketKey { sequence: self.sequence, bucket_bits: self.bucket_bits, bucket }
    }

    /// Bytes of the tables that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.memory_bytes()).sum()
    }

    /// What tells the table that a slot of order `n` belongs to.
    #[inline(always)]
    pub(super) fn tables_by_slot<'a>(&'a self, n: usize) -> impl Fn(u64) -> &'a BucketTable {
        let only = if self.bucket_bits == 0 { self.tables.first() } else { None };
        let of_bucket = move |slot| {
            &self.tables[bucket_of_slot(n, slot, self.bucket_bits) - self.first_bucket]
        };
        move |slot| only.unwrap_or_else(|| of_bucket(slot))
    }
}

/// Which edges of some graphs lead to one predecessor, and room for finding that.
///
/// A graph of order 10 has 0.75 such edges on average, so that the processor, if it is asked after
/// each whether the graph has another, guesses wrong at nearly each graph. So the sets that are not
/// empty are put side by side first, and then are gone through edge by edge, both without branches.
#[derive(Default)]
pub(super) struct LeadingEdges {
    fours: Vec<LeadingFour>,
}

/// Edges that lead to a predecessor, of one graph.
#[derive(Clone, Copy, Default)]
struct LeadingFour {
    /// Those of its rows 4k to 4k + 3, as [`Predecessor::fours`] has them …
    edges: u64,
    /// … and this k.
    number: u32,
    /// The index of the graph.
    graph: u32,
}

impl LeadingEdges {
    /// Each edge that leads there, of graphs of order at most 16 with these rows: the index of the
    /// graph, and its ends u < w. Those of a graph come in the order of its code.
    #[inline(always)]
    pub(super) fn of<'a, const R: usize>(
        &'a mut self,
        predecessor: &Predecessor,
        graphs: &[[u16; R]],
    ) -> impl Iterator<Item = (usize, usize, usize)> + use<'a, R> {
        const { assert!(R.is_multiple_of(4) && R <= NARROW_ORDER) };
        // One more, without edges, follows the last.
        let room = graphs.len() * predecessor.fours.len() + 1;
        if self.fours.len() < room {
            self.fours.resize(room, LeadingFour::default());
        }
        let fours = &mut self.fours[..room];
        let mut count = 0;
        for (graph, rows) in graphs.iter().enumerate() {
            let of_rows = rows.as_chunks::<4>().0;
            for &(number, bits) in &predecessor.fours {
                let edges = four(of_rows[number].iter().copied()) & bits;
                fours[count] = LeadingFour { edges, number: number as u32, graph: graph as u32 };
                count += usize::from(edges != 0);
            }
        }
        fours[count].edges = 0;
        let fours = &fours[..=count];
        let (mut next, mut edges) = (0, fours[0].edges);
        std::iter::from_fn(move || {
            if edges == 0 {
                return None;
            }
            let LeadingFour { number, graph, .. } = fours[next];
            let edge = edges.trailing_zeros() as usize;
            edges &= edges - 1;
            let is_last = edges == 0;
            next += usize::from(is_last);
            edges = select_unpredictable(is_last, fours[next].edges, edges);
            Some((graph as usize, edge % 16, 4 * number as usize + edge / 16))
        })
    }
}

/// About how many edges of a graph with these degrees, of sum 2m, are deleted so: in a random one,
/// vertices of degrees d and e are joined with a probability of about d·e/2m.
pub(super) fn expected_edges(from: &DegreeSequence, deletion: &degree::Deletion) -> f64 {
    let degree::Deletion { low, high, .. } = *deletion;
    let of_degree =
        |degree| (0..from.order()).filter(|&v| from.degree(v) == degree).count() as f64;
    let pairs = match low == high {
        true => of_degree(low) * (of_degree(low) - 1.0) / 2.0,
        false => of_degree(low) * of_degree(high),
    };
    pairs * ((low * high) as f64 / (2 * from.size()) as f64).min(1.0)
}

/// Four sets of 16 bits as one, the first in the lowest bits.
#[inline(always)]
fn four(sets: impl DoubleEndedIterator<Item = u16>) -> u64 {
    sets.rev().fold(0, |four, set| four << 16 | u64::from(set))
}

/// One edge of one graph, to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletedEdge {
    /// Index of the graph in the chunk.
    pub(super) graph: u32,
    pub(super) u: u8,
    pub(super) w: u8,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trailtrap_shared::graph::{Graph, NARROW_ORDER, narrowed};

    use super::*;

    proptest! {
        /// Each edge leads to one predecessor, and the narrow way finds it as the plain one does,
        /// in the same order.
        #[test]
        fn every_edge_leads_to_one_predecessor(n in 2..=NARROW_ORDER, code: u128) {
            let graph = Graph::from_code(n, code);
            let mut by_degree: Vec<usize> = (0..n).collect();
            by_degree.sort_by_key(|&v| graph.degree(v));
            let mut label = [0; MAX_ORDER];
            (0..).zip(by_degree).for_each(|(new, old)| label[old] = new);
            let graph = graph.relabelled(&label);
            let sequence = DegreeSequence::of(&graph);
            let rows = narrowed(graph.rows());
            let mut edges = Vec::new();
            let mut expected = 0.0;
            for deletion in sequence.deletions() {
                let predecessor = Predecessor::new(&sequence, &deletion, 0);
                // Others before and after it have no edges, and the room was in use.
                let mut leading = LeadingEdges::default();
                leading.of(&predecessor, &[[u16::MAX; NARROW_ORDER]]).for_each(drop);
                let graphs = [[0; NARROW_ORDER], rows, [0; NARROW_ORDER], rows];
                let both: Vec<_> = leading.of(&predecessor, &graphs).collect();
                prop_assert_eq!(leading.of(&predecessor, &[[0; NARROW_ORDER]; 0]).count(), 0);
                let of = |i| both.iter().filter(move |edge| edge.0 == i);
                let there: Vec<_> = of(1).map(|&(_, u, w)| (u, w)).collect();
                prop_assert!(both.is_sorted_by_key(|&(i, _, w)| (i, w)));
                prop_assert!(of(3).map(|&(_, u, w)| (u, w)).eq(there.iter().copied()));
                prop_assert_eq!(both.len(), 2 * there.len());
                expected += predecessor.expected_edges;
                let joined = |u, w| {
                    let [u, w] = [u, w].map(|v| sequence.degree(v) as f64);
                    (u * w / (2 * sequence.size()) as f64).min(1.0)
                };
                let can_be = predecessor.edges_of_any(&[u32::MAX; MAX_ORDER]);
                let alone: f64 = can_be.map(|(u, w)| joined(u, w)).sum();
                prop_assert!((predecessor.expected_edges - alone).abs() < 1e-9);
                prop_assert!(there.iter().copied().eq(predecessor.edges_of_any(graph.rows())));
                if n <= 12 {
                    let first: [u16; 12] = std::array::from_fn(|v| rows[v]);
                    let short = leading.of(&predecessor, &[first]).map(|(_, u, w)| (u, w));
                    prop_assert!(short.eq(there.iter().copied()));
                }
                for &(u, w) in &there {
                    let left = DegreeSequence::of(&graph.without_edge(u, w));
                    prop_assert_eq!(left, deletion.sequence);
                    let mut colours = predecessor.colours;
                    colours[u] = predecessor.low_colour;
                    colours[w] = predecessor.high_colour;
                    let after = left.ranks();
                    let is_ranked = |v: usize| {
                        let degree = graph.degree(v) - usize::from([u, w].contains(&v));
                        colours[v] == after[degree]
                    };
                    prop_assert!((0..n).all(is_ranked));
                    for x in 0..n {
                        let smaller = &colours[..predecessor.alike[x].into()];
                        prop_assert!(smaller.iter().all(|&colour| colour < colours[x]));
                    }
                }
                edges.extend(there);
            }
            edges.sort_unstable_by_key(|&(u, w)| (w, u));
            let all = (0..n).flat_map(|w| (0..w).map(move |u| (u, w)));
            prop_assert!(edges.into_iter().eq(all.filter(|&(u, w)| rows[w] >> u & 1 == 1)));
            prop_assert!(expected <= sequence.size() as f64 + 1e-9);
        }
    }
}
