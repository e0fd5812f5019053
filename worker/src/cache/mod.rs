//! Partitions in memory, one copy for all threads, within a budget: of tables those go first that
//! are read again last, by the plan; of lists of parents the least recently used.
//!
//! Why not a crate for caches? None is told when a value is read again; several keys are reserved
//! by one thread and fetched with one request; and a table that was solved or fetched ahead stays
//! until it is read.

mod agenda;
mod retention;

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use parking_lot::{Condvar, Mutex};
use rayon::prelude::*;
use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::{Asked, Block, BucketTable, KeyedOutcomes, entry_bytes},
    plan::{Plan, Shard, Unit},
    protocol::messages::Wanted,
};

pub use self::{
    agenda::{InWork, Lately, Readers},
    retention::{NEVER, Retention},
};

use self::agenda::{Agenda, Turns};
use crate::kernel::{BucketKey, SolveError, SolvedUnit, Source, SourceError};

/// A source of blocks that are not in memory: a coordinator, a disk, or the files of a courier.
pub trait Fetch: Send + Sync {
    /// The blocks of each of the things wanted, in the order of `wanted`. Blocks the calling
    /// thread until all have come.
    ///
    /// # Errors
    /// If some cannot be had.
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError>;

    /// What of a unit is to be tried, as [`Source::drawn`] says; only a coordinator in the same
    /// process tells.
    fn drawn(&self, _unit: Unit, _graphs: u64) -> Vec<u64> {
        Vec::new()
    }
}

impl<F: Fetch> Fetch for Arc<F> {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        (**self).fetch(wanted)
    }

    fn drawn(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        (**self).drawn(unit, graphs)
    }
}

/// A map of shared values that counts their bytes. While they would exceed the budget, the one
/// that is read again last is dropped. A lock guards the map; it is not held while a value is
/// loaded.
struct Budgeted<K, V, T> {
    inner: Mutex<Inner<K, V>>,
    /// Notified when some keys are no longer being loaded.
    loaded: Condvar,
    turns: T,
}

struct Inner<K, V> {
    values: HashMap<K, Arc<V>>,
    retention: Retention<K>,
    /// Keys whose values some thread is loading.
    loading: HashSet<K>,
}

/// A value and the bytes of memory that it takes.
struct Loaded<V> {
    value: V,
    bytes: usize,
}

impl<K: Copy + Hash + Ord, V, T: Turns<K>> Budgeted<K, V, T> {
    fn new(budget_bytes: usize, turns: T) -> Self {
        let inner = Inner {
            values: HashMap::new(),
            retention: Retention::new(budget_bytes),
            loading: HashSet::new(),
        };
        Budgeted { inner: Mutex::new(inner), loaded: Condvar::new(), turns }
    }

    /// The value of `key`, if it is here.
    fn get(&self, key: &K) -> Option<Arc<V>> {
        self.read(&mut self.inner.lock(), key)
    }

    /// Whether the value of `key` is here; it is not read by this.
    fn holds(&self, key: &K) -> bool {
        self.inner.lock().values.contains_key(key)
    }

    /// [`Budgeted::get`] for who has the lock.
    fn read(&self, inner: &mut Inner<K, V>, key: &K) -> Option<Arc<V>> {
        let value = inner.values.get(key).cloned()?;
        inner.retention.read(key, self.turns.again(key));
        Some(value)
    }

