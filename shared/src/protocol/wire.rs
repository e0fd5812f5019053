//! Messages and service of `proto/trailtrap/v1/census.proto`.
#![allow(missing_docs)]

tonic::include_proto!("trailtrap.v1");

/// Version of the protocol; both sides must speak the same.
pub const PROTOCOL: u32 = 4;

/// Blocks are sent in pieces of this many bytes.
pub const PIECE_BYTES: usize = 1 << 20;
