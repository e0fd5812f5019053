//! The second half of the route: deletions of edges are labelled and looked up, and what their
//! records say is folded into the outcomes.

use rayon::prelude::*;
use trailtrap_shared::{
    count::{digest::Digester, statistics::Statistics, summary::Summary},
    game::{Game, Method, PredecessorAnswer},
    generate::Child,
    graph::Graph,
    labelling::{
        batch::{Batch, Kernel, LANES, Lane, first_lanes, lanes_of},
        forest::Forest,
    },
    partition::slot_of_key,
    plan::{Plan, Shard},
};

use super::{
    CHUNK, SolveError, Solver, Source, decode,
    delete::{DeletedEdge, Predecessor},
};

impl Solver<'_> {
    /// Folds every edge of every graph into its outcome, finishes it, and takes statistics and
    /// public digest of the finished graphs. Predecessors are read in groups within the allowance,
    /// one bucket of one predecessor if it must be.
    pub(super) fn fold_all<G: Game>(
        &self,
        plan: &Plan,
        shard: &Shard,
        children: &[Child],
        outcomes: &mut [G::Outcome],
        source: &dyn Source,
    ) -> Result<Summary, SolveError> {
        let mut group: Vec<Predecessor> = Vec::new();
        let mut held = 0;
        let deletions = match G::Method::READS_PREDECESSORS {
            true => shard.sequence.deletions(),
            false => Vec::new(),
        };
        for deletion in deletions {
            let index =
                plan.find(&deletion.sequence).expect("the plan holds every degree sequence");
            let bucket_bits = plan.shards[index as usize].bucket_bits;
            let mut predecessor = Predecessor::new(&shard.sequence, &deletion, bucket_bits);
            for bucket in 0..1u32 << bucket_bits {
                let table = source.table(&deletion.sequence, bucket_bits, bucket)?;
                if held > 0 && held + table.memory_bytes() > self.allowance_bytes {
                    if predecessor.tables.iter().any(Option::is_some) {
                        group.push(predecessor.split_off());
                    }
                    self.fold_group::<G>(shard, children, outcomes, &group, false)?;
                    group.clear();
                    held = 0;
                }
                held += table.memory_bytes();
                predecessor.tables[bucket as usize] = Some(table);
            }
            group.push(predecessor);
        }
        self.fold_group::<G>(shard, children, outcomes, &group, true)
    }

    fn fold_group<G: Game>(
        &self,
        shard: &Shard,
        children: &[Child],
        outcomes: &mut [G::Outcome],
        group: &[Predecessor],
        last: bool,
    ) -> Result<Summary, SolveError> {
        let fold = |(children, outcomes): (&[Child], &mut [G::Outcome])| {
            self.check_stop()?;
            let graphs: Vec<Graph> = children
                .iter()
                .map(|child| decode(&shard.sequence, child.slot))
                .collect::<Result<_, _>>()?;
            Folder::<G>::new(shard.sequence.order(), self.kernel, group, outcomes).run(&graphs)?;
            Ok(if last {
                let mut scratch = <G::Method as Method<G>>::Scratch::default();
                for (graph, outcome) in graphs.iter().zip(outcomes.iter_mut()) {
                    G::Method::finish(graph, outcome, &mut scratch);
                }
                self.summarize::<G>(shard, children, &graphs, outcomes)
            } else {
                Default::default()
            })
        };
        children.par_chunks(CHUNK).zip(outcomes.par_chunks_mut(CHUNK)).map(fold).try_reduce(
            Default::default,
            |mut sum, more| {
                sum += &more;
                Ok(sum)
            },
        )
    }

    fn summarize<G: Game>(
        &self,
        shard: &Shard,
        children: &[Child],
        graphs: &[Graph],
        outcomes: &[G::Outcome],
    ) -> Summary {
        let mut statistics = Statistics::default();
        let mut digester = Digester::<G>::new(&shard.sequence, self.kernel);
        for ((child, graph), outcome) in children.iter().zip(graphs).zip(outcomes) {
            let automorphisms = child.automorphisms.into();
            statistics.add(graph, automorphisms, &G::tally(graph, automorphisms, outcome));
            digester.add(graph, outcome);
        }
        Summary { statistics, digest: digester.finish() }
    }
}

