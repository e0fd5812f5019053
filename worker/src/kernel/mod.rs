//! The kernel: all graphs of a unit and their outcomes, from the parents one order below and the
//! partitions with one edge less.
//!
//! parent → extension → labelling → deletions → look-up → fold → record. The first half is
//! [`generate`], the second [`fold`], with [`route`] for predecessors that the processor's cache does
//! not hold; all run on the rayon pool they are called in.

mod delete;
mod evidence;
mod fold;
mod generate;
mod read;
mod route;
#[cfg(test)]
mod tests;

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

pub use evidence::Evidence;
use evidence::Witness;
pub use fold::LookedUp;
use rayon::prelude::*;
pub use route::{PredecessorReading, readings};
use trailtrap_shared::{
    count::summary::Summary,
    game::{Game, GameName, Layout},
    generate::Child,
    graph::{Graph, degree::DegreeSequence},
    labelling::batch::Kernel,
    partition::{Asked, Block, BucketTable, bucket_of_slot, graph_of_slot},
    plan::{Plan, Shard, Unit},
    play,
};

/// A bucket of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketKey {
    /// The degree sequence of the partition.
    pub sequence: DegreeSequence,
    /// The partition is split into 2^`bucket_bits` buckets.
    pub bucket_bits: u8,
    /// The bucket, below 2^`bucket_bits`.
    pub bucket: u32,
}

impl BucketKey {
    /// A bucket of the partition of a shard.
    pub fn of(shard: &Shard, bucket: u32) -> Self {
        BucketKey { sequence: shard.sequence, bucket_bits: shard.bucket_bits, bucket }
    }
}

/// Where a unit's input comes from.
pub trait Source: Sync {
    /// The slots of all graphs with this degree sequence, whose order is one below that of the
    /// unit, in increasing order.
    ///
    /// # Errors
    /// If they cannot be had.
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError>;

    /// The table of a bucket of a finished partition.
    ///
    /// # Errors
    /// If it cannot be had.
    fn table(&self, key: &BucketKey) -> Result<Arc<BucketTable>, SourceError>;

    /// Whether [`Source::table`] need not read a bucket.
    fn is_at_hand(&self, _key: &BucketKey) -> bool {
        false
    }

    /// Whether of the tables that a unit looks up in, of so many bytes all together, enough stay for
    /// other units that read them. If not, [`Source::asked_table`] is called where it takes less time.
    fn keeps(&self, _bytes: usize) -> bool {
        true
    }

    /// As [`Source::table`], or as much of it as is asked for: only slots that are asked for are
    /// looked up.
    ///
    /// # Errors
    /// As [`Source::table`].
    fn asked_table(
        &self,
        key: &BucketKey,
        _asked: &Asked,
    ) -> Result<Arc<BucketTable>, SourceError> {
        self.table(key)
    }

    /// Which of the `graphs` graphs of a unit, by their places in the order of their slots, are to
    /// be tried; in increasing order. [`Evidence`] is taken of them.
    fn drawn(&self, _unit: Unit, _graphs: u64) -> Vec<u64> {
        Vec::new()
    }
}

/// Why input could not be had, for instance because of a broken link or a damaged block.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Why a unit was not solved.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// Parents or predecessors could not be had.
    #[error("cannot get input")]
    Source(#[from] SourceError),
    /// A predecessor of a generated graph is not in its partition.
    #[error(
        "partition {sequence} lacks the graph of slot {slot:#x}: it, or this machine, is damaged"
    )]
    MissingPredecessor {
        /// The degree sequence of the predecessor.
        sequence: DegreeSequence,
        /// The slot of the predecessor.
        slot: u64,
    },
    /// A list of parents holds a slot that is no graph.
    #[error(
        "partition {sequence} lists slot {slot:#x}, which is no graph: it, or this machine, is \
         damaged"
    )]
    NoGraph {
        /// The degree sequence of the parents.
        sequence: DegreeSequence,
        /// The slot in their list.
        slot: u64,
    },
    /// Two parents generate the same graph, which those of a sound order never do.
    #[error(
        "two parents generate the graph of slot {slot:#x} of {sequence}: the parent lists are \
         wrong"
    )]
    Duplicate {
        /// The degree sequence of the graph.
        sequence: DegreeSequence,
        /// The slot of the graph.
        slot: u64,
    },
    /// The worker was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A solved unit.
