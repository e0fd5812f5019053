//! Finished orders as tables, sequences, lists, plots and bundles for others to read.
//!
//! Whatever is exported follows from the data directory and the program alone: the same bytes
//! every time.

pub mod bundle;
pub mod chart;
pub mod choice;
pub mod documents;
pub mod formats;
pub mod graphs;
pub mod latex;
pub mod manifest;
pub mod output;
pub mod picture;
pub mod plots;
pub mod sequences;
pub mod shards;
pub mod sheet;
pub mod table;
pub mod tables;

use std::{io, path::PathBuf};

use trailtrap_census::read::archive::{ArchiveError, Completeness};

/// Why something cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("cannot write {path}; choose another place for it, or make room there")]
    Target { path: PathBuf, source: io::Error },
    #[error("cannot write to standard output")]
    Write(#[from] io::Error),
    #[error("{0} exists already; name a new directory for the bundle, or move the old one away")]
    Exists(PathBuf),
    #[error(
        "the format of {0} is not told by its name: end it in .svg, .pdf or .png, or say --format"
    )]
    PictureFormat(PathBuf),
    #[error(
        "order {order} {status}, and a list in graph6 has no room for such a note: let the name \
         of {path} say `unfinished`"
    )]
    Unmarked { order: usize, status: Completeness, path: PathBuf },
    #[error("a number of column {column} takes more than 64 bits")]
    TooLarge { column: String },
    #[error("cannot make a Parquet file")]
    Parquet(#[from] parquet::errors::ParquetError),
}