    /// The value of `key`, loaded by one thread while others that want it wait.
    fn get_or_load<E>(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<Loaded<V>, E>,
    ) -> Result<Arc<V>, E> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(value) = self.read(&mut inner, key) {
                return Ok(value);
            }
            if inner.loading.insert(*key) {
                break;
            }
            self.loaded.wait(&mut inner);
        }
        drop(inner);
        let done = Done(self, std::slice::from_ref(key));
        let Loaded { value, bytes } = load()?;
        let value = Arc::new(value);
        self.insert(*key, value.clone(), bytes);
        self.inner.lock().retention.read(key, self.turns.again(key));
        drop(done);
        Ok(value)
    }

    /// Loads those of the keys that are neither here nor being loaded, all together. Returns the
    /// bytes of what was loaded.
    fn load_missing<E>(
        &self,
        keys: impl Iterator<Item = K>,
        load: impl FnOnce(&[K]) -> Result<Vec<Loaded<V>>, E>,
    ) -> Result<usize, E> {
        let missing: Vec<K> = {
            let mut inner = self.inner.lock();
            keys.filter(|key| !inner.values.contains_key(key) && inner.loading.insert(*key))
                .collect()
        };
        if missing.is_empty() {
            return Ok(0);
        }
        let _done = Done(self, &missing);
        let mut all_bytes = 0;
        for (key, Loaded { value, bytes }) in missing.iter().zip(load(&missing)?) {
            self.insert(*key, Arc::new(value), bytes);
            all_bytes += bytes;
        }
        Ok(all_bytes)
    }

    fn insert(&self, key: K, value: Arc<V>, bytes: usize) {
        let mut inner = self.inner.lock();
        let Inner { values, retention, .. } = &mut *inner;
        let next = |key: &K| self.turns.next(key);
        retention.put(key, bytes, self.turns.now(), next, |gone| drop(values.remove(gone)));
        values.insert(key, value);
    }

    fn budget_bytes(&self) -> usize {
        self.inner.lock().retention.budget_bytes()
    }

    fn set_budget(&self, budget_bytes: usize) {
        let mut inner = self.inner.lock();
        let Inner { values, retention, .. } = &mut *inner;
        let next = |key: &K| self.turns.next(key);
        let drop = |gone: &K| drop(values.remove(gone));
        retention.set_budget(budget_bytes, self.turns.now(), next, drop);
    }

    fn remove(&self, key: &K) {
        let mut inner = self.inner.lock();
        inner.values.remove(key);
        inner.retention.remove(key);
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.inner.lock().retention.bytes()
    }
}

/// Keys that one thread loads. When this is dropped, because the thread has loaded them, has
/// failed or panics, threads that wait for them look again, and may load them.
struct Done<'a, K: Hash + Eq, V, T>(&'a Budgeted<K, V, T>, &'a [K]);

impl<K: Hash + Eq, V, T> Drop for Done<'_, K, V, T> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.loading.retain(|key| !self.1.contains(key));
        self.0.loaded.notify_all();
    }
}

/// Up to order 11 the parents of a lease take about so many bytes at most, and should be there
/// together.
const LEAST_PARENTS: usize = 16 << 20;

/// So many lists of parents are fetched with one request.
const PARENTS_TOGETHER: usize = 16;

/// The bytes of a budget that are for tables, and for parents.
pub fn divided(budget_bytes: usize) -> [usize; 2] {
    let parents = LEAST_PARENTS.max(budget_bytes / 64).min(budget_bytes / 8);
    [budget_bytes - parents, parents]
}

/// Whether the parts of a shard are kept by a cache of so many bytes until all are there.
pub fn is_kept_aside(plan: &Plan, shard: &Shard, budget_bytes: usize) -> bool {
    shard.estimate * entry_bytes(plan.layout, plan.order) as u64 <= budget_bytes as u64 / 4
}

/// A cache that would keep less than one part in so many of what units look up in is of no use to
/// them. It keeps what is fetched ahead, and what is asked for as a whole.
const LEAST_KEPT: usize = 8;

/// Whether a cache of so many bytes of tables is of use to units that look up in so many.
pub fn keeps(budget_bytes: usize, bytes: usize) -> bool {
    bytes / LEAST_KEPT <= budget_bytes
}

/// The tables of one part of a partition, one for each bucket.
type PartTables = Vec<Arc<BucketTable>>;

/// The partitions a node has in memory, filled by what it fetches and by what it solves itself.
pub struct PartitionCache<F: Fetch> {
    fetch: F,
    /// The budget when nothing was taken from it.
    whole_budget_bytes: usize,
    tables: Budgeted<BucketKey, BucketTable, Agenda>,
    /// The slots of each partition of parents, in increasing order.
    parents: Budgeted<DegreeSequence, Vec<u64>, Lately>,
    aside: Mutex<Aside>,
}

