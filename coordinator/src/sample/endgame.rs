//! Endgames from the store of a census.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rayon::prelude::*;
use trailtrap_census::{
    read::finished::{FinishedError, FinishedOrder, open_store},
    store::StoreError,
};
use trailtrap_shared::{
    class::Class,
    count::{digest::Digest, statistics::Counts},
    game::{
        Game, TrailTrap,
        trail_trap::decide::{Endgame, EndgameBuilder, EndgameError},
    },
    graph::{degree::DegreeSequence, pairs, polya::graphs_by_size},
    labelling::MAX_BATCH_ORDER,
    partition::{Section, graph_of_slot},
    plan::Shard,
};

/// Why there is no endgame.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The order is not in the store, or cannot be read.
    #[error("{cause}; sample needs the graphs of order {order} with few edges: {advice}")]
    Finished {
        /// Why not.
        cause: FinishedError,
        /// The order.
        order: usize,
        /// The command that makes them.
        advice: String,
    },
    /// The store is that of another game.
    #[error("the census in {0} is of another game; samples are of trail-trap")]
    Game(PathBuf),
    /// It is about some of the graphs.
    #[error("the census in {0} is of the class {1}; endgames are made of all graphs")]
    Class(PathBuf, Class),
    /// The order ends before the size asked for.
    #[error(
        "order {order} is done up to {max_size} edges only, and {size} were asked for; \
         `trailtrap census {order} --max-size {size} --data {data}` does more of it"
    )]
    Size {
        /// The order.
        order: usize,
        /// Edges up to which it is done.
        max_size: usize,
        /// Edges that were asked for.
        size: usize,
        /// The data directory.
        data: PathBuf,
    },
    /// The store cannot be read, or is damaged.
    #[error(transparent)]
    Read(#[from] FinishedError),
    /// The store cannot be read, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A slot in the store is that of no graph.
    #[error("the shard {0} holds slot {1:#x}, which is no graph: the store is damaged")]
    NoGraph(DegreeSequence, u64),
    /// What was read makes no endgame.
    #[error("the graphs of order {order} with {size} edges: {cause}; see `trailtrap verify`")]
    Endgame {
        /// The order.
        order: usize,
        /// The number of edges.
        size: usize,
        /// Why not.
        cause: EndgameError,
    },
}

/// What a census knows of an order: exact counts, and endgames.
pub struct Known {
    order: FinishedOrder,
    data: PathBuf,
}

/// What is known of the graphs with some number of edges.
#[derive(Clone, Copy, Debug)]
pub struct ExactCounts {
    /// Isomorphism classes, and those that P1 wins.
    pub classes: Counts,
    /// Labelled graphs.
    pub labelled: Counts,
    /// The public digest of their records.
    pub digest: Digest,
}

impl Known {
    /// Opens the order in a data directory.
    ///
    /// # Errors
    /// There is nothing of the order, or it is of another game, or not of all graphs.
    pub fn open(data: &Path, order: usize) -> Result<Self, LoadError> {
        let finished = |cause| needs(order, data, cause);
        let store = open_store(data).map_err(finished)?;
        if store.game().about().name != TrailTrap::ABOUT.name {
            return Err(LoadError::Game(data.to_owned()));
        }
        if store.class() != Class::All {
            return Err(LoadError::Class(data.to_owned(), store.class()));
        }
        let order = FinishedOrder::open(&store, order).map_err(finished)?;
        Ok(Known { order, data: data.to_owned() })
    }

    /// The most edges up to which all is known.
    pub fn max_size(&self) -> usize {
        self.order.plan.max_size
    }

