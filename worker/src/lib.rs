//! The worker of the Trail Trap census: the solving kernel, the partition cache and the loop that
//! leases, solves and delivers.

pub mod access;
pub mod cache;
pub mod counting;
pub mod engine;
pub mod kernel;
pub mod link;
pub mod memory;
pub mod process;
pub mod supply;
