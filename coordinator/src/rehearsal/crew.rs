//! The workers of a rehearsal: each has a connection of its own and does what a worker does (asks
//! for work, renews its leases, delivers), but sleeps as long as the machines would take.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Endpoint},
};
use trailtrap_census::{
    core::random::Random,
    driver::{Census, GATHER, GATHER_AWAITED},
};
use trailtrap_shared::{
    labelling::LABELLING,
    partition::BLOCK_FORMAT,
    plan::{Plan, Unit},
    protocol::{
        messages,
        wire::{self, PROTOCOL, census_client::CensusClient, lease_reply::Answer},
    },
};
use trailtrap_worker::link::grpc;

use super::{
    clock::{Clock, Hold},
    invention::Invention,
};
use crate::forecast::{Cluster, Lease, Machines};

/// What all workers share.
pub struct Crew {
    address: String,
    cluster: Cluster,
    /// Where plans come from: so there is one for all.
    census: Arc<Census>,
    invention: Invention,
    clock: Clock,
    /// The share of leases at whose end the process of the worker dies.
    losses: f64,
    stop: CancellationToken,
    state: Mutex<State>,
    /// Of each worker: wakes those who wait for room.
    returned: Vec<Notify>,
    counters: Counters,
}

struct State {
    machines: Machines,
    /// The order in work.
    plan: Option<Arc<Plan>>,
    /// Its units that are not accepted.
    units_left: usize,
    accepted: HashSet<Unit>,
    /// Since the last unit of the order before was accepted; at first, since all began.
    opening: Option<(Instant, Hold)>,
    random: Random,
    tally: Tally,
}

/// What has happened to leases.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Units that were accepted, of all orders.
    pub units: u64,
    /// Units that were accepted though they had been before, which does not happen.
    pub units_again: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Those of them that went down with their worker, and expired.
    pub leases_lost: u64,
    /// Those that had expired when their results came.
    pub leases_void: u64,
    /// Workers that have died.
    pub workers_lost: u64,
}

/// What has happened, and how long it took.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What has happened.
    pub counts: Counts,
    /// Seconds from the last unit of each order, by the clock of this machine, to the first lease
    /// of the next.
    pub openings: Vec<f64>,
    /// Seconds that deliveries took to be answered.
    pub deliveries: Vec<f32>,
    /// The same of heartbeats.
    pub heartbeats: Vec<f32>,
}

/// Calls.
#[derive(Default)]
struct Counters {
    calls: AtomicU64,
    /// Those that were answered by an error, and made again.
    repeated: AtomicU64,
}

/// Why a worker has come to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It has heard that all is done, or that it is to stop.
    Ended,
    /// It is dead, and another takes its place.
    Dead,
}

/// What became of a request for work.
enum Leased {
    /// There was no work.
    Nothing,
    /// The work is done, and is to be delivered.
    Done(Begun),
    /// The worker asks for no more.
    Last(Outcome),
}

/// A worker's process.
struct Process {
    node: usize,
    client: CensusClient<Channel>,
    /// Its number, which the coordinator gave.
    worker: u64,
    /// Leases that heartbeats renew.
    held: Mutex<Vec<u64>>,
    /// Held by the slot that asks for work.
    asking: tokio::sync::Mutex<()>,
    dead: CancellationToken,
}

/// A lease that is in work.
struct Begun {
    number: u64,
    plan: Arc<Plan>,
    lease: Lease,
    /// Graphs of the shards of its units.
    graphs: Vec<f64>,
    /// How long it has taken, when it is done.
    elapsed: Duration,
}

/// A request for work that is not answered for so long waits for others to be done, mostly.
const QUIET: Duration = Duration::from_millis(1);
/// Pauses before a call is made again, by the clock of this machine.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

impl Crew {
    /// The workers on these machines, which will call the coordinator of this census at `address`.
    pub fn new(
        address: String,
        census: Arc<Census>,
        machines: Machines,
        invention: Invention,
        clock: Clock,
        losses: f64,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let (cluster, opening) = (machines.cluster(), Some((Instant::now(), clock.hold())));
        Arc::new(Crew {
            address,
            cluster,
            census,
            invention,
            clock,
            losses,
            stop,
            state: Mutex::new(State {
                machines,
                plan: None,
                units_left: 0,
                accepted: HashSet::new(),
                opening,
                random: Random(1),
                tally: Tally::default(),
            }),
            returned: (0..cluster.workers()).map(|_| Notify::new()).collect(),
            counters: Counters::default(),
        })
    }

