//! Random graphs, and what a sample of them tells. Pure: graphs follow from a seed, estimates from
//! counts.

pub mod draw;
pub mod estimate;
pub mod model;
pub mod strata;
