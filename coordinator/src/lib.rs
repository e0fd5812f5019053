//! The program `trailtrap`: its command line, the service of a coordinator, and verification.

#![warn(missing_docs, clippy::missing_errors_doc, clippy::undocumented_unsafe_blocks)]

pub mod cli;
pub mod serve;
pub mod terminal;
pub mod verify;
