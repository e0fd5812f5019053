//! The coordinator of the Trail Trap census: schedule, leases, store, tables, and the command line.

pub mod census;
pub mod checks;
pub mod directory;
pub mod embedded;
pub mod forecast;
pub mod lease;
pub mod parents;
pub mod preflight;
pub mod report;
pub mod run;
pub mod schedule;
pub mod service;
pub mod solve;
pub mod status;
pub mod store;
pub mod wins;
