//! Classes of graphs that a census can be restricted to.
//!
//! A [`Class`] is closed under deleting edges and vertices. So a graph of the class has its
//! predecessors and its parents in the class, and everything that holds for all graphs of an order
//! holds in it: the same recurrence, the same generator with one more condition, the same shards
//! with fewer graphs. Which graphs belong to it is said twice: by [`Class::contains`], fast, and
//! by [`Class::contains_by_definition`], slowly and in other words, which is what the first orders
//! are made from and what the tests compare with.
//!
//! That no graph of a class is missing does not rest on published counts. Among the graphs of the
//! class with m edges, each taken n!/|Aut| times, each is counted once for each of its m edges
//! when one adds an edge, in all ways that do not lead out of the class, to those with m − 1
//! edges. So the graphs of each degree sequence, weighted, follow from those with one edge less,
//! by [`Class::contains`] alone.
//!
//! Each of these classes has a graph, too, as soon as it has all of its components. So how many of
//! its graphs are connected follows from how many graphs it has.

mod definition;
mod known;
mod planar;

use std::{fmt, str::FromStr};

pub use known::KnownSequence;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    graph::{
        Graph, MAX_ORDER, NARROW_ORDER, VertexSet, component,
        degree::DegreeSequence,
        invariants::{girth, is_bipartite},
        pairs, vertices,
    },
    labelling::{MAX_PLAIN_ORDER, number},
};

/// A class of graphs that is closed under deleting edges and vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// All graphs.
    #[default]
    All,
    /// No vertex has more neighbours: 1 to 10.
    MaxDegree(u8),
    /// No cycle is shorter: 4 to 12. With 4, the triangle-free graphs.
    Girth(u8),
    /// No four vertices are on a cycle of length four. There may be triangles.
    SquareFree,
    /// No cycle of odd length.
    Bipartite,
    /// Can be drawn in the plane without crossings.
    Planar,
    /// Can be drawn in this way with all vertices on the outer face.
    Outerplanar,
    /// No cycle.
    Forest,
    /// Every component is a path.
    LinearForest,
}

/// The least and the largest parameter of [`Class::MaxDegree`] and [`Class::Girth`].
const DEGREES: [u8; 2] = [1, 10];
const GIRTHS: [u8; 2] = [4, 12];

impl Class {
    /// All of them, the one that has all graphs first.
    pub fn every() -> impl Iterator<Item = Class> {
        let degrees = (DEGREES[0]..=DEGREES[1]).map(Class::MaxDegree);
        let girths = (GIRTHS[0]..=GIRTHS[1]).map(Class::Girth);
        let others = [
            Class::SquareFree,
            Class::Bipartite,
            Class::Planar,
            Class::Outerplanar,
            Class::Forest,
            Class::LinearForest,
        ];
        std::iter::once(Class::All).chain(degrees).chain(girths).chain(others)
    }

    /// The number in stores, blocks and handshakes, beside that of the game. Frozen.
    pub const fn number(self) -> u8 {
        match self {
            Class::All => 0,
            Class::MaxDegree(most) => 0x10 + most,
            Class::Girth(least) => 0x20 + least,
            Class::SquareFree => 0x30,
            Class::Bipartite => 0x31,
            Class::Planar => 0x32,
            Class::Outerplanar => 0x33,
            Class::Forest => 0x34,
            Class::LinearForest => 0x35,
        }
    }

