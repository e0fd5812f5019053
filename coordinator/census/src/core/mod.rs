//! What decides without a store, a thread or a clock of its own.

pub mod comparison;
pub mod content;
pub mod lease;
pub mod parents;
pub mod random;
pub mod schedule;
