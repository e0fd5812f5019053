//! What the blocks of a unit say, counted again from nothing but them. So nobody need be believed
//! who says what they add up to.
//!
//! Every graph has to stand where its labelling puts it, so that no class comes twice, and every
//! record has to look the same from vertices that automorphisms exchange. The second is what makes
//! a record say one thing about a class: whatever is computed from such records, by whom and in
//! whatever labels, comes out the same, and is such a record again.
//!
//! One sum of a game may be told by outcomes only ([`Told::ByOutcome`]). That of a shard follows
//! from the records with one edge less ([`Game::pairs_ahead`]): for a graph H, each pair (v, u)
//! counts |Aut(H + uv)|/|Aut H| times in the sum over classes of the shard of H + uv, since the
//! orbit of the pair under Aut H has |Aut H| elements divided by those that fix it, that of the
//! edge under Aut(H + uv) likewise, and the same automorphisms fix both.
//!
//! In a class of graphs of which degree sequences do not tell all, every graph has to belong to
//! the class; and so only what remains in it is counted ahead. How many graphs a shard should have
//! follows in the same way: each pair (v, u) that can be joined without leaving the class counts
//! n!/|Aut H| times in the sum over the shard of H + uv of n!/|Aut| times the number of edges.
//!
//! [`Told::ByOutcome`]: trailtrap_shared::game::Told::ByOutcome

use std::{collections::BTreeMap, iter::Take, ops::Range};

use rayon::prelude::*;
use trailtrap_shared::{
    class::Class,
    count::{
        ahead::{Share, ToldAhead},
        digest::Digester,
        statistics::Statistics,
        summary::Summary,
    },
    game::{Game, GameName},
    graph::{
        Graph, MAX_ORDER, all_vertices, are_twins, degree::DegreeSequence, factorial, vertices,
    },
    labelling::{
        batch::Kernel,
        group,
        many::{self, KeyAndGroup},
    },
    partition::{Block, Slots, graph_of_slot, slot_of_key},
    plan::Plan,
    play,
};

/// Records are counted in chunks of this many, on all cores.
const CHUNK: usize = 1024;

/// What the blocks of a unit say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recount {
    /// Statistics and digest. A sum that is told by outcomes is zero here.
    pub summary: Summary,
    /// What they tell about graphs with one edge more.
    pub ahead: ToldAhead,
}

/// Counts a unit of a plan again: keys, outcomes and wins of each bucket. Takes about half a
/// microsecond of a core for each graph, and 20 for the unit.
///
/// # Errors
///
/// What is wrong with the blocks, whatever they are compared with.
pub fn recount(game: GameName, plan: &Plan, blocks: &[Block]) -> Result<Recount, &'static str> {
    play!(game, plan.order, G => recount_as::<G>(plan, blocks))
}

/// What the blocks of a unit tell about graphs with one edge more, without a look at anything
/// else. Few graphs tell of any, and only those are read and labelled: so it is of all graphs, or
/// of a class in which degree sequences tell all, where masses need not be counted.
///
/// # Errors
///
/// What is wrong with the blocks, as far as it shows.
pub fn ahead(game: GameName, plan: &Plan, blocks: &[Block]) -> Result<ToldAhead, &'static str> {
    play!(game, plan.order, G => ahead_as::<G>(plan, blocks))
}

/// Counts what graphs of one degree sequence tell about those of a class with one edge more.
#[derive(Default)]
pub struct AheadCounter {
    class: Class,
    /// Graphs with an edge more that are told of, …
    graphs: Vec<Graph>,
    /// … and of each the ends of that edge, and the weight of the graph without it.
    told: Vec<(Ends, u128)>,
    sums: BTreeMap<Ends, Share>,
    masses: BTreeMap<Ends, u128>,
}

/// The degrees that the ends of an edge had before there was that edge, the lower one first: they
/// tell the shard of the graph with it.
type Ends = (usize, usize);

