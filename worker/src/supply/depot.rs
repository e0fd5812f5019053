//! A depot: blocks in a directory that all workers share, or in an object store that speaks S3.
//!
//! A block is an object with its checksum as its name, and whoever reads it checks it against the
//! name that the coordinator gave; so nobody who can write to a depot can falsify anything. Blocks
//! never change and are put as a whole, any number of times. A depot may lack any block: what it
//! does not have comes from the coordinator; but where a census keeps its blocks in the depot
//! ([`super::kept`]), the coordinator has them from there alone.

use std::{
    fs,
    future::ready,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockError, BlockName},
};

use crate::supply::{
    backoff::{Rest, stopped},
    bucket::Bucket,
    files::{object_name, read, write},
    kept::{MARK_TEXT, Mark, is_in_object_store, marks},
};

/// Why a depot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    /// The text names neither a directory nor an object store that is supported.
    #[error("'{0}' is no depot: give a directory that all workers share, or s3://BUCKET/PREFIX")]
    Place(String),
    /// The directory that a census is to keep its blocks in is not there.
    #[error(
        "there is no directory {} for a depot: make it, mount its file system, or name another one",
        .0.display()
    )]
    NoDirectory(PathBuf),
    /// The address contains credentials. The message does not show the address.
    #[error(
        "the address of a depot must not hold credentials, nor '@' unless it is a directory: put \
         credentials into \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    Credentials,
    /// The place exists, but cannot be a depot, or it does not exist.
    #[error("cannot use the depot {place}: {why}")]
    Unusable {
        /// The depot as it was given.
        place: String,
        /// Why it is of no use.
        why: String,
    },
    /// The place cannot be reached now, but perhaps later.
    #[error("the depot {place} cannot be reached: {why}")]
    Away {
        /// The depot as it was given.
        place: String,
        /// Why it cannot be reached.
        why: String,
    },
}

/// A depot. Its methods block, and must not be called from within the runtime.
pub struct Depot {
    runtime: Handle,
    objects: Objects,
    /// The depot as it was given, for messages.
    place: String,
    /// When it is cancelled, whoever waits for the depot gives up.
    stop: CancellationToken,
    patience: Duration,
    /// A pause after failed reads, so that a depot that is out of reach costs little time.
    reads: Rest,
    /// A pause after failed writes, so that a depot that is full costs little time.
    writes: Rest,
}

/// Objects that are put or got at a time by one thread.
const TOGETHER: usize = 16;
/// Threads that wait for the file system of a directory at a time. Where it hangs they wait on when
/// nobody waits for them any more, so that there must not be more and more of them.
const WAITING_THREADS: usize = 4 * TOGETHER;

/// Operations that take longer are abandoned: a depot that is slower than the coordinator is of no
/// use.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is read, and what is put where a census keeps its blocks, has longer: a byte is expected to
/// take no longer than this.
const PATIENCE_PER_BYTE: Duration = Duration::from_nanos(100);
/// Blocks with more bytes are read one group after the other: however many are wanted, a depot that
/// hangs is mostly left alone within a minute.
const GROUP_BYTES: u64 = 256 << 20;

/// The name of a note that is left in every depot.
const NOTE_NAME: &str = "README.txt";
/// What somebody who comes across a depot should know.
const NOTE_TEXT: &str = "\
    Blocks of a census by trailtrap, under their checksums. Unless there is something here whose \
    name begins with census-, all of this can be deleted at any time, and should be when the \
    census is done: what is missing is fetched from the coordinator.\n";

