//! Blocks on the disk of this machine, within a budget: the least recently used go first.
//!
//! A block is a file with its checksum as its name. When it was last used is when it was last
//! modified, so that processes which share a directory, one after the other or at the same time,
//! agree on what is old. Nothing here is precious: a file that is damaged, gone or cannot be
//! written is a block that has to be fetched. So a cache lies nowhere where a census keeps its blocks.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use parking_lot::Mutex;
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockError, BlockName, Checksum},
};
use walkdir::{DirEntry, WalkDir};

use crate::{
    process::open,
    supply::{
        backoff::Rest,
        files::{self, object_name},
        kept::marks,
        shelf,
    },
};

/// The directory cannot hold a cache.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep blocks in {path}: {source}")]
pub struct DiskError {
    path: PathBuf,
    source: io::Error,
}

/// A cache in a directory, which other processes may use too.
pub struct DiskCache {
    directory: PathBuf,
    /// The files of the directory are kept at about this many bytes.
    budget_bytes: u64,
    ledger: Mutex<Ledger>,
    /// A pause after a failure to write, since a disk that is full stays so for a while.
    rest: Rest,
}

/// What is in the directory, as far as this process knows.
#[derive(Default)]
struct Ledger {
    /// Bytes in the directory when it was last listed, and those written by this process since.
    bytes: u64,
    /// Bytes written by this process since the directory was last listed.
    since: u64,
}

/// The directory is listed again when this process has written 1/16 of the budget, because other
/// processes may have written as much.
const LOOK: u64 = 16;

impl DiskCache {
    /// The cache in `directory`, which is made if need be, of about `budget_bytes`. Lists the
    /// directory, and removes the oldest blocks if there are too many.
    ///
    /// # Errors
    /// If the directory cannot be made or listed, or a census keeps its blocks there.
    pub fn open(directory: &Path, budget_bytes: u64) -> Result<Self, DiskError> {
        let error = |source| DiskError { path: directory.to_owned(), source };
        open::make_directory(directory).map_err(error)?;
        let cache = DiskCache {
            directory: directory.to_owned(),
            budget_bytes,
            ledger: Mutex::default(),
            rest: Rest::default(),
        };
        let bytes = cache.trim(budget_bytes).map_err(error)?;
        *cache.ledger.lock() = Ledger { bytes, since: 0 };
        Ok(cache)
    }

    fn path(&self, checksum: &Checksum) -> PathBuf {
        self.directory.join(object_name(checksum))
    }

    /// The block of this name, if it is here and sound.
    pub fn get(&self, layout: Layout, name: &BlockName) -> Option<Block> {
        let path = self.path(&name.checksum);
        let read = match open::regular(&path) {
            Ok((file, metadata)) => {
                read(&file, metadata.len(), layout, name).map(|block| (file, block))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error.to_string()),
            Err(_) => return None,
        };
        match read {
            Ok((file, block)) => {
                // The time of modification tells which blocks were used last.
                let _ = file.set_modified(SystemTime::now());
                Some(block)
            }
            Err(error) => {
                let is_removed = self.check_own().is_ok() && fs::remove_file(&path).is_ok();
                tracing::warn!(
                    file = %path.display(),
                    error,
                    is_removed,
                    "a block on disk is damaged; it is fetched again"
                );
                None
            }
        }
    }

    /// Keeps a block, if that is possible; failures are logged. Holds the ledger's lock while it
    /// makes room, which may list the directory.
    pub fn put(&self, block: &Block) {
        let BlockName { checksum, length } = block.name();
        let path = self.path(&checksum);
        if self.rest.lasts() || path.exists() {
            return;
        }
        // If the directory itself is gone, its disk is away, and not to be done without.
        let write = || files::write(&path, block.bytes(), false);
        let kept =
            self.make_room(length).and_then(|is_made| if is_made { write() } else { Ok(()) });
        if let Err(error) = kept
            && self.rest.begin()
        {
            let is_full = open::is_disk_full(&error);
            if is_full {
                self.give_way();
            }
            let remedy = if is_full { "; a smaller --disk-budget leaves others room" } else { "" };
            tracing::warn!(
                directory = %self.directory.display(),
                %error,
                "cannot keep blocks on disk for now{remedy}"
            );
        }
    }

    /// The disk is full before the budget is: the oldest blocks make room for new ones, and for
    /// whoever shares the disk.
    fn give_way(&self) {
        let mut ledger = self.ledger.lock();
        let trimmed = self.trim(u64::MAX).and_then(|bytes| self.trim(bytes.saturating_sub(1)));
        if let Ok(bytes) = trimmed {
            *ledger = Ledger { bytes, since: 0 };
        }
    }

