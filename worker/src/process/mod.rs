//! The process and the machine that it runs on.

pub mod limits;
pub mod log;
pub mod signals;

use std::{
    fs,
    hash::{BuildHasher, RandomState},
};

/// The name of this host.
pub fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "localhost".to_owned() } else { host.trim().to_owned() }
}

/// The name of this host and process, for people.
pub fn identity() -> String {
    format!("{}/{}", host(), std::process::id())
}

/// A number that nobody else will draw, on this machine or another: for names of files in
/// directories that are shared.
pub fn nonce() -> u64 {
    // The standard library seeds its hashes from the system's random numbers, each anew.
    RandomState::new().hash_one(())
}
