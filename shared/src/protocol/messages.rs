//! Conversions between the types of this program and the messages of the protocol. gRPC and the
//! files of offline workers use the same ones.

use std::{collections::HashSet, time::Duration};

use crate::{
    count::summary::Summary,
    game::Layout,
    graph::degree::DegreeSequence,
    partition::{BLOCK_FORMAT, Block, BlockError, BlockName, Checksum, Content, Section},
    plan::{Plan, Unit},
    protocol::{
        codec,
        shelves::{ShelfPlace, Shelves},
        wire::{self, PIECE_BYTES, described_block, fetch_request::What},
    },
};

/// What a worker can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The keys blocks of all graphs with this degree sequence, as parents of the next order.
    Parents(DegreeSequence),
    /// Keys and outcomes of one bucket of a finished partition: the two blocks of each part in
    /// turn.
    Bucket(DegreeSequence, u32),
}

impl Wanted {
    /// The degree sequence of the partition that it is from.
    pub fn sequence(&self) -> &DegreeSequence {
        match self {
            Wanted::Parents(sequence) | Wanted::Bucket(sequence, _) => sequence,
        }
    }

    /// Whether all these blocks belong to what is wanted. It does not tell whether some are
    /// missing.
    pub fn admits(&self, blocks: &[Block]) -> bool {
        blocks.iter().all(|block| {
            block.id.sequence == *self.sequence()
                && match self {
                    Wanted::Parents(_) => block.id.section == Section::Keys,
                    Wanted::Bucket(_, bucket) => {
                        block.id.section != Section::Wins && block.id.bucket == *bucket
                    }
                }
        })
    }
}

/// A block as the coordinator describes it: small blocks are sent at once, others are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Described {
    /// The block itself, which is small.
    Here(Block),
    /// The name of a block that caches, depots, the coordinator, or these shelves have.
    Named(BlockName, Shelves),
}

/// Why a message cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The bytes are no degree sequence of a graph.
    #[error("not a degree sequence")]
    Degrees,
    /// The request does not say what it is for.
    #[error("neither parents nor a bucket")]
    What,
    /// A checksum has another length than 16 bytes.
    #[error("a checksum has 16 bytes")]
    Checksum,
    /// The description of a block is empty.
    #[error("neither a block nor its name")]
    NoBlock,
    /// A piece of a block has another length than it should.
    #[error("a piece that is not the last has {PIECE_BYTES} bytes")]
    Piece,
    /// A block has more bytes than was said.
    #[error("more bytes than the block has")]
    Length,
    /// A block that came with the message is damaged.
    #[error(transparent)]
    Block(#[from] BlockError),
}

/// The request of a worker for what it wants: all of its blocks if `only` is empty, otherwise
/// those with these checksums.
pub fn request(worker: u64, wanted: &Wanted, only: &[Checksum]) -> wire::FetchRequest {
    let what = match wanted {
        Wanted::Parents(_) => What::Parents(true),
        Wanted::Bucket(_, bucket) => What::Bucket(*bucket),
    };
    let only = only.iter().map(|checksum| checksum.0.to_vec()).collect();
    wire::FetchRequest {
        worker,
        degrees: wanted.sequence().bytes().to_vec(),
        what: Some(what),
        only,
    }
}

/// What a request is for.
///
/// # Errors
/// If the request names no degree sequence, or neither parents nor a bucket.
pub fn wanted(request: &wire::FetchRequest) -> Result<Wanted, MessageError> {
    let sequence = DegreeSequence::from_bytes(&request.degrees).ok_or(MessageError::Degrees)?;
    match request.what {
        Some(What::Parents(_)) => Ok(Wanted::Parents(sequence)),
        Some(What::Bucket(bucket)) => Ok(Wanted::Bucket(sequence, bucket)),
        None => Err(MessageError::What),
    }
}