    /// Whether there is room for so many bytes, after dropping what is old; not if they are too many
    /// for this cache.
    fn make_room(&self, length: u64) -> io::Result<bool> {
        let mut ledger = self.ledger.lock();
        let Some(limit) = self.budget_bytes.checked_sub(length) else { return Ok(false) };
        if ledger.bytes > limit || ledger.since > self.budget_bytes / LOOK {
            let bytes = self.trim(limit)?;
            *ledger = Ledger { bytes, since: 0 };
        }
        if ledger.bytes > limit {
            return Err(io::Error::other("it is full of files that cannot be removed"));
        }
        ledger.bytes += length;
        ledger.since += length;
        Ok(true)
    }

    /// What is a cache here may be somebody's only copy where a census keeps its blocks, which have the
    /// same names.
    fn check_own(&self) -> io::Result<()> {
        let is_own = marks(&self.directory)?.is_empty()
            && !self.directory.join(shelf::NUMBER_FILE).exists();
        match is_own {
            true => Ok(()),
            false => Err(io::Error::other(
                "a census keeps its blocks there; give the cache a directory of its own",
            )),
        }
    }

    /// If the files here have more than `limit` bytes, removes the oldest until they have at most
    /// 7/8 of that. Returns the bytes that remain.
    fn trim(&self, limit: u64) -> io::Result<u64> {
        self.check_own()?;
        let mut files = self.files()?;
        let mut bytes = files.iter().map(|file| file.length).sum();
        if bytes > limit {
            files.sort_unstable_by_key(|file| file.used);
            for file in files {
                if bytes <= limit / 8 * 7 {
                    break;
                }
                match fs::remove_file(&file.path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                    _ => bytes -= file.length,
                }
            }
        }
        Ok(bytes)
    }

    /// The files that caches have made here, and no others.
    fn files(&self) -> io::Result<Vec<Kept>> {
        let is_hex = |text: &str, digits| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let ours = |entry: &DirEntry| match (entry.depth(), entry.file_name().to_str()) {
            (0, _) => true,
            (1, Some(name)) => entry.file_type().is_dir() && is_hex(name, 2),
            // Files that were being written when their process was killed have extensions.
            (_, Some(name)) => name.split('.').next().is_some_and(|name| is_hex(name, 32)),
            (_, None) => false,
        };
        let mut files = Vec::new();
        // Not with a least depth: directories above it would be entered without being asked about.
        let below = WalkDir::new(&self.directory).max_depth(2);
        for entry in below.into_iter().filter_entry(ours) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.depth() == 0 => return Err(error.into()),
                // Another process may have removed the file since it was listed.
                Err(_) => continue,
            };
            let Some(metadata) = entry.metadata().ok().filter(fs::Metadata::is_file) else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push(Kept { path: entry.into_path(), length: metadata.len(), used });
        }
        Ok(files)
    }
}

struct Kept {
    path: PathBuf,
    length: u64,
    used: SystemTime,
}

