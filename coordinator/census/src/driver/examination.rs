//! What is wrong: results are examined before they are accepted, and where two differ, nauty says
//! which of them is wrong.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use rayon::prelude::*;
use trailtrap_shared::{
    count::{ahead::ToldAhead, summary::Summary},
    graph::MAX_ORDER,
    labelling::batch::Kernel,
    partition::{Block, BlockId, BlockName, Content, Section},
    plan::{Plan, Shard, Unit},
    protocol::messages::Wanted,
};
use trailtrap_worker::{
    counting::{
        Statement,
        recount::{self, Recount},
    },
    kernel::{SolvedUnit, Solver},
};

use super::{Census, CensusError, DisputeVerdict, counting::CountTicket, parts::CensusSource};
use crate::{
    core::{Case, Examined, Suspect, Trace, parents::ENUMERATED_ORDER, secret::Draws},
    records::{Author, Delivery, UnitRecord, ahead::Ahead, alarm, delivery},
    store::{Store, StoreError, block_ids},
    trust::trial::{Odds, Trial, TrialError},
};

/// The units that alarms doubt and that have not been solved again since. What a run before was to
/// find out, and did not, is found out first.
pub(super) fn doubted(store: &Store) -> Result<Vec<Unit>, StoreError> {
    let mut doubted = Vec::new();
    let alarms = store.alarms()?;
    let open: Vec<Author> =
        alarm::blamed(alarms.iter().map(|(_, alarm)| alarm)).cloned().collect();
    for (number, mut alarm) in alarms {
        if alarm.is_untraced() {
            let suspect = |worker| Suspect { worker, pending: Vec::new() };
            let suspects = alarm.blamed.iter().cloned().map(suspect).collect();
            let blamed = [&open[..], &alarm.blamed].concat();
            alarm.trace(trace(store, suspects, &blamed, alarm.last_instance)?);
            store.put_alarm(number, &alarm)?;
        }
        for &unit in &alarm.doubted {
            if store.is_doubted(unit, &alarm)? {
                doubted.push(unit);
            }
        }
    }
    doubted.sort_unstable();
    doubted.dedup();
    Ok(doubted)
}

/// What these workers have done since a result of theirs was last confirmed by another worker, who is
/// not blamed, up to this [`UnitRecord::instance`].
pub(super) fn trace(
    store: &Store,
    suspects: Vec<Suspect>,
    blamed: &[Author],
    last_instance: u64,
) -> Result<Vec<Unit>, StoreError> {
    let mut traces: Vec<Trace> = suspects.into_iter().map(Trace::new).collect();
    for order in 1..=MAX_ORDER {
        for item in store.each_unit(order) {
            let (unit, record) = item?;
            if record.instance <= last_instance {
                traces.iter_mut().for_each(|trace| trace.add(unit, &record, blamed));
            }
        }
    }
    Ok(traces.into_iter().flat_map(Trace::finish).collect())
}

/// So many bytes of predecessors are at hand when the coordinator solves a unit itself. Each graph of
/// the unit takes some 124 bytes beside them.
const ALLOWANCE_BYTES: usize = 256 << 20;

/// So long, at most, the blocks of a delivery are waited for, all together: others wait for their turn
/// meanwhile, and whoever delivers them sends them if they cannot be read.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(10);

/// What was found where nothing is wrong.
type Sound<T> = Result<T, TrialError<CensusError>>;

fn flaw<T>(why: impl ToString) -> Sound<T> {
    Err(TrialError::Flaw(why.to_string()))
}

/// The unit's shard, if the plan has such a unit.
fn planned(plan: &Plan, unit: Unit) -> Sound<&Shard> {
    match plan.order == usize::from(unit.order) && plan.has(unit) {
        true => Ok(plan.shard_of(unit)),
        false => flaw("there is no such unit"),
    }
}

/// The slots of the graphs of these blocks.
fn slots(blocks: &[Block]) -> impl Iterator<Item = u64> {
    blocks.iter().filter(|block| block.id.section == Section::Keys).flat_map(Block::slots)
}

/// Places of records of a unit that are tried, in increasing order.
#[derive(Default)]
struct Drawn {
    /// With evidence.
    at_hand: Vec<u64>,
    /// With what is read.
    to_read: Vec<u64>,
}

/// What a delivery tells ahead, and which of its records are to be tried.
type LookedOver = (Ahead, Drawn);

impl Drawn {
    fn is_none(&self) -> bool {
        self.at_hand.is_empty() && self.to_read.is_empty()
    }
}

