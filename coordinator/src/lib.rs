//! The program `trailtrap`: its command line, the service of a coordinator, and verification.

pub mod cli;
mod forecast;
mod machine;
mod rehearsal;
mod sample;
pub mod serve;
mod terminal;
mod verify;