impl AheadCounter {
    /// Has counted nothing yet.
    pub fn new(class: Class) -> Self {
        AheadCounter { class, ..AheadCounter::default() }
    }

    /// Counts a graph with so many automorphisms.
    pub fn add<G: Game>(&mut self, graph: &Graph, automorphisms: u64, outcome: &G::Outcome) {
        let n = graph.order();
        let weight = u128::from(factorial(n) / automorphisms);
        for (v, others) in G::pairs_ahead(graph, outcome)[..n].iter().enumerate() {
            for u in vertices(*others) {
                if let Some((more, ends)) = self.with_edge(graph, u, v) {
                    self.graphs.push(more);
                    self.told.push((ends, weight));
                }
            }
        }
        if !self.class.is_by_degrees() {
            self.add_masses(graph, weight);
        }
        if self.graphs.len() >= CHUNK {
            self.sum_up();
        }
    }

    fn add_masses(&mut self, graph: &Graph, weight: u128) {
        for v in 1..graph.order() {
            for u in (0..v).filter(|&u| !graph.has_edge(u, v)) {
                if let Some((_, ends)) = self.with_edge(graph, u, v) {
                    *self.masses.entry(ends).or_default() += weight;
                }
            }
        }
    }

    /// A graph with an edge more, and the ends of that, unless that leaves the class.
    fn with_edge(&self, graph: &Graph, u: usize, v: usize) -> Option<(Graph, Ends)> {
        let mut more = *graph;
        more.add_edge(u, v);
        self.class.contains(&more).then(|| {
            let (one, other) = (graph.degree(u), graph.degree(v));
            (more, (one.min(other), one.max(other)))
        })
    }

    fn sum_up(&mut self) {
        let Some(first) = self.graphs.first() else { return };
        let found = many::keys(first.order(), &self.graphs, Kernel::best());
        for ((ends, weight), found) in self.told.drain(..).zip(found) {
            *self.sums.entry(ends).or_default() +=
                Share { classes: weight * u128::from(found.automorphisms), labelled: weight };
        }
        self.graphs.clear();
    }

    fn merge(&mut self, mut other: AheadCounter) {
        other.sum_up();
        for (ends, share) in other.sums {
            *self.sums.entry(ends).or_default() += share;
        }
        for (ends, mass) in other.masses {
            *self.masses.entry(ends).or_default() += mass;
        }
    }

    /// What was told by graphs of this sequence.
    ///
    /// # Errors
    ///
    /// The plan does not have such a shard.
    pub fn finish(
        mut self,
        plan: &Plan,
        sequence: &DegreeSequence,
    ) -> Result<ToldAhead, &'static str> {
        self.sum_up();
        let shard_of = |(low, high): Ends| {
            let mut degrees: Vec<usize> = sequence.bytes().iter().map(|&d| d.into()).collect();
            for degree in [high, low] {
                let place = degrees.iter().rposition(|&d| d == degree).ok_or(NO_SUCH_SHARD)?;
                degrees[place] += 1;
            }
            plan.number(&DegreeSequence::new(degrees)).ok_or(NO_SUCH_SHARD)
        };
        let mut told = ToldAhead::default();
        for (ends, share) in self.sums {
            told.shares.push((shard_of(ends)?, share));
        }
        for (ends, mass) in self.masses {
            told.masses.push((shard_of(ends)?, mass));
        }
        told.shares.sort_unstable_by_key(|&(shard, _)| shard);
        told.masses.sort_unstable_by_key(|&(shard, _)| shard);
        Ok(told)
    }
}

const NO_SUCH_SHARD: &str = "it leads to a shard that is not of its plan";

#[derive(Default)]
struct Counted {
    summary: Summary,
    ahead: AheadCounter,
}

impl Counted {
    fn with(mut self, more: Counted) -> Self {
        self.summary += &more.summary;
        self.ahead.merge(more.ahead);
        self
    }
}

