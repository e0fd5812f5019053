//! Simple undirected graphs of order at most 16, one 16-bit adjacency set per vertex.

/// Largest order a [`Graph`] can have.
pub const MAX_ORDER: usize = 16;

/// A set of vertices of one graph: bit `v` stands for vertex `v`.
pub type VertexSet = u16;

/// One adjacency set per vertex; entries from the order on are empty.
pub type AdjacencyRows = [VertexSet; MAX_ORDER];

/// The vertices of a set in increasing order.
pub fn vertices(mut set: VertexSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let v = set.trailing_zeros() as usize;
            set &= set - 1;
            v
        })
    })
}

/// All vertices of a graph of order `n` (0 ≤ n ≤ 16).
#[inline]
pub const fn all_vertices(n: usize) -> VertexSet {
    ((1u32 << n) - 1) as VertexSet
}

// Loops over all 16 sets, with the sets as lanes, are what compilers turn into a few vector
// instructions.

/// The image of each set when vertex v becomes `label[v]`, for v < `n`.
pub fn map_sets(n: usize, sets: &AdjacencyRows, label: &[u8]) -> AdjacencyRows {
    let mut image = [0; MAX_ORDER];
    for v in 0..n {
        let one_hot = 1 << label[v];
        for a in 0..MAX_ORDER {
            image[a] |= if sets[a] & (1 << v) != 0 { one_hot } else { 0 };
        }
    }
    image
}

/// The transposed relation: the y-th set of the result holds a if the a-th set holds y, for a <
/// `n`.
#[inline]
pub fn transpose(n: usize, sets: &AdjacencyRows) -> AdjacencyRows {
    let mut transposed = *sets;
    transposed[n..].fill(0);
    #[cfg(target_arch = "x86_64")]
    return transpose_sse2(&transposed);
    #[cfg(not(target_arch = "x86_64"))]
    transpose_portable(&transposed)
}

/// Every x86-64 processor has SSE2.
#[cfg(target_arch = "x86_64")]
#[inline]
fn transpose_sse2(sets: &AdjacencyRows) -> AdjacencyRows {
    use std::arch::x86_64::*;
    // SAFETY: the loads read the 32 bytes of `sets`.
    transpose_lanes(unsafe {
        [_mm_loadu_si128(sets.as_ptr().cast()), _mm_loadu_si128(sets.as_ptr().add(8).cast())]
    })
}

/// [`transpose`] of 16 sets, eight in the lanes of each register.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn transpose_lanes(sets: [std::arch::x86_64::__m128i; 2]) -> AdjacencyRows {
    use std::arch::x86_64::*;
    // SAFETY: these are operations on registers.
    unsafe {
        // The lower bytes of the 16 sets, and the upper bytes.
        let byte = _mm_set1_epi16(0xff);
        let [first, second] = sets;
        let mut low = _mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(second, byte));
        let mut high = _mm_packus_epi16(_mm_srli_epi16::<8>(first), _mm_srli_epi16::<8>(second));
        let mut transposed = [0; MAX_ORDER];
        for y in (0..8).rev() {
            // The topmost bits of all bytes.
            transposed[y] = _mm_movemask_epi8(low) as VertexSet;
            transposed[y + 8] = _mm_movemask_epi8(high) as VertexSet;
            low = _mm_add_epi8(low, low);
            high = _mm_add_epi8(high, high);
        }
        transposed
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn transpose_portable(sets: &AdjacencyRows) -> AdjacencyRows {
    let mut transposed = [0; MAX_ORDER];
    for a in 0..MAX_ORDER {
        for y in 0..MAX_ORDER {
            transposed[y] |= if sets[a] & (1 << y) != 0 { 1 << a } else { 0 };
        }
    }
    transposed
}

/// Number of unordered pairs of `n` vertices: the size of the complete graph.
#[inline]
pub const fn pairs(n: usize) -> usize {
    n * n.saturating_sub(1) / 2
}