    /// The class of this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::every().find(|class| class.number() == number)
    }

    /// Whether a graph belongs to the class; of [`Class::Outerplanar`], one of order at most 19.
    pub fn contains(self, graph: &Graph) -> bool {
        let n = graph.order();
        match self {
            Class::All => true,
            Class::MaxDegree(most) => (0..n).all(|v| graph.degree(v) <= most.into()),
            Class::Girth(4) => {
                let is_in_triangle =
                    |(u, w): (usize, usize)| graph.neighbours(u) & graph.neighbours(w) != 0;
                !graph.edges().any(is_in_triangle)
            }
            Class::Girth(least) => matches!(girth(graph), girth if girth == 0 || girth >= least),
            Class::SquareFree => (1..n).all(|u| {
                let common = |w: usize| graph.neighbours(u) & graph.neighbours(w);
                (0..u).all(|w| common(w).count_ones() <= 1)
            }),
            Class::Bipartite => is_bipartite(graph),
            Class::Planar => planar::is_planar(graph),
            // Another vertex can be joined to all of them outside.
            Class::Outerplanar => {
                planar::is_planar(&graph.with_vertex(crate::graph::all_vertices(n)))
            }
            Class::Forest => {
                planar::without_leaves(graph.rows(), crate::graph::all_vertices(n)) == 0
            }
            Class::LinearForest => {
                Class::MaxDegree(2).contains(graph) && Class::Forest.contains(graph)
            }
        }
    }

    /// Whether a graph of the class remains in it with a new vertex joined to `neighbours`. What
    /// degree sequences tell is not looked at.
    #[inline]
    pub fn admits(self, graph: &Graph, neighbours: VertexSet) -> bool {
        match self {
            Class::All | Class::MaxDegree(_) => true,
            Class::Girth(4) => vertices(neighbours).all(|v| graph.neighbours(v) & neighbours == 0),
            // No two of them are in one component.
            Class::Forest => {
                let mut left = neighbours;
                while left != 0 {
                    let first = left.trailing_zeros() as usize;
                    left &= left - 1;
                    if component(graph.rows(), first) & left != 0 {
                        return false;
                    }
                }
                true
            }
            Class::LinearForest => {
                neighbours.count_ones() <= 2
                    && vertices(neighbours).all(|v| graph.degree(v) <= 1)
                    && Class::Forest.admits(graph, neighbours)
            }
            _ => self.contains(&graph.with_vertex(neighbours)),
        }
    }

    /// Whether a graph belongs to the class, by what the class is defined by, and without the code
    /// of [`Class::contains`]. For graphs of order up to 8.
    pub fn contains_by_definition(self, graph: &Graph) -> bool {
        definition::contains(self, graph)
    }

    /// Whether the degrees tell all: graphs of one degree sequence belong to the class, or none of
    /// them does.
    pub fn is_by_degrees(self) -> bool {
        matches!(self, Class::All | Class::MaxDegree(_))
    }

    /// Whether graphs with these degrees may belong to the class. With a sequence all those are
    /// let through that an edge less leads to.
    pub fn may_have(self, sequence: &DegreeSequence) -> bool {
        let (n, m, most) = (sequence.order(), sequence.size(), sequence.maximum());
        // Paths of length two: no more than pairs for them to join, where each pair has one at
        // most.
        let paths = || sequence.bytes().iter().map(|&d| pairs(d.into())).sum::<usize>();
        match self {
            Class::All => true,
            Class::MaxDegree(limit) => most <= limit.into(),
            // Every edge has an end outside the neighbours of a vertex of maximum degree.
            Class::Girth(4) | Class::Bipartite => m <= most * (n - most),
            // Joined vertices have no common neighbours besides.
            Class::Girth(_) => paths() + m <= pairs(n),
            Class::SquareFree => paths() <= pairs(n),
            Class::Planar => n < 3 || m <= 3 * n - 6,
            Class::Outerplanar => n < 2 || m <= 2 * n - 3,
            Class::Forest => m < n,
            Class::LinearForest => m < n && most <= 2,
        }
    }

    /// No graph of order `n` of the class has a vertex of larger degree.
    pub fn most_degree(self, n: usize) -> usize {
        let most = match self {
            Class::MaxDegree(most) => most.into(),
            Class::LinearForest => 2,
            _ => usize::MAX,
        };
        most.min(n.saturating_sub(1))
    }

    /// No graph of order `n` of the class has more edges.
    pub fn most_edges(self, n: usize) -> usize {
        let most = match self {
            Class::All => usize::MAX,
            Class::MaxDegree(most) => n * usize::from(most) / 2,
            // Mantel's theorem.
            Class::Girth(4) | Class::Bipartite => n * n / 4,
            // Σ d(d − 1)/2 ≤ C(n, 2), and by Cauchy's inequality Σ d² ≥ 4m²/n.
            Class::Girth(_) | Class::SquareFree => {
                (0..=pairs(n)).rev().find(|m| 2 * m * m <= n * (pairs(n) + m)).unwrap_or(0)
            }
            Class::Planar if n >= 3 => 3 * n - 6,
            Class::Outerplanar if n >= 2 => 2 * n - 3,
            Class::Planar | Class::Outerplanar => usize::MAX,
            Class::Forest | Class::LinearForest => n.saturating_sub(1),
        };
        most.min(pairs(n))
    }

    /// The largest order of a census of the class, whole or up to a number of edges. Beyond order
    /// 12 keys are numbers, and the largest order is 20 for forests, else 16, or the last one where
    /// all graphs of the class have one, by what [`number::fits`] knows. It is less where
    /// partitions, which have one bucket each there, would have more than some million graphs.
    pub fn largest_order(self) -> usize {
        let limit = match self {
            Class::MaxDegree(5..) | Class::Planar => MAX_PLAIN_ORDER,
            Class::MaxDegree(4) => MAX_PLAIN_ORDER + 1,
            Class::Forest | Class::LinearForest => MAX_ORDER,
            _ => NARROW_ORDER,
        };
        let fits = |&n: &usize| number::fits(n, self.most_degree(n), self.most_edges(n));
        (MAX_PLAIN_ORDER + 1..=limit).take_while(fits).last().unwrap_or(MAX_PLAIN_ORDER)
    }

    /// What others have counted, or what a formula says, of orders from 1 on.
    pub fn known(self) -> &'static [KnownSequence] {
        known::sequences(self)
    }

    /// How many graphs of an order belong to the class, if that has been published. Of
    /// [`Class::All`] Pólya's theorem tells it.
    pub fn known_graphs(self, order: usize) -> Option<u64> {
        let unlabelled = self.known().iter().find(|sequence| !sequence.labelled)?;
        unlabelled.count(order)?.try_into().ok()
    }

    /// How graphs of the class are called, in the plural: "bipartite graphs".
    pub fn title(self) -> String {
        match self {
            Class::All => "graphs".to_owned(),
            Class::MaxDegree(most) => format!("graphs of maximum degree at most {most}"),
            Class::Girth(4) => "triangle-free graphs".to_owned(),
            Class::Girth(least) => format!("graphs without cycles shorter than {least}"),
            Class::SquareFree => "graphs without cycles of length four".to_owned(),
            Class::Bipartite => "bipartite graphs".to_owned(),
            Class::Planar => "planar graphs".to_owned(),
            Class::Outerplanar => "outerplanar graphs".to_owned(),
            Class::Forest => "forests".to_owned(),
            Class::LinearForest => "linear forests".to_owned(),
        }
    }
}

impl Class {
    /// The name as a part of names of files.
    pub fn file_stem(self) -> String {
        self.to_string().replace(':', "-")
    }
}

/// The name on the command line.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::All => "all",
            Class::MaxDegree(most) => return f.pad(&format!("max-degree:{most}")),
            Class::Girth(4) => "triangle-free",
            Class::Girth(least) => return f.pad(&format!("girth:{least}")),
            Class::SquareFree => "square-free",
            Class::Bipartite => "bipartite",
            Class::Planar => "planar",
            Class::Outerplanar => "outerplanar",
            Class::Forest => "forest",
            Class::LinearForest => "linear-forest",
        })
    }
}

/// A name that no class has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no class of this program: there are all, bipartite, triangle-free, square-free, \
     girth:G with G from 4 to 12, max-degree:D with D from 1 to 10, planar, outerplanar, forest \
     and linear-forest"
)]
pub struct UnknownClass(String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        // The class has one name, but this is another way to say it.
        let name = if text == "girth:4" { "triangle-free" } else { text };
        let named = Self::every().find(|class| class.to_string() == name);
        named.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// As its name.
impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
