//! Outcomes derived again, one step of the recurrence each, from those of their predecessors, which
//! nauty finds in the store.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use anyhow::{Context, anyhow, ensure};
use parking_lot::Mutex;
use rayon::prelude::*;
use trailtrap_census::{core::random::Random, read::finished::FinishedOrder};
use trailtrap_shared::{
    count::{statistics::Statistics, summary::Summary},
    game::{Game, Method, SUMS},
    graph::{Code, Graph, factorial, nauty},
    partition::BucketTable,
    plan::Shard,
};

use super::{Verifier, draw_shard, stored_graph};

/// Graphs of one shard that are drawn together, as its predecessors are labelled by nauty once.
const DRAWN_TOGETHER: usize = 10;

impl<G: Game> Verifier<G> {
    /// How many graphs there are.
    fn graphs(&self) -> u128 {
        let summaries = self.finished.result.by_size.iter();
        summaries.map(|summary| summary.statistics.classes.all.graphs).sum()
    }

    /// Graphs drawn at random, in groups from one shard each, derived again from their
    /// predecessors; or all, if so many are to be drawn.
    pub(super) fn steps(&self) -> anyhow::Result<String> {
        if u128::from(self.drawing.sample) >= self.graphs() {
            return self.steps_of_all();
        }
        self.finished.outcomes()?;
        let plan = &self.finished.plan;
        let masses = self.masses()?;
        let mut random = Random(self.drawing.seed);
        let mut drawn: HashMap<usize, Vec<u64>> = HashMap::new();
        let mut left = self.drawing.sample as usize;
        while left > 0 {
            let shard = draw_shard(&masses, &mut random);
            let together = left.min(DRAWN_TOGETHER);
            left -= together;
            drawn.entry(shard).or_default().extend((0..together).map(|_| random.draw()));
        }
        let mut drawn: Vec<(usize, Vec<u64>)> = drawn.into_iter().collect();
        drawn.sort_unstable();
        let cache = KnownShards::<G>::default();
        let checked = AtomicUsize::new(0);
        self.for_each_in_turn("steps", &drawn, |(index, picks)| {
            let shard = &plan.shards[*index];
            let known = cache.of_predecessors(&self.finished, shard)?;
            let tables: Vec<BucketTable> =
                self.finished.tables(shard).collect::<Result<_, _>>()?;
            let total: usize = tables.iter().map(BucketTable::len).sum();
            // A graph that is drawn again is not another one.
            let places = picks.iter().map(|pick| (pick % total.max(1) as u64) as usize);
            let mut places: Vec<usize> = places.collect();
            places.sort_unstable();
            places.dedup();
            checked.fetch_add(places.len(), Ordering::Relaxed);
            places.into_par_iter().try_for_each(|mut i| {
                let table = tables.iter().find(|table| {
                    let here = i < table.len();
                    i -= if here { 0 } else { table.len() };
                    here
                });
                table.map_or(Ok(()), |table| self.step(shard, table, i, &known).map(drop))
            })?;
            // Shards drawn at random seldom have predecessors in common, and these are large.
            cache.forget();
            Ok(())
        })?;
        let (graphs, sequences) = (checked.into_inner(), drawn.len());
        Ok(format!(
            "{graphs} graphs of {sequences} degree sequences drawn with seed {}",
            self.drawing.seed
        ))
    }

    /// Every graph, derived again from its predecessors; and so the numbers of first moves that
    /// win, which outcomes do not tell.
    pub(super) fn steps_of_all(&self) -> anyhow::Result<String> {
        self.finished.outcomes()?;
        let plan = &self.finished.plan;
        let recorded = self.recorded_of_shards()?;
        let cache = KnownShards::<G>::default();
        let checked = AtomicU64::new(0);
        // Sizes one after the other: a shard's predecessors have one edge less, so no more than a
        // size is held.
        for size in 0..=plan.max_size {
            let shards = plan.shards.iter().enumerate().filter(|(_, shard)| shard.size == size);
            self.for_each_shard(&format!("steps, {size} edges"), shards, |index, shard| {
                let known = cache.of_predecessors(&self.finished, shard)?;
                let mut derived = DerivedSums::default();
                for table in self.finished.tables(shard) {
                    let table = table?;
                    derived = (0..table.len())
                        .into_par_iter()
                        .map(|i| self.step(shard, &table, i, &known))
                        .try_reduce(DerivedSums::default, |a, b| Ok(a.plus(b)))?
                        .plus(derived);
                    checked.fetch_add(table.len() as u64, Ordering::Relaxed);
                }
                let Summary { statistics, .. } =
                    recorded.get(&(index as u32)).context("a shard without records")?;
                derived.check::<G>(statistics).with_context(|| shard.sequence.to_string())?;
                Ok(())
            })?;
            cache.forget();
        }
        Ok(format!("all {} graphs", checked.into_inner()))
    }