/// n! for 0 ≤ n ≤ 20.
pub const fn factorial(n: usize) -> u64 {
    let mut product = 1;
    let mut k = 2;
    while k <= n {
        product *= k as u64;
        k += 1;
    }
    product
}

/// A finite simple undirected graph on the vertices 0, …, n − 1, with n ≤ 16.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Graph {
    order: u8,
    rows: AdjacencyRows,
}

impl Graph {
    /// The edgeless graph of order `n`.
    ///
    /// # Panics
    /// If `n` exceeds [`MAX_ORDER`]; callers check orders where they enter the program.
    pub fn edgeless(n: usize) -> Self {
        assert!(n <= MAX_ORDER, "order {n} exceeds {MAX_ORDER}");
        Graph { order: n as u8, rows: [0; MAX_ORDER] }
    }

    /// The graph of order `n` with these edges. The same precondition on `n`; ends must be
    /// distinct and below `n`.
    pub fn from_edges(n: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut graph = Self::edgeless(n);
        for (u, w) in edges {
            graph.add_edge(u, w);
        }
        graph
    }

    /// The graph whose adjacency sets are `rows`, which must be symmetric, loopless and empty from
    /// `n` on.
    #[inline]
    pub fn from_rows(n: usize, rows: AdjacencyRows) -> Self {
        let graph = Graph { order: n as u8, rows };
        debug_assert!(
            (0..n).all(|v| vertices(rows[v]).all(|w| w != v && w < n && graph.has_edge(w, v)))
        );
        graph
    }

    /// The graph of order `n` whose edges are the set bits of `code`, pair i < j standing at bit
    /// j(j − 1)/2 + i (column by column, as in graph6). Bits beyond C(n, 2) are ignored.
    pub fn from_code(n: usize, code: u128) -> Self {
        let mut columns = [0; MAX_ORDER];
        let mut rest = code;
        for j in 1..n {
            columns[j] = rest as VertexSet & all_vertices(j);
            rest >>= j;
        }
        let later = transpose(n, &columns);
        Self::from_rows(n, std::array::from_fn(|v| columns[v] | later[v]))
    }

    /// The inverse of [`Graph::from_code`].
    pub fn code(&self) -> u128 {
        // Loops of constant length become shifts by constants, and the columns of the first eleven
        // vertices fit one register. Vertices beyond the order have no neighbours.
        const MIDDLE: usize = 11;
        let column = |j: usize| u64::from(self.rows[j] & all_vertices(j));
        let low = (1..MIDDLE).fold(0, |code, j| code | column(j) << pairs(j));
        let high = (MIDDLE..MAX_ORDER)
            .fold(0, |code, j| code | u128::from(column(j)) << (pairs(j) - pairs(MIDDLE)));
        u128::from(low) | high << pairs(MIDDLE)
    }

    /// Number of vertices.
    #[inline]
    pub fn order(&self) -> usize {
        self.order as usize
    }

    /// Number of edges.
    pub fn size(&self) -> usize {
        self.rows.iter().map(|row| row.count_ones() as usize).sum::<usize>() / 2
    }

    /// The adjacency sets.
    #[inline]
    pub fn rows(&self) -> &AdjacencyRows {
        &self.rows
    }

    /// The neighbours of `v`.
    #[inline]
    pub fn neighbours(&self, v: usize) -> VertexSet {
        self.rows[v]
    }

    /// The degree of `v`.
    #[inline]
    pub fn degree(&self, v: usize) -> usize {
        self.rows[v].count_ones() as usize
    }

    /// Whether `u` and `w` are joined.
    #[inline]
    pub fn has_edge(&self, u: usize, w: usize) -> bool {
        self.rows[u] >> w & 1 == 1
    }

    /// Joins two distinct vertices.
    pub fn add_edge(&mut self, u: usize, w: usize) {
        debug_assert!(u != w && u < self.order() && w < self.order());
        self.rows[u] |= 1 << w;
        self.rows[w] |= 1 << u;
    }

