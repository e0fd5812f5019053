//! What a census takes, before anything runs: exact counts, and a simulation of the machines that
//! it shall run on.

mod calibration;
mod cluster;
mod machines;
mod simulation;

pub use calibration::{Calibration, calibrate};
pub use cluster::{Cluster, Rate};
pub use machines::{Lease, Machines, stored_bytes};
pub use simulation::{Busy, Forecast, Moment, Question, Simulated, simulate};
