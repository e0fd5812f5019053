//! A census as it would run on given machines. Units are leased by the real schedule; how long
//! they take, what they read and what is stored follows from the plan. Numbers of graphs are exact
//! for each number of edges and spread over its shards by their estimates. Nothing is random, so
//! the same question has the same answer.
//!
//! What is left out: the latency of requests, the start of processes, what a file system caches,
//! threads that wait for each other within a unit, that a unit reads while it labels, and that a pair
//! takes longer where graphs of a larger order have few edges.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

use serde::Serialize;
use trailtrap_census::{
    core::{
        order::SIZES_KEPT,
        schedule::{Asked, Schedule, Share},
    },
    records::Author,
    store::parity_bytes,
};
use trailtrap_shared::{
    game::GameName,
    graph::polya::totals,
    partition::{Content, entry_bytes},
    plan::{Goal, Plan, PlanOptions, Unit},
};

use super::{
    Calibration, Cluster,
    machines::{Lease, Machines, blocks_of, graphs_of_shards, stored_bytes, stored_slot},
};
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
    /// How often units were leased.
    pub leases: u64,
    /// Deletions that are labelled for each (graph, edge) pair, which the kernel does once.
    pub labellings_per_pair: f64,
    /// Bytes of keys and outcomes that are solved.
    pub bytes_made: u64,
    /// Bytes of blocks that workers read and did not have in their caches.
    pub bytes_read: u64,
    /// The share of the tables that units read which their workers had in their caches.
    pub found_in_cache: f64,
    /// Of what is read, bytes that the coordinator sends; and of what is made, what is sent to it,
    /// or what it reads in the depot to count it again.
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
    /// Of all solving threads together: loading what is read and making blocks included, and in one
    /// process trials.
    pub solving_core_seconds: f64,
    /// Of the coordinator's cores together: taking in what workers deliver, and counting it again.
    pub counting_core_seconds: f64,
    /// Of all workers' cores together: counting what others have solved.
    pub counting_elsewhere_core_seconds: f64,
    /// Of the turns of trials, a few at a time.
    pub trials: f64,
    /// Of the coordinator's network interface.
    pub network: f64,
    /// Of the coordinator's disk.
    pub disk: f64,
    /// Of the depot.
    pub depot: f64,
}

/// Bytes of a unit's record in the store, about, its key and the journal included.
const RECORD_BYTES: u64 = 1000;

/// Answers a question for given machines. Order 12 takes about half a minute.
pub fn simulate(question: &Question, calibration: Calibration, cluster: Cluster) -> Forecast {
    let Question { game, goal, options, .. } = *question;
    let mut census = Census::new(*question, calibration, cluster);
    let mut last = None;
    for order in 1..=goal.order {
        let max_size = goal.max_size(order);
        let plan = Arc::new(Plan::up_to(game.layout(), order, options, max_size));
        census.run(plan.clone(), order == goal.order);
        last = Some(plan);
    }
    let plan = last.expect("orders start at 1");
    let (graphs, pairs) = totals(goal.order, plan.max_size);
    let of_shards = stored_bytes(&plan, &graphs_of_shards(&plan));
    let mut of_sizes = vec![0.0; plan.max_size + 1];
    for (shard, bytes) in plan.shards.iter().zip(&of_shards) {
        of_sizes[shard.size] += bytes;
    }
    let stored: f64 = of_sizes.iter().sum();
    let widest = of_sizes.windows(2).map(|pair| pair[0] + pair[1]).reduce(f64::max);
    let inputs = plan.shards.iter().map(|shard| {
        let read: f64 = shard.predecessors.iter().map(|&p| of_shards[p as usize]).sum();
        (read as u64, read as u64 * u64::from(shard.parts))
    });
    let (largest, uncached) =
        inputs.fold((0, 0), |(largest, sum), (one, all)| (one.max(largest), sum + all));
    let units = plan.unit_count();
    Forecast {
        order: goal.order,
        max_size: plan.limit(),
        shards: plan.shards.len(),
        units,
        graphs,
        pairs,
        bytes_stored: stored as u64,
        bytes_widest: widest.unwrap_or(stored) as u64,
        bytes_read_uncached: uncached,
        bytes_largest_input: largest,
        core_seconds: census.machines.solved_seconds(),
        calibration,
        cluster,
        simulated: census.finish(),
    }
}