    /// That all is known up to so many edges.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, size: usize) -> Result<(), LoadError> {
        let (order, max_size) = (self.order.plan.order, self.max_size());
        let data = || self.data.clone();
        let error = || LoadError::Size { order, max_size, size, data: data() };
        (size <= max_size).then_some(()).ok_or_else(error)
    }

    /// That there is an endgame of this size to load, and not only counts.
    ///
    /// # Errors
    /// The outcomes were not kept.
    pub fn check_outcomes(&self, size: usize) -> Result<(), LoadError> {
        let finished = |cause| needs(self.order.plan.order, &self.data, cause);
        self.order.outcomes_of(size).map_err(finished)
    }

    /// What is known of the graphs with so many edges, if it is.
    pub fn exact(&self, size: usize) -> Option<ExactCounts> {
        let summary = self.order.result.by_size.get(size)?;
        Some(ExactCounts {
            classes: summary.statistics.classes.all,
            labelled: summary.statistics.labelled.all,
            digest: summary.digest,
        })
    }

    /// Bytes that the endgame of this size takes in memory.
    pub fn bytes(&self, size: usize) -> u64 {
        let order = self.order.plan.order;
        let graphs = graphs_by_size(order).get(size).copied().unwrap_or(0);
        Endgame::bytes(order, graphs as usize) as u64
    }

    /// Graphs that loading counts twice: what [`Known::load`] counts up to.
    pub fn work(&self, size: usize) -> u64 {
        2 * graphs_by_size(self.order.plan.order).get(size).copied().unwrap_or(0)
    }

    /// Loads the endgame of this size.
    ///
    /// # Errors
    /// The store cannot be read, or lacks something.
    pub fn load(&self, size: usize, done: &AtomicU64) -> Result<Endgame, LoadError> {
        self.check(size)?;
        let n = self.order.plan.order;
        let wrong = |cause| LoadError::Endgame { order: n, size, cause };
        let graphs = graphs_by_size(n)[size] as usize;
        let mut builder = EndgameBuilder::new(n, size, graphs).map_err(wrong)?;
        let buckets: Vec<(&Shard, u32)> = self
            .order
            .plan
            .shards
            .iter()
            .filter(|shard| shard.size == size)
            .flat_map(|shard| (0..1u32 << shard.bucket_bits).map(move |bucket| (shard, bucket)))
            .collect();
        let codes = |shard: &Shard, bucket: u32| -> Result<Vec<u128>, LoadError> {
            let slots = self.order.slots(shard, bucket, Section::Keys)?;
            slots.into_iter().map(|slot| code(shard, slot)).collect()
        };
        overlapped(&buckets, codes, |codes| {
            codes.iter().for_each(|&code| builder.count(code));
            done.fetch_add(codes.len() as u64, Ordering::Relaxed);
            Ok(())
        })?;
        let tables = |shard: &Shard, bucket: u32| {
            let table = self.order.table(shard, bucket)?;
            let codes: Result<Vec<u128>, LoadError> =
                (0..table.len()).map(|i| code(shard, table.slot(i))).collect();
            Ok((table, codes?))
        };
        overlapped(&buckets, tables, |(table, codes)| {
            for (i, &code) in codes.iter().enumerate() {
                builder.put(code, table.record(i)).map_err(wrong)?;
            }
            done.fetch_add(codes.len() as u64, Ordering::Relaxed);
            Ok(())
        })?;
        builder.finish().map_err(wrong)
    }
}

/// That a directory lacks what samples need, and what to do.
fn needs(order: usize, data: &Path, cause: FinishedError) -> LoadError {
    let most = pairs(order.min(MAX_BATCH_ORDER)) * 3 / 10;
    let data = data.display();
    let advice = format!("`trailtrap census {order} --max-size {most} --data {data}` makes them");
    LoadError::Finished { cause, order, advice }
}

/// Makes something of each bucket, of a few at a time on all threads; it is taken in their order
/// by one, while others make the next.
fn overlapped<T: Send>(
    buckets: &[(&Shard, u32)],
    make: impl Fn(&Shard, u32) -> Result<T, LoadError> + Sync,
    mut take: impl FnMut(T) -> Result<(), LoadError> + Send,
) -> Result<(), LoadError> {
    let make_some = |some: &[(&Shard, u32)]| -> Result<Vec<T>, LoadError> {
        some.par_iter().map(|&(shard, bucket)| make(shard, bucket)).collect()
    };
    let mut made = Vec::new();
    for some in buckets.chunks(AT_A_TIME) {
        let take_made = || made.into_iter().try_for_each(&mut take);
        let (taken, next) = rayon::join(take_made, || make_some(some));
        taken?;
        made = next?;
    }
    made.into_iter().try_for_each(take)
}

/// Buckets that are made something of at the same time.
const AT_A_TIME: usize = 16;

fn code(shard: &Shard, slot: u64) -> Result<u128, LoadError> {
    let graph = graph_of_slot(&shard.sequence, slot);
    Ok(graph.ok_or(LoadError::NoGraph(shard.sequence, slot))?.code())
}
