//! A delivery, as it comes in: messages of one stream, put together piece by piece.

use std::time::Duration;

use prost::Message;
use tonic::{Status, Streaming};
use trailtrap_census::{
    records::{Author, Delivery, UnitRecord, delivery},
    store::block_id,
};
use trailtrap_shared::{
    count::{ahead::ToldAhead, digest::Digest, statistics::Statistics, summary::Summary},
    partition::{Block, BlockId, BlockName, Content, Section},
    plan::{Plan, Shard, Unit},
    protocol::{
        codec,
        messages::{self, Assembly},
        shelves::Shelves,
        wire::{self, complete_request::Part},
    },
};

/// Nobody works on a unit for longer than these twelve days. Sums of such times do not overflow.
const LONGEST_MICROSECONDS: u64 = 1 << 40;

/// Why a delivery could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The stream broke off, which is nobody's fault.
    #[error("{0}")]
    Broken(#[from] Status),
    /// It is no delivery of the lease, however it would go on.
    #[error("{0}")]
    Wrong(String),
}

fn wrong<T>(why: impl ToString) -> Result<T, Unreadable> {
    Err(Unreadable::Wrong(why.to_string()))
}

/// The results of a lease.
pub struct Unpacked {
    /// Of its units.
    pub deliveries: Vec<Delivery>,
    /// Those of the blocks that lie on shelves, and on which, as the worker says.
    pub shelved: Vec<(BlockName, Shelves)>,
}

/// What has come in of the results of a lease.
pub struct Unpacking<'a> {
    plan: &'a Plan,
    author: Author,
    /// The delivery has still so many units and blocks, and at most so many bytes.
    units_left: usize,
    blocks_left: usize,
    bytes_left: u64,
    deliveries: Vec<Delivery>,
    shelved: Vec<(BlockName, Shelves)>,
    /// The unit whose blocks are coming.
    current: Option<Arriving<'a>>,
    /// The block that is coming. What all have together is bounded anyhow.
    block: Assembly,
}

/// A unit, and those of its blocks that have come.
struct Arriving<'a> {
    unit: Unit,
    shard: &'a Shard,
    result: wire::UnitResult,
    blocks: Vec<Block>,
    named: Vec<(BlockId, BlockName)>,
    /// What is named of it has at most so many bytes still.
    named_left: u64,
}

impl<'a> Unpacking<'a> {
    /// Nothing yet of these units of a plan.
    pub fn new(plan: &'a Plan, units: &[Unit], author: Author) -> Self {
        let blocks = |&unit: &Unit| 3 << plan.shard_of(unit).bucket_bits;
        Unpacking {
            plan,
            author,
            units_left: units.len(),
            blocks_left: units.iter().map(blocks).sum(),
            bytes_left: plan.most_bytes(units),
            deliveries: Vec::new(),
            shelved: Vec::new(),
            current: None,
            block: Assembly::of(u64::MAX),
        }
    }

