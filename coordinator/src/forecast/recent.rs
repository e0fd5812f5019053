//! What a cache holds that drops the least recently used, without the values.

use std::hash::Hash;

use lru::LruCache;

/// Keys of values, of so many bytes in all.
pub struct Recent<K: Hash + Eq> {
    sizes: LruCache<K, u64>,
    bytes: u64,
    budget: u64,
}

impl<K: Hash + Eq + Copy> Recent<K> {
    /// An empty cache of `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Recent { sizes: LruCache::unbounded(), bytes: 0, budget }
    }

    /// Whether the value is there; it counts as used then.
    pub fn touch(&mut self, key: &K) -> bool {
        self.sizes.get(key).is_some()
    }

    /// Puts a value in. While all exceed the budget, the least recently used goes, unless it is
    /// the only one.
    pub fn insert(&mut self, key: K, bytes: u64) {
        self.bytes += bytes;
        self.bytes -= self.sizes.put(key, bytes).unwrap_or(0);
        while self.bytes > self.budget && self.sizes.len() > 1 {
            self.bytes -= self.sizes.pop_lru().map_or(0, |(_, bytes)| bytes);
        }
    }
}
