//! The manifest of a bundle: what was exported, from what, and by what.
//!
//! [`Manifest`] is what the bundle is written from and what it is checked by, so that a field
//! cannot mean one thing to the writer and another to the reader.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trailtrap_census::read::archive::ShardSummary;
use trailtrap_shared::{class::Class, count::digest::Digest};

use crate::shards;

/// Version of the layout of bundles and of their manifests. Programs read bundles of this version
/// and of earlier ones, and refuse others.
///
/// Those of version 1 lack the tables and plots that tell odd and even numbers of edges apart.
/// Those of versions 1 and 2 are about all graphs. Tables for people are compared with what this
/// program would write, and so are the title and what b-files say of themselves: where that is to
/// change, this does, too.
pub const BUNDLE_FORMAT: u32 = 3;

/// What the program knows of itself.
#[derive(Serialize, Deserialize)]
pub struct Program {
    /// The name of the program.
    pub name: String,
    /// Its version, as `--version` gives it.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
    /// The compiler that built it.
    pub compiler: String,
    /// The version of nauty that it is linked with.
    pub nauty: String,
}

/// What bytes in stores and digests are written in.
#[derive(Serialize, Deserialize)]
pub struct FormatVersions {
    /// Version of the public digest.
    pub public_digest: u32,
    /// Version of the canonical labelling.
    pub labelling: u16,
    /// Version of the format of blocks.
    pub block: u16,
    /// Number of the game, which says how its outcomes are encoded.
    pub game: u16,
}

/// `manifest.json`.
#[derive(Serialize, Deserialize)]
pub struct Manifest {
    /// [`BUNDLE_FORMAT`] of the program that made the bundle.
    pub bundle_format: u32,
    /// Title of the data.
    pub title: String,
    /// The game, and where it is defined.
    pub game: String,
    /// The class of graphs, by its name; there is no such field if these are all graphs.
    #[serde(default, skip_serializing_if = "is_of_all_graphs")]
    pub class: Class,
    /// The program that made the bundle.
    pub exported_by: Program,
    /// The formats of the store that the bundle was made from.
    pub formats: FormatVersions,
    /// Orders 1, 2, …, without a gap.
    pub orders: Vec<OrderEntry>,
}

fn is_of_all_graphs(class: &Class) -> bool {
    *class == Class::All
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is not JSON, or a field is missing or of another type.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    /// A later program made the bundle, in a format of its own.
    #[error("bundle format {0}; this program reads 1 to {BUNDLE_FORMAT}")]
    Format(u32),
    /// A class of graphs in a format that is about all graphs.
    #[error("bundles of format {bundle_format} are about all graphs, and this one names {class}")]
    Class {
        /// The format.
        bundle_format: u32,
        /// The class that it names.
        class: Class,
    },
}

impl Manifest {
    /// The text of `manifest.json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("manifests are plain data") + "\n"
    }

    /// Reads the text of `manifest.json`. What its fields say is not checked.
    ///
    /// # Errors
    /// If the format is one that is not known, or the text does not have all its fields.
    pub fn from_json(text: &[u8]) -> Result<Self, ManifestError> {
        /// What manifests of all formats have.
        #[derive(Deserialize)]
        struct Version {
            bundle_format: u32,
        }
        // The version comes first: manifests of a later one may have other fields.
        let Version { bundle_format } = serde_json::from_slice(text)?;
        if !(1..=BUNDLE_FORMAT).contains(&bundle_format) {
            return Err(ManifestError::Format(bundle_format));
        }
        let manifest: Manifest = serde_json::from_slice(text)?;
        match manifest.class {
            class if class != Class::All && bundle_format < 3 => {
                Err(ManifestError::Class { bundle_format, class })
            }
            _ => Ok(manifest),
        }
    }
}

/// What is known about an order.
#[derive(Serialize, Deserialize)]
pub struct OrderEntry {
    /// Number of vertices.
    pub order: usize,
    /// Graphs of this order, up to isomorphism.
    pub graphs: u64,
    /// Those of them that the first player wins.
    pub p1_wins: u64,
    /// Public digest of all records.
    pub digest: Digest,
    /// What the order was compared with before it was reported, in words.
    pub checks: String,
    /// Degree sequences of this order.
    pub shards: usize,
    /// Units that the work was split into.
    pub units: u32,
    /// What else was done to find wrong results.
    pub trust: Trust,
    /// Graphs that a unit was meant to have, at most.
    pub part_graphs: u64,
    /// Bytes of records that a bucket was meant to have, at most.
    pub bucket_bytes: u64,
    /// Bytes of blocks that were stored.
    pub stored_bytes: u64,
    /// Time that its units took their threads, together.
    pub worker_seconds: f64,
    /// Who solved it, sorted by name.
    pub workers: Vec<WorkerEntry>,
    /// The table of shards, with the digest of each.
    pub shard_file: String,
    /// The list of graphs that the first player wins.
    pub p1_win_list: ListEntry,
}

