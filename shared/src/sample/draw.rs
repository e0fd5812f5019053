//! Drawing the graphs of a stratum, exactly uniformly: labelled ones, or isomorphism classes.
//!
//! Each graph has random numbers of its own, by seed, order, stratum and index, so that it does not
//! matter which others are drawn, or where.

use crate::graph::{Graph, MAX_ORDER, NARROW_ORDER, factorial, pairs, polya::each_partition};

/// What is drawn with equal probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Labelled graphs.
    Labelled,
    /// Isomorphism classes.
    Unlabelled,
}

/// Graphs that are drawn from together: all with a number of edges, or those of them with a number
/// of vertices of odd degree, which tells much of who wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stratum {
    /// Number of edges.
    pub size: usize,
    /// Number of vertices of odd degree, if it is the same for all.
    pub odd: Option<usize>,
}

impl Stratum {
    /// What tells its random numbers from those of other strata.
    pub fn names(self) -> impl Iterator<Item = u64> {
        std::iter::once(self.size as u64).chain(self.odd.map(|odd| odd as u64))
    }
}

/// Random numbers: the output of BLAKE3 for a key of its own.
pub struct Stream(blake3::OutputReader);

/// Frozen: with another one every seed gives other graphs.
const CONTEXT: &str = "trailtrap sample: random numbers of one graph, version 1";

