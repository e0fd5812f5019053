//! Results on trial: records of a unit derived again from those of its predecessors, one step of
//! the recurrence each. nauty says which graphs are the same, and the step is written from the
//! rules (`Method::derive`), so what is shared with the kernel that solved the unit is the layout
//! of the data. The labelling of the census serves as an index: it leads to an entry, and nauty
//! decides whether that entry is the graph that was looked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;
use trailtrap_shared::{
    count::{digest::Digester, statistics::Statistics},
    game::{Game, GameName, Method},
    graph::{Graph, degree::DegreeSequence, graph6, nauty},
    labelling::batch::Kernel,
    partition::{
        Block, bucket_of_slot, entry_bytes, graph_of_slot, places_without_an_edge, slot_of,
    },
    plan::{Plan, Shard, Unit},
    play,
};
use trailtrap_worker::kernel::Evidence;

use crate::{core::secret::Draws, records::UnitRecord};

/// One unit in so many is drawn, if trying it costs little, so that many records of it can be.
const UNIT_SHARE: f64 = 16.0;
/// Of a unit of U bytes, with buckets of B bytes in what it reads, trials read a sixteenth of
/// U/2 + min(B/4, these) on average.
const USUAL_BYTES: f64 = (3 << 18) as f64;

/// How likely a unit is to be drawn for trial, and what share of its records is tried then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Odds {
    /// The probability that the unit is drawn.
    pub unit: f64,
    /// The share of its records that is tried, but one of them at least.
    pub records: f64,
}

impl Odds {
    /// At this rate, of a unit whose trial has nothing to read. Each record is tried with
    /// probability `rate` at least.
    pub fn at_hand(rate: f64) -> Self {
        Odds {
            unit: if rate > 0.0 { rate.max(1.0 / UNIT_SHARE) } else { 0.0 },
            records: (rate * UNIT_SHARE).min(1.0),
        }
    }

    /// At this rate, of a unit whose trial reads its predecessors. So that trials read less than a
    /// tenth of what is solved, units that read much are drawn less often, but with probability
    /// `rate` at least: a sixteenth of half a unit's own bytes is read on average, and of a quarter
    /// of a bucket, or of 768 KiB where that is less.
    pub fn reading(plan: &Plan, unit: Unit, rate: f64) -> Self {
        let at_hand = Odds::at_hand(rate);
        let entry = entry_bytes(plan.layout, plan.order) as f64;
        let bytes = |shard: &Shard| shard.estimate as f64 * entry;
        let shard = plan.shard_of(unit);
        let own = bytes(shard) / f64::from(shard.parts);
        let read: f64 = shard.predecessors.iter().map(|&p| bytes(&plan.shards[p as usize])).sum();
        let usual = (plan.options.bucket_bytes as f64 / 4.0).min(USUAL_BYTES);
        let paid = (own / 2.0 + usual) / read.max(1.0);
        Odds { unit: at_hand.unit.min((paid / UNIT_SHARE).max(rate)), ..at_hand }
    }

    /// Both odds of a unit of so many graphs: with evidence, if any is taken, and with what is
    /// read. Evidence is taken of units that this process solves, unless all records are tried, or
    /// very many. What is read shows besides what is wrong with tables in memory; where there is no
    /// evidence of a unit of this process, it is read with the same probability.
    pub fn of(
        plan: &Plan,
        unit: Unit,
        graphs: u64,
        rate: f64,
        is_own: bool,
    ) -> (Option<Odds>, Odds) {
        match (is_own, Odds::of_evidence(graphs, rate)) {
            (true, None) => (None, Odds::at_hand(rate)),
            (true, evidence) => (evidence, Odds::reading(plan, unit, rate)),
            (false, _) => (None, Odds::reading(plan, unit, rate)),
        }
    }

    /// Those of evidence about a unit of so many graphs, if any is taken.
    pub fn of_evidence(graphs: u64, rate: f64) -> Option<Odds> {
        let odds = Odds::at_hand(rate);
        (odds.records < 1.0 && odds.records_of(graphs) <= MOST_AT_HAND).then_some(odds)
    }

    /// The same where the unit is drawn, if any is.
    pub fn of_drawn_unit(self) -> Self {
        Odds { unit: self.unit.ceil(), ..self }
    }

