//! Simple undirected graphs of order at most 20, one adjacency set per vertex; and, for what is
//! worked on in bulk, sets of 16 bits, which are enough up to order 16.

use std::fmt;

/// Largest order a [`Graph`] can have.
pub const MAX_ORDER: usize = 20;

/// A set of vertices of one graph: bit `v` stands for vertex `v`.
pub type VertexSet = u32;

/// One set of vertices per vertex; entries from the order on are empty.
pub type AdjacencyRows = [VertexSet; MAX_ORDER];

/// Up to this order sets have 16 bits where there are many of them: in lanes of registers, and in
/// outcomes that wait for more edges.
pub const NARROW_ORDER: usize = 16;

/// [`AdjacencyRows`] of a graph of order at most [`NARROW_ORDER`].
pub type NarrowRows = [u16; NARROW_ORDER];

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

/// All vertices of a graph of order `n` (0 ≤ n ≤ 20).
#[inline]
pub const fn all_vertices(n: usize) -> VertexSet {
    (1 << n) - 1
}

/// Whether there are at least two vertices in a set; not every processor counts bits.
#[inline]
pub fn has_two(set: VertexSet) -> bool {
    set & set.wrapping_sub(1) != 0
}

/// A set of vertices when vertex v becomes `label[v]`, for v < `n`.
#[inline]
pub fn renamed(n: usize, set: VertexSet, label: &[u8]) -> VertexSet {
    (0..n).fold(0, |renamed, v| renamed | (set >> v & 1) << label[v])
}

/// A set for each vertex of a graph: a relation between vertices.
pub trait Rows: Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// There are so many sets, those from the order of the graph on empty.
    const LENGTH: usize;

    /// One set by itself.
    type Set: Copy + Default + PartialEq + fmt::Debug + Send + Sync + Into<VertexSet>;

    /// A set of vertices below [`Rows::LENGTH`].
    fn set(vertices: VertexSet) -> Self::Set;

    /// The `v`-th set.
    fn row(&self, v: usize) -> VertexSet;

    /// Adds vertices to the `v`-th set.
    fn add(&mut self, v: usize, more: VertexSet);

    /// How many vertices all sets have together.
    #[inline]
    fn count(&self) -> u32 {
        (0..Self::LENGTH).map(|v| self.row(v).count_ones()).sum()
    }

    /// The transposed relation: the y-th set of the result holds a if the a-th set holds y, for a
    /// < `n`.
    fn transposed(&self, n: usize) -> Self;

    /// The transposed relation when vertex v becomes `label[v]`, for v < `n`: the set of `label[y]`
    /// holds `label[a]` if the set of a holds y.
    #[inline]
    fn transposed_under(&self, n: usize, label: &[u8]) -> Self {
        // Transposing turns elements of sets into sets, which are renamed by moving them.
        let moved = |rows: &Self| {
            let mut moved = Self::default();
            (0..n).for_each(|v| moved.add(label[v].into(), rows.row(v)));
            moved
        };
        moved(&moved(self).transposed(n))
    }
}

// Loops over all sets, with the sets as lanes, are what compilers turn into a few vector
// instructions.

impl Rows for NarrowRows {
    const LENGTH: usize = NARROW_ORDER;

    type Set = u16;

    #[inline(always)]
    fn set(vertices: VertexSet) -> u16 {
        vertices as u16
    }

    #[inline(always)]
    fn row(&self, v: usize) -> VertexSet {
        self[v].into()
    }

    #[inline(always)]
    fn add(&mut self, v: usize, more: VertexSet) {
        self[v] |= more as u16;
    }

    #[inline]
    fn transposed(&self, n: usize) -> Self {
        let mut transposed = *self;
        transposed[n..].fill(0);
        #[cfg(target_arch = "x86_64")]
        return transpose_sse2(&transposed);
        #[cfg(not(target_arch = "x86_64"))]
        transpose_portable(&transposed)
    }
}

impl Rows for AdjacencyRows {
    const LENGTH: usize = MAX_ORDER;

    type Set = VertexSet;

    #[inline(always)]
    fn set(vertices: VertexSet) -> VertexSet {
        vertices
    }

