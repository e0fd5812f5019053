//! Checks a finished order again, from the store alone.

mod steps;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use rayon::prelude::*;
use trailtrap_census::{
    core::{
        parents::{ENUMERATED_ORDER, Parents},
        random::Random,
        schedule::{OnRecord, Schedule},
    },
    driver::contents_of_parents,
    read::finished::{self, Alarms, Dispute, FinishedOrder, FinishedSource},
    records::UnitRecord,
    store::{StoreError, directory::DataFlag},
    trust::checks,
};
use trailtrap_shared::{
    class::Class,
    count::{
        ahead::{Share, ToldAhead},
        digest::Digester,
        statistics::Statistics,
        summary::Summary,
    },
    game::{Game, Search, Theorem},
    graph::Graph,
    labelling::{batch::Kernel, hashed},
    partition::{BucketTable, Content, Section, graph_of_slot, slot_of_labelled},
    plan::{Shard, Unit},
};
use trailtrap_worker::{counting::recount::AheadCounter, kernel::Solver};

use super::{Check, Drawing, Findings, LARGEST_FORWARD_SIZE, MOST_POSITIONS};
use crate::terminal;

/// A finished order that is being checked.
pub struct Verifier<G: Game> {
    game: PhantomData<G>,
    finished: FinishedOrder,
    /// What is recorded of its units, if it can be read.
    records: Result<Vec<(Unit, UnitRecord)>, Arc<StoreError>>,
    drawing: Drawing,
}

impl<G: Game> Verifier<G> {
    /// Checks of this order, as many as `drawing` says.
    pub fn new(finished: FinishedOrder, drawing: Drawing) -> Self {
        let records: Result<_, StoreError> = finished.store.each_unit_of(&finished.plan).collect();
        let records = records.map_err(Arc::new);
        Verifier { game: PhantomData, finished, records, drawing }
    }

    /// Runs all checks of the level asked for.
    pub fn run(&self, findings: &mut Findings) -> anyhow::Result<()> {
        let thorough = self.drawing.level == 6;
        let checks: [Check; 11] = [
            (1, "no alarms", &|| self.alarms()),
            (1, "every unit recorded once", &|| self.units()),
            (1, self.theory(), &|| self.counts()),
            (1, "known sequences", &|| self.known_sequences()),
            (1, "units computed from what is there", &|| self.inputs()),
            (2, "blocks complete and undamaged", &|| self.blocks()),
            (3, "statistics and digests of the stored graphs", &|| self.digests()),
            (4, "one step of the recurrence, by nauty", &|| {
                if thorough { self.steps_of_all() } else { self.steps() }
            }),
            (4, "forward search", &|| self.forward_search()),
            (4, "theorems", &|| self.theorems()),
            (5, "shards solved again", &|| self.shards(thorough)),
        ];
        findings.run(&self.finished.plan.name(), &checks)
    }