    /// Derives a graph again from its predecessors, and counts its first moves that win.
    fn step(
        &self,
        shard: &Shard,
        table: &BucketTable,
        i: usize,
        known: &[Arc<Known<G>>],
    ) -> anyhow::Result<DerivedSums> {
        let graph = stored_graph(shard, table, i)?;
        let stored = G::decode(self.finished.plan.order, table.record(i));
        let derived = G::Method::derive(&graph, |rest| {
            let labelling = nauty::label(rest);
            let found = known.iter().find_map(|known| known.get(&labelling));
            found.ok_or_else(|| anyhow!("{rest:?}, which {graph:?} leads to, is not in the store"))
        })?;
        ensure!(
            G::record(graph.order(), &derived) == G::record(graph.order(), &stored),
            "{graph:?} (shard {}): the stored outcome is not what follows from its predecessors",
            shard.sequence
        );
        let automorphisms = nauty::label(&graph).automorphisms;
        let labellings = u128::from(factorial(graph.order()) / automorphisms);
        let shares = G::tally(&graph, automorphisms, &derived).sums.map(u128::from);
        Ok(DerivedSums { classes: shares, labelled: shares.map(|share| share * labellings) })
    }
}

/// The sums of some graphs whose outcomes were derived again, and those of their labellings.
#[derive(Clone, Copy, Default)]
struct DerivedSums {
    classes: [u128; SUMS],
    labelled: [u128; SUMS],
}

impl DerivedSums {
    fn plus(self, other: Self) -> Self {
        let add = |a: [u128; SUMS], b: [u128; SUMS]| std::array::from_fn(|i| a[i] + b[i]);
        DerivedSums {
            classes: add(self.classes, other.classes),
            labelled: add(self.labelled, other.labelled),
        }
    }

    /// Whether these are the recorded ones.
    fn check<G: Game>(&self, recorded: &Statistics) -> anyhow::Result<()> {
        let (classes, labelled) = (&recorded.classes.sums.0, &recorded.labelled.sums.0);
        for (i, sum) in G::ABOUT.sums.iter().enumerate() {
            ensure!(
                (self.classes[i], self.labelled[i]) == (classes[i], labelled[i]),
                "{} is {} ({} labelled), recorded are {} ({} labelled)",
                sum.meaning,
                self.classes[i],
                self.labelled[i],
                classes[i],
                labelled[i]
            );
        }
        Ok(())
    }
}

/// Outcomes of graphs, known by nauty's canonical form and kept in nauty's labels.
struct Known<G: Game>(HashMap<Code, G::Outcome>);

impl<G: Game> Known<G> {
    /// Adds a graph with its outcome; `false` if it was there, that is, if it stands in the store
    /// twice.
    fn insert(&mut self, graph: &Graph, outcome: &G::Outcome) -> bool {
        let labelling = nauty::label(graph);
        let outcome = G::relabelled(graph.order(), outcome, &labelling.label);
        self.0.insert(labelling.canonical.code(), outcome).is_none()
    }

    /// The outcome of a graph with that labelling.
    fn get(&self, labelling: &nauty::NautyLabelling) -> Option<G::Outcome> {
        let outcome = self.0.get(&labelling.canonical.code())?;
        Some(G::relabelled(labelling.canonical.order(), outcome, &labelling.inverse()))
    }
}

/// Outcomes of whole shards in nauty's labels, kept while neighbouring shards read them.
struct KnownShards<G: Game>(Mutex<HashMap<u32, Arc<Known<G>>>>);

impl<G: Game> Default for KnownShards<G> {
    fn default() -> Self {
        KnownShards(Mutex::default())
    }
}

impl<G: Game> KnownShards<G> {
    fn of_predecessors(
        &self,
        finished: &FinishedOrder,
        shard: &Shard,
    ) -> anyhow::Result<Vec<Arc<Known<G>>>> {
        shard.predecessors.iter().map(|&index| self.of_shard(finished, index)).collect()
    }

    fn of_shard(&self, finished: &FinishedOrder, index: u32) -> anyhow::Result<Arc<Known<G>>> {
        if let Some(known) = self.0.lock().get(&index) {
            return Ok(known.clone());
        }
        let shard = &finished.plan.shards[index as usize];
        let mut known = Known::<G>(HashMap::new());
        for table in finished.tables(shard) {
            let table = table?;
            for i in 0..table.len() {
                let graph = stored_graph(shard, &table, i)?;
                let outcome = G::decode(finished.plan.order, table.record(i));
                ensure!(
                    known.insert(&graph, &outcome),
                    "{}: {graph:?} stands in it twice",
                    shard.sequence
                );
            }
        }
        let known = Arc::new(known);
        self.0.lock().insert(index, known.clone());
        Ok(known)
    }

    fn forget(&self) {
        self.0.lock().clear();
    }
}