    /// The graph without the edge `uw`.
    pub fn without_edge(mut self, u: usize, w: usize) -> Self {
        self.rows[u] &= !(1 << w);
        self.rows[w] &= !(1 << u);
        self
    }

    /// The graph without vertex `v`; later vertices move down by one.
    pub fn without_vertex(&self, v: usize) -> Self {
        let squeeze = |row: VertexSet| {
            (row & all_vertices(v)) | (u32::from(row) >> (v + 1) << v) as VertexSet
        };
        let mut rows = [0; MAX_ORDER];
        for (new, old) in (0..self.order()).filter(|&w| w != v).enumerate() {
            rows[new] = squeeze(self.rows[old]);
        }
        Self::from_rows(self.order() - 1, rows)
    }

    /// The graph with a new last vertex joined to `neighbours`.
    pub fn with_vertex(mut self, neighbours: VertexSet) -> Self {
        let v = self.order();
        assert!(v < MAX_ORDER, "no room for another vertex");
        self.order += 1;
        for w in 0..MAX_ORDER {
            self.rows[w] |= if neighbours & (1 << w) != 0 { 1 << v } else { 0 };
        }
        self.rows[v] = neighbours;
        self
    }

    /// The edges (u, w) with u < w, in lexicographic order.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.order()).flat_map(move |u| {
            let later = (u32::from(self.rows[u]) >> (u + 1) << (u + 1)) as VertexSet;
            vertices(later).map(move |w| (u, w))
        })
    }

    /// The image under `label`: vertex `v` becomes `label[v]`. `label` must permute 0, …, n − 1.
    pub fn relabelled(&self, label: &[u8; MAX_ORDER]) -> Self {
        let image = map_sets(self.order(), &self.rows, label);
        let mut rows = [0; MAX_ORDER];
        for v in 0..self.order() {
            rows[label[v] as usize] = image[v];
        }
        Self::from_rows(self.order(), rows)
    }

    /// Whether any two vertices are joined by a path. The order-1 graph is connected; so is the
    /// order-0 graph here.
    pub fn is_connected(&self) -> bool {
        let mut reached: VertexSet = 1;
        loop {
            let next = vertices(reached).fold(reached, |set, v| set | self.rows[v]);
            if next == reached {
                return self.order() <= 1 || reached == all_vertices(self.order());
            }
            reached = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn transposing_swaps_rows_and_columns(n in 0usize..=16, sets: AdjacencyRows) {
            let transposed = transpose(n, &sets);
            for (a, y) in (0..16).flat_map(|a| (0..16).map(move |y| (a, y))) {
                prop_assert_eq!(transposed[y] >> a & 1 == 1, a < n && sets[a] >> y & 1 == 1);
            }
            prop_assert_eq!(transpose_portable(&sets), transpose(16, &sets));
        }
    }

    #[test]
    fn deleting_the_added_vertex_gives_the_graph_back() {
        let path = Graph::from_edges(4, [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(path.with_vertex(0b1010).without_vertex(4), path);
        assert_eq!(path.without_vertex(1), Graph::from_edges(3, [(1, 2)]));
    }

    #[test]
    fn code_round_trips_at_the_largest_order() {
        let complete = Graph::from_code(16, u128::MAX);
        assert_eq!(complete.size(), 120);
        assert_eq!(complete.code(), (1 << 120) - 1);
        assert_eq!(complete.without_vertex(0), Graph::from_code(15, u128::MAX));
    }

    #[test]
    fn connectivity_of_the_smallest_orders() {
        assert!(Graph::edgeless(1).is_connected());
        assert!(!Graph::edgeless(2).is_connected());
        assert!(Graph::from_edges(3, [(0, 2), (2, 1)]).is_connected());
        assert!(!Graph::from_edges(4, [(0, 1), (2, 3)]).is_connected());
    }
}