    /// Seconds of the census that have passed.
    pub fn now(&self) -> f64 {
        self.clock.now()
    }

    /// What has happened so far.
    pub fn tally(&self) -> Tally {
        self.state.lock().tally.clone()
    }

    /// What the machines have done so far.
    pub fn machines<T>(&self, look: impl FnOnce(&Machines) -> T) -> T {
        look(&self.state.lock().machines)
    }

    /// Calls that were made, and those of them that had to be made again.
    pub fn calls(&self) -> (u64, u64) {
        let Counters { calls, repeated } = &self.counters;
        (calls.load(Ordering::Relaxed), repeated.load(Ordering::Relaxed))
    }

    /// Works until all is done or it is stopped.
    ///
    /// # Errors
    /// If the coordinator refuses what a worker of this program may ask for.
    pub async fn work(self: Arc<Self>) -> Result<(), Status> {
        let clock = tokio::spawn(self.clock.clone().run());
        let mut nodes = JoinSet::new();
        (0..self.cluster.workers()).for_each(|node| drop(nodes.spawn(self.clone().node(node))));
        while let Some(ended) = nodes.join_next().await {
            ended.map_err(|error| Status::internal(error.to_string()))??;
        }
        clock.abort();
        Ok(())
    }

    /// One worker process after the other on a node.
    async fn node(self: Arc<Self>, node: usize) -> Result<(), Status> {
        for life in 0.. {
            let Some((process, pause)) = self.start(node, life).await? else { return Ok(()) };
            let process = Arc::new(process);
            let mut slots = JoinSet::new();
            for _ in 0..self.cluster.slots() {
                slots.spawn(self.clone().slot(process.clone()));
            }
            let beating = tokio::spawn(self.clone().heartbeats(process.clone(), pause));
            let mut outcome = Outcome::Ended;
            while let Some(ended) = slots.join_next().await {
                let ended = ended.map_err(|error| Status::internal(error.to_string()))??;
                if ended == Outcome::Dead {
                    outcome = Outcome::Dead;
                }
            }
            beating.abort();
            if outcome == Outcome::Ended {
                return Ok(());
            }
            let mut state = self.state.lock();
            state.machines.replace(node);
            state.tally.counts.workers_lost += 1;
            state.tally.counts.leases_lost += process.held.lock().len() as u64;
        }
        Ok(())
    }

