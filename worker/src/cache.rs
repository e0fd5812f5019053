//! Partitions in memory, one copy for all threads, within a budget: the least recently used go
//! first.
//!
//! Why not a crate for caches? Two things matter here: several keys are reserved by one thread and
//! fetched with one request, and a table that was solved or fetched ahead stays until it is read.
//! `moka` can only load key by key, and meets its budget a while later. `quick_cache` could
//! reserve several keys, but when it is full it drops what came last and was not read yet, and it
//! takes nothing that is larger than its part for entries in use; on a machine with little memory,
//! what is fetched ahead would go before its turn.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use lru::LruCache;
use parking_lot::{Condvar, Mutex};
use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::{Block, Table},
    plan::Shard,
    protocol::messages::Wanted,
};

use crate::kernel::{Solved, Source, SourceError};

/// Where blocks come from that are not in memory.
pub trait Fetch: Send + Sync {
    /// The blocks of each of the things wanted.
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError>;
}

impl<F: Fetch> Fetch for Arc<F> {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        (**self).fetch(wanted)
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

    /// The value of `key`, loaded by one thread while others that want it wait.
    fn get_or_load<E>(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<(V, usize), E>,
    ) -> Result<Arc<V>, E> {
        let mut inner = self.inner.lock();
        loop {
            if let Some((value, _)) = inner.values.get(key) {
                return Ok(value.clone());
            }
            if inner.loading.insert(key.clone()) {
                break;
            }
            self.loaded.wait(&mut inner);
        }
        drop(inner);
        let done = Done(self, std::slice::from_ref(key));
        let (value, bytes) = load()?;
        let value = Arc::new(value);
        self.insert(key.clone(), value.clone(), bytes);
        drop(done);
        Ok(value)
    }

    /// Loads those of the keys that are neither here nor being loaded, all together.
    fn load_missing<E>(
        &self,
        keys: impl Iterator<Item = K>,
        load: impl FnOnce(&[K]) -> Result<Vec<(V, usize)>, E>,
    ) -> Result<(), E> {
        let missing: Vec<K> = {
            let mut inner = self.inner.lock();
            keys.filter(|key| !inner.values.contains(key) && inner.loading.insert(key.clone()))
                .collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let _done = Done(self, &missing);
        for (key, (value, bytes)) in missing.iter().zip(load(&missing)?) {
            self.insert(key.clone(), Arc::new(value), bytes);
        }
        Ok(())
    }

    fn insert(&self, key: K, value: Arc<V>, bytes: usize) {
        let mut inner = self.inner.lock();
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
        let mut inner = self.inner.lock();
        if let Some((_, bytes)) = inner.values.pop(key) {
            inner.bytes -= bytes;
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }
}

/// Keys that one thread loads. When it is done, or fails or panics, others may try.
struct Done<'a, K: Hash + Eq + Clone, V>(&'a Budgeted<K, V>, &'a [K]);

impl<K: Hash + Eq + Clone, V> Drop for Done<'_, K, V> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.loading.retain(|key| !self.1.contains(key));
        self.0.loaded.notify_all();
    }
}

/// A part of a partition that waits for the others.
type PartTables = Vec<Arc<Table>>;

/// The partitions a node has in memory, filled by what it fetches and by what it solves itself.
pub struct PartitionCache<F: Fetch> {
    fetch: F,
    /// By degree sequence, bucket bits and bucket.
    tables: Budgeted<BucketKey, Table>,
    /// Slots of parents, a fraction of the size of tables.
    parents: Budgeted<DegreeSequence, Vec<u64>>,
    /// Solved parts of partitions of several parts.
    parts: Mutex<HashMap<DegreeSequence, HashMap<u32, PartTables>>>,
}

impl<F: Fetch> PartitionCache<F> {
    /// A cache of at most about `budget` bytes, one eighth of them for parents.
    pub fn new(budget: usize, fetch: F) -> Self {
        PartitionCache {
            fetch,
            tables: Budgeted::new(budget - budget / 8),
            parents: Budgeted::new(budget / 8),
            parts: Mutex::default(),
        }
    }

    /// Keeps what was solved here. Parts are put together when the last one of their partition is
    /// here.
    pub fn keep(&self, shard: &Shard, solved: &Solved) -> Result<(), SourceError> {
        if shard.parts == 1 {
            for table in &solved.tables {
                self.tables.insert(
                    (shard.sequence, shard.bucket_bits, table.bucket()),
                    table.clone(),
                    table.memory(),
                );
            }
            return Ok(());
        }
        let all = {
            let mut parts = self.parts.lock();
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
                    let [keys, outcomes, _] = all[&part][bucket as usize].to_blocks(part);
                    (keys, outcomes)
                })
                .collect();
            let table = Table::from_blocks(&blocks)?;
            let bytes = table.memory();
            self.tables.insert(
                (shard.sequence, shard.bucket_bits, bucket),
                Arc::new(table),
                bytes,
            );
        }
        Ok(())
    }

    /// Drops the tables of a partition: no shard will read them any more, or they were not wanted.
    pub fn retire(&self, shard: &Shard) {
        for bucket in 0..1u32 << shard.bucket_bits {
            self.tables.remove(&(shard.sequence, shard.bucket_bits, bucket));
        }
        self.parts.lock().remove(&shard.sequence);
    }
}