fn recount_as<G: Game>(plan: &Plan, blocks: &[Block]) -> Result<Recount, &'static str> {
    for bucket in buckets(blocks) {
        check_bucket::<G>(bucket?)?;
    }
    let class = plan.layout.class;
    let counted = over_chunks(blocks, |sequence, chunk| count_chunk::<G>(class, sequence, chunk))?;
    Ok(Recount {
        summary: counted.summary,
        ahead: counted.ahead.finish(plan, &sequence_of(blocks)?)?,
    })
}

fn ahead_as<G: Game>(plan: &Plan, blocks: &[Block]) -> Result<ToldAhead, &'static str> {
    let counted = match G::ABOUT.told_by_outcome() {
        Some(_) => {
            let class = plan.layout.class;
            over_chunks(blocks, |sequence, chunk| ahead_of_chunk::<G>(class, sequence, chunk))?
        }
        None => Counted::default(),
    };
    counted.ahead.finish(plan, &sequence_of(blocks)?)
}

fn sequence_of(blocks: &[Block]) -> Result<DegreeSequence, &'static str> {
    Ok(blocks.first().ok_or("it has no blocks")?.id.sequence)
}

/// Keys, outcomes and wins of each bucket, with a record for each key.
fn buckets(blocks: &[Block]) -> impl Iterator<Item = Result<&[Block; 3], &'static str>> {
    blocks.chunks(3).map(|bucket| {
        let bucket: &[Block; 3] = bucket.try_into().map_err(|_| "a bucket lacks a block")?;
        let [keys, outcomes, _] = bucket;
        let are_even = keys.count == outcomes.count;
        are_even.then_some(bucket).ok_or("it does not have a record for each graph")
    })
}

/// Some graphs of a bucket: their slots, its outcomes, and the places of the graphs in these.
type Chunk<'a> = (Take<Slots<'a>>, &'a Block, Range<usize>);

/// Counts the buckets of a unit chunk by chunk, on all cores.
fn over_chunks(
    blocks: &[Block],
    count: impl Fn(&DegreeSequence, Chunk) -> Result<Counted, &'static str> + Sync,
) -> Result<Counted, &'static str> {
    let sequence = sequence_of(blocks)?;
    let mut chunks: Vec<Chunk> = Vec::new();
    for bucket in buckets(blocks) {
        let [keys, outcomes, _] = bucket?;
        let mut slots = keys.slots();
        for start in (0..keys.count).step_by(CHUNK) {
            let end = keys.count.min(start + CHUNK);
            chunks.push((slots.take(CHUNK), outcomes, start..end));
            slots.by_ref().take(CHUNK).for_each(drop);
        }
    }
    let count = |chunk: &Chunk| count(&sequence, chunk.clone());
    match &chunks[..] {
        [] => Ok(Counted::default()),
        [chunk] => count(chunk),
        chunks => chunks
            .par_iter()
            .map(count)
            .try_reduce(Counted::default, |sum, more| Ok(sum.with(more))),
    }
}

/// Keys, records and list of wins of a bucket belong together.
fn check_bucket<G: Game>([keys, outcomes, wins]: &[Block; 3]) -> Result<(), &'static str> {
    if wins.graphs != keys.count {
        return Err("its list of wins says that it is of another number of graphs");
    }
    let n = keys.id.sequence.order();
    let mut listed = wins.slots();
    for (i, slot) in keys.slots().enumerate() {
        let record = outcomes.record(i);
        // Equal outcomes have equal bytes.
        if !G::LAYOUT.is_tidy(n, record) {
            return Err("a record has bits set that mean nothing");
        }
        if G::LAYOUT.is_listed(n, record) && listed.next() != Some(slot) {
            return Err("its list of wins is not that of its records");
        }
    }
    match listed.next() {
        Some(_) => Err("its list of wins is not that of its records"),
        None => Ok(()),
    }
}

