//! The second half of the route where a predecessor is too large to be held as a whole: each
//! deletion that leads there is labelled once and kept as a request, sorted by slot. Then the
//! buckets are read one after the other, and each answers its requests.

use std::ops::Range;

use rayon::prelude::*;
use trailtrap_shared::{
    game::Game,
    generate::Child,
    graph::{Graph, degree::Deletion, vertices},
    labelling::{
        MAX_BATCH_ORDER,
        batch::{Batch, Kernel, LANES},
        forest::Forest,
    },
    partition::{bucket_of_slot, slot_of_key},
    plan::{Plan, Shard},
};

use super::{
    Graphs, SolveError, Solver, Source, decode,
    delete::{self, DeletedEdge, Predecessor},
    fold::{LookupStage, Reading},
};

/// Graphs whose requests are sorted together. So many that each bucket of the usual size has
/// requests of a chunk for several batches; so few that their outcomes stay in the cache.
const ROUTED_CHUNK: usize = if cfg!(test) { 8 } else { 8192 };

// Requests have 16 bits for a graph of a chunk.
const _: () = assert!(ROUTED_CHUNK <= 1 << 16);

/// Bytes of requests, for each graph of a unit, that may wait at a time, whatever the allowance:
/// about as many as the graph itself takes while its unit is solved.
const BYTES_PER_GRAPH: usize = 48;

/// What a labelled deletion asks for, in 16 bytes. They are sorted by slot.
#[derive(Clone, Copy)]
struct Request {
    /// The slot of at most 55 bits, then the number of the edge in [`Graph::code`].
    slot_and_edge: u64,
    /// The index of the graph in its chunk, then the label of each vertex in four bits, vertex 0
    /// in the lowest ones.
    graph_and_labels: u64,
}

/// The requests of a chunk of graphs to one predecessor.
struct Routed {
    /// In order of their slots.
    requests: Vec<Request>,
    /// How many deletions were labelled.
    labellings: u64,
}

const EDGE_BITS: u32 = 7;
const LABELS_BITS: u32 = 4 * MAX_BATCH_ORDER as u32;

impl Request {
    #[inline(always)]
    fn new(slot: u64, deletion: DeletedEdge, label: &[u8; MAX_BATCH_ORDER]) -> Self {
        let labels = label.iter().rev().fold(0, |labels, &label| labels << 4 | u64::from(label));
        let edge = delete::edge(deletion.u.into(), deletion.w.into());
        Request {
            slot_and_edge: slot << EDGE_BITS | edge as u64,
            graph_and_labels: u64::from(deletion.graph) << LABELS_BITS | labels,
        }
    }

    #[inline(always)]
    fn slot(self) -> u64 {
        self.slot_and_edge >> EDGE_BITS
    }

    #[inline(always)]
    fn deletion(self, ends: &[(usize, usize)]) -> DeletedEdge {
        let (u, w) = ends[(self.slot_and_edge & ((1 << EDGE_BITS) - 1)) as usize];
        let graph = (self.graph_and_labels >> LABELS_BITS) as u32;
        DeletedEdge { graph, u: u as u8, w: w as u8 }
    }

    #[inline(always)]
    fn labels(self) -> [u8; MAX_BATCH_ORDER] {
        std::array::from_fn(|v| (self.graph_and_labels >> (4 * v) & 15) as u8)
    }
}

