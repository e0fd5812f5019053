//! The machines of a census, and what leases take on them: how long each stage of a lease lasts,
//! what its worker reads and has at hand already. Numbers of graphs are exact for each number of
//! edges and spread over its shards by their estimates.

use std::{collections::HashMap, sync::Arc};

use trailtrap_census::{
    driver::{LEAST_COUNTED_BYTES, pending_bytes},
    trust::trial::{self, Odds},
};
use trailtrap_shared::{
    graph::polya::graphs_by_size,
    partition::{directory_bytes, entry_bytes, sorted_slots_bytes},
    plan::{Plan, Shard, Turn, Unit},
};
use trailtrap_worker::{
    cache::{self, Lately, NEVER, Readers, Retention},
    kernel::{LookedUp, PredecessorReading, readings},
    memory::{self, Room},
};

use super::{Busy, Calibration, Cluster, Question, Simulated};

/// Bytes a second of what workers deliver that a core of the coordinator takes from the network and
/// writes into the store: 20 % of its time, by perf, with `--order 11 --max-size 20` and two workers.
const TAKEN_IN_BYTES: f64 = 100e6;
/// The same where it finds them in a depot, reads them, and writes their names: 8 % of its time.
const LOOKED_UP_BYTES: f64 = 300e6;
/// Bytes a second that it reads from the store and sends to workers: 6 % of its time with the same.
const SENT_BYTES: f64 = 170e6;
/// Seconds of a core of a coordinator for each unit, whatever its size: to grant it, say what it
/// reads, and record it. What is left of its time with the same, and with `--order 10`.
const HANDLED_UNIT: f64 = 3.5e-4;
/// Bytes a second that a trial reads, checks and looks through …
const TRIED_BYTES: f64 = 1e9;
/// … and seconds of a core to derive a record again.
const TRIED_RECORD: f64 = 1e-4;
/// Bytes a second that the thread writes which makes results durable, whatever the disk: 500 to 640
/// million where 64 and 16 MiB are flushed, on two cores of a Xeon.
const COMMITTED_BYTES: f64 = 500e6;
/// Bytes of a block beside its entries.
const BLOCK_BYTES: u64 = 100;

/// Something that serves one after the other, in the order in which work comes.
#[derive(Clone, Copy, Default)]
struct Server {
    /// When it is free.
    free: f64,
    /// Seconds that it has worked.
    busy: f64,
}

impl Server {
    /// When work is done that comes now, after all that came before, and takes so many seconds.
    fn serve(&mut self, at: f64, seconds: f64) -> f64 {
        self.free = self.free.max(at) + seconds;
        self.busy += seconds;
        self.free
    }
}

/// A worker.
struct Worker {
    /// Buckets, by shard.
    tables: Retention<(u32, u32)>,
    /// Lists of parents, by shard of the order before.
    parents: Retention<u32>,
    lately: Lately,
    /// That of the shard that it reads for, or read for last.
    now: Turn,
    cores: Server,
    network: Server,
    /// Bytes of parts that wait for others. They come out of the budget of the tables.
    aside_bytes: u64,
}

impl Worker {
    /// With nothing in its caches.
    fn new(cluster: &Cluster) -> Self {
        let memory = cluster.memory as usize;
        let [tables, parents] = cache::divided(memory::cache_bytes(memory));
        Worker {
            tables: Retention::new(tables),
            parents: Retention::new(parents),
            lately: Lately::default(),
            now: 0,
            cores: Server::default(),
            network: Server::default(),
            aside_bytes: 0,
        }
    }
}

/// What a unit reads.
#[derive(Default)]
struct Input {
    /// Bytes that its worker does not have.
    read: f64,
    /// Seconds to load the tables among them.
    loading: f64,
    /// Bytes of all its predecessors.
    predecessors: f64,
    /// Seconds for a (graph, edge) pair.
    pair: f64,
}

