//! What coordinator and workers of the Trail Trap census have in common. Nothing here opens a file
//! or a connection.
//!
//! The stations of one graph:
//!
//! 1. [`generate`] makes it from its canonical parent,
//! 2. [`labelling`] finds its canonical form,
//! 3. [`game`] combines its outcome from those of the graphs with one edge less,
//! 4. [`partition`] keeps its record, in a table and in blocks,
//! 5. [`count`] adds it to statistics and digest,
//! 6. [`protocol`] carries all that between a worker and its coordinator.
//!
//! [`plan`] says beforehand how the graphs of an order are split into shards, parts and buckets;
//! [`graph`] is what all of them work on, and [`class`] says which of all graphs a
//! census is about, if it is not about all. [`sample`] draws graphs instead of making all.

pub mod class;
pub mod count;
pub mod game;
pub mod generate;
pub mod graph;
pub mod labelling;
pub mod partition;
pub mod plan;
pub mod protocol;
pub mod sample;
