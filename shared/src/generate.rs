//! The generator: graphs with a given degree sequence, each class once, from the graphs of one
//! order less (McKay, *Isomorph-free exhaustive generation*, 1998).
//!
//! The canonical parent of H is H − v*, where v* has maximum degree and the largest canonical
//! label. A graph K of order n − 1 is extended by a new vertex joined to a set N, and the result H
//! is kept if the new vertex lies in the orbit of v*. Two such extensions of one K are isomorphic
//! exactly if an automorphism of K maps one N to the other, so repeats occur only within one K and
//! are found by equal keys. No other K gives the same class. Twins of K, which have the same
//! neighbours apart from each other, are exchanged by an automorphism: of these N has the first.
//!
//! Of a class of graphs that is closed under deleting edges and vertices the canonical parents
//! belong to it too, and an extension that leaves it by some of the new edges leaves it by all.

use crate::{
    class::Class,
    graph::{
        Graph, MAX_ORDER, NARROW_ORDER, VertexSet, are_twins,
        degree::{DegreeSequence, Parent},
        vertices,
    },
    labelling::{
        Alike, Colours, alike,
        batch::{Batch, Kernel, LANES},
        forest::Forest,
    },
    partition::slot_of_key,
};

/// An extension of a parent that is kept. It may be found several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extension {
    /// Of the graph.
    slot: u64,
    /// The parent it came from, as numbered by the caller.
    parent: u32,
    /// |Aut| of the graph.
    automorphisms: u64,
}

impl Extension {
    /// Whether both make the same graph.
    pub fn is_same(&self, other: &Extension) -> bool {
        self.slot == other.slot
    }
}

/// A generated graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// Its place in its partition, see [`slot_of_key`].
    pub slot: u64,
    /// |Aut|, at most 20!.
    pub automorphisms: u64,
}

/// The parent vertices `start .. start + length`, which have the same degree, and the number of
/// them that the new vertex is joined to.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    length: usize,
    joined: usize,
}

/// Extends parents to graphs of one degree sequence.
pub struct Extender {
    target: DegreeSequence,
    class: Class,
    /// The degree classes of the parents.
    runs: Vec<Run>,
    /// For each vertex of the parent the last twin before it, if it has one: joining the new vertex
    /// to that one instead gives the same graph.
    twins_before: [VertexSet; MAX_ORDER],
    /// The colours that the refinement starts from, of vertices that are not joined to the new one,
    /// and of those that are; that of the new one in both.
    colours: Colours,
    joined_colours: Colours,
    /// Which vertices of extensions may have equal colours.
    alike: Alike,
    batch: Box<Batch>,
    /// The parent of each extension in the batch, as numbered by the caller.
    waiting: [u32; LANES],
    /// Number of extensions in the batch.
    count: usize,
    /// Extensions whose colours did not decide their labels, with their parents.
    forest: Forest<u32>,
}

impl Extender {
    /// An extender to graphs of a class that have the degree sequence `target`, which is one that
    /// graphs of the class may have.
    pub fn new(class: Class, target: &DegreeSequence, kernel: Kernel) -> Self {
        Extender {
            target: *target,
            class,
            runs: Vec::new(),
            twins_before: [0; MAX_ORDER],
            colours: [0; MAX_ORDER],
            joined_colours: [0; MAX_ORDER],
            alike: [0; NARROW_ORDER],
            batch: Batch::new(target.order(), kernel),
            waiting: [0; LANES],
            count: 0,
            forest: Forest::with_orbits(Batch::new(target.order(), kernel)),
        }
    }

    /// Declares that the parents given to [`Extender::extend`] from now on have the degree
    /// sequence of `parent`, one of [`DegreeSequence::parents`] of the target.
    pub fn take_from(&mut self, parent: &Parent) {
        self.runs.clear();
        self.runs.extend(
            parent.sequence.classes().iter().zip(&parent.joined).map(|(class, &joined)| Run {
                start: class.start,
                length: class.count,
                joined,
            }),
        );
        let (new, ranks) = (self.target.order() - 1, self.target.ranks());
        let colour = |v: usize, joined: usize| match v < new {
            true => ranks[parent.sequence.degree(v) + joined],
            false => ranks[self.target.maximum()],
        };
        let of_all = |joined: usize| -> Colours {
            std::array::from_fn(|v| if v <= new { colour(v, joined) } else { 0 })
        };
        (self.colours, self.joined_colours) = (of_all(0), of_all(1));
        // Of a degree all may be joined, or none.
        let (mut lowest, mut highest) = (self.colours, self.joined_colours);
        for &Run { start, length, joined } in &self.runs {
            let run = start..start + length;
            if joined == length {
                lowest[run.clone()].copy_from_slice(&self.joined_colours[run]);
            } else if joined == 0 {
                highest[run.clone()].copy_from_slice(&self.colours[run]);
            }
        }
        self.alike = alike(&lowest[..=new], &highest[..=new]);
        if self.count > 0 {
            // Extensions of parents of several kinds are labelled together.
            self.batch.weaken_alike(&self.alike);
        }
    }

    /// Extends one parent of the class, whose vertices must be in increasing order of degree.
    /// Extensions are labelled many at a time, so extensions may be appended by a later call only,
    /// or by [`Extender::finish`]. The same child may come several times from one parent.
    pub fn extend(&mut self, number: u32, parent: &Graph, extensions: &mut Vec<Extension>) {
        debug_assert!((1..parent.order()).all(|v| parent.degree(v - 1) <= parent.degree(v)));
        for v in 0..parent.order() {
            let is_twin = |&u: &usize| are_twins(parent.rows(), u, v);
            self.twins_before[v] = (0..v).rev().find(is_twin).map_or(0, |u| 1 << u);
        }
        self.choose(0, 0, number, parent, extensions);
    }