/// Parts that were solved, of partitions some of whose parts are still missing, by degree sequence
/// and part; `None` of a partition whose parts were given up, or put together, until it is retired.
/// What parts take comes out of the budget for tables until they are put together.
struct Aside {
    parts: HashMap<DegreeSequence, Option<SolvedParts>>,
    /// Of these, and of those that are being put together.
    bytes: usize,
    /// Of tables, and of parts kept aside.
    budget_bytes: usize,
}

/// Parts of one partition.
type SolvedParts = HashMap<u32, PartTables>;

impl Aside {
    /// Takes in a part. All parts of the partition, if it was the last one; their bytes count until
    /// they are let go.
    fn add(&mut self, shard: &Shard, solved: &SolvedUnit) -> Option<SolvedParts> {
        let mine = self.parts.entry(shard.sequence).or_insert_with(|| Some(HashMap::new()));
        let before = mine.as_mut()?.insert(solved.unit.part, solved.tables.clone());
        self.bytes += bytes_of(&solved.tables);
        self.bytes -= before.map_or(0, |tables| bytes_of(&tables));
        mine.take_if(|parts| parts.len() == shard.parts as usize)
    }

    /// Lets go what there is of a partition.
    fn remove(&mut self, shard: &Shard) {
        let parts = self.parts.remove(&shard.sequence).flatten().unwrap_or_default();
        self.bytes -= bytes_of_all(&parts);
    }

    /// Has another budget from now on; gives up all parts if they take more.
    fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        if self.bytes > budget_bytes {
            let given_up = self.parts.values_mut().filter_map(Option::take);
            self.bytes -= given_up.map(|parts| bytes_of_all(&parts)).sum::<usize>();
        }
    }

    /// What is left for whole partitions.
    fn tables_bytes(&self) -> usize {
        self.budget_bytes.saturating_sub(self.bytes)
    }
}

fn bytes_of_all(parts: &SolvedParts) -> usize {
    parts.values().map(|tables| bytes_of(tables)).sum()
}

fn bytes_of(tables: &[Arc<BucketTable>]) -> usize {
    tables.iter().map(|table| table.memory_bytes()).sum()
}

impl<F: Fetch> PartitionCache<F> {
    /// A cache of at most about `budget_bytes`, a few of them for parents.
    pub fn new(budget_bytes: usize, fetch: F) -> Self {
        let [tables_bytes, parents_bytes] = divided(budget_bytes);
        let aside = Aside { parts: HashMap::new(), bytes: 0, budget_bytes: tables_bytes };
        PartitionCache {
            fetch,
            whole_budget_bytes: budget_bytes,
            tables: Budgeted::new(tables_bytes, Agenda::default()),
            parents: Budgeted::new(parents_bytes, Lately::default()),
            aside: Mutex::new(aside),
        }
    }

    /// Has at most about so many bytes from now on; drops what is beyond that.
    pub fn set_budget(&self, budget_bytes: usize) {
        let [tables_bytes, parents_bytes] = divided(budget_bytes);
        self.change_aside(|aside| aside.set_budget(tables_bytes));
        self.parents.set_budget(parents_bytes);
    }

    /// Changes what is kept aside; whole partitions have what that leaves.
    fn change_aside<T>(&self, change: impl FnOnce(&mut Aside) -> T) -> T {
        let mut aside = self.aside.lock();
        let changed = change(&mut aside);
        self.tables.set_budget(aside.tables_bytes());
        changed
    }