/// In a second.
pub(crate) const MICROSECONDS: f64 = 1e6;

/// What its shards tell of how an order was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// See [`OrderEntry::shards`].
    pub shards: usize,
    /// See [`OrderEntry::units`].
    pub units: u64,
    /// See [`Trust::units_confirmed`].
    pub units_confirmed: u64,
    /// See [`Trust::records_tried`].
    pub records_tried: u64,
    /// See [`OrderEntry::stored_bytes`].
    pub stored_bytes: u64,
    /// See [`OrderEntry::worker_seconds`].
    pub microseconds: u64,
    /// See [`OrderEntry::workers`]; the number of shards of each.
    pub workers: BTreeMap<String, u64>,
}

impl Done {
    /// The sums over all shards of an order, wherever these come from.
    pub fn of(shards: &[ShardSummary]) -> Self {
        let sum =
            |of: fn(&ShardSummary) -> u64| shards.iter().map(of).fold(0, u64::saturating_add);
        let mut workers = BTreeMap::new();
        // In the table of shards, names that have this in them are several.
        let names = shards.iter().flat_map(|shard| &shard.workers);
        for name in names.flat_map(|names| names.split(shards::BETWEEN_NAMES)) {
            *workers.entry(name.to_owned()).or_default() += 1;
        }
        Done {
            shards: shards.len(),
            units: sum(|shard| shard.parts.into()),
            units_confirmed: sum(|shard| shard.parts_confirmed.into()),
            records_tried: sum(|shard| shard.records_tried),
            stored_bytes: sum(|shard| shard.bytes),
            microseconds: sum(|shard| shard.microseconds),
            workers,
        }
    }

    /// See [`Trust::replication`].
    pub fn replication(&self) -> u32 {
        if self.units_confirmed == self.units { 2 } else { 1 }
    }
}

impl OrderEntry {
    /// What it says of how the order was done.
    pub fn done(&self) -> Done {
        Done {
            shards: self.shards,
            units: self.units.into(),
            units_confirmed: self.trust.units_confirmed.into(),
            records_tried: self.trust.records_tried,
            stored_bytes: self.stored_bytes,
            microseconds: (self.worker_seconds * MICROSECONDS).round() as u64,
            workers: self
                .workers
                .iter()
                .map(|worker| (worker.name.clone(), worker.shards))
                .collect(),
        }
    }
}

/// What was done, beside the checks, to find wrong results.
#[derive(Serialize, Deserialize)]
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
#[derive(Serialize, Deserialize)]
pub struct WorkerEntry {
    /// Host, process and instruction set.
    pub name: String,
    /// Shards of which this worker solved a unit or more.
    pub shards: u64,
}

/// The list of P1-win graphs of an order.
#[derive(Serialize, Deserialize)]
pub struct ListEntry {
    /// Lines of the list.
    pub graphs: u64,
    /// Of the text, not compressed.
    pub bytes: u64,
    /// SHA-256 of the text, not compressed, in hexadecimal.
    pub sha256: String,
    /// `None` if the list is too large for the bundle.
    pub file: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published bundle reads back, and is written as it was: readers elsewhere parse it.
    #[test]
    fn manifests_are_written_as_they_were_read() {
        let text = include_str!("../../../results/bundle/manifest.json");
        assert_eq!(Manifest::from_json(text.as_bytes()).unwrap().to_json(), text);
    }

    #[test]
    fn another_format_is_named_before_anything_else_is_read() {
        for format in ["0", "4"] {
            let text = format!("{{\"bundle_format\": {format}}}");
            let error = Manifest::from_json(text.as_bytes()).err().unwrap();
            let says = format!("bundle format {format}; this program reads 1 to 3");
            assert_eq!(error.to_string(), says);
        }
        assert!(matches!(
            Manifest::from_json(b"{\"bundle_format\": 1}"),
            Err(ManifestError::Malformed(_))
        ));
    }
}
