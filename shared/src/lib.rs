//! What coordinator and workers of the Trail Trap census have in common.

pub mod codec;
pub mod degree;
pub mod digest;
pub mod extension;
pub mod game;
pub mod graph;
pub mod graph6;
pub mod invariants;
pub mod labelling;
pub mod nauty;
pub mod partition;
pub mod plan;
pub mod polya;
pub mod statistics;

/// Messages and service of `proto/trailtrap/v1/census.proto`.
#[allow(missing_docs)]
pub mod wire {
    tonic::include_proto!("trailtrap.v1");

    /// Version of the protocol; both sides must speak the same.
    pub const PROTOCOL: u32 = 4;

    /// Blocks are sent in pieces of this many bytes.
    pub const PIECE_BYTES: usize = 1 << 20;
}
