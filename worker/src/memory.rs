//! How a worker divides its memory: three quarters are a cache of partitions, an eighth is for what
//! units hold beside it, and the rest for graphs in work, which take from the cache as well where
//! that saves reading. Pure, so that it can be told beforehand.

use trailtrap_shared::plan::PlanOptions;

/// The budget of the cache, of so much memory, unless graphs in work take from it.
pub fn cache_bytes(memory_bytes: usize) -> usize {
    memory_bytes / 4 * 3
}

/// What a unit holds of predecessor tables, unless one table is more, and as much again of requests
/// to one that is read in pieces. There is one such unit for each thread.
pub fn allowance_bytes(memory_bytes: usize, threads: usize) -> usize {
    memory_bytes / 8 / threads
}

/// How orders are split for a solver that has so much memory and is in the process of the census.
/// A part in work takes no more than all of it. A bucket takes no more than a sixteenth: it is
/// there as blocks while it becomes a table, in several threads at a time, and in trials. With ample
/// memory the defaults hold, and there are bounds below which parts and buckets would only be many.
pub fn splitting(memory_bytes: u64) -> PlanOptions {
    let PlanOptions { part_graphs, bucket_bytes } = PlanOptions::default();
    PlanOptions {
        part_graphs: (memory_bytes / GRAPH_BYTES).clamp(LEAST_PART, part_graphs),
        bucket_bytes: (memory_bytes / 16).clamp(LEAST_BUCKET, bucket_bytes),
    }
}

/// Graphs of a part, if a shard is split for want of memory.
const LEAST_PART: u64 = 1 << 18;
/// Bytes of a bucket, if a partition is split for want of memory.
const LEAST_BUCKET: u64 = 1 << 20;

/// Bytes that a graph takes while its unit is in work, and until its results are delivered: itself
/// and its outcome; its rows and requests; then a place in a table, and in blocks.
pub const GRAPH_BYTES: u64 = 136;
/// Room for each lease that may be in work: more than a bundle of small units has.
pub(crate) const LEAST_GRAPHS: u64 = 200_000;

/// How many graphs are in work, and may be: of several leases, what an eighth of the memory holds,
/// but enough for bundles of small units. Half of the memory is added while shards read more than
/// the cache holds, which then has the less: what parts of a shard read that are solved together
/// is read once, and again for the others if the cache does not have it any more.
///
/// While leases are small, whoever asks for work has room for a bundle of small units. Otherwise it
/// has all room that is left, so that parts of one shard come together that fit, and waits until
/// that is half of it. A unit may have more graphs than there is room for; it is then the last that
/// is begun.
#[derive(Clone, Debug)]
pub struct Room {
    memory_bytes: usize,
    /// Of the memory that is for graphs alone.
    own: u64,
    taken: u64,
    /// Graphs of the last lease.
    last: u64,
    /// Whether the cache would hold what the last lease that was no bundle looks up in.
    is_cached: bool,
}

impl Room {
    /// All of it, for so many leases at a time.
    pub fn new(memory_bytes: usize, leases: usize) -> Self {
        let own = (memory_bytes as u64 / 8 / GRAPH_BYTES).max(LEAST_GRAPHS * leases as u64);
        Room { memory_bytes, own, taken: 0, last: 0, is_cached: true }
    }

    /// All of it, as long as shards read as much as the last one.
    pub(crate) fn graphs(&self) -> u64 {
        let more = if self.is_cached { 0 } else { self.memory_bytes as u64 / 2 / GRAPH_BYTES };
        self.own + more
    }

    /// The budget of the cache beside the graphs that are in work.
    pub fn cache_bytes(&self) -> usize {
        let all = cache_bytes(self.memory_bytes);
        let from_cache = self.taken.saturating_sub(self.own) * GRAPH_BYTES;
        all.saturating_sub((from_cache as usize).min(self.memory_bytes / 2))
    }

    /// How many graphs are in work.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The room for whoever asks for work now, if it is enough.
    pub fn offer(&self) -> Option<u64> {
        let graphs = self.graphs();
        let [least, most] = match self.last <= LEAST_GRAPHS / 2 {
            true => [LEAST_GRAPHS; 2],
            false => [graphs.div_ceil(2), graphs],
        };
        (self.taken + least <= graphs).then(|| most.min(graphs - self.taken))
    }

    /// Takes room.
    pub fn take(&mut self, graphs: u64) {
        self.taken += graphs;
    }

    /// A lease of so many graphs is in work in the room that was taken for it, or in more if need
    /// be. The entries that its units look up in have so many bytes. A lease of few graphs, such as
    /// a bundle, says nothing of what larger ones read.
    pub fn lease(&mut self, taken: u64, graphs: u64, input_bytes: u64) {
        self.last = graphs;
        if graphs > LEAST_GRAPHS / 2 {
            // Lists of parents are in the cache, too, and tables have directories.
            self.is_cached = input_bytes <= cache_bytes(self.memory_bytes) as u64 / 4 * 3;
        }
        self.taken = self.taken - taken + graphs;
    }

    /// Gives back room that was taken.
    pub fn give_back(&mut self, graphs: u64) {
        self.taken -= graphs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the cache does not hold what a shard reads, graphs in work have of its budget what
    /// they need, but not all.
    #[test]
    fn graphs_in_work_take_from_the_cache_where_it_is_of_little_use() {
        assert_eq!(Room::new(1 << 20, 3).graphs(), 600_000, "enough for bundles of small units");
        let memory_bytes = 1_000_000 * 8 * GRAPH_BYTES as usize;
        let cache = cache_bytes(memory_bytes);
        let mut room = Room::new(memory_bytes, 0);
        assert_eq!((room.graphs(), room.cache_bytes()), (1_000_000, cache));
        let held = cache as u64 / 4 * 3;
        room.lease(0, 1_000_000, held);
        assert_eq!((room.offer(), room.cache_bytes()), (None, cache));
        room.lease(1_000_000, 1_000_000, held + 1);
        assert_eq!((room.offer(), room.cache_bytes()), (Some(4_000_000), cache));
        for graphs in [2_000_000, 5_000_000, 20_000_000] {
            room.lease(room.taken(), graphs, held + 1);
            let more = (graphs - 1_000_000) as usize * GRAPH_BYTES as usize;
            assert_eq!(room.cache_bytes(), cache - more.min(memory_bytes / 2));
        }
        room.lease(20_000_000, LEAST_GRAPHS / 2, 0);
        assert_eq!(room.graphs(), 5_000_000, "a bundle says nothing of larger leases");
        room.give_back(LEAST_GRAPHS / 2);
        assert_eq!((room.taken(), room.cache_bytes()), (0, cache));
    }

    /// Ample memory changes nothing; less of it makes parts and buckets smaller, and never none.
    #[test]
    fn parts_and_buckets_follow_memory() {
        let usual = PlanOptions::default();
        assert_eq!([4 << 30, u64::MAX].map(splitting), [usual; 2]);
        assert_eq!(splitting(1 << 30).bucket_bytes, usual.bucket_bytes);
        let PlanOptions { part_graphs, bucket_bytes } = splitting(256 << 20);
        assert_eq!(bucket_bytes, 16 << 20);
        assert!(part_graphs * GRAPH_BYTES <= 256 << 20 && part_graphs > 1_000_000);
        for memory in (0..40).map(|bits| 1 << bits) {
            let [less, more] = [memory, 2 * memory].map(splitting);
            assert!((1 << 18..=more.part_graphs).contains(&less.part_graphs));
            assert!((1 << 20..=more.bucket_bytes).contains(&less.bucket_bytes));
        }
    }
}