/// What all workers share.
#[derive(Default)]
struct Shared {
    disk: Server,
    committer: Server,
    network: Server,
    depot: Server,
    counting: Server,
    trials: Server,
}

/// The order in work.
struct OrderInWork {
    plan: Arc<Plan>,
    /// Of each shard.
    graphs: Vec<f64>,
    readers: Readers,
    /// What the plan takes of the memory of a worker that has one of its own.
    plan_bytes: usize,
}

/// The graphs of each shard of a plan: exact for each number of edges, spread over its shards by
/// their estimates.
pub fn graphs_of_shards(plan: &Plan) -> Vec<f64> {
    let exact = graphs_by_size(plan.order);
    let mut estimated = vec![0.0; exact.len()];
    for shard in &plan.shards {
        estimated[shard.size] += shard.estimate as f64;
    }
    let share =
        |shard: &Shard| shard.estimate as f64 * (exact[shard.size] as f64 / estimated[shard.size]);
    plan.shards.iter().map(share).collect()
}

/// A lease, from the moment when its units are handed out until they are accepted.
pub struct Lease {
    /// Whose it is.
    pub worker: usize,
    /// What was leased.
    pub units: Vec<Unit>,
    stage: Stage,
    /// What its graphs take of its worker's room.
    room: u64,
    work: Work,
}

/// What a lease takes.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Bytes that are fetched, made, and read by trials.
    read: f64,
    made: f64,
    tried: f64,
    /// Of those that are made: bytes in units of which records are tried, on average, and bytes
    /// that come through the coordinator.
    made_in_tried: f64,
    through_coordinator: f64,
    /// Seconds of a core to solve it, for the coordinator to send what it reads, take it in and count
    /// it again, for another worker to count it, and for the coordinator to try records.
    solving: f64,
    counting: f64,
    elsewhere: f64,
    trying: f64,
}

/// Where a lease stands: what it has come to, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The coordinator's disk, or the depot, reads what it asks for.
    Read,
    /// The coordinator sends it.
    Send,
    /// The worker receives it.
    Receive,
    Solve,
    /// The worker sends its results.
    Return,
    /// The coordinator receives them.
    Take,
    Count,
    Try,
    Write,
    Accepted,
}

impl Lease {
    /// Whether it has gone through all stages.
    pub fn is_accepted(&self) -> bool {
        self.stage == Stage::Accepted
    }
}

/// The machines, and what was done on them so far.
pub struct Machines {
    question: Question,
    calibration: Calibration,
    cluster: Cluster,
    shared: Shared,
    workers: Vec<Worker>,
    /// Of the graphs that each of them has in work, of whatever order.
    rooms: Vec<Room>,
    order: Option<Arc<OrderInWork>>,
    /// The order before it.
    before: Option<Arc<OrderInWork>>,
    /// Parts of shards that a worker has solved alone wait for the others in its memory.
    aside: HashMap<u32, u64>,
    /// Tables that were read, and those of them that their worker had.
    tables: (u64, u64),
    /// Seconds of a core that solving the order in work has taken so far.
    solved_seconds: f64,
    /// What has come together so far.
    taken: Simulated,
}

impl Machines {
    /// Nothing was done on them yet.
    pub fn new(question: Question, calibration: Calibration, cluster: Cluster) -> Self {
        Machines {
            question,
            calibration,
            cluster,
            shared: Shared::default(),
            workers: Vec::new(),
            rooms: (0..cluster.workers()).map(|_| cluster.room()).collect(),
            order: None,
            before: None,
            aside: HashMap::new(),
            tables: (0, 0),
            solved_seconds: 0.0,
            taken: Simulated::default(),
        }
    }