    /// Tells that parts of a shard are in work until what is returned is dropped: what this shard
    /// and the next ones of its plan read is kept before other things.
    pub fn begin(&self, plan: &Arc<Plan>, parts: &[Unit]) -> InWork<'_> {
        self.tables.turns.begin(plan, parts)
    }

    /// Keeps what was solved here. The parts of a partition are kept aside until the last one is
    /// solved, and then put together; but not if all of it takes more than a quarter of the
    /// budget, or if all that is kept aside takes more than tables may when a budget is set. What no
    /// shard of the plan in work reads is not kept.
    ///
    /// # Errors
    /// If the parts of a partition do not fit together.
    pub fn keep(&self, plan: &Plan, solved: &SolvedUnit) -> Result<(), SourceError> {
        let shard = plan.shard_of(solved.unit);
        if self.tables.turns.next(&BucketKey::of(shard, 0)) == NEVER {
            return Ok(());
        }
        if shard.parts == 1 {
            for table in &solved.tables {
                let key = BucketKey::of(shard, table.bucket());
                self.tables.insert(key, table.clone(), table.memory_bytes());
            }
            return Ok(());
        }
        if !is_kept_aside(plan, shard, self.whole_budget_bytes) {
            return Ok(());
        }
        let Some(all) = self.change_aside(|aside| aside.add(shard, solved)) else {
            return Ok(());
        };
        let mut of_buckets: Vec<PartTables> = vec![Vec::new(); 1 << shard.bucket_bits];
        for tables in all.into_values() {
            of_buckets.iter_mut().zip(tables).for_each(|(bucket, table)| bucket.push(table));
        }
        of_buckets.into_par_iter().try_for_each(|of_parts| {
            let table = BucketTable::from_parts(&of_parts)?;
            self.change_aside(|aside| aside.bytes -= bytes_of(&of_parts));
            let bytes = table.memory_bytes();
            self.tables.insert(BucketKey::of(shard, table.bucket()), Arc::new(table), bytes);
            Ok(())
        })
    }

    /// Drops the tables of a partition, because no shard will read them any more or because its
    /// results were not accepted.
    pub fn retire(&self, shard: &Shard) {
        for bucket in shard.buckets() {
            self.tables.remove(&BucketKey::of(shard, bucket));
        }
        self.change_aside(|aside| aside.remove(shard));
    }

    /// Drops what cannot be right, as this error says, so that it is read again.
    pub fn forget_cause(&self, plan: &Plan, error: &SolveError) {
        let forget = |parent: DegreeSequence| self.parents.remove(&parent);
        match error {
            SolveError::MissingPredecessor { sequence, .. } => {
                if let Some(shard) = plan.find(sequence) {
                    self.retire(&plan.shards[shard as usize]);
                }
            }
            SolveError::NoGraph { sequence, .. } => forget(*sequence),
            SolveError::Duplicate { sequence, .. } => {
                sequence.parents().into_iter().for_each(|parent| forget(parent.sequence));
            }
            SolveError::Source(_) | SolveError::Interrupted => {}
        }
    }
}

