//! Drawing graphs with a given number of edges, exactly uniformly: labelled ones, or isomorphism
//! classes.
//!
//! Each graph has random numbers of its own, by seed, order, number of edges and index, so that it
//! does not matter which others are drawn, or where.

use crate::graph::{Graph, MAX_ORDER, factorial, pairs};

/// What is drawn with equal probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Labelled graphs.
    Labelled,
    /// Isomorphism classes.
    Unlabelled,
}

/// Random numbers: the output of BLAKE3 for a key of its own.
pub struct Stream(blake3::OutputReader);

/// Frozen: with another one every seed gives other graphs.
const CONTEXT: &str = "trailtrap sample: random numbers of one graph, version 1";

impl Stream {
    /// The random numbers for one thing, named by numbers.
    pub fn new(names: &[u64]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        names.iter().for_each(|name| {
            hasher.update(&name.to_le_bytes());
        });
        Stream(hasher.finalize_xof())
    }

    /// A number below `bound` > 0, all alike.
    pub fn below(&mut self, bound: u128) -> u128 {
        let mask = u128::MAX.checked_shr((bound - 1).leading_zeros()).unwrap_or(0);
        loop {
            let mut bytes = [0; 16];
            self.0.fill(&mut bytes);
            let number = u128::from_le_bytes(bytes) & mask;
            if number < bound {
                return number;
            }
        }
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        (self.below(1 << 53) as f64) < probability * (1u64 << 53) as f64
    }
}

/// Draws graphs of one order.
pub struct Drawer {
    order: usize,
    kind: Kind,
    types: Vec<CycleType>,
}

/// The permutations of one cycle type, by one of them.
struct CycleType {
    /// How many there are.
    permutations: u128,
    /// Orbits of pairs, as codes.
    orbits: Vec<u128>,
    /// `subsets[i][m]` is the number of ways to take m pairs as a union of orbits from the i-th
    /// on.
    subsets: Vec<Vec<u128>>,
}

impl Drawer {
    /// For graphs of order `n` ≤ 13.
    pub fn new(n: usize, kind: Kind) -> Self {
        let mut types = Vec::new();
        if kind == Kind::Unlabelled {
            each_partition(n, n, &mut Vec::new(), &mut |parts| types.push(CycleType::new(parts)));
        }
        Drawer { order: n, kind, types }
    }

    /// The graph with this number of edges and this index.
    ///
    /// An isomorphism class comes by the way of Dixon and Wilf (The random selection of unlabeled
    /// graphs, J. Algorithms 4, 1983), within a number of edges: a permutation is drawn with a
    /// probability proportional to the number of graphs that it fixes, then one of these graphs.
    /// Each class of graphs H belongs to |Aut H| · n!/|Aut H| of these pairs, as many as any
    /// other.
    pub fn draw(&self, seed: u64, size: usize, index: u64) -> Graph {
        let kind = match self.kind {
            Kind::Labelled => 0,
            Kind::Unlabelled => 1,
        };
        let names = [seed, kind, self.order as u64, size as u64, index];
        let mut stream = Stream::new(&names);
        let code = match self.kind {
            Kind::Labelled => subset(&mut stream, pairs(self.order), size),
            Kind::Unlabelled => self.fixed(&mut stream, size),
        };
        Graph::from_code(self.order, code)
    }

    fn fixed(&self, stream: &mut Stream, size: usize) -> u128 {
        let weight = |kind: &CycleType| kind.permutations * kind.subsets[0][size];
        let mut at = stream.below(self.types.iter().map(weight).sum());
        for kind in &self.types {
            if at < weight(kind) {
                return kind.draw(stream, size);
            }
            at -= weight(kind);
        }
        unreachable!("the number is below the sum")
    }
}

/// Any `size` of the lowest `all` bits, by Floyd's way.
fn subset(stream: &mut Stream, all: usize, size: usize) -> u128 {
    let mut set = 0u128;
    for last in all - size..all {
        let bit = 1 << stream.below(last as u128 + 1);
        set |= if set & bit == 0 { bit } else { 1 << last };
    }
    set
}