/// A census that is simulated order by order.
struct Census {
    question: Question,
    cluster: Cluster,
    /// Seconds since the start.
    now: f64,
    machines: Machines,
    /// The store at its fullest moment so far.
    fullest: Kept,
    /// Bytes of orders that are done, by what is kept.
    done: Kept,
    /// Bytes of the keys of the order before, which the next is generated from.
    parents_bytes: f64,
}

impl Census {
    fn new(question: Question, calibration: Calibration, cluster: Cluster) -> Self {
        Census {
            question,
            cluster,
            now: 0.0,
            machines: Machines::new(question, calibration, cluster),
            fullest: Kept::default(),
            done: Kept::default(),
            parents_bytes: 0.0,
        }
    }

    /// Runs an order to its end.
    fn run(&mut self, plan: Arc<Plan>, is_last: bool) {
        self.machines.begin_order(&plan);
        let parents = vec![Content::default(); plan.shards.len()];
        let mut schedule = Schedule::new(plan.clone(), parents, HashMap::new());
        let author = Author::default();
        let of = self.cluster.workers();
        let slots = self.cluster.slots() * of;
        // Results of remote workers come as one message, unless they lie in the depot.
        let entry = entry_bytes(plan.layout, plan.order) as u64;
        let together = match self.cluster.nodes {
            Some(_) if self.cluster.depot.is_none() => {
                service::together_bytes(self.cluster.message_memory) / entry
            }
            _ => u64::MAX,
        };
        let mut store = StoreInWork::new(&plan, is_last);
        // What happens next, to leases by their slots; at one time, what was set off first.
        let mut events: BinaryHeap<Reverse<(Moment, u64, usize)>> = BinaryHeap::new();
        let mut number = 0;
        let mut leases: Vec<Option<Lease>> = (0..slots).map(|_| None).collect();
        // Slots take turns, so that all workers get something of what is ready.
        let mut idle: VecDeque<usize> = (0..slots).collect();
        loop {
            for _ in 0..idle.len() {
                let Some(slot) = idle.pop_front() else { break };
                let worker = slot % of;
                let Some(room) = self.machines.room(worker).offer() else {
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
                leases[slot] = Some(self.machines.begin(worker, units, 0));
                number += 1;
                events.push(Reverse((Moment(self.now), number, slot)));
            }
            let Some(Reverse((Moment(now), _, slot))) = events.pop() else { break };
            self.now = now;
            let lease = leases[slot].as_mut().expect("events are about leases");
            if !lease.is_accepted() {
                let at = self.machines.advance(lease, now);
                number += 1;
                events.push(Reverse((Moment(at), number, slot)));
                continue;
            }
            let lease = leases[slot].take().expect("just looked at");
            self.machines.end(&lease, true);
            for &unit in &lease.units {
                let retired = schedule.finish(unit, Content::default());
                store.add(self.machines.graphs(unit.shard), unit);
                for &shard in &retired {
                    store.retire(shard, self.machines.graphs(shard));
                }
                store.drop_kept(schedule.first_unfinished_size());
                // Workers elsewhere are not told.
                if self.cluster.nodes.is_none() {
                    self.machines.retire(lease.worker, &retired);
                }
            }
            self.note_store(&store);
            idle.push_back(slot);
        }
        debug_assert!(schedule.is_done());
        self.now = self.now.max(self.machines.is_durable_at());
        self.close(store);
    }

    fn note_store(&mut self, store: &StoreInWork) {
        let listed = self.question.game.about().listed_one_in as f64;
        let wins = |slots: f64| slots / listed;
        let most = |kept: &mut u64, bytes: f64| *kept = (*kept).max(bytes as u64);
        let Totals { records, slots, outcomes, outcomes_alive, alive } = store.totals;
        let Kept { all, graphs, minimal } = &mut self.fullest;
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

    /// Ends an order: what stays of it is the next one's parents, and what is kept.
    fn close(&mut self, store: StoreInWork) {
        let Totals { records, slots, outcomes, outcomes_alive, .. } = store.totals;
        let wins = slots / self.question.game.about().listed_one_in as f64;
        self.done.all += (records + slots + outcomes + wins) as u64;
        self.done.graphs += (records + wins + outcomes_alive) as u64;
        self.done.minimal += (records + wins + outcomes_alive) as u64;
        self.parents_bytes = slots;
    }

    fn finish(self) -> Simulated {
        Simulated { wall_seconds: self.now, store: self.fullest, ..self.machines.taken() }
    }
}

/// What the store holds of the order in work.
struct StoreInWork<'a> {
    plan: &'a Plan,
    /// Whether graphs of the order may go before its end.
    is_last: bool,
    totals: Totals,
    /// By number of edges: bytes of outcomes that nothing reads any more, and that are kept in case
    /// that something has to be solved again.
    kept: BTreeMap<usize, f64>,
}

/// Bytes of an order in the store.
#[derive(Clone, Copy, Default)]
struct Totals {
    records: f64,
    slots: f64,
    outcomes: f64,
    /// Of the outcomes, those that are still to be read, or stay, or are kept for a while.
    outcomes_alive: f64,
    /// Slots and outcomes of shards that are there for any of these reasons, with `--keep minimal`.
    alive: f64,
}

impl<'a> StoreInWork<'a> {
    fn new(plan: &'a Plan, is_last: bool) -> Self {
        StoreInWork { plan, is_last, totals: Totals::default(), kept: BTreeMap::new() }
    }

