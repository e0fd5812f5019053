//! Search trees 32 nodes at a time: labels the graphs that [`super::batch`] leaves over, as
//! [`super::hashed`] and [`super::reference`] label them one at a time.

use super::{
    Colours, Labelling, Leaf, Undecided,
    batch::{Batch, LANES},
    hashed, key_bits, reference, search,
};
use crate::graph::{Graph, NARROW_ORDER, all_vertices, vertices};

/// A node whose colours are to be refined.
struct Node {
    /// Number of its graph.
    graph: usize,
    colours: Colours,
    /// How many equivalent nodes it stands for: choosing a twin instead gives the same subtree.
    multiplicity: u64,
}

/// Labels groups of graphs of one order. Graphs wait until there are enough of them to be searched
/// together, each with what its leaf is wanted for.
pub struct Forest<T> {
    batch: Box<Batch>,
    graphs: Vec<Undecided>,
    wanted_for: Vec<T>,
    nodes: Vec<Node>,
    /// Those that are in the lanes.
    taken: Vec<Node>,
    found: Vec<(T, Leaf)>,
    /// Whether leaves are to tell an orbit.
    tells_orbits: bool,
}

impl<T> Forest<T> {
    /// A forest that labels what batches like `batch` leave over, and tells no orbits.
    pub fn new(batch: Box<Batch>) -> Self {
        Forest {
            batch,
            graphs: Vec::new(),
            wanted_for: Vec::new(),
            nodes: Vec::new(),
            taken: Vec::new(),
            found: Vec::new(),
            tells_orbits: false,
        }
    }

    /// The same, but [`Leaf::last_orbit`] is told.
    pub fn with_orbits(batch: Box<Batch>) -> Self {
        Forest { tells_orbits: true, ..Self::new(batch) }
    }

    /// Adds a graph.
    pub fn push(&mut self, graph: Undecided, wanted_for: T) {
        self.graphs.push(graph);
        self.wanted_for.push(wanted_for);
    }

    /// Whether there are enough graphs for a search.
    pub fn is_full(&self) -> bool {
        self.graphs.len() >= LANES
    }

    /// Labels all graphs that were added, in this order, and takes them out. Beyond order 16, where
    /// there are no lanes, each is labelled by itself.
    pub fn search(&mut self) -> &[(T, Leaf)] {
        let n = self.batch.order();
        self.found.clear();
        self.found
            .extend(self.wanted_for.drain(..).map(|wanted_for| (wanted_for, Leaf::default())));
        if n > NARROW_ORDER {
            let refine = if self.batch.is_exact() { reference::refine } else { hashed::refine };
            for ((_, leaf), Undecided { rows, colours, .. }) in
                self.found.iter_mut().zip(self.graphs.drain(..))
            {
                let Labelling { label, automorphisms, last_orbit, .. } =
                    search::label_from(n, &rows, colours, &refine);
                let last_orbit = if self.tells_orbits { last_orbit } else { 0 };
                let code = Graph::from_rows(n, rows).relabelled(&label).code();
                *leaf = Leaf { code, label, automorphisms, last_orbit };
            }
            return &self.found;
        }
        let keys = (1 << key_bits(n)) - 1;
        for (number, graph) in self.graphs.iter().enumerate() {
            grow(&mut self.nodes, n, number, graph, &graph.colours, graph.stable, 1);
        }
        while !self.nodes.is_empty() {
            let first = self.nodes.len().saturating_sub(LANES);
            self.taken.clear();
            self.taken.extend(self.nodes.drain(first..));
            for (lane, node) in self.taken.iter().enumerate() {
                self.batch.set(lane, &self.graphs[node.graph].rows, &node.colours);
            }
            let decided = self.batch.label(self.taken.len());
            for (lane, node) in self.taken.iter().enumerate() {
                if decided >> lane & 1 == 0 {
                    let undecided = self.batch.undecided(lane);
                    let graph = &self.graphs[node.graph];
                    let Undecided { colours, stable, .. } = &undecided;
                    grow(
                        &mut self.nodes,
                        n,
                        node.graph,
                        graph,
                        colours,
                        *stable,
                        node.multiplicity,
                    );
                    continue;
                }
                let best = &mut self.found[node.graph].1;
                // As long as there are no automorphisms there has been no leaf. The key is the code
                // without the last row.
                let [key, best_key] =
                    [self.batch.code(lane), best.code.narrow()].map(|code| code & keys);
                if best.automorphisms > 0 && key < best_key {
                    continue;
                }
                let mut leaf = self.batch.leaf(lane);
                leaf.automorphisms *= node.multiplicity;
                if self.tells_orbits {
                    leaf.last_orbit = self.batch.last_orbit(lane);
                }
                if best.automorphisms == 0 || leaf.code != best.code {
                    *best = leaf;
                } else {
                    best.automorphisms += leaf.automorphisms;
                    best.last_orbit |= leaf.last_orbit;
                }
            }
        }
        // Leaves under the twins of an individualized vertex were not visited; they end in its
        // twins.
        for ((_, leaf), graph) in self.found.iter_mut().zip(&self.graphs) {
            for v in vertices(leaf.last_orbit) {
                leaf.last_orbit |= search::twins_in(&graph.rows, v, all_vertices(n));
            }
        }
        self.graphs.clear();
        &self.found
    }
}

/// Adds the children of a node of graph `number`, of order `n`, or the node itself if its colours
/// are still changing.
fn grow(
    nodes: &mut Vec<Node>,
    n: usize,
    number: usize,
    graph: &Undecided,
    colours: &Colours,
    stable: bool,
    multiplicity: u64,
) {
    let target = if stable { search::target(n, &graph.rows, colours) } else { None };
    let Some(target) = target else {
        nodes.push(Node { graph: number, colours: *colours, multiplicity });
        return;
    };
    let mut left = target;
    while left != 0 {
        let v = left.trailing_zeros() as usize;
        let twins = search::twins_in(&graph.rows, v, left);
        left &= !twins;
        let mut child = *colours;
        for w in vertices(target & !(1 << v)) {
            child[w] += 1;
        }
        let multiplicity = multiplicity * u64::from(twins.count_ones());
        nodes.push(Node { graph: number, colours: child, multiplicity });
    }
}