fn count_chunk<G: Game>(
    class: Class,
    sequence: &DegreeSequence,
    (slots, outcomes, range): Chunk,
) -> Result<Counted, &'static str> {
    let (n, kernel) = (sequence.order(), Kernel::best());
    let graphs: Vec<Graph> =
        slots.clone().map(|slot| graph_at(sequence, slot)).collect::<Result<_, _>>()?;
    if !graphs.iter().all(|graph| class.contains(graph)) {
        return Err("one of its graphs does not belong to the class");
    }
    let labelled = many::keys_of_shard(sequence, &graphs, kernel);
    let mut places = labelled.iter().zip(slots);
    if places.any(|(found, slot)| slot_of_key(n, found.key) != slot) {
        return Err("a graph does not stand where it should");
    }
    let told = G::ABOUT.told_by_outcome();
    let mut statistics = Statistics::default();
    let mut digester = Digester::<G>::new(sequence, kernel);
    let mut ahead = AheadCounter::new(class);
    for ((graph, KeyAndGroup { automorphisms, .. }), i) in graphs.iter().zip(labelled).zip(range) {
        let outcome = G::decode(n, outcomes.record(i));
        if automorphisms > 1 && !is_invariant::<G>(graph, automorphisms, &outcome) {
            return Err("a record tells vertices apart that are alike");
        }
        let mut tally = G::tally(graph, automorphisms, &outcome);
        if let Some(told) = told {
            tally.sums[told] = 0;
        }
        statistics.add(graph, automorphisms, &tally);
        digester.add(graph, &outcome);
        ahead.add::<G>(graph, automorphisms, &outcome);
    }
    Ok(Counted { summary: Summary { statistics, digest: digester.finish() }, ahead })
}

fn ahead_of_chunk<G: Game>(
    class: Class,
    sequence: &DegreeSequence,
    (slots, outcomes, range): Chunk,
) -> Result<Counted, &'static str> {
    let n = sequence.order();
    let (mut graphs, mut telling) = (Vec::new(), Vec::new());
    for (i, slot) in range.zip(slots) {
        if !G::may_tell_ahead(n, outcomes.record(i)) {
            continue;
        }
        let graph = graph_at(sequence, slot)?;
        let outcome = G::decode(n, outcomes.record(i));
        if G::pairs_ahead(&graph, &outcome)[..n].iter().any(|&others| others != 0) {
            graphs.push(graph);
            telling.push(outcome);
        }
    }
    if graphs.is_empty() {
        return Ok(Counted::default());
    }
    let mut ahead = AheadCounter::new(class);
    let labelled = many::keys_of_shard(sequence, &graphs, Kernel::best());
    for ((graph, outcome), found) in graphs.iter().zip(&telling).zip(labelled) {
        ahead.add::<G>(graph, found.automorphisms, outcome);
    }
    Ok(Counted { ahead, ..Counted::default() })
}

fn graph_at(sequence: &DegreeSequence, slot: u64) -> Result<Graph, &'static str> {
    graph_of_slot(sequence, slot).ok_or("one of its keys is no graph of its shard")
}