/// Those of the blocks that are to be sent: the ones whose checksums the request names, or all if
/// it names none.
pub fn select(request: &wire::FetchRequest, mut blocks: Vec<Block>) -> Vec<Block> {
    if !request.only.is_empty() {
        let only: HashSet<&[u8]> = request.only.iter().map(Vec::as_slice).collect();
        blocks.retain(|block| only.contains(&block.name().checksum.0[..]));
    }
    blocks
}

/// The message that describes blocks.
pub fn description(blocks: Vec<Described>) -> wire::Description {
    let describe = |block| {
        let what = match block {
            Described::Here(block) => described_block::What::Block(block.into_bytes()),
            Described::Named(name, shelves) => {
                described_block::What::Name(name_message(&name, shelves))
            }
        };
        wire::DescribedBlock { what: Some(what) }
    };
    wire::Description { blocks: blocks.into_iter().map(describe).collect() }
}

/// The blocks that a message describes.
///
/// # Errors
/// If a description is empty, a checksum has a wrong length, or a block that came along is
/// damaged.
pub fn described(
    layout: Layout,
    description: wire::Description,
) -> Result<Vec<Described>, MessageError> {
    let described = |block: wire::DescribedBlock| match block.what {
        Some(described_block::What::Block(bytes)) => {
            Ok(Described::Here(Block::parse(layout, bytes)?))
        }
        Some(described_block::What::Name(name)) => {
            let (name, shelves) = block_name(name)?;
            Ok(Described::Named(name, shelves))
        }
        None => Err(MessageError::NoBlock),
    };
    description.blocks.into_iter().map(described).collect()
}

/// The message that names a block, which lies on these shelves, if on any.
pub fn name_message(name: &BlockName, shelves: Shelves) -> wire::BlockName {
    wire::BlockName {
        checksum: name.checksum.0.to_vec(),
        length: name.length,
        shelves: shelves.iter().collect(),
    }
}

/// The name of a block, and the shelves on which it lies.
///
/// # Errors
/// If the checksum has a wrong length.
pub fn block_name(name: wire::BlockName) -> Result<(BlockName, Shelves), MessageError> {
    let checksum = Checksum(name.checksum.try_into().map_err(|_| MessageError::Checksum)?);
    Ok((BlockName { checksum, length: name.length }, name.shelves.into_iter().collect()))
}

/// The message that says where a shelf is.
pub fn place_message(place: &ShelfPlace) -> wire::ShelfPlace {
    let ShelfPlace { number, address, certificate } = place.clone();
    wire::ShelfPlace { number, address, certificate: certificate.unwrap_or_default() }
}

/// Where a shelf is; nothing if it has no number.
pub fn shelf_place(place: wire::ShelfPlace) -> Option<ShelfPlace> {
    let wire::ShelfPlace { number, address, certificate } = place;
    let certificate = Some(certificate).filter(|certificate| !certificate.is_empty());
    (number != 0).then_some(ShelfPlace { number, address, certificate })
}

/// Checksums, one after the other.
pub fn joined(checksums: impl IntoIterator<Item = Checksum>) -> Vec<u8> {
    checksums.into_iter().flat_map(|checksum| checksum.0).collect()
}

/// Checksums that stand one after the other.
///
/// # Errors
/// If the last one is cut short.
pub fn checksums(joined: &[u8]) -> Result<impl Iterator<Item = Checksum>, MessageError> {
    match joined.as_chunks() {
        (checksums, []) => Ok(checksums.iter().map(|&checksum| Checksum(checksum))),
        _ => Err(MessageError::Checksum),
    }
}

/// The message that grants a lease of units of a plan.
pub fn grant(lease: u64, plan: &Plan, units: &[Unit], edition: u32) -> wire::Grant {
    wire::Grant {
        lease,
        order: plan.order as u32,
        part_graphs: plan.options.part_graphs,
        bucket_bytes: plan.options.bucket_bytes,
        plan_fingerprint: plan.fingerprint,
        units: units.iter().map(unit_id).collect(),
        edition,
        block_format: BLOCK_FORMAT.into(),
        max_size: plan.limit().map(|size| size as u32),
        worker: 0,
    }
}