impl Solver<'_> {
    /// Folds all deletions that lead to one predecessor, of which one bucket is held at a time.
    /// Requests take about the allowance, or 48 bytes for each graph of the unit where that is
    /// more; all buckets are read once for as many graphs as have their requests there. Returns
    /// how many deletions were labelled.
    pub(super) fn fold_by_bucket<G: Game>(
        &self,
        Graphs { shard, children, outcomes, witness, .. }: &mut Graphs<G>,
        mut predecessor: Predecessor,
        source: &dyn Source,
    ) -> Result<u64, SolveError> {
        let n = shard.sequence.order();
        let mut labellings = 0;
        let together = graphs_together(self.allowance_bytes, shard, children.len(), &predecessor);
        for (children, outcomes) in children.chunks(together).zip(outcomes.chunks_mut(together)) {
            let routed = self.label_all(shard, children, &predecessor)?;
            labellings += routed.iter().map(|chunk| chunk.labellings).sum::<u64>();
            for bucket in 0..1u32 << predecessor.bucket_bits {
                predecessor.tables.clear();
                let table =
                    source.table(&predecessor.sequence, predecessor.bucket_bits, bucket)?;
                witness.look_at(&table, predecessor.bucket_bits);
                predecessor.hold(bucket, table);
                let chunks = routed.par_iter().zip(outcomes.par_chunks_mut(ROUTED_CHUNK));
                chunks.try_for_each(|(Routed { requests, .. }, outcomes)| {
                    self.check_stop()?;
                    let range = of_bucket(requests, n, predecessor.bucket_bits, bucket);
                    answer::<G>(n, self.kernel, &requests[range], &predecessor, outcomes)
                })?;
            }
            predecessor.tables.clear();
        }
        Ok(labellings)
    }

    /// The requests of each chunk of graphs.
    fn label_all(
        &self,
        shard: &Shard,
        children: &[Child],
        predecessor: &Predecessor,
    ) -> Result<Vec<Routed>, SolveError> {
        let requests_of = |children: &[Child]| {
            self.check_stop()?;
            let graphs = children.iter().map(|child| decode(&shard.sequence, child.slot));
            Router::new(shard.sequence.order(), self.kernel).run(graphs, predecessor)
        };
        children.par_chunks(ROUTED_CHUNK).map(requests_of).collect()
    }
}

/// How many of so many graphs have their requests to a predecessor answered together.
fn graphs_together(
    allowance_bytes: usize,
    shard: &Shard,
    graphs: usize,
    predecessor: &Predecessor,
) -> usize {
    let budget_bytes = allowance_bytes.max(BYTES_PER_GRAPH * graphs);
    graphs_within(budget_bytes, shard, predecessor)
}

/// The predecessors that a unit of so many graphs reads, in this order, by index in the plan, and
/// how often it reads all buckets of each.
pub fn readings(
    plan: &Plan,
    shard: &Shard,
    graphs: usize,
    allowance_bytes: usize,
) -> Vec<(u32, usize)> {
    let rounds = |(deletion, index): (Deletion, u32)| {
        let bucket_bits = plan.shards[index as usize].bucket_bits;
        let predecessor = Predecessor::new(&shard.sequence, &deletion, bucket_bits);
        let together = graphs_together(allowance_bytes, shard, graphs, &predecessor);
        (index, graphs.div_ceil(together).max(1))
    };
    let Reading { large, small } = Reading::of(plan, shard, allowance_bytes);
    large.into_iter().map(rounds).chain(small.into_iter().map(|(_, index)| (index, 1))).collect()
}

/// About how many graphs of a shard have requests of so many bytes to a predecessor, in whole
/// chunks. In a random graph with given degrees of sum 2m, vertices of degrees d and e are joined
/// with a probability of about d·e/2m.
fn graphs_within(bytes: usize, shard: &Shard, predecessor: &Predecessor) -> usize {
    let degree = |v| shard.sequence.degree(v) as f64;
    let pairs = delete::ends(shard.sequence.order()).into_iter().enumerate();
    let requests: f64 = pairs
        .filter(|(edge, _)| predecessor.edges >> edge & 1 == 1)
        .map(|(_, (u, w))| (degree(u) * degree(w) / (2 * shard.size) as f64).min(1.0))
        .sum();
    let graphs = bytes as f64 / (size_of::<Request>() as f64 * requests.max(0.5));
    (graphs as usize / ROUTED_CHUNK).max(1) * ROUTED_CHUNK
}

/// Where the requests to a bucket are.
fn of_bucket(requests: &[Request], n: usize, bucket_bits: u8, bucket: u32) -> Range<usize> {
    let up_to = |bucket: usize| {
        requests.partition_point(|request| bucket_of_slot(n, request.slot(), bucket_bits) < bucket)
    };
    up_to(bucket as usize)..up_to(bucket as usize + 1)
}

