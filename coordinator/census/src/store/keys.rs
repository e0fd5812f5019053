//! Under which keys records and blocks stand in the database, and what it means that a record does
//! not say what it should.

use serde::{Serialize, de::DeserializeOwned};
use trailtrap_shared::{
    graph::degree::DegreeSequence,
    partition::BlockId,
    plan::Unit,
    protocol::codec::{self, CodecError},
};

use super::error::StoreError;

/// The key of the format.
pub(super) const FORMAT: &[u8] = b"format";
/// The key of the number of the last write of records.
pub(super) const WRITTEN: &[u8] = b"written";
/// The key of the number of the last start.
pub(super) const EPOCH: &[u8] = b"epoch";
/// The key of the number of the edition.
pub(super) const EDITION: &[u8] = b"edition";
/// The key of the number that what is drawn in secret follows from.
pub(super) const SALT: &[u8] = b"salt";
/// The key of a number that grows whenever units are taken back within an edition.
pub(super) const TAKEN_BACK: &[u8] = b"taken back";
/// The key of what is being dropped while blocks lie in a depot or on shelves: the number of a
/// section, and ranges of its keys.
pub(super) const DROPPING: &[u8] = b"dropping";
/// The key of the record that says where blocks are kept, if that is a depot.
pub(super) const DEPOT: &[u8] = b"depot";
/// The key of the mark that a depot gets, or shelves.
pub(super) const MARK: &[u8] = b"mark";
/// The key of the record that blocks lie on the shelves of workers: the mark that these have.
pub(super) const SHELVES: &[u8] = b"shelves";

pub(super) fn order_key(order: usize) -> [u8; 2] {
    [b'o', order as u8]
}

/// Where it says up to how many edges an order is done; nothing if it is done to the end.
pub(super) fn limit_key(order: usize) -> [u8; 2] {
    [b'l', order as u8]
}

/// Where it says that the graphs of an order go; nothing if they stay.
pub(super) fn dropped_key(order: usize) -> [u8; 2] {
    [b'd', order as u8]
}

/// Where it says that there was a result of an order, and something of it has been taken back.
pub(super) fn withdrawn_key(order: usize) -> [u8; 2] {
    [b'w', order as u8]
}

pub(super) fn unit_key(unit: Unit) -> Vec<u8> {
    let mut key = vec![b'u', unit.order];
    key.extend_from_slice(&unit.shard.to_be_bytes());
    key.extend_from_slice(&unit.part.to_be_bytes());
    key
}

pub(super) fn ahead_key(unit: Unit) -> Vec<u8> {
    let mut key = unit_key(unit);
    key[0] = b'n';
    key
}

/// Where the masses are that a unit tells.
pub(super) fn masses_key(unit: Unit) -> Vec<u8> {
    let mut key = unit_key(unit);
    key[0] = b'm';
    key
}

/// Order, size, degrees, part, bucket: partitions of one number of edges stand together.
pub(super) fn block_key(id: &BlockId) -> Vec<u8> {
    let mut key = sequence_key(&id.sequence);
    key.extend_from_slice(&id.part.to_be_bytes());
    key.extend_from_slice(&id.bucket.to_be_bytes());
    key
}

/// The key of the parity of a block, next to that of the block.
pub(super) fn parity_key(id: &BlockId) -> Vec<u8> {
    let mut key = block_key(id);
    key.push(0);
    key
}

/// The keys of blocks from one on, up to another, which is not one of them.
pub(super) type KeyRange = (Vec<u8>, Vec<u8>);

/// The keys of blocks of graphs of an order with at most `size` edges.
pub(super) fn keys_up_to(order: usize, size: usize) -> KeyRange {
    let order = order as u8;
    (vec![order, 0], vec![order, size as u8 + 1])
}

/// What the keys of the blocks of a partition begin with.
fn sequence_key(sequence: &DegreeSequence) -> Vec<u8> {
    let mut key = vec![sequence.order() as u8, sequence.size() as u8];
    key.extend_from_slice(sequence.bytes());
    key
}

/// They end with so many bytes at most, for part, bucket and parity, and are smaller than if all
/// of these were as large as can be.
const BLOCK_KEY_TAIL: usize = 9;

/// The keys of the blocks of all partitions from one to another.
pub(super) fn keys_between(first: &DegreeSequence, last: &DegreeSequence) -> KeyRange {
    (sequence_key(first), [sequence_key(last), vec![u8::MAX; BLOCK_KEY_TAIL]].concat())
}

/// The unit whose record has this key.
pub(super) fn unit_of_key(key: &[u8]) -> Option<Unit> {
    let (&[b'u', order], numbers) = key.split_first_chunk()? else { return None };
    let (shard, part) = numbers.split_first_chunk()?;
    let part = part.try_into().ok()?;
    Some(Unit { order, shard: u32::from_be_bytes(*shard), part: u32::from_be_bytes(part) })
}

pub(super) fn alarm_key(number: u32) -> Vec<u8> {
    let mut key = vec![b'a'];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number of the alarm that has this key.
pub(super) fn alarm_of_key(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.strip_prefix(b"a")?.try_into().ok()?))
}

/// What the record with this key says.
pub(super) fn decode<T: Serialize + DeserializeOwned>(
    key: &[u8],
    value: &[u8],
) -> Result<T, StoreError> {
    codec::decode(value).map_err(|source| damaged(key, source))
}

/// That the record with this key is damaged.
pub(super) fn damaged(key: &[u8], source: CodecError) -> StoreError {
    StoreError::Record { key: key.escape_ascii().to_string(), source }
}
