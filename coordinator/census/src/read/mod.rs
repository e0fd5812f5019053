//! What others read of a census: finished orders, and how far it is.

pub mod archive;
pub mod finished;
pub mod status;

pub use crate::{records::OrderResult, watch::Watcher};