    #[inline(always)]
    fn row(&self, v: usize) -> VertexSet {
        self[v]
    }

    #[inline(always)]
    fn add(&mut self, v: usize, more: VertexSet) {
        self[v] |= more;
    }

    fn transposed(&self, n: usize) -> Self {
        if n <= NARROW_ORDER && self[..n].iter().all(|&set| set >> NARROW_ORDER == 0) {
            return widened(&narrowed(self).transposed(n));
        }
        let mut transposed = [0; MAX_ORDER];
        for a in 0..n {
            for y in 0..MAX_ORDER {
                transposed[y] |= (self[a] >> y & 1) << a;
            }
        }
        transposed
    }
}

/// The sets of the first 16 vertices, without vertices from 16 on.
#[inline]
pub fn narrowed(rows: &AdjacencyRows) -> NarrowRows {
    std::array::from_fn(|v| rows[v] as u16)
}

/// The same sets with more room.
#[inline]
pub fn widened(rows: &NarrowRows) -> AdjacencyRows {
    let mut wide = [0; MAX_ORDER];
    for v in 0..NARROW_ORDER {
        wide[v] = rows[v].into();
    }
    wide
}

/// Whether two vertices have the same neighbours apart from each other.
#[inline]
pub fn are_twins(rows: &AdjacencyRows, v: usize, w: usize) -> bool {
    (rows[v] ^ rows[w]) & !(1 << v | 1 << w) == 0
}

/// The vertices that paths lead to from `v`, itself among them.
pub fn component(rows: &AdjacencyRows, v: usize) -> VertexSet {
    let (mut reached, mut level): (VertexSet, VertexSet) = (1 << v, 1 << v);
    while level != 0 {
        level = vertices(level).fold(0, |next, w| next | rows[w]) & !reached;
        reached |= level;
    }
    reached
}

/// Every x86-64 processor has SSE2.
#[cfg(target_arch = "x86_64")]
#[inline]
fn transpose_sse2(sets: &NarrowRows) -> NarrowRows {
    use std::arch::x86_64::*;
    // SAFETY: the loads read the 32 bytes of `sets`.
    transpose_lanes(unsafe {
        [_mm_loadu_si128(sets.as_ptr().cast()), _mm_loadu_si128(sets.as_ptr().add(8).cast())]
    })
}

/// The transposed relation of 16 sets, eight in the lanes of each register.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn transpose_lanes(sets: [std::arch::x86_64::__m128i; 2]) -> NarrowRows {
    use std::arch::x86_64::*;
    // SAFETY: these are operations on registers.
    unsafe {
        // The lower bytes of the 16 sets, and the upper bytes.
        let byte = _mm_set1_epi16(0xff);
        let [first, second] = sets;
        let mut low = _mm_packus_epi16(_mm_and_si128(first, byte), _mm_and_si128(second, byte));
        let mut high = _mm_packus_epi16(_mm_srli_epi16::<8>(first), _mm_srli_epi16::<8>(second));
        let mut transposed = [0; NARROW_ORDER];
        for y in (0..8).rev() {
            // The topmost bits of all bytes.
            transposed[y] = _mm_movemask_epi8(low) as u16;
            transposed[y + 8] = _mm_movemask_epi8(high) as u16;
            low = _mm_add_epi8(low, low);
            high = _mm_add_epi8(high, high);
        }
        transposed
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn transpose_portable(sets: &NarrowRows) -> NarrowRows {
    let mut transposed = [0; NARROW_ORDER];
    for a in 0..NARROW_ORDER {
        for y in 0..NARROW_ORDER {
            transposed[y] |= if sets[a] & (1 << y) != 0 { 1 << a } else { 0 };
        }
    }
    transposed
}

/// The edges of a graph as one number of up to C(20, 2) = 190 bits: the pair i < j stands at bit
/// j(j − 1)/2 + i (column by column, as in graph6). Codes are ordered as these numbers are, and so
/// the parts stand in this order: canonical labels depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code {
    /// The columns from j = 16 on.
    beyond: u128,
    /// The bits of the first 16 vertices, C(16, 2) = 120 of them.
    first: u128,
}

