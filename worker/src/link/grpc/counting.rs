//! Counts units of other workers again, beside solving, for a census that keeps its blocks in a
//! depot or on shelves. It takes a bucket at a time, and a list of parents.

use std::{sync::Arc, time::Duration};

use tonic::Code;
use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::Block,
    protocol::{
        messages::{self, Wanted},
        wire::{self, counted_request::What},
    },
};

use super::{GrpcLink, calls::with_timeout};
use crate::{
    cache::Fetch,
    counting::{
        self, CountTask, Statement,
        parts::{KnownRanges, PartRanges},
    },
    kernel::SourceError,
    link::LinkError,
};

/// The pause while results are not kept in the depot of the census, and after a failure.
const PAUSE: Duration = Duration::from_secs(1);

impl GrpcLink {
    /// Counts units of others again until the worker stops; those of which a bucket takes no more
    /// than `room` bytes.
    pub fn count_for_others(&self, room: u64) {
        let mut known = KnownRanges::default();
        while !self.stop.is_cancelled() {
            let task = match self.supply.sees_kept() {
                true => self.ask_to_count(room),
                false => Err(()),
            };
            match task {
                Ok(Some(task)) => {
                    let counted = self.count(&task, &mut known);
                    let has_failed = counted.is_err();
                    self.state(task.number, counted);
                    if has_failed {
                        self.pause();
                    }
                }
                Ok(None) => {}
                Err(()) => self.pause(),
            }
        }
    }

    fn pause(&self) {
        let pause = async { tokio::time::sleep(PAUSE).await };
        self.runtime.block_on(self.stop.run_until_cancelled(pause));
    }

    /// A unit to count, if there is one. What fails is not tried again: those who solve find out
    /// whether the coordinator is there, and register again.
    fn ask_to_count(&self, room: u64) -> Result<Option<CountTask>, ()> {
        let (mut client, worker) = (self.client(), self.worker());
        let request = with_timeout(wire::CountRequest { worker, room }, 60);
        let answer = self.stop.run_until_cancelled(client.count(request));
        let reply = self.runtime.block_on(answer).ok_or(())?.map_err(|status| {
            if !matches!(status.code(), Code::NotFound | Code::Unavailable) {
                tracing::debug!(%status, "nothing to count was given");
            }
        })?;
        let Some(task) = reply.into_inner().task else { return Ok(None) };
        let number = task.grant.as_ref().map_or(0, |grant| grant.lease);
        self.understand(task).map(Some).map_err(|error| self.state(number, Err(error)))
    }

    fn understand(&self, task: wire::CountTask) -> Result<CountTask, SourceError> {
        let grant = task.grant.ok_or("no unit")?;
        let plan = self.plans.agree(&grant).map_err(|error: LinkError| error.to_string())?;
        let unit = messages::units(&grant).into_iter().next().ok_or("no unit")?;
        let blocks = task.blocks.unwrap_or_default();
        let blocks = messages::described(self.identity.layout(), blocks)?;
        Ok(CountTask { number: grant.lease, plan, unit, edition: grant.edition, blocks })
    }

    fn count(&self, task: &CountTask, known: &mut KnownRanges) -> Result<Statement, SourceError> {
        let ranges = match task.plan.shard_of(task.unit).parts {
            1 => None,
            _ => Some(self.ranges(task, known)?),
        };
        let layout = self.identity.layout();
        // Whoever is to stop reads nothing more.
        let read = |name: &_, shelves| {
            (!self.stop.is_cancelled()).then(|| self.supply.kept(layout, name, shelves)).flatten()
        };
        counting::count(self.identity.game, task, read, ranges.as_deref(), &self.counters)
    }

    fn ranges(
        &self,
        CountTask { plan, unit, edition, .. }: &CountTask,
        known: &mut KnownRanges,
    ) -> Result<Arc<PartRanges>, SourceError> {
        let state = (self.worker(), *edition);
        if let Some(ranges) = known.get(state, plan, unit.shard) {
            return Ok(ranges);
        }
        let parents = |sequence: &DegreeSequence| {
            let blocks = self.fetch(&[Wanted::Parents(*sequence)])?.concat();
            Ok::<_, SourceError>(Block::sorted_slots(&blocks))
        };
        let ranges = Arc::new(PartRanges::of(plan.shard_of(*unit), parents)?);
        known.put(state, plan, unit.shard, ranges.clone());
        Ok(ranges)
    }

    /// Says what came of a task, also when the worker stops: somebody waits for it.
    fn state(&self, task: u64, counted: Result<Statement, SourceError>) {
        let what = match counted {
            Ok(statement) => What::Statement(statement.to_message()),
            Err(error) => {
                if !self.stop.is_cancelled() {
                    tracing::warn!(%error, "a unit of another worker cannot be counted");
                }
                What::Failure(error.to_string())
            }
        };
        let (mut client, worker) = (self.client(), self.worker());
        let request = wire::CountedRequest { worker, task, what: Some(what) };
        let answer = client.counted(with_timeout(request, 5));
        if let Err(status) = self.runtime.block_on(answer) {
            tracing::debug!(%status, "what was counted is not taken");
        }
    }
}
