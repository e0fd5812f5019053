//! A shelf: a directory on this machine's own disk, in which a worker keeps blocks of a census for
//! all who work on it. So a census needs no file system that all of them see, and the coordinator
//! has nothing but names. Each block lies on two shelves: its worker's, and one other's.
//!
//! A shelf belongs to one census, whose [`Mark`] it has, and to one process. What it holds is
//! checked against names by whoever reads it.

pub mod others;
mod server;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockName, Checksum},
    protocol::shelves::ShelfNumber,
};

pub use self::server::serve;

use super::kept::{KeptDirectory, Mark};
use crate::process::{open, replace::Replacement, together::together};

/// The name of the file with the number of a shelf.
pub(super) const NUMBER_FILE: &str = "shelf.txt";
/// What somebody who comes across a shelf should know, and the number.
const NUMBER_TEXT: &str = "\
    A worker of a census by trailtrap keeps blocks in this directory, for all workers. It can be \
    deleted when the census is done.\nshelf ";
/// No block has more bytes.
const LARGEST_BLOCK: u64 = 1 << 30;
/// A file that the disk cannot read is read again after these times, before it is taken for lost.
/// No longer: others wait for their blocks meanwhile.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// So many blocks are written at a time.
const TOGETHER: usize = 8;

/// Why a directory is no shelf.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// It cannot be used.
    #[error("cannot use the shelf {path}: {cause}")]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system says, or what is in the way.
        cause: io::Error,
    },
    /// The file that says which shelf it is says something else.
    #[error(
        "{0} does not say which shelf it is: if the directory holds nothing else that you need, \
         delete it, and what lies there is solved again"
    )]
    Number(PathBuf),
    /// Nobody can be served.
    #[error("cannot serve the shelf {path}: {cause}")]
    Serve {
        /// The directory.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
}

/// The shelf of this process.
pub struct Shelf {
    path: PathBuf,
    number: ShelfNumber,
    of: Mutex<Of>,
    lying: Mutex<HashMap<Checksum, Lying>>,
    /// How often something was put here.
    puts: AtomicU64,
}

/// Of which census a shelf is.
#[derive(Default)]
enum Of {
    /// That is not known.
    #[default]
    Unknown,
    /// Of the one of this directory.
    Census(Arc<KeptDirectory>),
    /// Of none any more: that census is done.
    Nobody,
}

/// A block that lies on the shelf, or is being put there.
#[derive(Clone, Copy)]
struct Lying {
    /// When it was put here last, or was found.
    since: Instant,
    /// Which of all puts that was.
    put: u64,
    /// Whether it is there, and not about to be.
    is_there: bool,
    /// Whether it was there before: then it still is if it cannot be put again.
    was_there: bool,
}

/// A block as a list of all of them had it.
pub struct Listed {
    /// Which one.
    pub checksum: Checksum,
    /// Since when it has been here.
    pub since: Instant,
    put: u64,
}

impl ShelfError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, ShelfError::Unusable { cause, .. } if open::is_disk_full(cause))
    }
}

