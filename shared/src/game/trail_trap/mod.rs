//! Trail Trap (Buchanan et al., arXiv 2405.05195): each player draws a trail with their own token;
//! an edge used by either is gone for both; who cannot move loses.

pub mod forward;
mod recurrence;
pub mod rederive;

pub use recurrence::{Outcome, TrailTrap};

/// Connected graphs of order n = 3, …, 7 that P2 wins: Table 1 of the paper.
pub const TABLE_1: [u128; 5] = [2, 4, 17, 88, 734];