impl Depot {
    /// The depot in a directory, or in `s3://BUCKET/PREFIX`, with credentials, region and endpoint
    /// from the environment (`AWS_ACCESS_KEY_ID` …). Leaves a note there, as far as that is
    /// possible and nothing has its name. When `stop` is cancelled, nothing waits for the depot any
    /// more.
    ///
    /// # Errors
    /// If the place is no depot, holds credentials, cannot be reached, or is an object store and the
    /// program was built without.
    pub fn open(
        runtime: Handle,
        place: &str,
        stop: CancellationToken,
    ) -> Result<Self, DepotError> {
        let depot = Self::of(runtime, Objects::open(place)?, place, stop);
        // What has that name may be somebody else's.
        let found = depot.look_for(NOTE_NAME, NOTE_TEXT);
        if found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let note = (NOTE_NAME.to_owned(), Arc::new(NOTE_TEXT.as_bytes().to_vec()));
            depot.put_all(std::iter::once(note), false, depot.patience);
        }
        Ok(depot)
    }

    fn of(runtime: Handle, objects: Objects, place: &str, stop: CancellationToken) -> Self {
        let (place, reads, writes) = (place.to_owned(), Rest::default(), Rest::default());
        Depot { runtime, objects, place, stop, patience: PATIENCE, reads, writes }
    }

    /// One in an object store in memory.
    #[cfg(all(test, feature = "s3"))]
    pub(super) fn in_memory(runtime: Handle) -> Self {
        let objects = Objects::Bucket(Bucket::in_memory());
        Self::of(runtime, objects, "s3://depot/census", CancellationToken::new())
    }

    /// A census begins to keep its blocks here.
    #[cfg(all(test, feature = "s3"))]
    pub(super) fn put_mark(&self, mark: Mark) {
        let text = Arc::new(MARK_TEXT.as_bytes().to_vec());
        self.put_all(std::iter::once((mark.file_name(), text)), true, self.patience);
    }

    /// The directory or the address, as it was given.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Whether it was left alone lately, after a failure.
    pub fn rests(&self) -> bool {
        self.reads.lasts() || self.writes.lasts()
    }

    /// Whether it is a directory, where not all that is put outlasts a loss of power.
    pub fn is_directory(&self) -> bool {
        matches!(self.objects, Objects::Directory { .. })
    }

    /// Whether it is a directory in which some census keeps its blocks, whichever.
    pub fn is_marked(&self) -> bool {
        match &self.objects {
            Objects::Directory { path, .. } => marks(path).is_ok_and(|marks| !marks.is_empty()),
            Objects::Bucket(_) => false,
        }
    }

    /// Whether it is the one in which the census with this mark keeps its blocks.
    pub fn has_mark(&self, mark: Mark) -> bool {
        self.look_for(&mark.file_name(), MARK_TEXT).is_ok()
    }

    /// Whether there is something with a name under which this program puts a text.
    fn look_for(&self, name: &str, text: &str) -> io::Result<()> {
        let get = async { self.objects.get(name, text.len() as u64).await };
        let mut found = Err(io::ErrorKind::TimedOut.into());
        self.all(&self.reads, std::iter::once(get), self.patience, |got| {
            // Other versions may have something else in it.
            found = got.map(drop);
        });
        found
    }

    /// Those of the blocks that are here and sound, in any order.
    pub fn get(&self, layout: Layout, names: &[BlockName]) -> Vec<Block> {
        let get = |&name: &BlockName| async move {
            // Another operation may have failed and begun a pause meanwhile.
            if self.reads.lasts() {
                return None;
            }
            let object = object_name(&name.checksum);
            match self.objects.get(&object, name.length).await {
                Ok(bytes) => {
                    let block = bytes
                        .ok_or(BlockError::Name)
                        .and_then(|bytes| Block::parse_named(layout, bytes, &name));
                    match block {
                        Ok(block) => return Some(block),
                        Err(error) => {
                            let (depot, block) = (&self.place, object);
                            tracing::warn!(depot, %block, %error, "a block in the depot is \
                                damaged; it is fetched again");
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.fail(&self.reads, &error.to_string()),
            }
            None
        };
        let mut blocks = Vec::with_capacity(names.len());
        for group in in_groups(names, GROUP_BYTES, TOGETHER) {
            let bytes = group.iter().fold(0, |sum: u64, name| sum.saturating_add(name.length));
            let patience = self.patience_for(bytes);
            self.all(&self.reads, group.iter().map(&get), patience, |block| blocks.extend(block));
            if self.reads.lasts() || self.stop.is_cancelled() {
                break;
            }
        }
        blocks
    }

    /// Puts blocks here, as far as that is possible, and returns the number of bytes put.
    pub fn put<'a>(&self, blocks: impl Iterator<Item = &'a Block>) -> u64 {
        self.put_all(blocks.map(object), false, self.patience)
    }

    /// Puts blocks here so that they outlast a loss of power, as far as that is possible, and
    /// returns the number of bytes put.
    pub fn put_for_good<'a>(&self, blocks: impl Iterator<Item = &'a Block> + Clone) -> u64 {
        let bytes: usize = blocks.clone().map(|block| block.bytes().len()).sum();
        self.put_all(blocks.map(object), true, self.patience_for(bytes as u64))
    }

    /// How long so many bytes may take.
    fn patience_for(&self, bytes: u64) -> Duration {
        self.patience.saturating_add(PATIENCE_PER_BYTE.mul_f64(bytes as f64))
    }

    fn put_all(
        &self,
        objects: impl Iterator<Item = (String, Arc<Vec<u8>>)>,
        durable: bool,
        patience: Duration,
    ) -> u64 {
        let put = |(name, bytes): (String, Arc<Vec<u8>>)| async move {
            if self.writes.lasts() {
                return 0;
            }
            let length = bytes.len() as u64;
            match self.objects.put(&name, bytes, durable).await {
                Ok(()) => length,
                Err(error) => {
                    self.fail(&self.writes, &error.to_string());
                    0
                }
            }
        };
        let mut sum = 0;
        self.all(&self.writes, objects.map(put), patience, |bytes| sum += bytes);
        sum
    }

    /// Does some of the operations at a time, until all are done, patience ends or the worker is
    /// asked to stop.
    fn all<F: Future>(
        &self,
        rest: &Rest,
        operations: impl Iterator<Item = F>,
        patience: Duration,
        mut done: impl FnMut(F::Output),
    ) {
        let operations = stream::iter(operations).buffer_unordered(TOGETHER);
        let all = operations.for_each(|output| {
            done(output);
            ready(())
        });
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = all => {}
                () = stopped(&self.stop) => {}
                () = sleep(patience) => {
                    self.fail(rest, &format!("not done within {patience:?}"));
                }
            }
        });
    }

    fn fail(&self, rest: &Rest, cause: &str) {
        if rest.begin() {
            let what = if std::ptr::eq(rest, &self.reads) { "read" } else { "written" };
            tracing::warn!(
                depot = self.place,
                cause,
                "the depot cannot be {what}; left alone for now"
            );
        }
    }
}

