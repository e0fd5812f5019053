//! A depot: blocks in a directory that all workers share, or in an object store that speaks S3.
//!
//! A block is an object with its checksum as its name, and whoever reads it checks it against the
//! name that the coordinator gave; so nobody who can write to a depot can falsify anything. Blocks
//! never change and are put as a whole, any number of times. A depot may lack any block: what it
//! does not have comes from the coordinator.

use std::{fs, future::ready, io, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use object_store::{
    Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme, local::LocalFileSystem, path::Path,
};
use tokio::{runtime::Handle, time::sleep};
use tokio_util::sync::CancellationToken;
use trailtrap_shared::{
    game::Layout,
    partition::{Block, BlockError, BlockName, Checksum},
};
use url::Url;

use crate::supply::backoff::Rest;

/// Why a depot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    /// The text names neither a directory nor an object store that is supported.
    #[error("'{0}' is no depot: give a directory that all workers share, or s3://BUCKET/PREFIX")]
    Place(String),
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
    /// The depot is in an object store, and this program was built without the feature `s3`.
    #[error(
        "the depot {0} is in an object store, and this program was built without: build it with \
         `scripts/build build --release --workspace --locked --features s3`"
    )]
    NoS3(String),
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
    store: Arc<dyn ObjectStore>,
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

/// Objects that are put or got at a time.
const TOGETHER: usize = 16;

/// Operations that take longer are abandoned: a depot that is slower than the coordinator is of no
/// use.
const PATIENCE: Duration = Duration::from_secs(20);
/// A single request may take so long, with all attempts to repeat it.
#[cfg(feature = "s3")]
const REQUEST: Duration = Duration::from_secs(15);
/// When the worker is asked to stop, operations under way are abandoned after so long.
const GRACE: Duration = Duration::from_secs(1);

/// The name of a note that is left in every depot.
const NOTE_NAME: &str = "README.txt";
/// What somebody who comes across a depot should know.
const NOTE_TEXT: &str = "\
    Blocks of a census by trailtrap, under their checksums. All of this can be deleted at any \
    time, and should be when the census is done: what is missing is fetched from the \
    coordinator.\n";

impl Depot {
    /// The depot in a directory, given as path or `file:` URL, or in `s3://BUCKET/PREFIX`, with
    /// credentials, region and endpoint from the environment (`AWS_ACCESS_KEY_ID` …). Leaves a
    /// note there, as far as that is possible. When `stop` is cancelled, nothing waits for the
    /// depot any more.
    ///
    /// # Errors
    /// If the place is no depot, holds credentials, cannot be reached, or needs the feature `s3`.
    pub fn open(
        runtime: Handle,
        place: &str,
        stop: CancellationToken,
    ) -> Result<Self, DepotError> {
        let (store, place) = (store(place)?, place.to_owned());
        let (reads, writes) = (Rest::default(), Rest::default());
        let depot = Depot { runtime, store, place, stop, patience: PATIENCE, reads, writes };
        depot.put_all(std::iter::once((Path::from(NOTE_NAME), NOTE_TEXT.as_bytes())));
        Ok(depot)
    }

    /// Those of the blocks that are here and sound, in any order.
    pub fn get(&self, layout: Layout, names: &[BlockName]) -> Vec<Block> {
        let get = |&name: &BlockName| async move {
            // Another operation may have failed and begun a pause meanwhile.
            if self.reads.lasts() {
                return None;
            }
            match self.read(&name).await {
                Ok(bytes) => {
                    match bytes.and_then(|bytes| Block::parse_named(layout, bytes, &name)) {
                        Ok(block) => return Some(block),
                        Err(error) => {
                            let (depot, block) = (&self.place, path(&name.checksum));
                            tracing::warn!(depot, %block, %error, "a block in the depot is \
                                damaged; it is fetched again");
                        }
                    }
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => self.fail(&self.reads, &cause(&error)),
            }
            None
        };
        let mut blocks = Vec::with_capacity(names.len());
        self.all(&self.reads, names.iter().map(get), |block| blocks.extend(block));
        blocks
    }

    async fn read(&self, name: &BlockName) -> Result<Result<Vec<u8>, BlockError>, Error> {
        let found = self.store.get(&path(&name.checksum)).await?;
        // An object of another size is not that block, and may be too large to read.
        match found.meta.size == name.length {
            true => Ok(Ok(found.bytes().await?.into())),
            false => Ok(Err(BlockError::Name)),
        }
    }

    /// Puts blocks here, as far as that is possible, and returns the number of bytes put.
    pub fn put<'a>(&self, blocks: impl Iterator<Item = &'a Block>) -> u64 {
        self.put_all(blocks.map(|block| (path(&block.name().checksum), block.bytes())))
    }