    /// Begins an order, the one after the last. Caches hold nothing that it reads.
    pub fn begin_order(&mut self, plan: &Arc<Plan>) {
        let (plan, graphs) = (plan.clone(), graphs_of_shards(plan));
        let readers = Readers::new(plan.clone());
        let is_remote = self.cluster.nodes.is_some();
        let plan_bytes = if is_remote { Readers::bytes_with(&plan) } else { 0 };
        let order = Arc::new(OrderInWork { plan, graphs, readers, plan_bytes });
        self.before = self.order.replace(order);
        self.rooms.iter_mut().for_each(|room| room.plan(plan_bytes));
        self.workers = (0..self.cluster.workers()).map(|_| Worker::new(&self.cluster)).collect();
        self.aside.clear();
        self.solved_seconds = 0.0;
    }

    /// The order that was begun last.
    fn order(&self) -> Arc<OrderInWork> {
        self.order.clone().expect("leases are of an order that was begun")
    }

    /// What they are.
    pub fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// Graphs of a shard of the order in work.
    pub fn graphs(&self, shard: u32) -> f64 {
        self.order.as_ref().map_or(0.0, |order| order.graphs[shard as usize])
    }

    /// The room of a worker for its leases.
    pub fn room(&mut self, worker: usize) -> &mut Room {
        &mut self.rooms[worker]
    }

    /// A worker is another process from now on, with an empty cache, and nothing in work.
    pub fn replace(&mut self, worker: usize) {
        let mut room = self.cluster.room();
        room.plan(self.order.as_ref().map_or(0, |order| order.plan_bytes));
        self.rooms[worker] = room;
        if let Some(worker) = self.workers.get_mut(worker) {
            *worker = Worker::new(&self.cluster);
        }
    }

    /// When all results are durable.
    pub fn is_durable_at(&self) -> f64 {
        self.shared.disk.free.max(self.shared.committer.free)
    }

    /// What has come together so far, but for the time it took and what the store holds.
    pub fn taken(&self) -> Simulated {
        let Shared { disk, network, depot, trials, .. } = &self.shared;
        let busy = Busy {
            trials: trials.busy,
            network: network.busy,
            disk: disk.busy,
            depot: depot.busy,
            ..self.taken.busy
        };
        let (read, found) = self.tables;
        let found_in_cache = if read > 0 { found as f64 / read as f64 } else { 0.0 };
        Simulated { labellings_per_pair: 1.0, found_in_cache, busy, ..self.taken.clone() }
    }

    /// A lease that a worker takes now, of units of the order in work, in the room that it has
    /// taken for it: what it will read and make.
    pub fn begin(&mut self, worker: usize, units: Vec<Unit>, taken: u64) -> Lease {
        let order = self.order();
        let plan = &order.plan;
        let in_work = units.iter().map(|&unit| plan.graphs(unit)).sum();
        let of_one_shard = memory::graphs_of_one_shard(plan, &units);
        let allowance_bytes = self.rooms[worker].allowance_bytes(self.cluster.cores, of_one_shard);
        let looked_up = LookedUp::of(plan, &units, allowance_bytes);
        let taken = self.rooms[worker].lease(taken, in_work, looked_up);
        self.give_to_cache(&order, worker, units.first().map_or(0, |unit| plan.turn(unit.shard)));
        let mut work = Work::default();
        for together in units.chunk_by(|one, other| one.shard == other.shard) {
            self.add_units(&mut work, &order, worker, together, allowance_bytes);
        }
        // The cores of one process are those that solve, and it counts again only what is tried.
        match self.cluster.nodes {
            Some(_) => {
                work.counting += units.len() as f64 * HANDLED_UNIT;
                if self.cluster.depot.is_none() {
                    work.counting += work.made / TAKEN_IN_BYTES + work.read / SENT_BYTES;
                }
            }
            None => {
                let counting = std::mem::take(&mut work.counting);
                work.solving += counting + work.tried / TRIED_BYTES + work.trying;
            }
        }
        let room = &self.rooms[worker];
        let memory = self.cluster.memory;
        let kept = memory / 8 + (room.cache_bytes() + order.plan_bytes) as u64;
        let at_once = kept.saturating_add(room.taken_bytes()).max(memory);
        let result = &mut self.taken;
        result.worker_memory = result.worker_memory.max(at_once);
        result.leases += 1;
        // Both rounded, so that all that is made is no less than all of it that is tried.
        result.bytes_made += work.made.round() as u64;
        result.bytes_in_units_tried += work.made_in_tried.round();
        result.bytes_read += work.read.round() as u64;
        result.bytes_read_by_trials += work.tried.round() as u64;
        result.busy.solving_core_seconds += work.solving;
        result.busy.counting_core_seconds += work.counting;
        result.busy.counting_elsewhere_core_seconds += work.elsewhere;
        if self.cluster.nodes.is_some() {
            let sent = if self.cluster.depot.is_some() { 0.0 } else { work.read };
            result.bytes_through_coordinator += (sent + work.through_coordinator).round() as u64;
        }
        Lease { worker, units, stage: Stage::Read, room: taken, work }
    }

