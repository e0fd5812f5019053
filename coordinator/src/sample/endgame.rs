//! Endgames from the store of a census.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use rayon::prelude::*;
use trailtrap_census::{
    read::finished::{FinishedError, FinishedOrder, open_store},
    store::{StoreError, directory::quoted},
};
use trailtrap_shared::{
    class::Class,
    count::{digest::Digest, statistics::Counts},
    game::{
        Game, TrailTrap,
        trail_trap::decide::{Endgame, EndgameBuilder, EndgameError, MOST_GRAPHS},
    },
    graph::{degree::DegreeSequence, pairs, polya::graphs_by_size},
    labelling::MAX_PLAIN_ORDER,
    partition::{Section, graph_of_slot},
    plan::Shard,
    sample::model::Model,
};

fn too_large(order: usize, max_size: usize, size: usize, data: &Path) -> String {
    if max_size == pairs(order) {
        return format!("no graph of order {order} has {size} edges: the most are {max_size}");
    }
    let data = quoted(data);
    format!(
        "order {order} is done up to {max_size} edges only, and {size} were asked for; \
         `trailtrap census {order} --max-size {size} --data {data}` does more of it, or says why it \
         cannot"
    )
}

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
    #[error("{}", too_large(*.order, *.max_size, *.size, .data))]
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
    /// So many graphs make no endgame.
    #[error(
        "order {order} has {graphs} graphs with {size} edges, and an endgame has room for \
         {MOST_GRAPHS}: without --endgame-size the largest is taken that can be"
    )]
    Large {
        /// The order.
        order: usize,
        /// The number of edges.
        size: usize,
        /// Graphs with so many.
        graphs: u64,
    },
    /// The outcomes of this endgame are gone, and those of another one are there.
    #[error(
        "of order {order} the outcomes of graphs with {size} edges were not kept, but with {kept} \
         (`--endgame-size {kept}`); with `--keep all`, in another directory, all are"
    )]
    Outcomes {
        /// The order.
        order: usize,
        /// The number of edges that was asked for.
        size: usize,
        /// The largest number of edges of which there are outcomes.
        kept: usize,
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

impl ExactCounts {
    /// The proportion of P1-wins among the graphs that a model draws.
    pub fn proportion(&self, model: Model) -> f64 {
        let counts = match model {
            Model::Unlabelled => self.classes,
            Model::Gnm(_) | Model::Gnp(_) | Model::Labelled => self.labelled,
        };
        counts.listed as f64 / counts.graphs.max(1) as f64
    }
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
        let order = FinishedOrder::open_undisputed(&store, order).map_err(finished)?;
        Ok(Known { order, data: data.to_owned() })
    }

    /// The order.
    pub fn order(&self) -> usize {
        self.order.plan.order
    }

    /// The number of edges that was asked for, or as many as there are, and can be in an endgame.
    ///
    /// # Errors
    /// There are not so many, or too many graphs with them.
    pub fn endgame_size(&self, asked: Option<usize>) -> Result<usize, LoadError> {
        let most = || self.largest_kept().or(self.sizes().next()).unwrap_or(0);
        let size = asked.unwrap_or_else(most);
        self.check(size).map(|()| size)
    }

    /// The numbers of edges up to which all is known and whose graphs can be in an endgame, from the
    /// largest.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let fits = |&size: &usize| self.graphs(size) <= MOST_GRAPHS;
        (0..=self.max_size()).rev().filter(fits)
    }

    /// The largest of them of which there are outcomes.
    fn largest_kept(&self) -> Option<usize> {
        self.sizes().find(|&size| self.has_outcomes(size))
    }

    /// How many graphs there are with so many edges.
    fn graphs(&self, size: usize) -> u64 {
        graphs_by_size(self.order()).get(size).copied().unwrap_or(0)
    }

    /// The most edges up to which all is known.
    pub fn max_size(&self) -> usize {
        self.order.plan.max_size
    }

    /// That all is known up to so many edges, and that an endgame of this size has room for all
    /// graphs.
    ///
    /// # Errors
    /// It is not, or has not.
    pub fn check(&self, size: usize) -> Result<(), LoadError> {
        let (order, max_size, graphs) = (self.order(), self.max_size(), self.graphs(size));
        if graphs > MOST_GRAPHS {
            return Err(LoadError::Large { order, size, graphs });
        }
        if size > max_size {
            let data = self.data.clone();
            return Err(LoadError::Size { order, max_size, size, data });
        }
        Ok(())
    }

    /// That there is an endgame of this size to load, and not only counts.
    ///
    /// # Errors
    /// The outcomes were not kept.
    pub fn check_outcomes(&self, size: usize) -> Result<(), LoadError> {
        self.order.outcomes_of(size).map_err(|cause| match (cause, self.largest_kept()) {
            (FinishedError::NotKept(order), Some(kept)) => {
                LoadError::Outcomes { order, size, kept }
            }
            (cause, _) => needs(self.order(), &self.data, cause),
        })
    }

    /// Whether there is: see [`Known::check_outcomes`].
    pub fn has_outcomes(&self, size: usize) -> bool {
        self.order.outcomes_of(size).is_ok()
    }

    /// Up to how many edges a second search of graphs takes its outcomes from a census, of which the
    /// first took those of so many: of two fewer, unless only the last outcomes were kept. `None` if
    /// there are none with fewer. Of a census that is not there yet all are taken to be kept.
    pub fn other_size(known: Option<&Self>, size: usize) -> Option<usize> {
        let smaller = size.checked_sub(2)?;
        let is_kept = known.is_none_or(|known| known.has_outcomes(smaller));
        Some(if is_kept { smaller } else { size })
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
        Endgame::bytes(self.order(), self.graphs(size) as usize) as u64
    }

    /// Bytes that it takes while so many threads load it.
    pub fn bytes_to_load(&self, size: usize, threads: usize) -> u64 {
        let in_a_bucket = |shard: &Shard| shard.estimate >> shard.bucket_bits;
        let largest = self.shards(size).map(in_a_bucket).max().unwrap_or(0);
        self.bytes(size) + largest * GRAPH_BYTES * threads.min(AT_A_TIME) as u64
    }

    fn shards(&self, size: usize) -> impl Iterator<Item = &Shard> {
        self.order.plan.shards.iter().filter(move |shard| shard.size == size)
    }

    /// Graphs that loading counts twice: what [`Known::load`] counts up to.
    pub fn work(&self, size: usize) -> u64 {
        2 * self.graphs(size)
    }

    /// Loads the endgame of this size, on all threads of the pool that it is called in.
    ///
    /// # Errors
    /// The store cannot be read, or lacks something.
    pub fn load(&self, size: usize, done: &AtomicU64) -> Result<Endgame, LoadError> {
        self.check(size)?;
        let n = self.order();
        let wrong = |cause| LoadError::Endgame { order: n, size, cause };
        let graphs = self.graphs(size) as usize;
        let mut builder = EndgameBuilder::new(n, size, graphs).map_err(wrong)?;
        let buckets: Vec<(&Shard, u32)> = self
            .shards(size)
            .flat_map(|shard| shard.buckets().map(move |bucket| (shard, bucket)))
            .collect();
        let counting = builder.counting();
        each(&buckets, |shard, bucket| {
            let slots = self.order.slots(shard, bucket, Section::Keys)?;
            counting.count(&codes(shard, slots.iter().copied())?);
            done.fetch_add(slots.len() as u64, Ordering::Relaxed);
            Ok(())
        })?;
        drop(counting);
        let filling = builder.filling().map_err(wrong)?;
        each(&buckets, |shard, bucket| {
            let table = self.order.table(shard, bucket)?;
            let codes = codes(shard, (0..table.len()).map(|i| table.slot(i)))?;
            filling.put(&codes, |i| table.record(i)).map_err(wrong)?;
            done.fetch_add(codes.len() as u64, Ordering::Relaxed);
            Ok(())
        })?;
        drop(filling);
        builder.finish().map_err(wrong)
    }
}

