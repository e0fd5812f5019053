//! The first half of the route: from the parents of a part of a shard to its graphs.

use std::sync::Arc;

use rayon::prelude::*;
use trailtrap_shared::{
    class::Class,
    generate::{Child, Extender, Extension, settle},
    graph::degree::Parent,
    partition::slot_of_key,
    plan::{Shard, parent_range},
};

use super::{CHUNK, SolveError, Solver, Source, decode};

/// The kinds of parents of a shard, each with the slots of all of its kind.
type Parents = Vec<(Parent, Arc<Vec<u64>>)>;

/// Parents are extended in chunks of this many.
const PARENT_CHUNK: usize = 256;

impl Solver<'_> {
    /// The slots of the parents of a shard, of each kind.
    pub(super) fn parents(shard: &Shard, source: &dyn Source) -> Result<Parents, SolveError> {
        let kinds = shard.sequence.parents().into_iter();
        kinds
            .map(|kind| {
                let slots = source.parents(&kind.sequence)?;
                Ok((kind, slots))
            })
            .collect()
    }

    /// The graphs of a class in a part of a shard with these parents, in the order of their slots.
    pub(super) fn generate(
        &self,
        class: Class,
        shard: &Shard,
        part: u32,
        parents: &Parents,
    ) -> Result<Vec<Child>, SolveError> {
        let target = shard.sequence;
        if target.order() == 1 {
            // It has no parent that would say to which part it belongs.
            let all = vec![Child { slot: slot_of_key(1, 0), automorphisms: 1 }];
            return Ok(if part == 0 { all } else { Vec::new() });
        }
        let mut lists = Vec::with_capacity(parents.len());
        let mut before = 0u32;
        for (kind, slots) in parents {
            let range = parent_range(slots.len(), part, shard.parts);
            lists.push((kind, before, slots, range));
            before += slots.len() as u32;
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
                    let (kind, before, slots, _) = &lists[list];
                    extender.take_from(kind);
                    for i in range {
                        let parent = decode(&kind.sequence, slots[i])?;
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
        if extensions.len() > CHUNK {
            extensions.par_sort_unstable();
        }
        settle(extensions).map_err(|slot| SolveError::Duplicate { sequence: target, slot })
    }
}