    fn put_all<'a>(&self, objects: impl Iterator<Item = (Path, &'a [u8])>) -> u64 {
        let put = |(path, bytes): (Path, &'a [u8])| async move {
            if self.writes.lasts() {
                return 0;
            }
            match self.store.put(&path, bytes.to_vec().into()).await {
                Ok(_) => bytes.len() as u64,
                Err(error) => {
                    self.fail(&self.writes, &cause(&error));
                    0
                }
            }
        };
        let mut sum = 0;
        self.all(&self.writes, objects.map(put), |bytes| sum += bytes);
        sum
    }

    /// Does some of the operations at a time, until all are done, patience ends or the worker is
    /// asked to stop.
    fn all<F: Future>(
        &self,
        rest: &Rest,
        operations: impl Iterator<Item = F>,
        mut done: impl FnMut(F::Output),
    ) {
        let operations = stream::iter(operations).buffer_unordered(TOGETHER);
        let all = operations.for_each(|output| {
            done(output);
            ready(())
        });
        let stopped = async {
            self.stop.cancelled().await;
            sleep(GRACE).await;
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = all => {}
                () = stopped => {}
                () = sleep(self.patience) => {
                    self.fail(rest, &format!("not done within {:?}", self.patience));
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

fn path(checksum: &Checksum) -> Path {
    let name = checksum.to_string();
    Path::from_iter([&name[..2], &name])
}

fn store(place: &str) -> Result<Arc<dyn ObjectStore>, DepotError> {
    let unknown = || DepotError::Place(place.to_owned());
    // This comes before all other checks, whose messages repeat the place.
    if place.contains('@') && !std::path::Path::new(place).is_dir() {
        return Err(DepotError::Credentials);
    }
    if !place.contains("://") {
        return directory(place, place.as_ref());
    }
    let url = Url::parse(place).map_err(|_| unknown())?;
    match ObjectStoreScheme::parse(&url).map_err(|_| unknown())? {
        (ObjectStoreScheme::Local, _) => {
            directory(place, &url.to_file_path().map_err(|()| unknown())?)
        }
        (ObjectStoreScheme::AmazonS3, prefix) => bucket(place, prefix),
        _ => Err(unknown()),
    }
}

/// A bucket, with credentials, region and endpoint from the environment.
#[cfg(feature = "s3")]
fn bucket(place: &str, prefix: Path) -> Result<Arc<dyn ObjectStore>, DepotError> {
    use object_store::{
        BackoffConfig, ClientConfigKey, RetryConfig,
        aws::{AmazonS3Builder, AmazonS3ConfigKey},
        prefix::PrefixStore,
    };

    // The provider that gRPC uses too. Installing it fails if it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let backoff =
        BackoffConfig { max_backoff: Duration::from_secs(3), ..BackoffConfig::default() };
    let retry = RetryConfig { backoff, max_retries: 4, retry_timeout: REQUEST };
    let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
    let bucket = AmazonS3Builder::from_env()
        .with_url(place)
        .with_config(timeout, format!("{} seconds", REQUEST.as_secs()))
        .with_retry(retry)
        .build()
        .map_err(|error| unusable(place, cause(&error)))?;
    Ok(Arc::new(PrefixStore::new(bucket, prefix)))
}

#[cfg(not(feature = "s3"))]
fn bucket(place: &str, _prefix: Path) -> Result<Arc<dyn ObjectStore>, DepotError> {
    Err(DepotError::NoS3(place.to_owned()))
}

/// A directory that is there, whatever can be done in it.
fn directory(place: &str, path: &std::path::Path) -> Result<Arc<dyn ObjectStore>, DepotError> {
    let away = |why: String| DepotError::Away { place: place.to_owned(), why };
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(unusable(place, "it is no directory".to_owned()));
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Err(unusable(place, error.to_string()));
        }
        Err(error) => return Err(away(error.to_string())),
        Ok(_) => {}
    }
    Ok(Arc::new(LocalFileSystem::new_with_prefix(path).map_err(|error| away(cause(&error)))?))
}

fn unusable(place: &str, why: String) -> DepotError {
    DepotError::Unusable { place: place.to_owned(), why }
}

/// What went wrong, without what a server has to say about it: that may repeat what it was sent,
/// tokens included.
fn cause(error: &Error) -> String {
    match error {
        Error::NotFound { .. } => "there is no such place".to_owned(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            "access is denied; are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like right?"
                .to_owned()
        }
        other => {
            let text = other.to_string();
            text.split('<').next().unwrap_or_default().trim_end_matches([' ', ':']).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
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
            for place in [bad.display().to_string(), format!("file://{}", bad.display())] {
                assert!(
                    open(&place).starts_with(&format!("cannot use the depot {place}: ")),
                    "{}",
                    open(&place)
                );
            }
        }
        for place in ["gs://bucket/x", "s3://", "http://host/x", "://", "file://host/x"] {
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
            depot.all(rest(depot), (0..100).map(answer), |i| answers.push(i));
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
