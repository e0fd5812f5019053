//! Graphs of order at most 20: sets of bits, their text, and what is known of them by theory or by
//! nauty.

mod bitset;
pub mod degree;
#[cfg(test)]
pub(crate) mod families;
pub mod graph6;
pub mod invariants;
pub mod involution;
#[cfg(any(test, feature = "nauty"))]
pub mod nauty;
pub mod polya;

#[cfg(target_arch = "x86_64")]
pub(crate) use bitset::transpose_lanes;
pub use bitset::{
    AdjacencyRows, Code, Graph, MAX_ORDER, NARROW_ORDER, NarrowRows, Rows, VertexSet,
    all_vertices, are_twins, component, factorial, has_two, narrowed, pairs, renamed, vertices,
    widened,
};