    /// Whether a unit is drawn, as [`Odds::draw`] finds with the same numbers.
    pub fn draws_unit(self, random: &mut Draws) -> bool {
        random.chance(self.unit)
    }

    /// How many records of a drawn unit of so many graphs are tried.
    pub fn records_of(self, graphs: u64) -> u64 {
        ((graphs as f64 * self.records).ceil() as u64).min(graphs)
    }

    /// Which records of a unit of so many graphs are tried, in increasing order; all choices of
    /// equally many are equally likely.
    pub fn draw(self, graphs: u64, random: &mut Draws) -> Vec<u64> {
        if !self.draws_unit(random) {
            return Vec::new();
        }
        // Without replacement (Floyd 1987).
        let mut drawn = BTreeSet::new();
        for last in graphs - self.records_of(graphs)..graphs {
            let place = random.below(last + 1);
            if !drawn.insert(place) {
                drawn.insert(last);
            }
        }
        drawn.into_iter().collect()
    }
}

/// Why a trial did not end well.
#[derive(Debug, thiserror::Error)]
pub enum TrialError<E> {
    /// The result is wrong.
    #[error("{0}")]
    Flaw(String),
    /// What it was computed from is not there, or not there any more.
    #[error("what it was computed from is not there any more")]
    Gone,
    /// One of its blocks, which was only named, is not in the depot or on shelves, as far as can be
    /// seen from here, or is damaged there.
    #[error("a block that it names cannot be read")]
    Lacking,
    /// It could not be tried.
    #[error(transparent)]
    Read(E),
}

/// Reads keys and outcomes of one bucket of a finished partition; `None` if there is no such
/// thing.
pub type Read<'a, E> = &'a dyn Fn(&DegreeSequence, u32) -> Result<Option<Vec<Block>>, E>;

/// So many records are tried at a time: what they lead to is gathered before, from one bucket
/// after the other.
const BATCH: usize = 1 << 16;
/// Of so many records of a unit evidence is taken, at most: 32 MB at order 12.
const MOST_AT_HAND: u64 = 1 << 13;

/// So many trials read at a time. Each holds one bucket.
pub const TOGETHER: usize = 4;

/// A trial of the results of one unit.
pub struct Trial<'a, E> {
    game: GameName,
    plan: &'a Plan,
    read: Read<'a, E>,
}

impl<'a, E: Send> Trial<'a, E> {
    /// A trial, in a game, against what `read` reads.
    pub fn new(game: GameName, plan: &'a Plan, read: Read<'a, E>) -> Self {
        Trial { game, plan, read }
    }

    /// Tries records of a unit, by their places among all its graphs, in strictly increasing order.
    /// `blocks` are keys, outcomes and wins of each bucket. Reads each bucket that they lead to
    /// once for every 65536 of them, and holds one of them at a time.
    ///
    /// # Errors
    /// When a record is wrong, or cannot be tried.
    pub fn run(&self, blocks: &[Block], places: &[u64]) -> Result<(), TrialError<E>> {
        play!(self.game, self.plan.order, G => TrialOf::<G, E>::new(self.plan, self.read).run(blocks, places))
    }

    /// Tries the records that the unit's evidence is of, with that alone: nothing is read.
    ///
    /// # Errors
    /// When a record is wrong.
    pub fn run_on(&self, blocks: &[Block], evidence: &Evidence) -> Result<(), TrialError<E>> {
        play!(self.game, self.plan.order, G => run_on::<G, E>(blocks, evidence))
    }

    /// Tries all records of a unit, and whether its counts and its digest are theirs. Takes a
    /// tenth of a millisecond for each graph.
    ///
    /// # Errors
    /// When anything is wrong, or cannot be tried.
    pub fn run_all(&self, blocks: &[Block], record: &UnitRecord) -> Result<(), TrialError<E>> {
        play!(self.game, self.plan.order, G => TrialOf::<G, E>::new(self.plan, self.read).run_all(blocks, record))
    }
}

