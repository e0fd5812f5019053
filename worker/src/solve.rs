//! The kernel: all graphs of a unit and their outcomes, from the parents one order below and the
//! partitions with one edge less.
//!
//! parent → extension → labelling → deletions → look-up → fold → record. The first half is
//! [`generate`], the second [`fold_all`]; both run on the rayon pool they are called in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rayon::prelude::*;
use trailtrap_shared::{
    count::{
        digest::{Digest, Digester},
        statistics::Statistics,
    },
    game::{Answer, Game},
    generate::{Child, Extender, settle},
    graph::{Graph, degree::DegreeSequence, pairs},
    labelling::{
        batch::{Batch, Kernel, LANES, Lane, first_lanes, lanes_of},
        forest::Forest,
    },
    partition::{Block, Table, bucket_of_slot, graph_of_slot, slot_of_key},
    plan::{Plan, Shard, Unit, parent_range},
};

/// Where a unit's input comes from.
pub trait Source: Sync {
    /// The slots of all graphs with this degree sequence, of the order below the census's.
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError>;

    /// One of the 2^`bucket_bits` buckets of a finished partition.
    fn table(
        &self,
        sequence: &DegreeSequence,
        bucket_bits: u8,
        bucket: u32,
    ) -> Result<Arc<Table>, SourceError>;
}

/// Input could not be had: a broken link, a damaged block.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Why a unit was not solved.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    #[error("cannot get input")]
    Source(#[from] SourceError),
    #[error(
        "partition {sequence} lacks the graph of slot {slot:#x}: it, or this machine, is damaged"
    )]
    MissingPredecessor { sequence: DegreeSequence, slot: u64 },
    #[error(
        "partition {sequence} lists slot {slot:#x}, which is no graph: it, or this machine, is \
         damaged"
    )]
    NoGraph { sequence: DegreeSequence, slot: u64 },
    #[error(
        "two parents generate the graph of slot {slot:#x} of {sequence}: the parent lists are \
         wrong"
    )]
    Duplicate { sequence: DegreeSequence, slot: u64 },
    #[error("interrupted")]
    Interrupted,
}

/// A solved unit.
pub struct Solved {
    pub unit: Unit,
    pub sequence: DegreeSequence,
    /// One table for each bucket, in order.
    pub tables: Vec<Arc<Table>>,
    pub statistics: Statistics,
    pub digest: Digest,
    /// How long it took, waiting for input included.
    pub elapsed: Duration,
}

impl Solved {
    /// Keys, outcomes and wins of each bucket.
    pub fn blocks<G: Game>(&self) -> Vec<Block> {
        self.tables.iter().flat_map(|table| table.to_blocks::<G>(self.unit.part)).collect()
    }
}

/// Graphs are decoded and worked off in chunks of this many: enough to hide the start of a chunk,
/// few enough to stay in the cache and to spread over cores.
const CHUNK: usize = 1024;
/// Parents are extended in chunks of this many.
const PARENT_CHUNK: usize = 256;

/// How units are solved on this machine.
pub struct Solver<'a> {
    pub kernel: Kernel,
    /// Bytes of predecessor tables to hold at a time for one unit.
    pub allowance: usize,
    /// Set to interrupt the work; looked at after every chunk.
    pub stop: &'a AtomicBool,
}

