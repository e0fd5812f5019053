//! Who takes part in a census: workers that come over the network, and who of them is let in; and
//! the one in this process.

pub(crate) mod admission;
mod budget;
mod delivery;
pub mod embedded;
mod gate;
mod intake;
pub(crate) mod secrets;
pub mod service;