    /// Chooses the new vertex's neighbours in the runs from `run` on, in all possible ways, but of
    /// twins always the first; those in earlier runs are `chosen`.
    fn choose(
        &mut self,
        run: usize,
        chosen: VertexSet,
        number: u32,
        parent: &Graph,
        extensions: &mut Vec<Extension>,
    ) {
        let Some(&Run { start, length, joined }) = self.runs.get(run) else {
            self.push(number, parent, chosen, extensions);
            return;
        };
        let mut subset: u32 = (1 << joined) - 1;
        while subset < 1 << length {
            let more = chosen | (subset << start) as VertexSet;
            if subset == 0 || self.has_first_twins(more) && self.class.admits(parent, more) {
                self.choose(run + 1, more, number, parent, extensions);
            }
            if subset == 0 {
                break;
            }
            // The next larger number with as many bits (Gosper).
            let lowest = subset & subset.wrapping_neg();
            let ripple = subset + lowest;
            subset = ripple | (((subset ^ ripple) >> 2) / lowest);
        }
    }

    /// Whether of twins, which have one degree, the first are chosen.
    #[inline(always)]
    fn has_first_twins(&self, chosen: VertexSet) -> bool {
        vertices(chosen).fold(0, |before, v| before | self.twins_before[v]) & !chosen == 0
    }

    fn push(
        &mut self,
        number: u32,
        parent: &Graph,
        chosen: VertexSet,
        extensions: &mut Vec<Extension>,
    ) {
        let new = parent.order();
        let lane = self.count;
        let (mut rows, mut colours) = (*parent.rows(), self.colours);
        for v in vertices(chosen) {
            rows[v] |= 1 << new;
            colours[v] = self.joined_colours[v];
        }
        rows[new] = chosen;
        if lane == 0 {
            self.batch.set_alike(&self.alike);
        }
        self.batch.set(lane, &rows, &colours);
        self.waiting[lane] = number;
        self.count += 1;
        if self.count == LANES {
            self.flush(extensions);
        }
    }

    /// Appends the extensions that are still outstanding of all parents so far.
    pub fn finish(&mut self, extensions: &mut Vec<Extension>) {
        self.flush(extensions);
        self.search(extensions);
    }

    fn flush(&mut self, extensions: &mut Vec<Extension>) {
        let n = self.target.order();
        let new = n - 1;
        let decided = self.batch.label(self.count);
        for lane in 0..self.count {
            if decided >> lane & 1 == 0 {
                let undecided = self.batch.undecided(lane);
                // No vertex of the orbit of v* has a smaller colour than another.
                if undecided.colours[..n].iter().all(|&colour| colour <= undecided.colours[new]) {
                    self.forest.push(undecided, self.waiting[lane]);
                }
            } else if self.batch.is_last(lane) {
                extensions.push(Extension {
                    slot: slot_of_key(n, self.batch.key(lane)),
                    parent: self.waiting[lane],
                    automorphisms: self.batch.automorphisms(lane),
                });
            }
        }
        self.count = 0;
        if self.forest.is_full() {
            self.search(extensions);
        }
    }

    fn search(&mut self, extensions: &mut Vec<Extension>) {
        let n = self.target.order();
        for &(parent, ref leaf) in self.forest.search() {
            if leaf.last_orbit >> (n - 1) & 1 == 1 {
                let slot = slot_of_key(n, leaf.key(n));
                extensions.push(Extension { slot, parent, automorphisms: leaf.automorphisms });
            }
        }
    }
}

/// The graph that these extensions make, all of the same slot, at least one.
///
/// # Errors
/// Its slot, if two different parents generate it. In the lists of a sound order no two parents have a
/// child in common, so a list of parents is corrupt.
pub fn settle(same: &[Extension]) -> Result<Child, u64> {
    let first @ Extension { slot, automorphisms, .. } = same[0];
    match same.iter().all(|&other| other == first) {
        true => Ok(Child { slot, automorphisms }),
        false => Err(slot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        graph::{factorial, nauty},
        labelling::hashed,
        partition::slot_of,
    };

    #[test]
    fn every_class_once() {
        let orders = nauty::enumerate(7);
        for n in 2..=7 {
            let mut total = 0;
            for target in DegreeSequence::all(n) {
                let mut extensions = Vec::new();
                let mut extender = Extender::new(Class::All, &target, Kernel::best());
                for parent in target.parents() {
                    extender.take_from(&parent);
                    for (number, graph) in orders[n - 2].iter().enumerate() {
                        if DegreeSequence::of(graph) == parent.sequence {
                            let by_degree = graph.relabelled(&hashed::label(graph).label);
                            extender.extend(number as u32, &by_degree, &mut extensions);
                        }
                    }
                }
                extender.finish(&mut extensions);
                extensions.sort_unstable();
                let children = extensions.chunk_by(Extension::is_same).map(settle);
                let children: Vec<Child> =
                    children.collect::<Result<_, _>>().expect("no class from two parents");
                let mut expected: Vec<(u64, u64)> = orders[n - 1]
                    .iter()
                    .filter(|graph| DegreeSequence::of(graph) == target)
                    .map(|graph| (slot_of(graph), nauty::label(graph).automorphisms))
                    .collect();
                expected.sort_unstable();
                assert_eq!(
                    children.iter().map(|c| (c.slot, c.automorphisms)).collect::<Vec<_>>(),
                    expected
                );
                total += children.iter().map(|c| factorial(n) / c.automorphisms).sum::<u64>();
            }
            assert_eq!(total, 1 << (n * (n - 1) / 2));
        }
    }
}
