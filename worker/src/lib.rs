//! The worker of the Trail Trap census: the solving kernel, the partition cache and the loop that
//! leases, solves and delivers.

#![warn(missing_docs, clippy::missing_errors_doc, clippy::undocumented_unsafe_blocks)]

pub mod cache;
pub mod engine;
pub mod kernel;
pub mod link;
pub mod process;
pub mod supply;
