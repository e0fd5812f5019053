//! Lies about solved units. What is said of a unit beside the lie follows from it, as far as that
//! makes it harder to find.

#![allow(dead_code, reason = "each program uses its part")]

use std::sync::Arc;

use trailtrap_census::core::random::Random;
use trailtrap_shared::{
    count::{digest::Digest, summary::Summary},
    game::{
        Game, GameName, TrailTrap,
        trail_trap::{REFUTED_ENDS, WINNING_FIRST_MOVES, WON_POSITIONS},
    },
    graph::{Graph, all_vertices},
    labelling::{batch::Kernel, many},
    partition::{Block, BucketTable, bucket_of_slot, graph_of_slot},
    plan::{Plan, Shard, Unit},
    protocol::messages::Wanted,
};
use trailtrap_worker::{
    cache::Fetch,
    counting::recount::{Recount, recount},
    kernel::{SolvedUnit, SourceError},
    link::{Delivered, Grant, Lease, Link, LinkError, Unsolved},
};

/// A link that delivers in its own way.
pub struct Delivering<L, D> {
    /// The link that all else goes by.
    pub link: L,
    /// How it delivers the results of a lease.
    pub deliver: D,
}

impl<L: Fetch, D: Send + Sync> Fetch for Delivering<L, D> {
    fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Block>>, SourceError> {
        self.link.fetch(wanted)
    }

    fn drawn(&self, unit: Unit, graphs: u64) -> Vec<u64> {
        self.link.drawn(unit, graphs)
    }
}

impl<L, D> Link for Delivering<L, D>
where
    L: Link,
    D: Fn(&L, &Lease, &[SolvedUnit]) -> Result<Delivered, LinkError> + Send + Sync,
{
    fn lease(&self, room: u64) -> Result<Grant, LinkError> {
        self.link.lease(room)
    }

    fn complete(&self, lease: &Lease, results: &[SolvedUnit]) -> Result<Delivered, LinkError> {
        (self.deliver)(&self.link, lease, results)
    }

    fn is_alone(&self) -> bool {
        self.link.is_alone()
    }

    fn pipeline(&self) -> usize {
        self.link.pipeline()
    }

    fn give_back(&self, lease: &Lease, reason: Unsolved) {
        self.link.give_back(lease, reason);
    }
}

/// A way to lie about a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Lie {
    /// One record is another, and everything else follows from it.
    Record,
    /// Counts that are not those of the records.
    Statistics,
    /// A digest that is not that of the records.
    Digest,
    /// Another number of winning first moves, which records do not keep.
    FirstMoves,
    /// No graph at all, and counts of none.
    Empty,
    /// A graph is missing, and counted nowhere.
    Lacking,
    /// A graph comes twice.
    Twice,
    /// The results of another unit.
    OtherUnit,
    /// A graph of another part of the shard, with as many automorphisms, in the place of one.
    OtherPart,
}

pub const LIES: [Lie; 9] = [
    Lie::Record,
    Lie::Statistics,
    Lie::Digest,
    Lie::FirstMoves,
    Lie::Empty,
    Lie::Lacking,
    Lie::Twice,
    Lie::OtherUnit,
    Lie::OtherPart,
];

/// The slot of a graph, and its record.
type Entry = (u64, Vec<u8>);

impl Lie {
    /// The unit as the liar delivers it, who has solved another one before; `None` if this lie
    /// cannot be told of this unit.
    pub fn tell(
        self,
        plan: &Plan,
        solved: &SolvedUnit,
        other: Option<&SolvedUnit>,
        random: &mut Random,
    ) -> Option<SolvedUnit> {
        let shard = plan.shard_of(solved.unit);
        let mut entries = entries(solved);
        let drawn = random.below(entries.len().max(1) as u64) as usize;
        let mut summary = solved.summary.clone();
        match self {
            Lie::Record => alter(plan.order, &mut entries.get_mut(drawn)?.1, random),
            Lie::Statistics => {
                let Summary { statistics, .. } = &mut summary;
                match random.below(4) {
                    0 => statistics.classes.all.listed += 1,
                    1 => statistics.classes.sums.0[WON_POSITIONS] += 1,
                    2 => statistics.labelled.sums.0[REFUTED_ENDS] += 1,
                    _ => statistics.labelled.all.graphs += 1,
                }
                return Some(stated(solved, summary));
            }
            Lie::Digest => {
                let mut bytes = summary.digest.to_le_bytes();
                bytes[random.below(32) as usize] ^= 1;
                summary.digest = Digest::from_le_bytes(bytes);
                return Some(stated(solved, summary));
            }
            Lie::FirstMoves => {
                let classes = &mut summary.statistics.classes;
                let told = &mut classes.sums.0[WINNING_FIRST_MOVES];
                let is_possible = *told > classes.all.listed;
                *told = is_possible.then(|| *told - 1)?;
                return Some(stated(solved, summary));
            }
            Lie::Empty if entries.is_empty() => return None,
            Lie::Empty => entries.clear(),
            Lie::Lacking => drop((drawn < entries.len()).then(|| entries.remove(drawn))?),
            Lie::Twice => {
                let twice = entries.get(drawn)?.clone();
                entries.insert(drawn, twice);
            }
            Lie::OtherUnit => {
                // With fewer blocks it would look like a delivery that has broken off.
                let is_as_long = |other: &&SolvedUnit| other.tables.len() == solved.tables.len();
                let other = other.filter(|other| other.unit != solved.unit).filter(is_as_long)?;
                return Some(SolvedUnit {
                    unit: solved.unit,
                    sequence: other.sequence,
                    tables: other.tables.clone(),
                    summary: other.summary.clone(),
                    labellings: other.labellings,
                    elapsed: other.elapsed,
                    evidence: other.evidence.clone(),
                });
            }
            Lie::OtherPart => exchange(&mut entries, solved, other?)?,
        }
        Some(retold(plan, shard, solved, &entries))
    }