/// Tries records on evidence in a game whose type is known, on all threads: whoever delivers them
/// waits for it.
fn run_on<G: Game, E: Send>(blocks: &[Block], evidence: &Evidence) -> Result<(), TrialError<E>> {
    let Some(sequence) = blocks.first().map(|block| block.id.sequence) else { return Ok(()) };
    let decoded = evidence
        .records
        .iter()
        .map(|(&place, record)| (place, G::decode(sequence.order(), record)));
    let known = Known::<G>(decoded.collect());
    let records = records_at(blocks, &evidence.places)?;
    let flaw = records
        .par_iter()
        .find_map_first(|&(slot, record)| known.try_record(&sequence, slot, record).err());
    flaw.map_or(Ok(()), Err)
}

/// A trial in a game whose type is known.
struct TrialOf<'a, G: Game, E> {
    plan: &'a Plan,
    read: Read<'a, E>,
    known: Known<G>,
}

/// What the records in work lead to: outcomes of the graphs in these slots, in the labels that the
/// slots give them.
struct Known<G: Game>(HashMap<(DegreeSequence, u64), G::Outcome>);

impl<'a, G: Game, E> TrialOf<'a, G, E> {
    fn new(plan: &'a Plan, read: Read<'a, E>) -> Self {
        TrialOf { plan, read, known: Known(HashMap::new()) }
    }

    fn run(&mut self, blocks: &[Block], places: &[u64]) -> Result<(), TrialError<E>> {
        let Some(sequence) = blocks.first().map(|block| block.id.sequence) else { return Ok(()) };
        self.try_records(&sequence, records_at(blocks, places)?.into_iter(), |_, _| {})
    }

    fn run_all(&mut self, blocks: &[Block], record: &UnitRecord) -> Result<(), TrialError<E>> {
        let Some(sequence) = blocks.first().map(|block| block.id.sequence) else { return Ok(()) };
        let mut statistics = Statistics::default();
        let mut digester = Digester::<G>::new(&sequence, Kernel::best());
        let records = blocks.as_chunks::<3>().0.iter().flat_map(|[keys, outcomes, _]| {
            keys.slots().enumerate().map(|(i, slot)| (slot, outcomes.record(i)))
        });
        self.try_records(&sequence, records, |graph, outcome| {
            let automorphisms = nauty::label(graph).automorphisms;
            statistics.add(graph, automorphisms, &G::tally(graph, automorphisms, outcome));
            digester.add(graph, outcome);
        })?;
        match statistics == record.statistics && digester.finish() == record.digest() {
            true => Ok(()),
            false => Err(TrialError::Flaw(
                "its counts or its digest are not those of its graphs".to_owned(),
            )),
        }
    }

    fn try_records<'b>(
        &mut self,
        sequence: &DegreeSequence,
        mut records: impl Iterator<Item = (u64, &'b [u8])>,
        mut then: impl FnMut(&Graph, &G::Outcome),
    ) -> Result<(), TrialError<E>> {
        loop {
            let batch: Vec<(u64, &[u8])> = records.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.gather(sequence, batch.iter().map(|(slot, _)| *slot))?;
            for (slot, record) in batch {
                let (graph, outcome) = self.known.try_record(sequence, slot, record)?;
                then(&graph, &outcome);
            }
        }
    }

    /// Reads the outcomes of all graphs that these graphs lead to. What is not there is found
    /// missing later.
    fn gather(
        &mut self,
        sequence: &DegreeSequence,
        slots: impl Iterator<Item = u64>,
    ) -> Result<(), TrialError<E>> {
        if !G::Method::READS_PREDECESSORS {
            return Ok(());
        }
        let mut wanted: BTreeMap<(DegreeSequence, u32), BTreeSet<u64>> = BTreeMap::new();
        for graph in slots.filter_map(|slot| graph_of_slot(sequence, slot)) {
            for (sequence, slot) in places_without_an_edge(&graph) {
                let Some(index) = self.plan.find(&sequence) else { continue };
                let bits = self.plan.shards[index as usize].bucket_bits;
                let bucket = bucket_of_slot(graph.order(), slot, bits) as u32;
                wanted.entry((sequence, bucket)).or_default().insert(slot);
            }
        }
        self.known.0.clear();
        for ((sequence, bucket), slots) in wanted {
            let blocks = (self.read)(&sequence, bucket)
                .map_err(TrialError::Read)?
                .ok_or(TrialError::Gone)?;
            for [keys, outcomes] in blocks.as_chunks::<2>().0 {
                for (slot, i) in keys.places(slots.iter().copied()) {
                    let outcome = G::decode(sequence.order(), outcomes.record(i));
                    self.known.0.insert((sequence, slot), outcome);
                }
            }
        }
        Ok(())
    }
}

