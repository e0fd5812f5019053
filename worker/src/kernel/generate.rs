//! The first half of the route: from the parents of a part of a shard to its graphs.

use std::{ops::RangeInclusive, sync::Arc};

use rayon::prelude::*;
use trailtrap_shared::{
    class::Class,
    generate::{Child, Extender, Extension, settle},
    graph::degree::Parent,
    partition::slot_of_key,
    plan::{Shard, parent_range},
};

use super::{CHUNK, SolveError, Solver, Source, decode};

/// The parents of some parts of a shard that are of one kind.
pub(super) struct Parents {
    kind: Parent,
    /// How many parents of this kind there are for all parts.
    count: usize,
    /// The slots of these, in order.
    slots: Arc<Vec<u64>>,
    /// The index of the first of these among all.
    first: usize,
}

/// Parents are extended in chunks of this many.
const PARENT_CHUNK: usize = 256;

impl Solver<'_> {
    /// The parents of parts of a shard, by kind. Of a shard in several parts, of whose parents there
    /// may be tens of millions, those of other parts are let go at once.
    pub(super) fn parents(
        shard: &Shard,
        parts: RangeInclusive<u32>,
        source: &dyn Source,
    ) -> Result<Vec<Parents>, SolveError> {
        let kinds = shard.sequence.parents().into_iter();
        kinds
            .map(|kind| {
                let all = source.parents(&kind.sequence)?;
                let count = all.len();
                let bound = |part: u32| parent_range(count, part, shard.parts);
                let range = bound(*parts.start()).start..bound(*parts.end()).end;
                let (slots, first) = match range.len() == count {
                    true => (all, 0),
                    false => (Arc::new(all[range.clone()].to_vec()), range.start),
                };
                Ok(Parents { kind, count, slots, first })
            })
            .collect()
    }

    /// The graphs of a class in a part of a shard with these parents, in the order of their slots.
    pub(super) fn generate(
        &self,
        class: Class,
        shard: &Shard,
        part: u32,
        parents: &[Parents],
    ) -> Result<Vec<Child>, SolveError> {
        let target = shard.sequence;
        if target.order() == 1 {
            // It has no parent that would say to which part it belongs.
            let all = vec![Child { slot: slot_of_key(1, 0), automorphisms: 1 }];
            return Ok(if part == 0 { all } else { Vec::new() });
        }
        let mut lists = Vec::with_capacity(parents.len());
        let mut before = 0u32;
        for list in parents {
            let range = parent_range(list.count, part, shard.parts);
            lists.push((list, before, range));
            before += list.count as u32;
        }
        // Neighbouring lists are taken together until a chunk is full, long ones are cut.
        let mut chunks: Vec<Vec<(usize, std::ops::Range<usize>)>> = vec![Vec::new()];
        let mut room = PARENT_CHUNK;
        for (list, (.., range)) in lists.iter().enumerate() {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + room);
                chunks.last_mut().expect("never empty").push((list, start..end));
                room -= end - start;
                start = end;
                if room == 0 {
                    chunks.push(Vec::new());
                    room = PARENT_CHUNK;
                }
            }
        }
        let extended: Vec<Vec<Extension>> = chunks
            .into_par_iter()
            .map(|chunk| {
                self.check_stop()?;
                let mut extensions = Vec::new();
                let mut extender = Extender::new(class, &target, self.kernel);
                for (list, range) in chunk {
                    let (Parents { kind, slots, first, .. }, before, _) = lists[list];
                    extender.take_from(kind);
                    for i in range {
                        let parent = decode(&kind.sequence, slots[i - first])?;
                        extender.extend(before + i as u32, &parent, &mut extensions);
                    }
                }
                extender.finish(&mut extensions);
                // Repeats within a parent go at once, before they take memory.
                extensions.sort_unstable();
                extensions.dedup();
                Ok(extensions)
            })
            .collect::<Result<_, SolveError>>()?;
        let mut extensions = extended.concat();
        drop(extended);
        let children: Result<Vec<Child>, u64> = match extensions.len() > CHUNK {
            true => {
                extensions.par_sort_unstable();
                extensions.par_chunk_by(Extension::is_same).map(settle).collect()
            }
            false => {
                extensions.sort_unstable();
                extensions.chunk_by(Extension::is_same).map(settle).collect()
            }
        };
        children.map_err(|slot| SolveError::Duplicate { sequence: target, slot })
    }
}