    /// Adds to the work of a lease what units of one shard take, with so much room for tables.
    fn add_units(
        &mut self,
        work: &mut Work,
        order: &OrderInWork,
        worker: usize,
        together: &[Unit],
        allowance_bytes: usize,
    ) {
        let OrderInWork { plan, graphs, .. } = order;
        let Calibration { make, recount, .. } = self.calibration;
        let Calibration { unit: each_unit, make_unit, recount_unit, .. } = self.calibration;
        let (shard, of_all_parts) =
            (plan.shard_of(together[0]), graphs[together[0].shard as usize]);
        let count = of_all_parts / f64::from(shard.parts);
        let all = count * together.len() as f64;
        let bytes = all * stored_entry(plan, shard, of_all_parts);
        let again = together.len() < shard.parts as usize;
        let of_shard = (together[0].shard, all);
        let input = self.read(order, worker, of_shard, again, allowance_bytes);
        work.read += input.read;
        let parts = together.len() as f64;
        let solved = all * shard.size as f64 * input.pair + parts * each_unit;
        self.solved_seconds += solved;
        work.solving += solved + input.loading + all * make + parts * make_unit;
        work.made += bytes;
        let (is_own, whole) = (self.cluster.nodes.is_none(), count.ceil() as u64);
        let (evidence, reading) =
            Odds::of(plan, together[0], whole, self.question.trial_rate, is_own);
        for odds in evidence.into_iter().chain([reading]) {
            let records = odds.unit * odds.records_of(whole) as f64;
            work.trying += records * parts * TRIED_RECORD;
        }
        work.tried += tried_bytes(plan, shard, reading, count, input.predecessors) * parts;
        let untried = evidence.map_or(1.0, |odds| 1.0 - odds.unit) * (1.0 - reading.unit);
        let counted = if is_own { 1.0 - untried } else { 1.0 };
        let again_seconds = all * recount + parts * recount_unit;
        if !is_own && self.cluster.depot.is_some() {
            let looked_up = bytes / LOOKED_UP_BYTES;
            let seconds = again_seconds + looked_up;
            // Another worker counts what lies in files, unless records of it are tried.
            let is_named = self.workers.len() > 1 && bytes / parts >= LEAST_COUNTED_BYTES as f64;
            let here = if is_named { 1.0 - untried } else { 1.0 };
            // Names and lists of wins are written here, whoever counts.
            work.counting += here * seconds + (1.0 - here) * looked_up;
            work.elsewhere += (1.0 - here) * seconds;
            work.through_coordinator += here * bytes;
        } else {
            work.counting += counted * again_seconds;
            work.through_coordinator += bytes;
        }
        self.taken.units_tried += (1.0 - untried) * parts;
        work.made_in_tried += (1.0 - untried) * bytes;
    }

    /// Seconds of a core that solving the order in work has taken, without loading what is read.
    pub fn solved_seconds(&self) -> f64 {
        self.solved_seconds
    }