impl Stream {
    /// The random numbers for one thing, named by numbers.
    pub fn new(names: impl IntoIterator<Item = u64>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        names.into_iter().for_each(|name| {
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
    /// The first vertex of each of its cycles, and how many vertices that has.
    cycles: Vec<(usize, usize)>,
    /// Orbits of pairs, as codes.
    orbits: Vec<u128>,
    /// `subsets[i][m]` is the number of ways to take m pairs as a union of orbits from the i-th
    /// on.
    subsets: Vec<Vec<u128>>,
}

impl Drawer {
    /// For graphs of order `n` ≤ 16.
    ///
    /// # Panics
    /// If the order is larger.
    pub fn new(n: usize, kind: Kind) -> Self {
        assert!(n <= NARROW_ORDER, "graphs are drawn up to order {NARROW_ORDER}");
        let mut types = Vec::new();
        match kind {
            Kind::Labelled => types.push(CycleType::new(&vec![1; n])),
            Kind::Unlabelled => {
                let mut visit = |parts: &[usize]| types.push(CycleType::new(parts));
                each_partition(n, n, &mut Vec::new(), &mut visit);
            }
        }
        Drawer { order: n, kind, types }
    }

    /// The order of the graphs.
    pub fn order(&self) -> usize {
        self.order
    }

    /// What is drawn.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How often the graphs of each stratum come among all that are fixed by the permutations
    /// drawn (labelled graphs: the identity): n! times as many as there are isomorphism classes,
    /// or as many as there are labelled graphs, of order 13 at most. `counts[m][k]` is of those
    /// with m edges and 2 k vertices of odd degree. Takes steps in proportion to 2^n C(n, 2)²: at
    /// order 13 some tenths of a second.
    pub fn by_odd_degrees(&self) -> Vec<Vec<u128>> {
        let n = self.order;
        let mut counts = vec![vec![0; n / 2 + 1]; pairs(n) + 1];
        for kind in &self.types {
            kind.count_odd_degrees(n, &mut counts);
        }
        counts
    }

    /// The graph of this stratum with this index. There has to be one.
    ///
    /// An isomorphism class comes by the way of Dixon and Wilf (The random selection of unlabeled
    /// graphs, J. Algorithms 4, 1983), within a number of edges: a permutation is drawn with a
    /// probability proportional to the number of graphs that it fixes, then one of these graphs.
    /// Each class of graphs H belongs to |Aut H| · n!/|Aut H| of these pairs, as many as any
    /// other.
    ///
    /// Where a number of vertices of odd degree is wanted, graphs are drawn until one has it: some
    /// thousands on average where it is rarest.
    pub fn draw(&self, seed: u64, stratum: Stratum, index: u64) -> Graph {
        let kind = match self.kind {
            Kind::Labelled => 0,
            Kind::Unlabelled => 1,
        };
        let Stratum { size, odd } = stratum;
        let names = [seed, kind, self.order as u64].into_iter();
        let mut stream = Stream::new(names.chain(stratum.names()).chain([index]));
        loop {
            let code = match self.kind {
                Kind::Labelled => subset(&mut stream, pairs(self.order), size),
                Kind::Unlabelled => self.fixed(&mut stream, size),
            };
            let graph = Graph::from_code(self.order, code);
            if odd.is_none_or(|odd| odd_degrees(&graph) == odd) {
                return graph;
            }
        }
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

/// The number of vertices of odd degree.
fn odd_degrees(graph: &Graph) -> usize {
    (0..graph.order()).filter(|&v| graph.degree(v) % 2 == 1).count()
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
        let mut cycles = Vec::new();
        for (i, &part) in parts.iter().enumerate() {
            cycles.push((first, part));
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
        CycleType { permutations: u128::from(factorial(n) / centralizer), cycles, orbits, subsets }
    }

    /// Adds how many graphs of each size, with each number of vertices of odd degree, these
    /// permutations fix. Along a cycle all degrees are the same.
    fn count_odd_degrees(&self, n: usize, counts: &mut [Vec<u128>]) {
        let rows = counts.len();
        // By the set of cycles with odd degrees and by size, of the unions of some orbits.
        let mut fixed = vec![0u128; rows << self.cycles.len()];
        fixed[0] = 1;
        let mut before = fixed.clone();
        for orbit in &self.orbits {
            let graph = Graph::from_code(n, *orbit);
            let is_odd =
                |(i, &(first, _)): (usize, &(usize, usize))| (graph.degree(first) % 2) << i;
            let toggled: usize = self.cycles.iter().enumerate().map(is_odd).sum();
            let length = graph.size();
            before.copy_from_slice(&fixed);
            for set in 0..1usize << self.cycles.len() {
                let from = &before[(set ^ toggled) * rows..][..rows - length];
                let to = &mut fixed[set * rows..][length..rows];
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
        for (set, of_set) in fixed.chunks_exact(rows).enumerate() {
            let odd_cycles = self.cycles.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            let odd: usize = odd_cycles.map(|(_, &(_, part))| part).sum();
            for (count, graphs) in counts.iter_mut().zip(of_set) {
                if *graphs > 0 {
                    count[odd / 2] += self.permutations * graphs;
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        graph::{degree::binomial, polya::graphs_by_size},
        labelling::hashed,
    };

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

    /// Strata are counted as they are found by looking at all graphs, labelled ones and classes.
    #[test]
    fn strata_are_counted() {
        for n in 1..=6 {
            let mut labelled = vec![vec![0; n / 2 + 1]; pairs(n) + 1];
            let mut classes = labelled.clone();
            for code in 0..1u128 << pairs(n) {
                let graph = Graph::from_code(n, code);
                let automorphisms = u128::from(hashed::label(&graph).automorphisms);
                let place = (graph.size(), odd_degrees(&graph) / 2);
                labelled[place.0][place.1] += 1;
                // n! / |Aut| labelled graphs make one class.
                classes[place.0][place.1] += automorphisms;
            }
            assert_eq!(Drawer::new(n, Kind::Labelled).by_odd_degrees(), labelled, "{n}");
            assert_eq!(Drawer::new(n, Kind::Unlabelled).by_odd_degrees(), classes, "{n}");
        }
        // Each even set of vertices is as often as any other that of odd degree.
        let by_odd = Drawer::new(12, Kind::Labelled).by_odd_degrees();
        for k in 0..=6 {
            let all: u128 = by_odd.iter().map(|counts| counts[k]).sum();
            assert_eq!(all, binomial(12, 2 * k) << (66 - 11), "{k}");
        }
    }

    /// Pearson's statistic of draws that should be alike stays below its mean by eight standard
    /// deviations, for some fixed seeds.
    #[test]
    fn draws_are_uniform() {
        const DRAWS: u64 = 6000;
        for (n, kind) in [(4, Kind::Labelled), (4, Kind::Unlabelled), (5, Kind::Unlabelled)] {
            let drawer = Drawer::new(n, kind);
            let by_odd = drawer.by_odd_degrees();
            let all = (0..=pairs(n)).map(|size| Stratum { size, odd: None });
            let some = |&Stratum { size, .. }: &Stratum| {
                let present = (0..=n / 2).filter(|&k| by_odd[size][k] > 0);
                present.map(|k| Stratum { size, odd: Some(2 * k) }).collect::<Vec<_>>()
            };
            for stratum in all.clone().chain(all.flat_map(|stratum| some(&stratum))) {
                let Stratum { size, odd } = stratum;
                let mut counts: BTreeMap<u128, u64> = BTreeMap::new();
                for index in 0..DRAWS {
                    let graph = drawer.draw(1, stratum, index);
                    assert_eq!(graph.size(), size);
                    assert!(odd.is_none_or(|odd| odd_degrees(&graph) == odd));
                    let what = match kind {
                        Kind::Labelled => graph.code().narrow(),
                        Kind::Unlabelled => {
                            hashed::label(&graph).key.narrow() << 8 | degree_tag(&graph)
                        }
                    };
                    *counts.entry(what).or_default() += 1;
                }
                let counted: u128 = match odd {
                    Some(odd) => by_odd[size][odd / 2],
                    None => by_odd[size].iter().sum(),
                };
                let classes = match kind {
                    Kind::Labelled => counted as u64,
                    Kind::Unlabelled => (counted / u128::from(factorial(n))) as u64,
                };
                assert_eq!(counts.len() as u64, classes, "all of them come");
                let expected = DRAWS as f64 / classes as f64;
                let pearson: f64 =
                    counts.values().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
                let freedom = classes as f64 - 1.0;
                assert!(
                    pearson <= freedom + 8.0 * (2.0 * freedom).sqrt(),
                    "{n} {stratum:?} {pearson}"
                );
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
        let code = |kind, odd, index| {
            Drawer::new(12, kind).draw(7, Stratum { size: 31, odd }, index).code().narrow()
        };
        let found = [
            code(Kind::Labelled, None, 0),
            code(Kind::Labelled, None, 1),
            code(Kind::Unlabelled, None, 0),
            code(Kind::Labelled, Some(2), 0),
        ];
        assert!(found.iter().all(|code| code.count_ones() == 31), "{found:#x?}");
        assert_eq!(found, FROZEN);
    }

    const FROZEN: [u128; 4] = [
        64_990_466_852_193_396_250,
        69_322_628_552_622_135_428,
        1_397_454_665_717_483_835,
        1_132_458_535_419_228_868,
    ];
}