/// These names, in order, in groups whose blocks have no more bytes than that, or are the least that
/// there is to be in a group.
fn in_groups(
    names: &[BlockName],
    most_bytes: u64,
    least: usize,
) -> impl Iterator<Item = &[BlockName]> {
    let mut rest = names;
    std::iter::from_fn(move || {
        let ends = rest.iter().scan(0u64, |end, name| {
            *end = end.saturating_add(name.length);
            Some(*end)
        });
        let count = ends.take_while(|&end| end <= most_bytes).count().max(least);
        let (group, later) = rest.split_at(count.min(rest.len()));
        rest = later;
        (!group.is_empty()).then_some(group)
    })
}

fn object(block: &Block) -> (String, Arc<Vec<u8>>) {
    (object_name(&block.name().checksum), block.shared_bytes())
}

/// Where the objects of a depot are.
enum Objects {
    Directory {
        path: PathBuf,
        /// One for each thread that may wait for it.
        permits: Arc<Semaphore>,
    },
    Bucket(Bucket),
}

/// Does something with a file in a thread that may wait for the file system, once there may be one
/// more.
async fn in_thread<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let in_thread = move || {
        let done = operation();
        drop(permit);
        done
    };
    spawn_blocking(in_thread).await?
}

/// Whether a census may keep its blocks at a place, as far as that is said without asking for it: in
/// a directory that is there, or in an object store that this program can ask.
///
/// # Errors
/// If it is neither, or the address holds credentials.
pub fn check_place(place: &Path) -> Result<(), DepotError> {
    let text = place.to_string_lossy();
    refuse_credentials(&text)?;
    if is_in_object_store(place) {
        return bucket_at(&text).map(drop);
    }
    let is_none = match fs::metadata(place) {
        Ok(found) => !found.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_none { Err(DepotError::NoDirectory(place.to_owned())) } else { Ok(()) }
}

/// To be called before anything else is: all other messages repeat the place.
fn refuse_credentials(place: &str) -> Result<(), DepotError> {
    match place.contains('@') && !Path::new(place).is_dir() {
        true => Err(DepotError::Credentials),
        false => Ok(()),
    }
}

fn bucket_at(place: &str) -> Result<Bucket, DepotError> {
    match Bucket::open(place) {
        Ok(Some(bucket)) => Ok(bucket),
        Ok(None) => Err(DepotError::Place(place.to_owned())),
        Err(error) => {
            Err(DepotError::Unusable { place: place.to_owned(), why: error.to_string() })
        }
    }
}

impl Objects {
    fn open(place: &str) -> Result<Self, DepotError> {
        refuse_credentials(place)?;
        let path = Path::new(place);
        match is_in_object_store(path) {
            true => bucket_at(place).map(Objects::Bucket),
            false => Self::directory(place, path),
        }
    }

    /// A directory that is there, whatever can be done in it.
    fn directory(place: &str, path: &Path) -> Result<Self, DepotError> {
        let unusable = |why: String| Err(DepotError::Unusable { place: place.to_owned(), why });
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                let permits = Arc::new(Semaphore::new(WAITING_THREADS));
                Ok(Objects::Directory { path: path.to_owned(), permits })
            }
            Ok(_) => unusable("it is no directory".to_owned()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                unusable(error.to_string())
            }
            Err(error) => {
                Err(DepotError::Away { place: place.to_owned(), why: error.to_string() })
            }
        }
    }

    /// The object with that name, or `None` if it has another length: it is not what was looked
    /// for then, and may be too large to read.
    async fn get(&self, name: &str, length: u64) -> io::Result<Option<Vec<u8>>> {
        match self {
            Objects::Directory { path, permits } => {
                let path = path.join(name);
                in_thread(permits, move || read(&path, length)).await
            }
            Objects::Bucket(bucket) => bucket.get(name, length).await,
        }
    }

    /// Puts an object, which replaces any of that name as a whole; if it is to be durable, it
    /// outlasts a loss of power then, as whatever is in an object store does.
    async fn put(&self, name: &str, bytes: Arc<Vec<u8>>, durable: bool) -> io::Result<()> {
        match self {
            Objects::Directory { path, permits } => {
                let path = path.join(name);
                in_thread(permits, move || write(&path, &bytes, durable)).await
            }
            Objects::Bucket(bucket) => bucket.put(name, bytes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::partition::Checksum;

    use super::*;

    fn open(place: &str) -> Result<Depot, DepotError> {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        Depot::open(runtime.handle().clone(), place, CancellationToken::new())
    }

    #[test]
    fn places_that_are_no_depots_are_named() {
        let open = |place: &str| open(place).err().unwrap().to_string();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "in the way").unwrap();
        for bad in ["missing", "file"].map(|name| directory.path().join(name)) {
            let said = open(bad.to_str().unwrap());
            let named = format!("cannot use the depot {}: ", bad.display());
            assert!(said.starts_with(&named), "{said}");
        }
        for place in ["gs://bucket/x", "s3://", "http://host/x", "://", "file:///tmp"] {
            assert!(open(place).contains(&format!("'{place}' is no depot")), "{}", open(place));
        }
    }

    #[test]
    #[cfg(not(feature = "s3"))]
    fn a_program_without_s3_says_how_to_get_it() {
        let error = open("s3://bucket/prefix").err().unwrap().to_string();
        assert!(
            error.contains("s3://bucket/prefix") && error.contains("--features s3"),
            "{error}"
        );
    }

    /// A directory may have been somebody's before it became a depot.
    #[test]
    fn the_note_replaces_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join(NOTE_NAME);
        fs::write(&note, "how to reproduce").unwrap();
        open(directory.path().to_str().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&note).unwrap(), "how to reproduce");
        fs::remove_file(&note).unwrap();
        open(directory.path().to_str().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&note).unwrap(), NOTE_TEXT);
    }

    #[test]
    fn credentials_are_not_repeated() {
        for place in [
            "s3://key:hunter2@bucket/x",
            "s3://key:hunter2/hunter3@bucket",
            "key:hunter2@bucket",
            "s3://hunter2@",
        ] {
            let secret = open(place).err().unwrap().to_string();
            assert!(
                secret.contains("AWS_SECRET_ACCESS_KEY") && !secret.contains("hunter"),
                "{secret}"
            );
        }
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("someone@somewhere");
        fs::create_dir(&place).unwrap();
        assert!(open(place.to_str().unwrap()).is_ok());
    }

    /// Threads that nobody waits for any more are as many as before, however often it is tried.
    #[test]
    fn a_file_system_that_hangs_does_not_take_all_threads() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let permits = Arc::new(Semaphore::new(2));
        let hanging = Arc::new(std::sync::Barrier::new(3));
        let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let hang = || {
            let (hanging, begun) = (hanging.clone(), begun.clone());
            in_thread(&permits, move || {
                begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                hanging.wait();
                Ok(())
            })
        };
        runtime.block_on(async {
            for _ in 0..5 {
                let abandoned = tokio::time::timeout(Duration::from_millis(1), hang());
                assert!(abandoned.await.is_err());
            }
            // It goes on.
            tokio::task::spawn_blocking({
                let hanging = hanging.clone();
                move || hanging.wait()
            })
            .await
            .unwrap();
            assert!(in_thread(&permits, || Ok(())).await.is_ok());
        });
        assert_eq!(begun.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    /// However much is wanted at a time, patience is for a part of it.
    #[test]
    fn many_blocks_are_read_in_groups() {
        let lengths = |of: &[u64]| -> Vec<Vec<u64>> {
            let names: Vec<BlockName> = of
                .iter()
                .map(|&length| BlockName { checksum: Checksum([0; 16]), length })
                .collect();
            let groups = in_groups(&names, 10, 2);
            groups.map(|group| group.iter().map(|name| name.length).collect()).collect()
        };
        assert_eq!(lengths(&[]), [[0u64; 0]; 0]);
        assert_eq!(
            lengths(&[3, 6, 1, 9, 2, u64::MAX, u64::MAX, 5, 5, 1]),
            [&[3, 6, 1][..], &[9, 2], &[u64::MAX, u64::MAX], &[5, 5], &[1]]
        );
    }

    #[test]
    fn a_depot_that_hangs_is_left_alone() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let open = |patience| {
            let depot = Depot::open(
                runtime.handle().clone(),
                directory.path().to_str().unwrap(),
                CancellationToken::new(),
            )
            .unwrap();
            Depot { patience, ..depot }
        };
        // One answer comes, the others never do.
        let answers = |rest: &dyn Fn(&Depot) -> &Rest, depot: &Depot| {
            let mut answers = Vec::new();
            let answer = |i| async move { if i == 3 { i } else { std::future::pending().await } };
            depot.all(rest(depot), (0..100).map(answer), depot.patience, |i| answers.push(i));
            answers
        };
        let depot = open(Duration::from_millis(10));
        assert_eq!(answers(&|depot| &depot.writes, &depot), [3]);
        assert!(depot.writes.lasts() && !depot.reads.lasts());
        // It is not the depot's fault if there is no time.
        let depot = open(Duration::MAX);
        depot.stop.cancel();
        assert_eq!(answers(&|depot| &depot.reads, &depot), [3]);
        assert!(!depot.reads.lasts());
    }
}
