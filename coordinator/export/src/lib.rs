//! Finished orders as tables, sequences, lists, plots and bundles for others to read.
//!
//! Whatever is exported follows from the data directory and the program alone: the same bytes
//! every time.

pub mod bundle;
pub mod chart;
pub mod choice;
mod columnar;
mod columns;
pub mod documents;
mod examined;
pub mod formats;
pub mod graphs;
mod latex;
pub mod manifest;
pub mod output;
mod parity;
pub mod picture;
pub mod plots;
pub mod proportions;
pub mod sequences;
pub mod shards;
pub mod sheet;
pub mod table;
pub mod tables;

use std::{io, path::PathBuf};

use trailtrap_census::read::archive::{ArchiveError, Completeness};
use trailtrap_shared::class::Class;

/// Why something cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The data directory does not have what is to be exported, or cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A file or directory cannot be written.
    #[error("cannot write {path}; choose another place for it, or make room there")]
    Target {
        /// The place that was asked for.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Standard output, or another writer without a name, cannot be written.
    #[error("cannot write to standard output")]
    Write(#[from] io::Error),
    /// Whoever watches wants no more of it.
    #[error("stopped; nothing is left of it")]
    Stopped,
    /// A bundle would overwrite something.
    #[error("{0} exists already; name a new directory for the bundle, or move the old one away")]
    Exists(PathBuf),
    /// The end of the name is that of no format: whatever was written, nobody would expect it there.
    #[error(
        "the format of {0} is not told by its name: end it in .tex, .csv, .json, .parquet, .md or \
         .txt, or say --format"
    )]
    TableFormat(PathBuf),
    /// The end of the name is that of a format of tables, and not of this one.
    #[error(
        "{0} would be Parquet, and its name says otherwise: end it in .parquet, or use `trailtrap \
         export table degrees`, which has fewer columns"
    )]
    ShardsFormat(PathBuf),
    /// The end of the name is that of another format of graphs, or of a format of tables.
    #[error(
        "{0} would be graph6, and its name says otherwise: end it in .g6, or in .g6.gz to have it \
         compressed; `nauty-copyg -s` makes sparse6 of that"
    )]
    GraphsFormat(PathBuf),
    /// Neither the name of a file nor an option says how to write a picture.
    #[error(
        "the format of {0} is not told by its name: end it in .svg, .pdf or .png, or say --format"
    )]
    PictureFormat(PathBuf),
    /// A list that may lack graphs would look like a complete one.
    #[error(
        "order {order} {status}, and a list in graph6 has no room for such a note: let the name \
         of {path} say `{}`",
        status.mark()
    )]
    Unmarked {
        /// The order of the list.
        order: usize,
        /// Why graphs may be missing.
        status: Completeness,
        /// The file that was asked for.
        path: PathBuf,
    },
    /// The table looks at every graph.
    #[error("order {order} has too many graphs to look at each of them; order {last} is the last")]
    ManyGraphs {
        /// The order.
        order: usize,
        /// The last one whose graphs are looked at.
        last: usize,
    },
    /// The table is about the rules of one game.
    #[error("the census is of {game}; this table is about Trail Trap")]
    OtherGame {
        /// The game of the census.
        game: &'static str,
    },
    /// A graph of the census is missing, or changed.
    #[error(
        "the graphs of order {order} in the store are not those that were counted; see \
         `trailtrap verify {order}`"
    )]
    Sums {
        /// The order.
        order: usize,
    },
    /// A theorem, forward search, or play by its length, disagrees with the census.
    #[error(
        "CONTRADICTION: the census says that {winner} wins {graph6}, and by {says} it is the \
         other player; nothing is exported. Please report this graph"
    )]
    Contradiction {
        /// The graph.
        graph6: String,
        /// Who wins by the census.
        winner: &'static str,
        /// What says otherwise.
        says: String,
    },
    /// The list of a class would look like one of all graphs.
    #[error(
        "this is a census of the class {class}, and a list in graph6 has no room for such a note: \
         let the name of {path} say `{}`",
        class.file_stem()
    )]
    Unnamed {
        /// The class of the census.
        class: Class,
        /// The file that was asked for.
        path: PathBuf,
    },
    /// A number does not fit into a Parquet file.
    #[error("a number of column {column} takes more than 64 bits")]
    TooLarge {
        /// The column that it belongs to.
        column: String,
    },
    /// The Parquet library failed.
    #[error("cannot make a Parquet file")]
    Parquet(#[from] parquet::errors::ParquetError),
}