pub struct SolvedUnit {
    /// The unit.
    pub unit: Unit,
    /// The degree sequence of its shard.
    pub sequence: DegreeSequence,
    /// One table for each bucket, in order.
    pub tables: Vec<Arc<BucketTable>>,
    /// Of its graphs.
    pub summary: Summary,
    /// How many deletions were labelled: each edge of each graph once, however little is held,
    /// and none in games that read no predecessors. Of parts that were solved together, the first
    /// has what cannot be told apart.
    pub labellings: u64,
    /// How long it took, waiting for input included; of parts that were solved together, its share
    /// by number of graphs.
    pub elapsed: Duration,
    /// What the graphs lead to that are to be tried.
    pub evidence: Evidence,
}

impl SolvedUnit {
    /// How many graphs it has.
    pub fn graphs(&self) -> u64 {
        self.summary.statistics.classes.all.graphs as u64
    }

    /// Bytes of the slots and of the records in its blocks, without their heads.
    pub fn stored_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.stored_bytes()).sum()
    }

    /// Keys, outcomes and wins of each bucket.
    pub fn blocks(&self) -> Vec<Block> {
        self.tables.iter().flat_map(|table| table.to_blocks(self.unit.part)).collect()
    }
}

/// The graphs of parts of a shard that are solved together, and what is known of them.
struct Graphs<'a, G: Game> {
    shard: &'a Shard,
    /// The parts one after the other, the graphs of each in the order of their slots.
    children: &'a [Child],
    /// Where each part is.
    parts: &'a [Range<usize>],
    /// Of each graph, as far as its edges are folded.
    outcomes: &'a mut [G::Outcome],
    /// Looks at each table that is read.
    witness: &'a mut Witness,
}

/// Graphs are decoded and worked off in chunks of this many: enough to hide the start of a chunk,
/// few enough to stay in the cache and to spread over cores.
const CHUNK: usize = if cfg!(test) { 8 } else { 1024 };

/// How units are solved on this machine.
pub struct Solver<'a> {
    /// The game that is solved.
    pub game: GameName,
    /// The instruction set that is used.
    pub kernel: Kernel,
    /// Bytes of predecessor tables to hold at a time for one unit, those that are read ahead among
    /// them, unless two tables are more; and as much again of requests to a predecessor that is read
    /// some buckets at a time. Requests to others take 48 bytes for each graph at most, about, and
    /// their rows 24.
    pub allowance_bytes: usize,
    /// Set to interrupt the work; looked at after every chunk.
    pub stop: &'a AtomicBool,
}