    /// Reads the messages after the first, only as far as what was leased can have. What does not
    /// come to its end has broken off: tonic lets a stream that its client has given up look like
    /// one that is complete.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub async fn unpack(
        mut self,
        stream: &mut Streaming<wire::CompleteRequest>,
    ) -> Result<Unpacked, Unreadable> {
        while let Some(message) = stream.message().await? {
            self.add(message)?;
        }
        if self.units_left > 0 || self.blocks_left > 0 {
            return Err(Status::invalid_argument("the delivery breaks off").into());
        }
        self.finish_unit()?;
        Ok(Unpacked { deliveries: self.deliveries, shelved: self.shelved })
    }

    fn add(&mut self, message: wire::CompleteRequest) -> Result<(), Unreadable> {
        let length = message.encoded_len() as u64;
        let Some(left) = self.bytes_left.checked_sub(length) else {
            return wrong("more bytes than the leased units have");
        };
        self.bytes_left = left;
        match message.part {
            Some(Part::Unit(result)) => {
                let Some(left) = self.units_left.checked_sub(1) else {
                    return wrong("more units than were leased");
                };
                self.units_left = left;
                self.finish_unit()?;
                let Some(id) = result.unit else { return wrong("a result without its unit") };
                let Some(shard) = self.plan.shards.get(id.shard as usize) else {
                    return wrong("no such shard");
                };
                let (order, part) = (self.plan.order as u8, id.part);
                let unit = Unit { order, shard: id.shard, part };
                let named_left = self.plan.most_bytes(&[unit]);
                let (blocks, named) = (Vec::new(), Vec::new());
                self.current = Some(Arriving { unit, shard, result, blocks, named, named_left });
                Ok(())
            }
            Some(Part::Piece(piece)) => self.add_piece(piece),
            Some(Part::Name(_)) if self.block.is_begun() => wrong("a block without its end"),
            Some(Part::Name(name)) => {
                let (name, shelves) = messages::block_name(name).or_else(wrong)?;
                let is_shelved = !shelves.is_empty();
                if is_shelved {
                    self.shelved.push((name, shelves));
                }
                let (id, arriving) = self.next_block()?;
                // Shelves end with the census, and lists of wins do not.
                if is_shelved && id.section == Section::Wins {
                    return wrong("a list of wins that lies on a shelf");
                }
                // It is read when the unit is examined, which is in memory then.
                let Some(left) = arriving.named_left.checked_sub(name.length) else {
                    return wrong("more bytes than the unit has");
                };
                arriving.named_left = left;
                arriving.named.push((id, name));
                Ok(())
            }
            Some(Part::Start(_)) | None => wrong("unexpected part of a delivery"),
        }
    }

    fn add_piece(&mut self, piece: wire::BlockPiece) -> Result<(), Unreadable> {
        // Whoever sends little at a time would hold its share for ever.
        let Some(bytes) = self.block.add(piece).or_else(wrong)? else { return Ok(()) };
        let block = Block::parse(self.plan.layout, bytes).or_else(wrong)?;
        let (_, arriving) = self.next_block()?;
        arriving.blocks.push(block);
        Ok(())
    }

    /// The place of the block that comes now, if that of the unit were the next, and the unit.
    fn next_block(&mut self) -> Result<(BlockId, &mut Arriving<'a>), Unreadable> {
        let Some(arriving) = &mut self.current else {
            return wrong("a block without its unit");
        };
        let Some(left) = self.blocks_left.checked_sub(1) else {
            return wrong("more blocks than the leased units have");
        };
        self.blocks_left = left;
        let come = arriving.blocks.len() + arriving.named.len();
        let (bucket, section) = (come / Section::ALL.len(), come % Section::ALL.len());
        let Arriving { shard, unit, .. } = arriving;
        Ok((block_id(shard, unit.part, bucket as u32, Section::ALL[section]), arriving))
    }

    /// All blocks of the unit, if there is one, have come.
    fn finish_unit(&mut self) -> Result<(), Unreadable> {
        let Some(Arriving { unit, shard, result, blocks, named, .. }) = self.current.take() else {
            return Ok(());
        };
        let statistics: Statistics = codec::decode(&result.statistics)
            .or_else(|error| wrong(format!("statistics: {error}")))?;
        let Ok(digest) = result.digest.try_into() else { return wrong("a digest has 32 bytes") };
        let elapsed = Duration::from_micros(result.elapsed_microseconds.min(LONGEST_MICROSECONDS));
        let summary = Summary { statistics, digest: Digest::from_le_bytes(digest) };
        let author = self.author.clone();
        let delivered = delivery(unit, shard.sequence, blocks, summary, elapsed, author);
        if named.is_empty() {
            self.deliveries.push(delivered);
            return Ok(());
        }
        let Ok(content) = result.content.try_into() else {
            return wrong("a content has 16 bytes");
        };
        let ahead = (!result.ahead.is_empty()).then(|| codec::decode(&result.ahead)).transpose();
        let told_ahead: Option<ToldAhead> =
            ahead.or_else(|error| wrong(format!("told ahead: {error}")))?;
        let bytes = named.iter().map(|(_, name)| name.length).sum::<u64>();
        let record = UnitRecord {
            bytes: delivered.record.bytes.saturating_add(bytes),
            content: Content(content),
            ..delivered.record
        };
        self.deliveries.push(Delivery { named, record, told_ahead, ..delivered });
        Ok(())
    }
}
