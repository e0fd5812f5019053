//! Partitions in memory, one copy for all threads, within a budget: the least recently used go first.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use trailtrap_shared::{
    degree::DegreeSequence,
    game::Game,
    partition::{Block, Table},
    plan::Shard,
};

use crate::solve::{Solved, Source, SourceError};

/// Where blocks come from that are not in memory.
pub trait Fetch: Send + Sync {
    /// The keys blocks of all graphs with this degree sequence, as parents of the next order.
    fn fetch_parents(&self, sequence: &DegreeSequence) -> Result<Vec<Block>, SourceError>;

    /// Keys and outcomes of one bucket of a finished partition, for each part in order.
    fn fetch_bucket(&self, sequence: &DegreeSequence, bucket: u32) -> Result<Vec<(Block, Block)>, SourceError>;
}

impl<F: Fetch> Fetch for Arc<F> {
    fn fetch_parents(&self, sequence: &DegreeSequence) -> Result<Vec<Block>, SourceError> {
        (**self).fetch_parents(sequence)
    }

    fn fetch_bucket(&self, sequence: &DegreeSequence, bucket: u32) -> Result<Vec<(Block, Block)>, SourceError> {
        (**self).fetch_bucket(sequence, bucket)
    }
}

/// A map of shared values that counts their bytes.
struct Budgeted<K: Hash + Eq, V> {
    inner: Mutex<Inner<K, V>>,
    loaded: Condvar,
    budget: usize,
}

struct Inner<K: Hash + Eq, V> {
    values: LruCache<K, (Arc<V>, usize)>,
    bytes: usize,
    loading: HashSet<K>,
}

