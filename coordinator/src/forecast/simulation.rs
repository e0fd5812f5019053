//! A census as it would run on given machines. Units are leased by the real schedule; how long
//! they take, what they read and what is stored follows from the plan. Numbers of graphs are exact
//! for each number of edges and spread over its shards by their estimates. Nothing is random, so
//! the same question has the same answer.
//!
//! What is left out: the latency of requests, the start of processes, what a file system caches,
//! and threads that wait for each other within a unit.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

use serde::Serialize;
use trailtrap_census::{
    core::{
        content::Content,
        schedule::{Asked, Schedule, Share},
    },
    records::Author,
    trust::trial::{self, Odds},
};
use trailtrap_shared::{
    game::GameName,
    graph::polya::{graphs_by_size, totals},
    partition::{entry_bytes, slot_bytes},
    plan::{Goal, Plan, PlanOptions, Shard, Unit},
};
use trailtrap_worker::{
    cache::{self, Lately, Readers, Retention, Turn},
    kernel::readings,
    memory::{self, Room},
};

use super::{Calibration, Cluster};
use crate::serve::service;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The game.
    pub game: GameName,
    /// Up to which order and number of edges.
    pub goal: Goal,
    /// How shards are split.
    pub options: PlanOptions,
    /// The share of records that are tried.
    pub trial_rate: f64,
}

/// What a census takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The last order.
    pub order: usize,
    /// Graphs with more edges are left out, if not all are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
    /// Of the order; everything up to `core_seconds` is.
    pub shards: usize,
    /// Shards and parts of shards.
    pub units: u64,
    /// Graphs, exactly.
    pub graphs: u64,
    /// (graph, edge) pairs, exactly.
    pub pairs: u64,
    /// Bytes of keys and outcomes.
    pub bytes_stored: u64,
    /// Bytes of the two neighbouring numbers of edges that hold most: what is read and written at
    /// the widest place.
    pub bytes_widest: u64,
    /// Bytes that look-ups read if no partition is kept between two units that read it.
    pub bytes_read_uncached: u64,
    /// Bytes of the partitions that the most demanding shard reads.
    pub bytes_largest_input: u64,
    /// Seconds of a core that solving the order takes, without loading what is read.
    pub core_seconds: f64,
    /// What pieces of work take.
    pub calibration: Calibration,
    /// The machines that were asked for …
    pub cluster: Cluster,
    /// … and the census of this and all orders below it on them.
    pub simulated: Simulated,
}

/// What became of a simulated census: the orders up to the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Simulated {
    /// From start to end.
    pub wall_seconds: f64,
    /// Deletions that are labelled for each (graph, edge) pair, which the kernel does once.
    pub labellings_per_pair: f64,
    /// Bytes of keys and outcomes that are solved.
    pub bytes_made: u64,
    /// Bytes of blocks that workers read and did not have in their caches.
    pub bytes_read: u64,
    /// Of those, bytes that the coordinator sends, and of what is made, what is sent to it.
    pub bytes_through_coordinator: u64,
    /// Bytes of blocks that the coordinator reads for trials.
    pub bytes_read_by_trials: u64,
    /// Units of which records are tried, on average, …
    pub units_tried: f64,
    /// … and bytes of keys and outcomes in them.
    pub bytes_in_units_tried: f64,
    /// Bytes in the store at its fullest moment, by what is kept.
    pub store: Kept,
    /// Bytes of memory that a worker has at most: its budget, graphs in work, and results that wait
    /// for their other parts or for an answer.
    pub worker_memory: u64,
    /// For how long what everybody shares is busy, in seconds.
    pub busy: Busy,
}

/// Bytes by `--keep`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Kept {
    /// `--keep all`.
    pub all: u64,
    /// `--keep graphs`.
    pub graphs: u64,
    /// `--keep minimal`.
    pub minimal: u64,
}

/// Seconds of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Busy {
    /// Of all solving threads together, loading what is read included.
    pub solving_core_seconds: f64,
    /// Of the coordinator's cores together: counting again what workers deliver.
    pub counting_core_seconds: f64,
    /// Of the turns of trials, a few at a time.
    pub trials: f64,
    /// Of the coordinator's network interface.
    pub network: f64,
    /// Of the coordinator's disk.
    pub disk: f64,
    /// Of the depot.
    pub depot: f64,
}

