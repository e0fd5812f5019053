//! What others read of a census: finished orders, and how far it is.

pub mod finished;
pub mod status;