/// Up to 32 deletions that lead to one predecessor, in one of the stages: being gathered, labelled
/// with their directory entries on the way, or located with their records on the way.
struct LookupStage {
    batch: Box<Batch>,
    /// Index in the group.
    predecessor: usize,
    count: usize,
    deletions: [DeletedEdge; LANES],
    /// Lanes that have a slot; the others are undecided and go another way.
    labelled: u32,
    slots: [u64; LANES],
    /// Where in the table to look for the slots.
    places: [u32; LANES],
}

/// Works off the deletions of a chunk of graphs in a pipeline of three stages, so that the memory
/// accesses of 32 look-ups overlap with the labelling of the next 32.
struct Folder<'a, G: Game> {
    order: usize,
    group: &'a [Predecessor],
    outcomes: &'a mut [G::Outcome],
    gathering: LookupStage,
    /// The graph whose rows are in the lanes still to be gathered, beside the predecessor's
    /// colours.
    laid_out: Option<usize>,
    labelled: LookupStage,
    located: LookupStage,
    /// Deletions whose colours did not decide their labels, with their predecessors, wait for each
    /// other to be searched together, …
    forest: Forest<(usize, DeletedEdge)>,
    /// … and are then folded on a way of their own.
    searched: LookupStage,
}

impl<'a, G: Game> Folder<'a, G> {
    fn new(
        order: usize,
        kernel: Kernel,
        group: &'a [Predecessor],
        outcomes: &'a mut [G::Outcome],
    ) -> Self {
        let stage = || LookupStage {
            batch: Batch::new(order, kernel),
            predecessor: 0,
            count: 0,
            deletions: [DeletedEdge::default(); LANES],
            labelled: 0,
            slots: [0; LANES],
            places: [0; LANES],
        };
        Folder {
            order,
            group,
            outcomes,
            gathering: stage(),
            laid_out: None,
            labelled: stage(),
            located: stage(),
            forest: Forest::new(Batch::new(order, kernel)),
            searched: stage(),
        }
    }

    /// One predecessor after the other, so that look-ups that follow each other go to the same
    /// table.
    fn run(mut self, graphs: &[Graph]) -> Result<(), SolveError> {
        let codes: Vec<u128> = graphs.iter().map(Graph::code).collect();
        let ends: Vec<(usize, usize)> =
            (1..self.order).flat_map(|w| (0..w).map(move |u| (u, w))).collect();
        for (p, predecessor) in self.group.iter().enumerate() {
            self.gathering.predecessor = p;
            for (i, (graph, code)) in graphs.iter().zip(&codes).enumerate() {
                let mut edges = code & predecessor.edges;
                while edges != 0 {
                    let (u, w) = ends[edges.trailing_zeros() as usize];
                    edges &= edges - 1;
                    self.gather(predecessor, i, graph, u, w)?;
                }
            }
            if self.gathering.count > 0 {
                self.advance()?;
            }
        }
        if self.group.is_empty() {
            // The edgeless graph, or a game that reads no predecessors.
            return Ok(());
        }
        // Run the pipeline empty.
        for _ in 0..2 {
            self.advance()?;
        }
        self.search()
    }

    #[inline(always)]
    fn gather(
        &mut self,
        predecessor: &Predecessor,
        i: usize,
        graph: &Graph,
        u: usize,
        w: usize,
    ) -> Result<(), SolveError> {
        let LookupStage { batch, deletions, count, .. } = &mut self.gathering;
        // What deletions have in common is written to all lanes to come; then each changes its
        // own.
        if self.laid_out != Some(i) {
            batch.set_rows_from(*count, graph.rows());
            if self.laid_out.is_none() {
                batch.set_colours_from(*count, &predecessor.colours);
            }
            self.laid_out = Some(i);
        }
        batch.set(*count, u, graph.neighbours(u) & !(1 << w), predecessor.low_colour);
        batch.set(*count, w, graph.neighbours(w) & !(1 << u), predecessor.high_colour);
        deletions[*count] = DeletedEdge { graph: i as u32, u: u as u8, w: w as u8 };
        *count += 1;
        if *count == LANES { self.advance() } else { Ok(()) }
    }