/// Seconds of a core to load an entry that is not in the cache: checked, and merged from parts
/// (bench `load_bucket`).
const LOAD: f64 = 50e-9;
/// Bytes a second that a trial reads, checks and looks through …
const TRIED_BYTES: f64 = 1e9;
/// … and seconds of a core to derive a record again.
const TRIED_RECORD: f64 = 1e-4;
/// Bytes of a unit's record in the store, about, its key and the journal included.
const RECORD_BYTES: u64 = 1000;
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
    /// The shard that it reads for, or read for last.
    now: Turn,
    cores: Server,
    network: Server,
    /// Of its graphs in work.
    room: Room,
    /// Bytes of parts that wait for others.
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
            room: Room::new(memory, cluster.slots()),
            aside_bytes: 0,
        }
    }
}

/// What a unit reads.
#[derive(Default)]
struct Input {
    /// Bytes that its worker does not have.
    read: f64,
    /// Entries of tables among them.
    loaded: f64,
    /// Bytes of all its predecessors.
    predecessors: f64,
}

/// What all workers share.
#[derive(Default)]
struct Shared {
    disk: Server,
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
}

/// The graphs of each shard of a plan: exact for each number of edges, spread over its shards by
/// their estimates.
fn graphs_of_shards(plan: &Plan) -> Vec<f64> {
    let exact = graphs_by_size(plan.order);
    let mut estimated = vec![0.0; exact.len()];
    for shard in &plan.shards {
        estimated[shard.size] += shard.estimate as f64;
    }
    let share =
        |shard: &Shard| shard.estimate as f64 * (exact[shard.size] as f64 / estimated[shard.size]);
    plan.shards.iter().map(share).collect()
}

/// Answers a question for given machines. Order 12 takes about half a minute.
pub fn simulate(question: &Question, calibration: Calibration, cluster: Cluster) -> Forecast {
    let Question { game, goal, options, .. } = *question;
    let mut census = Census::new(*question, calibration, cluster);
    let mut last = None;
    for order in 1..=goal.order {
        let plan =
            Arc::new(Plan::new(game.layout(), order, options).limited(goal.max_size(order)));
        census.run(plan.clone(), order == goal.order);
        last = Some(plan);
    }
    let plan = last.expect("orders start at 1");
    let (graphs, pairs) = totals(goal.order, plan.max_size);
    let bytes = entry_bytes(game.layout(), goal.order) as u64;
    let sizes = &graphs_by_size(goal.order)[..=plan.max_size];
    let of_shards = graphs_of_shards(&plan);
    let inputs = plan.shards.iter().map(|shard| {
        let read: f64 = shard.predecessors.iter().map(|&p| of_shards[p as usize]).sum();
        let read = read as u64 * bytes;
        (read, read * u64::from(shard.parts))
    });
    let (largest, uncached) =
        inputs.fold((0, 0), |(largest, sum), (one, all)| (one.max(largest), sum + all));
    let units = plan.shards.iter().map(|shard| u64::from(shard.parts)).sum();
    Forecast {
        order: goal.order,
        max_size: plan.limit(),
        shards: plan.shards.len(),
        units,
        graphs,
        pairs,
        bytes_stored: graphs * bytes,
        bytes_widest: sizes.windows(2).map(|pair| pair[0] + pair[1]).max().unwrap_or(graphs)
            * bytes,
        bytes_read_uncached: uncached,
        bytes_largest_input: largest,
        core_seconds: pairs as f64 * calibration.pair + units as f64 * calibration.unit,
        calibration,
        cluster,
        simulated: census.finish(),
    }
}

/// A census that is simulated order by order.
struct Census {
    question: Question,
    calibration: Calibration,
    cluster: Cluster,
    /// Seconds since the start.
    now: f64,
    shared: Shared,
    workers: Vec<Worker>,
    /// The graphs of each shard of the order before, and that order's plan.
    before: Option<(Arc<Plan>, Vec<f64>)>,
    /// Bytes of orders that are done, by what is kept.
    done: Kept,
    /// Bytes of the keys of the order before, which the next is generated from.
    parents_bytes: f64,
    result: Simulated,
}

