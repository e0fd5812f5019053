//! How a worker divides its memory: three quarters are a cache of partitions, an eighth is for what
//! units hold beside it, and the rest for graphs in work, which take from the cache as well where
//! that saves reading, or where the rest is less than they need. The plan of the order takes from the
//! cache, too, if the worker has one of its own. Pure, so that it can be told beforehand.

use trailtrap_shared::plan::{LEAST_TOGETHER, Plan, PlanOptions, Unit};

use crate::{cache, kernel::LookedUp};

/// What a worker may take beside its budget before it gives back at once what is free: the program
/// itself has 20 MiB, and messages and what it counts for others some. In the process of the
/// coordinator there are also its plan, and results that wait for the disk, with RocksDB's copy of
/// them: 50 to 160 MiB where the budget is below a gigabyte.
pub fn beside(is_alone: bool) -> usize {
    if is_alone { 192 << 20 } else { 24 << 20 }
}

/// The budget of the cache, of so much memory, unless a plan or graphs in work take from it.
pub fn cache_bytes(memory_bytes: usize) -> usize {
    memory_bytes / 4 * 3
}

/// About how many graphs units have if they are of one shard; none if they are of several.
pub fn graphs_of_one_shard(plan: &Plan, units: &[Unit]) -> u64 {
    match units.iter().all(|unit| unit.shard == units[0].shard) {
        true => units.iter().map(|&unit| plan.graphs(unit)).sum(),
        false => 0,
    }
}