    /// Bytes of the slots and of the outcomes of a shard of so many graphs, with their parities.
    fn stored(&self, shard: u32, graphs: f64) -> (f64, f64) {
        let shard = &self.plan.shards[shard as usize];
        let blocks = blocks_of(shard);
        let with_parities =
            |bytes: f64| bytes + blocks * parity_bytes((bytes / blocks) as usize) as f64;
        let outcome = self.plan.layout.record_bytes(self.plan.order) as f64;
        let slot = stored_slot(self.plan, shard, graphs);
        (with_parities(graphs * slot), with_parities(graphs * outcome))
    }

    /// A unit of a shard of so many graphs is durable.
    fn add(&mut self, graphs: f64, unit: Unit) {
        let parts = f64::from(self.plan.shard_of(unit).parts);
        let (slots, outcomes) = self.stored(unit.shard, graphs);
        let totals = &mut self.totals;
        totals.records += RECORD_BYTES as f64;
        totals.slots += slots / parts;
        totals.outcomes += outcomes / parts;
        totals.outcomes_alive += outcomes / parts;
        totals.alive += (slots + outcomes) / parts;
    }

    /// Nothing reads a shard any more.
    fn retire(&mut self, shard: u32, graphs: f64) {
        let size = self.plan.shards[shard as usize].size;
        let is_retired = |is_the_end| self.plan.retired_size(is_the_end) >= Some(size);
        let (slots, outcomes) = self.stored(shard, graphs);
        if is_retired(false) {
            *self.kept.entry(size).or_default() += outcomes;
        }
        if self.is_last && is_retired(true) {
            self.totals.alive -= slots + outcomes;
        }
    }

    /// Drops what is kept no longer when this is the fewest edges of a shard that is not done.
    fn drop_kept(&mut self, first_unfinished: Option<usize>) {
        let first = first_unfinished.map_or(usize::MAX, |size| size.saturating_sub(SIZES_KEPT));
        while let Some(entry) = self.kept.first_entry().filter(|entry| *entry.key() < first) {
            let outcomes = entry.remove();
            self.totals.outcomes_alive -= outcomes;
            if !self.is_last {
                self.totals.alive -= outcomes;
            }
        }
    }
}

/// Seconds since the start, none of which is NaN.
#[derive(Clone, Copy, PartialEq)]
pub struct Moment(pub f64);

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
