//! Many graphs of one order, labelled as [`super::hashed`] labels one.

use super::{
    Alike, Colours,
    batch::{Batch, Kernel, LANES},
    degree_colours,
    forest::Forest,
    shard_colours,
};
use crate::graph::{Graph, degree::DegreeSequence};

/// What is asked of a labelling when nobody wants the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAndGroup {
    /// The short key.
    pub key: u64,
    /// |Aut|.
    pub automorphisms: u64,
}

/// Key and group order of each of these graphs, all of order `n`.
pub fn keys(n: usize, graphs: &[Graph], kernel: Kernel) -> Vec<KeyAndGroup> {
    keys_from(n, graphs, kernel, &[0; _], |graph| degree_colours(n, graph.rows()))
}

/// The same of graphs of one degree sequence, whose vertices are in order of degree: they all have
/// the same colours at first.
pub fn keys_of_shard(
    sequence: &DegreeSequence,
    graphs: &[Graph],
    kernel: Kernel,
) -> Vec<KeyAndGroup> {
    let (colours, alike) = shard_colours(sequence);
    keys_from(sequence.order(), graphs, kernel, &alike, |_| colours)
}

fn keys_from(
    n: usize,
    graphs: &[Graph],
    kernel: Kernel,
    alike: &Alike,
    colours: impl Fn(&Graph) -> Colours,
) -> Vec<KeyAndGroup> {
    let mut found = vec![KeyAndGroup::default(); graphs.len()];
    let mut batch = Batch::new(n, kernel);
    batch.set_alike(alike);
    let mut forest = Forest::new(Batch::new(n, kernel));
    for (chunk, first) in graphs.chunks(LANES).zip((0..).step_by(LANES)) {
        for (lane, graph) in chunk.iter().enumerate() {
            batch.set(lane, graph.rows(), &colours(graph));
        }
        let decided = batch.label(chunk.len());
        for lane in 0..chunk.len() {
            if decided >> lane & 1 == 1 {
                let (key, automorphisms) = (batch.key(lane), batch.automorphisms(lane));
                found[first + lane] = KeyAndGroup { key, automorphisms };
            } else {
                forest.push(batch.undecided(lane), first + lane);
            }
        }
        if forest.is_full() {
            search(n, &mut forest, &mut found);
        }
    }
    search(n, &mut forest, &mut found);
    found
}

fn search(n: usize, forest: &mut Forest<usize>, found: &mut [KeyAndGroup]) {
    for (place, leaf) in forest.search() {
        found[*place] = KeyAndGroup { key: leaf.key(n), automorphisms: leaf.automorphisms };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{
        graph::nauty,
        labelling::{hashed, tests::by_degree},
    };

    #[test]
    fn keys_are_those_of_one_graph_at_a_time() {
        for graphs in nauty::enumerate(7) {
            let n = graphs[0].order();
            for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()) {
                for (graph, found) in graphs.iter().zip(keys(n, &graphs, kernel)) {
                    let one = hashed::label(graph);
                    assert_eq!(u128::from(found.key), one.key.narrow(), "{graph:?}");
                    assert_eq!(found.automorphisms, one.automorphisms, "{graph:?}");
                }
            }
        }
    }

    #[test]
    fn keys_of_a_shard_are_those_of_any_graphs() {
        let mut shards: HashMap<DegreeSequence, Vec<Graph>> = HashMap::new();
        for graph in nauty::enumerate(7).concat() {
            let sorted = by_degree(&graph);
            shards.entry(DegreeSequence::of(&sorted)).or_default().push(sorted);
        }
        for (sequence, graphs) in shards {
            let kernel = Kernel::best();
            let found = keys_of_shard(&sequence, &graphs, kernel);
            assert_eq!(found, keys(sequence.order(), &graphs, kernel), "{sequence}");
        }
    }
}