/// What is done about the statistics and the digest that a unit states.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// They are taken as stated, and so is that its graphs belong to its part.
    Stated,
    /// They are counted again.
    Again,
}

impl Census {
    /// Whether deliveries are what they say they are: whether all that they say follows from their
    /// blocks; and whether some of their records, drawn at random, follow from their predecessors.
    /// What the embedded worker has counted is counted again where records are drawn, and wherever
    /// there is more to be counted than it has. In a rehearsal all of it is invented, and passes.
    pub(super) fn examine(
        &self,
        plan: &Arc<Plan>,
        deliveries: &mut [Delivery],
    ) -> Result<Examined, CensusError> {
        if self.store.is_rehearsal() {
            return Ok(Examined::Passed);
        }
        for (index, sound) in self.look_over_all(plan, deliveries) {
            let delivery = &mut deliveries[index];
            let examined = sound.and_then(|(ahead, drawn)| {
                delivery.ahead = Some(ahead);
                self.try_some(plan, delivery, drawn)
            });
            match examined {
                Ok(()) => {}
                Err(TrialError::Lacking) => {
                    // When it comes again, records of it are drawn in any case, and others.
                    *self.lackings.lock().entry(delivery.unit).or_default() += 1;
                    return Ok(Examined::Lacking);
                }
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
        let mut lackings = self.lackings.lock();
        for delivery in deliveries.iter() {
            lackings.remove(&delivery.unit);
        }
        Ok(Examined::Passed)
    }

    /// Looks deliveries over, with the place of each: all of them, or some up to one with which
    /// something is wrong.
    fn look_over_all(
        &self,
        plan: &Arc<Plan>,
        deliveries: &[Delivery],
    ) -> Vec<(usize, Sound<LookedOver>)> {
        let is_here = deliveries.iter().all(|delivery| delivery.named.is_empty());
        match is_here {
            true => {
                // Parts of one shard are examined together, and their ranges may take long to read.
                let others = deliveries.iter().filter(|delivery| delivery.own.is_none());
                let in_parts = others.map(|delivery| delivery.unit.shard).filter(|&shard| {
                    plan.shards.get(shard as usize).is_some_and(|shard| shard.parts > 1)
                });
                let mut in_parts = in_parts.collect::<BTreeSet<u32>>().into_iter();
                let known = in_parts.try_for_each(|shard| self.part_ranges(plan, shard).map(drop));
                let look_over = |delivery: &Delivery| {
                    self.look_over_delivery(plan, delivery, &delivery.blocks)
                };
                match known {
                    Ok(()) => deliveries.par_iter().map(look_over).enumerate().collect(),
                    Err(error) => vec![(0, Err(error))],
                }
            }
            // One of them is in memory at a time, and others are counted elsewhere meanwhile.
            false => {
                let edition = self.state().core.edition();
                let put_out = |delivery| self.put_out(plan, delivery);
                let mut tickets: Vec<(usize, Option<CountTicket>)> =
                    deliveries.iter().map(put_out).enumerate().collect();
                tickets.sort_by_key(|(_, ticket)| ticket.is_some());
                let mut looked_over = Vec::new();
                for (index, ticket) in tickets {
                    let sound = self.look_over_named(plan, &deliveries[index], ticket, edition);
                    let is_sound = sound.is_ok();
                    looked_over.push((index, sound));
                    if !is_sound {
                        break;
                    }
                }
                looked_over
            }
        }
    }

    /// All blocks of a delivery in order: those that are only named are read.
    fn blocks_of<'d>(&self, delivery: &'d Delivery) -> Sound<Cow<'d, [Block]>> {
        if delivery.named.is_empty() {
            return Ok(Cow::Borrowed(&delivery.blocks));
        }
        let (mut blocks, begin) = (delivery.blocks.clone(), Instant::now());
        for (id, name) in &delivery.named {
            let patience = DELIVERY_PATIENCE.saturating_sub(begin.elapsed());
            match self.store.elsewhere(name, patience) {
                Ok(Some(Ok(block))) if block.id == *id => blocks.push(block),
                Ok(Some(Ok(_))) => return flaw("it names a block of another place"),
                Ok(Some(Err(_)) | None) => return Err(TrialError::Lacking),
                Err(error) => return Err(self.unreadable(error)),
            }
        }
        blocks.sort_by_key(|block| (block.id.bucket, block.id.section as u8));
        Ok(Cow::Owned(blocks))
    }

