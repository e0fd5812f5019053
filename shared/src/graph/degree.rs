//! Degree sequences: which ones graphs have (Erdős–Gallai), how deleting an edge or a vertex
//! changes them, and how many labelled graphs share one. A shard of the census is a degree
//! sequence.

use std::{collections::HashMap, fmt};

use crate::graph::{Graph, MAX_ORDER, factorial, pairs};

/// The degrees of a graph in increasing order, vertex by vertex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DegreeSequence {
    order: u8,
    /// Increasing; entries from the order on are zero.
    degrees: [u8; MAX_ORDER],
}

/// A run of equal degrees in a sequence: the vertices `start .. start + count` all have this
/// degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DegreeClass {
    /// The degree of these vertices.
    pub degree: usize,
    /// The first of these vertices, when vertices are sorted by degree.
    pub start: usize,
    /// Number of vertices of this degree, at least one.
    pub count: usize,
}

/// One way to reach a degree sequence d by adding a vertex of maximum degree to a graph of order n
/// − 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The degree sequence of the smaller graph.
    pub sequence: DegreeSequence,
    /// For each degree class of the parent, how many of its vertices the new vertex is joined to.
    pub joined: Vec<usize>,
}

/// One way to lose an edge: its ends have degrees `low` ≤ `high`, and the graph without it has
/// `sequence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The smaller degree of the two ends, before the edge is deleted.
    pub low: usize,
    /// The larger degree of the two ends, before the edge is deleted.
    pub high: usize,
    /// The degree sequence after the deletion.
    pub sequence: DegreeSequence,
}

impl DegreeSequence {
    /// Sorts the given degrees (at most 20 of them, each below 20).
    pub fn new(degrees: impl IntoIterator<Item = usize>) -> Self {
        let mut sequence = DegreeSequence { order: 0, degrees: [0; MAX_ORDER] };
        for degree in degrees {
            sequence.degrees[sequence.order as usize] = degree as u8;
            sequence.order += 1;
        }
        sequence.degrees[..sequence.order as usize].sort_unstable();
        sequence
    }

    /// The degree sequence of a graph.
    pub fn of(graph: &Graph) -> Self {
        Self::new((0..graph.order()).map(|v| graph.degree(v)))
    }