/// Folds what a bucket answers to requests.
fn answer<G: Game>(
    n: usize,
    kernel: Kernel,
    requests: &[Request],
    predecessor: &Predecessor,
    outcomes: &mut [G::Outcome],
) -> Result<(), SolveError> {
    if requests.is_empty() {
        return Ok(());
    }
    let ends = delete::ends(n);
    let group = std::slice::from_ref(predecessor);
    // While the records of one batch are on their way, the next is put together.
    let mut stages = [LookupStage::new(n, kernel), LookupStage::new(n, kernel)];
    for requests in requests.chunks(LANES) {
        let [next, located] = &mut stages;
        next.clear();
        for request in requests {
            next.put(request.slot(), request.deletion(&ends), &request.labels());
        }
        next.locate(group, n);
        located.look_up_and_fold::<G>(group, n, outcomes)?;
        stages.swap(0, 1);
    }
    stages[1].look_up_and_fold::<G>(group, n, outcomes)
}

/// Labels the deletions of some graphs that lead to one predecessor.
struct Router {
    order: usize,
    stage: LookupStage,
    /// Deletions whose colours did not decide their labels wait for each other to be searched
    /// together.
    forest: Forest<DeletedEdge>,
    requests: Vec<Request>,
}

impl Router {
    fn new(order: usize, kernel: Kernel) -> Self {
        Router {
            order,
            stage: LookupStage::new(order, kernel),
            forest: Forest::new(Batch::new(order, kernel)),
            requests: Vec::new(),
        }
    }

    fn run(
        mut self,
        graphs: impl Iterator<Item = Result<Graph, SolveError>>,
        predecessor: &Predecessor,
    ) -> Result<Routed, SolveError> {
        let columns = predecessor.columns(self.order);
        for (i, graph) in graphs.enumerate() {
            let graph = graph?;
            for &(w, lower) in &columns {
                for u in vertices(graph.neighbours(w) & lower) {
                    if self.stage.gather(predecessor, i, &graph, u, w) {
                        self.label();
                    }
                }
            }
        }
        self.label();
        self.search();
        self.requests.shrink_to_fit();
        self.requests.sort_unstable_by_key(|request| request.slot_and_edge);
        Ok(Routed { requests: self.requests, labellings: self.stage.labellings })
    }

    fn label(&mut self) {
        self.stage.label(self.order, |undecided, deletion| self.forest.push(undecided, deletion));
        let labelled = self.stage.labelled();
        self.requests
            .extend(labelled.map(|(slot, deletion, label)| Request::new(slot, deletion, &label)));
        self.stage.clear();
        if self.forest.is_full() {
            self.search();
        }
    }

    fn search(&mut self) {
        for (deletion, leaf) in self.forest.search() {
            let slot = slot_of_key(self.order, leaf.key(self.order));
            self.requests.push(Request::new(slot, *deletion, &leaf.label));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trailtrap_shared::labelling::key_bits;

    use super::*;

    proptest! {
        /// What goes into a request comes out of it, and the slot decides the order.
        #[test]
        fn requests_keep_what_they_are_made_of(
            slots in prop::array::uniform2(0..1u64 << key_bits(MAX_BATCH_ORDER)),
            graph in 0..1u32 << 16,
            edge in 0..trailtrap_shared::graph::pairs(MAX_BATCH_ORDER),
            label in Just(std::array::from_fn(|v| v as u8)).prop_shuffle(),
        ) {
            let ends = delete::ends(MAX_BATCH_ORDER);
            let (u, w) = ends[edge];
            let deletion = DeletedEdge { graph, u: u as u8, w: w as u8 };
            let [one, other] = slots.map(|slot| Request::new(slot, deletion, &label));
            prop_assert_eq!(one.slot(), slots[0]);
            prop_assert_eq!(one.labels(), label);
            let DeletedEdge { graph: same, u, w } = one.deletion(&ends);
            prop_assert_eq!((same, u, w), (deletion.graph, deletion.u, deletion.w));
            prop_assert_eq!(
                one.slot_and_edge.cmp(&other.slot_and_edge),
                slots[0].cmp(&slots[1])
            );
        }
    }
}