/// That a directory lacks what samples need, and what to do.
fn needs(order: usize, data: &Path, cause: FinishedError) -> LoadError {
    if !matches!(cause, FinishedError::NoCensus(_) | FinishedError::NotFinished { .. }) {
        // It says itself what to do.
        return LoadError::Read(cause);
    }
    let most = pairs(order.min(MAX_PLAIN_ORDER)) * 3 / 10;
    let data = quoted(data);
    let advice = format!("`trailtrap census {order} --max-size {most} --data {data}` makes them");
    LoadError::Finished { cause, order, advice }
}

/// Does something with each bucket, with a few at a time, each on a thread.
fn each(
    buckets: &[(&Shard, u32)],
    work: impl Fn(&Shard, u32) -> Result<(), LoadError> + Sync,
) -> Result<(), LoadError> {
    let next = AtomicUsize::new(0);
    let following = || buckets.get(next.fetch_add(1, Ordering::Relaxed));
    let work_off =
        |_| std::iter::from_fn(following).try_for_each(|&(shard, bucket)| work(shard, bucket));
    (0..AT_A_TIME).into_par_iter().with_max_len(1).try_for_each(work_off)
}

/// Buckets that are in memory at the same time, at most, beside the table that is filled.
const AT_A_TIME: usize = 16;
/// Bytes that a graph of such a bucket takes, at most: in its table, as a code, and among the pieces
/// of the table that is filled.
const GRAPH_BYTES: u64 = 80;

/// The codes of the graphs at these slots.
fn codes(shard: &Shard, slots: impl Iterator<Item = u64>) -> Result<Vec<u128>, LoadError> {
    let code = |slot| {
        let graph = graph_of_slot(&shard.sequence, slot);
        Ok(graph.ok_or(LoadError::NoGraph(shard.sequence, slot))?.code().narrow())
    };
    slots.map(code).collect()
}