    /// Reads back [`DegreeSequence::bytes`]; `None` unless the bytes are 1 to 20 increasing
    /// degrees of some graph.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let fits = (1..=MAX_ORDER).contains(&bytes.len())
            && bytes.iter().all(|&d| (d as usize) < bytes.len());
        (fits && bytes.is_sorted())
            .then(|| Self::new(bytes.iter().map(|&d| d as usize)))
            .filter(Self::is_graphical)
    }

    /// The degrees in increasing order, one byte each.
    pub fn bytes(&self) -> &[u8] {
        &self.degrees[..self.order()]
    }

    /// Number of vertices.
    pub fn order(&self) -> usize {
        self.order as usize
    }

    /// Number of edges: half the sum of the degrees.
    pub fn size(&self) -> usize {
        self.bytes().iter().map(|&d| d as usize).sum::<usize>() / 2
    }

    /// The largest degree; 0 for order 0.
    pub fn maximum(&self) -> usize {
        self.bytes().last().map_or(0, |&d| d as usize)
    }

    /// The degree of the vertex at `position` when vertices are sorted by degree.
    pub fn degree(&self, position: usize) -> usize {
        self.degrees[position] as usize
    }

    /// The runs of equal degrees, by increasing degree.
    pub fn classes(&self) -> Vec<DegreeClass> {
        let mut classes: Vec<DegreeClass> = Vec::new();
        for (position, &degree) in self.bytes().iter().enumerate() {
            match classes.last_mut() {
                Some(class) if class.degree == degree as usize => class.count += 1,
                _ => classes.push(DegreeClass {
                    degree: degree as usize,
                    start: position,
                    count: 1,
                }),
            }
        }
        classes
    }

    /// For each degree 0 ≤ x < 20, how many vertices have a smaller one. This is the colour that
    /// refinement starts from.
    pub fn ranks(&self) -> [u16; MAX_ORDER] {
        std::array::from_fn(|x| self.bytes().iter().filter(|&&d| (d as usize) < x).count() as u16)
    }

    /// Whether some graph has these degrees (Erdős and Gallai 1960).
    pub fn is_graphical(&self) -> bool {
        let n = self.order();
        let sum: usize = self.bytes().iter().map(|&d| d as usize).sum();
        let descending = |i: usize| self.degrees[n - 1 - i] as usize;
        let mut left = 0;
        sum.is_multiple_of(2)
            && (0..n).all(|k| {
                left += descending(k);
                left <= k * (k + 1) + (k + 1..n).map(|i| descending(i).min(k + 1)).sum::<usize>()
            })
    }

    /// Every degree sequence of order `n`, by size, then by degrees. At order 12 there are 222 117
    /// of them, picked from 1.35 million candidates.
    pub fn all(n: usize) -> Vec<Self> {
        Self::within(n, n.saturating_sub(1), pairs(n))
    }

    /// Those of them with at most so many edges, and so many at a vertex, in the same order.
    pub fn within(n: usize, most_degree: usize, most_edges: usize) -> Vec<Self> {
        /// Adds what begins with the `chosen` degrees, whose sum is `sum`.
        fn extend(
            [n, most_degree, most_sum]: [usize; 3],
            sum: usize,
            chosen: &mut Vec<usize>,
            found: &mut Vec<DegreeSequence>,
        ) {
            let Some(left @ 1..) = n.checked_sub(chosen.len()) else {
                let sequence = DegreeSequence::new(chosen.iter().copied());
                if sequence.is_graphical() {
                    found.push(sequence);
                }
                return;
            };
            let least = chosen.last().copied().unwrap_or(0);
            for degree in least..=most_degree {
                // No degree to come is smaller.
                if sum + left * degree > most_sum {
                    break;
                }
                chosen.push(degree);
                extend([n, most_degree, most_sum], sum + degree, chosen, found);
                chosen.pop();
            }
        }
        let mut found = Vec::new();
        let most_degree = most_degree.min(n.saturating_sub(1));
        extend([n, most_degree, 2 * most_edges], 0, &mut Vec::new(), &mut found);
        found.sort_by_key(|sequence| (sequence.size(), *sequence));
        found
    }

    /// The degree sequences one edge deletion away, at most k(k + 1)/2 for k distinct degrees.
    pub fn deletions(&self) -> Vec<Deletion> {
        let classes = self.classes();
        let mut deletions = Vec::new();
        for (i, low) in classes.iter().enumerate().filter(|(_, class)| class.degree > 0) {
            for high in &classes[i..] {
                if low.degree == high.degree && low.count < 2 {
                    continue;
                }
                let mut degrees = *self;
                degrees.degrees[low.start] -= 1;
                degrees.degrees
                    [if low.degree == high.degree { low.start + 1 } else { high.start }] -= 1;
                let sequence = Self::new(degrees.bytes().iter().map(|&d| d as usize));
                if sequence.is_graphical() {
                    deletions.push(Deletion { low: low.degree, high: high.degree, sequence });
                }
            }
        }
        deletions
    }

    /// The degree sequences that H − v can have when H has this one and v is a vertex of maximum
    /// degree. Empty for orders 0 and 1, where the census starts.
    pub fn parents(&self) -> Vec<Parent> {
        let n = self.order();
        let mut parents = Vec::new();
        if n <= 1 {
            return parents;
        }
        let rest = Self::new(self.bytes()[..n - 1].iter().map(|&d| d as usize));
        let classes = rest.classes();
        let mut taken = vec![0; classes.len()];
        rest.choose(&classes, 0, self.maximum(), &mut taken, &mut |sequence, taken| {
            if sequence.is_graphical() {
                // The vertices joined to v are those of degree x that had x − 1 before.
                let joined = sequence
                    .classes()
                    .iter()
                    .map(|class| {
                        classes
                            .iter()
                            .position(|c| c.degree == class.degree + 1)
                            .map_or(0, |i| taken[i])
                    })
                    .collect();
                parents.push(Parent { sequence, joined });
            }
        });
        parents
    }

    /// Calls `found` for every way to lower `left` entries by one, `taken[i]` of them from class
    /// i.
    fn choose(
        &self,
        classes: &[DegreeClass],
        i: usize,
        left: usize,
        taken: &mut [usize],
        found: &mut impl FnMut(Self, &[usize]),
    ) {
        let Some(class) = classes.get(i) else {
            if left == 0 {
                let mut lowered = *self;
                for (class, &count) in classes.iter().zip(taken.iter()) {
                    // Lowering the first entries of a class keeps the whole increasing.
                    lowered.degrees[class.start..class.start + count]
                        .iter_mut()
                        .for_each(|d| *d -= 1);
                }
                found(lowered, taken);
            }
            return;
        };
        let available = |class: &DegreeClass| if class.degree == 0 { 0 } else { class.count };
        // The later classes have to take what is left.
        let later: usize = classes[i + 1..].iter().map(available).sum();
        for count in left.saturating_sub(later)..=available(class).min(left) {
            taken[i] = count;
            self.choose(classes, i + 1, left - count, taken, found);
        }
        taken[i] = 0;
    }

    /// n!/∏ cnt_j!: in how many orders the degrees can stand, cnt_j of them being j.
    pub fn arrangements(&self) -> u128 {
        let classes = self.classes();
        classes.iter().fold(u128::from(factorial(self.order())), |left, class| {
            left / u128::from(factorial(class.count))
        })
    }
}