/// The units of a lease.
pub fn units(grant: &wire::Grant) -> Vec<Unit> {
    let unit =
        |id: &wire::UnitId| Unit { order: grant.order as u8, shard: id.shard, part: id.part };
    grant.units.iter().map(unit).collect()
}

fn unit_id(unit: &Unit) -> wire::UnitId {
    wire::UnitId { shard: unit.shard, part: unit.part }
}

/// The bytes of a block, cut into pieces of [`PIECE_BYTES`].
pub fn pieces(block: &[u8]) -> impl Iterator<Item = wire::BlockPiece> {
    (0..).map_while(|index| piece(block, index))
}

/// One of them; `None` beyond the last.
pub fn piece(block: &[u8], index: usize) -> Option<wire::BlockPiece> {
    let rest = block.get(index * PIECE_BYTES..).filter(|rest| !rest.is_empty())?;
    let data = rest[..rest.len().min(PIECE_BYTES)].to_vec();
    Some(wire::BlockPiece { last: rest.len() <= PIECE_BYTES, data, done: false })
}

/// A block that comes in pieces.
pub struct Assembly {
    bytes: Vec<u8>,
    most: u64,
}

impl Assembly {
    /// Nothing yet of a block of at most so many bytes.
    pub fn of(most: u64) -> Self {
        Assembly { bytes: Vec::new(), most }
    }

