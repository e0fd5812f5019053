//! Messages and service of `proto/trailtrap/v1/census.proto`, as `scripts/messages` generates them.
#![allow(missing_docs, clippy::missing_errors_doc)]

include!("trailtrap.v1.rs");

/// Version of the protocol. Both sides must speak the same one: a coordinator refuses to register
/// a worker of another version.
pub const PROTOCOL: u32 = 6;

/// A block travels in pieces of this many bytes, the last of which may be shorter.
pub const PIECE_BYTES: usize = 1 << 20;