impl<K: Hash + Eq + Clone, V> Budgeted<K, V> {
    fn new(budget: usize) -> Self {
        let inner = Inner { values: LruCache::unbounded(), bytes: 0, loading: HashSet::new() };
        Budgeted { inner: Mutex::new(inner), loaded: Condvar::new(), budget }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        // The map is consistent between any two statements that may panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `key`, loaded by one thread while others that want it wait.
    fn get_or_load<E>(&self, key: &K, load: impl FnOnce() -> Result<(V, usize), E>) -> Result<Arc<V>, E> {
        let mut inner = self.lock();
        loop {
            if let Some((value, _)) = inner.values.get(key) {
                return Ok(value.clone());
            }
            if inner.loading.insert(key.clone()) {
                break;
            }
            inner = self.loaded.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        drop(inner);
        /// Lets others try when loading fails or panics.
        struct Done<'a, K: Hash + Eq + Clone, V>(&'a Budgeted<K, V>, &'a K);
        impl<K: Hash + Eq + Clone, V> Drop for Done<'_, K, V> {
            fn drop(&mut self) {
                self.0.lock().loading.remove(self.1);
                self.0.loaded.notify_all();
            }
        }
        let done = Done(self, key);
        let (value, bytes) = load()?;
        let value = Arc::new(value);
        self.insert(key.clone(), value.clone(), bytes);
        drop(done);
        Ok(value)
    }

    fn insert(&self, key: K, value: Arc<V>, bytes: usize) {
        let mut inner = self.lock();
        if let Some((_, old)) = inner.values.put(key, (value, bytes)) {
            inner.bytes -= old;
        }
        inner.bytes += bytes;
        while inner.bytes > self.budget && inner.values.len() > 1 {
            let (_, (_, freed)) = inner.values.pop_lru().expect("more than one value");
            inner.bytes -= freed;
        }
    }

    fn remove(&self, key: &K) {
        let mut inner = self.lock();
        if let Some((_, bytes)) = inner.values.pop(key) {
            inner.bytes -= bytes;
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

/// A part of a partition that waits for the others.
type PartTables = Vec<Arc<Table>>;

/// The partitions a node has in memory, filled by what it fetches and by what it solves itself.
pub struct PartitionCache<G: Game, F: Fetch> {
    fetch: F,
    /// By degree sequence, bucket bits and bucket.
    tables: Budgeted<(DegreeSequence, u8, u32), Table>,
    /// Slots of parents, a fraction of the size of tables.
    parents: Budgeted<DegreeSequence, Vec<u64>>,
    /// Solved parts of partitions of several parts.
    parts: Mutex<HashMap<DegreeSequence, HashMap<u32, PartTables>>>,
    game: std::marker::PhantomData<G>,
}

impl<G: Game, F: Fetch> PartitionCache<G, F> {
    /// A cache of at most about `budget` bytes, one eighth of them for parents.
    pub fn new(budget: usize, fetch: F) -> Self {
        PartitionCache {
            fetch,
            tables: Budgeted::new(budget - budget / 8),
            parents: Budgeted::new(budget / 8),
            parts: Mutex::default(),
            game: std::marker::PhantomData,
        }
    }

    /// Where missing blocks come from.
    pub fn source(&self) -> &F {
        &self.fetch
    }

    /// Keeps what was solved here. Parts are put together when the last one of their partition is here.
    pub fn keep(&self, shard: &Shard, solved: &Solved) -> Result<(), SourceError> {
        if shard.parts == 1 {
            for table in &solved.tables {
                self.tables.insert((shard.sequence, shard.bucket_bits, table.bucket()), table.clone(), table.memory());
            }
            return Ok(());
        }
        let all = {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = parts.entry(shard.sequence).or_default();
            mine.insert(solved.unit.part, solved.tables.clone());
            if mine.len() < shard.parts as usize {
                return Ok(());
            }
            parts.remove(&shard.sequence).unwrap_or_default()
        };
        for bucket in 0..1u32 << shard.bucket_bits {
            let blocks: Vec<(Block, Block)> = (0..shard.parts)
                .map(|part| {
                    let [keys, outcomes, _] = all[&part][bucket as usize].to_blocks::<G>(part);
                    (keys, outcomes)
                })
                .collect();
            let table = Table::from_blocks::<G>(&blocks)?;
            let bytes = table.memory();
            self.tables.insert((shard.sequence, shard.bucket_bits, bucket), Arc::new(table), bytes);
        }
        Ok(())
    }

    /// Drops the tables of a partition: no shard will read them any more, or they were not wanted.
    pub fn retire(&self, shard: &Shard) {
        for bucket in 0..1u32 << shard.bucket_bits {
            self.tables.remove(&(shard.sequence, shard.bucket_bits, bucket));
        }
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard.sequence);
    }
}

impl<G: Game, F: Fetch> Source for PartitionCache<G, F> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        self.parents.get_or_load(sequence, || {
            let blocks = self.fetch.fetch_parents(sequence)?;
            let mut slots: Vec<u64> = Vec::with_capacity(blocks.iter().map(|block| block.count).sum());
            blocks.iter().for_each(|block| slots.extend(block.slots()));
            slots.sort_unstable();
            let bytes = 8 * slots.capacity() + 64;
            Ok((slots, bytes))
        })
    }

    fn table(&self, sequence: &DegreeSequence, bucket_bits: u8, bucket: u32) -> Result<Arc<Table>, SourceError> {
        self.tables.get_or_load(&(*sequence, bucket_bits, bucket), || {
            let blocks = self.fetch.fetch_bucket(sequence, bucket)?;
            if blocks.first().is_none_or(|(keys, _)| keys.id.bucket_bits != bucket_bits) {
                return Err(format!("partition {sequence} did not come in 2^{bucket_bits} buckets").into());
            }
            let table = Table::from_blocks::<G>(&blocks)?;
            let bytes = table.memory();
            Ok((table, bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_least_recently_used_go_first() {
        let cache = Budgeted::new(100);
        let load = |key: u32| cache.get_or_load(&key, || Ok::<_, ()>((key, 40))).unwrap();
        load(1);
        load(2);
        load(1);
        load(3);
        assert_eq!(cache.bytes(), 80);
        let reloaded = AtomicUsize::new(0);
        for key in [1, 3, 2] {
            let counted = || {
                reloaded.fetch_add(1, Ordering::Relaxed);
                Ok::<_, ()>((key, 40))
            };
            cache.get_or_load(&key, counted).unwrap();
        }
        assert_eq!(reloaded.into_inner(), 1, "only key 2 was dropped");
    }

    #[test]
    fn a_value_is_loaded_once_and_failures_are_not_kept() {
        let cache = Budgeted::<u32, u32>::new(100);
        assert_eq!(cache.get_or_load(&7, || Err::<(u32, usize), _>("no")), Err("no"));
        let loads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = cache.get_or_load(&7, || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, ()>((49, 1))
                    });
                    assert_eq!(*value.unwrap(), 49);
                });
            }
        });
        assert_eq!(loads.into_inner(), 1);
    }

    #[test]
    fn something_too_large_is_still_given_out() {
        let cache = Budgeted::new(10);
        assert_eq!(*cache.get_or_load(&1, || Ok::<_, ()>(("large", 1000))).unwrap(), "large");
        assert_eq!(*cache.get_or_load(&2, || Ok::<_, ()>(("small", 1))).unwrap(), "small");
        assert_eq!(cache.bytes(), 1);
    }
}