impl Shelf {
    /// The shelf in a directory, which is made if need be, and empty in the beginning.
    ///
    /// # Errors
    ///
    /// It is no directory, cannot be written, or holds the number of no shelf.
    pub fn new(path: &Path) -> Result<Self, ShelfError> {
        let unusable = |cause| ShelfError::Unusable { path: path.to_owned(), cause };
        open::make_directory(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        let file = path.join(NUMBER_FILE);
        let number = match open::read(&file, 4096) {
            Ok(text) => number(&text).ok_or(ShelfError::Number(file))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let random =
                    getrandom::u64().map_err(|error| unusable(io::Error::other(error)))?;
                let number = random.max(1);
                let text = format!("{NUMBER_TEXT}{number:016x}\n");
                Replacement::of(&file).write(text.as_bytes()).map_err(unusable)?;
                number
            }
            Err(error) => return Err(unusable(error)),
        };
        let (of, lying, puts) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Ok(Shelf { path, number, of, lying, puts })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number by which others know it.
    pub fn number(&self) -> ShelfNumber {
        self.number
    }

    /// It belongs to the census with this mark, and to this process. What lies there already is
    /// that census's. A shelf of which the census is done stays as it is.
    ///
    /// # Errors
    ///
    /// Another census, or another process, has it, or it cannot be written: then it is of no census
    /// for now, so that what lies there is not taken for one's own.
    pub fn begin(&self, mark: Mark) -> Result<(), ShelfError> {
        let mut of = self.of.lock();
        match &*of {
            Of::Nobody => return Ok(()),
            Of::Census(depot) if depot.mark() == mark => return Ok(()),
            Of::Census(_) | Of::Unknown => {}
        }
        *of = Of::Unknown;
        self.lying.lock().clear();
        let unusable = |cause| ShelfError::Unusable { path: self.path.clone(), cause };
        let mut kept = KeptDirectory::at(&self.path, mark);
        if kept.check().is_err() {
            kept = KeptDirectory::begin(&self.path, mark).map_err(unusable)?;
        }
        kept.take().map_err(unusable)?;
        let found = kept.checksums().map_err(unusable)?;
        let now = Lying { since: Instant::now(), put: 0, is_there: true, was_there: false };
        self.lying.lock().extend(found.into_iter().map(|checksum| (checksum, now)));
        *of = Of::Census(Arc::new(kept));
        Ok(())
    }

    /// Whether it is known of which census it is, and blocks can be kept here.
    pub fn is_begun(&self) -> bool {
        matches!(*self.of.lock(), Of::Census(_))
    }

    /// The census is done: nothing of it is needed any more, and the directory may serve another.
    pub fn end(&self) {
        let Of::Census(depot) = std::mem::replace(&mut *self.of.lock(), Of::Nobody) else {
            return;
        };
        let all: Vec<Listed> = self.list();
        self.remove_from(&depot, &all);
        if let Err(error) = depot.end() {
            tracing::warn!(shelf = %self.path.display(), %error, "the shelf keeps its mark");
        }
    }

    /// The directory, if it is known of which census it is.
    fn depot(&self) -> io::Result<Arc<KeptDirectory>> {
        match &*self.of.lock() {
            Of::Census(depot) => Ok(depot.clone()),
            Of::Unknown => Err(io::Error::other("it is not known yet of which census it is")),
            Of::Nobody => Err(io::Error::other("the census is done")),
        }
    }

    /// Puts a block here; it outlasts a loss of power when this returns.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn put(&self, block: &Block) -> io::Result<()> {
        let (depot, checksum) = (self.depot()?, block.name().checksum);
        // It is not listed while it is written, and what was said of it when it was listed is not
        // about the one that comes now.
        let put = self.note_put(checksum, false);
        if let Err(error) = depot.write(block) {
            self.note_failure(checksum, put);
            return Err(error);
        }
        self.note_put(checksum, true);
        Ok(())
    }

    /// Returns which of all puts it is.
    fn note_put(&self, checksum: Checksum, is_there: bool) -> u64 {
        let put = self.puts.fetch_add(1, Ordering::Relaxed) + 1;
        let mut lying = self.lying.lock();
        let before = lying.get(&checksum);
        let was_there = before.is_some_and(|before| before.is_there || before.was_there);
        lying.insert(checksum, Lying { since: Instant::now(), put, is_there, was_there });
        put
    }

    /// A put has failed. Unless another one has begun meanwhile, all is as it was before.
    fn note_failure(&self, checksum: Checksum, put: u64) {
        let mut lying = self.lying.lock();
        match lying.get_mut(&checksum) {
            Some(lying) if lying.put == put && lying.was_there => lying.is_there = true,
            Some(other) if other.put == put => drop(lying.remove(&checksum)),
            _ => {}
        }
    }

    /// Puts several blocks here, some at a time: most of it is waiting for the disk.
    ///
    /// # Errors
    ///
    /// One of them cannot be written.
    pub fn put_all(&self, blocks: &[Block]) -> io::Result<()> {
        together(blocks, TOGETHER, |block| self.put(block))
    }

