//! What can be wrong with a store, and whose fault it is: that of the data, or of the system that
//! keeps them.

use std::{io, path::PathBuf};

use trailtrap_shared::{
    class::Class,
    game::GameName,
    partition::{BlockError, BlockId},
    protocol::codec::CodecError,
};
use trailtrap_worker::{process::open, supply::kept::Mark};

/// What helps when a database is damaged.
pub(crate) const REMEDY: &str = "`trailtrap salvage` with the same --data keeps what is undamaged, and a \
                      census solves the rest again";

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// RocksDB refuses, for another reason than damage: mostly because the system does.
    #[error(transparent)]
    Database(rocksdb::Error),
    /// RocksDB finds its files damaged or missing.
    #[error("the database is damaged ({0}); {REMEDY}")]
    Damaged(rocksdb::Error),
    /// A table of the database is cut, or missing.
    #[error(
        "the database is damaged ({file} does not have the {bytes} bytes that it should have); \
         {REMEDY}"
    )]
    Table {
        /// Its name.
        file: String,
        /// Its length, as the manifest has it.
        bytes: u64,
    },
    /// In a log of the database, or in its manifest, stands what RocksDB does not write there, and
    /// may read for ever.
    #[error(
        "the database is damaged (at byte {at} of {file} stands what is not written there); \
         {REMEDY}"
    )]
    Log {
        /// Its name.
        file: String,
        /// Where it stands.
        at: u64,
    },
    /// The database is older than its journal says.
    #[error(
        "the database has lost its last writes: by its journal, {lost} were durable, and are not \
         there any more; {REMEDY}"
    )]
    RolledBack {
        /// What was durable.
        lost: Lost,
    },
    /// The database may have forgotten files.
    #[error(
        "the manifest of the database is damaged or missing: by its journal, something else \
         stood in it; {REMEDY}"
    )]
    Manifest,
    /// The system did not let the store be used, for as long as it was tried.
    #[error(
        "the system does not let {path} be used ({cause}); everything finished is kept. When it \
         does, the same command goes on. If files there stay unreadable, `trailtrap salvage` \
         with the same --data keeps the rest, and a census solves again what is missing"
    )]
    Failing {
        /// The directory of the database.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// The depot in which blocks are kept cannot be used.
    #[error("the depot {path} cannot be used: {cause}")]
    Depot {
        /// Its directory, or the address of its object store.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The depot in which blocks are kept is not there.
    #[error(
        "the census keeps its graphs in the depot {path}, and this is not there now, or another one \
         is: mount its file system (for an object store, look at AWS_ENDPOINT_URL), or, if it was \
         moved, link the new place there or have `trailtrap census` or `trailtrap coordinator` know \
         of it by --depot. If it is there, its mark, {}, was lost: put an empty one there. If it is \
         lost for good, do that in an empty one, and use `trailtrap salvage`",
        mark.file_name()
    )]
    DepotAway {
        /// Its directory, or the address of its object store.
        path: PathBuf,
        /// Its mark.
        mark: Mark,
    },
    /// Another depot was given than that in which blocks are kept.
    #[error(
        "the census keeps its graphs in the depot {kept}, and {asked} is not that one: leave out \
         --depot, or, if it was moved, say where it is now. If it is that one, its mark, {}, was \
         lost: put an empty one there",
        mark.file_name()
    )]
    OtherDepot {
        /// Its mark.
        mark: Mark,
        /// The depot of the store.
        kept: PathBuf,
        /// The one that was given.
        asked: PathBuf,
    },
    /// Blocks lie on the shelves of workers, which nobody knows who is not their coordinator.
    #[error(
        "graphs of this census lie on the shelves of its workers: go on with `trailtrap \
         coordinator` and these workers; they are not there for anything else"
    )]
    OnShelves,
    /// Blocks of the last order lie on the shelves of workers, which a salvage does not reach.
    #[error(
        "graphs and outcomes of order {order} lie on the shelves of workers, which this does not \
         reach: they would be left out, and all that is of no use without them. `trailtrap \
         coordinator` goes on with it, if the database opens; if it does not, use --force"
    )]
    SalvageOfShelves {
        /// The last order.
        order: usize,
    },
    /// A block was waited for whose shelves are away, and the census is closed meanwhile: nothing is
    /// said about the block.
    #[error("the census is closed")]
    Closed,
    /// Blocks lie in a depot, and were to lie on shelves.
    #[error(
        "this census keeps its graphs in the depot {0}: go on without --shelves, or choose another \
         directory with --data"
    )]
    InDepot(PathBuf),
    /// The journal cannot be read or written.
    #[error("the journal of the store: {0}")]
    Journal(io::Error),
    /// Nothing of it can be read.
    #[error(
        "nothing of it can be read: move it away, or choose another directory with --data, and \
         begin a new census"
    )]
    Wrecked,
    /// It was opened to look at.
    #[error("the store is only open to be read")]
    ReadOnly,
    /// The blocks of a unit are sound, and not those that its record names.
    #[error("its blocks are not those that were recorded")]
    Content,
    /// Its directory, a file of it that the database does not look after, or a log of the database
    /// cannot be made, read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has another format than this program reads.
    #[error(
        "it was written with {what} {found}, this program has {expected}: use the program \
         version that wrote it, or another directory"
    )]
    Version {
        /// Of what there are versions.
        what: &'static str,
        /// The version in the store.
        found: u16,
        /// The version of this program.
        expected: u16,
    },
    /// Its results are invented.
    #[error("it is what a rehearsal has left, and everything in it is invented: delete it")]
    Rehearsal,
    /// It is of a game, or on a class, with this number.
    #[error(
        "it is of game and class number {0}, which this program does not know: use the program \
         version that wrote it, or another directory"
    )]
    UnknownGame(u16),
    /// It is of another game than was asked for.
    #[error(
        "it is a census of the game {found}: go on with that one by `--game {found}`, or choose \
         another directory for {asked}"
    )]
    OtherGame {
        /// The game of the store.
        found: GameName,
        /// The game that was asked for.
        asked: GameName,
    },
    /// It is about another class of graphs than was asked for.
    #[error(
        "it is a census of the class {found}: go on with that one by `--class {found}`, or choose \
         another directory for {asked}"
    )]
    OtherClass {
        /// The class of the store.
        found: Class,
        /// The class that was asked for.
        asked: Class,
    },
    /// The bytes of a record cannot be read.
    #[error("record {key} is damaged")]
    Record {
        /// Its key in the database.
        key: String,
        /// What is wrong with them.
        source: CodecError,
    },
    /// The bytes of a block cannot be read.
    #[error("the block ({id}) is damaged")]
    Block {
        /// Which block.
        id: BlockId,
        /// What is wrong with them.
        source: BlockError,
    },
    /// There is no such block.
    #[error("the block ({0}) is missing")]
    MissingBlock(BlockId),
    /// RocksDB cannot read a block.
    #[error("the block ({id}) cannot be read")]
    UnreadableBlock {
        /// Which block.
        id: BlockId,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The plan of this order has another fingerprint than the record of the order.
    #[error(
        "order {0} was split by another version of this program: use that version, or another \
         directory"
    )]
    Plan(usize),
}