/// What a bucket of a unit that is counted for others may take.
pub fn counted_bytes(memory_bytes: usize) -> u64 {
    memory_bytes as u64 / 16
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

/// How orders are split for workers of which that with least memory has so much: a part takes half
/// of it, so that its cache has the other half.
pub fn splitting_for_workers(least_memory_bytes: u64) -> PlanOptions {
    splitting(least_memory_bytes / 2)
}

/// Graphs of a part, if a shard is split for want of memory.
const LEAST_PART: u64 = 1 << 18;
/// Bytes of a bucket, if a partition is split for want of memory.
const LEAST_BUCKET: u64 = 1 << 20;

/// Bytes that a graph takes while its unit is solved: itself, its outcome, and its rows and requests
/// to large predecessors …
pub const GRAPH_BYTES: u64 = 124;
/// … or, where none is, its place in a table, which is longer beyond order 12.
const HELD_GRAPH_BYTES: u64 = 80;
/// Such a part of them it takes until its results are delivered, for a place in a table. Blocks are
/// made of a few units at a time where they are kept in a depot. Elsewhere they are made of a whole
/// lease, and what they take is not counted.
const SOLVED_PART: u64 = 3;
/// Room for as many graphs is there at least, whatever the memory, in the process of the census.
/// With less, the parts of a shard are solved a few at a time, and each time read all that it reads.
/// A worker elsewhere, which is to stay close to its budget, has room for one of the smallest parts.
const LEAST_GRAPHS: u64 = 400_000;
/// A sixteenth of the memory of a worker elsewhere, and no more than this, is for the program
/// itself, for messages and for what is free between things that are in use.
const MOST_UNCOUNTED: usize = 48 << 20;
/// No bundle of small units has more graphs than this.
const MOST_TOGETHER: u64 = 200_000;

/// How many graphs are in work, and may be: of several leases, what an eighth of the memory holds,
/// or what 400 000 graphs take in all (260 000 in a worker that is not the census itself) and
/// [`LEAST_TOGETHER`] for each; what that is more comes out of the cache's budget, up to a sixteenth
/// of the memory, or a quarter there. What such a worker has beside its units does, too, in part.
/// Two thirds of that budget, with ample memory half of all, are added while shards read more than it
/// holds, which then has the less: what parts of a shard read that are solved together is read once,
/// and again for the others if the cache does not have it any more.
///
/// While leases are small, whoever asks for work has room for a bundle of small units. Otherwise it
/// has all room that is left, so that parts of one shard come together that fit, and waits until
/// little is in work: of what needs nothing of the cache, the part that solved graphs take. So what
/// took more than that is delivered before anything else is solved. A unit may have more graphs than
/// there is room for; it is then the last that is begun.
#[derive(Clone, Debug)]
pub struct Room {
    memory_bytes: usize,
    /// Of the cache's budget that the plan in work takes.
    plan_bytes: usize,
    /// Of the memory that is for graphs alone.
    own_bytes: u64,
    /// What the cache has the less, for that and for what is counted nowhere.
    beyond_bytes: usize,
    /// Graphs of a bundle of small units.
    bundle: u64,
    /// By what is in work.
    taken_bytes: u64,
    /// Graphs of the last lease, if it was no bundle.
    last: u64,
    /// What each graph took of the last lease that was no bundle, nor small.
    graph_bytes: u64,
    /// Whether the cache would hold what it looked up in.
    is_cached: bool,
}

impl Room {
    /// All of it, for so many leases at a time, of a worker in the process of the census or elsewhere.
    pub fn new(memory_bytes: usize, leases: usize, is_alone: bool) -> Self {
        let leases = leases.max(1) as u64;
        let (least, most_beyond, uncounted) = match is_alone {
            true => (LEAST_GRAPHS, memory_bytes / 16, 0),
            false => (LEAST_PART, memory_bytes / 4, (memory_bytes / 16).min(MOST_UNCOUNTED)),
        };
        let least = GRAPH_BYTES * least.max(LEAST_TOGETHER * leases);
        let own_bytes = (memory_bytes as u64 / 8).max(least);
        let beyond = own_bytes as usize - memory_bytes / 8;
        // Most of those that wait for an answer are solved.
        let bundle = (own_bytes / GRAPH_BYTES / leases * 3 / 2).min(MOST_TOGETHER);
        Room {
            memory_bytes,
            plan_bytes: 0,
            own_bytes,
            beyond_bytes: beyond.min(most_beyond) + uncounted,
            bundle,
            taken_bytes: 0,
            last: 0,
            graph_bytes: GRAPH_BYTES,
            is_cached: true,
        }
    }

    /// The plan in work and what is known by it take so many bytes, for which the cache makes room:
    /// a quarter of the memory at most.
    pub fn plan(&mut self, bytes: usize) {
        self.plan_bytes = bytes.min(self.memory_bytes / 4);
    }

    /// What a unit holds of predecessor tables, unless one table is more, and as much again of
    /// requests to one that is read some buckets at a time. Of an eighth of the memory half is divided
    /// by threads, as about one unit for each is in work, and half goes to leases of one shard as the
    /// room for graphs does, of which such a lease has so many: the parts of a large shard, which all
    /// threads solve together, have most of it. Without requests graphs take less room, and such leases
    /// may have up to half as much again.
    pub fn allowance_bytes(&self, threads: usize, of_one_shard: u64) -> usize {
        let (half, own_bytes) = (self.memory_bytes / 16, self.own_bytes);
        let of_graphs = of_one_shard.saturating_mul(GRAPH_BYTES).min(own_bytes);
        let share = half as u128 * u128::from(of_graphs) / u128::from(own_bytes);
        half / threads + share as usize
    }

    /// The budget of the cache while nothing is taken from it.
    fn whole_cache_bytes(&self) -> usize {
        cache_bytes(self.memory_bytes) - self.plan_bytes - self.beyond_bytes
    }

    /// What the cache leaves to graphs, as long as shards read as much as the last one.
    fn lent_bytes(&self) -> u64 {
        if self.is_cached { 0 } else { self.most_from_cache() as u64 }
    }

    /// The budget of the cache beside the graphs that are in work.
    pub fn cache_bytes(&self) -> usize {
        let all = self.whole_cache_bytes();
        let from_cache = self.taken_bytes.saturating_sub(self.own_bytes);
        all - (from_cache as usize).min(self.most_from_cache())
    }

    /// What graphs in work may take from the cache.
    fn most_from_cache(&self) -> usize {
        self.whole_cache_bytes() / 3 * 2
    }

    /// Bytes that graphs in work take.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// How many graphs there is room for, for whoever asks for work now, if it is enough. What is
    /// lent is offered as if graphs took most of it, since the next shard may be of that kind.
    pub fn offer(&self) -> Option<u64> {
        let Room { own_bytes, taken_bytes, bundle, .. } = *self;
        if self.last <= bundle / 2 {
            let fits = taken_bytes + bundle * GRAPH_BYTES <= own_bytes + self.lent_bytes();
            return fits.then_some(bundle);
        }
        let left = || (own_bytes - taken_bytes) / self.graph_bytes;
        let is_little = taken_bytes <= own_bytes / SOLVED_PART;
        is_little.then(|| left() + self.lent_bytes() / GRAPH_BYTES)
    }

    /// Takes room for so many graphs. Returns its bytes.
    pub fn take(&mut self, graphs: u64) -> u64 {
        let bytes = graphs * self.graph_bytes;
        self.taken_bytes += bytes;
        bytes
    }

    /// A lease of so many graphs is in work in the room that was taken for it, or in more if need
    /// be. What its units look up in is known if they are of one shard: a bundle of several, or a
    /// lease of few graphs, says nothing of what larger ones read. Returns the bytes that it takes.
    pub fn lease(&mut self, taken_bytes: u64, graphs: u64, looked_up: Option<LookedUp>) -> u64 {
        let each = match looked_up {
            Some(LookedUp { by_request: false, .. }) => HELD_GRAPH_BYTES,
            _ => GRAPH_BYTES,
        };
        self.last = looked_up.map_or(0, |_| graphs);
        if let Some(looked_up) = looked_up.filter(|_| graphs > self.bundle / 2) {
            let [of_tables, _] = cache::divided(self.whole_cache_bytes());
            self.is_cached = looked_up.bytes <= of_tables;
            self.graph_bytes = each;
        }
        let bytes = graphs * each;
        self.taken_bytes = self.taken_bytes - taken_bytes + bytes;
        bytes
    }

    /// What took so many bytes has been solved. Returns the bytes that it takes until it is
    /// delivered.
    pub fn solved(&mut self, bytes: u64) -> u64 {
        let left = bytes / SOLVED_PART;
        self.taken_bytes -= bytes - left;
        left
    }

    /// Gives back room that was taken.
    pub fn give_back(&mut self, bytes: u64) {
        self.taken_bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the cache does not hold what a shard reads, graphs in work have of its budget what
    /// they need, but not all.
    #[test]
    fn graphs_in_work_take_from_the_cache_where_it_is_of_little_use() {
        let little = [3, 32].map(|leases| Room::new(1 << 20, leases, true));
        let own = |room: &Room| room.own_bytes / GRAPH_BYTES;
        assert_eq!(little.each_ref().map(own), [LEAST_GRAPHS, 32 * LEAST_TOGETHER]);
        assert_eq!(little[1].offer(), Some(LEAST_TOGETHER / 2 * 3));
        assert_eq!(Room::new(1 << 40, 3, true).offer(), Some(MOST_TOGETHER));
        let memory_bytes = 1_000_000 * 8 * GRAPH_BYTES as usize;
        let cache = cache_bytes(memory_bytes);
        let [held, _] = cache::divided(cache);
        let looked_up = |bytes| Some(LookedUp { bytes, by_request: true });
        let mut room = Room::new(memory_bytes, 0, true);
        assert_eq!((own(&room), room.cache_bytes()), (1_000_000, cache));
        let taken = room.lease(0, 1_000_000, looked_up(held));
        assert_eq!((room.offer(), room.cache_bytes()), (None, cache));
        let taken = room.lease(taken, 1_000_000, None);
        assert_eq!(room.lent_bytes(), 0, "a bundle says nothing of larger leases");
        let taken = room.lease(taken, 1_000_000, looked_up(held + 1));
        assert_eq!((room.offer(), room.cache_bytes()), (None, cache));
        let mut taken = room.solved(taken);
        assert_eq!(taken, room.own_bytes / 3, "little is in work then");
        assert_eq!(room.offer(), Some(4_666_666));
        for graphs in [2_000_000, 5_000_000, 20_000_000] {
            taken = room.lease(taken, graphs, looked_up(held + 1));
            let more = (graphs - 1_000_000) as usize * GRAPH_BYTES as usize;
            assert_eq!(room.cache_bytes(), cache - more.min(memory_bytes / 2));
        }
        let taken = room.lease(taken, MOST_TOGETHER / 2, looked_up(0));
        assert_eq!(room.lent_bytes(), memory_bytes as u64 / 2, "nor does a small lease");
        let taken = room.solved(taken);
        room.give_back(taken);
        assert_eq!((room.taken_bytes(), room.cache_bytes()), (0, cache));
        room.plan(1_000_000);
        assert_eq!(room.cache_bytes(), cache - 1_000_000);
        room.plan(memory_bytes);
        assert_eq!(room.cache_bytes(), cache - memory_bytes / 4);
    }

    /// What graphs in work have at least comes out of the cache, up to a sixteenth of the memory, or a
    /// quarter in a worker that is not the census itself, beside what the plan takes. Such a worker
    /// leaves some of its memory to what is not counted.
    #[test]
    fn the_least_room_is_in_the_memory_unless_there_is_very_little() {
        for (is_alone, part, enough_mib) in [(true, 16, 253), (false, 4, 83)] {
            for memory_mib in [0, 32, 82, 83, 240, 252, 253, 256, 320, 384, 4096] {
                let memory_bytes: usize = memory_mib << 20;
                let mut room = Room::new(memory_bytes, 3, is_alone);
                let uncounted = match is_alone {
                    true => 0,
                    false => (memory_bytes / 16).min(48 << 20),
                };
                let of_units = memory_bytes / 8;
                let all = of_units + room.own_bytes as usize + room.cache_bytes() + uncounted;
                let from_cache = cache_bytes(memory_bytes) - room.cache_bytes() - uncounted;
                if memory_mib >= enough_mib {
                    assert!(from_cache <= memory_bytes / part);
                    assert_eq!(all, memory_bytes, "{memory_mib} MiB");
                } else {
                    assert_eq!(from_cache, memory_bytes / part);
                    assert!(memory_bytes < all, "{memory_mib} MiB");
                }
                let before = room.cache_bytes();
                room.plan(usize::MAX);
                assert_eq!(before - room.cache_bytes(), memory_bytes / 4);
            }
        }
    }

    /// A worker that is not the census itself has room for a part of the smallest kind, and little
    /// beside its memory even if that is small.
    #[test]
    fn a_worker_elsewhere_stays_close_to_its_memory() {
        let room = Room::new(64 << 20, 6, false);
        assert_eq!(room.own_bytes, GRAPH_BYTES * splitting_for_workers(0).part_graphs);
        let all = (8 << 20) + room.own_bytes as usize + room.cache_bytes();
        assert!(all <= 70 << 20, "{all} bytes");
    }

    /// Of tables all leases that there is room for hold an eighth of the memory at most, and one that
    /// has all of the room most of that.
    #[test]
    fn what_units_hold_is_divided_as_their_graphs_are() {
        for (memory_bytes, threads) in
            [(64 << 20, 2), (256 << 20, 2), (1 << 30, 64), (1 << 38, 64)]
        {
            let room = Room::new(memory_bytes, threads + 3, true);
            let of = |graphs| room.allowance_bytes(threads, graphs);
            let all = room.own_bytes / GRAPH_BYTES;
            let of_units = threads * of(0);
            let of_leases: usize =
                [all / 2, all / 3, all / 6].map(|graphs| of(graphs) - of(0)).iter().sum();
            assert!(of_units + of_leases <= memory_bytes / 8);
            assert!(of(all) > memory_bytes / 17);
            assert!(of(u64::MAX) <= memory_bytes / 16 + of(0));
        }
    }

    /// Graphs without rows and requests take less, and so there is room for more, but of what the
    /// cache lends. What is in work is counted as what it was leased as.
    #[test]
    fn what_graphs_take_depends_on_how_they_look_up() {
        let memory_bytes = 1_000_000 * 8 * GRAPH_BYTES as usize;
        let mut room = Room::new(memory_bytes, 3, true);
        for bytes in [0, memory_bytes] {
            let lent = if bytes == 0 { 0 } else { 4_000_000 };
            let [held, by_request] = [false, true].map(|by_request| {
                let taken = room.lease(0, MOST_TOGETHER, Some(LookedUp { bytes, by_request }));
                (taken, room.offer().unwrap())
            });
            assert_eq!(held.0, MOST_TOGETHER * HELD_GRAPH_BYTES);
            assert_eq!(by_request.0, MOST_TOGETHER * GRAPH_BYTES);
            assert_eq!(held.1, (room.own_bytes - held.0) / HELD_GRAPH_BYTES + lent);
            let left = room.own_bytes - held.0 - by_request.0;
            assert_eq!(by_request.1, left / GRAPH_BYTES + lent);
            room.give_back(held.0 + by_request.0);
            assert_eq!(room.taken_bytes(), 0);
        }
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
