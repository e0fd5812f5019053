//! What bytes from outside must never do: crash a reader, or be taken for something that is
//! written differently. Called by the fuzz targets, and by the tests with the corpus.

use prost::Message;
use trailtrap_shared::{
    count::statistics::Statistics,
    game::{Game, TrailTrap},
    graph::{degree::DegreeSequence, graph6},
    partition::{Block, BucketTable, KeyedOutcomes, Section, graph_of_slot},
    protocol::{codec, wire},
};

/// A line that should be a graph.
pub fn graph6(data: &[u8]) {
    let Ok(graph) = graph6::decode(data) else { return };
    let text = graph6::encode(&graph);
    assert_eq!(graph6::decode(text.as_bytes()), Ok(graph));
    assert_eq!(graph6::in_line(data, false), text.as_bytes(), "a graph has one text");
}

/// Two blocks that should be the keys and the outcomes of a bucket. The first two bytes say where
/// one ends and the other begins. Checksums, which no fuzzer guesses, are added here.
pub fn block(data: &[u8]) {
    let _ = Block::parse(TrailTrap::LAYOUT, data.to_vec());
    let [low, high, rest @ ..] = data else { return };
    let middle = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    let blocks = [&rest[..middle], &rest[middle..]].map(|body| {
        let bytes = [body, &blake3::hash(body).as_bytes()[..16]].concat();
        let block = Block::parse(TrailTrap::LAYOUT, bytes.clone()).ok()?;
        assert_eq!(block.bytes(), bytes);
        if block.id.section != Section::Outcomes {
            assert_eq!(block.slots().count(), block.count);
            assert!(block.places(block.slots()).eq(block.slots().zip(0..)));
            let plain = Block::parse(TrailTrap::LAYOUT, block.to_plain().into_bytes()).unwrap();
            assert!(plain.slots().eq(block.slots()) && plain.content() == block.content());
            block.slots().for_each(|slot| {
                let graph = graph_of_slot(&block.id.sequence, slot);
                assert!(graph.is_none_or(|graph| graph.order() == block.id.sequence.order()));
            });
        }
        Some(block)
    });
    let [Some(keys), Some(outcomes)] = blocks else { return };
    let part = keys.id.part;
    let Ok(table) = BucketTable::from_blocks(&[KeyedOutcomes {
        keys: keys.clone(),
        outcomes: outcomes.clone(),
    }]) else {
        return;
    };
    assert_eq!(table.len(), keys.count);
    for (i, slot) in keys.slots().enumerate() {
        let first = table.locate(slot);
        assert_eq!((table.slot(i), table.find(slot, first)), (slot, Some(i)));
        let record = table.look_up(slot, first);
        assert_eq!(record, Some(table.record(i)));
    }
    let again = table.to_blocks(part);
    assert_eq!(again.outcomes, outcomes);
    // Plain slots may be longer than those that are written.
    assert!(again.keys.slots().eq(keys.slots()));
    assert!(again.keys == keys || again.keys.bytes().len() < keys.bytes().len());
}

/// A message of the protocol (the first byte says which), or bytes that messages carry.
pub fn message(data: &[u8]) {
    fn read<M: Message + Default + PartialEq>(bytes: &[u8]) {
        if let Ok(message) = M::decode(bytes) {
            assert!(M::decode(&message.encode_to_vec()[..]).is_ok_and(|again| again == message));
        }
    }
    let [which, bytes @ ..] = data else { return };
    match which {
        0 => read::<wire::RegisterRequest>(bytes),
        1 => read::<wire::RegisterReply>(bytes),
        2 => read::<wire::LeaseRequest>(bytes),
        3 => read::<wire::LeaseReply>(bytes),
        4 => read::<wire::FetchRequest>(bytes),
        5 => read::<wire::BlockPiece>(bytes),
        6 => read::<wire::HeartbeatRequest>(bytes),
        7 => read::<wire::CompleteRequest>(bytes),
        8 => read::<wire::CompleteReply>(bytes),
        9 => read::<wire::GiveBackRequest>(bytes),
        10 => read::<wire::StatusReply>(bytes),
        11 => {
            if let Ok(statistics) = codec::decode::<Statistics>(bytes) {
                assert_eq!(codec::encode(&statistics), bytes, "statistics have one encoding");
            }
        }
        13 => read::<wire::Description>(bytes),
        _ => {
            if let Some(sequence) = DegreeSequence::from_bytes(bytes) {
                assert_eq!(sequence.bytes(), bytes);
            }
        }
    }
}
