//! Individualization and refinement: the search tree of a canonical labelling, for any refinement.

use super::{Colours, Labelling, degree_colours, key_under};
use crate::graph::{
    AdjacencyRows, Code, MAX_ORDER, VertexSet, all_vertices, are_twins, component, factorial,
    has_two, vertices,
};

/// Labels a graph of order `n` ≥ 1. `refine` must split colour classes in a way that depends on
/// nothing but the isomorphism class of the coloured graph, and number the parts so that a colour
/// stays the count of smaller ones.
///
/// There is no pruning by automorphisms, so the time grows with |Aut| divided by the symmetry of
/// twins: 384 leaves for the 4-cube, 3 628 800 for the complement of 10 K_2, 7 257 600 for
/// K_{10,10} without a perfect matching. Forests are labelled along one path.
pub(super) fn label(
    n: usize,
    rows: &AdjacencyRows,
    refine: &impl Fn(usize, &AdjacencyRows, &mut Colours),
) -> Labelling {
    label_from(n, rows, degree_colours(n, rows), refine)
}

/// The same with the colours that refinement starts from: the number of vertices of smaller degree,
/// or what refinement has made of that.
pub(super) fn label_from(
    n: usize,
    rows: &AdjacencyRows,
    colours: Colours,
    refine: &impl Fn(usize, &AdjacencyRows, &mut Colours),
) -> Labelling {
    if let Some(labelling) = label_forest(n, rows, colours, refine) {
        return labelling;
    }
    let mut search = LeafSearch { n, rows, refine, best: None };
    search.visit(colours, 1);
    let mut labelling = search.best.expect("the search tree has a leaf");
    // Leaves under the twins of an individualized vertex were not visited; they end in its twins.
    for v in vertices(labelling.last_orbit) {
        labelling.last_orbit |= twins_in(rows, v, all_vertices(n));
    }
    labelling
}

/// The labelling of a forest, on one path of the search tree. In a forest automorphisms exchange all
/// vertices that refinement does not tell apart, whatever else is individualized, if the colours
/// are really stable: equal colours have equal numbers of neighbours of each colour. So all leaves
/// are alike. `None` of other graphs, and where a hash has kept together what is not alike.
fn label_forest(
    n: usize,
    rows: &AdjacencyRows,
    mut colours: Colours,
    refine: &impl Fn(usize, &AdjacencyRows, &mut Colours),
) -> Option<Labelling> {
    if !is_forest(n, rows) {
        return None;
    }
    refine(n, rows, &mut colours);
    let orbits = colours;
    let mut multiplicity = 1;
    while is_equitable(n, rows, &colours) {
        let Some(target) = target(n, rows, &colours) else {
            let labelling = leaf(n, rows, &colours, multiplicity);
            let last = labelling.last_orbit.trailing_zeros() as usize;
            let exchanged = (0..n).filter(|&v| orbits[v] == orbits[last]);
            let last_orbit = exchanged.fold(0, |set, v| set | 1 << v);
            return Some(Labelling { last_orbit, ..labelling });
        };
        multiplicity *= u64::from(target.count_ones());
        for w in vertices(target & (target - 1)) {
            colours[w] += 1;
        }
        refine(n, rows, &mut colours);
    }
    None
}

/// Whether there are as many edges as there are vertices more than components.
fn is_forest(n: usize, rows: &AdjacencyRows) -> bool {
    let edges = rows.iter().map(|row| row.count_ones() as usize).sum::<usize>() / 2;
    if edges >= n.max(1) {
        return false;
    }
    let (mut left, mut components) = (all_vertices(n), 0);
    while left != 0 {
        left &= !component(rows, left.trailing_zeros() as usize);
        components += 1;
    }
    edges + components == n
}

/// Whether all vertices of one colour have as many neighbours of each colour.
fn is_equitable(n: usize, rows: &AdjacencyRows, colours: &Colours) -> bool {
    let classes = classes_by_colour(n, colours);
    classes.iter().filter(|&&class| has_two(class)).all(|&class| {
        let first = class.trailing_zeros() as usize;
        vertices(class & (class - 1)).all(|v| {
            let alike = |other: &VertexSet| {
                (rows[v] & other).count_ones() == (rows[first] & other).count_ones()
            };
            classes.iter().all(alike)
        })
    })
}

/// The least vertex of each orbit under Aut H. Vertices that refinement tells apart, twins,
/// and those of forests, are decided at once; others by the keys that H has when they are
/// individualized.
pub(super) fn first_of_orbits(
    n: usize,
    rows: &AdjacencyRows,
    refine: &impl Fn(usize, &AdjacencyRows, &mut Colours),
) -> VertexSet {
    let mut colours = degree_colours(n, rows);
    refine(n, rows, &mut colours);
    if is_forest(n, rows) && is_equitable(n, rows, &colours) {
        // See [`label_forest`].
        let classes = classes_by_colour(n, &colours);
        return classes.iter().fold(0, |firsts, class| firsts | class & class.wrapping_neg());
    }
    let mut firsts = 0;
    for class in classes_by_colour(n, &colours) {
        let mut keys = [Code::default(); MAX_ORDER];
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
            let key = search.best.map_or(Code::default(), |labelling| labelling.key);
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

    fn leaf(&mut self, colours: &Colours, multiplicity: u64) {
        let leaf = leaf(self.n, self.rows, colours, multiplicity);
        match &mut self.best {
            Some(best) if leaf.key < best.key => {}
            Some(best) if leaf.key == best.key => {
                best.automorphisms += leaf.automorphisms;
                best.last_orbit |= leaf.last_orbit;
            }
            _ => self.best = Some(leaf),
        }
    }
}

/// A leaf that stands for `multiplicity` equivalent ones. Every class is a set of mutual twins: any
/// order inside a class gives the same key, and the last vertex may be any of the last class.
fn leaf(n: usize, rows: &AdjacencyRows, colours: &Colours, multiplicity: u64) -> Labelling {
    let mut label = [0; MAX_ORDER];
    let mut automorphisms = multiplicity;
    let mut last_orbit = 0;
    let classes = classes_by_colour(n, colours);
    for (colour, &class) in classes.iter().enumerate().filter(|(_, class)| **class != 0) {
        for (offset, v) in vertices(class).enumerate() {
            label[v] = (colour + offset) as u8;
        }
        automorphisms *= factorial(class.count_ones() as usize);
        last_orbit = class;
    }
    Labelling { label, key: key_under(n, rows, &label), automorphisms, last_orbit }
}

/// The class whose vertices are to be individualized: of the smallest classes that are more than a
/// set of mutual twins, the one of least colour. `None` at a leaf.
pub(super) fn target(n: usize, rows: &AdjacencyRows, colours: &Colours) -> Option<VertexSet> {
    let mut target = None;
    let mut smallest = u32::MAX;
    // Most vertices are alone.
    for &class in classes_by_colour(n, colours)[..n].iter().filter(|&&class| has_two(class)) {
        let size = class.count_ones();
        if size < smallest && !are_mutual_twins(rows, class) {
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