    /// The bytes of the block of this name, which nobody has looked at; `None` if it is not here.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn read(&self, name: &BlockName) -> io::Result<Option<Vec<u8>>> {
        let depot = self.depot()?;
        let bytes = read_or_lost(&depot, || depot.read(name), &PAUSES)?;
        Ok(bytes.filter(|bytes| bytes.len() as u64 == name.length))
    }

    /// All that lies here.
    pub fn list(&self) -> Vec<Listed> {
        let lying = self.lying.lock();
        let there = lying.iter().filter(|(_, lying)| lying.is_there);
        let listed = |(&checksum, &Lying { since, put, .. })| Listed { checksum, since, put };
        there.map(listed).collect()
    }

    /// A block that lies here, as far as it is sound. If it is not, it goes.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn block(&self, layout: Layout, checksum: Checksum) -> io::Result<Option<Block>> {
        let listed = self.lying.lock().get(&checksum).copied();
        let depot = self.depot()?;
        let bytes = read_or_lost(&depot, || depot.read_any(&checksum, LARGEST_BLOCK), &PAUSES)?;
        let block = bytes.and_then(|bytes| Block::parse(layout, bytes).ok());
        let block = block.filter(|block| block.name().checksum == checksum);
        if block.is_none() {
            let shelf = self.path.display();
            tracing::warn!(%shelf, block = %checksum, "a block on the shelf is lost or damaged");
            let listed = listed.map(|Lying { since, put, .. }| Listed { checksum, since, put });
            self.remove(&listed);
        }
        Ok(block)
    }

    /// Removes blocks, unless they have been put here again since they were listed.
    pub fn remove<'l>(&self, listed: impl IntoIterator<Item = &'l Listed>) {
        if let Ok(depot) = self.depot() {
            self.remove_from(&depot, listed);
        }
    }

    fn remove_from<'l>(
        &self,
        depot: &KeptDirectory,
        listed: impl IntoIterator<Item = &'l Listed>,
    ) {
        for Listed { checksum, put, .. } in listed {
            // Held, so that nobody begins to put it here meanwhile.
            let mut lying = self.lying.lock();
            if lying.get(checksum).is_none_or(|lying| lying.put != *put || !lying.is_there) {
                continue;
            }
            // The name of a file is the checksum alone.
            match depot.remove(&BlockName { checksum: *checksum, length: 0 }) {
                Ok(()) => drop(lying.remove(checksum)),
                Err(error) => {
                    let shelf = self.path.display();
                    tracing::warn!(%shelf, block = %checksum, %error, "a block stays on the shelf");
                }
            }
        }
    }
}

/// What is read of a file. It is lost if the disk cannot read it, not after pauses either, and the
/// directory is here.
fn read_or_lost(
    depot: &KeptDirectory,
    read: impl Fn() -> io::Result<Option<Vec<u8>>>,
    pauses: &[Duration],
) -> io::Result<Option<Vec<u8>>> {
    let mut found = read();
    for &pause in pauses {
        if !found.as_ref().is_err_and(open::is_bad_place) {
            break;
        }
        thread::sleep(pause);
        found = read();
    }
    match found {
        Err(error) if open::is_bad_place(&error) => depot.check().map(|()| None),
        found => found,
    }
}

