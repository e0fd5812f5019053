//! What a census takes, before anything runs: exact counts, and a simulation of the machines that
//! it shall run on.

mod calibration;
mod cluster;
mod simulation;

pub use calibration::{Calibration, calibrate};
pub use cluster::{Cluster, Rate};
pub use simulation::{Forecast, Question, Simulated, simulate};