    /// The caches of a worker have what graphs in work leave them.
    fn give_to_cache(&mut self, order: &OrderInWork, worker: usize, now: Turn) {
        let [of_tables, of_parents] = cache::divided(self.rooms[worker].cache_bytes());
        let Worker { tables, parents, lately, aside_bytes, .. } = &mut self.workers[worker];
        let next = |key: &(u32, u32)| order.readers.next(key.0, now);
        let of_tables = of_tables.saturating_sub(*aside_bytes as usize);
        tables.set_budget(of_tables, now, next, |_| ());
        parents.set_budget(of_parents, 0, |_| lately.next(), |_| ());
    }

    /// Takes a lease, which has come to its stage now, to the next one: when it has come there.
    pub fn advance(&mut self, lease: &mut Lease, now: f64) -> f64 {
        let Cluster { nodes, cores, memory, network, disk, depot, .. } = self.cluster;
        let Work { read, made, tried, solving, counting, elsewhere, trying, .. } = lease.work;
        let (is_remote, cores) = (nodes.is_some(), cores as f64);
        if lease.stage == if is_remote { Stage::Return } else { Stage::Try } {
            lease.room = self.rooms[lease.worker].solved(lease.room);
        }
        let Shared {
            disk: disk_server, committer, network: coordinator, depot: depot_server, ..
        } = &mut self.shared;
        let worker = &mut self.workers[lease.worker];
        let serve = |server: &mut Server, seconds: f64| match seconds > 0.0 {
            true => server.serve(now, seconds),
            false => now,
        };
        let (next, at) = match lease.stage {
            Stage::Read => match depot {
                Some(rate) => (Stage::Receive, serve(depot_server, read / rate)),
                None if is_remote => (Stage::Send, serve(disk_server, read / disk)),
                None => (Stage::Solve, serve(disk_server, read / disk)),
            },
            Stage::Send => (Stage::Receive, serve(coordinator, read / network)),
            Stage::Receive => (Stage::Solve, serve(&mut worker.network, read / network)),
            Stage::Solve => {
                let next = if is_remote { Stage::Return } else { Stage::Try };
                (next, serve(&mut worker.cores, solving / cores))
            }
            Stage::Return => (Stage::Take, serve(&mut worker.network, made / network)),
            Stage::Take => {
                let taken = serve(coordinator, lease.work.through_coordinator / network);
                // Workers put it there, twice on shelves, and whoever counts it has it from there.
                let times = if self.cluster.shelves { 3.0 } else { 2.0 };
                let kept = depot.map_or(now, |rate| serve(depot_server, times * made / rate));
                (Stage::Count, taken.max(kept))
            }
            Stage::Count => {
                let here = serve(&mut self.shared.counting, counting / cores);
                // Whoever counts solves something meanwhile, and shares its cores.
                let other = (lease.worker + 1) % self.workers.len();
                serve(&mut self.workers[other].cores, elsewhere / cores);
                (Stage::Try, here.max(now + 2.0 * elsewhere / cores))
            }
            Stage::Try => {
                let read = match depot {
                    Some(rate) => serve(depot_server, tried / rate),
                    None => serve(disk_server, tried / disk),
                };
                let seconds = tried / TRIED_BYTES + trying;
                let together = trial::TOGETHER.min(self.cluster.cores) as f64;
                (Stage::Write, serve(&mut self.shared.trials, seconds / together).max(read))
            }
            Stage::Write => {
                let written = match depot {
                    Some(_) => now,
                    None => {
                        let committed = serve(committer, made / COMMITTED_BYTES);
                        serve(disk_server, made / disk).max(committed)
                    }
                };
                // What is solved in the coordinator's process waits only while much else does.
                let pending = pending_bytes(Some(memory)) as f64 / disk.min(COMMITTED_BYTES);
                (Stage::Accepted, if is_remote { written } else { now.max(written - pending) })
            }
            Stage::Accepted => (Stage::Accepted, now),
        };
        lease.stage = next;
        at
    }