/// A bucket of a partition: degree sequence, bucket bits, bucket.
pub type BucketKey = (DegreeSequence, u8, u32);

impl<F: Fetch> PartitionCache<F> {
    /// Fetches those of the parents that are not at hand, with one request.
    pub fn warm_parents(&self, sequences: &[DegreeSequence]) -> Result<(), SourceError> {
        self.parents.load_missing(sequences.iter().copied(), |missing| self.load_parents(missing))
    }

    /// Fetches those of the tables that are not at hand, with one request.
    pub fn warm_tables(&self, keys: &[BucketKey]) -> Result<(), SourceError> {
        self.tables.load_missing(keys.iter().copied(), |missing| self.load_tables(missing))
    }

    /// The blocks of each of the things wanted, which are what they should be.
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        let fetched = self.fetch.fetch(wanted)?;
        match wanted.iter().zip(&fetched).find(|(wanted, blocks)| !wanted.admits(blocks)) {
            Some((wanted, _)) => {
                Err(format!("other blocks came than those of {}", wanted.sequence()).into())
            }
            None => Ok(fetched),
        }
    }

    fn load_parents(
        &self,
        sequences: &[DegreeSequence],
    ) -> Result<Vec<(Vec<u64>, usize)>, SourceError> {
        let wanted: Vec<Wanted> =
            sequences.iter().map(|&sequence| Wanted::Parents(sequence)).collect();
        let lists = self.fetch(&wanted)?.into_iter().map(|blocks| {
            let mut slots: Vec<u64> =
                Vec::with_capacity(blocks.iter().map(|block| block.count).sum());
            blocks.iter().for_each(|block| slots.extend(block.slots()));
            slots.sort_unstable();
            let bytes = 8 * slots.capacity() + 64;
            (slots, bytes)
        });
        Ok(lists.collect())
    }

    fn load_tables(&self, keys: &[BucketKey]) -> Result<Vec<(Table, usize)>, SourceError> {
        let wanted: Vec<Wanted> =
            keys.iter().map(|&(sequence, _, bucket)| Wanted::Bucket(sequence, bucket)).collect();
        let fetched = self.fetch(&wanted)?;
        keys.iter()
            .zip(fetched)
            .map(|(&(sequence, bucket_bits, _), blocks)| {
                let pairs = in_pairs(blocks)?;
                if pairs.first().is_none_or(|(keys, _)| keys.id.bucket_bits != bucket_bits) {
                    return Err(format!(
                        "partition {sequence} did not come in 2^{bucket_bits} buckets"
                    )
                    .into());
                }
                let table = Table::from_blocks(&pairs)?;
                let bytes = table.memory();
                Ok((table, bytes))
            })
            .collect()
    }
}

/// Keys and outcomes of each part of a bucket.
fn in_pairs(blocks: Vec<Block>) -> Result<Vec<(Block, Block)>, SourceError> {
    let mut blocks = blocks.into_iter();
    let mut pairs = Vec::new();
    while let Some(keys) = blocks.next() {
        let outcomes = blocks.next().ok_or("keys came without outcomes")?;
        pairs.push((keys, outcomes));
    }
    Ok(pairs)
}

/// The one of one.
fn only<T>(loaded: Vec<T>) -> Result<T, SourceError> {
    Ok(loaded.into_iter().next().ok_or("nothing came of what was asked for")?)
}

impl<F: Fetch> Source for PartitionCache<F> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        self.parents.get_or_load(sequence, || only(self.load_parents(&[*sequence])?))
    }

    fn table(
        &self,
        sequence: &DegreeSequence,
        bucket_bits: u8,
        bucket: u32,
    ) -> Result<Arc<Table>, SourceError> {
        let key = (*sequence, bucket_bits, bucket);
        self.tables.get_or_load(&key, || only(self.load_tables(&[key])?))
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
    fn what_is_missing_is_loaded_together() {
        let cache = Budgeted::<u32, u32>::new(100);
        cache.get_or_load(&2, || Ok::<_, ()>((4, 1))).unwrap();
        let squares = |keys: &[u32]| Ok::<_, ()>(keys.iter().map(|key| (key * key, 1)).collect());
        cache
            .load_missing([1, 2, 3, 3].into_iter(), |keys| {
                squares(keys).inspect(|_| assert_eq!(keys, [1, 3]))
            })
            .unwrap();
        assert_eq!(cache.load_missing([5].into_iter(), |_| Err("no")), Err("no"));
        for key in [1, 2, 3] {
            assert_eq!(*cache.get_or_load(&key, || Err("loaded again")).unwrap(), key * key);
        }
        assert_eq!(
            *cache.get_or_load(&5, || Ok::<_, ()>((25, 1))).unwrap(),
            25,
            "a failure is not kept"
        );
    }

    #[test]
    fn something_too_large_is_still_given_out() {
        let cache = Budgeted::new(10);
        assert_eq!(*cache.get_or_load(&1, || Ok::<_, ()>(("large", 1000))).unwrap(), "large");
        assert_eq!(*cache.get_or_load(&2, || Ok::<_, ()>(("small", 1))).unwrap(), "small");
        assert_eq!(cache.bytes(), 1);
    }
}
