//! How a worker divides its memory: three quarters are a cache of partitions; an eighth is for what
//! units hold beside it; and the rest for graphs in work. Pure, so that it can be told beforehand.

use trailtrap_shared::plan::PlanOptions;

/// The budget of the cache, of so much memory.
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
pub const GRAPH_BYTES: u64 = 168;
/// Room for each lease that may be in work: more than a bundle of small units has.
pub(crate) const LEAST_GRAPHS: u64 = 200_000;

/// How many graphs are in work, and may be: of several leases, what an eighth of the memory holds,
/// but enough for bundles of small units.
///
/// While leases are small, whoever asks for work has room for a bundle of small units. Otherwise it
/// has all room that is left, so that parts of one shard come together that fit, and waits until
/// that is half of it. A unit may have more graphs than there is room for; it is then the last that
/// is begun.
#[derive(Clone, Debug)]
pub struct Room {
    pub(crate) graphs: u64,
    taken: u64,
    /// Graphs of the last lease.
    last: u64,
}

impl Room {
    /// All of it, for so many leases at a time.
    pub fn new(memory_bytes: usize, leases: usize) -> Self {
        let graphs = memory_bytes as u64 / 8 / GRAPH_BYTES;
        Room { graphs: graphs.max(LEAST_GRAPHS * leases as u64), taken: 0, last: 0 }
    }

    /// How many graphs are in work.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The room for whoever asks for work now, if it is enough.
    pub fn offer(&self) -> Option<u64> {
        let [least, most] = match self.last <= LEAST_GRAPHS / 2 {
            true => [LEAST_GRAPHS; 2],
            false => [self.graphs.div_ceil(2), self.graphs],
        };
        (self.taken + least <= self.graphs).then(|| most.min(self.graphs - self.taken))
    }

    /// Takes room.
    pub fn take(&mut self, graphs: u64) {
        self.taken += graphs;
    }

    /// A lease of so many graphs is in work in the room that was taken for it, or in more if need
    /// be.
    pub fn lease(&mut self, taken: u64, graphs: u64) {
        self.last = graphs;
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