impl Code {
    /// The bits of the first 16 vertices: of a graph of order at most 16, all of them.
    #[inline]
    pub fn narrow(self) -> u128 {
        self.first
    }

    /// The columns from j = 16 on, in the same order.
    #[inline]
    pub fn beyond(self) -> u128 {
        self.beyond
    }

    /// From both parts. More bits than there are pairs are ignored.
    #[inline]
    pub fn new(first: u128, beyond: u128) -> Self {
        let pairs_beyond = pairs(MAX_ORDER) - pairs(NARROW_ORDER);
        Code { beyond: beyond & ((1 << pairs_beyond) - 1), ..Code::from(first) }
    }

    /// The vertices i < j joined to j, below [`MAX_ORDER`].
    #[inline]
    pub fn column(self, j: usize) -> VertexSet {
        let bits = match j < NARROW_ORDER {
            true => self.first >> pairs(j),
            false => self.beyond >> (pairs(j) - pairs(NARROW_ORDER)),
        };
        bits as VertexSet & all_vertices(j)
    }

    /// Adds vertices i < j to what is joined to j.
    #[inline]
    pub fn add_column(&mut self, j: usize, column: VertexSet) {
        match j < NARROW_ORDER {
            true => self.first |= u128::from(column) << pairs(j),
            false => self.beyond |= u128::from(column) << (pairs(j) - pairs(NARROW_ORDER)),
        }
    }
}

/// The bits of the first 16 vertices; more are ignored.
impl From<u128> for Code {
    #[inline]
    fn from(first: u128) -> Self {
        Code { beyond: 0, first: first & ((1 << pairs(NARROW_ORDER)) - 1) }
    }
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

/// A finite simple undirected graph on the vertices 0, …, n − 1, with n ≤ 20.
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

    /// The graph of order `n` with this code. Columns from `n` on are ignored.
    pub fn from_code(n: usize, code: impl Into<Code>) -> Self {
        let code = code.into();
        let mut columns = [0; MAX_ORDER];
        for j in 1..n {
            columns[j] = code.column(j);
        }
        let later = columns.transposed(n);
        Self::from_rows(n, std::array::from_fn(|v| columns[v] | later[v]))
    }

