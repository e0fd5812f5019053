//! The process and the machine that it runs on.

pub mod arenas;
pub mod connections;
pub mod environment;
pub mod limits;
pub mod log;
pub mod open;
pub mod replace;
pub mod signals;
pub mod together;

use std::fs;

/// The name of this host.
pub fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "localhost".to_owned() } else { host.trim().to_owned() }
}

/// The name of this host and process, for people.
pub fn identity() -> String {
    format!("{}/{}", host(), std::process::id())
}
