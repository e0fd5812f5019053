//! Who takes part in a census: workers that come over the network, and who of them is let in; and
//! the one in this process.

pub mod admission;
pub mod budget;
pub mod delivery;
pub mod embedded;
pub mod gate;
pub mod intake;
pub mod secrets;
pub mod service;