/// A lease, from the moment when its units are handed out until they are accepted.
struct Lease {
    worker: usize,
    units: Vec<Unit>,
    stage: Stage,
    /// Graphs of its units, as the plan estimates them.
    graphs: u64,
    /// Bytes that are fetched, made, and read by trials.
    read: f64,
    made: f64,
    tried: f64,
    /// Seconds of a core to solve it, for the coordinator to count it again, and to try records.
    solving: f64,
    counting: f64,
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

impl Census {
    fn new(question: Question, calibration: Calibration, cluster: Cluster) -> Self {
        Census {
            question,
            calibration,
            cluster,
            now: 0.0,
            shared: Shared::default(),
            workers: Vec::new(),
            before: None,
            done: Kept::default(),
            parents_bytes: 0.0,
            result: Simulated::default(),
        }
    }

    /// Runs an order to its end.
    fn run(&mut self, plan: Arc<Plan>, is_last: bool) {
        let graphs = graphs_of_shards(&plan);
        let order =
            OrderInWork { plan: plan.clone(), graphs, readers: Readers::new(plan.clone()) };
        let parents = vec![Content::default(); plan.shards.len()];
        let mut schedule = Schedule::new(plan.clone(), parents, HashMap::new());
        let author = Author::default();
        // Their caches hold nothing that this order reads.
        self.workers = (0..self.cluster.workers()).map(|_| Worker::new(&self.cluster)).collect();
        let slots = self.cluster.slots() * self.workers.len();
        // Results of remote workers come as one message.
        let entry = entry_bytes(plan.layout, plan.order) as u64;
        let together = match self.cluster.nodes {
            Some(_) => service::together_bytes(self.cluster.message_memory) / entry,
            None => u64::MAX,
        };
        let mut store = StoreInWork::new(&plan, is_last);
        // What happens next, to leases by their slots; at one time, what was set off first.
        let mut events: BinaryHeap<Reverse<(Moment, u64, usize)>> = BinaryHeap::new();
        let mut number = 0;
        let mut leases: Vec<Option<Lease>> = (0..slots).map(|_| None).collect();
        // Slots take turns, so that all workers get something of what is ready.
        let mut idle: VecDeque<usize> = (0..slots).collect();
        // Parts of shards that a worker has solved alone wait for the others in its memory.
        let mut aside: HashMap<u32, u64> = HashMap::new();
        loop {
            for _ in 0..idle.len() {
                let Some(slot) = idle.pop_front() else { break };
                let of = self.workers.len();
                let worker = slot % of;
                let Some(room) = self.workers[worker].room.offer() else {
                    idle.push_back(slot);
                    continue;
                };
                let share = Share { index: worker, of };
                let asked =
                    Asked { threads: of * self.cluster.cores, share, room: room.min(together) };
                let units = schedule.lease(asked, &author, &[]);
                if units.is_empty() {
                    idle.push_front(slot);
                    break;
                }
                leases[slot] = Some(self.begin(&order, worker, units));
                number += 1;
                events.push(Reverse((Moment(self.now), number, slot)));
            }
            let Some(Reverse((Moment(now), _, slot))) = events.pop() else { break };
            self.now = now;
            let lease = leases[slot].as_mut().expect("events are about leases");
            if lease.stage != Stage::Accepted {
                let at = self.advance(lease);
                number += 1;
                events.push(Reverse((Moment(at), number, slot)));
                continue;
            }
            let lease = leases[slot].take().expect("just looked at");
            for &unit in &lease.units {
                let retired = schedule.finish(unit, Content::default());
                self.keep(&order, lease.worker, unit, &mut aside);
                store.add(&order.graphs, unit);
                for shard in retired {
                    store.retire(shard, order.graphs[shard as usize]);
                    let tables = &mut self.workers[lease.worker].tables;
                    let buckets = 1u32 << plan.shards[shard as usize].bucket_bits;
                    (0..buckets).for_each(|bucket| tables.remove(&(shard, bucket)));
                }
            }
            self.note_store(&store);
            self.workers[lease.worker].room.give_back(lease.graphs);
            idle.push_back(slot);
        }
        debug_assert!(schedule.is_done());
        self.now = self.now.max(self.shared.disk.free);
        self.close(&plan, order.graphs, store);
    }