    /// The inverse of [`Graph::from_code`].
    pub fn code(&self) -> Code {
        // Loops of constant length become shifts by constants, and the columns of the first eleven
        // vertices fit one register. Vertices beyond the order have no neighbours.
        const MIDDLE: usize = 11;
        let column = |j: usize| self.rows[j] & all_vertices(j);
        let low = (1..MIDDLE).fold(0, |code, j| code | u64::from(column(j)) << pairs(j));
        let high = (MIDDLE..NARROW_ORDER)
            .fold(0, |code, j| code | u128::from(column(j)) << (pairs(j) - pairs(MIDDLE)));
        let mut code = Code { beyond: 0, first: u128::from(low) | high << pairs(MIDDLE) };
        for j in NARROW_ORDER..self.order() {
            code.add_column(j, column(j));
        }
        code
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
        let squeeze = |row: VertexSet| (row & all_vertices(v)) | row >> (v + 1) << v;
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
            self.rows[w] |= (neighbours >> w & 1) << v;
        }
        self.rows[v] = neighbours;
        self
    }

    /// The edges (u, w) with u < w, in lexicographic order.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.order())
            .flat_map(move |u| vertices(self.rows[u] >> (u + 1) << (u + 1)).map(move |w| (u, w)))
    }

    /// The image under `label`: vertex `v` becomes `label[v]`. `label` must permute 0, …, n − 1.
    pub fn relabelled(&self, label: &[u8; MAX_ORDER]) -> Self {
        // The relation is its own transposed one.
        Self::from_rows(self.order(), self.rows.transposed_under(self.order(), label))
    }

    /// Whether any two vertices are joined by a path. The order-1 graph is connected; so is the
    /// order-0 graph here.
    pub fn is_connected(&self) -> bool {
        self.order() <= 1 || component(&self.rows, 0) == all_vertices(self.order())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Of narrow sets in both ways, and of wide ones.
        #[test]
        fn transposing_swaps_rows_and_columns(
            n in 0..=MAX_ORDER,
            sets in prop::array::uniform20(0..=all_vertices(MAX_ORDER)),
        ) {
            let transposed = sets.transposed(n);
            for (a, y) in (0..MAX_ORDER).flat_map(|a| (0..MAX_ORDER).map(move |y| (a, y))) {
                prop_assert_eq!(transposed[y] >> a & 1 == 1, a < n && sets[a] >> y & 1 == 1);
            }
            let (sets, n) = (narrowed(&sets), n.min(NARROW_ORDER));
            let mut first = sets;
            first[n..].fill(0);
            prop_assert_eq!(transpose_portable(&first), sets.transposed(n));
            prop_assert_eq!(widened(&first).transposed(n), widened(&sets.transposed(n)));
        }

        /// Of narrow sets and of wide ones.
        #[test]
        fn transposing_under_labels_renames_all(
            n in 1..=MAX_ORDER,
            sets in prop::array::uniform20(0..=all_vertices(MAX_ORDER)),
            order in Just((0..MAX_ORDER as u8).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let label: Vec<u8> = order.into_iter().filter(|&v| usize::from(v) < n).collect();
            let within = sets.map(|set| set & all_vertices(n));
            let renamed = within.transposed_under(n, &label);
            for (a, y) in (0..n).flat_map(|a| (0..n).map(move |y| (a, y))) {
                let [to_a, to_y] = [a, y].map(|v| usize::from(label[v]));
                prop_assert_eq!(renamed[to_y] >> to_a & 1, within[a] >> y & 1);
            }
            prop_assert!(renamed[n..].iter().all(|&set| set == 0));
            prop_assert!(renamed.iter().all(|set| set & !all_vertices(n) == 0));
            if n <= NARROW_ORDER {
                let narrow = narrowed(&within).transposed_under(n, &label);
                prop_assert_eq!(widened(&narrow), renamed);
            }
        }

        #[test]
        fn codes_round_trip(n in 0..=MAX_ORDER, first: u128, beyond: u128) {
            let any = Code { beyond: beyond >> 58, first: first >> 8 };
            let graph = Graph::from_code(n, any);
            prop_assert_eq!(Graph::from_code(n, graph.code()), graph);
            let columns = (1..n).map(|j| any.column(j).count_ones() as usize);
            prop_assert_eq!(graph.size(), columns.sum::<usize>());
            (0..n).for_each(|j| assert_eq!(graph.code().column(j), any.column(j)));
        }
    }

    #[test]
    fn deleting_the_added_vertex_gives_the_graph_back() {
        let path = Graph::from_edges(4, [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(path.with_vertex(0b1010).without_vertex(4), path);
        assert_eq!(path.without_vertex(1), Graph::from_edges(3, [(1, 2)]));
    }

    #[test]
    fn complete_graphs_have_all_bits() {
        let complete = Graph::from_code(16, u128::MAX);
        assert_eq!(complete.size(), 120);
        assert_eq!(complete.code().narrow(), (1 << 120) - 1);
        assert_eq!(complete.without_vertex(0), Graph::from_code(15, u128::MAX));
        let all = Code { beyond: u128::MAX, first: u128::MAX };
        assert_eq!(Graph::from_code(MAX_ORDER, all).size(), pairs(MAX_ORDER));
    }

    #[test]
    fn codes_are_ordered_as_numbers() {
        let code = |edge: (usize, usize)| Graph::from_edges(MAX_ORDER, [edge]).code();
        let pairs = (1..MAX_ORDER).flat_map(|w| (0..w).map(move |u| (u, w)));
        let codes: Vec<Code> = pairs.map(code).collect();
        assert!(codes.is_sorted_by(|a, b| a < b));
        let first = Graph::from_code(MAX_ORDER, u128::MAX).code();
        assert!(first < code((0, 16)) && first > code((14, 15)));
    }

    #[test]
    fn connectivity_of_the_smallest_orders() {
        assert!(Graph::edgeless(1).is_connected());
        assert!(!Graph::edgeless(2).is_connected());
        assert!(Graph::from_edges(3, [(0, 2), (2, 1)]).is_connected());
        assert!(!Graph::from_edges(4, [(0, 1), (2, 3)]).is_connected());
    }
}