/// How many records of each kind the database had, and has in an older state or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Records of units.
    pub units: usize,
    /// Records of orders.
    pub orders: usize,
    /// Alarms.
    pub alarms: usize,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Lost { units, orders, alarms } = self;
        match (units, orders, alarms) {
            (0, 0, 0) => write!(f, "writes that change no unit, order or alarm"),
            _ => write!(f, "{units} units, {orders} orders and {alarms} alarms"),
        }
    }
}

/// What the system says when a file is not there.
const GONE: &str = "No such file";
/// What it says when it has no room.
const FULL: [&str; 2] = ["No space left", "Disk quota exceeded"];
/// What it says when it lacks something else.
const SHORT: [&str; 2] = ["Too many open files", "Cannot allocate memory"];
/// What it says when a disk fails, or a server.
const FAILING: [&str; 3] = ["Input/output error", "Stale file handle", "Stale NFS file handle"];

/// What RocksDB says where a large value is damaged, or what stands before it in its file. It has
/// found its place then, by what is not damaged.
const WITHIN_VALUE: [&str; 5] = [
    "Blob CRC mismatch",
    "Error while decoding blob record",
    "Key mismatch when reading blob",
    "Key size mismatch when reading blob",
    "Value size mismatch when reading blob",
];

impl From<rocksdb::Error> for StoreError {
    fn from(error: rocksdb::Error) -> Self {
        let text = error.to_string();
        let says = |what: &&str| text.contains(*what);
        match error.kind() {
            // What the system refuses sometimes comes in the guise of damage.
            _ if FULL.iter().chain(&SHORT).chain(&FAILING).any(says) => {
                StoreError::Database(error)
            }
            rocksdb::ErrorKind::Corruption => StoreError::Damaged(error),
            // A file that is missing comes as an error of the system, under its name.
            _ if says(&GONE) => StoreError::Damaged(error),
            _ => StoreError::Database(error),
        }
    }
}

