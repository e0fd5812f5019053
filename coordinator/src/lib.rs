//! The coordinator of the Trail Trap census: the service, exports, verification, and the command
//! line.

pub mod admission;
pub mod alarms;
pub mod answers;
pub mod budget;
pub mod embedded;
pub mod export;
pub mod forecast;
pub mod input;
pub mod lookup;
pub mod preflight;
pub mod progress;
pub mod report;
pub mod run;
pub mod salvage;
pub mod secrets;
pub mod service;
pub mod solve;
pub mod verify;
