//! The generator: graphs with a given degree sequence, each class once, from the graphs of one
//! order less (McKay, *Isomorph-free exhaustive generation*, 1998).
//!
//! The canonical parent of H is H − v*, where v* has maximum degree and the largest canonical
//! label. A graph K of order n − 1 is extended by a new vertex joined to a set N, and the result H
//! is kept if the new vertex lies in the orbit of v*. Two such extensions of one K are isomorphic
//! exactly if an automorphism of K maps one N to the other, so repeats occur only within one K and
//! are found by equal keys. No other K gives the same class.

use crate::{
    graph::{
        Graph, VertexSet,
        degree::{DegreeSequence, Parent},
    },
    labelling::{
        batch::{Batch, Kernel, LANES},
        forest::Forest,
    },
    partition::slot_of_key,
};

/// A generated graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Child {
    /// Its place in its partition, see [`slot_of_key`].
    pub slot: u64,
    /// The parent it came from, as numbered by the caller.
    pub parent: u32,
    /// |Aut|, at most 12!.
    pub automorphisms: u32,
}

/// Extends parents to graphs of one degree sequence.
pub struct Extender {
    target: DegreeSequence,
    /// Runs of parent vertices of one degree (first, how many), and how many of them the new
    /// vertex is joined to.
    runs: Vec<(usize, usize, usize)>,
    /// Colour to start from, by degree in the extension.
    ranks: [u16; 16],
    /// No other vertex can have the new one's degree.
    unique_maximum: bool,
    batch: Box<Batch>,
    /// The parents of the extensions in the batch.
    waiting: [u32; LANES],
    count: usize,
    /// Extensions whose colours did not decide their labels, with their parents.
    forest: Forest<u32>,
}

impl Extender {
    /// An extender to graphs of degree sequence `target`.
    pub fn new(target: &DegreeSequence, kernel: Kernel) -> Self {
        let maxima = target.bytes().iter().filter(|&&d| d as usize == target.maximum()).count();
        Extender {
            target: *target,
            runs: Vec::new(),
            ranks: target.ranks(),
            unique_maximum: maxima == 1,
            batch: Batch::new(target.order(), kernel),
            waiting: [0; LANES],
            count: 0,
            forest: Forest::new(Batch::new(target.order(), kernel)),
        }
    }

    /// The parents that follow are of this kind, one of `target.parents()`.
    pub fn take_from(&mut self, parent: &Parent) {
        self.runs.clear();
        self.runs.extend(
            parent
                .sequence
                .classes()
                .iter()
                .zip(&parent.joined)
                .map(|(c, &k)| (c.start, c.count, k)),
        );
    }

    /// Extends one parent, which must be labelled by degree. Children may come out with a later
    /// call or with [`Extender::finish`].
    pub fn extend(&mut self, number: u32, parent: &Graph, children: &mut Vec<Child>) {
        debug_assert!((1..parent.order()).all(|v| parent.degree(v - 1) <= parent.degree(v)));
        self.choose(0, 0, number, parent, children);
    }

    /// Chooses the neighbours among the runs from `run` on.
    fn choose(
        &mut self,
        run: usize,
        chosen: VertexSet,
        number: u32,
        parent: &Graph,
        children: &mut Vec<Child>,
    ) {
        let Some(&(start, length, size)) = self.runs.get(run) else {
            self.push(number, parent, chosen, children);
            return;
        };
        let mut subset: u32 = (1 << size) - 1;
        while subset < 1 << length {
            self.choose(
                run + 1,
                chosen | (subset << start) as VertexSet,
                number,
                parent,
                children,
            );
            if subset == 0 {
                break;
            }
            // The next larger number with as many bits (Gosper).
            let lowest = subset & subset.wrapping_neg();
            let ripple = subset + lowest;
            subset = ripple | (((subset ^ ripple) >> 2) / lowest);
        }
    }

    fn push(&mut self, number: u32, parent: &Graph, chosen: VertexSet, children: &mut Vec<Child>) {
        let new = parent.order();
        let lane = self.count;
        for v in 0..new {
            let joined = chosen >> v & 1;
            let degree = parent.degree(v) + joined as usize;
            self.batch.set(lane, v, parent.neighbours(v) | joined << new, self.ranks[degree]);
        }
        self.batch.set(lane, new, chosen, self.ranks[self.target.maximum()]);
        self.waiting[lane] = number;
        self.count += 1;
        if self.count == LANES {
            self.flush(children);
        }
    }

    /// Delivers the children of all parents so far.
    pub fn finish(&mut self, children: &mut Vec<Child>) {
        self.flush(children);
        self.search(children);
    }

    fn flush(&mut self, children: &mut Vec<Child>) {
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
            } else if self.unique_maximum || self.batch.last_orbit(lane) >> new & 1 == 1 {
                children.push(Child {
                    slot: slot_of_key(n, self.batch.key(lane)),
                    parent: self.waiting[lane],
                    automorphisms: self.batch.automorphisms(lane) as u32,
                });
            }
        }
        self.count = 0;
        if self.forest.is_full() {
            self.search(children);
        }
    }

    fn search(&mut self, children: &mut Vec<Child>) {
        let n = self.target.order();
        for &(parent, ref leaf) in self.forest.search() {
            if leaf.last_orbit >> (n - 1) & 1 == 1 {
                let slot = slot_of_key(n, leaf.key(n));
                children.push(Child { slot, parent, automorphisms: leaf.automorphisms as u32 });
            }
        }
    }
}

/// Sorts children by slot and removes the repeats within each parent. `Err` names a slot that two
/// parents claim, which only a corrupt parent list can cause.
pub fn settle(children: &mut Vec<Child>) -> Result<(), u64> {
    children.sort_unstable();
    children.dedup();
    match children.windows(2).find(|pair| pair[0].slot == pair[1].slot) {
        Some(pair) => Err(pair[0].slot),
        None => Ok(()),
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
                let mut children = Vec::new();
                let mut extender = Extender::new(&target, Kernel::best());
                for parent in target.parents() {
                    extender.take_from(&parent);
                    for (number, graph) in orders[n - 2].iter().enumerate() {
                        if DegreeSequence::of(graph) == parent.sequence {
                            let by_degree = graph.relabelled(&hashed::label(graph).label);
                            extender.extend(number as u32, &by_degree, &mut children);
                        }
                    }
                }
                extender.finish(&mut children);
                settle(&mut children).expect("no class from two parents");
                let mut expected: Vec<(u64, u32)> = orders[n - 1]
                    .iter()
                    .filter(|graph| DegreeSequence::of(graph) == target)
                    .map(|graph| (slot_of(graph), nauty::label(graph).automorphisms as u32))
                    .collect();
                expected.sort_unstable();
                assert_eq!(
                    children.iter().map(|c| (c.slot, c.automorphisms)).collect::<Vec<_>>(),
                    expected
                );
                total += children
                    .iter()
                    .map(|c| factorial(n) / u64::from(c.automorphisms))
                    .sum::<u64>();
            }
            assert_eq!(total, 1 << (n * (n - 1) / 2));
        }
    }
}