    /// What so many graphs of a shard read that are solved together now, others perhaps again, with
    /// so much room for tables.
    fn read(
        &mut self,
        order: &OrderInWork,
        worker: usize,
        (index, count): (u32, f64),
        again: bool,
        allowance: usize,
    ) -> Input {
        let OrderInWork { plan, graphs, readers, .. } = order;
        let shard = &plan.shards[index as usize];
        let entry = entry_bytes(plan.layout, plan.order) as f64;
        let Worker { tables, parents, lately, now, .. } = &mut self.workers[worker];
        let turn = plan.turn(index);
        *now = turn;
        let mut input = Input::default();
        if let Some(before) = &self.before {
            let (before, of_parents) = (&before.plan, &before.graphs);
            for parent in shard.sequence.parents() {
                let Some(list) = before.find(&parent.sequence) else { continue };
                if !parents.read(&list, lately.next()) {
                    let of_list = of_parents[list as usize];
                    let list_shard = &before.shards[list as usize];
                    input.read += of_list * stored_slot(before, list_shard, of_list);
                    parents.put(list, (of_list * 8.0) as usize + 64, 0, |_| lately.next(), |_| ());
                }
            }
        }
        let threads = self.cluster.cores;
        let readings = readings(plan, shard, count as usize, allowance, threads);
        let unit = Unit { order: plan.order as u8, shard: index, part: 0 };
        let looked_up = LookedUp::of(plan, &[unit], allowance).map_or(0, |unit| unit.bytes);
        let is_kept = cache::keeps(tables.budget_bytes(), looked_up);
        let held = allowance as f64 / entry;
        input.pair = self.calibration.pair_of(&readings, held, |index| graphs[index as usize]);
        for PredecessorReading { shard: predecessor, rounds, is_asked, .. } in readings {
            let from = &plan.shards[predecessor as usize];
            let buckets = 1u32 << from.bucket_bits;
            let of_shard = graphs[predecessor as usize];
            let each = of_shard / f64::from(buckets);
            let stored = stored_entry(plan, from, of_shard);
            input.predecessors += of_shard * stored;
            for bucket in (0..rounds).flat_map(|_| 0..buckets) {
                let key = (predecessor, bucket);
                self.tables.0 += 1;
                self.tables.1 += u64::from(tables.contains(&key));
                if !tables.contains(&key) {
                    let heads = u64::from(from.parts) * BLOCK_BYTES;
                    input.read += each * stored + heads as f64;
                    let is_asked = is_asked && !is_kept;
                    input.loading += each * self.calibration.load_of(from.parts, is_asked);
                    if is_asked {
                        continue;
                    }
                    let next = |key: &(u32, u32)| readers.next(key.0, turn);
                    tables.put(key, memory_bytes(entry, each) as usize, turn, next, |_| ());
                }
                tables.read(&key, readers.next(predecessor, if again { turn } else { turn + 1 }));
            }
        }
        input
    }

    /// A lease has ended: what its worker keeps of what it has solved, if that was accepted. What
    /// it has solved of an earlier order, under a lease that somebody else was given too, nothing
    /// reads.
    pub fn end(&mut self, lease: &Lease, is_accepted: bool) {
        let order = self.order().plan.order;
        let is_kept = |unit: &&Unit| is_accepted && usize::from(unit.order) == order;
        lease.units.iter().filter(is_kept).for_each(|&unit| self.keep(lease.worker, unit));
        self.rooms[lease.worker].give_back(lease.room);
    }

    /// A worker hears that nothing reads these shards any more.
    pub fn retire(&mut self, worker: usize, shards: &[u32]) {
        let order = self.order();
        for &shard in shards {
            let buckets = order.plan.shards[shard as usize].buckets();
            let tables = &mut self.workers[worker].tables;
            buckets.for_each(|bucket| tables.remove(&(shard, bucket)));
        }
    }