impl fmt::Display for DegreeSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let degrees: Vec<String> = self.bytes().iter().rev().map(u8::to_string).collect();
        write!(f, "({})", degrees.join(","))
    }
}

impl fmt::Debug for DegreeSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DegreeSequence{self}")
    }
}

/// Counts L(d), the labelled graphs in which vertex i has degree d_i, by deleting a vertex of
/// maximum degree: L(d) = Σ ∏ C(cnt_x, k_x) · L(d′) over the numbers k_x of its neighbours of each
/// degree x. Complements have equal counts, and vertices without edges change nothing, so that what
/// has many edges is counted as what has few. Remembers all that it has counted.
#[derive(Default)]
pub struct LabelledCounts {
    known: HashMap<DegreeSequence, u128>,
}

impl LabelledCounts {
    /// L(d). Exact for n ≤ 16, where it is below 2^120, and beyond it for few edges.
    pub fn count(&mut self, sequence: &DegreeSequence) -> u128 {
        let reduced = sparse(sequence);
        if let Some(&count) = self.known.get(&reduced) {
            return count;
        }
        let count = self.count_by_deletion(&reduced);
        self.known.insert(reduced, count);
        count
    }

    fn count_by_deletion(&mut self, reduced: &DegreeSequence) -> u128 {
        let n = reduced.order();
        if n == 0 {
            return 1;
        }
        let rest = DegreeSequence::new(reduced.bytes()[..n - 1].iter().map(|&d| d as usize));
        let classes = rest.classes();
        let mut choices = Vec::new();
        rest.choose(
            &classes,
            0,
            reduced.maximum(),
            &mut vec![0; classes.len()],
            &mut |lowered, taken| {
                let ways: u128 = classes
                    .iter()
                    .zip(taken)
                    .map(|(class, &k)| binomial(class.count, k))
                    .product();
                choices.push((lowered, ways));
            },
        );
        choices.into_iter().map(|(lowered, ways)| ways * self.count(&lowered)).sum()
    }
}

/// A sequence of equal count, without isolated vertices. If some graph has it, it has no more than
/// half of all edges.
fn sparse(sequence: &DegreeSequence) -> DegreeSequence {
    let mut reduced = without_isolated(sequence.bytes().iter().map(|&d| d as usize));
    loop {
        let n = reduced.order();
        // No graph has a degree of n.
        if 2 * reduced.size() <= pairs(n) || reduced.maximum() >= n {
            return reduced;
        }
        reduced = without_isolated(reduced.bytes().iter().map(|&d| n - 1 - d as usize));
    }
}

