//! Units that others have solved, counted again: whoever counts is told nothing but where their
//! blocks are, and states what these say.

pub mod parts;
pub mod recount;

use std::{collections::BTreeMap, sync::Arc};

use trailtrap_shared::{
    count::{
        ahead::{Share, ToldAhead},
        digest::Digest,
        summary::Summary,
    },
    game::GameName,
    partition::{Block, BlockId, BlockName, BucketBlocks, Checksum, Section},
    plan::{Plan, Unit},
    protocol::{
        codec::{self, CodecError},
        messages::Described,
        shelves::Shelves,
        wire,
    },
};

use self::{parts::PartRanges, recount::Recount};
use crate::kernel::SourceError;

/// A unit that is to be counted again.
#[derive(Clone, Debug)]
pub struct CountTask {
    /// The number by which the coordinator knows the task.
    pub number: u64,
    /// The plan of the unit's order.
    pub plan: Arc<Plan>,
    /// The unit.
    pub unit: Unit,
    /// The number of the coordinator's state of partitions, as of a lease.
    pub edition: u32,
    /// Keys and outcomes of each bucket.
    pub blocks: Vec<Described>,
}

/// What the blocks of a unit say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Statistics and digest. The sum that outcomes tell is zero.
    pub summary: Summary,
    /// The content of each block: keys, outcomes and wins of each bucket.
    pub contents: Vec<Checksum>,
    /// What they tell about graphs with one edge more.
    pub ahead: ToldAhead,
}

/// Why a statement cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// Statistics, or what is told ahead, are no such thing.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The digest has another length than 32 bytes.
    #[error("a digest has 32 bytes")]
    Digest,
    /// The contents have other lengths than 16 bytes.
    #[error("a content has 16 bytes")]
    Contents,
}

impl Statement {
    /// As a message.
    pub fn to_message(&self) -> wire::Statement {
        wire::Statement {
            statistics: codec::encode(&self.summary.statistics),
            digest: self.summary.digest.to_le_bytes().to_vec(),
            contents: self.contents.iter().flat_map(|content| content.0).collect(),
            ahead: codec::encode(&self.ahead),
        }
    }

    /// What a message states.
    ///
    /// # Errors
    ///
    /// It states nothing of the kind.
    pub fn of_message(message: wire::Statement) -> Result<Self, StatementError> {
        let wire::Statement { statistics, digest, contents, ahead } = message;
        let digest = digest.try_into().map_err(|_| StatementError::Digest)?;
        let digest = Digest::from_le_bytes(digest);
        let (contents, []) = contents.as_chunks() else { return Err(StatementError::Contents) };
        Ok(Statement {
            summary: Summary { statistics: codec::decode(&statistics)?, digest },
            contents: contents.iter().map(|&content| Checksum(content)).collect(),
            ahead: codec::decode(&ahead)?,
        })
    }
}