    /// Moves every batch one stage on.
    fn advance(&mut self) -> Result<(), SolveError> {
        self.located.look_up_and_fold::<G>(self.group, self.order, self.outcomes)?;
        self.labelled.locate(self.group, self.order);
        self.label();
        // What was located is done: its stage gathers next.
        let predecessor = self.gathering.predecessor;
        std::mem::swap(&mut self.located, &mut self.labelled);
        std::mem::swap(&mut self.labelled, &mut self.gathering);
        self.gathering.predecessor = predecessor;
        self.gathering.count = 0;
        self.laid_out = None;
        if self.forest.is_full() { self.search() } else { Ok(()) }
    }

    /// Labels what was gathered, and asks for the directory entries. Undecided lanes are taken
    /// out.
    fn label(&mut self) {
        let stage = &mut self.gathering;
        stage.labelled = if stage.count == 0 { 0 } else { stage.batch.label(stage.count) };
        for lane in lanes_of(first_lanes(stage.count) & !stage.labelled) {
            self.forest
                .push(stage.batch.undecided(lane), (stage.predecessor, stage.deletions[lane]));
        }
        let predecessor = &self.group[stage.predecessor];
        for lane in lanes_of(stage.labelled) {
            stage.slots[lane] = slot_of_key(self.order, stage.batch.key(lane));
            if let Some(table) = predecessor.table_of(self.order, stage.slots[lane]) {
                table.prefetch(stage.slots[lane]);
            }
        }
    }

    /// Labels the undecided deletions by search, and folds them.
    fn search(&mut self) -> Result<(), SolveError> {
        let found = self.forest.search();
        for same in
            found.chunk_by(|((a, _), _), ((b, _), _)| a == b).flat_map(|same| same.chunks(LANES))
        {
            let stage = &mut self.searched;
            stage.predecessor = same[0].0.0;
            stage.labelled = first_lanes(same.len());
            for (lane, ((_, deletion), leaf)) in same.iter().enumerate() {
                stage.batch.put_labels(lane, leaf);
                stage.deletions[lane] = *deletion;
                stage.slots[lane] = slot_of_key(self.order, leaf.key(self.order));
            }
            stage.locate(self.group, self.order);
            stage.look_up_and_fold::<G>(self.group, self.order, self.outcomes)?;
        }
        Ok(())
    }
}

impl LookupStage {
    /// Finds out where the records of labelled deletions are, and asks for them.
    fn locate(&mut self, group: &[Predecessor], n: usize) {
        let predecessor = &group[self.predecessor];
        for lane in lanes_of(self.labelled) {
            if let Some(table) = predecessor.table_of(n, self.slots[lane]) {
                self.places[lane] = table.locate(self.slots[lane]);
            }
        }
    }

    /// Reads the records of located deletions and folds them.
    fn look_up_and_fold<G: Game>(
        &self,
        group: &[Predecessor],
        n: usize,
        outcomes: &mut [G::Outcome],
    ) -> Result<(), SolveError> {
        let predecessor = &group[self.predecessor];
        let mut answers = [PredecessorAnswer::default(); LANES];
        let mut sets = [Lane([0; LANES]); 2];
        let mut present = 0u32;
        for lane in lanes_of(self.labelled) {
            let slot = self.slots[lane];
            let Some(table) = predecessor.table_of(n, slot) else { continue };
            let Some(entry) = table.find(slot, self.places[lane]) else {
                return Err(SolveError::MissingPredecessor {
                    sequence: predecessor.sequence,
                    slot,
                });
            };
            let DeletedEdge { u, w, .. } = self.deletions[lane];
            let (u, w) =
                (self.batch.label_of(lane, u as usize), self.batch.label_of(lane, w as usize));
            answers[lane] = G::Method::ask(n, table.record(entry), u, w);
            sets[0].0[lane] = answers[lane].sets[0];
            sets[1].0[lane] = answers[lane].sets[1];
            present |= 1 << lane;
        }
        let sets = [self.batch.pull_back(&sets[0]), self.batch.pull_back(&sets[1])];
        for lane in lanes_of(present) {
            let DeletedEdge { graph, u, w } = self.deletions[lane];
            let answer = PredecessorAnswer {
                sets: [sets[0].0[lane], sets[1].0[lane]],
                flags: answers[lane].flags,
            };
            G::Method::fold(n, &mut outcomes[graph as usize], u as usize, w as usize, &answer);
        }
        Ok(())
    }
}
