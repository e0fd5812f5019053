//! The coordinator of the Trail Trap census: schedule, leases, store, tables, and the command
//! line.

pub mod admission;
pub mod alarm;
pub mod answers;
pub mod budget;
pub mod census;
pub mod checks;
pub mod comparison;
pub mod content;
pub mod directory;
pub mod embedded;
pub mod export;
pub mod finished;
pub mod forecast;
pub mod input;
pub mod lease;
pub mod lookup;
pub mod names;
pub mod parents;
pub mod preflight;
pub mod progress;
pub mod random;
pub mod report;
pub mod run;
pub mod salvage;
pub mod schedule;
pub mod secrets;
pub mod service;
pub mod solve;
pub mod status;
pub mod store;
pub mod trial;
pub mod verify;