    /// A lease that a worker takes now: what it will read and make.
    fn begin(&mut self, order: &OrderInWork, worker: usize, units: Vec<Unit>) -> Lease {
        let OrderInWork { plan, graphs, .. } = order;
        let Calibration { pair, unit: each_unit, recount } = self.calibration;
        let entry = entry_bytes(plan.layout, plan.order) as f64;
        let (mut read, mut made, mut tried, mut solving, mut trying) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for together in units.chunk_by(|one, other| one.shard == other.shard) {
            let shard = &plan.shards[together[0].shard as usize];
            let count = graphs[together[0].shard as usize] / f64::from(shard.parts);
            let all = count * together.len() as f64;
            let again = together.len() < shard.parts as usize;
            let input = self.read(order, worker, together[0].shard, all, again);
            read += input.read;
            solving += all * shard.size as f64 * pair
                + together.len() as f64 * each_unit
                + input.loaded * LOAD;
            made += all * entry;
            let (is_own, whole) = (self.cluster.nodes.is_none(), count.ceil() as u64);
            let (evidence, reading) =
                Odds::of(plan, together[0], whole, self.question.trial_rate, is_own);
            for odds in evidence.into_iter().chain([reading]) {
                let records = odds.unit * odds.records_of(whole) as f64;
                trying += records * together.len() as f64 * TRIED_RECORD;
            }
            tried += tried_bytes(plan, shard, reading, count, input.predecessors)
                * together.len() as f64;
            let untried = evidence.map_or(1.0, |odds| 1.0 - odds.unit) * (1.0 - reading.unit);
            self.result.units_tried += (1.0 - untried) * together.len() as f64;
            self.result.bytes_in_units_tried += (1.0 - untried) * all * entry;
        }
        let counting = if self.cluster.nodes.is_some() { made / entry * recount } else { 0.0 };
        let in_work = units.iter().map(|&unit| plan.graphs(unit)).sum();
        let Worker { room, aside_bytes, .. } = &mut self.workers[worker];
        room.lease(0, in_work);
        let memory = self.cluster.memory;
        let beside = room.taken() * memory::GRAPH_BYTES + *aside_bytes;
        let at_once = (memory / 8 * 7).saturating_add(beside).max(memory);
        let result = &mut self.result;
        result.worker_memory = result.worker_memory.max(at_once);
        result.bytes_made += made as u64;
        result.bytes_read += read as u64;
        result.bytes_read_by_trials += tried as u64;
        result.busy.solving_core_seconds += solving;
        result.busy.counting_core_seconds += counting;
        if self.cluster.nodes.is_some() {
            let sent = if self.cluster.depot.is_some() { 0.0 } else { read };
            result.bytes_through_coordinator += (sent + made) as u64;
        }
        let stage = Stage::Read;
        Lease {
            worker,
            units,
            stage,
            graphs: in_work,
            read,
            made,
            tried,
            solving,
            counting,
            trying,
        }
    }

    /// Takes a lease to its next stage: when it has come there.
    fn advance(&mut self, lease: &mut Lease) -> f64 {
        let Cluster { nodes, cores, network, disk, depot, .. } = self.cluster;
        let Lease { read, made, tried, solving, counting, trying, .. } = *lease;
        let (is_remote, cores) = (nodes.is_some(), cores as f64);
        let Shared { disk: disk_server, network: coordinator, depot: depot_server, .. } =
            &mut self.shared;
        let worker = &mut self.workers[lease.worker];
        let now = self.now;
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
            Stage::Take => (Stage::Count, serve(coordinator, made / network)),
            Stage::Count => (Stage::Try, serve(&mut self.shared.counting, counting / cores)),
            Stage::Try => {
                let read = serve(disk_server, tried / disk);
                let seconds = tried / TRIED_BYTES + trying;
                let together = trial::TOGETHER.min(self.cluster.cores) as f64;
                (Stage::Write, serve(&mut self.shared.trials, seconds / together).max(read))
            }
            // What is solved in the coordinator's process does not wait for the disk.
            Stage::Write => {
                let written = serve(disk_server, made / disk);
                (Stage::Accepted, if is_remote { written } else { now })
            }
            Stage::Accepted => (Stage::Accepted, now),
        };
        lease.stage = next;
        at
    }