/// The block in a file, or what is wrong with the file.
fn read(file: &File, length: u64, layout: Layout, name: &BlockName) -> Result<Block, String> {
    if length != name.length {
        return Err(BlockError::Name.to_string());
    }
    let bytes = open::read_on(file, length, length).map_err(|error| error.to_string())?;
    Block::parse_named(layout, bytes, name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
    };

    use super::*;

    /// A block of 8 KiB and a bit.
    fn block(part: u32) -> Block {
        let sequence = DegreeSequence::new([4; 11]);
        let table = BucketTable::new(
            TrailTrap::LAYOUT,
            sequence,
            0,
            0,
            (0..1366u32).map(u64::from),
            |_, record| record.fill(0),
        );
        table.to_blocks(part).keys
    }

    fn bytes(directory: &Path) -> u64 {
        let size = |entry: fs::DirEntry| match entry.path().is_dir() {
            true => bytes(&entry.path()),
            false => entry.metadata().unwrap().len(),
        };
        fs::read_dir(directory).unwrap().map(|entry| size(entry.unwrap())).sum()
    }

    #[test]
    fn the_budget_is_kept_and_the_oldest_go_first() {
        let directory = tempfile::tempdir().unwrap();
        let length = block(0).name().length;
        let budget = 8 * length;
        // Two processes, as it were.
        let caches = [0, 1].map(|_| DiskCache::open(directory.path(), budget).unwrap());
        let first = block(0);
        caches[0].put(&first);
        for part in 1..60 {
            let block = block(part);
            caches[part as usize % 2].put(&block);
            assert_eq!(caches[0].get(TrailTrap::LAYOUT, &block.name()), Some(block));
            assert!(bytes(directory.path()) <= budget, "after {part}");
            // Used again and again.
            assert!(caches[1].get(TrailTrap::LAYOUT, &first.name()).is_some(), "after {part}");
        }
        assert!(caches[0].get(TrailTrap::LAYOUT, &block(40).name()).is_none());
        assert!(caches[0].get(TrailTrap::LAYOUT, &block(59).name()).is_some());
        // A smaller budget is met at once.
        DiskCache::open(directory.path(), 3 * length).unwrap();
        assert!(bytes(directory.path()) <= 3 * length);
        // What is too large is not kept.
        let tiny = DiskCache::open(&directory.path().join("tiny"), length - 1).unwrap();
        tiny.put(&first);
        assert!(tiny.get(TrailTrap::LAYOUT, &first.name()).is_none());
    }

    /// A budget that the disk does not have room for keeps no old blocks for ever.
    #[test]
    fn on_a_full_disk_the_oldest_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(directory.path(), 1 << 20).unwrap();
        let blocks: Vec<Block> = (0..16).map(block).collect();
        for (block, age) in blocks.iter().zip((0..16).rev()) {
            cache.put(block);
            let file = File::options().write(true).open(cache.path(&block.name().checksum));
            file.unwrap().set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        cache.give_way();
        let is_there = |block: &Block| cache.path(&block.name().checksum).exists();
        let there: Vec<bool> = blocks.iter().map(is_there).collect();
        assert_eq!(there, [&[false; 3][..], &[true; 13]].concat());
        assert_eq!(cache.ledger.lock().bytes, bytes(directory.path()));
    }

    #[test]
    fn other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(directory.path(), 1 << 20).unwrap();
        cache.put(&block(0));
        let place = cache.path(&block(0).name().checksum);
        let digits = place.file_name().unwrap();
        let theirs = [
            directory.path().join("thesis.tex"),
            directory.path().join(digits),
            directory.path().join("otherwise").join(digits),
            place.with_file_name("letter"),
        ];
        fs::create_dir(directory.path().join("otherwise")).unwrap();
        theirs.iter().for_each(|path| fs::write(path, "precious").unwrap());
        // Left by a process that was killed.
        let cut_short = place.with_extension("123-4");
        fs::write(&cut_short, "half of").unwrap();
        File::open(&cut_short)
            .unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(9))
            .unwrap();
        DiskCache::open(directory.path(), 0).unwrap();
        assert!(theirs.iter().all(|path| path.exists()));
        assert!(!place.exists() && !cut_short.exists());
    }

    /// Their files have the same names, and no other copy.
    #[test]
    fn what_a_census_keeps_is_not_trimmed() {
        let place = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(place.path(), 1 << 20).unwrap();
        cache.put(&block(0));
        let [mark, number] = ["census-0123456789abcdef.txt", shelf::NUMBER_FILE];
        for name in [mark, number] {
            let file = place.path().join(name);
            fs::write(&file, "").unwrap();
            let error = DiskCache::open(place.path(), 0).err().unwrap().to_string();
            assert!(error.contains("a census keeps its blocks there"), "{name}: {error}");
            // Nor by a cache that was there before, whatever it finds.
            assert!(cache.trim(0).is_err());
            let kept = cache.path(&block(0).name().checksum);
            let bytes = fs::read(&kept).unwrap();
            fs::write(&kept, "damaged").unwrap();
            assert!(cache.get(TrailTrap::LAYOUT, &block(0).name()).is_none());
            assert!(kept.exists(), "{name}");
            fs::write(&kept, bytes).unwrap();
            fs::remove_file(&file).unwrap();
        }
        DiskCache::open(place.path(), 0).unwrap();
        assert_eq!(bytes(place.path()), 0);
    }

    #[test]
    fn a_disk_that_cannot_be_written_is_no_cache() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(directory.path(), 1 << 20).unwrap();
        // Even root cannot make a directory where a file is.
        let place = cache.path(&block(0).name().checksum);
        fs::write(place.parent().unwrap(), "in the way").unwrap();
        cache.put(&block(0));
        assert!(cache.get(TrailTrap::LAYOUT, &block(0).name()).is_none());
        assert!(cache.rest.lasts(), "it is not tried again and again");
        let error = DiskCache::open(place.parent().unwrap(), 1 << 20).err().unwrap().to_string();
        assert!(error.contains("cannot keep blocks in"), "{error}");
    }

    /// It may be on a disk that is away, and something else would be filled instead.
    #[test]
    fn a_directory_that_is_gone_is_not_made_anew() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("cache");
        let cache = DiskCache::open(&directory, 1 << 20).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        cache.put(&block(0));
        assert!(!directory.exists());
    }
}