impl<G: Game> Known<G> {
    /// The graph and its outcome, if the record is right.
    fn try_record<E>(
        &self,
        sequence: &DegreeSequence,
        slot: u64,
        record: &[u8],
    ) -> Result<(Graph, G::Outcome), TrialError<E>> {
        let flaw = |text: String| Err(TrialError::Flaw(text));
        let Some(graph) = graph_of_slot(sequence, slot) else {
            return flaw(format!("slot {slot:#x} is no graph of {sequence}"));
        };
        if slot_of(&graph) != slot {
            return flaw(format!("{} does not stand where it should", graph6::encode(&graph)));
        }
        let derived = G::Method::derive(&graph, |rest| self.find(rest))?;
        let mut expected = vec![0; record.len()];
        G::encode(graph.order(), &derived, &mut expected);
        match expected == record {
            true => Ok((graph, derived)),
            false => flaw(format!(
                "the record of {} does not follow from its predecessors",
                graph6::encode(&graph)
            )),
        }
    }

    /// The outcome of a graph with one edge less.
    fn find<E>(&self, rest: &Graph) -> Result<G::Outcome, TrialError<E>> {
        let missing = || {
            TrialError::Flaw(format!("{}, which it leads to, is not known", graph6::encode(rest)))
        };
        let (sequence, slot) = (DegreeSequence::of(rest), slot_of(rest));
        let outcome = self.0.get(&(sequence, slot)).ok_or_else(missing)?;
        let stored = graph_of_slot(&sequence, slot).ok_or_else(missing)?;
        let [from, to] = [&stored, rest].map(nauty::label);
        if from.canonical != to.canonical {
            return Err(missing());
        }
        let canonical = G::relabelled(rest.order(), outcome, &from.label);
        Ok(G::relabelled(rest.order(), &canonical, &to.inverse()))
    }
}