/// The number that the file of a shelf says.
fn number(text: &[u8]) -> Option<ShelfNumber> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(NUMBER_TEXT)?.trim_end();
    u64::from_str_radix(digits, 16).ok().filter(|&number| number != 0 && digits.len() == 16)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use rustix::io::Errno;
    use trailtrap_shared::{
        game::{Game, TrailTrap},
        graph::degree::DegreeSequence,
        partition::BucketTable,
    };

    use super::*;

    pub(super) fn keys(graphs: u64) -> Block {
        let sequence = DegreeSequence::new([4; 11]);
        let slots = Vec::from_iter(0..graphs).into_iter();
        BucketTable::new(TrailTrap::LAYOUT, sequence, 0, 0, slots, |_, bytes| bytes.fill(1))
            .to_blocks(0)
            .keys
    }

    fn listed(shelf: &Shelf) -> Vec<Checksum> {
        shelf.list().iter().map(|listed| listed.checksum).collect()
    }

    #[test]
    fn a_shelf_is_for_one_census_and_remembers_what_lies_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/shelf");
        let (one, other) = (keys(1000), keys(2000));
        let shelf = Shelf::new(&path).unwrap();
        assert!(shelf.put(&one).is_err() && shelf.read(&one.name()).is_err(), "of which census?");
        shelf.begin(Mark(7)).unwrap();
        shelf.begin(Mark(7)).unwrap();
        shelf.put(&one).unwrap();
        assert_eq!(shelf.read(&one.name()).unwrap().as_deref(), Some(one.bytes()));
        assert_eq!(shelf.read(&other.name()).unwrap(), None);
        let longer = BlockName { length: 1, ..one.name() };
        assert_eq!(shelf.read(&longer).unwrap(), None);
        let twin = Shelf::new(&path).unwrap();
        assert_eq!(twin.number(), shelf.number());
        assert!(twin.begin(Mark(7)).unwrap_err().to_string().contains("another process"));
        let number = shelf.number();
        drop((shelf, twin));
        let stranger = Shelf::new(&path).unwrap();
        assert!(stranger.begin(Mark(8)).unwrap_err().to_string().contains("another census"));
        let again = Shelf::new(&path).unwrap();
        again.begin(Mark(7)).unwrap();
        assert_eq!((again.number(), listed(&again)), (number, vec![one.name().checksum]));
        again.end();
        again.end();
        assert_eq!(listed(&again), []);
        drop(again);
        Shelf::new(&path).unwrap().begin(Mark(8)).unwrap();
        for wrong in ["", "shelf 1", &format!("{NUMBER_TEXT}0000000000000000\n")] {
            fs::write(path.join(NUMBER_FILE), wrong).unwrap();
            assert!(matches!(Shelf::new(&path), Err(ShelfError::Number(_))), "{wrong}");
        }
    }

    /// A file that the disk cannot read is a block that does not lie here any more, and can be put here
    /// again.
    #[test]
    fn what_the_disk_cannot_read_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let reads = Cell::new(0);
        let unreadable = || {
            reads.set(reads.get() + 1);
            Err(io::Error::from_raw_os_error(Errno::IO.raw_os_error()))
        };
        let recovered = || if reads.get() == 0 { unreadable() } else { Ok(Some(vec![7])) };
        let depot = KeptDirectory::begin(directory.path(), Mark(7)).unwrap();
        let pauses = [Duration::ZERO; 2];
        assert_eq!(read_or_lost(&depot, recovered, &pauses).unwrap(), Some(vec![7]));
        assert_eq!(read_or_lost(&depot, unreadable, &pauses).unwrap(), None);
        assert_eq!(reads.get(), 4);
        let refused = || Err(io::ErrorKind::PermissionDenied.into());
        let error = read_or_lost(&depot, refused, &pauses).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        depot.end().unwrap();
        let away = read_or_lost(&depot, unreadable, &pauses).unwrap_err();
        assert_eq!(
            away.kind(),
            io::ErrorKind::NotFound,
            "it may be back, and all that lies there"
        );
    }

    /// What lies there is shown to no other census, also by a process that was at work on the first.
    #[test]
    fn a_shelf_that_another_census_asks_for_is_of_none_until_the_first_is_back() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path()).unwrap();
        let block = keys(1000);
        shelf.begin(Mark(7)).unwrap();
        shelf.put(&block).unwrap();
        let before = shelf.list();
        assert!(shelf.begin(Mark(8)).unwrap_err().to_string().contains("another census"));
        assert!(!shelf.is_begun() && shelf.list().is_empty() && shelf.put(&keys(2000)).is_err());
        shelf.remove(&before);
        shelf.begin(Mark(7)).unwrap();
        assert_eq!(listed(&shelf), [block.name().checksum]);
        assert!(shelf.read(&block.name()).unwrap().is_some());
    }

    /// A list that was on its way when the census ended does not mark the shelf again.
    #[test]
    fn what_has_ended_does_not_begin_again() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path()).unwrap();
        shelf.begin(Mark(7)).unwrap();
        shelf.end();
        shelf.begin(Mark(7)).unwrap();
        assert!(!shelf.is_begun() && shelf.put(&keys(1000)).is_err());
        Shelf::new(directory.path()).unwrap().begin(Mark(8)).unwrap();
    }

    #[test]
    fn what_lay_there_still_does_if_it_cannot_be_put_again() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path()).unwrap();
        shelf.begin(Mark(7)).unwrap();
        let [one, other] = [keys(1000), keys(2000)];
        shelf.put(&one).unwrap();
        let away = directory.path().with_extension("away");
        fs::rename(directory.path(), &away).unwrap();
        [&one, &other].into_iter().for_each(|block| assert!(shelf.put(block).is_err()));
        fs::rename(&away, directory.path()).unwrap();
        assert_eq!(listed(&shelf), [one.name().checksum]);
        // Nor if two puts of it meet, whichever fails first.
        for order in [[0, 1], [1, 0]] {
            for (block, there) in [(&one, true), (&other, false)] {
                let checksum = block.name().checksum;
                let puts = [(); 2].map(|()| shelf.note_put(checksum, false));
                order.iter().for_each(|&which| shelf.note_failure(checksum, puts[which]));
                assert_eq!(listed(&shelf).contains(&checksum), there);
            }
        }
    }

    /// What was put here again after it was listed is wanted, whatever was said of the list.
    #[test]
    fn what_is_unwanted_goes_unless_it_has_come_again() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path()).unwrap();
        shelf.begin(Mark(7)).unwrap();
        let (one, other) = (keys(1000), keys(2000));
        [&one, &other].into_iter().for_each(|block| shelf.put(block).unwrap());
        let before = shelf.list();
        shelf.put(&one).unwrap();
        shelf.remove(&before);
        assert_eq!(listed(&shelf), [one.name().checksum]);
        assert!(shelf.read(&one.name()).unwrap().is_some());
        assert_eq!(shelf.read(&other.name()).unwrap(), None);
        assert_eq!(
            shelf.block(TrailTrap::LAYOUT, one.name().checksum).unwrap(),
            Some(one.clone())
        );
        shelf.remove(&shelf.list());
        assert_eq!(listed(&shelf), []);
        assert_eq!(shelf.block(TrailTrap::LAYOUT, one.name().checksum).unwrap(), None);
        // What is damaged does not lie there.
        shelf.put(&one).unwrap();
        let name = one.name().checksum.to_string();
        fs::write(directory.path().join(&name[..2]).join(&name), b"damaged").unwrap();
        assert_eq!(shelf.block(TrailTrap::LAYOUT, one.name().checksum).unwrap(), None);
        assert_eq!(listed(&shelf), []);
    }

    /// Whoever was told that a block lies here finds it, whatever is removed at the same time.
    #[test]
    fn what_is_put_stays_however_much_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path()).unwrap();
        shelf.begin(Mark(7)).unwrap();
        let (block, is_done) = (keys(1000), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while is_done.load(Ordering::Relaxed) == 0 {
                    // As if the answer to the list had come after the block was put again.
                    let listed = shelf.list();
                    std::thread::yield_now();
                    shelf.remove(&listed);
                }
            });
            // Until it was also looked for often enough before the other removed it.
            let (mut found, mut attempts) = (0, 0);
            while found < 50 || attempts < 200 {
                attempts += 1;
                assert!(attempts < 1_000_000, "it is never found");
                // Nothing that is listed before this goes after it.
                shelf.put(&block).unwrap();
                let put = shelf.lying.lock().get(&block.name().checksum).map(|lying| lying.put);
                let is_there = shelf.read(&block.name()).unwrap().is_some();
                let unchanged =
                    shelf.lying.lock().get(&block.name().checksum).map(|lying| lying.put) == put;
                let is_lying = unchanged && put.is_some();
                assert!(is_there || !is_lying);
                found += usize::from(is_lying);
            }
            is_done.store(1, Ordering::Relaxed);
        });
    }
}