/// Counts a unit again, one bucket after the other: `read` has the block of a name, which lies on
/// these shelves if on any. Lists of wins are made anew. Of a shard in parts, `ranges` says which
/// graphs belong to the unit. Only what takes computing is done in the pool.
///
/// # Errors
///
/// What is wrong with the blocks, or what could not be read.
pub fn count(
    game: GameName,
    CountTask { plan, unit, blocks, .. }: &CountTask,
    read: impl Fn(&BlockName, Shelves) -> Option<Block>,
    ranges: Option<&PartRanges>,
    pool: &rayon::ThreadPool,
) -> Result<Statement, SourceError> {
    let shard = plan.shards.get(unit.shard as usize).ok_or("there is no such unit")?;
    let is_whole = blocks.len() == 2 << shard.bucket_bits && unit.part < shard.parts;
    if !is_whole {
        return Err("its blocks are not those of the unit".into());
    }
    let mut summary = Summary::default();
    let (mut shares, mut masses) = (BTreeMap::<u32, Share>::new(), BTreeMap::<u32, u128>::new());
    let mut contents: Vec<Checksum> = Vec::new();
    for (bucket, described) in (0..).zip(blocks.chunks_exact(2)) {
        let block = |section: Section| {
            let described = &described[section as usize - Section::Keys as usize];
            let block = match described {
                Described::Here(block) => block.clone(),
                Described::Named(name, shelves) => read(name, *shelves)
                    .ok_or_else(|| format!("block {} is not there", name.checksum))?,
            };
            let (sequence, bucket_bits) = (shard.sequence, shard.bucket_bits);
            let id = BlockId { sequence, part: unit.part, bucket_bits, bucket, section };
            match block.id == id {
                true => Ok::<Block, SourceError>(block),
                false => Err("a block of another place".into()),
            }
        };
        let (keys, outcomes) = (block(Section::Keys)?, block(Section::Outcomes)?);
        let blocks = BucketBlocks::with_wins(plan.layout, keys, outcomes)?;
        let blocks: Vec<Block> = blocks.into_iter().collect();
        let Recount { summary: counted, ahead } =
            pool.install(|| recount::recount(game, plan, &blocks))?;
        summary += &counted;
        ahead.shares.into_iter().for_each(|(to, share)| *shares.entry(to).or_default() += share);
        ahead.masses.into_iter().for_each(|(to, mass)| *masses.entry(to).or_default() += mass);
        contents.extend(blocks.iter().map(Block::content));
        let holds =
            |ranges: &PartRanges| pool.install(|| ranges.hold(unit.part, blocks[0].slots()));
        if !ranges.is_none_or(holds) {
            return Err("it lists a graph of another part".into());
        }
    }
    Ok(Statement {
        summary,
        contents,
        ahead: ToldAhead {
            shares: shares.into_iter().collect(),
            masses: masses.into_iter().collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, HashMap},
        sync::atomic::AtomicBool,
    };

    use trailtrap_shared::{
        class::Class,
        graph::degree::DegreeSequence,
        labelling::batch::Kernel,
        partition::{BucketTable, KeyedOutcomes},
        plan::PlanOptions,
    };

    use super::*;
    use crate::{kernel::Solver, link::memory};

    const ORDER: usize = 7;

    /// The units of an order with their blocks, and the slots of the order below.
    struct Solved {
        plan: Arc<Plan>,
        units: Vec<(Unit, Vec<Block>)>,
        parents: BTreeMap<DegreeSequence, Vec<u64>>,
        by_name: HashMap<BlockName, Block>,
    }

    impl Solved {
        fn new() -> Self {
            let (game, kernel, stop) =
                (GameName::TrailTrap, Kernel::Portable, AtomicBool::new(false));
            let options = PlanOptions { part_graphs: 2, bucket_bytes: 40 };
            let solver = Solver { game, kernel, allowance_bytes: 1 << 20, stop: &stop };
            let (mut units, mut parents) = (Vec::new(), BTreeMap::<_, Vec<Block>>::new());
            memory::census_of(Class::All, ORDER, options, &solver, &mut |plan, solved| {
                let blocks = solved.blocks();
                if plan.order == ORDER {
                    units.push((solved.unit, blocks));
                } else if plan.order + 1 == ORDER {
                    let keys = blocks.into_iter().step_by(3);
                    parents.entry(solved.sequence).or_default().extend(keys);
                }
            })
            .unwrap();
            let slots = |(sequence, keys): (DegreeSequence, Vec<Block>)| {
                (sequence, Block::sorted_slots(&keys))
            };
            let blocks = units.iter().flat_map(|(_, blocks): &(Unit, Vec<Block>)| blocks);
            Solved {
                plan: Arc::new(Plan::new(game.layout(), ORDER, options)),
                by_name: blocks.map(|block| (block.name(), block.clone())).collect(),
                parents: parents.into_iter().map(slots).collect(),
                units,
            }
        }

        /// Keys by name, outcomes as they are.
        fn task(&self, unit: Unit, blocks: &[Block]) -> CountTask {
            let described = blocks.chunks(3).flat_map(|bucket| {
                [
                    Described::Named(bucket[0].name(), Shelves::default()),
                    Described::Here(bucket[1].clone()),
                ]
            });
            let (plan, blocks) = (self.plan.clone(), described.collect());
            CountTask { number: 1, plan, unit, edition: 1, blocks }
        }

        fn count(&self, task: &CountTask) -> Result<Statement, SourceError> {
            let shard = self.plan.shards.get(task.unit.shard as usize);
            let shard = shard.unwrap_or(&self.plan.shards[0]);
            let parents = |sequence: &DegreeSequence| {
                Ok::<_, SourceError>(self.parents.get(sequence).cloned().unwrap_or_default())
            };
            let ranges = PartRanges::of(shard, parents)?;
            let read = |name: &BlockName, _| self.by_name.get(name).cloned();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            count(GameName::TrailTrap, task, read, Some(&ranges), &pool)
        }
    }

    /// Whoever counts bucket by bucket, with lists of wins of its own, states what is counted of
    /// all blocks at once; and what is stated goes through messages.
    #[test]
    fn what_is_stated_is_what_all_blocks_say() {
        let solved = Solved::new();
        let (mut in_buckets, mut telling) = (0, 0);
        for (unit, blocks) in &solved.units {
            let statement = solved.count(&solved.task(*unit, blocks)).unwrap();
            let Recount { summary, ahead } =
                recount::recount(GameName::TrailTrap, &solved.plan, blocks).unwrap();
            let contents = blocks.iter().map(Block::content).collect();
            assert_eq!(statement, Statement { summary, contents, ahead });
            let told = recount::ahead(GameName::TrailTrap, &solved.plan, blocks);
            assert_eq!(told.as_ref(), Ok(&statement.ahead), "what its worker states");
            assert_eq!(Statement::of_message(statement.to_message()).unwrap(), statement);
            in_buckets += usize::from(blocks.len() > 3);
            telling += usize::from(!statement.ahead.shares.is_empty());
        }
        assert!(in_buckets > 10 && telling > 10, "{in_buckets} {telling}");
    }

    #[test]
    fn what_cannot_be_counted_is_said() {
        let solved = Solved::new();
        let is_of_two = |(unit, blocks): &&(Unit, Vec<Block>)| {
            solved.plan.shard_of(*unit).parts > 1 && blocks[0].count > 0
        };
        let (unit, blocks) = solved.units.iter().find(is_of_two).unwrap();
        let fails = |change: &dyn Fn(&mut CountTask)| {
            let mut task = solved.task(*unit, blocks);
            change(&mut task);
            solved.count(&task).unwrap_err().to_string()
        };
        let unknown = BlockName { length: 1, ..blocks[0].name() };
        let missing =
            fails(&|task| task.blocks[0] = Described::Named(unknown, Shelves::default()));
        assert!(missing.contains("not there"), "{missing}");
        assert!(fails(&|task| task.blocks.swap(0, 1)).contains("another place"));
        assert!(fails(&|task| drop(task.blocks.pop())).contains("not those of the unit"));
        assert!(fails(&|task| task.unit.shard = u32::MAX).contains("no such unit"));
        // Those of one part as those of another.
        let tables = blocks
            .chunks(3)
            .map(|bucket| KeyedOutcomes { keys: bucket[0].clone(), outcomes: bucket[1].clone() });
        let other = Unit { part: u32::from(unit.part == 0), ..*unit };
        let moved = tables
            .flat_map(|pair| BucketTable::from_blocks(&[pair]).unwrap().to_blocks(other.part))
            .collect::<Vec<Block>>();
        let task = solved.task(other, &moved);
        let blocks = moved.chunks(3).flat_map(|bucket| bucket[..2].iter().cloned());
        let blocks = blocks.map(Described::Here).collect();
        let counted = solved.count(&CountTask { blocks, ..task });
        assert!(counted.unwrap_err().to_string().contains("another part"));
    }

    #[test]
    fn what_states_nothing_is_told_from_a_statement() {
        let nothing = wire::Statement::default;
        assert!(matches!(Statement::of_message(nothing()), Err(StatementError::Digest)));
        let digest = vec![0; 32];
        let cut = wire::Statement { digest: digest.clone(), contents: vec![0; 17], ..nothing() };
        assert!(matches!(Statement::of_message(cut), Err(StatementError::Contents)));
        let empty = wire::Statement { digest, ..nothing() };
        assert!(matches!(Statement::of_message(empty), Err(StatementError::Codec(_))));
    }
}