impl Solver<'_> {
    /// Solves one unit. Takes about (graphs × edges) × 0.1 µs of a core.
    pub fn solve<G: Game>(
        &self,
        plan: &Plan,
        unit: Unit,
        source: &dyn Source,
    ) -> Result<Solved, SolveError> {
        let start = Instant::now();
        let shard = &plan.shards[unit.shard as usize];
        let children = self.generate(shard, unit.part, source)?;
        let mut outcomes = vec![G::Outcome::default(); children.len()];
        let (statistics, digest) =
            self.fold_all::<G>(plan, shard, &children, &mut outcomes, source)?;
        let tables = self.tabulate::<G>(shard, &children, &outcomes);
        Ok(Solved {
            unit,
            sequence: shard.sequence,
            tables,
            statistics,
            digest,
            elapsed: start.elapsed(),
        })
    }

    fn check_stop(&self) -> Result<(), SolveError> {
        if self.stop.load(Ordering::Relaxed) { Err(SolveError::Interrupted) } else { Ok(()) }
    }

    /// The graphs of a part of a shard, in the order of their slots.
    fn generate(
        &self,
        shard: &Shard,
        part: u32,
        source: &dyn Source,
    ) -> Result<Vec<Child>, SolveError> {
        let target = shard.sequence;
        if target.order() == 1 {
            // It has no parent that would say to which part it belongs.
            let all = vec![Child { slot: slot_of_key(1, 0), parent: 0, automorphisms: 1 }];
            return Ok(if part == 0 { all } else { Vec::new() });
        }
        let kinds = target.parents();
        let mut lists = Vec::with_capacity(kinds.len());
        let mut before = 0u32;
        for kind in &kinds {
            let slots = source.parents(&kind.sequence)?;
            let range = parent_range(slots.len(), part, shard.parts);
            lists.push((before, slots, range));
            before += lists.last().map_or(0, |(_, slots, _)| slots.len() as u32);
        }
        // Neighbouring lists are taken together until a chunk is full, long ones are cut.
        let mut chunks: Vec<Vec<(usize, std::ops::Range<usize>)>> = vec![Vec::new()];
        let mut room = PARENT_CHUNK;
        for (kind, (_, _, range)) in lists.iter().enumerate() {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + room);
                chunks.last_mut().expect("never empty").push((kind, start..end));
                room -= end - start;
                start = end;
                if room == 0 {
                    chunks.push(Vec::new());
                    room = PARENT_CHUNK;
                }
            }
        }
        let extended: Vec<Vec<Child>> = chunks
            .into_par_iter()
            .map(|chunk| {
                self.check_stop()?;
                let mut children = Vec::new();
                let mut extender = Extender::new(&target, self.kernel);
                for (kind, range) in chunk {
                    extender.take_from(&kinds[kind]);
                    let (before, slots, _) = &lists[kind];
                    for i in range {
                        let parent = decode(&kinds[kind].sequence, slots[i])?;
                        extender.extend(before + i as u32, &parent, &mut children);
                    }
                }
                extender.finish(&mut children);
                // Repeats within a parent go at once, before they take memory.
                children.sort_unstable();
                children.dedup();
                Ok(children)
            })
            .collect::<Result<_, SolveError>>()?;
        let mut children = extended.concat();
        if children.len() > CHUNK {
            children.par_sort_unstable();
        }
        settle(&mut children).map_err(|slot| SolveError::Duplicate { sequence: target, slot })?;
        Ok(children)
    }

    /// Folds every edge of every graph into its outcome, and takes statistics and public digest of
    /// the finished graphs. Predecessors are read in groups within the allowance, one bucket of
    /// one predecessor if it must be.
    fn fold_all<G: Game>(
        &self,
        plan: &Plan,
        shard: &Shard,
        children: &[Child],
        outcomes: &mut [G::Outcome],
        source: &dyn Source,
    ) -> Result<(Statistics, Digest), SolveError> {
        let mut group: Vec<Predecessor> = Vec::new();
        let mut held = 0;
        for deletion in shard.sequence.deletions() {
            let index =
                plan.find(&deletion.sequence).expect("the plan holds every degree sequence");
            let bucket_bits = plan.shards[index as usize].bucket_bits;
            let mut predecessor = Predecessor::new(&shard.sequence, &deletion, bucket_bits);
            for bucket in 0..1u32 << bucket_bits {
                let table = source.table(&deletion.sequence, bucket_bits, bucket)?;
                if held > 0 && held + table.memory() > self.allowance {
                    if predecessor.tables.iter().any(Option::is_some) {
                        group.push(predecessor.split_off());
                    }
                    self.fold_group::<G>(shard, children, outcomes, &group, false)?;
                    group.clear();
                    held = 0;
                }
                held += table.memory();
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
    ) -> Result<(Statistics, Digest), SolveError> {
        let fold = |(children, outcomes): (&[Child], &mut [G::Outcome])| {
            self.check_stop()?;
            let graphs: Vec<Graph> = children
                .iter()
                .map(|child| decode(&shard.sequence, child.slot))
                .collect::<Result<_, _>>()?;
            Folder::<G>::new(shard.sequence.order(), self.kernel, group, outcomes).run(&graphs)?;
            Ok(if last {
                self.summarize::<G>(shard, children, &graphs, outcomes)
            } else {
                Default::default()
            })
        };
        children.par_chunks(CHUNK).zip(outcomes.par_chunks_mut(CHUNK)).map(fold).try_reduce(
            Default::default,
            |mut a, b| {
                a.0 += &b.0;
                a.1 += b.1;
                Ok(a)
            },
        )
    }

    fn summarize<G: Game>(
        &self,
        shard: &Shard,
        children: &[Child],
        graphs: &[Graph],
        outcomes: &[G::Outcome],
    ) -> (Statistics, Digest) {
        let mut statistics = Statistics::default();
        let mut digester = Digester::<G>::new(&shard.sequence, self.kernel);
        for ((child, graph), outcome) in children.iter().zip(graphs).zip(outcomes) {
            statistics.add(graph, child.automorphisms.into(), &G::tally(graph.order(), outcome));
            digester.add(graph, outcome);
        }
        (statistics, digester.finish())
    }

    fn tabulate<G: Game>(
        &self,
        shard: &Shard,
        children: &[Child],
        outcomes: &[G::Outcome],
    ) -> Vec<Arc<Table>> {
        let n = shard.sequence.order();
        let mut start = 0;
        (0..1u32 << shard.bucket_bits)
            .map(|bucket| {
                let rest = &children[start..];
                let length = rest.partition_point(|child| {
                    bucket_of_slot(n, child.slot, shard.bucket_bits) <= bucket as usize
                });
                let range = start..start + length;
                start += length;
                let slots = children[range.clone()].iter().map(|child| child.slot);
                let table = Table::new::<G>(
                    shard.sequence,
                    shard.bucket_bits,
                    bucket,
                    slots,
                    |i, record| {
                        G::encode(n, &outcomes[range.start + i], record);
                    },
                );
                Arc::new(table)
            })
            .collect()
    }
}

fn decode(sequence: &DegreeSequence, slot: u64) -> Result<Graph, SolveError> {
    graph_of_slot(sequence, slot).ok_or(SolveError::NoGraph { sequence: *sequence, slot })
}

/// A partition one edge deletion away: which edges lead there, and its tables as far as they are
/// at hand.
struct Predecessor {
    sequence: DegreeSequence,
    /// The pairs of vertices whose edge leads there, as in [`Graph::code`]: vertices are in order
    /// of degree, so of u < w u has the lower degree.
    edges: u128,
    /// The colours that labelling starts from, but for the ends of the deleted edge …
    colours: [u16; 16],
    /// … which have these.
    low_colour: u16,
    high_colour: u16,
    bucket_bits: u8,
    tables: Vec<Option<Arc<Table>>>,
}

impl Predecessor {
    fn new(
        from: &DegreeSequence,
        deletion: &trailtrap_shared::graph::degree::Deletion,
        bucket_bits: u8,
    ) -> Self {
        let leads_there = |u, w| from.degree(u) == deletion.low && from.degree(w) == deletion.high;
        let edges = (1..from.order())
            .flat_map(|w| (0..w).map(move |u| (u, w)))
            .filter(|&(u, w)| leads_there(u, w));
        let ranks = deletion.sequence.ranks();
        Predecessor {
            sequence: deletion.sequence,
            edges: edges.fold(0, |set, (u, w)| set | 1 << (pairs(w) + u)),
            colours: std::array::from_fn(
                |v| if v < from.order() { ranks[from.degree(v)] } else { 0 },
            ),
            low_colour: ranks[deletion.low - 1],
            high_colour: ranks[deletion.high - 1],
            bucket_bits,
            tables: vec![None; 1 << bucket_bits],
        }
    }

    /// Takes the tables at hand along and leaves the predecessor without any.
    fn split_off(&mut self) -> Self {
        let tables = std::mem::replace(&mut self.tables, vec![None; 1 << self.bucket_bits]);
        Predecessor { tables, ..*self }
    }

    /// The table that a slot belongs to. Buckets that are not at hand have their turn with another
    /// group.
    #[inline(always)]
    fn table_of(&self, n: usize, slot: u64) -> Option<&Table> {
        let bucket =
            if self.bucket_bits == 0 { 0 } else { bucket_of_slot(n, slot, self.bucket_bits) };
        self.tables[bucket].as_deref()
    }
}

/// One edge of one graph, to be deleted.
#[derive(Clone, Copy, Default)]
struct Deletion {
    /// Index of the graph in the chunk.
    graph: u32,
    u: u8,
    w: u8,
}

/// Up to 32 deletions that lead to one predecessor, in one of the stages: being gathered, labelled
/// with their directory entries on the way, or located with their records on the way.
struct Stage {
    batch: Box<Batch>,
    /// Index in the group.
    predecessor: usize,
    count: usize,
    deletions: [Deletion; LANES],
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
    gathering: Stage,
    /// The graph whose rows are in the lanes still to be gathered, beside the predecessor's
    /// colours.
    laid_out: Option<usize>,
    labelled: Stage,
    located: Stage,
    /// Deletions whose colours did not decide their labels, with their predecessors, wait for each
    /// other to be searched together, …
    forest: Forest<(usize, Deletion)>,
    /// … and are then folded on a way of their own.
    searched: Stage,
}

impl<'a, G: Game> Folder<'a, G> {
    fn new(
        order: usize,
        kernel: Kernel,
        group: &'a [Predecessor],
        outcomes: &'a mut [G::Outcome],
    ) -> Self {
        let stage = || Stage {
            batch: Batch::new(order, kernel),
            predecessor: 0,
            count: 0,
            deletions: [Deletion::default(); LANES],
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
            // The edgeless graph.
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
        let Stage { batch, deletions, count, .. } = &mut self.gathering;
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
        deletions[*count] = Deletion { graph: i as u32, u: u as u8, w: w as u8 };
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

impl Stage {
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
        let mut answers = [Answer::default(); LANES];
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
            let Deletion { u, w, .. } = self.deletions[lane];
            let (u, w) =
                (self.batch.label_of(lane, u as usize), self.batch.label_of(lane, w as usize));
            answers[lane] = G::ask(n, table.record(entry), u, w);
            sets[0].0[lane] = answers[lane].sets[0];
            sets[1].0[lane] = answers[lane].sets[1];
            present |= 1 << lane;
        }
        let sets = [self.batch.pull_back(&sets[0]), self.batch.pull_back(&sets[1])];
        for lane in lanes_of(present) {
            let Deletion { graph, u, w } = self.deletions[lane];
            let answer =
                Answer { sets: [sets[0].0[lane], sets[1].0[lane]], flags: answers[lane].flags };
            G::fold(n, &mut outcomes[graph as usize], u as usize, w as usize, &answer);
        }
        Ok(())
    }
}