impl CycleType {
    fn new(parts: &[usize]) -> Self {
        let n: usize = parts.iter().sum();
        let mut image = [0; MAX_ORDER];
        let mut first = 0;
        let mut centralizer = 1u64;
        for (i, &part) in parts.iter().enumerate() {
            for offset in 0..part {
                image[first + offset] = first + (offset + 1) % part;
            }
            first += part;
            let repeated = parts[..=i].iter().filter(|&&other| other == part).count();
            centralizer *= (part * repeated) as u64;
        }
        let pair = |u: usize, w: usize| 1u128 << (pairs(u.max(w)) + u.min(w));
        let mut orbits = Vec::new();
        let mut met = 0;
        for (i, j) in (1..n).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let (mut u, mut w) = (i, j);
            let mut orbit = 0;
            while (met | orbit) & pair(u, w) == 0 {
                orbit |= pair(u, w);
                (u, w) = (image[u], image[w]);
            }
            if orbit != 0 {
                orbits.push(orbit);
                met |= orbit;
            }
        }
        let mut subsets = vec![vec![0; pairs(n) + 1]; orbits.len() + 1];
        subsets[orbits.len()][0] = 1;
        for (i, orbit) in orbits.iter().enumerate().rev() {
            let length = orbit.count_ones() as usize;
            for m in 0..=pairs(n) {
                let with = m.checked_sub(length).map_or(0, |rest| subsets[i + 1][rest]);
                subsets[i][m] = subsets[i + 1][m] + with;
            }
        }
        CycleType { permutations: u128::from(factorial(n) / centralizer), orbits, subsets }
    }

    /// One of the graphs of this size that are fixed, all alike.
    fn draw(&self, stream: &mut Stream, size: usize) -> u128 {
        let (mut code, mut left) = (0, size);
        for (i, orbit) in self.orbits.iter().enumerate() {
            if stream.below(self.subsets[i][left]) >= self.subsets[i + 1][left] {
                code |= orbit;
                left -= orbit.count_ones() as usize;
            }
        }
        code
    }
}

/// The partitions of `left` into parts of at most `most`, behind `parts`.
fn each_partition(
    left: usize,
    most: usize,
    parts: &mut Vec<usize>,
    visit: &mut impl FnMut(&[usize]),
) {
    if left == 0 {
        visit(parts);
    }
    for part in (1..=most.min(left)).rev() {
        parts.push(part);
        each_partition(left - part, part, parts, visit);
        parts.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{graph::polya::graphs_by_size, labelling::hashed};

    /// The number of graphs that permutations fix, by Burnside's lemma.
    #[test]
    fn cycle_types_count_the_classes() {
        for n in 1..=13 {
            let drawer = Drawer::new(n, Kind::Unlabelled);
            for (size, count) in graphs_by_size(n).into_iter().enumerate() {
                let fixed: u128 =
                    drawer.types.iter().map(|t| t.permutations * t.subsets[0][size]).sum();
                assert_eq!(fixed, u128::from(count) * u128::from(factorial(n)), "{n} {size}");
            }
        }
    }

    /// Pearson's statistic of draws that should be alike stays below its mean by eight standard
    /// deviations, for some fixed seeds.
    #[test]
    fn draws_are_uniform() {
        const DRAWS: u64 = 6000;
        for (n, kind) in [(4, Kind::Labelled), (4, Kind::Unlabelled), (5, Kind::Unlabelled)] {
            let drawer = Drawer::new(n, kind);
            for size in 0..=pairs(n) {
                let mut counts: BTreeMap<u128, u64> = BTreeMap::new();
                for index in 0..DRAWS {
                    let graph = drawer.draw(1, size, index);
                    assert_eq!(graph.size(), size);
                    let what = match kind {
                        Kind::Labelled => graph.code(),
                        Kind::Unlabelled => hashed::label(&graph).key << 8 | degree_tag(&graph),
                    };
                    *counts.entry(what).or_default() += 1;
                }
                let classes = match kind {
                    Kind::Labelled => crate::graph::degree::binomial(pairs(n), size) as u64,
                    Kind::Unlabelled => graphs_by_size(n)[size],
                };
                assert_eq!(counts.len() as u64, classes, "all of them come");
                let expected = DRAWS as f64 / classes as f64;
                let pearson: f64 =
                    counts.values().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
                let freedom = classes as f64 - 1.0;
                assert!(pearson <= freedom + 8.0 * (2.0 * freedom).sqrt(), "{n} {size} {pearson}");
            }
        }
    }

    /// Keys tell graphs apart only within a degree sequence.
    fn degree_tag(graph: &Graph) -> u128 {
        let mut degrees: Vec<usize> = (0..graph.order()).map(|v| graph.degree(v)).collect();
        degrees.sort_unstable();
        degrees.into_iter().fold(0, |tag, degree| tag * 5 + degree as u128) << 64
    }

    /// Frozen: other graphs for a seed would be a breaking change.
    #[test]
    fn seeds_keep_their_graphs() {
        let code = |kind, n, size, index| Drawer::new(n, kind).draw(7, size, index).code();
        let found = [
            code(Kind::Labelled, 12, 31, 0),
            code(Kind::Labelled, 12, 31, 1),
            code(Kind::Unlabelled, 12, 31, 0),
        ];
        assert!(found.iter().all(|code| code.count_ones() == 31), "{found:#x?}");
        assert_eq!(found, FROZEN);
    }

    const FROZEN: [u128; 3] =
        [64_990_466_852_193_396_250, 69_322_628_552_622_135_428, 1_397_454_665_717_483_835];
}
