//! What bytes from outside must never do: crash a reader, or be taken for something that is
//! written differently. Called by the fuzz targets, and by the tests with the corpus.

use prost::Message;
use trailtrap_shared::{
    count::{ahead::ToldAhead, statistics::Statistics},
    game::{Game, TrailTrap},
    graph::{degree::DegreeSequence, graph6},
    partition::{Block, BucketTable, KeyedOutcomes, Section, graph_of_slot},
    protocol::{
        access::{Access, AccessToken},
        codec,
        messages::{self, Assembly},
        wire::{
            self, complete_request::Part, counted_request::What, lease_reply::Answer, put_request,
        },
    },
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

/// A message of the protocol (the first byte says which) and what the program reads in it, or bytes
/// that messages carry.
pub fn message(data: &[u8]) {
    fn read<M: Message + Default + PartialEq>(bytes: &[u8], understand: impl FnOnce(M)) {
        if let Ok(message) = M::decode(bytes) {
            assert!(M::decode(&message.encode_to_vec()[..]).is_ok_and(|again| again == message));
            understand(message);
        }
    }
    let [which, bytes @ ..] = data else { return };
    match which {
        0 => read::<wire::RegisterRequest>(bytes, |request| {
            request.shelf.into_iter().for_each(placed);
        }),
        1 => read::<wire::RegisterReply>(bytes, drop),
        2 => read::<wire::LeaseRequest>(bytes, drop),
        3 => read::<wire::LeaseReply>(bytes, |reply| match reply.answer {
            Some(Answer::Grant(grant)) => granted(&grant),
            Some(Answer::WaitMilliseconds(_) | Answer::Finished(_)) | None => {}
        }),
        4 => read::<wire::FetchRequest>(bytes, |request| wanted(&request)),
        5 => read::<wire::BlockPiece>(bytes, assembled),
        6 => read::<wire::HeartbeatRequest>(bytes, drop),
        7 => read::<wire::CompleteRequest>(bytes, |request| match request.part {
            Some(Part::Unit(unit)) => {
                statistics(&unit.statistics);
                told_ahead(&unit.ahead);
            }
            Some(Part::Piece(piece)) => assembled(piece),
            Some(Part::Name(name)) => named(name),
            Some(Part::Start(_)) | None => {}
        }),
        8 => read::<wire::CompleteReply>(bytes, drop),
        9 => read::<wire::GiveBackRequest>(bytes, drop),
        10 => read::<wire::StatusReply>(bytes, drop),
        11 => statistics(bytes),
        13 => read::<wire::Description>(bytes, described),
        14 => read::<wire::CountRequest>(bytes, drop),
        15 => read::<wire::CountReply>(bytes, |reply| {
            let wire::CountTask { grant, blocks } = reply.task.unwrap_or_default();
            granted(&grant.unwrap_or_default());
            described(blocks.unwrap_or_default());
        }),
        16 => read::<wire::CountedRequest>(bytes, |request| match request.what {
            Some(What::Statement(statement)) => {
                statistics(&statement.statistics);
                checksums(&statement.contents);
                told_ahead(&statement.ahead);
            }
            Some(What::Failure(_)) | None => {}
        }),
        17 => told_ahead(bytes),
        18 => read::<wire::ShelfList>(bytes, |list| checksums(&list.checksums)),
        19 => read::<wire::ShelfAnswer>(bytes, |answer| {
            checksums(&answer.unwanted);
            checksums(&answer.lonely);
        }),
        20 => read::<wire::FindShelvesRequest>(bytes, drop),
        21 => read::<wire::FindShelvesReply>(bytes, |reply| {
            reply.shelves.into_iter().for_each(placed);
        }),
        22 => read::<wire::BlockList>(bytes, |list| list.blocks.into_iter().for_each(named)),
        23 => read::<wire::PutRequest>(bytes, |request| match request.part {
            Some(put_request::Part::Name(name)) => named(name),
            Some(put_request::Part::Piece(piece)) => assembled(piece),
            None => {}
        }),
        24 => read::<wire::Input>(bytes, |input| {
            input.request.iter().for_each(wanted);
            for block in input.blocks {
                let _ = Block::parse(TrailTrap::LAYOUT, block);
            }
        }),
        // Those that say nothing.
        25 => {
            read::<wire::HeartbeatReply>(bytes, drop);
            read::<wire::CountedReply>(bytes, drop);
            read::<wire::GiveBackReply>(bytes, drop);
            read::<wire::PutReply>(bytes, drop);
            read::<wire::StatusRequest>(bytes, drop);
        }
        26 => admitted(bytes),
        _ => {
            if let Some(sequence) = DegreeSequence::from_bytes(bytes) {
                assert_eq!(sequence.bytes(), bytes);
            }
        }
    }
}

/// What admits somebody: an access file, or what a stranger says in the header of a call.
fn admitted(bytes: &[u8]) {
    if let Ok(access) = Access::parse(bytes) {
        assert_eq!(Access::parse(access.to_text().as_bytes()), Ok(access));
    }
    if let Some(token) = AccessToken::from_header(bytes) {
        assert_eq!(AccessToken::from_header(token.header().as_bytes()), Some(token));
    }
}

fn statistics(bytes: &[u8]) {
    if let Ok(statistics) = codec::decode::<Statistics>(bytes) {
        assert_eq!(codec::encode(&statistics), bytes, "statistics have one encoding");
        // Whatever the numbers, they can be looked at.
        let _ = statistics.is_consistent(&TrailTrap::ABOUT);
    }
}

fn told_ahead(bytes: &[u8]) {
    if let Ok(told) = codec::decode::<ToldAhead>(bytes) {
        assert_eq!(codec::encode(&told), bytes, "what is told ahead has one encoding");
    }
}

fn wanted(request: &wire::FetchRequest) {
    if let Ok(wanted) = messages::wanted(request) {
        let again = messages::request(request.worker, &wanted, &[]);
        assert_eq!(messages::wanted(&again), Ok(wanted));
    }
}

fn granted(grant: &wire::Grant) {
    assert_eq!(messages::units(grant).len(), grant.units.len());
}

fn described(description: wire::Description) {
    if let Ok(blocks) = messages::described(TrailTrap::LAYOUT, description) {
        let again = messages::description(blocks.clone());
        assert_eq!(messages::described(TrailTrap::LAYOUT, again), Ok(blocks));
    }
}

fn named(name: wire::BlockName) {
    if let Ok((name, shelves)) = messages::block_name(name) {
        let again = messages::name_message(&name, shelves);
        assert_eq!(messages::block_name(again), Ok((name, shelves)));
    }
}

fn placed(place: wire::ShelfPlace) {
    if let Some(read) = messages::shelf_place(place.clone()) {
        assert_eq!(messages::place_message(&read), place);
    }
}

fn checksums(joined: &[u8]) {
    if let Ok(checksums) = messages::checksums(joined) {
        assert_eq!(messages::joined(checksums), joined);
    }
}

/// A block of one piece.
fn assembled(piece: wire::BlockPiece) {
    let data = piece.data.clone();
    if let Ok(Some(block)) = Assembly::of(data.len() as u64).add(piece) {
        assert_eq!(block, data);
    }
}
