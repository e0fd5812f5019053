//! What is wrong: results are examined before they are accepted, and where two differ, nauty says
//! which of them is wrong.

use trailtrap_shared::{
    labelling::MAX_BATCH_ORDER,
    partition::{Block, Section},
    plan::{Plan, Unit},
    protocol::messages::Wanted,
};

use super::{Census, CensusError, DisputeVerdict};
use crate::{
    core::{Case, Examined, Suspect, Trace, parents::ENUMERATED_ORDER, random::Random},
    records::Delivery,
    store::{Store, StoreError, block_id},
    trust::{
        checks,
        trial::{self, Trial, TrialError},
    },
};

/// The units that alarms doubt and that have not been solved again since.
pub(super) fn doubted(store: &Store) -> Result<Vec<Unit>, StoreError> {
    let mut doubted = Vec::new();
    for (_, alarm) in store.alarms()? {
        let mut units = alarm.doubted;
        if alarm.settled.is_none() && !alarm.blamed.is_empty() {
            // The run that raised it may have ended before it knew these.
            let suspect = |worker| Suspect { worker, pending: Vec::new() };
            units.extend(trace(store, alarm.blamed.into_iter().map(suspect).collect())?);
        }
        for unit in units {
            if store.unit(unit)?.is_some_and(|record| record.instance <= alarm.last_instance) {
                doubted.push(unit);
            }
        }
    }
    doubted.sort_unstable();
    doubted.dedup();
    Ok(doubted)
}

/// What these workers have done since a result of theirs was last confirmed by another worker.
pub(super) fn trace(store: &Store, suspects: Vec<Suspect>) -> Result<Vec<Unit>, StoreError> {
    let mut traces: Vec<Trace> = suspects.into_iter().map(Trace::new).collect();
    for order in 1..=MAX_BATCH_ORDER {
        for (unit, record) in store.units(order)? {
            traces.iter_mut().for_each(|trace| trace.add(unit, &record));
        }
    }
    Ok(traces.into_iter().flat_map(Trace::finish).collect())
}

impl Census {
    /// Whether deliveries are what they say they are, as far as can be told without solving them
    /// again; and whether some of their records, drawn at random, follow from their predecessors.
    pub(super) fn examine(
        &self,
        plan: &Plan,
        deliveries: &mut [Delivery],
    ) -> Result<Examined, CensusError> {
        for (index, delivery) in deliveries.iter_mut().enumerate() {
            if let Err(why) = self.look_over(plan, delivery) {
                return Ok(Examined::Wrong { unit: delivery.unit, why: why.to_owned() });
            }
            match self.try_some(plan, delivery) {
                Ok(()) => {}
                Err(TrialError::Flaw(why)) => return Ok(Examined::Flaw { index, why }),
                // Too late to be accepted anyhow; or it is taken back just now, and the lease is
                // void.
                Err(TrialError::Gone) => return Ok(Examined::Gone),
                Err(TrialError::Read(CensusError::Store(error)))
                    if error.bad_block().is_some() =>
                {
                    return Ok(Examined::Gone);
                }
                Err(TrialError::Read(error)) => return Err(error),
            }
        }
        Ok(Examined::Passed)
    }

    /// Whether blocks and counts of a delivery are those of its unit.
    fn look_over(&self, plan: &Plan, delivery: &Delivery) -> Result<(), &'static str> {
        let Delivery { unit, blocks, record, .. } = delivery;
        let is_planned = |shard: &&trailtrap_shared::plan::Shard| {
            unit.part < shard.parts && plan.order == usize::from(unit.order)
        };
        let shard = plan.shards.get(unit.shard as usize).filter(is_planned);
        let shard = shard.ok_or("there is no such unit")?;
        let expected = (0..1u32 << shard.bucket_bits).flat_map(|bucket| {
            Section::ALL.map(|section| block_id(shard, unit.part, bucket, section))
        });
        if !blocks.iter().map(|block| block.id).eq(expected) {
            return Err("its blocks are not those of the unit");
        }
        checks::check_unit(self.store.game(), blocks, &record.statistics)?;
        let keys = blocks.iter().filter(|block| block.id.section == Section::Keys);
        let mut slots = keys.flat_map(|block| block.slots());
        match plan.order > ENUMERATED_ORDER || self.parents.know(&shard.sequence, &mut slots) {
            true => Ok(()),
            false => Err("it lists graphs that nauty does not"),
        }
    }

    /// Derives records drawn at random again.
    fn try_some(
        &self,
        plan: &Plan,
        delivery: &mut Delivery,
    ) -> Result<(), TrialError<CensusError>> {
        let graphs = delivery.record.statistics.classes.all.graphs as u64;
        let mut random =
            Random::unforeseeable().map_err(|error| TrialError::Read(error.into()))?;
        let drawn = trial::draw(graphs, self.options.trial_rate, &mut random);
        if drawn.is_empty() {
            return Ok(());
        }
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let _turn = self.trials.lock();
        Trial::new(self.store.game(), plan, &read).run(&delivery.blocks, &drawn)?;
        delivery.record.tried = drawn.len() as u64;
        Ok(())
    }

    /// Which of two results of a unit is wrong: every record of the accepted one is derived again,
    /// and of the other one if need be.
    pub(super) fn judge(&self, case: &Case) -> DisputeVerdict {
        let Case { plan, accepted, other, .. } = case;
        let _turn = self.judgements.lock();
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let tried =
            self.unit_blocks(plan, other.unit).map_err(TrialError::Read).and_then(|blocks| {
                Trial::new(self.store.game(), plan, &read).run_all(&blocks, accepted)?;
                Ok(blocks)
            });
        let same_graphs = |blocks: &[Block]| {
            let keys = |blocks: &[Block]| -> Vec<_> {
                blocks.iter().step_by(3).map(|keys| keys.name()).collect()
            };
            keys(blocks) == keys(&other.blocks)
        };
        match tried {
            Err(TrialError::Flaw(flaw)) => DisputeVerdict::First(flaw),
            Err(error) => DisputeVerdict::Unknown(error.to_string()),
            Ok(blocks) if same_graphs(&blocks) => DisputeVerdict::Second,
            // All records of the first are right, but one may be missing, or belong to another
            // part.
            Ok(_) => match Trial::new(self.store.game(), plan, &read)
                .run_all(&other.blocks, &other.record)
            {
                Err(TrialError::Flaw(_)) => DisputeVerdict::Second,
                Err(error) => DisputeVerdict::Unknown(error.to_string()),
                Ok(()) => DisputeVerdict::Unknown(
                    "all their records are right, but of different graphs".to_owned(),
                ),
            },
        }
    }
}