    /// By what counts are checked.
    fn theory(&self) -> &'static str {
        match self.class() {
            Class::All => "Pólya counts and mass formula",
            class if class.is_by_degrees() => "mass formula",
            _ => "labelled graphs from those with one edge less",
        }
    }

    fn class(&self) -> Class {
        self.finished.plan.layout.class
    }

    /// Nothing was found wrong that nobody has looked into, in this order or in those that it was
    /// computed from.
    fn alarms(&self) -> anyhow::Result<String> {
        let FinishedOrder { store, plan, .. } = &self.finished;
        let alarms = Alarms::of(store)?;
        match alarms.dispute(plan.order) {
            Some(Dispute::Open(number, alarm)) => bail!(
                "{}; when it is of no concern any more, `trailtrap alarms --settle {number} \
                 --because REASON{}`",
                alarm.line(number),
                DataFlag::of(store)
            ),
            Some(Dispute::Doubted(number, order)) => {
                let mut all = alarms.all.iter();
                ensure!(
                    !all.any(|(other, alarm)| *other == number && alarm.is_untraced()),
                    "what alarm {number} doubts is not known yet; a census finds it out when it \
                     begins"
                );
                bail!("what alarm {number} doubts of order {order} has not been solved again yet")
            }
            None => {}
        }
        let concerning = alarms.all.iter().filter(|(_, alarm)| alarm.concerns(plan.order));
        Ok(format!("{} settled", concerning.count()))
    }

    /// Every unit was computed from the partitions that are there now.
    fn inputs(&self) -> anyhow::Result<String> {
        let recalled: HashMap<Unit, OnRecord> = self
            .records()?
            .iter()
            .map(|(unit, record)| {
                (*unit, OnRecord { inputs: record.inputs, content: record.content })
            })
            .collect();
        let count = recalled.len();
        let plan = Arc::new(self.finished.plan.clone());
        let parents = contents_of_parents(&self.finished.store, &plan)?;
        let mut schedule = Schedule::new(plan.clone(), parents, recalled);
        if let Some(unit) = schedule.recall().stale.first() {
            let sequence = plan.shard_of(*unit).sequence;
            bail!(
                "part {} of {sequence} was computed from partitions that are not there",
                unit.part
            );
        }
        ensure!(schedule.is_done(), "some units are missing");
        Ok(format!("{count} units"))
    }

    /// Every unit of the plan has a record, and there are no others.
    fn units(&self) -> anyhow::Result<String> {
        let records = self.records()?;
        let mut expected: HashSet<Unit> = self.finished.plan.units().collect();
        for (unit, _) in records {
            ensure!(expected.remove(unit), "unit {unit:?} is recorded but not in the plan");
        }
        if let Some(unit) = expected.iter().min() {
            bail!(
                "{} units are not recorded, the first is {unit:?}: the list has a gap",
                expected.len()
            );
        }
        Ok(format!("{} units", records.len()))
    }

    /// The counts of each size and of each shard are those of theory, and the results are their
    /// sums.
    fn counts(&self) -> anyhow::Result<String> {
        let plan = &self.finished.plan;
        let mut by_size = vec![Summary::default(); plan.max_size + 1];
        let mut masses = vec![0u128; plan.shards.len()];
        for (unit, record) in self.records()? {
            let shard = self.shard_of(unit)?;
            let sound = record.statistics.is_consistent(&G::ABOUT)
                && record.statistics.is_possible(&G::ABOUT, plan.order, shard.size);
            ensure!(sound, "the counts of {} contradict each other", shard.sequence);
            masses[unit.shard as usize] += record.statistics.labelled.all.graphs;
            by_size[shard.size].add(&record.statistics, record.digest());
        }
        self.check_masses(&masses, &self.stored_masses()?)?;
        checks::check_order(
            self.class(),
            plan.order,
            by_size.iter().map(|summary| &summary.statistics),
        )?;
        if plan.is_complete() && self.class() != Class::All {
            let mut results = finished::results(&self.finished.store)?;
            results.truncate(plan.order);
            checks::check_connected(self.class(), &results)?;
        }
        for (size, (found, reported)) in
            by_size.iter().zip(&self.finished.result.by_size).enumerate()
        {
            ensure!(found == reported, "the result for {size} edges is not the sum of its units");
        }
        let sizes: BTreeSet<usize> = plan.shards.iter().map(|shard| shard.size).collect();
        Ok(format!("{} sizes, {} shards", sizes.len(), plan.shards.len()))
    }

    /// What the store keeps of what units tell about masses of shards with one edge more.
    fn stored_masses(&self) -> anyhow::Result<HashMap<u32, u128>> {
        let mut told: HashMap<u32, u128> = HashMap::new();
        if self.class().is_by_degrees() {
            return Ok(told);
        }
        for (unit, record) in self.records()? {
            let ahead = self.finished.store.ahead(*unit)?;
            let ahead = ahead.filter(|ahead| ahead.content == record.content);
            let ahead = ahead.context("it is not known what a unit tells of larger graphs")?;
            ahead.masses.iter().for_each(|(of, mass)| *told.entry(*of).or_default() += mass);
        }
        Ok(told)
    }

    /// Whether all labelled graphs of each shard are there: as many as its degrees tell, or, where
    /// these do not, as its predecessors do. What these tell is a multiple of the number of edges.
    fn check_masses(&self, masses: &[u128], told: &HashMap<u32, u128>) -> anyhow::Result<()> {
        let by_degrees = self.class().is_by_degrees();
        for ((index, shard), mass) in (0..).zip(&self.finished.plan.shards).zip(masses) {
            let size = shard.size as u128;
            let expected = match told.get(&index) {
                _ if by_degrees || size == 0 => shard.mass,
                Some(told) if told % size == 0 => told / size,
                Some(_) => bail!("shard {}: what is told of its mass is uneven", shard.sequence),
                None => 0,
            };
            ensure!(*mass == expected, "shard {} has mass {mass}, not {expected}", shard.sequence);
        }
        Ok(())
    }

    /// What others have counted: graphs, connected graphs, and the paper's Table 1.
    fn known_sequences(&self) -> anyhow::Result<String> {
        if !self.finished.plan.is_complete() {
            return Ok("none, as they count graphs with any number of edges".to_owned());
        }
        let sum = self.finished.result.total().statistics;
        let compared =
            checks::check_known(&G::ABOUT, self.class(), self.finished.plan.order, &sum)?;
        Ok(format!("{compared} sequences"))
    }

    /// Every block is there and undamaged (its checksum says), or can be mended, and has as many
    /// entries as its record says; and if none of a unit was dropped, they are those whose content
    /// its record names.
    fn blocks(&self) -> anyhow::Result<String> {
        let bytes = AtomicU64::new(0);
        let mended_before = self.finished.store.mended();
        self.for_each_unit("blocks", |unit, record, shard| {
            let kept = |&section: &Section| self.finished.keeps(shard.size, section);
            let sections: Vec<Section> = Section::ALL.into_iter().filter(kept).collect();
            let mut counts = vec![0u128; sections.len()];
            let mut contents = Vec::new();
            for bucket in shard.buckets() {
                for (section, count) in sections.iter().zip(&mut counts) {
                    let block = self.finished.store.block(shard, unit.part, bucket, *section)?;
                    *count += block.count as u128;
                    bytes.fetch_add(block.bytes().len() as u64, Ordering::Relaxed);
                    contents.push(block.content());
                }
            }
            let all = record.statistics.classes.all;
            for (section, count) in sections.iter().zip(counts) {
                let expected = match section {
                    Section::Keys | Section::Outcomes => all.graphs,
                    Section::Wins => all.listed,
                };
                ensure!(
                    count == expected,
                    "{}: blocks of {section:?} with {count} entries, recorded {expected}",
                    shard.sequence
                );
            }
            ensure!(
                sections != Section::ALL
                    || Content::of_blocks(contents.into_iter()) == record.content,
                "{}: the blocks of part {} are not those that were recorded",
                shard.sequence,
                unit.part
            );
            Ok(())
        })?;
        let mended = match self.finished.store.mended() - mended_before {
            0 => String::new(),
            blocks => format!(
                "; damaged and read by their parity: {blocks} (`trailtrap salvage{}` writes them \
                 anew)",
                DataFlag::of(&self.finished.store)
            ),
        };
        Ok(format!("{} MiB{}{mended}", bytes.into_inner() >> 20, self.not_kept()))
    }

    /// What was not kept of the order, for people.
    fn not_kept(&self) -> String {
        let sizes = 0..=self.finished.plan.max_size;
        let keeps = |section| sizes.clone().find(|&size| self.finished.keeps(size, section));
        match (keeps(Section::Keys), keeps(Section::Outcomes)) {
            (_, Some(0)) => String::new(),
            (Some(0), None) => "; outcomes were not kept".to_owned(),
            (Some(0), Some(first)) => {
                format!("; outcomes of graphs with fewer than {first} edges were not kept")
            }
            _ => "; of graphs that are not listed, and of outcomes, nothing was kept".to_owned(),
        }
    }

    /// The shards of which the outcomes are there: all, none, or those of graphs with most edges.
    ///
    /// # Errors
    /// If there is none.
    fn shards_with_outcomes(&self) -> anyhow::Result<Vec<(usize, &Shard)>> {
        let FinishedOrder { plan, .. } = &self.finished;
        let is_kept =
            |(_, shard): &(usize, &Shard)| self.finished.keeps(shard.size, Section::Outcomes);
        let shards: Vec<_> = plan.shards.iter().enumerate().filter(is_kept).collect();
        if shards.is_empty() {
            self.finished.outcomes()?;
        }
        Ok(shards)
    }

    /// Of which graphs outcomes were kept, if not of all, for people: `word` and how many edges they
    /// have at least.
    fn those_kept(&self, word: &str, shards: &[(usize, &Shard)]) -> String {
        match shards.first() {
            Some((_, shard)) if !self.finished.outcomes_kept => {
                format!(" {word} at least {} edges (other outcomes were not kept)", shard.size)
            }
            _ => String::new(),
        }
    }

    /// Statistics and digests, taken again from the stored keys and outcomes, and the list of
    /// P1-wins. |Aut| and the reference labelling are found again on the way; a graph that is not
    /// canonical, or stands in two parts, is noticed. The sum that records do not keep is that
    /// which the records with one edge less tell, if they are there.
    fn digests(&self) -> anyhow::Result<String> {
        let plan = &self.finished.plan;
        let shards = self.shards_with_outcomes()?;
        let graphs = AtomicU64::new(0);
        let told: Mutex<(HashMap<u32, Share>, HashMap<u32, u128>)> = Mutex::default();
        let of_shards = self.recorded_of_shards()?;
        self.for_each_shard("digests", shards.iter().copied(), |index, shard| {
            let (counted, ToldAhead { shares, masses }) = self.counted(shard)?;
            let Summary { statistics, digest: found } = counted;
            graphs.fetch_add(statistics.classes.all.graphs as u64, Ordering::Relaxed);
            let mut told = told.lock();
            shares.into_iter().for_each(|(of, share)| *told.0.entry(of).or_default() += share);
            masses.into_iter().for_each(|(of, mass)| *told.1.entry(of).or_default() += mass);
            drop(told);
            let Summary { statistics: recorded, digest } =
                of_shards.get(&(index as u32)).context("a shard without records")?;
            ensure!(
                statistics.without_told(&G::ABOUT) == recorded.without_told(&G::ABOUT),
                "{}: its graphs do not have the recorded statistics",
                shard.sequence
            );
            ensure!(
                found == *digest,
                "{}: its records have digest {found}, recorded is {digest}",
                shard.sequence
            );
            Ok(())
        })?;
        let scope = format!("{} graphs{}", graphs.into_inner(), self.those_kept("of", &shards));
        if !self.finished.outcomes_kept {
            return Ok(scope);
        }
        let (told, masses_told) = told.into_inner();
        let mut masses = vec![0; plan.shards.len()];
        for (index, recorded) in &of_shards {
            masses[*index as usize] = recorded.statistics.labelled.all.graphs;
        }
        self.check_masses(&masses, &masses_told)?;
        for (index, recorded) in of_shards {
            let Some(place) = G::ABOUT.told_by_outcome() else { break };
            let found = recorded.statistics.told(place, plan.order);
            ensure!(
                told.get(&index).copied().unwrap_or_default() == found,
                "{}: {} recorded, which does not follow from the graphs with one edge less",
                plan.shards[index as usize].sequence,
                G::ABOUT.sums[place].meaning
            );
        }
        Ok(scope)
    }

    /// Statistics and digest of the stored graphs of a shard, taken again, and what these tell ahead.
    fn counted(&self, shard: &Shard) -> anyhow::Result<(Summary, ToldAhead)> {
        let (plan, class) = (&self.finished.plan, self.class());
        let mut digester = Digester::<G>::new(&shard.sequence, Kernel::best());
        let mut statistics = Statistics::default();
        let mut ahead = AheadCounter::new(class);
        for (bucket, table) in self.finished.tables(shard).enumerate() {
            let table = table?;
            let mut won = Vec::new();
            for i in 0..table.len() {
                let graph = stored_graph(shard, &table, i)?;
                ensure!(class.contains(&graph), "{graph:?} does not belong to the class");
                let labelling = hashed::label(&graph);
                let slot = slot_of_labelled(&graph, &labelling);
                ensure!(
                    slot == table.slot(i),
                    "{}: the graph at slot {:#x} is not canonical",
                    shard.sequence,
                    table.slot(i)
                );
                let outcome = G::decode(plan.order, table.record(i));
                let tally = G::tally(&graph, labelling.automorphisms, &outcome);
                statistics.add(&graph, labelling.automorphisms, &tally);
                digester.add(&graph, &outcome);
                ahead.add::<G>(&graph, labelling.automorphisms, &outcome);
                won.extend(tally.listed.then_some(slot));
            }
            let mut listed = self.finished.slots(shard, bucket as u32, Section::Wins)?;
            listed.sort_unstable();
            ensure!(
                listed == won,
                "{}: its list of P1-wins is not what its outcomes say",
                shard.sequence
            );
        }
        let ahead = ahead.finish(plan, &shard.sequence).map_err(anyhow::Error::msg)?;
        Ok((Summary { statistics, digest: digester.finish() }, ahead))
    }

    /// What is recorded of each shard, all its parts together.
    fn recorded_of_shards(&self) -> anyhow::Result<HashMap<u32, Summary>> {
        let mut of_shards: HashMap<u32, Summary> = HashMap::new();
        for (unit, record) in self.records()? {
            self.shard_of(unit)?;
            let of_shard = of_shards.entry(unit.shard).or_default();
            of_shard.add(&record.statistics, record.digest());
        }
        Ok(of_shards)
    }

    /// Small graphs drawn at random, searched forward; or all, if so many are to be drawn.
    fn forward_search(&self) -> anyhow::Result<String> {
        let mut small = self.shards_with_outcomes()?;
        small.retain(|(_, shard)| shard.size <= LARGEST_FORWARD_SIZE);
        if small.is_empty() {
            self.finished.outcomes()?;
        }
        let recorded = self.recorded_of_shards()?;
        let count_of = |index: usize| {
            let summary = recorded.get(&(index as u32));
            summary.map_or(0, |summary| summary.statistics.classes.all.graphs)
        };
        let graphs: u128 = small.iter().map(|(index, _)| count_of(*index)).sum();
        let which = format!(
            "graphs of at most {LARGEST_FORWARD_SIZE} edges{}",
            self.those_kept("and", &small)
        );
        if u128::from(self.drawing.sample) >= graphs {
            self.for_each_shard("forward search", small.into_iter(), |_, shard| {
                for table in self.finished.tables(shard) {
                    let table = table?;
                    (0..table.len()).try_for_each(|i| self.search(shard, &table, i))?;
                }
                Ok(())
            })?;
            return Ok(format!("all {graphs} {which}"));
        }
        let mut random = Random(self.drawing.seed ^ 0x5eed);
        let masses = self.masses()?;
        let of_small: Vec<u128> = small.iter().map(|(index, _)| masses[*index]).collect();
        let picks: Vec<(&Shard, u64)> = (0..self.drawing.sample)
            .map(|_| (small[draw_shard(&of_small, &mut random)].1, random.draw()))
            .collect();
        // A graph that is drawn again is not another one.
        let searched = Mutex::new(HashSet::new());
        self.for_each("forward search", &picks, |(shard, pick)| {
            let bucket = (pick >> 32) as u32 & ((1 << shard.bucket_bits) - 1);
            let table = self.finished.table(shard, bucket)?;
            if table.is_empty() {
                return Ok(());
            }
            let i = (pick & 0xffff_ffff) as usize % table.len();
            let is_another = searched.lock().insert((shard.sequence, bucket, i));
            if is_another { self.search(shard, &table, i) } else { Ok(()) }
        })?;
        let searched = searched.into_inner().len();
        Ok(format!("{searched} {which} drawn with seed {}", self.drawing.seed))
    }

    /// Searches a stored graph forward.
    fn search(&self, shard: &Shard, table: &BucketTable, i: usize) -> anyhow::Result<()> {
        let plan = &self.finished.plan;
        let graph = stored_graph(shard, table, i)?;
        let won = G::Search::new(MOST_POSITIONS).solve(&graph)?.is_listed();
        ensure!(
            won == plan.layout.is_listed(plan.order, table.record(i)),
            "{graph:?}: forward search says that {} wins",
            if won { "P1" } else { "P2" }
        );
        Ok(())
    }

    /// All graphs of which a theorem tells the verdict.
    fn theorems(&self) -> anyhow::Result<String> {
        let Some(Theorem { class, source, is_listed }) = &G::ABOUT.theorem else {
            return Ok("none is known".to_owned());
        };
        let plan = &self.finished.plan;
        let decided = AtomicU64::new(0);
        let shards = self.shards_with_outcomes()?;
        let mut decidable = shards.clone();
        decidable.retain(|(_, shard)| class.may_have(&shard.sequence));
        if decidable.is_empty() {
            self.finished.outcomes()?;
        }
        self.for_each_shard("theorems", decidable.into_iter(), |_, shard| {
            for table in self.finished.tables(shard) {
                let table = table?;
                for i in 0..table.len() {
                    let graph = stored_graph(shard, &table, i)?;
                    if !class.contains(&graph) {
                        continue;
                    }
                    decided.fetch_add(1, Ordering::Relaxed);
                    ensure!(
                        is_listed(&graph) == plan.layout.is_listed(plan.order, table.record(i)),
                        "{graph:?}: {source} says otherwise"
                    );
                }
            }
            Ok(())
        })?;
        let kept = self.those_kept("of", &shards);
        Ok(format!("{} {}{kept}, by {source}", decided.into_inner(), class.title()))
    }

    /// Shards generated and solved again by the kernel of the census, from what is stored.
    fn shards(&self, all: bool) -> anyhow::Result<String> {
        self.finished.outcomes()?;
        let plan = &self.finished.plan;
        let is_generated = plan.order > ENUMERATED_ORDER + 1;
        let below = is_generated
            .then(|| FinishedOrder::open(&self.finished.store, plan.order - 1))
            .transpose()
            .context("shards are generated from the order below")?;
        let source = FinishedSource {
            finished: &self.finished,
            below,
            parents: Parents::enumerate(plan.layout),
        };
        let masses = self.masses()?;
        let mut random = Random(self.drawing.seed ^ 0x5a4d);
        let mut drawn: Vec<usize> = match all || self.drawing.sample >= plan.shards.len() as u64 {
            true => (0..plan.shards.len()).collect(),
            false => (0..self.drawing.sample).map(|_| draw_shard(&masses, &mut random)).collect(),
        };
        drawn.sort_unstable();
        drawn.dedup();
        let records: HashMap<Unit, &UnitRecord> =
            self.records()?.iter().map(|(unit, record)| (*unit, record)).collect();
        let stop = AtomicBool::new(false);
        let game = self.finished.store.game();
        let solver =
            Solver { game, kernel: Kernel::best(), allowance_bytes: 1 << 30, stop: &stop };
        self.for_each_in_turn("shards", &drawn, |&index| {
            for unit in plan.parts_of(index as u32) {
                let solved = solver.solve(plan, unit, &source)?;
                let summary = &solved.summary;
                let record = records
                    .get(&unit)
                    .with_context(|| format!("unit {unit:?} is not recorded"))?;
                ensure!(
                    summary.digest == record.digest() && summary.statistics == record.statistics,
                    "part {} of {}: solved again it has digest {}, recorded is {}",
                    unit.part,
                    solved.sequence,
                    summary.digest,
                    record.digest()
                );
            }
            Ok(())
        })?;
        Ok(format!("{} of {} shards", drawn.len(), plan.shards.len()))
    }

    /// The mass of each shard: as its degrees tell, or, in a class where they do not, as recorded.
    fn masses(&self) -> anyhow::Result<Vec<u128>> {
        let shards = &self.finished.plan.shards;
        if self.class().is_by_degrees() {
            return Ok(shards.iter().map(|shard| shard.mass).collect());
        }
        let mut masses = vec![0u128; shards.len()];
        for (index, recorded) in self.recorded_of_shards()? {
            masses[index as usize] = recorded.statistics.labelled.all.graphs;
        }
        ensure!(masses.iter().any(|&mass| mass > 0), "no graph is recorded");
        Ok(masses)
    }

    fn records(&self) -> anyhow::Result<&[(Unit, UnitRecord)]> {
        self.records.as_deref().map_err(|error| anyhow::Error::new(error.clone()))
    }

    /// The shard of a unit that has a record.
    fn shard_of(&self, unit: &Unit) -> anyhow::Result<&Shard> {
        let shard = self.finished.plan.shards.get(unit.shard as usize);
        shard.context("a record of no shard")
    }

    fn for_each_unit(
        &self,
        what: &str,
        check: impl Fn(Unit, &UnitRecord, &Shard) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<()> {
        self.for_each(what, self.records()?, |(unit, record)| {
            check(*unit, record, self.shard_of(unit)?)
        })
    }

    fn for_each_shard<'s>(
        &self,
        what: &str,
        shards: impl Iterator<Item = (usize, &'s Shard)>,
        check: impl Fn(usize, &Shard) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<()> {
        let shards: Vec<(usize, &Shard)> = shards.collect();
        self.for_each(what, &shards, |(index, shard)| check(*index, shard))
    }

    /// In parallel, with progress.
    fn for_each<T: Sync>(
        &self,
        what: &str,
        list: &[T],
        check: impl Fn(&T) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<()> {
        self.watched(what, list.len(), |done| {
            list.par_iter().with_max_len(1).try_for_each(|one| {
                done.fetch_add(1, Ordering::Relaxed);
                check(one)
            })
        })
    }

    /// One after the other, as each check is parallel in itself; with progress.
    fn for_each_in_turn<T: Sync>(
        &self,
        what: &str,
        list: &[T],
        check: impl Fn(&T) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.watched(what, list.len(), |done| {
            list.iter().try_for_each(|one| {
                done.fetch_add(1, Ordering::Relaxed);
                check(one)
            })
        })
    }

    fn watched(
        &self,
        what: &str,
        length: usize,
        work: impl FnOnce(&AtomicU64) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let done = AtomicU64::new(0);
        let what = format!("order {}, {what}", self.finished.plan.order);
        terminal::watched(&what, length as u64, &done, || work(&done))
    }
}

/// A shard, drawn with probability proportional to its mass, and so nearly to its number of
/// graphs.
fn draw_shard(masses: &[u128], random: &mut Random) -> usize {
    let total: u128 = masses.iter().sum();
    let mut at = random.below_large(total);
    masses
        .iter()
        .position(|&mass| {
            let here = at < mass;
            at -= if here { 0 } else { mass };
            here
        })
        .expect("masses add up to the total")
}

fn stored_graph(shard: &Shard, table: &BucketTable, i: usize) -> anyhow::Result<Graph> {
    graph_of_slot(&shard.sequence, table.slot(i))
        .with_context(|| format!("{}: slot {:#x} is no graph", shard.sequence, table.slot(i)))
}
