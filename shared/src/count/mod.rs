//! What is said of many graphs together: counts and sums, and the public digest.

pub mod ahead;
pub mod digest;
pub mod statistics;
pub mod summary;
