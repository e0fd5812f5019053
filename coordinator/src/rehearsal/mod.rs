//! Rehearsals: the real coordinator of a census, with its plan, schedule, leases, service, and
//! commits to a store on disk, and hundreds of workers on connections of their own that solve
//! nothing. They sleep as long as the forecast's machines would take, and deliver what is invented.
//! Time is compressed, but not while a delivery waits for its answer, or for a moment a request for
//! work: so what these take counts as much as in a census. What else the coordinator does, such as
//! answering heartbeats, counts as many times as time is compressed: lateness is exaggerated, and
//! never hidden. The store is one that nothing else opens, and goes in the end.
//!
//! What is left out beside the solving: blocks are empty and not read, and nothing is examined; the
//! time that takes is part of what workers sleep.

mod clock;
mod crew;
mod invention;

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::time::ClockId;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use trailtrap_census::driver::{Census, CensusError, CensusOptions};
use trailtrap_shared::{graph::polya::totals, labelling::batch::Kernel};
use trailtrap_worker::kernel::SolveError;

use self::{
    clock::Clock,
    crew::{Counts, Crew, Tally},
    invention::Invention,
};
use crate::{
    forecast::{Forecast, Machines, Question},
    machine::{self, core_seconds},
    serve::{admission, service},
};

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// The census.
    pub question: Question,
    /// What is foreseen of it, on which machines.
    pub forecast: Forecast,
    /// So many seconds of the census pass in one in which nobody waits for an answer.
    pub speed: f64,
    /// For how long leases last in the census.
    pub lease: Duration,
    /// The share of leases at whose end the worker dies, with all its leases; another takes its
    /// place.
    pub losses: f64,
}