    /// Whether some of it has come, and not all.
    pub fn is_begun(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Adds the next piece; the bytes of the block if that is its last, after which the next one
    /// begins.
    ///
    /// # Errors
    /// If it is not the last piece and has not [`PIECE_BYTES`]: whoever sends little at a time would
    /// never come to an end. Or if the block has too many bytes.
    pub fn add(&mut self, piece: wire::BlockPiece) -> Result<Option<Vec<u8>>, MessageError> {
        if !piece.last && piece.data.len() != PIECE_BYTES {
            return Err(MessageError::Piece);
        }
        if (self.bytes.len() + piece.data.len()) as u64 > self.most {
            return Err(MessageError::Length);
        }
        self.bytes.extend_from_slice(&piece.data);
        Ok(piece.last.then(|| std::mem::take(&mut self.bytes)))
    }
}

/// The message that tells everything about a solved unit but its blocks.
pub fn result(unit: &Unit, summary: &Summary, elapsed: Duration) -> wire::UnitResult {
    wire::UnitResult {
        unit: Some(unit_id(unit)),
        statistics: codec::encode(&summary.statistics),
        digest: summary.digest.to_le_bytes().to_vec(),
        elapsed_microseconds: elapsed.as_micros() as u64,
        content: Vec::new(),
        ahead: Vec::new(),
    }
}

/// The messages that deliver the results of a lease: the lease, then each unit followed by the
/// pieces of its blocks.
pub fn delivery(
    worker: u64,
    lease: u64,
    results: impl IntoIterator<Item = (wire::UnitResult, Vec<Block>)>,
) -> Vec<wire::CompleteRequest> {
    use wire::complete_request::Part;
    let by_name = false;
    let mut parts = vec![Part::Start(wire::CompleteStart { worker, lease, by_name })];
    for (result, blocks) in results {
        parts.push(Part::Unit(result));
        for block in blocks {
            parts.extend(pieces(block.bytes()).map(Part::Piece));
        }
    }
    requests(parts)
}

/// A unit in a delivery by name: what is said of it, and of its blocks the names, or those that are
/// small enough to be sent.
pub struct NamedUnit(Vec<wire::complete_request::Part>);

impl NamedUnit {
    /// The blocks that `is_named` says are only named: they lie in the depot of the census, or on
    /// these shelves.
    pub fn new(
        result: wire::UnitResult,
        blocks: &[Block],
        shelves: Shelves,
        is_named: impl Fn(&Block) -> bool,
    ) -> Self {
        use wire::complete_request::Part;
        let content = Content::of_unit(blocks).0.to_vec();
        let mut parts = vec![Part::Unit(wire::UnitResult { content, ..result })];
        for block in blocks {
            match is_named(block) {
                true => parts.push(Part::Name(name_message(&block.name(), shelves))),
                false => parts.extend(pieces(block.bytes()).map(Part::Piece)),
            }
        }
        NamedUnit(parts)
    }
}

/// The messages that deliver the results of a lease by the names of their blocks.
pub fn delivery_by_name(
    worker: u64,
    lease: u64,
    units: impl IntoIterator<Item = NamedUnit>,
) -> Vec<wire::CompleteRequest> {
    use wire::complete_request::Part;
    let by_name = true;
    let start = Part::Start(wire::CompleteStart { worker, lease, by_name });
    requests([start].into_iter().chain(units.into_iter().flat_map(|NamedUnit(parts)| parts)))
}

fn requests(
    parts: impl IntoIterator<Item = wire::complete_request::Part>,
) -> Vec<wire::CompleteRequest> {
    parts.into_iter().map(|part| wire::CompleteRequest { part: Some(part) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::game::{Game, TrailTrap};
    use crate::partition::BucketTable;

    #[test]
    fn requests_are_understood() {
        let sequence = DegreeSequence::new([1, 2, 2, 1]);
        for wish in
            [Wanted::Parents(sequence), Wanted::Bucket(sequence, 0), Wanted::Bucket(sequence, 7)]
        {
            assert_eq!(wanted(&request(3, &wish, &[])), Ok(wish));
        }
        let good = request(3, &Wanted::Parents(sequence), &[]);
        assert_eq!(
            wanted(&wire::FetchRequest { degrees: vec![2, 1], ..good.clone() }),
            Err(MessageError::Degrees)
        );
        assert_eq!(wanted(&wire::FetchRequest { what: None, ..good }), Err(MessageError::What));
    }

    #[test]
    fn blocks_are_described_and_selected() {
        let sequence = DegreeSequence::new([4; 11]);
        let table = BucketTable::new(
            TrailTrap::LAYOUT,
            sequence,
            0,
            0,
            [3, 4].into_iter(),
            |_, record| record.fill(0),
        );
        let blocks: Vec<Block> = table.to_blocks(0).into_iter().collect();
        let [keys, outcomes, _] = &blocks[..] else { unreachable!("a bucket has three blocks") };
        let both = vec![
            Described::Here(keys.clone()),
            Described::Named(outcomes.name(), [7].into_iter().collect()),
        ];
        let described = |description| described(TrailTrap::LAYOUT, description);
        assert_eq!(described(description(both.clone())), Ok(both.clone()));
        let changed = |change: &dyn Fn(&mut Option<described_block::What>)| {
            let mut description = description(both.clone());
            description.blocks.iter_mut().for_each(|block| change(&mut block.what));
            described(description)
        };
        assert_eq!(changed(&|what| *what = None), Err(MessageError::NoBlock));
        assert_eq!(
            changed(&|what| *what = Some(described_block::What::Name(wire::BlockName::default()))),
            Err(MessageError::Checksum)
        );
        assert_eq!(
            changed(&|what| *what = Some(described_block::What::Block(vec![1; 99]))),
            Err(MessageError::Block(BlockError::Magic))
        );
        let wish = Wanted::Bucket(sequence, 0);
        for (only, expected) in [
            (&[][..], &blocks[..]),
            (&[outcomes.name().checksum], &blocks[1..2]),
            (&[Checksum([7; 16])], &[]),
        ] {
            assert_eq!(select(&request(3, &wish, only), blocks.to_vec()), expected);
        }
    }

    #[test]
    fn pieces_make_the_block_again() {
        for length in [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let block: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let pieces: Vec<wire::BlockPiece> = pieces(&block).collect();
            assert_eq!(
                pieces.iter().flat_map(|piece| piece.data.clone()).collect::<Vec<u8>>(),
                block
            );
            let lasts: Vec<bool> = pieces.iter().map(|piece| piece.last).collect();
            assert_eq!(lasts.iter().position(|&last| last), Some(lasts.len() - 1), "{length}");
        }
    }
}
