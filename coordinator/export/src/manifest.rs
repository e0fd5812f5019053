//! The manifest of a bundle: what was exported, from what, and by what.

use serde::Serialize;
use trailtrap_shared::count::digest::Digest;

/// Version of the layout of bundles and of their manifests.
pub const BUNDLE_FORMAT: u32 = 1;

/// What the program knows of itself.
#[derive(Serialize)]
pub struct Program {
    pub name: &'static str,
    pub version: &'static str,
    pub commit: &'static str,
    pub compiler: &'static str,
    pub nauty: String,
}

/// What bytes in stores and digests are written in.
#[derive(Serialize)]
pub struct Formats {
    pub public_digest: u32,
    pub labelling: u16,
    pub block: u16,
    pub game: u16,
}

/// `manifest.json`.
#[derive(Serialize)]
pub struct Manifest {
    pub bundle_format: u32,
    pub title: String,
    pub game: String,
    pub exported_by: Program,
    pub formats: Formats,
    pub orders: Vec<OrderEntry>,
}

/// What is known about an order.
#[derive(Serialize)]
pub struct OrderEntry {
    pub order: usize,
    pub graphs: u64,
    pub p1_wins: u64,
    /// Public digest of all records.
    pub digest: Digest,
    pub checks: &'static str,
    pub shards: usize,
    pub units: u32,
    pub trust: Trust,
    pub part_graphs: u64,
    pub bucket_bytes: u64,
    /// Bytes of blocks that were stored.
    pub stored_bytes: u64,
    /// Time that its units took their threads, together.
    pub worker_seconds: f64,
    pub workers: Vec<WorkerEntry>,
    /// The table of shards, with the digest of each.
    pub shard_file: String,
    pub p1_win_list: ListEntry,
}

/// What was done, beside the checks, to find wrong results.
#[derive(Serialize)]
pub struct Trust {
    /// How often each graph was solved, by different workers with the same results: 2 if all units
    /// were solved again.
    pub replication: u32,
    /// Units that another worker solved again.
    pub units_confirmed: u32,
    /// Records that nauty derived again from their predecessors before they were let in, drawn at
    /// random.
    pub records_tried: u64,
    /// What was found wrong and put right; a bundle is made of orders without open alarms only.
    pub alarms_settled: usize,
}

/// Who solved how much: host and process, and the instructions they used.
#[derive(Serialize)]
pub struct WorkerEntry {
    pub name: String,
    pub shards: u64,
}

/// The list of P1-win graphs of an order.
#[derive(Serialize)]
pub struct ListEntry {
    pub graphs: usize,
    /// Of the text, not compressed.
    pub bytes: u64,
    pub sha256: String,
    /// `None` if the list is too large for the bundle.
    pub file: Option<String>,
}
