//! Families of graphs that papers name, for the tests.

use super::{Code, Graph};

/// Two graphs side by side.
pub fn beside(one: &Graph, other: &Graph) -> Graph {
    let n = one.order();
    Graph::from_edges(
        n + other.order(),
        one.edges().chain(other.edges().map(|(u, w)| (n + u, n + w))),
    )
}

/// P_n.
pub fn path(n: usize) -> Graph {
    Graph::from_edges(n, (1..n).map(|v| (v - 1, v)))
}

/// K_n.
pub fn complete(n: usize) -> Graph {
    Graph::from_code(n, Code::new(u128::MAX, u128::MAX))
}

/// K_{p,q}, the side of p vertices first.
pub fn complete_bipartite(p: usize, q: usize) -> Graph {
    Graph::from_edges(p + q, (0..p).flat_map(|u| (p..p + q).map(move |w| (u, w))))
}

/// P_rows □ P_columns, row by row.
pub fn grid(rows: usize, columns: usize) -> Graph {
    let vertex = move |i: usize, j: usize| i * columns + j;
    let across =
        (0..rows).flat_map(move |i| (1..columns).map(move |j| (vertex(i, j - 1), vertex(i, j))));
    let down =
        (1..rows).flat_map(move |i| (0..columns).map(move |j| (vertex(i - 1, j), vertex(i, j))));
    Graph::from_edges(rows * columns, across.chain(down))
}

/// C_n □ K_2.
pub fn prism(n: usize) -> Graph {
    let rim = |base: usize| (0..n).map(move |i| (base + i, base + (i + 1) % n));
    Graph::from_edges(2 * n, rim(0).chain(rim(n)).chain((0..n).map(|i| (i, n + i))))
}
