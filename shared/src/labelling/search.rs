//! Individualization and refinement: the search tree of a canonical labelling, for any refinement.

use super::{Colours, Labelling, are_twins, degree_colours, key_under};
use crate::graph::{AdjacencyRows, MAX_ORDER, VertexSet, all_vertices, factorial, vertices};

/// Labels a graph of order `n` ≥ 1. `refine` must split colour classes in a way that depends on
/// nothing but the isomorphism class of the coloured graph, and number the parts so that a colour
/// stays the count of smaller ones.
///
/// There is no pruning by automorphisms, so the time grows with |Aut| divided by the symmetry of
/// twins: 384 leaves for the 4-cube, 40 320 for 8 K_2, the worst of order 16.
pub(super) fn label(
    n: usize,
    rows: &AdjacencyRows,
    refine: &impl Fn(usize, &AdjacencyRows, &mut Colours),
) -> Labelling {
    let mut search = LeafSearch { n, rows, refine, best: None };
    search.visit(degree_colours(n, rows), 1);
    let mut labelling = search.best.expect("the search tree has a leaf");
    // Leaves under the twins of an individualized vertex were not visited; they end in its twins.
    for v in vertices(labelling.last_orbit) {
        labelling.last_orbit |= twins_in(rows, v, all_vertices(n));
    }
    labelling
}

/// The least vertex of each orbit under Aut H. Vertices that refinement tells apart, and twins,
/// are decided at once; others by the keys that H has when they are individualized.
pub(super) fn first_of_orbits(
    n: usize,
    rows: &AdjacencyRows,
    refine: &impl Fn(usize, &AdjacencyRows, &mut Colours),
) -> VertexSet {
    let mut colours = degree_colours(n, rows);
    refine(n, rows, &mut colours);
    let mut firsts = 0;
    for class in classes_by_colour(n, &colours) {
        let mut keys = [0; MAX_ORDER];
        let mut met = 0;
        let mut left = class;
        while left != 0 {
            let v = left.trailing_zeros() as usize;
            let twins = twins_in(rows, v, left);
            let is_alone = twins == class;
            left &= !twins;
            let mut child = colours;
            for w in vertices(class & !(1 << v)) {
                child[w] += 1;
            }
            let mut search = LeafSearch { n, rows, refine, best: None };
            if !is_alone {
                search.visit(child, 1);
            }
            let key = search.best.map_or(0, |labelling| labelling.key);
            if !keys[..met].contains(&key) {
                firsts |= 1 << v;
                keys[met] = key;
                met += 1;
            }
        }
    }
    firsts
}

struct LeafSearch<'a, R> {
    n: usize,
    rows: &'a AdjacencyRows,
    refine: &'a R,
    best: Option<Labelling>,
}

impl<R: Fn(usize, &AdjacencyRows, &mut Colours)> LeafSearch<'_, R> {
    /// Visits the node with these colours, which stands for `multiplicity` equivalent ones.
    fn visit(&mut self, mut colours: Colours, multiplicity: u64) {
        (self.refine)(self.n, self.rows, &mut colours);
        let Some(target) = target(self.n, self.rows, &colours) else {
            self.leaf(&colours, multiplicity);
            return;
        };
        let mut left = target;
        while left != 0 {
            let v = left.trailing_zeros() as usize;
            let twins = twins_in(self.rows, v, left);
            left &= !twins;
            let mut child = colours;
            for w in vertices(target & !(1 << v)) {
                child[w] += 1;
            }
            self.visit(child, multiplicity * u64::from(twins.count_ones()));
        }
    }

    /// Every class is a set of mutual twins: any order inside a class gives the same key.
    fn leaf(&mut self, colours: &Colours, multiplicity: u64) {
        let mut label = [0; MAX_ORDER];
        let mut automorphisms = multiplicity;
        let mut last = 0;
        let classes = classes_by_colour(self.n, colours);
        for (colour, &class) in classes.iter().enumerate().filter(|(_, class)| **class != 0) {
            for (offset, v) in vertices(class).enumerate() {
                label[v] = (colour + offset) as u8;
            }
            automorphisms *= factorial(class.count_ones() as usize);
            last = class;
        }
        let key = key_under(self.n, self.rows, &label);
        match &mut self.best {
            Some(best) if key < best.key => {}
            Some(best) if key == best.key => {
                best.automorphisms += automorphisms;
                best.last_orbit |= last;
            }
            _ => self.best = Some(Labelling { label, key, automorphisms, last_orbit: last }),
        }
    }
}

/// The class whose vertices are to be individualized: of the smallest classes that are more than a
/// set of mutual twins, the one of least colour. `None` at a leaf.
pub(super) fn target(n: usize, rows: &AdjacencyRows, colours: &Colours) -> Option<VertexSet> {
    let mut target = None;
    let mut smallest = u32::MAX;
    for class in classes_by_colour(n, colours) {
        let size = class.count_ones();
        if size > 1 && size < smallest && !are_mutual_twins(rows, class) {
            (target, smallest) = (Some(class), size);
        }
    }
    target
}

/// Whether the vertices of a class are twins of each other. Being twins is transitive.
fn are_mutual_twins(rows: &AdjacencyRows, class: VertexSet) -> bool {
    let first = class.trailing_zeros() as usize;
    vertices(class & (class - 1)).all(|w| are_twins(rows, first, w))
}

/// `v` and its twins among `class`.
pub(super) fn twins_in(rows: &AdjacencyRows, v: usize, class: VertexSet) -> VertexSet {
    vertices(class).filter(|&w| w == v || are_twins(rows, v, w)).fold(0, |set, w| set | 1 << w)
}

fn classes_by_colour(n: usize, colours: &Colours) -> [VertexSet; MAX_ORDER] {
    let mut classes = [0; MAX_ORDER];
    for v in 0..n {
        classes[colours[v] as usize] |= 1 << v;
    }
    classes
}