impl<F: Fetch> PartitionCache<F> {
    /// Fetches those of the parents that are not in the cache, some with each request, as many as it
    /// holds if they are as long as those that have come. Those that another thread is loading are
    /// left to it, and not waited for.
    ///
    /// # Errors
    /// If some cannot be fetched; none of this request is kept then.
    pub fn warm_parents(&self, sequences: &[DegreeSequence]) -> Result<(), SourceError> {
        let budget_bytes = self.parents.budget_bytes();
        let (mut bytes, mut begun, mut together) = (0, 0, 1);
        while together > 0 && begun < sequences.len() {
            let some = &sequences[begun..sequences.len().min(begun + together)];
            let load = |missing: &[DegreeSequence]| self.load_parents(missing);
            bytes += self.parents.load_missing(some.iter().copied(), load)?;
            begun += some.len();
            let room = budget_bytes.saturating_sub(bytes);
            together =
                PARENTS_TOGETHER.min((room * begun).checked_div(bytes).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    /// Fetches those of the tables that are not in the cache, with one request. Those that another
    /// thread is loading are left to it, and not waited for.
    ///
    /// # Errors
    /// If some cannot be fetched, or are damaged; none of this request is kept then.
    pub fn warm_tables(&self, keys: &[BucketKey]) -> Result<(), SourceError> {
        self.tables.load_missing(keys.iter().copied(), |missing| self.load_tables(missing))?;
        Ok(())
    }

    /// Fetches blocks, and fails if some do not belong to what was wanted.
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
    ) -> Result<Vec<Loaded<Vec<u64>>>, SourceError> {
        let wanted: Vec<Wanted> =
            sequences.iter().map(|&sequence| Wanted::Parents(sequence)).collect();
        let lists = self.fetch(&wanted)?.into_iter().map(|blocks| {
            let slots = Block::sorted_slots(&blocks);
            let bytes = 8 * slots.capacity() + 64;
            Loaded { value: slots, bytes }
        });
        Ok(lists.collect())
    }

    fn load_tables(&self, keys: &[BucketKey]) -> Result<Vec<Loaded<BucketTable>>, SourceError> {
        let fetched = self.fetch_pairs(keys)?.into_iter().map(|pairs| {
            let table = BucketTable::from_blocks(&pairs)?;
            Ok(Loaded { bytes: table.memory_bytes(), value: table })
        });
        fetched.collect()
    }

    /// Keys and outcomes of each part of each bucket.
    fn fetch_pairs(&self, keys: &[BucketKey]) -> Result<Vec<Vec<KeyedOutcomes>>, SourceError> {
        let wanted: Vec<Wanted> =
            keys.iter().map(|key| Wanted::Bucket(key.sequence, key.bucket)).collect();
        let fetched = self.fetch(&wanted)?;
        keys.iter()
            .zip(fetched)
            .map(|(&BucketKey { sequence, bucket_bits, .. }, blocks)| {
                let pairs = in_pairs(blocks)?;
                if pairs.first().is_none_or(|pair| pair.keys.id.bucket_bits != bucket_bits) {
                    return Err(format!(
                        "partition {sequence} did not come in 2^{bucket_bits} buckets"
                    )
                    .into());
                }
                Ok(pairs)
            })
            .collect()
    }
}

/// Keys and outcomes of each part of a bucket.
fn in_pairs(blocks: Vec<Block>) -> Result<Vec<KeyedOutcomes>, SourceError> {
    let mut blocks = blocks.into_iter();
    let mut pairs = Vec::new();
    while let Some(keys) = blocks.next() {
        let outcomes = blocks.next().ok_or("keys came without outcomes")?;
        pairs.push(KeyedOutcomes { keys, outcomes });
    }
    Ok(pairs)
}

/// The only value of a list of one.
fn only<T>(loaded: Vec<T>) -> Result<T, SourceError> {
    Ok(loaded.into_iter().next().ok_or("nothing came of what was asked for")?)
}

impl<F: Fetch> Source for PartitionCache<F> {
    fn parents(&self, sequence: &DegreeSequence) -> Result<Arc<Vec<u64>>, SourceError> {
        self.parents.get_or_load(sequence, || only(self.load_parents(&[*sequence])?))
    }

    fn table(&self, key: &BucketKey) -> Result<Arc<BucketTable>, SourceError> {
        self.tables.get_or_load(key, || only(self.load_tables(&[*key])?))
    }

    fn is_at_hand(&self, key: &BucketKey) -> bool {
        self.tables.holds(key)
    }

    fn keeps(&self, bytes: usize) -> bool {
        keeps(self.tables.budget_bytes(), bytes)
    }

    /// A table that is not in the cache is not kept there. Who asks at the same time fetches it too.
    fn asked_table(
        &self,
        key: &BucketKey,
        asked: &Asked,
    ) -> Result<Arc<BucketTable>, SourceError> {
        if let Some(table) = self.tables.get(key) {
            return Ok(table);
        }
        let pairs = only(self.fetch_pairs(&[*key])?)?;
        Ok(Arc::new(BucketTable::of_asked(&pairs, asked)?))
    }

    fn drawn(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        self.fetch.drawn(unit, graphs)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use trailtrap_shared::{
        class::Class,
        game::{Game, GameName, TrailTrap},
        plan::PlanOptions,
    };

    use super::*;
    use crate::link::memory;

    fn loaded<V>(value: V, bytes: usize) -> Loaded<V> {
        Loaded { value, bytes }
    }

    fn budgeted<V>(budget_bytes: usize) -> Budgeted<u32, V, Lately> {
        Budgeted::new(budget_bytes, Lately::default())
    }

    #[test]
    fn parents_have_little_of_a_budget() {
        for (budget_mib, parents_mib) in [(8, 1), (128, 16), (512, 16), (1 << 20, 1 << 14)] {
            let [tables, parents] = divided(budget_mib << 20);
            assert_eq!((tables + parents, parents), (budget_mib << 20, parents_mib << 20));
        }
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let cache = budgeted(100);
        let load = |key: u32| cache.get_or_load(&key, || Ok::<_, ()>(loaded(key, 40))).unwrap();
        load(1);
        load(2);
        load(1);
        load(3);
        assert_eq!(cache.bytes(), 80);
        let reloaded = AtomicUsize::new(0);
        for key in [1, 3, 2] {
            let counted = || {
                reloaded.fetch_add(1, Ordering::Relaxed);
                Ok::<_, ()>(loaded(key, 40))
            };
            cache.get_or_load(&key, counted).unwrap();
        }
        assert_eq!(reloaded.into_inner(), 1, "only key 2 was dropped");
    }

    #[test]
    fn a_value_is_loaded_once_and_failures_are_not_kept() {
        let cache = budgeted::<u32>(100);
        assert_eq!(cache.get_or_load(&7, || Err("no")), Err("no"));
        let loads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = cache.get_or_load(&7, || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, ()>(loaded(49, 1))
                    });
                    assert_eq!(*value.unwrap(), 49);
                });
            }
        });
        assert_eq!(loads.into_inner(), 1);
    }

    #[test]
    fn what_is_missing_is_loaded_together() {
        let cache = budgeted::<u32>(100);
        cache.get_or_load(&2, || Ok::<_, ()>(loaded(4, 1))).unwrap();
        let squares =
            |keys: &[u32]| Ok::<_, ()>(keys.iter().map(|key| loaded(key * key, 1)).collect());
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
            *cache.get_or_load(&5, || Ok::<_, ()>(loaded(25, 1))).unwrap(),
            25,
            "a failure is not kept"
        );
    }

    /// Has one bucket, and counts who asks for it.
    struct OneBucket(KeyedOutcomes, AtomicUsize);

    impl Fetch for OneBucket {
        fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let OneBucket(KeyedOutcomes { keys, outcomes }, _) = self;
            Ok(wanted.iter().map(|_| vec![keys.clone(), outcomes.clone()]).collect())
        }
    }

    #[test]
    fn a_cache_is_of_use_to_those_of_whose_tables_it_keeps_an_eighth() {
        assert!(keeps(0, 7) && !keeps(0, 8) && keeps(100, 807) && !keeps(100, 808));
        assert!(keeps(usize::MAX, usize::MAX));
    }

    /// What is asked for comes from what is held, or is fetched for whoever asks alone.
    #[test]
    fn what_is_asked_for_is_not_kept() {
        let sequence = DegreeSequence::new([4; 11]);
        let write = |i: usize, record: &mut [u8]| record.fill(i as u8);
        let table =
            BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, (0..100u32).map(u64::from), write);
        let source = OneBucket(table.to_blocks(0).into(), AtomicUsize::new(0));
        let cache = PartitionCache::new(1 << 20, source);
        let mut asked = Asked::new(11, 0, 1);
        asked.ask(1 << 44);
        let key = BucketKey { sequence, bucket_bits: 0, bucket: 0 };
        let entries = || cache.asked_table(&key, &asked).unwrap().len();
        let fetched = || cache.fetch.1.load(Ordering::Relaxed);
        assert_eq!((entries(), entries(), fetched()), (0, 0, 2));
        assert_eq!(cache.table(&key).unwrap().len(), 100);
        assert_eq!((entries(), fetched()), (100, 3), "all of it is held");
    }

    /// Has nothing, and is not asked.
    struct Nothing;

    impl Fetch for Nothing {
        fn fetch(&self, _: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
            Err("nothing is here".into())
        }
    }

    /// Six of its shards have two parts, and partitions in several buckets.
    fn plan_in_parts() -> Arc<Plan> {
        let options = PlanOptions { part_graphs: 2, bucket_bytes: 8 };
        Arc::new(Plan::new(TrailTrap::LAYOUT, 6, options))
    }

    /// Shows each unit of such a plan, solved, and its shard.
    fn each_part(plan: &Plan, mut observe: impl FnMut(&Shard, &SolvedUnit)) {
        let Plan { order, options, .. } = *plan;
        let observe = |solved: &SolvedUnit| {
            observe(plan.shard_of(solved.unit), solved);
        };
        memory::each_unit_of(GameName::TrailTrap, Class::All, order, options, observe).unwrap();
    }

    /// Parts of a shard that take more than tables may are given up: the others of it do not make a
    /// whole.
    #[test]
    fn parts_that_take_too_much_are_given_up() {
        let (plan, cache) = (plan_in_parts(), PartitionCache::new(1 << 20, Nothing));
        let [tables_bytes, _] = divided(1 << 20);
        let _in_work = cache.begin(&plan, &[Unit { order: 6, shard: 0, part: 0 }]);
        let mut wholes = [0, 0];
        each_part(&plan, |shard, solved| {
            let gives_up = solved.unit.shard % 2 == 0;
            cache.keep(&plan, solved).unwrap();
            if gives_up && solved.unit.part + 1 < shard.parts {
                cache.set_budget(0);
                cache.set_budget(1 << 20);
            }
            assert_eq!(cache.tables.budget_bytes() + cache.aside.lock().bytes, tables_bytes);
            if shard.parts > 1 && solved.unit.part + 1 == shard.parts {
                assert_eq!(cache.tables.budget_bytes(), tables_bytes);
                assert_eq!(cache.tables.holds(&BucketKey::of(shard, 0)), !gives_up);
                wholes[usize::from(gives_up)] += 1;
            }
        });
        assert!(wholes.iter().all(|&count| count > 0), "{wholes:?}");
    }

    /// What is kept aside takes from the budget of whole partitions until all parts are there, or
    /// nothing reads them any more.
    #[test]
    fn parts_that_are_kept_aside_count() {
        let (plan, cache) = (plan_in_parts(), PartitionCache::new(1 << 20, Nothing));
        let [tables_bytes, _] = divided(1 << 20);
        let left = || cache.tables.budget_bytes();
        let _in_work = cache.begin(&plan, &[Unit { order: 6, shard: 0, part: 0 }]);
        let mut kept_aside = [0, 0];
        each_part(&plan, |shard, solved| {
            let (part, goes) = (solved.unit.part, solved.unit.shard % 2 == 0);
            cache.keep(&plan, solved).unwrap();
            assert_eq!(left() + cache.aside.lock().bytes, tables_bytes);
            let is_read = cache.tables.turns.next(&BucketKey::of(shard, 0)) != NEVER;
            let lacks_others = shard.parts > 1 && (goes || part + 1 < shard.parts);
            assert_eq!(left() < tables_bytes, is_read && lacks_others);
            kept_aside[usize::from(goes)] += u32::from(is_read && lacks_others);
            if is_read && lacks_others {
                let before = left();
                cache.keep(&plan, solved).unwrap();
                assert_eq!(left(), before, "the same part again");
                cache.set_budget(1 << 21);
                assert!(left() > before);
                cache.set_budget(1 << 20);
                assert_eq!(left(), before);
            }
            if goes {
                cache.retire(shard);
                assert_eq!(left(), tables_bytes);
            }
        });
        assert!(kept_aside.iter().all(|&count| count > 0), "{kept_aside:?}");
    }

    #[test]
    fn something_too_large_is_still_given_out() {
        let cache = budgeted(10);
        assert_eq!(
            *cache.get_or_load(&1, || Ok::<_, ()>(loaded("large", 1000))).unwrap(),
            "large"
        );
        assert_eq!(*cache.get_or_load(&2, || Ok::<_, ()>(loaded("small", 1))).unwrap(), "small");
        assert_eq!(cache.bytes(), 1);
    }
}