    /// What a worker keeps of a unit that it has solved.
    fn keep(&mut self, worker: usize, unit: Unit) {
        let order = self.order();
        let OrderInWork { plan, graphs, readers, .. } = &*order;
        let shard = plan.shard_of(unit);
        let entry = entry_bytes(plan.layout, plan.order) as f64;
        let now = self.workers[worker].now;
        if readers.next(unit.shard, now) == NEVER {
            return;
        }
        if shard.parts > 1 {
            let budget = memory::cache_bytes(self.cluster.memory as usize);
            if self.cluster.nodes.is_some() || !cache::is_kept_aside(plan, shard, budget) {
                return;
            }
            let part = memory_bytes(entry, graphs[unit.shard as usize] / f64::from(shard.parts));
            let waiting = self.aside.entry(unit.shard).or_default();
            *waiting += part;
            let are_all = *waiting >= part * u64::from(shard.parts);
            let aside_bytes = &mut self.workers[worker].aside_bytes;
            *aside_bytes += part;
            if are_all {
                *aside_bytes -= self.aside.remove(&unit.shard).unwrap_or(0);
            }
            self.give_to_cache(&order, worker, now);
            if !are_all {
                return;
            }
        }
        let buckets = 1u32 << shard.bucket_bits;
        let each = memory_bytes(entry, graphs[unit.shard as usize] / f64::from(buckets));
        let next = |key: &(u32, u32)| readers.next(key.0, now);
        let Worker { tables, .. } = &mut self.workers[worker];
        for bucket in 0..buckets {
            tables.put((unit.shard, bucket), each as usize, now, next, |_| ());
        }
    }
}

/// The bytes that trials of a unit of so many graphs read, on average: of its predecessors, which
/// have so many bytes, those buckets that hold what drawn records ask for.
fn tried_bytes(plan: &Plan, shard: &Shard, odds: Odds, count: f64, input: f64) -> f64 {
    let predecessors = shard.predecessors.len() as f64;
    if input == 0.0 {
        return 0.0;
    }
    let buckets =
        shard.predecessors.iter().map(|&p| f64::from(1u32 << plan.shards[p as usize].bucket_bits));
    let buckets: f64 = buckets.sum::<f64>() / predecessors;
    let questions = odds.records_of(count.ceil() as u64) as f64 * shard.size as f64 / predecessors;
    let hit = 1.0 - (1.0 - 1.0 / buckets).powf(questions);
    odds.unit * input * if buckets > 1.0 { hit } else { questions.min(1.0) }
}

/// In so many blocks are the slots of a shard, and in as many its outcomes.
pub(super) fn blocks_of(shard: &Shard) -> f64 {
    f64::from(shard.parts) * f64::from(1u32 << shard.bucket_bits)
}

/// Bytes of the slots and outcomes of shards of so many graphs.
pub fn stored_bytes(plan: &Plan, graphs: &[f64]) -> Vec<f64> {
    let stored = |(shard, &graphs): (&Shard, &f64)| graphs * stored_entry(plan, shard, graphs);
    plan.shards.iter().zip(graphs).map(stored).collect()
}

/// Bytes that the slot of a graph takes on average in the blocks of a shard of so many graphs.
pub(super) fn stored_slot(plan: &Plan, shard: &Shard, graphs: f64) -> f64 {
    let each = (graphs / blocks_of(shard)).ceil().max(1.0) as u64;
    sorted_slots_bytes(plan.order, shard.bucket_bits, each) as f64 / each as f64
}

/// Bytes of an entry there: of a slot and an outcome.
fn stored_entry(plan: &Plan, shard: &Shard, graphs: f64) -> f64 {
    stored_slot(plan, shard, graphs) + plan.layout.record_bytes(plan.order) as f64
}

/// Bytes of memory of a table of so many entries of so many bytes, and of its directory.
fn memory_bytes(entry: f64, count: f64) -> u64 {
    (count * entry) as u64 + directory_bytes(count as usize) as u64 + 200
}
