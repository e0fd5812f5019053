//! The program `trailtrap`: its command line, the service of a coordinator, and verification.

pub mod cli;
pub mod forecast;
pub mod rehearsal;
pub mod sample;
pub mod serve;
pub mod terminal;
pub mod verify;