/// Whether automorphisms of the graph leave the outcome as it is.
fn is_invariant<G: Game>(graph: &Graph, automorphisms: u64, outcome: &G::Outcome) -> bool {
    let n = graph.order();
    let is_kept = |image: &[u8; MAX_ORDER]| G::relabelled(n, outcome, image) == *outcome;
    // Nearly all groups are generated by exchanges of twins: vertices with the same neighbours
    // apart from each other.
    let mut left = all_vertices(n);
    let mut by_twins = 1;
    while left != 0 {
        let v = left.trailing_zeros() as usize;
        let mut twins = 1;
        for w in v + 1..n {
            if left >> w & 1 == 1 && are_twins(graph.rows(), v, w) {
                let mut exchange: [u8; MAX_ORDER] = std::array::from_fn(|x| x as u8);
                exchange.swap(v, w);
                if !is_kept(&exchange) {
                    return false;
                }
                left &= !(1 << w);
                twins += 1;
                by_twins *= twins;
            }
        }
        left &= !(1 << v);
    }
    by_twins == automorphisms || group::generators(graph).iter().all(is_kept)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use trailtrap_shared::{
        game::{EdgeGeography, TrailTrap},
        graph::nauty,
        partition::{BlockId, BucketTable, Section},
        plan::{PlanOptions, Unit},
    };

    use super::*;
    use crate::link::memory;

    /// A unit as the kernel solved it.
    struct Solved {
        unit: Unit,
        blocks: Vec<Block>,
        summary: Summary,
    }

    fn solved(game: GameName, order: usize) -> (Plan, Vec<Solved>) {
        solved_of(game, Class::All, order)
    }

    fn solved_of(game: GameName, class: Class, order: usize) -> (Plan, Vec<Solved>) {
        let options = PlanOptions { part_graphs: 2, bucket_bytes: 400 };
        let mut units = Vec::new();
        let plan = memory::each_unit_of(game, class, order, options, |solved| {
            let (unit, blocks) = (solved.unit, solved.blocks());
            units.push(Solved { unit, blocks, summary: solved.summary.clone() });
        })
        .unwrap();
        (plan, units)
    }

    /// Exports are made of lists of wins: one that is not that of the records is noticed, whatever
    /// graphs it has, and whatever it says of how many they are taken from.
    #[test]
    fn lists_of_wins_are_those_of_the_records() {
        let (plan, units) = solved(GameName::TrailTrap, 6);
        let mut tried = 0;
        for Solved { blocks, .. } in units {
            let [keys, outcomes, wins] = &blocks[..3] else { unreachable!("three a bucket") };
            let won: Vec<u64> = wins.slots().collect();
            let lost = keys.slots().find(|slot| !won.contains(slot));
            let (Some(&first), Some(other)) = (won.first(), lost) else { continue };
            // The list of the same bucket, if these were won, but for one graph.
            let list = |won: &[u64], without: Option<u64>| {
                let all = keys.slots().enumerate().filter(|(_, slot)| Some(*slot) != without);
                let graphs: Vec<(usize, u64)> = all.collect();
                let BlockId { sequence, bucket_bits, bucket, part, .. } = keys.id;
                let slots: Vec<u64> = graphs.iter().map(|(_, slot)| *slot).collect();
                let (layout, n) = (keys.layout, sequence.order());
                let record = |i: usize, record: &mut [u8]| {
                    record.copy_from_slice(outcomes.record(graphs[i].0));
                    if layout.is_listed(n, record) != won.contains(&graphs[i].1) {
                        record[(n * n + n) / 8] ^= 1 << ((n * n + n) % 8);
                    }
                };
                let slots = slots.into_iter();
                let table = BucketTable::new(layout, sequence, bucket_bits, bucket, slots, record);
                table.to_blocks(part).wins
            };
            let said_of = |list: Block| {
                let mut blocks = blocks.clone();
                blocks[2] = list;
                recount(GameName::TrailTrap, &plan, &blocks).map(drop)
            };
            assert_eq!(said_of(list(&won, None)), Ok(()));
            let foreign = Err("its list of wins is not that of its records");
            let lacking: Vec<u64> = won.iter().copied().filter(|&slot| slot != first).collect();
            let exchanged = [&lacking[..], &[other]].concat();
            let more = [&won[..], &[other]].concat();
            for altered in [lacking, exchanged, more] {
                assert_eq!(said_of(list(&altered, None)), foreign, "{altered:?}");
            }
            let of_others = "its list of wins says that it is of another number of graphs";
            assert_eq!(said_of(list(&won, Some(other))), Err(of_others));
            tried += 1;
        }
        assert!(tried > 5, "only {tried} units have wins and others");
    }

    /// Statistics and digest are the kernel's, but for the sum that records do not keep; and that
    /// sum of each shard is what the shards with one edge less tell of it.
    #[test]
    fn what_is_counted_is_what_was_solved() {
        let all = Class::All;
        assert_eq!(counted_like_the_kernel(GameName::TrailTrap, all, 8), Some(1724));
        assert_eq!(counted_like_the_kernel(GameName::EdgeGeography, all, 7), None);
    }

    /// So it is in a class, of which nothing is told that does not belong to it. And so many
    /// graphs are told of each shard as were solved.
    #[test]
    fn what_is_counted_of_a_class_is_what_was_solved() {
        for class in Class::every().filter(|class| *class != Class::All) {
            counted_like_the_kernel(GameName::TrailTrap, class, 7);
            counted_like_the_kernel(GameName::EdgeGeography, class, 6);
        }
    }

    fn counted_like_the_kernel(game: GameName, class: Class, order: usize) -> Option<u128> {
        let (plan, units) = solved_of(game, class, order);
        let has_parts = units.iter().any(|solved| solved.unit.part > 0);
        assert!(has_parts || class != Class::All, "there are shards in parts");
        let mut masses_told: HashMap<u32, u128> = HashMap::new();
        let mut masses: HashMap<u32, u128> = HashMap::new();
        let told = game.about().told_by_outcome();
        let mut told_of: HashMap<u32, Share> = HashMap::new();
        let mut stated: HashMap<u32, Share> = HashMap::new();
        let mut all = 0;
        for Solved { unit, blocks, summary } in units {
            let mut counted = recount(game, &plan, &blocks).unwrap();
            let found = &mut counted.summary.statistics;
            if let Some(told) = told {
                let [classes, labelled] =
                    [&summary.statistics.classes, &summary.statistics.labelled]
                        .map(|weighing| weighing.sums.0[told]);
                found.classes.sums.0[told] = classes;
                found.labelled.sums.0[told] = labelled;
                *stated.entry(unit.shard).or_default() += summary.statistics.told(told, order);
                all += classes;
            }
            assert_eq!(counted.summary, summary, "{unit:?}");
            let told_alone = ahead(game, &plan, &blocks).unwrap();
            assert_eq!(told_alone.shares, counted.ahead.shares);
            let size = plan.shard_of(unit).size as u128;
            *masses.entry(unit.shard).or_default() +=
                summary.statistics.labelled.all.graphs * size;
            for (shard, mass) in counted.ahead.masses {
                *masses_told.entry(shard).or_default() += mass;
            }
            for (shard, share) in counted.ahead.shares {
                let predecessors = &plan.shards[shard as usize].predecessors;
                assert!(predecessors.contains(&unit.shard));
                *told_of.entry(shard).or_default() += share;
            }
        }
        stated.retain(|_, share| *share != Share::default());
        assert_eq!(told_of, stated);
        masses.retain(|_, mass| *mass > 0);
        let tells_masses = !class.is_by_degrees();
        assert_eq!(masses_told, if tells_masses { masses } else { HashMap::new() });
        told.map(|_| all)
    }

    #[test]
    fn graphs_that_do_not_belong_to_the_class_are_found() {
        let game = GameName::EdgeGeography;
        let (_, units) = solved(game, 6);
        let layout = game.layout().on(Class::Bipartite);
        let plan = Plan::new(layout, 6, PlanOptions { part_graphs: 2, bucket_bytes: 400 });
        let (mut inside, mut outside) = (0, 0);
        for Solved { blocks, .. } in units {
            let sequence = blocks[0].id.sequence;
            let graphs: Vec<Graph> = blocks
                .iter()
                .filter(|block| block.id.section == Section::Keys)
                .flat_map(|block| block.slots().collect::<Vec<u64>>())
                .map(|slot| graph_of_slot(&sequence, slot).unwrap())
                .collect();
            let found = recount(game, &plan, &blocks);
            if graphs.iter().all(|graph| Class::Bipartite.contains(graph)) {
                inside += graphs.len();
            } else {
                outside += 1;
                assert_eq!(found, Err("one of its graphs does not belong to the class"));
            }
        }
        assert!(inside > 0 && outside > 0);
    }

    /// Changes one bucket of a unit.
    fn changed<G: Game>(
        blocks: &[Block],
        slots: impl Fn(Vec<u64>) -> Vec<u64>,
        record: impl Fn(usize, &mut [u8]),
    ) -> Vec<Block> {
        let (keys, outcomes) = (&blocks[0], &blocks[1]);
        let id = keys.id;
        let old: Vec<u64> = keys.slots().collect();
        let table = BucketTable::new(
            G::LAYOUT,
            id.sequence,
            id.bucket_bits,
            id.bucket,
            slots(old).into_iter(),
            |i, bytes| {
                bytes.copy_from_slice(outcomes.record(i.min(keys.count - 1)));
                record(i, bytes);
            },
        );
        let mut blocks = blocks.to_vec();
        blocks.splice(..3, table.to_blocks(id.part));
        blocks
    }

    /// Every unit with more than one graph is tried with a graph that does not stand in its
    /// canonical place, and with a record that tells vertices apart that are alike.
    #[test]
    fn graphs_out_of_place_and_uneven_records_are_found() {
        found_in::<TrailTrap>(GameName::TrailTrap);
        found_in::<EdgeGeography>(GameName::EdgeGeography);
    }

    fn found_in<G: Game>(game: GameName) {
        let (plan, units) = solved(game, 6);
        let (mut misplaced, mut uneven, mut even) = (0, 0, 0);
        for Solved { blocks, .. } in units {
            assert_eq!(blocks[0].id.section, Section::Keys);
            if blocks[0].count == 0 {
                continue;
            }
            assert!(
                recount(game, &plan, &changed::<G>(&blocks, |slots| slots, |_, _| {})).is_ok()
            );
            let sequence = blocks[0].id.sequence;
            let canonical: Vec<u64> = blocks[0].slots().collect();
            // Another labelling of a graph of the shard.
            let elsewhere = (0..1 << trailtrap_shared::labelling::key_bits(6)).find(|slot| {
                let bits = blocks[0].id.bucket_bits;
                let bucket = trailtrap_shared::partition::bucket_of_slot(6, *slot, bits);
                graph_of_slot(&sequence, *slot).is_some_and(|graph| {
                    trailtrap_shared::partition::slot_of(&graph) != *slot
                        && bucket == blocks[0].id.bucket as usize
                })
            });
            if let Some(slot) = elsewhere {
                let replace = |mut slots: Vec<u64>| {
                    slots[0] = slot;
                    slots.sort_unstable();
                    slots
                };
                let wrong = changed::<G>(&blocks, replace, |_, _| {});
                assert_eq!(
                    recount(game, &plan, &wrong),
                    Err("a graph does not stand where it should")
                );
                misplaced += 1;
            }
            let Some(graph) = graph_of_slot(&sequence, canonical[0]) else { panic!("no graph") };
            for bit in 0..G::LAYOUT.record_bits(6) - 1 {
                let flip = |i: usize, bytes: &mut [u8]| {
                    bytes[bit / 8] ^= u8::from(i == 0) << (bit % 8);
                };
                let wrong = changed::<G>(&blocks, |slots| slots, flip);
                let group = nauty::label(&graph).automorphisms;
                let outcome = G::decode(6, wrong[1].record(0));
                let is_even = group::generators(&graph)
                    .iter()
                    .all(|image| G::relabelled(6, &outcome, image) == outcome);
                assert_eq!(is_invariant::<G>(&graph, group, &outcome), is_even, "{graph:?}");
                let is_uneven = recount(game, &plan, &wrong)
                    == Err("a record tells vertices apart that are alike");
                assert_eq!(is_uneven, !is_even);
                *if is_even { &mut even } else { &mut uneven } += 1;
            }
        }
        assert!(misplaced > 50 && even > 50 && uneven > 50, "{misplaced} {even} {uneven}");
    }
}