impl Solver<'_> {
    /// Solves one unit. Takes about (graphs × edges) × 0.1 µs of a core.
    ///
    /// # Errors
    ///
    /// Input cannot be had or is damaged, or the work was interrupted.
    pub fn solve(
        &self,
        plan: &Plan,
        unit: Unit,
        source: &dyn Source,
    ) -> Result<SolvedUnit, SolveError> {
        let mut solved = self.solve_together(plan, &[unit], source)?;
        Ok(solved.pop().expect("one unit was solved"))
    }

    /// Solves parts of one shard, at least one, in their order, and reads what all of them read
    /// once, or as often as [`readings`] says for all their graphs.
    ///
    /// The kernel is compiled here, for each game and the sets of its outcomes, and nowhere else.
    ///
    /// # Errors
    ///
    /// As [`Solver::solve`].
    pub fn solve_together(
        &self,
        plan: &Plan,
        units: &[Unit],
        source: &dyn Source,
    ) -> Result<Vec<SolvedUnit>, SolveError> {
        play!(self.game, plan.order, G => self.solve_as::<G>(plan, units, source))
    }

    /// The same for a game without a name.
    pub(crate) fn solve_as<G: Game>(
        &self,
        plan: &Plan,
        units: &[Unit],
        source: &dyn Source,
    ) -> Result<Vec<SolvedUnit>, SolveError> {
        let start = Instant::now();
        let shard = &plan.shards[units[0].shard as usize];
        let parts = || units.iter().map(|unit| unit.part);
        let range = parts().min().unwrap_or(0)..=parts().max().unwrap_or(0);
        let parents = Self::parents(shard, range, source)?;
        let generate = |unit: &Unit| self.generate(plan.layout.class, shard, unit.part, &parents);
        let mut generated: Vec<Vec<Child>> =
            units.par_iter().map(generate).collect::<Result<_, _>>()?;
        let mut parts: Vec<Range<usize>> = Vec::with_capacity(generated.len());
        for part in &generated {
            let start = parts.last().map_or(0, |last| last.end);
            parts.push(start..start + part.len());
        }
        // Most shards have one part.
        let children = match generated.len() {
            1 => generated.remove(0),
            _ => concatenated(generated),
        };
        drop(parents);
        let mut outcomes: Vec<G::Outcome> = defaults(children.len());
        let mut witness = Witness::new(plan, shard, units, &children, &parts, source)?;
        let graphs = Graphs {
            shard,
            children: &children,
            parts: &parts,
            outcomes: &mut outcomes,
            witness: &mut witness,
        };
        let folded = self.fold_all::<G>(plan, graphs, source)?;
        let tables: Vec<_> = parts
            .par_iter()
            .map(|part| {
                self.tabulate::<G>(
                    plan.layout,
                    shard,
                    &children[part.clone()],
                    &outcomes[part.clone()],
                )
            })
            .collect();
        let elapsed = start.elapsed();
        let share = |part: &Range<usize>| part.len().max(1) as f64 / children.len().max(1) as f64;
        let solved = units.iter().zip(&parts).zip(tables).zip(folded).zip(witness.finish());
        Ok(solved
            .map(|((((&unit, part), tables), folded), evidence)| SolvedUnit {
                unit,
                sequence: shard.sequence,
                tables,
                summary: folded.summary,
                labellings: folded.labellings,
                evidence,
                elapsed: elapsed.mul_f64(share(part)),
            })
            .collect())
    }

    fn check_stop(&self) -> Result<(), SolveError> {
        if self.stop.load(Ordering::Relaxed) { Err(SolveError::Interrupted) } else { Ok(()) }
    }

    fn tabulate<G: Game>(
        &self,
        layout: Layout,
        shard: &Shard,
        children: &[Child],
        outcomes: &[G::Outcome],
    ) -> Vec<Arc<BucketTable>> {
        let n = shard.sequence.order();
        let bucket_of = |child: &Child| bucket_of_slot(n, child.slot, shard.bucket_bits) as u32;
        let up_to = |bucket| children.partition_point(|child| bucket_of(child) < bucket);
        let table = |bucket| {
            let range = up_to(bucket)..up_to(bucket + 1);
            let slots = children[range.clone()].iter().map(|child| child.slot);
            let outcomes = &outcomes[range];
            let encode = |i: usize, record: &mut [u8]| G::encode(n, &outcomes[i], record);
            let (sequence, bits) = (shard.sequence, shard.bucket_bits);
            Arc::new(BucketTable::new(layout, sequence, bits, bucket, slots, encode))
        };
        shard.buckets().into_par_iter().map(table).collect()
    }
}

/// So many of them, written by all threads.
fn defaults<T: Copy + Default + Send + Sync>(count: usize) -> Vec<T> {
    rayon::iter::repeat_n(T::default(), count).with_min_len(CHUNK).collect()
}

/// One after the other, copied by all threads.
fn concatenated(parts: Vec<Vec<Child>>) -> Vec<Child> {
    let mut all: Vec<Child> = defaults(parts.iter().map(Vec::len).sum());
    let mut rest = &mut all[..];
    let room = parts.iter().map(|part| rest.split_off_mut(..part.len()).expect("as many as all"));
    let room: Vec<&mut [Child]> = room.collect();
    room.into_par_iter().zip(parts).for_each(|(room, part)| room.copy_from_slice(&part));
    all
}

fn decode(sequence: &DegreeSequence, slot: u64) -> Result<Graph, SolveError> {
    graph_of_slot(sequence, slot).ok_or(SolveError::NoGraph { sequence: *sequence, slot })
}