impl StoreError {
    /// Whether a block cannot be read since its value is damaged, and not what tells where that is.
    pub(super) fn is_within_value(&self) -> bool {
        let StoreError::UnreadableBlock { source, .. } = self else { return false };
        let text = source.to_string();
        source.kind() == rocksdb::ErrorKind::Corruption
            && WITHIN_VALUE.iter().any(|what| text.contains(what))
    }

    /// The block that is damaged or missing, if that is what is wrong.
    pub fn bad_block(&self) -> Option<&BlockId> {
        match self {
            StoreError::Block { id, .. }
            | StoreError::MissingBlock(id)
            | StoreError::UnreadableBlock { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Whether the disk was full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Database(error) => {
                let text = error.to_string();
                FULL.iter().any(|what| text.contains(what))
            }
            StoreError::Io(error)
            | StoreError::Journal(error)
            | StoreError::Depot { cause: error, .. } => open::is_disk_full(error),
            _ => false,
        }
    }

    /// Whether the system is what refuses: nothing is said about the data then.
    pub fn is_of_the_system(&self) -> bool {
        matches!(
            self,
            StoreError::Database(_)
                | StoreError::Depot { .. }
                | StoreError::DepotAway { .. }
                | StoreError::OnShelves
                | StoreError::Closed
                | StoreError::Failing { .. }
                | StoreError::Journal(_)
                | StoreError::Io(_)
        )
    }

    /// Whether the system may do later what it refuses now.
    pub(super) fn may_pass(&self) -> bool {
        let text = match self {
            StoreError::Database(error) => error.to_string(),
            StoreError::Io(error) | StoreError::Journal(error) => error.to_string(),
            _ => return false,
        };
        SHORT.iter().chain(&FAILING).any(|what| text.contains(what))
    }

    /// Whether the system lacks something, so that nothing is said about the data, not even that a
    /// disk fails.
    pub(super) fn is_shortage(&self) -> bool {
        let text = match self {
            StoreError::Database(error)
            | StoreError::Damaged(error)
            | StoreError::UnreadableBlock { source: error, .. } => error.to_string(),
            StoreError::Io(error) | StoreError::Journal(error) => error.to_string(),
            StoreError::Depot { .. }
            | StoreError::DepotAway { .. }
            | StoreError::OnShelves
            | StoreError::Closed => return true,
            _ => return false,
        };
        FULL.iter().chain(&SHORT).any(|what| text.contains(what))
    }

    /// Whether files, or writes, are not there that should be: perhaps because a process that
    /// writes to the store has replaced them.
    pub(super) fn is_of_missing_files(&self) -> bool {
        match self {
            StoreError::Damaged(_)
            | StoreError::Table { .. }
            | StoreError::RolledBack { .. }
            | StoreError::Manifest => true,
            StoreError::Journal(error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}