    /// What it means that this was said of a block that was named: unless the depot is away, its
    /// worker may have made it so that it cannot be read here.
    fn unreadable(&self, error: StoreError) -> TrialError<CensusError> {
        match error {
            StoreError::Depot { cause, .. } if self.store.has_depot() => {
                tracing::warn!(%cause, "a block that was named cannot be read");
                TrialError::Lacking
            }
            error => TrialError::Read(error.into()),
        }
    }

    /// Has another worker count a delivery whose blocks are named, if there is one, unless records
    /// of it are to be tried: then it is read here anyhow.
    fn put_out(&self, plan: &Arc<Plan>, delivery: &Delivery) -> Option<CountTicket<'_>> {
        let odds = Odds::reading(plan, delivery.unit, self.options.trial_rate);
        let odds = self.odds_after_lackings(delivery.unit, odds);
        let is_drawn = odds.draws_unit(&mut self.trial_draws(delivery));
        (!is_drawn).then(|| self.have_counted(plan, delivery)).flatten()
    }

    /// Looks a delivery over whose blocks are named: by what another worker states of it, if it
    /// agrees with what is delivered, or else by what is read here, which tells who is wrong. What
    /// came in an edition that is over is read for nobody.
    fn look_over_named(
        &self,
        plan: &Plan,
        delivery: &Delivery,
        ticket: Option<CountTicket>,
        edition: u32,
    ) -> Sound<LookedOver> {
        let Delivery { unit, record, .. } = delivery;
        let stated = match ticket {
            Some(ticket) => ticket.wait()?,
            None => None,
        };
        let is_void = || self.state().core.edition() != edition;
        // With another edition all leases are void, and all that others were to count is given up.
        if is_void() {
            return Err(TrialError::Gone);
        }
        let miscounted = match stated {
            Some((_, statement)) if self.agrees(delivery, &statement) => {
                // Whoever has counted it may be allowed to read what this process is not.
                let names: Vec<BlockName> = delivery.named.iter().map(|&(_, name)| name).collect();
                let may_read = self.store.may_read(&names);
                if !may_read.map_err(|error| self.unreadable(error))? {
                    return Err(TrialError::Lacking);
                }
                self.check_sums(plan, planned(plan, *unit)?, record)?;
                self.trials.note_named(record.bytes, false);
                let ahead = Ahead::of(record.content, statement.ahead);
                return Ok((ahead, Drawn::default()));
            }
            stated => stated.map(|(by, _)| by),
        };
        let sound = {
            let _turn = self.readings.take(rayon::current_num_threads());
            // It may have begun while others had their turns.
            if is_void() {
                return Err(TrialError::Gone);
            }
            let blocks = self.blocks_of(delivery)?;
            self.trials.note_named(record.bytes, true);
            self.look_over_delivery(plan, delivery, &blocks)?
        };
        if let Some(by) = miscounted {
            self.event(|core| core.miscounted(by, *unit, &delivery.sequence));
        }
        Ok(sound)
    }

    /// Whether what somebody states of the blocks of a delivery is what the delivery says.
    fn agrees(&self, delivery: &Delivery, statement: &Statement) -> bool {
        let Delivery { blocks, named, record, told_ahead, .. } = delivery;
        let Statement { summary: Summary { statistics, digest }, contents, ahead } = statement;
        let place = |id: &BlockId| {
            id.bucket as usize * Section::ALL.len() + id.section as usize - Section::Keys as usize
        };
        let mut places: Vec<usize> = blocks
            .iter()
            .map(|block| &block.id)
            .chain(named.iter().map(|(id, _)| id))
            .map(place)
            .collect();
        places.sort_unstable();
        places.iter().copied().eq(0..contents.len())
            && blocks.iter().all(|block| contents[place(&block.id)] == block.content())
            && Content::of_blocks(contents.iter().copied()) == record.content
            && *digest == record.digest()
            && *statistics == record.statistics.without_told(self.store.game().about())
            && Some(ahead) == told_ahead.as_ref()
    }

    /// Looks a delivery over that has these blocks, and draws those of its records that are to be
    /// tried.
    fn look_over_delivery(
        &self,
        plan: &Plan,
        delivery: &Delivery,
        blocks: &[Block],
    ) -> Sound<LookedOver> {
        let Delivery { unit, record, own, named, told_ahead, .. } = delivery;
        let look_over = |counts| self.look_over(plan, *unit, blocks, record, counts);
        let keys = blocks.iter().filter(|block| block.id.section == Section::Keys);
        let graphs = keys.map(|block| block.count as u64).sum();
        if own.is_none() {
            let ahead = look_over(Counts::Again)?;
            // What is only named could not be told from its bytes before.
            if !named.is_empty() && Content::of_unit(blocks) != record.content {
                return flaw("its content is not that of its blocks");
            }
            let differs = |told: &ToldAhead| {
                let by_degrees = plan.layout.class.is_by_degrees();
                told.shares != ahead.shares || by_degrees && told.masses != ahead.masses
            };
            if told_ahead.as_ref().is_some_and(differs) {
                return flaw("what it tells ahead is not what its records say");
            }
            return Ok((ahead, self.drawn(plan, delivery, graphs)));
        }
        let drawn = self.drawn(plan, delivery, graphs);
        let is_taken = plan.layout.class.is_by_degrees() && drawn.is_none();
        let counts = if is_taken { Counts::Stated } else { Counts::Again };
        Ok((look_over(counts)?, drawn))
    }

    /// Counts the blocks of a unit again, if that is asked for, and compares what its record says
    /// with that, with the plan, with the mass formula, and with nauty; then the graphs of a part
    /// of a shard have to belong to that part, too. Returns what the unit tells about graphs with
    /// one edge more.
    ///
    /// What is left to be believed of a unit that was counted again and passes is which of its
    /// records follow from their predecessors, for parts of a shard whether a graph is missing,
    /// and the sum that records do not keep. The last two show when the shard is finished.
    fn look_over(
        &self,
        plan: &Plan,
        unit: Unit,
        blocks: &[Block],
        record: &UnitRecord,
        counts: Counts,
    ) -> Sound<Ahead> {
        let shard = planned(plan, unit)?;
        if !blocks.iter().map(|block| block.id).eq(block_ids(shard, unit.part)) {
            return flaw("its blocks are not those of the unit");
        }
        let game = self.store.game();
        let stated = &record.statistics;
        let ahead = match counts {
            Counts::Stated => recount::ahead(game, plan, blocks).or_else(flaw)?,
            Counts::Again => {
                let counted = recount::recount(game, plan, blocks).or_else(flaw)?;
                let Recount { summary: Summary { statistics, digest }, ahead } = counted;
                if statistics != stated.without_told(game.about()) {
                    return flaw("its counts are not those of its graphs");
                }
                if digest != record.digest() {
                    return flaw("its digest is not that of its graphs");
                }
                ahead
            }
        };
        self.check_sums(plan, shard, record)?;
        if plan.order <= ENUMERATED_ORDER && !self.parents.know(&shard.sequence, slots(blocks)) {
            return flaw("it lists graphs that nauty does not");
        }
        if shard.parts > 1 && counts == Counts::Again {
            let ranges = self.part_ranges(plan, unit.shard)?;
            if !ranges.hold(unit.part, slots(blocks)) {
                return flaw("it lists a graph of another part");
            }
        }
        Ok(Ahead::of(record.content, ahead))
    }

    /// Compares what a record says with itself, and with the mass formula.
    fn check_sums(&self, plan: &Plan, shard: &Shard, record: &UnitRecord) -> Sound<()> {
        let stated = &record.statistics;
        if !stated.is_consistent(self.store.game().about()) {
            return flaw("its counts are impossible");
        }
        let mass = stated.labelled.all.graphs;
        if shard.parts == 1 && mass != shard.mass && plan.layout.class.is_by_degrees() {
            return flaw(format!("Σ n!/|Aut| is {mass}, not {}", shard.mass));
        }
        Ok(())
    }

    /// The records that are drawn for trial of a unit of so many graphs that is solved in this
    /// process, so that evidence is taken of them. They are the same whenever it is solved.
    pub fn drawn_at_hand(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        let odds = Odds::of_evidence(graphs, self.options.trial_rate);
        let about = (unit.order, unit.shard, unit.part);
        let draw = |odds: Odds| odds.draw(graphs, &mut self.secret.draws("trial at hand", &about));
        odds.map(draw).unwrap_or_default()
    }

    /// The records of a unit of the plan that has so many graphs that are drawn for trial.
    fn drawn(&self, plan: &Plan, delivery: &Delivery, graphs: u64) -> Drawn {
        let Delivery { unit, own, .. } = delivery;
        let at_hand = match own {
            Some(_) => self.drawn_at_hand(*unit, graphs),
            None => Vec::new(),
        };
        let (_, reading) = Odds::of(plan, *unit, graphs, self.options.trial_rate, own.is_some());
        let reading = self.odds_after_lackings(*unit, reading);
        let to_read = reading.draw(graphs, &mut self.trial_draws(delivery));
        Drawn { at_hand, to_read }
    }

    /// A unit that could not be read is tried in any case: it may have been drawn, and whoever has it
    /// on a shelf knows that it was asked for.
    fn odds_after_lackings(&self, unit: Unit, odds: Odds) -> Odds {
        match self.lackings.lock().contains_key(&unit) {
            true => odds.of_drawn_unit(),
            false => odds,
        }
    }

    /// What decides whether records of a delivery are tried, and which. What was drawn of a unit
    /// tells nothing about what is drawn of it when it differs, or comes again.
    fn trial_draws(&self, Delivery { unit, record, .. }: &Delivery) -> Draws {
        let lackings = self.lackings.lock().get(unit).copied().unwrap_or(0);
        match lackings {
            0 => {
                let about = (unit.order, unit.shard, unit.part, record.content);
                self.secret.draws("trial", &about)
            }
            _ => {
                let about = (unit.order, unit.shard, unit.part, record.content, lackings);
                self.secret.draws("trial of what was lacking", &about)
            }
        }
    }

    /// Derives drawn records of a unit of the plan again.
    fn try_some(&self, plan: &Plan, delivery: &mut Delivery, drawn: Drawn) -> Sound<()> {
        let Drawn { at_hand, mut to_read } = drawn;
        let read = |sequence: &_, bucket| {
            let blocks = self.wanted_blocks(&Wanted::Bucket(*sequence, bucket))?;
            let read = blocks.iter().flatten().map(|block| block.bytes().len() as u64);
            self.trials.note_read(read.sum());
            Ok(blocks)
        };
        let trial = Trial::new(self.store.game(), plan, &read);
        let mut tried = 0;
        match delivery.own.take_if(|evidence| evidence.places == at_hand) {
            Some(evidence) => {
                trial.run_on(&delivery.blocks, &evidence)?;
                tried += at_hand.len();
            }
            // There is no evidence of them.
            None => {
                to_read.extend(at_hand);
                to_read.sort_unstable();
                to_read.dedup();
            }
        }
        if !to_read.is_empty() {
            let _turn = self.trials.take_turn();
            let blocks = self.blocks_of(delivery)?;
            trial.run(&blocks, &to_read)?;
            tried += to_read.len();
        }
        delivery.record.tried = tried as u64;
        self.trials.note_examined(delivery.record.bytes, delivery.record.tried);
        Ok(())
    }

    /// Which of two results of a unit is wrong. All graphs of both are graphs of the unit, so
    /// whoever lacks one of the other's is wrong; and if both have the same graphs, every record of
    /// the first is derived again. So it is, too, where the other cannot be read: the first lacks no
    /// graph of a shard that is finished, by its mass; of a class that degrees do not tell, that is
    /// only known when the order is done.
    pub(super) fn judge(&self, case: &Case) -> DisputeVerdict {
        let _turn = self.judgements.lock();
        match self.find_wrong(case) {
            Ok(verdict) => verdict,
            Err(TrialError::Flaw(flaw)) => DisputeVerdict::First(flaw),
            Err(error) => DisputeVerdict::Unknown(error.to_string()),
        }
    }

    /// The same, but for what is told by an error.
    ///
    /// # Errors
    ///
    /// A flaw is one of the first. All else is what could not be read.
    fn find_wrong(&self, case: &Case) -> Sound<DisputeVerdict> {
        let Case { plan, accepted, other, is_readable, .. } = case;
        let blocks = self.unit_blocks(plan, other.unit).map_err(TrialError::Read)?;
        self.look_over(plan, other.unit, &blocks, accepted, Counts::Again)?;
        let read = |sequence: &_, bucket| self.wanted_blocks(&Wanted::Bucket(*sequence, bucket));
        let try_all = || Trial::new(self.store.game(), plan, &read).run_all(&blocks, accepted);
        if !is_readable {
            try_all()?;
            return Ok(DisputeVerdict::Second);
        }
        let others = self.blocks_of(other).and_then(|others| {
            // Others may have counted it.
            self.look_over(plan, other.unit, &others, &other.record, Counts::Again)?;
            Ok(others)
        });
        let others = match others {
            Err(TrialError::Flaw(why)) => return Ok(DisputeVerdict::SecondFor(why)),
            Err(TrialError::Lacking) => return Err(TrialError::Gone),
            others => others?,
        };
        let all = |blocks: &[Block]| slots(blocks).collect::<HashSet<u64>>();
        let (first, second) = (all(&blocks), all(&others));
        let lacks = |graphs: usize| format!("it lacks {graphs} graphs of the other");
        let first_lacks = second.difference(&first).count();
        let second_lacks = first.difference(&second).count();
        Ok(match (first_lacks, second_lacks) {
            (0, 0) => {
                try_all()?;
                DisputeVerdict::Second
            }
            (0, some) => DisputeVerdict::SecondFor(lacks(some)),
            (some, 0) => DisputeVerdict::First(lacks(some)),
            _ => DisputeVerdict::Both("each lacks graphs of the other".to_owned()),
        })
    }

    /// Solves units in this process, one after the other: what `take` takes of what should be
    /// delivered; or why that cannot be told.
    pub(super) fn solve<T>(
        &self,
        plan: &Plan,
        units: &[Unit],
        stop: &AtomicBool,
        take: impl Fn(Delivery) -> T,
    ) -> Result<Vec<T>, String> {
        let (game, kernel) = (self.store.game(), Kernel::best());
        let solver = Solver { game, kernel, allowance_bytes: ALLOWANCE_BYTES, stop };
        let source = CensusSource(self);
        let solve = |&unit: &Unit| {
            let solved = solver.solve(plan, unit, &source).map_err(|error| error.to_string())?;
            let (blocks, author) = (solved.blocks(), Author::coordinator());
            let SolvedUnit { sequence, summary, elapsed, .. } = solved;
            Ok(take(delivery(unit, sequence, blocks, summary, elapsed, author)))
        };
        units.iter().map(solve).collect()
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        class::Class,
        count::{ahead::Share, digest::Digest, statistics::Cell},
        game::GameName,
        graph::degree::DegreeSequence,
        partition::{BucketTable, Checksum},
        plan::{Goal, PlanOptions},
    };
    use trailtrap_worker::link::memory;

    use super::*;
    use crate::{
        driver::CensusOptions,
        records::{
            OrderRecord,
            alarm::{Alarm, AlarmKind},
        },
        tests::solved_by_ann,
    };

    /// The first order whose graphs nauty does not list, so that others may count them.
    const ORDER: usize = ENUMERATED_ORDER + 1;

    /// A census of that order at this rate of trials, of which nothing is done. Those below are said
    /// to be done.
    fn census(trial_rate: f64) -> (tempfile::TempDir, Arc<Census>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = Store::open(&path, None, None).unwrap();
        for n in 1..ORDER {
            let plan = Plan::new(store.layout(), n, PlanOptions::default());
            let result = Some(vec![Summary::default(); plan.max_size + 1]);
            let record = OrderRecord { result, ..OrderRecord::begun(&plan) };
            store.put_order(n, &record).unwrap();
        }
        drop(store);
        let options = CensusOptions { trial_rate, ..CensusOptions::new(Goal::new(ORDER, None)) };
        (directory, Census::open(&path, options).unwrap())
    }

    /// By its number, one of several results of a unit that Ann may deliver: large enough to be
    /// counted by others. Its blocks are nowhere.
    fn named(plan: &Plan, unit: Unit, number: u8) -> Delivery {
        let (sequence, part) = (plan.shard_of(unit).sequence, unit.part);
        let place = |section| BlockId { sequence, part, bucket_bits: 0, bucket: 0, section };
        let name = BlockName { checksum: Checksum([number; 16]), length: 1 << 20 };
        let mut delivered = solved_by_ann(unit, sequence, Vec::new());
        delivered.record.content = Content([number; 16]);
        delivered.record.bytes = 2 << 20;
        delivered.named =
            [Section::Keys, Section::Outcomes].map(|section| (place(section), name)).to_vec();
        delivered.told_ahead = Some(ToldAhead::default());
        delivered
    }

    /// When an edition begins, what others were to count is given up. It is not read here instead:
    /// nothing of it would be accepted.
    #[test]
    fn what_is_void_is_not_counted() {
        let (_directory, census) = census(0.0);
        let plan = census.plan_in_work().unwrap();
        census.counting.wait(2, &Author::new("Bea", "portable"));
        let delivered = named(&plan, Unit { order: ORDER as u8, shard: 100, part: 0 }, 1);
        let look_over = |edition: u32| {
            let ticket = census.put_out(&plan, &delivered);
            assert!(ticket.is_some(), "Bea could count it");
            census.counting.clear();
            census.look_over_named(&plan, &delivered, ticket, edition).err().unwrap()
        };
        let edition = census.state().core.edition();
        assert!(matches!(look_over(edition), TrialError::Lacking), "it is looked for");
        assert!(matches!(look_over(edition - 1), TrialError::Gone), "it is not");
        census.close().unwrap();
    }

    /// What another worker states of blocks that are only named is taken for what their deliverer
    /// says if that is the same in everything: also if the counts alone are others.
    #[test]
    fn a_statement_agrees_with_a_delivery_in_everything_or_not_at_all() {
        let (_directory, census) = census(0.0);
        let options = PlanOptions { part_graphs: 1 << 20, bucket_bytes: 40 };
        let (game, mut units) = (GameName::TrailTrap, Vec::new());
        let plan = memory::each_unit_of(game, Class::All, ORDER, options, |solved| {
            let (blocks, summary) = (solved.blocks(), solved.summary.clone());
            let (sequence, worker) = (solved.sequence, Author::new("Ann", "portable"));
            units.push(delivery(solved.unit, sequence, blocks, summary, Duration::ZERO, worker));
        })
        .unwrap();
        let largest = units.into_iter().max_by_key(|unit| unit.blocks.len()).unwrap();
        assert!(largest.blocks.len() > 3, "it has several buckets");
        let Recount { summary, ahead } = recount::recount(game, &plan, &largest.blocks).unwrap();
        let contents = largest.blocks.iter().map(Block::content).collect();
        let statement = Statement { summary, contents, ahead: ahead.clone() };
        let (wins, shared): (Vec<Block>, Vec<Block>) =
            largest.blocks.into_iter().partition(|block| block.id.section == Section::Wins);
        let named = shared.iter().map(|block| (block.id, block.name())).collect();
        let mut delivered = Delivery { blocks: wins, named, told_ahead: Some(ahead), ..largest };
        assert!(census.agrees(&delivered, &statement));

        type Change = fn(&mut Statement);
        let others: [(&str, Change); 12] = [
            ("graphs", |other| other.summary.statistics.classes.all.graphs += 1),
            ("wins", |other| other.summary.statistics.classes.connected.listed += 1),
            ("labelled graphs", |other| other.summary.statistics.labelled.all.graphs += 1),
            ("a sum", |other| other.summary.statistics.classes.sums.0[0] += 1),
            ("a labelled sum", |other| other.summary.statistics.labelled.sums.0[1] += 1),
            ("structure", |other| {
                other.summary.statistics.structure.girth.insert(99, Cell::default());
            }),
            ("digest", |other| other.summary.digest = Digest::default()),
            ("the content of a block", |other| other.contents[1].0[0] ^= 1),
            ("a block less", |other| other.contents.truncate(other.contents.len() - 1)),
            ("a block more", |other| other.contents.push(other.contents[0])),
            ("a share ahead", |other| other.ahead.shares.push((0, Share::default()))),
            ("a mass ahead", |other| other.ahead.masses.push((0, 1))),
        ];
        for (what, change) in others {
            let mut other = statement.clone();
            change(&mut other);
            assert!(!census.agrees(&delivered, &other), "{what}");
        }
        // The lists of wins come along, and whoever counts has made its own.
        let place = delivered.blocks.iter().position(|block| block.graphs > 0).unwrap();
        let BlockId { sequence, bucket_bits, bucket, part, .. } = delivered.blocks[place].id;
        let none = std::iter::empty();
        let empty = BucketTable::new(plan.layout, sequence, bucket_bits, bucket, none, |_, _| {});
        let list = std::mem::replace(&mut delivered.blocks[place], empty.to_blocks(part).wins);
        assert_eq!(delivered.blocks[place].id, list.id);
        assert!(!census.agrees(&delivered, &statement));
        delivered.blocks[place] = list;
        let last = delivered.named.pop().unwrap();
        assert!(!census.agrees(&delivered, &statement));
        delivered.named.push(last);
        assert!(census.agrees(&delivered, &statement));
        delivered.told_ahead = None;
        assert!(!census.agrees(&delivered, &statement));
        census.close().unwrap();
    }

    /// A unit that could not be read is drawn for certain when it comes again, and so it is read here
    /// and not counted by others; how many of its records are tried stays the same, and which,
    /// cannot be foreseen. Nothing changes for other units, or where nothing is tried.
    #[test]
    fn what_could_not_be_read_is_drawn_for_certain() {
        const RATE: f64 = 1e-3;
        const GRAPHS: u64 = 1000;
        let (_directory, census) = census(RATE);
        let plan = census.plan_in_work().unwrap();
        assert_eq!(plan.order, ORDER);
        let [lacking, other] = [100, 101].map(|shard| Unit { order: ORDER as u8, shard, part: 0 });
        census.lackings.lock().insert(lacking, 1);
        for (unit, records, expected) in
            [(0.0625, 0.25, 1.0), (1e-9, 1.0, 1.0), (1.0, 0.5, 1.0), (0.0, 0.0, 0.0)]
        {
            let odds = Odds { unit, records };
            let certain = Odds { unit: expected, records };
            assert_eq!(census.odds_after_lackings(lacking, odds), certain);
            assert_eq!(census.odds_after_lackings(other, odds), odds);
        }

        census.counting.wait(2, &Author::new("Bea", "portable"));
        let delivered = |unit: Unit, number: u8| named(&plan, unit, number);
        let is_put_out =
            |unit: Unit, number: u8| census.put_out(&plan, &delivered(unit, number)).is_some();
        let drawn =
            |unit: Unit, number: u8| census.drawn(&plan, &delivered(unit, number), GRAPHS).to_read;
        // One in sixteen is drawn.
        assert!((0..100).filter(|&number| is_put_out(other, number)).count() > 50);
        assert!((0..100).filter(|&number| drawn(other, number).is_empty()).count() > 50);
        let tried = Odds::at_hand(RATE).records_of(GRAPHS) as usize;
        assert!((1..GRAPHS as usize / 2).contains(&tried), "{tried}");
        for number in 0..100 {
            assert!(!is_put_out(lacking, number));
            assert_eq!(drawn(lacking, number).len(), tried);
        }
        let before = drawn(lacking, 0);
        assert_eq!(drawn(lacking, 0), before);
        census.lackings.lock().insert(lacking, 2);
        assert_ne!(drawn(lacking, 0), before);
        assert_eq!(drawn(lacking, 0).len(), tried);
        census.close().unwrap();
    }

    /// What a run was to find out is found out by the next one, whether the alarm has been settled
    /// meanwhile or not, and once.
    #[test]
    fn what_was_not_traced_is_traced_when_a_run_begins() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("store"), None, None).unwrap();
        let unit = |order: u8, shard: u32| Unit { order, shard, part: 0 };
        let solve_as =
            |unit: Unit, name: &str, instance, with: &dyn Fn(UnitRecord) -> UnitRecord| {
                let sequence = DegreeSequence::new([0; 7]);
                let (worker, summary) = (Author::new(name, "portable"), Summary::default());
                let solved = delivery(unit, sequence, Vec::new(), summary, Duration::ZERO, worker);
                let record = with(UnitRecord { instance, ..solved.record });
                let solved = Delivery::of_statement(unit, sequence, record);
                store.commit(&[Arc::new(solved)], u64::MAX).unwrap();
            };
        let solve = |unit, name: &str, instance| solve_as(unit, name, instance, &|record| record);
        let bob = || Author::new("Bob", "portable");
        let run = 5 << 32;
        solve(unit(7, 0), "Ann", run + 1);
        solve(unit(7, 1), "Bob", run + 2);
        solve(unit(9, 0), "Ann", run + 3);
        for settled in [None, Some("Ann is gone".to_owned())] {
            let (sequence, text) = (DegreeSequence::new([0; 9]), String::new());
            let alarm = Alarm {
                blamed: vec![Author::new("Ann", "portable")],
                last_instance: run | u64::from(u32::MAX),
                settled,
                ..Alarm::at(0, AlarmKind::Trial, unit(9, 0), &sequence, text)
            };
            store.put_alarm(1, &alarm).unwrap();
            let pending = || store.pending(&store.alarms().unwrap()).unwrap();
            assert_eq!(pending(), Some((1, 1)), "it may be anything");
            assert_eq!(doubted(&store).unwrap(), [unit(7, 0), unit(9, 0)]);
            assert!(!store.alarms().unwrap()[0].1.is_untraced());
            assert_eq!(pending(), Some((7, 1)));
        }
        // What Ann does in a later run is not doubted, and says nothing of what she did before.
        let confirmed = |record: UnitRecord| UnitRecord { confirmed: vec![bob()], ..record };
        solve_as(unit(8, 0), "Ann", (6 << 32) + 1, &confirmed);
        let mut alarm = store.alarms().unwrap().remove(0).1;
        (alarm.doubted, alarm.last_instance) = (Vec::new(), alarm.last_instance + 1);
        store.put_alarm(1, &alarm).unwrap();
        assert_eq!(doubted(&store).unwrap(), [unit(7, 0), unit(9, 0)]);
        solve(unit(7, 0), "Ann", (6 << 32) + 2);
        assert_eq!(doubted(&store).unwrap(), [unit(9, 0)]);
        assert_eq!(store.pending(&store.alarms().unwrap()).unwrap(), Some((9, 1)));
    }
}
