//! The parent graphs of the first orders, which the coordinator enumerates itself with nauty, and
//! picks from by definition if it is about a class of graphs. From order 8 on, parents are the
//! graphs of the finished order below, which has been generated, checked, and stored by then.

use std::collections::HashMap;

use trailtrap_shared::{
    game::Layout,
    graph::{degree::DegreeSequence, nauty},
    partition::{Block, BucketTable, slot_of},
};

/// Orders up to this one are enumerated with nauty.
pub const ENUMERATED_ORDER: usize = 6;

/// The graphs of the first orders, by degree sequence.
pub struct Parents {
    layout: Layout,
    slots: HashMap<DegreeSequence, Vec<u64>>,
}

impl Parents {
    /// Enumerates them for the census of a game; takes a fraction of a second.
    pub fn enumerate(layout: Layout) -> Self {
        let mut slots: HashMap<DegreeSequence, Vec<u64>> = HashMap::new();
        for graph in nauty::enumerate(ENUMERATED_ORDER).iter().flatten() {
            // A sequence that no graph of the class has keeps an empty list.
            let list = slots.entry(DegreeSequence::of(graph)).or_default();
            list.extend(layout.class.contains_by_definition(graph).then(|| slot_of(graph)));
        }
        slots.values_mut().for_each(|list| list.sort_unstable());
        Parents { layout, slots }
    }

    /// The keys block of a partition of a small order; `None` for larger orders.
    pub fn block(&self, sequence: &DegreeSequence) -> Option<Block> {
        let slots = self.slots.get(sequence)?;
        let table =
            BucketTable::new(self.layout, *sequence, 0, 0, slots.iter().copied(), |_, record| {
                record.fill(0)
            });
        Some(table.to_blocks(0).keys)
    }

    /// Whether nauty found all these graphs too; true for larger orders. That none is missing
    /// follows from the mass formula.
    pub fn know(
        &self,
        sequence: &DegreeSequence,
        mut generated: impl Iterator<Item = u64>,
    ) -> bool {
        sequence.order() > ENUMERATED_ORDER
            || self
                .slots
                .get(sequence)
                .is_some_and(|slots| generated.all(|slot| slots.binary_search(&slot).is_ok()))
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{
        class::Class,
        game::{Game, TrailTrap},
    };

    use super::*;

    #[test]
    fn all_graphs_are_enumerated() {
        let parents = Parents::enumerate(TrailTrap::LAYOUT);
        let of_order = |n: usize| {
            parents.slots.iter().filter(|(s, _)| s.order() == n).map(|(_, list)| list.len()).sum()
        };
        assert_eq!((1..=6).map(of_order).collect::<Vec<usize>>(), [1, 2, 4, 11, 34, 156]);
    }

    #[test]
    fn those_of_a_class_are_picked() {
        let parents = Parents::enumerate(TrailTrap::LAYOUT.on(Class::Bipartite));
        assert_eq!(parents.slots.values().map(Vec::len).sum::<usize>(), 1 + 2 + 3 + 7 + 13 + 35);
        let triangle = DegreeSequence::new([2, 2, 2]);
        assert_eq!(parents.block(&triangle).unwrap().count, 0);
        assert!(!parents.know(&triangle, [0].into_iter()));
    }

    #[test]
    fn only_graphs_are_known() {
        let parents = Parents::enumerate(TrailTrap::LAYOUT);
        let cubic = DegreeSequence::new([3, 3, 3, 3, 3, 3]);
        let slots = parents.slots[&cubic].clone();
        assert_eq!(slots.len(), 2);
        assert!(parents.know(&cubic, slots.iter().copied()));
        assert!(!parents.know(&cubic, [slots[0] ^ 1].into_iter()));
    }
}