    /// Starts a process, which registers; and how many seconds there are between its heartbeats.
    /// `None` if there is no need any more.
    async fn start(&self, node: usize, life: usize) -> Result<Option<(Process, f64)>, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
            .map_err(|error| Status::internal(error.to_string()))?;
        let client = CensusClient::new(endpoint.connect_lazy());
        let request = wire::RegisterRequest {
            protocol: PROTOCOL,
            labelling: LABELLING.into(),
            game: self.census.game().layout().number().into(),
            block_format: BLOCK_FORMAT.into(),
            name: format!("rehearsed-{node}-{life}"),
            threads: self.cluster.cores as u32,
            kernel: "none".to_owned(),
            memory: self.cluster.memory,
            shelf: None,
        };
        let register = || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.register(request).await }
        };
        let Some(reply) = self.persist(register).await? else { return Ok(None) };
        let process = Process {
            node,
            client: client.clone(),
            worker: reply.worker,
            held: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            dead: self.stop.child_token(),
        };
        Ok(Some((process, f64::from(reply.heartbeat_milliseconds) / 1000.0)))
    }

    /// Makes a call until it is answered. `None` if it is stopped meanwhile.
    async fn persist<T, F>(&self, call: impl Fn() -> F) -> Result<Option<T>, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let [mut pause, longest] = PAUSES;
        loop {
            self.counters.calls.fetch_add(1, Ordering::Relaxed);
            let status = tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                answer = call() => match answer {
                    Ok(answer) => return Ok(Some(answer.into_inner())),
                    Err(status) => status,
                },
            };
            if !grpc::is_passing(&status) {
                return Err(status);
            }
            self.counters.repeated.fetch_add(1, Ordering::Relaxed);
            sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }

    /// Renews the leases of a process for as long as it lives.
    async fn heartbeats(self: Arc<Self>, process: Arc<Process>, pause: f64) {
        while !process.dead.is_cancelled() {
            let request = wire::HeartbeatRequest {
                worker: process.worker,
                leases: process.held.lock().clone(),
            };
            let asked = Instant::now();
            self.counters.calls.fetch_add(1, Ordering::Relaxed);
            let _ = process.client.clone().heartbeat(request).await;
            self.state.lock().tally.heartbeats.push(asked.elapsed().as_secs_f32());
            self.clock.sleep_until(self.clock.now() + pause).await;
        }
    }

    /// One of the leases that a process has in work at a time, and then the next.
    async fn slot(self: Arc<Self>, process: Arc<Process>) -> Result<Outcome, Status> {
        let mut has_waited = false;
        loop {
            let leased = tokio::select! {
                () = process.dead.cancelled() => return Ok(Outcome::Ended),
                leased = self.lease(&process, has_waited) => leased,
            };
            has_waited = matches!(leased, Ok(Leased::Nothing));
            let outcome = match leased {
                Ok(Leased::Nothing) => None,
                // What has begun to be delivered comes in, though the process may die meanwhile.
                Ok(Leased::Done(begun)) => self.deliver(&process, &begun).await.map(|()| None)?,
                Ok(Leased::Last(outcome)) => Some(outcome),
                // It was silent for so long that the coordinator has forgotten it.
                Err(status) if status.code() == Code::NotFound => Some(Outcome::Dead),
                Err(status) => return Err(status),
            };
            if let Some(outcome) = outcome {
                process.dead.cancel();
                return Ok(outcome);
            }
        }
    }

    /// Asks for work, and does it if there is some, but for the delivery. Whoever has just heard
    /// that there is none does not hold the time while it asks again.
    async fn lease(&self, process: &Process, has_waited: bool) -> Result<Leased, Status> {
        let (node, worker) = (process.node, process.worker);
        let turn = process.asking.lock().await;
        let (room, taken) = self.room(node).await;
        let by_name = self.cluster.depot.is_some();
        let ask = || {
            let mut client = process.client.clone();
            async move { client.lease(wire::LeaseRequest { worker, room, by_name }).await }
        };
        let mut asking = std::pin::pin!(self.persist(ask));
        let hold = (!has_waited).then(|| self.clock.hold());
        let answered = tokio::select! {
            answered = &mut asking => Some(answered),
            // There is no work now, or the coordinator is busy with something else.
            () = sleep(QUIET) => None,
        };
        drop(hold);
        let answer = match answered {
            Some(answer) => answer,
            None => asking.await,
        };
        let begun = match answer?.and_then(|reply| reply.answer) {
            Some(Answer::Grant(grant)) => {
                let hold = self.clock.hold();
                let begun = self.begin(process, &grant, taken);
                self.hold_on(hold);
                begun
            }
            Some(Answer::Finished(_)) => return Ok(Leased::Last(Outcome::Ended)),
            Some(Answer::WaitMilliseconds(_)) | None => None,
        };
        let Some(mut begun) = begun else {
            self.state.lock().machines.room(node).give_back(taken);
            self.returned[node].notify_waiters();
            return Ok(Leased::Nothing);
        };
        self.returned[node].notify_waiters();
        drop(turn);
        let began = self.clock.now();
        let mut at = began;
        while !begun.lease.is_accepted() {
            at = self.state.lock().machines.advance(&mut begun.lease, at);
            // What is solved takes less room.
            self.returned[node].notify_waiters();
            self.clock.sleep_until(at).await;
        }
        // Results are gathered for as long before a coordinator syncs its disk. Here it does not.
        let gathered = (at / f64::from(GATHER)).min(GATHER_AWAITED.as_secs_f64());
        self.clock.sleep_until(at + gathered).await;
        let is_lost = {
            let State { random, .. } = &mut *self.state.lock();
            random.chance(self.losses)
        };
        if is_lost {
            return Ok(Leased::Last(Outcome::Dead));
        }
        begun.elapsed = Duration::try_from_secs_f64(at - began).unwrap_or_default();
        Ok(Leased::Done(begun))
    }

    /// Waits for room for a lease: graphs, and the bytes that are taken for them.
    async fn room(&self, node: usize) -> (u64, u64) {
        loop {
            let returned = self.returned[node].notified();
            {
                let state = &mut *self.state.lock();
                let room = state.machines.room(node);
                if let Some(graphs) = room.offer() {
                    return (graphs, room.take(graphs));
                }
            }
            returned.await;
        }
    }

    /// Begins a lease, and its order if it is the first one. `None` if it is of an order that is
    /// over: it has expired on its way here.
    fn begin(&self, process: &Process, grant: &wire::Grant, taken: u64) -> Option<Begun> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.tally.counts.leases += 1;
        let order = grant.order as usize;
        if state.plan.as_ref().is_none_or(|plan| plan.order < order) {
            let plan = self.census.plan_in_work().filter(|plan| plan.order == order)?;
            let waited = state.opening.take().map(|(since, _)| since.elapsed());
            state.tally.openings.extend(waited.map(|waited| waited.as_secs_f64()));
            state.machines.begin_order(&plan);
            state.units_left = plan.unit_count() as usize;
            state.accepted.clear();
            state.plan = Some(plan);
        }
        let plan = state.plan.clone().filter(|plan| plan.order == order)?;
        let lease = state.machines.begin(process.node, messages::units(grant), taken);
        let graphs = lease.units.iter().map(|unit| state.machines.graphs(unit.shard)).collect();
        process.held.lock().push(grant.lease);
        Some(Begun { number: grant.lease, plan, lease, graphs, elapsed: Duration::ZERO })
    }

    /// Delivers invented results of a lease.
    async fn deliver(&self, process: &Process, begun: &Begun) -> Result<(), Status> {
        let Begun { number, plan, lease, graphs, elapsed } = begun;
        let each = *elapsed / lease.units.len().max(1) as u32;
        let results = lease
            .units
            .iter()
            .zip(graphs)
            .map(|(&unit, &graphs)| self.invention.result(plan, unit, graphs, each));
        let messages = messages::delivery(process.worker, *number, results);
        let complete = || {
            let (mut client, messages) = (process.client.clone(), messages.clone());
            async move {
                match client.complete(Request::new(tokio_stream::iter(messages))).await {
                    // It was forgotten, and its lease has expired long ago.
                    Err(status) if status.code() == Code::NotFound => {
                        Ok(Response::new(wire::CompleteReply::default()))
                    }
                    other => other,
                }
            }
        };
        let (asked, hold) = (Instant::now(), self.clock.hold());
        let reply = self.persist(complete).await?;
        self.hold_on(hold);
        process.held.lock().retain(|held| held != number);
        let Some(reply) = reply else { return Ok(()) };
        self.note(reply.accepted, &lease.units);
        let mut state = self.state.lock();
        state.tally.deliveries.push(asked.elapsed().as_secs_f32());
        state.machines.end(lease, reply.accepted);
        drop(state);
        self.returned[process.node].notify_waiters();
        Ok(())
    }

    /// Notes what became of a delivery. When it was the last of its order, nobody works until the
    /// next one is opened, which takes as long as it takes.
    fn note(&self, accepted: bool, units: &[Unit]) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if !accepted {
            state.tally.counts.leases_void += 1;
            return;
        }
        for &unit in units {
            if state.accepted.insert(unit) {
                state.tally.counts.units += 1;
                // The next order may have begun meanwhile.
                let is_of_order = |plan: &Arc<Plan>| plan.order == usize::from(unit.order);
                if state.plan.as_ref().is_some_and(is_of_order) {
                    state.units_left = state.units_left.saturating_sub(1);
                }
            } else {
                state.tally.counts.units_again += 1;
            }
        }
        if state.units_left == 0 && state.opening.is_none() {
            state.opening = Some((Instant::now(), self.clock.hold()));
        }
    }

    /// Holds the time for a moment: what was answered may lead to other answers.
    fn hold_on(&self, hold: Hold) {
        tokio::spawn(async move {
            sleep(QUIET).await;
            drop(hold);
        });
    }
}