    /// What so many graphs of a shard read that are solved together now, others perhaps again.
    fn read(
        &mut self,
        order: &OrderInWork,
        worker: usize,
        index: u32,
        count: f64,
        again: bool,
    ) -> Input {
        let OrderInWork { plan, graphs, readers } = order;
        let shard = &plan.shards[index as usize];
        let entry = entry_bytes(plan.layout, plan.order) as f64;
        let Cluster { memory, cores, .. } = self.cluster;
        let allowance = memory::allowance_bytes(memory as usize, cores);
        let Worker { tables, parents, lately, now, .. } = &mut self.workers[worker];
        *now = index;
        let mut input = Input::default();
        if let Some((before, of_parents)) = &self.before {
            let slot = slot_bytes(before.order) as f64;
            for parent in shard.sequence.parents() {
                let Some(list) = before.find(&parent.sequence) else { continue };
                if !parents.read(&list, lately.next()) {
                    let of_list = of_parents[list as usize];
                    input.read += of_list * slot;
                    parents.put(list, (of_list * 8.0) as usize + 64, 0, |_| lately.next(), |_| ());
                }
            }
        }
        for (predecessor, rounds) in readings(plan, shard, count as usize, allowance) {
            let from = &plan.shards[predecessor as usize];
            let buckets = 1u32 << from.bucket_bits;
            let each = graphs[predecessor as usize] / f64::from(buckets);
            input.predecessors += each * f64::from(buckets) * entry;
            for bucket in (0..rounds).flat_map(|_| 0..buckets) {
                let key = (predecessor, bucket);
                if !tables.contains(&key) {
                    let heads = u64::from(from.parts) * BLOCK_BYTES;
                    input.read += each * entry + heads as f64;
                    input.loaded += each;
                    let next = |key: &(u32, u32)| readers.next(key.0, index);
                    tables.put(key, memory_bytes(entry, each) as usize, index, next, |_| ());
                }
                tables
                    .read(&key, readers.next(predecessor, if again { index } else { index + 1 }));
            }
        }
        input
    }

    /// What a worker keeps of what it has solved.
    fn keep(
        &mut self,
        order: &OrderInWork,
        worker: usize,
        unit: Unit,
        aside: &mut HashMap<u32, u64>,
    ) {
        let OrderInWork { plan, graphs, readers } = order;
        let shard = &plan.shards[unit.shard as usize];
        let entry = entry_bytes(plan.layout, plan.order) as f64;
        let Worker { tables, aside_bytes, now, .. } = &mut self.workers[worker];
        if shard.parts > 1 {
            let budget = memory::cache_bytes(self.cluster.memory as usize);
            if self.cluster.nodes.is_some() || !cache::is_kept_aside(plan, shard, budget) {
                return;
            }
            let part = memory_bytes(entry, graphs[unit.shard as usize] / f64::from(shard.parts));
            let waiting = aside.entry(unit.shard).or_default();
            *waiting += part;
            *aside_bytes += part;
            if *waiting < part * u64::from(shard.parts) {
                return;
            }
            *aside_bytes -= aside.remove(&unit.shard).unwrap_or(0);
        }
        let buckets = 1u32 << shard.bucket_bits;
        let each = memory_bytes(entry, graphs[unit.shard as usize] / f64::from(buckets));
        let next = |key: &(u32, u32)| readers.next(key.0, *now);
        for bucket in 0..buckets {
            tables.put((unit.shard, bucket), each as usize, *now, next, |_| ());
        }
    }

