//! Between what workers and coordinators mean and the messages that say it. Each conversion stands here once, for gRPC and for
//! files.

use trailtrap_shared::{
    codec,
    degree::DegreeSequence,
    game::TrailTrap,
    plan::{Plan, Unit},
    wire::{self, PIECE_BYTES, fetch_request::What},
};

use crate::{cache::Wanted, engine::Lease, solve::Solved};

/// A message that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("not a degree sequence")]
    Degrees,
    #[error("neither parents nor a bucket")]
    What,
}

/// The request of a worker for something it wants.
pub fn request(worker: u64, wanted: &Wanted) -> wire::FetchRequest {
    let what = match wanted {
        Wanted::Parents(_) => What::Parents(true),
        Wanted::Bucket(_, bucket) => What::Bucket(*bucket),
    };
    wire::FetchRequest { worker, degrees: wanted.sequence().bytes().to_vec(), what: Some(what) }
}

/// What a request is for.
pub fn wanted(request: &wire::FetchRequest) -> Result<Wanted, MessageError> {
    let sequence = DegreeSequence::from_bytes(&request.degrees).ok_or(MessageError::Degrees)?;
    match request.what {
        Some(What::Parents(_)) => Ok(Wanted::Parents(sequence)),
        Some(What::Bucket(bucket)) => Ok(Wanted::Bucket(sequence, bucket)),
        None => Err(MessageError::What),
    }
}

/// A lease of units of a plan.
pub fn grant(lease: u64, plan: &Plan, units: &[Unit]) -> wire::Grant {
    wire::Grant {
        lease,
        order: plan.order as u32,
        part_graphs: plan.options.part_graphs,
        bucket_bytes: plan.options.bucket_bytes,
        plan_fingerprint: plan.fingerprint,
        units: units.iter().map(unit_id).collect(),
    }
}

/// The units of a lease.
pub fn units(grant: &wire::Grant) -> Vec<Unit> {
    let unit = |id: &wire::UnitId| Unit { order: grant.order as u8, shard: id.shard, part: id.part };
    grant.units.iter().map(unit).collect()
}

fn unit_id(unit: &Unit) -> wire::UnitId {
    wire::UnitId { shard: unit.shard, part: unit.part }
}

/// A block, cut into pieces that fit a message.
pub fn pieces(block: &[u8]) -> impl Iterator<Item = wire::BlockPiece> {
    let mut chunks = block.chunks(PIECE_BYTES).peekable();
    std::iter::from_fn(move || {
        let data = chunks.next()?.to_vec();
        Some(wire::BlockPiece { data, last: chunks.peek().is_none(), done: false })
    })
}

/// The messages that deliver the results of a lease.
pub fn delivery(lease: &Lease, results: &[Solved]) -> Vec<wire::CompleteRequest> {
    use wire::complete_request::Part;
    let mut parts = vec![Part::Start(wire::CompleteStart { worker: lease.worker, lease: lease.number })];
    for solved in results {
        parts.push(Part::Unit(wire::UnitResult {
            unit: Some(unit_id(&solved.unit)),
            statistics: codec::encode(&solved.statistics),
            digest: solved.digest.to_le_bytes().to_vec(),
            elapsed_microseconds: solved.elapsed.as_micros() as u64,
        }));
        for block in solved.tables.iter().flat_map(|table| table.to_blocks::<TrailTrap>(solved.unit.part)) {
            parts.extend(pieces(block.bytes()).map(Part::Piece));
        }
    }
    parts.into_iter().map(|part| wire::CompleteRequest { part: Some(part) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood() {
        let sequence = DegreeSequence::new([1, 2, 2, 1]);
        for wish in [Wanted::Parents(sequence), Wanted::Bucket(sequence, 0), Wanted::Bucket(sequence, 7)] {
            assert_eq!(wanted(&request(3, &wish)), Ok(wish));
        }
        let good = request(3, &Wanted::Parents(sequence));
        assert_eq!(wanted(&wire::FetchRequest { degrees: vec![2, 1], ..good.clone() }), Err(MessageError::Degrees));
        assert_eq!(wanted(&wire::FetchRequest { what: None, ..good }), Err(MessageError::What));
    }

    #[test]
    fn pieces_make_the_block_again() {
        for length in [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let block: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let pieces: Vec<wire::BlockPiece> = pieces(&block).collect();
            assert_eq!(pieces.iter().flat_map(|piece| piece.data.clone()).collect::<Vec<u8>>(), block);
            let lasts: Vec<bool> = pieces.iter().map(|piece| piece.last).collect();
            assert_eq!(lasts.iter().position(|&last| last), Some(lasts.len() - 1), "{length}");
        }
    }
}