/// Why there is no rehearsal.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The coordinator cannot go on.
    #[error(transparent)]
    Census(#[from] CensusError),
    /// The system does not give what it takes: a directory, a port, threads.
    #[error("the system does not let it begin")]
    System(#[from] io::Error),
    /// The coordinator does not serve any more.
    #[error("the server failed")]
    Server(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A worker was refused what it may ask for.
    #[error("a worker was refused: {0}")]
    Worker(String),
    /// Not even a small order could be solved.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

/// What a rehearsal has shown. Seconds are those of the census unless they are said to be of this
/// machine.
#[derive(Clone, Debug, Serialize)]
pub struct Rehearsed {
    /// So many seconds of the census have passed in one in which nobody waited for an answer.
    pub speed: f64,
    /// For how long leases lasted.
    pub lease_seconds: f64,
    /// From start to end.
    pub wall_seconds: f64,
    /// The same on this machine …
    pub elapsed_seconds: f64,
    /// … and of that, from the last unit of each order to the first lease of the next, …
    pub opening_seconds: f64,
    /// … and for the last order.
    pub last_opening_seconds: f64,
    /// What has happened to leases.
    #[serde(flatten)]
    pub counts: Counts,
    /// Share of the time that solving threads were busy.
    pub busy: f64,
    /// Bytes of keys and outcomes that would have been solved.
    pub bytes_made: u64,
    /// Bytes of blocks that workers would have read, since they did not have them.
    pub bytes_read: u64,
    /// The share of the tables that units read which their workers had in their caches.
    pub found_in_cache: f64,
    /// Calls that workers made.
    pub calls: u64,
    /// Those of them that were answered by an error, and made again.
    pub calls_repeated: u64,
    /// How long deliveries took to be answered on this machine: half of them, and all but one in
    /// a hundred.
    pub delivery_seconds: [f32; 2],
    /// The same of heartbeats.
    pub heartbeat_seconds: [f32; 2],
    /// Seconds of a core that this machine spent on all but the workers; `None` where that cannot
    /// be told.
    pub coordinator_cpu_seconds: Option<f64>,
    /// The same of the workers.
    pub workers_cpu_seconds: Option<f64>,
    /// Bytes of memory that this process had at most, workers included.
    pub memory: Option<u64>,
    /// What was foreseen.
    pub forecast: Forecast,
}

/// Leases last so long on this machine, however fast time passes, lest they expire since threads
/// of a busy machine wake up late, …
const LEAST_LEASE: Duration = Duration::from_secs(3);
/// … and so much for each worker, so that renewing them is not all that is done.
const LEAST_LEASE_EACH: Duration = Duration::from_millis(10);
/// How long workers have to hear that it is over.
const FAREWELL: Duration = Duration::from_secs(10);
/// The name of the threads of workers, by which the system knows them.
const WORKERS: &str = "rehearsed";

impl Rehearsal {
    /// The (graph, edge) pairs of each order, by which progress is told.
    pub fn pairs(&self) -> Vec<u64> {
        let goal = self.question.goal;
        (1..=goal.order).map(|n| totals(n, goal.max_size(n)).1).collect()
    }

    /// Carries it out; `None` if it is stopped. Counts in `done` how many of its pairs are done.
    /// Nothing stays of it.
    ///
    /// # Errors
    /// Why the coordinator, or a worker, could not go on.
    pub fn run(
        &self,
        stop: &CancellationToken,
        done: &AtomicU64,
    ) -> Result<Option<Rehearsed>, RehearsalError> {
        let Rehearsal { question, forecast, speed, .. } = self;
        let invention = Invention::new(question.game, Kernel::best())?;
        let machines = Machines::new(*question, forecast.calibration, forecast.cluster);
        let options = CensusOptions {
            game: Some(question.game),
            plan: question.options,
            lease_term: self.lease_term(),
            ..CensusOptions::new(question.goal)
        };
        let (coordinator, workers) = (runtime("coordinator")?, runtime(WORKERS)?);
        let directory = tempfile::Builder::new().prefix("trailtrap-rehearsal-").tempdir()?;
        let listener = coordinator.block_on(admission::listen("127.0.0.1:0"))?;
        let address = listener.local_addr()?.to_string();
        let (start, cpu_before) = (Instant::now(), core_seconds(ClockId::ProcessCPUTime));
        let clock = Clock::new(*speed);
        // It begins with the first lease.
        let hold = clock.hold();
        let census = Census::rehearse(&directory.path().join("rehearsal"), options, {
            let clock = clock.clone();
            move || start + Duration::from_secs_f64(clock.now())
        })?;
        let shut = CancellationToken::new();
        let mut server = coordinator.spawn(service::serve(
            census.clone(),
            forecast.cluster.message_memory as usize,
            listener,
            None,
            shut.clone().cancelled_owned(),
        ));
        let (losses, stop) = (self.losses, stop.child_token());
        let crew =
            Crew::new(address, census.clone(), machines, invention, clock, losses, stop.clone());
        drop(hold);
        let mut crew_at_work = workers.spawn(crew.clone().work());
        let memory = self.watch(&census, done, || {
            census.has_ended()
                || stop.is_cancelled()
                || crew_at_work.is_finished()
                || server.is_finished()
        });
        let (wall_seconds, elapsed) = (crew.now(), start.elapsed());
        let is_complete = census.is_complete();
        // Workers hear of the end before they are stopped.
        let farewell = if is_complete { FAREWELL } else { Duration::ZERO };
        let dismissed =
            workers.block_on(async { tokio::time::timeout(farewell, &mut crew_at_work).await });
        stop.cancel();
        let worked = match dismissed {
            Ok(worked) => worked,
            Err(_) => workers.block_on(crew_at_work),
        };
        let workers_cpu = machine::core_seconds_of(WORKERS);
        let cpu = core_seconds(ClockId::ProcessCPUTime) - cpu_before;
        shut.cancel();
        let closed = census.close();
        let served = coordinator.block_on(&mut server);
        workers.shutdown_timeout(Duration::from_secs(1));
        coordinator.shutdown_timeout(Duration::from_secs(1));
        closed?;
        worked
            .map_err(|error| RehearsalError::Worker(error.to_string()))?
            .map_err(|status| RehearsalError::Worker(status.to_string()))?;
        served
            .map_err(|error| RehearsalError::Server(error.into()))?
            .map_err(|error| RehearsalError::Server(error.into()))?;
        if !is_complete {
            return Ok(None);
        }
        let cpu = (cpu, workers_cpu);
        Ok(Some(self.rehearsed(&crew, wall_seconds, elapsed, cpu, memory.most())))
    }

    /// For how long leases last by the clock of the census: on this machine, not too short a time.
    fn lease_term(&self) -> Duration {
        let workers = self.forecast.cluster.workers() as u32;
        let least = LEAST_LEASE.max(LEAST_LEASE_EACH.saturating_mul(workers));
        self.lease.max(least.min(self.lease).mul_f64(self.speed))
    }

    /// Waits until it is over, and counts in `done` how many pairs are done meanwhile; the most
    /// memory that this process was seen to have.
    fn watch(
        &self,
        census: &Census,
        done: &AtomicU64,
        is_over: impl Fn() -> bool,
    ) -> machine::Memory {
        let (mut memory, pairs) = (machine::Memory::default(), self.pairs());
        while !is_over() {
            memory.look();
            let progress = census.progress();
            let before: u64 = pairs[..progress.order.saturating_sub(1)].iter().sum();
            // Between two orders nothing is said of the pairs that are done.
            done.fetch_max(before + progress.pairs_done, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(50));
        }
        memory
    }

    /// What it has shown: with what the crew tells, the time in the census and on this machine,
    /// seconds of a core in all and of the workers, and bytes of memory.
    fn rehearsed(
        &self,
        crew: &Crew,
        wall_seconds: f64,
        elapsed: Duration,
        (cpu, workers_cpu): (f64, Option<f64>),
        memory: Option<u64>,
    ) -> Rehearsed {
        let Rehearsal { forecast, speed, .. } = self;
        let taken = crew.machines(Machines::taken);
        let Tally { counts, openings, deliveries, heartbeats } = crew.tally();
        let (calls, calls_repeated) = crew.calls();
        let cores = (forecast.cluster.workers() * forecast.cluster.cores) as f64;
        Rehearsed {
            speed: *speed,
            lease_seconds: self.lease_term().as_secs_f64(),
            wall_seconds,
            elapsed_seconds: elapsed.as_secs_f64(),
            opening_seconds: openings.iter().sum(),
            last_opening_seconds: openings.last().copied().unwrap_or(0.0),
            counts,
            busy: taken.busy.solving_core_seconds / (cores * wall_seconds),
            bytes_made: taken.bytes_made,
            bytes_read: taken.bytes_read,
            found_in_cache: taken.found_in_cache,
            calls,
            calls_repeated,
            delivery_seconds: half_and_most(deliveries),
            heartbeat_seconds: half_and_most(heartbeats),
            coordinator_cpu_seconds: workers_cpu.map(|workers| cpu - workers),
            workers_cpu_seconds: workers_cpu,
            memory,
            forecast: forecast.clone(),
        }
    }
}

fn runtime(name: &str) -> io::Result<Runtime> {
    Builder::new_multi_thread().thread_name(name).enable_all().build()
}

/// Of some times, the one that half of them do not exceed, and the one that all but a hundredth
/// do not; zero if there are none.
fn half_and_most(mut times: Vec<f32>) -> [f32; 2] {
    times.sort_unstable_by(f32::total_cmp);
    let last = times.len().saturating_sub(1) as f64;
    [0.5, 0.99].map(|share| times.get((last * share) as usize).copied().unwrap_or(0.0))
}