fn without_isolated(degrees: impl Iterator<Item = usize>) -> DegreeSequence {
    DegreeSequence::new(degrees.filter(|&degree| degree > 0))
}

/// C(n, k), exactly, for n ≤ 120 as long as it fits.
pub fn binomial(n: usize, k: usize) -> u128 {
    (0..k.min(n.saturating_sub(k)))
        .fold(u128::from(k <= n), |c, i| c * (n - i) as u128 / (i + 1) as u128)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::graph::pairs;

    #[test]
    fn numbers_of_degree_sequences() {
        // OEIS A004251.
        let counts: Vec<usize> = (1..=9).map(|n| DegreeSequence::all(n).len()).collect();
        assert_eq!(counts, [1, 2, 4, 11, 31, 102, 342, 1213, 4361]);
    }

    #[test]
    fn graphical_means_realised() {
        for n in 1..=6 {
            let realised: HashSet<_> = (0..1u128 << pairs(n))
                .map(|code| DegreeSequence::of(&Graph::from_code(n, code)))
                .collect();
            assert_eq!(realised, DegreeSequence::all(n).into_iter().collect());
        }
    }

    #[test]
    fn deletions_are_what_deleting_edges_gives() {
        for code in 0..1u128 << pairs(5) {
            let graph = Graph::from_code(5, code);
            let deletions = DegreeSequence::of(&graph).deletions();
            for (u, w) in graph.edges() {
                let (low, high) =
                    (graph.degree(u).min(graph.degree(w)), graph.degree(u).max(graph.degree(w)));
                let sequence = DegreeSequence::of(&graph.without_edge(u, w));
                assert!(deletions.contains(&Deletion { low, high, sequence }));
            }
        }
    }

    #[test]
    fn parents_are_what_deleting_a_vertex_of_maximum_degree_gives() {
        for code in 0..1u128 << pairs(5) {
            let graph = Graph::from_code(5, code);
            let sequence = DegreeSequence::of(&graph);
            let parents = sequence.parents();
            for v in (0..5).filter(|&v| graph.degree(v) == sequence.maximum()) {
                let smaller = DegreeSequence::of(&graph.without_vertex(v));
                let parent = parents
                    .iter()
                    .find(|parent| parent.sequence == smaller)
                    .expect("a listed parent");
                assert_eq!(parent.joined.iter().sum::<usize>(), sequence.maximum());
            }
        }
    }

    #[test]
    fn labelled_counts_add_up_to_all_labelled_graphs() {
        let mut counts = LabelledCounts::default();
        for n in 1..=8 {
            let mut by_size = vec![0u128; pairs(n) + 1];
            for sequence in DegreeSequence::all(n) {
                by_size[sequence.size()] += sequence.arrangements() * counts.count(&sequence);
            }
            let expected: Vec<u128> = (0..=pairs(n)).map(|m| binomial(pairs(n), m)).collect();
            assert_eq!(by_size, expected);
        }
    }

    #[test]
    fn what_no_graph_has_counts_for_nothing() {
        let mut counts = LabelledCounts::default();
        for degrees in [&[1][..], &[1, 1, 1], &[0, 0, 3, 3], &[1, 1, 3, 3], &[3, 3, 3, 3, 5]] {
            let sequence = DegreeSequence::new(degrees.iter().copied());
            assert_eq!(counts.count(&sequence), 0, "{sequence}");
        }
    }

    #[test]
    fn hostile_bytes_are_refused() {
        for bad in [&[][..], &[1], &[1, 0], &[0, 1], &[3, 3, 3], &[0; 21], &[255, 255]] {
            assert_eq!(DegreeSequence::from_bytes(bad), None, "{bad:?}");
        }
        assert_eq!(DegreeSequence::from_bytes(&[1, 1, 2]).unwrap().to_string(), "(2,1,1)");
    }
}
