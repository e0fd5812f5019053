//! The worker of the Trail Trap census: the solving kernel, the forward solver, the partition
//! cache and the loop that leases, solves and delivers.

pub mod access;
pub mod cache;
pub mod client;
pub mod depot;
pub mod disk;
pub mod engine;
pub mod machine;
pub mod memory;
pub mod offline;
pub mod solve;
pub mod supply;

#[cfg(test)]
mod tests;