    fn note_store(&mut self, store: &StoreInWork) {
        let listed = self.question.game.about().listed_one_in as f64;
        let wins = |slots: f64| slots / listed;
        let most = |kept: &mut u64, bytes: f64| *kept = (*kept).max(bytes as u64);
        let Totals { records, slots, outcomes, outcomes_alive, alive } = store.totals;
        let Kept { all, graphs, minimal } = &mut self.result.store;
        most(all, self.done.all as f64 + records + slots + outcomes + wins(slots));
        most(
            graphs,
            self.done.graphs as f64
                + self.parents_bytes
                + records
                + slots
                + outcomes_alive
                + wins(slots),
        );
        let done = self.done.minimal as f64;
        most(minimal, done + self.parents_bytes + records + alive + wins(slots));
    }
}

impl Census {
    /// Ends an order: what stays of it is the next one's parents, and what is kept.
    fn close(&mut self, plan: &Arc<Plan>, graphs: Vec<f64>, store: StoreInWork) {
        let Totals { records, slots, outcomes, outcomes_alive, .. } = store.totals;
        let wins = slots / self.question.game.about().listed_one_in as f64;
        self.done.all += (records + slots + outcomes + wins) as u64;
        self.done.graphs += (records + wins + outcomes_alive) as u64;
        self.done.minimal += (records + wins + outcomes_alive) as u64;
        self.parents_bytes = slots;
        self.before = Some((plan.clone(), graphs));
    }

    fn finish(self) -> Simulated {
        let Shared { disk, network, depot, trials, .. } = self.shared;
        let busy = Busy {
            trials: trials.busy,
            network: network.busy,
            disk: disk.busy,
            depot: depot.busy,
            ..self.result.busy
        };
        Simulated { wall_seconds: self.now, labellings_per_pair: 1.0, busy, ..self.result }
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

/// What the store holds of the order in work.
struct StoreInWork<'a> {
    plan: &'a Plan,
    /// Whether graphs of the order may go before its end.
    is_last: bool,
    totals: Totals,
}

/// Bytes of an order in the store.
#[derive(Clone, Copy, Default)]
struct Totals {
    records: f64,
    slots: f64,
    outcomes: f64,
    /// Of the outcomes, those that are still to be read, or stay.
    outcomes_alive: f64,
    /// Slots and outcomes of which one or the other is, with `--keep minimal`.
    alive: f64,
}

impl<'a> StoreInWork<'a> {
    fn new(plan: &'a Plan, is_last: bool) -> Self {
        StoreInWork { plan, is_last, totals: Totals::default() }
    }

    fn entry(&self) -> (f64, f64) {
        let slot = slot_bytes(self.plan.order);
        (slot as f64, (entry_bytes(self.plan.layout, self.plan.order) - slot) as f64)
    }

    /// A unit is durable.
    fn add(&mut self, graphs: &[f64], unit: Unit) {
        let shard = &self.plan.shards[unit.shard as usize];
        let count = graphs[unit.shard as usize] / f64::from(shard.parts);
        let (slot, outcome) = self.entry();
        let totals = &mut self.totals;
        totals.records += RECORD_BYTES as f64;
        totals.slots += count * slot;
        totals.outcomes += count * outcome;
        totals.outcomes_alive += count * outcome;
        totals.alive += count * (slot + outcome);
    }

    /// Nothing reads a shard any more.
    fn retire(&mut self, shard: u32, graphs: f64) {
        let size = self.plan.shards[shard as usize].size;
        let is_retired = |is_the_end| self.plan.retired_size(is_the_end) >= Some(size);
        let (slot, outcome) = self.entry();
        if is_retired(false) {
            self.totals.outcomes_alive -= graphs * outcome;
        }
        if is_retired(self.is_last) {
            self.totals.alive -= graphs * if self.is_last { slot + outcome } else { outcome };
        }
    }
}

/// Seconds since the start, none of which is NaN.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Bytes of memory of a table of so many entries: each with the bytes it has on disk, and a
/// directory with a place of four bytes for one or two of them.
fn memory_bytes(entry: f64, count: f64) -> u64 {
    let places = (count.max(1.0) as u64 + 1).next_power_of_two() / 2;
    (count * entry) as u64 + 4 * places + 200
}
