//! What coordinators and workers say to each other, and what they need to find each other.

pub mod access;
pub mod codec;
pub mod messages;
pub mod shelves;
pub mod wire;