    /// Whether a result with this lie is never let in, whoever else solves the unit: it shows as
    /// soon as the result comes in.
    pub fn shows_at_once(self, shard: &Shard) -> bool {
        match self {
            Lie::Record => false,
            Lie::Statistics | Lie::Digest | Lie::Twice | Lie::OtherUnit | Lie::OtherPart => true,
            Lie::Empty | Lie::Lacking | Lie::FirstMoves => shard.parts == 1,
        }
    }
}

/// All graphs of a unit, in the order of their slots.
fn entries(solved: &SolvedUnit) -> Vec<Entry> {
    let width = TrailTrap::LAYOUT.record_bytes(solved.sequence.order());
    let of_table = |table: &Arc<BucketTable>| -> Vec<Entry> {
        (0..table.len()).map(|i| (table.slot(i), table.record(i)[..width].to_vec())).collect()
    };
    solved.tables.iter().flat_map(of_table).collect()
}

/// Says something else of the positions of a graph, and the same of all that are alike.
fn alter(n: usize, record: &mut [u8], random: &mut Random) {
    let mut outcome = TrailTrap::decode(n, record);
    match random.below(3) {
        0 => outcome.wins[..n].iter_mut().for_each(|row| *row ^= all_vertices(n)),
        1 => outcome.refuted ^= all_vertices(n),
        _ => outcome.first_moves ^= 1,
    }
    TrailTrap::encode(n, &outcome, record);
}

/// Puts a graph of another part in the place of one with as many automorphisms.
fn exchange(entries: &mut [Entry], solved: &SolvedUnit, other: &SolvedUnit) -> Option<()> {
    let is_other_part = other.sequence == solved.sequence && other.unit != solved.unit;
    let automorphisms = |(slot, _): &Entry| {
        let graph: Graph = graph_of_slot(&solved.sequence, *slot).expect("a graph");
        many::keys(graph.order(), &[graph], Kernel::Portable)[0].automorphisms
    };
    let theirs = is_other_part.then(|| self::entries(other))?;
    let (place, theirs) = entries.iter().enumerate().find_map(|(i, mine)| {
        let is_like = |their: &&Entry| automorphisms(their) == automorphisms(mine);
        Some((i, theirs.iter().find(is_like)?.clone()))
    })?;
    entries[place] = theirs;
    entries.sort_unstable();
    Some(())
}

/// The same unit once more.
pub fn copied(solved: &SolvedUnit) -> SolvedUnit {
    stated(solved, solved.summary.clone())
}

/// The same records, of which something else is said.
fn stated(solved: &SolvedUnit, summary: Summary) -> SolvedUnit {
    let SolvedUnit { unit, sequence, ref tables, labellings, elapsed, .. } = *solved;
    let (tables, evidence) = (tables.clone(), solved.evidence.clone());
    SolvedUnit { unit, sequence, tables, summary, labellings, elapsed, evidence }
}

/// Other records, of which is said what follows from them.
fn retold(plan: &Plan, shard: &Shard, solved: &SolvedUnit, entries: &[Entry]) -> SolvedUnit {
    let n = plan.order;
    let table = |bucket: u32| {
        let is_here =
            |(slot, _): &&Entry| bucket_of_slot(n, *slot, shard.bucket_bits) == bucket as usize;
        let here: Vec<&Entry> = entries.iter().filter(is_here).collect();
        Arc::new(BucketTable::new(
            TrailTrap::LAYOUT,
            shard.sequence,
            shard.bucket_bits,
            bucket,
            here.iter().map(|(slot, _)| *slot),
            |i, record| record.copy_from_slice(&here[i].1),
        ))
    };
    let tables: Vec<Arc<BucketTable>> = shard.buckets().map(table).collect();
    let part = solved.unit.part;
    let blocks: Vec<Block> = tables.iter().flat_map(|table| table.to_blocks(part)).collect();
    let Recount { mut summary, .. } =
        recount(GameName::TrailTrap, plan, &blocks).expect("every graph is in its place");
    if !entries.is_empty() {
        let (told, before) = (&mut summary.statistics, &solved.summary.statistics);
        told.classes.sums.0[WINNING_FIRST_MOVES] = before.classes.sums.0[WINNING_FIRST_MOVES];
        told.labelled.sums.0[WINNING_FIRST_MOVES] = before.labelled.sums.0[WINNING_FIRST_MOVES];
    }
    let SolvedUnit { unit, sequence, labellings, elapsed, .. } = *solved;
    let evidence = solved.evidence.clone();
    SolvedUnit { unit, sequence, tables, summary, labellings, elapsed, evidence }
}