/// Slots and records of a unit at these places, which increase strictly.
fn records_at<'b, E>(
    blocks: &'b [Block],
    places: &[u64],
) -> Result<Vec<(u64, &'b [u8])>, TrialError<E>> {
    let mut entries = blocks.as_chunks::<3>().0.iter().flat_map(|[keys, outcomes, _]| {
        keys.slots().enumerate().map(move |(i, slot)| (slot, outcomes, i))
    });
    let mut passed = 0;
    let records = places.iter().map(|&place| {
        let (slot, outcomes, i) = entries.nth((place - passed) as usize)?;
        passed = place + 1;
        Some((slot, outcomes.record(i)))
    });
    let records: Option<_> = records.collect();
    records.ok_or_else(|| TrialError::Flaw("it has fewer graphs than it says".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, convert::Infallible, time::Duration};

    use trailtrap_shared::{
        class::Class,
        game::{EdgeGeography, TrailTrap},
        partition::BucketTable,
        plan::PlanOptions,
    };
    use trailtrap_worker::{counting::recount::recount, link::memory};

    use super::*;
    use crate::{
        core::{random::Random, secret::Secret},
        records::{Author, Delivery, delivery},
    };

    #[test]
    fn draws_are_as_many_as_they_should_be() {
        let mut random = Secret::of(5).draws("test", &5);
        let mut draw = |graphs, rate| Odds::at_hand(rate).draw(graphs, &mut random);
        let drawn: usize = (0..20_000).map(|_| draw(1000, 0.01).len()).sum();
        assert!((180_000..220_000).contains(&drawn), "one in a hundred of 20 million: {drawn}");
        assert_eq!(draw(77, 1.0), (0..77).collect::<Vec<_>>());
        // None twice, however many.
        let mut how_often = vec![0; 1000];
        let units = (0..16_000).map(|_| draw(1000, 0.05)).filter(|drawn| !drawn.is_empty());
        let units: Vec<Vec<u64>> = units.collect();
        for drawn in &units {
            assert!(drawn.len() == 800 && drawn.is_sorted_by(|a, b| a < b));
            drawn.iter().for_each(|&place| how_often[place as usize] += 1);
        }
        let expected = 0.8 * units.len() as f64;
        assert!(
            how_often.iter().all(|&count| (count as f64 - expected).abs() < 0.1 * expected),
            "{how_often:?}"
        );
        assert!(draw(77, 0.0).is_empty());
        assert!(draw(0, 1.0).is_empty());
        let single = (0..16_000).filter(|_| draw(1, 1e-9) == [0]).count();
        assert!((800..1200).contains(&single), "one unit in sixteen, however small: {single}");
    }

    /// Units of order 9 are drawn as if nothing had to be read. Of order 11, and where shards are
    /// split as finely as those of order 12, trials read little in all. Whoever asks for more gets it.
    #[test]
    fn trials_read_little_beside_what_is_solved() {
        let usual = PlanOptions::default();
        let fine = PlanOptions { part_graphs: 3000, bucket_bytes: 50_000 };
        let of = |order: u8, options| {
            let plan = Plan::new(TrailTrap::LAYOUT, order.into(), options);
            let (mut solved, mut read, mut reluctant) = (0.0, 0.0, 0);
            for (index, shard) in (0..).zip(&plan.shards) {
                let unit = Unit { order, shard: index, part: 0 };
                let odds = Odds::reading(&plan, unit, 1e-4);
                let graphs = |p: &u32| plan.shards[*p as usize].estimate as f64;
                let reads: f64 = shard.predecessors.iter().map(graphs).sum();
                solved += shard.estimate as f64;
                read += odds.unit * reads * f64::from(shard.parts);
                assert!((1e-4..=1.0 / 16.0).contains(&odds.unit));
                reluctant += usize::from(odds != Odds::at_hand(1e-4));
                for rate in [0.0, 0.3, 1.0] {
                    assert_eq!(Odds::reading(&plan, unit, rate), Odds::at_hand(rate));
                }
            }
            (read / solved, reluctant)
        };
        let (read, reluctant) = of(9, usual);
        assert!(read < 0.8 && reluctant == 0, "{read} {reluctant}");
        let (read, reluctant) = of(10, usual);
        assert!(read < 0.6 && reluctant < 1000, "{read} {reluctant}");
        for (order, options) in [(11, usual), (10, fine)] {
            let (read, reluctant) = of(order, options);
            assert!(read < 0.08 && reluctant > 1000, "{read} {reluctant}");
        }
    }

    /// Every record of every unit of order 6 passes; and whichever bit of a record, or of the
    /// counts, is changed, that is noticed.
    #[test]
    fn what_is_right_passes_and_what_is_wrong_does_not() {
        tried::<TrailTrap>(GameName::TrailTrap);
        tried::<EdgeGeography>(GameName::EdgeGeography);
    }

    /// What a witness would have taken of these graphs of a unit.
    fn evidence_of(
        plan: &Plan,
        deliveries: &HashMap<DegreeSequence, Delivery>,
        sequence: DegreeSequence,
        blocks: &[Block],
        places: Vec<u64>,
    ) -> Evidence {
        let mut records = HashMap::new();
        if plan.layout.reads_predecessors {
            for slot in blocks.iter().step_by(3).flat_map(Block::slots) {
                let graph = graph_of_slot(&sequence, slot).unwrap();
                for (from, slot) in places_without_an_edge(&graph) {
                    let found = deliveries[&from].blocks.chunks_exact(3).find_map(|bucket| {
                        let (_, i) = bucket[0].places([slot]).next()?;
                        Some(bucket[1].record(i).to_vec())
                    });
                    records.insert((from, slot), found.unwrap());
                }
            }
        }
        Evidence { places, records }
    }

    fn tried<G: Game>(game: GameName) {
        let options = PlanOptions { part_graphs: 1 << 20, bucket_bytes: 60 };
        let mut deliveries: HashMap<DegreeSequence, Delivery> = HashMap::new();
        let plan = memory::each_unit_of(game, Class::All, 6, options, |solved| {
            let (unit, sequence) = (solved.unit, solved.sequence);
            let (blocks, summary) = (solved.blocks(), solved.summary.clone());
            let worker = Author::new("test", "portable");
            deliveries.insert(
                sequence,
                delivery(unit, sequence, blocks, summary, Duration::ZERO, worker),
            );
        })
        .unwrap();
        let read = |sequence: &DegreeSequence, bucket: u32| {
            let blocks = deliveries[sequence].blocks.chunks_exact(3).nth(bucket as usize);
            Ok::<_, Infallible>(blocks.map(|blocks| blocks[..2].to_vec()))
        };
        let mut random = Random(1);
        for Delivery { sequence, blocks, record, unit, .. } in deliveries.values() {
            let Unit { order: 6, .. } = unit else { panic!("{unit:?}") };
            Trial::new(game, &plan, &read).run_all(blocks, record).unwrap();
            let all = 0..record.statistics.classes.all.graphs as u64;
            Trial::new(game, &plan, &read).run(blocks, &all.clone().collect::<Vec<_>>()).unwrap();
            let too_many = Trial::new(game, &plan, &read).run(blocks, &[all.end]);
            assert!(matches!(too_many, Err(TrialError::Flaw(_))));
            let mut miscounted = record.clone();
            miscounted.statistics.classes.sums.0[0] += 1;
            assert!(matches!(
                Trial::new(game, &plan, &read).run_all(blocks, &miscounted),
                Err(TrialError::Flaw(_))
            ));
            let mut misdigested = record.clone();
            misdigested.digest[3] ^= 1;
            assert!(matches!(
                Trial::new(game, &plan, &read).run_all(blocks, &misdigested),
                Err(TrialError::Flaw(_))
            ));
            // One bit of the record of one graph.
            let changed = random.below(all.end);
            // Some mean nothing, and have to be zero.
            let bit = random.draw() as usize % (8 * G::LAYOUT.record_bytes(6));
            let mut before = 0;
            let damaged = blocks.chunks_exact(3).enumerate().flat_map(|(bucket, blocks)| {
                let (keys, outcomes) = (&blocks[0], &blocks[1]);
                let start = before;
                before += keys.count as u64;
                let write = |i: usize, bytes: &mut [u8]| {
                    bytes.copy_from_slice(outcomes.record(i));
                    bytes[bit / 8] ^= u8::from(start + i as u64 == changed) << (bit % 8);
                };
                let slots: Vec<u64> = keys.slots().collect();
                let bits = keys.id.bucket_bits;
                let table = BucketTable::new(
                    G::LAYOUT,
                    *sequence,
                    bits,
                    bucket as u32,
                    slots.into_iter(),
                    write,
                );
                table.to_blocks(0)
            });
            let damaged: Vec<Block> = damaged.collect();
            if bit >= G::LAYOUT.record_bits(6) {
                assert!(recount(game, &plan, &damaged).is_err(), "bit {bit}");
            }
            let failed = Trial::new(game, &plan, &read).run(&damaged, &[changed]);
            assert!(
                matches!(failed, Err(TrialError::Flaw(_))),
                "bit {bit} of graph {changed} of {sequence}"
            );
            let others: Vec<u64> = all.clone().filter(|&place| place != changed).collect();
            Trial::new(game, &plan, &read).run(&damaged, &others).unwrap();
            // The same with what was at hand, and whatever is wrong with that.
            let nothing = |_: &DegreeSequence, _| -> Result<Option<Vec<Block>>, Infallible> {
                panic!("nothing is read")
            };
            let at_hand = |blocks: &[Block], evidence: &Evidence| {
                let read: Read<'_, Infallible> = &nothing;
                Trial::new(game, &plan, read).run_on(blocks, evidence)
            };
            let evidence = evidence_of(&plan, &deliveries, *sequence, blocks, all.collect());
            at_hand(blocks, &evidence).unwrap();
            assert!(matches!(at_hand(&damaged, &evidence), Err(TrialError::Flaw(_))));
            for place in evidence.records.keys() {
                let mut lacking = evidence.clone();
                lacking.records.remove(place);
                let tried = at_hand(blocks, &lacking);
                // Whether a vertex wins in edge geography may follow from a few predecessors.
                let is_enough = game == GameName::EdgeGeography && tried.is_ok();
                assert!(is_enough || matches!(tried, Err(TrialError::Flaw(_))));
            }
        }
    }
}
